"""Scheduling: tasks become loop nests, with a choice of loop order, lanes, tiles, fusion and threads.

Of its siblings it may import `nests` and `runtime`.

- `exact_walks`: loop nests of tasks, over boxes or along exact loops that elimination found.
- `loop_schedule`: the choice of loop order, vector axis, tiles and threads for one task.
- `operand_packing`: operands copied with another axis last, so that a reduction runs in lanes.
- `axis_collapsing`: adjacent axes of elementwise tasks as one axis.
- `blas_contraction`: tasks that are matrix products, run by BLAS.
- `loop_fusion`: two phases over the same loops as one.
- `epilogues`: elementwise work on a reduction's result, done while that is in a register.
- `row_tiling`: phases over the same rows as one loop over blocks of rows.
- `parallel_scatter`: ways for threads to run iterations that may write the same entries.
- `code_size`: fewer copies of loop bodies where these seldom run.
- `visit_counts`: counts of iterations and bytes, for reports.
"""
