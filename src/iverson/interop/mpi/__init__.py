"""MPI: sums of gradients and exchanges of rows between processes, as differentiable ops.

What is sparse moves as it is stored. Every process has to make the same calls in the same order, those of
derivatives included, as MPI wants it.

Import rule: besides packages of lower layers, the siblings `entry_buffers` and `messages`; of the modules
below, each imports only those listed before it.

- `ranks`: calls with a deadline between the ranks of a communicator.
- `reduce`: sums of the leaves of a pytree over processes.
- `collectives`: differentiable collectives.
- `gradient_buckets`: sums of gradients during the backward pass.
"""

from __future__ import annotations

try:
    from mpi4py import MPI  # noqa: F401
except (ImportError, RuntimeError) as error:
    raise ImportError(
        "iverson.interop.mpi needs a package of the system (openmpi-bin), and pip install mpi4py"
    ) from error

from iverson.interop.mpi.collectives import all_gather, all_to_all_rows, allreduce, reduce_scatter
from iverson.interop.mpi.gradient_buckets import Buckets

__all__ = ["Buckets", "all_gather", "all_to_all_rows", "allreduce", "reduce_scatter"]
