"""Tensor expressions as ops: the record, entry map, batching and derivatives of an op in index notation.

Import rule: it imports any other sub-package of `te`, and none of them imports it; its modules have no
import cycle.

- `operator`: `te.op`, a Python function of placeholders as an op; type checkers read `op_signature.pyi`.
- `point_relations`: which entries of a program's outputs depend on which of its inputs, point by point.
- `index_maps`: the entry map of a program, for demand and support.
- `example_axis`: batching, an axis for the examples.
- `box_restriction`: the part of a program that writes a box of a tensor.
- `selected_inputs`: a program with entries of one input left out.
- `preferred_rules`: derived rules in place of hand-written ones of the op table.
"""
