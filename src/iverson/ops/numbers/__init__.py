"""Ops that compute: elementwise, selections, reductions, scans, softmax and losses, Fourier transforms.

Import rule: in `ops` it imports `rules` alone; its modules have no import cycle.

- `elementwise_ops`: the functions of the table of scalars, and ``astype``.
- `selection_ops`: brackets, i.e. selections by a condition.
- `reduction_ops`: sums, products, norms and other reductions over axes.
- `scan_ops`: cumulative ops, linear recurrences, convolution of vectors.
- `neural_ops`: softmax and cross entropy.
- `fourier_ops`: discrete Fourier transforms.
"""
