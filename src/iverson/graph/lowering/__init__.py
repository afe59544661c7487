"""Lowering of graphs to programs: segments, rematerialisation, loops and branches, and the disk cache.

Of its siblings it may import `ir` and `native`.

- `graph_lowering`: cuts a graph into programs and library steps, and runs these in order.
- `lowering_formulas`: facts of graphs that differ in numbers alone, as formulas from one lowering.
- `disk_cache`: facts about lowered graphs on disk, keyed by the text of the graph.
- `padding`: programs for any number of stored entries up to a capacity.
- `program_segments`: one segment as a program: rounds of fused expressions, products and loops over buffers.
- `rematerialisation`: values that are computed again, where that is fewer bytes than to keep them.
- `copy_elision`: concatenation in place: parts of a result are computed in its buffer.
- `control_flow_steps`: loops and branches as native steps of a program.
"""
