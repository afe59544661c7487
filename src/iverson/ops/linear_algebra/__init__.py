"""Ops on matrices: products, solves, decompositions, eigenproblems and functions of matrices.

Import rule: in `ops` it imports `rules` alone; its modules have no import cycle.

- `product_ops`: the matrix product.
- `kronecker_ops`: the Kronecker product.
- `decomposition_ops`: solve, inverse, determinant, Cholesky, eigh, SVD, QR.
- `lu_ops`: LU with partial pivoting.
- `triangular_ops`: solves with triangular matrices.
- `toeplitz_ops`: solves with Toeplitz matrices.
- `spectral_ops`: full bases, pseudoinverse, general eigenproblem, eigenvalues and singular values alone.
- `matrix_function_ops`: exponential, square root, logarithm, Sylvester's equation.
- `krylov_ops`: solves and eigenpairs of large matrices by Krylov methods.
"""
