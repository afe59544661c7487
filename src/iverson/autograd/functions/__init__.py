"""Custom ops: `Function`, an op with a hand-written derivative.

Import rule: besides packages of lower layers, the siblings `joint_ops`, `mode`, `node`,
`record` and `unrecorded_values`; of the modules below, each imports only those listed before it.

- `context`: the ``ctx`` of a call, with its saved tensors and declarations.
- `closure_arguments`: closure conversion, for calls in a trace or a batch.
- `function`: the class `Function`, and the node that each of its calls becomes.
"""
