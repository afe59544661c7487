"""Distributions that `iverson.interop.scipy.stats` makes on use.

Import rule: packages of lower layers; the modules do not import each other.

- `scipy_formulas`: families by SciPy's own formulas.
- `vector_families`: families of vectors and matrices.
"""
