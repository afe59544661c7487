"""Ops that move, choose or order entries.

Import rule: in `ops` it imports `rules` and `numbers`; its modules have no import cycle.

- `shape_ops`: reshape, permutation, joining, diagonals, triangles; sums of operands of one shape.
- `indexing_ops`: basic and integer indexing, their adjoints, assignment.
- `packing_ops`: entries picked by a mask.
- `pattern_ops`: tensors and the values stored on a pattern; conversion of layouts.
- `sorting_ops`: sort, argsort, searchsorted.
- `extremum_ops`: max, min, argmax, argmin over axes.
- `segment_ops`: maximum and softmax over segments.
"""
