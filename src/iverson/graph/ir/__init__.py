"""Graph IR: graphs as data, with their text, verifier and interpreter, and the ops that only graphs have.

It imports no other sub-package of `graph`.

- `nodes`: the grammar on one page, and its classes: graphs, equations, values.
- `operations`: ops that only graphs have: pullback regions, sums of cotangents, calls of Functions, draws.
- `entry_ops`: ops on the entries and index arrays of sparse values: products, reads, segment reductions.
- `derivative_interface`: cotangents and tangents that enter and leave the graph of a derivative.
- `dtype_inference`: dtypes of results whose shapes are not known, and pullbacks that wait for shapes.
- `pattern_binding`: pattern symbols of a graph, and the actual patterns that a call binds to them.
- `regions`: equations moved into a graph of their own and back, inlined bodies, substituted values.
- `graph_maps`: which entries of a graph's outputs depend on which of its inputs.
- `dead_code`: dead-code elimination.
- `verify`: the rules of a well-formed graph, executable.
- `interpret`: evaluation op by op, the oracle of passes and programs.
- `print`: graphs as text.
- `parse`: the graph of a text.
- `graph_templates`: graphs without their numbers, and with these as inputs.
"""
