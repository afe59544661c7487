"""Sparse lowering: graphs on sparse values become graphs on their entries and index arrays.

Of its siblings it may import `ir`, `passes`, `native` and `lowering`.

- `sparse_lowering`: the pass, and its rules: the ops on sparse values that are native, and how.
- `lowering_state`: the state of the pass: the graph in the making, and the entries of its values.
- `line_reductions`: rules for sums, products, extrema and norms along axes.
- `sampled_products`: rules for entries of a product at the places of a pattern, or of index arrays.
- `sparse_control_flow`: rules for loops and branches whose operands or carries are sparse.
- `calling_convention`: inputs and outputs of the new graph, computed from the sparse values of a call.
"""
