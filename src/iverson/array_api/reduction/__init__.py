"""Reductions: sums, extrema, norms, order statistics and segments.

Import rule: besides packages of lower layers, the siblings `conventions` and `entries`; of the modules below,
each imports only those listed before it.

- `reductions`: sums, products, extrema, means, variances and scans.
- `norms`: norms of vectors and matrices.
- `segments`: embeddings, and reductions over segments of slices.
- `order_statistics`: quantiles, the largest entries, running extrema, filling forward and backward.
- `nan_functions`: functions that skip or replace nan.
"""
