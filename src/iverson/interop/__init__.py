"""Bridges to other libraries, to import on use: `torch` and `jax` need theirs, `scipy` needs no more.

Import rule: any package but `cli`; of the modules and sub-packages below, each imports only those listed
before it.

- `array_checks`: checks of arrays that leave or come in.
- `derivative_steps`: functions, their derivatives, transposes and batches, as steps of another library.
- `wrapped_calls`: calls of wrapped functions, and what they read from outside.
- `torch`: PyTorch, in both directions.
- `jax`: JAX, in both directions.
- `binsparse`: files in the Binsparse format.
- `einops`: tensors in einops.
- `scipy`: SciPy's functions and solvers, with derivatives.
- `sklearn`: scikit-learn's metrics as tensors, for a block.
- `entry_buffers`: buffers of tensors' entries, small ones joined.
- `messages`: pytrees of tensors as messages between processes.
- `dask`: losses and parameter tables on a cluster.
- `mpi`: differentiable collectives.
"""
