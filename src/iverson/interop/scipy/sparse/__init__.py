"""`scipy.sparse.linalg` and `scipy.sparse.csgraph` on tensors.

Import rule: packages of lower layers; the modules do not import each other.

- `linalg`: systems, eigenvalues and singular values of sparse matrices.
- `csgraph`: Laplacians, distances and trees of weighted graphs.
"""
