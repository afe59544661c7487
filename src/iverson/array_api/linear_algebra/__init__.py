"""Linear algebra: products, decompositions and systems.

Import rule: besides packages of lower layers, the siblings `conventions`, `sparse_arrays`, `entries`,
`reduction` and `signals`; of the modules below, each imports only those listed before it.

- `contraction`: matmul, tensordot and other products that sum over shared axes.
- `einsum`: Einstein summation.
- `triangular`: systems with triangular matrices.
- `pseudoinverse`: the pseudoinverse and the rank.
- `systems`: systems by factors, in least squares, with structured matrices.
- `matrix_functions`: matrix exponential, root, logarithm and condition number.
- `decompositions`: the namespace `iverson.linalg`, with the decompositions.
"""
