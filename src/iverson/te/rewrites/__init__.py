"""Rewrites of programs into programs with the same meaning: inlining, sharing, tables, blocks, index digits.

Import rule: in `te` it imports `ir` alone; its modules have no import cycle.

- `common_tensors`: tensors with equal definitions are computed once.
- `formulas`: a function without machine code is computed as the body of its record is.
- `lookup_tables`: expensive functions of a few indices are computed once.
- `pieces`: a stage defined in pieces, as functions of an entry's indices.
- `inlining`: stages are computed where they are read.
- `fold_chunks`: long folds with few results, as folds of chunks.
- `axis_blocks`: large temporaries are computed block by block along an axis.
- `mixed_radix`: axes that are divided by constants become digits.
- `prefix_sums`: sums over all earlier indices become recurrences.
"""
