"""Sparse tensors: construction, conversion, factorisation, and exchange with SciPy.

Import rule: besides packages of lower layers, the sibling `conventions`; of the modules below, each imports
only those listed before it.

- `patterns`: checked patterns from the index arrays that users pass.
- `sparse_construction`: constructors, conversions and the stored entries of sparse tensors.
- `factorized`: sparse LU factors, to solve with many right-hand sides.
- `scipy_conversion`: exchange with SciPy's sparse arrays.
"""
