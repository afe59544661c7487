"""Sparse kernels: the bodies of ops on the COO and compressed layouts.

Import rule: in `kernels` it imports `array_ops`, `entry_rules`, `kernel_registry`, `line_rules` and
`index_keys`; its modules have no import cycle.

- `sparse_operands`: operands read at a pattern, broadcasting, and moved coordinates, which the kernels share.
- `merging`: unions and intersections of patterns.
- `broadcast_patterns`: where a pattern's entries go when its array is broadcast.
- `sparse_conversion`: conversion between tensors, values on a pattern, and layouts.
- `sparse_elementwise`: elementwise functions and sums.
- `sparse_moves`: ops that move, select, join or sum stored entries.
- `sparse_slices`: boxes and lines of CSR and CSC matrices, cut out and put back.
- `sparse_assignments`: writes into a copy of a sparse tensor.
- `sparse_reductions`: extrema, products, norms and deviations along axes.
- `sparse_products`: matrix products, sampled products and solves.
- `sparse_batches`: products of batches of matrices.
- `sampled_sparse_products`: a sparse-sparse product at the entries of a third matrix.
- `sparse_kron`: Kronecker products.
- `sparse_factors`: LU factors, cached by pattern and values.
- `sparse_loops`: calls of the compiled loops over stored entries.
- `entry_loops`: these loops themselves, in index notation or as loop nests.
"""
