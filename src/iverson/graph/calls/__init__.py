"""Calls of compiled graphs: each graph is one op, whose derivatives are compiled graphs too.

Of its siblings it may import `ir`, `derivatives`, `passes`, `lowering` and `sparse`.

- `compiled_ops`: compiled graphs as ops, variants of their derivatives, copies of donated inputs.
- `executable`: the program that runs for a graph, with the conversion of a call's values for it.
- `cotangent_flags`: undefined cotangents as zeros with flags, for programs.
- `compilation_log`: which graphs were compiled, and why.
"""
