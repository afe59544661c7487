"""Truncated Taylor series: derivatives of any order at polynomial cost.

Import rule: besides packages of lower layers, the siblings `trees`, `batching` and `derivatives`; of the
modules below, each imports only those listed before it.

- `curves`: the curves of a Laplacian, and which of them share one.
- `apolar`: the algebra of a differential operator, which says what of each coefficient matters.
- `polynomials`: coefficients in such an algebra.
- `series_level`: the level whose values are series, and how the coefficients of a call follow.
- `control_series`: conditionals and loops on series.
- `taylor`: `jet` and `derivatives`.
- `laplacians`: `laplacian`, `biharmonic` and `differential_operator`.
"""
