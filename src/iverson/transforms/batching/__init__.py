"""`vmap`: a function of one example as a function of a batch of examples.

Import rule: besides packages of lower layers, the sibling `trees`; of the modules below, each imports only
those listed before it.

- `function_batching`: custom Functions on a batch.
- `batch_level`: the level that carries out ops on all examples at once.
- `control_batches`: conditionals and loops on a batch.
- `mapping`: `vmap` itself, over pytrees and in chunks.
"""
