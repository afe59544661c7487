"""Dask: losses over collections that do not fit one machine, and tables of parameters that do not.

Programs run on whatever cluster the current ``distributed.Client`` belongs to, and without one in this
process. What travels is what a gradient's layout stores: rows, patterns, specified entries. Tensors travel
as buffers, without a copy, by the pickles of Python; a pattern that several share travels once and is one
object where they arrive.

Import rule: besides packages of lower layers, the siblings `entry_buffers` and `messages`; of the modules
below, each imports only those listed before it.

- `partitions`: collections as lists of partitions, and waits for other processes.
- `blocks`: arrays whose blocks are tensors.
- `broadcast`: parameters sent to workers.
- `worker_rows`: the rows of a parameter table on a worker.
- `parameter_table`: look-ups in a table of rows on workers, and steps on them.
- `partial_sums`: partial sums of a loss and its gradients.
- `gradients`: `value_and_grad` over partitions.
"""

from __future__ import annotations

try:
    import dask  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError('iverson.interop.dask needs Dask: pip install "iverson[dask]"') from error

from iverson.interop.dask.blocks import from_dask, map_blocks, map_blocks_vjp, matmul, to_dask
from iverson.interop.dask.gradients import ValueAndGrad, value_and_grad
from iverson.interop.dask.parameter_table import PartitionedTable
from iverson.interop.dask.partitions import partitions

__all__ = [
    "PartitionedTable",
    "ValueAndGrad",
    "from_dask",
    "map_blocks",
    "map_blocks_vjp",
    "matmul",
    "partitions",
    "to_dask",
    "value_and_grad",
]
