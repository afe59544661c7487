"""Jacobians: the entries that may be nonzero, and few passes that compute all of them.

Import rule: besides packages of lower layers, the sibling `batching`; of the modules below, each imports only
those listed before it.

- `dependence`: the entries of inputs that each entry of an output depends on.
- `grouping`: columns that share no row, in groups (Curtis, Powell and Reid).
- `unit_vector_passes`: pullbacks and pushforwards of many unit vectors at once.
- `sparse_jacobian`: the plan of the passes, and the blocks they give.
"""
