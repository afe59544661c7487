"""Data-parallel gradients of a loss: a local pass on each partition, and a tree reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import dask
import numpy as np
from dask.sizeof import sizeof
from distributed import Client, Future

import iverson as iv
from iverson.autograd.api import variable
from iverson.core import dtypes
from iverson.core.dispatch import alias, make_handle, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError, DTypeError, IversonError, ShapeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.shapes import check_choice
from iverson.handles import asarray
from iverson.interop.dask.broadcast import Broadcast, replica
from iverson.interop.dask.parameter_table import PartitionedTable, TableRows
from iverson.interop.dask.partial_sums import added, gradients_of, partial_of, scaled
from iverson.interop.dask.partitions import Partitions, client_of, waiting
from iverson.interop.messages import Packed, Tree, pack, summed, unpack
from iverson.layouts import Zero
from iverson.transforms.trees import flatten, tensors, unflatten

if TYPE_CHECKING:
    from optree import PyTreeSpec

    from iverson.handles import Tensor
    from iverson.handles.array import Array
    from iverson.interop.dask.partitions import Data

    #: A leaf of the parameters.
    Leaf: TypeAlias = Array | TableRows

#: A part of a collection, on a worker: an array, a list, a table, or what a delayed value is.
Part = TypeVar("Part")
NAME = "value_and_grad"
#: How many partial sums a task adds.
FAN_IN = 8
#: Bytes of what changed, for all partitions together, that are arguments of the passes over these: a task of
#: its own takes as long as a round trip.
IN_TASKS = 1 << 17

sizeof.register(Packed, lambda x: x.nbytes)


class ValueAndGrad:
    """Function of parameters and partitioned data: the result of `value_and_grad`."""

    def __init__(
        self,
        loss: Callable[..., Array],
        reduction: Literal["mean", "sum"] = "mean",
        *,
        client: Client | Literal[False] | None = None,
        timeout: float = 300.0,
    ) -> None:
        from cloudpickle import dumps

        check_choice(reduction, ("mean", "sum"), NAME, "reduction")
        self._client, self._timeout = client, timeout
        self._program = dumps((as_function(loss, NAME, "loss"), reduction))
        self._sent: tuple[Broadcast[_Message] | None, Client | None] = None, None
        self._mean = reduction == "mean"

    def __call__(self, params: Tree, data: Data) -> tuple[Tensor, Tree]:
        """The loss over all partitions, and its gradients: a tree like ``params``."""
        leaves, structure = flatten(params)
        leaves = _parameters(leaves)
        partitions = Partitions(data, NAME)
        client = client_of(self._client)
        broadcast = self._broadcast_to(client)
        storable = broadcast.update(leaves, structure)
        try:
            result = self._computed(client, broadcast, partitions)
        except Exception:
            for table in leaves:
                if isinstance(table, PartitionedTable):
                    table.check()
            raise
        partial = unpack(result, broadcast.known)
        if not partial.count:
            raise ArgumentError(
                NAME, "data", got="partitions without any example", expected="at least one example"
            )
        partial = scaled(partial, 1 / partial.count if self._mean else 1.0)
        gradients = gradients_of(partial, storable, broadcast.joint)
        every = [gradients[k] if k in gradients else _zero(x) for k, x in enumerate(leaves)]
        return asarray(np.asarray(partial.value)), unflatten(structure, every)

    def _broadcast_to(self, client: Client | None) -> Broadcast[_Message]:
        """`Broadcast` to the workers of ``client``: that of the last call, or a new one for another client or
        after a restart.
        """
        broadcast, to = self._sent
        if broadcast is None or to is not client or any(m.is_lost() for m in broadcast.messages()):
            broadcast = Broadcast(self._program, _Message)
            self._sent = broadcast, client
        return broadcast

    def _computed(self, client: Client | None, broadcast: Broadcast[_Message], data: Partitions) -> Packed:
        """Message with the sums over all partitions, from tasks that are run on the cluster.

        Small changes of the parameters are arguments of each task; large ones become tasks of their own.
        Raises TimedOutError if there is no result in time.
        """
        local, merged = (dask.delayed(f, pure=False) for f in (_local, _merged))
        start, *later = messages = broadcast.messages()
        loose = [m for m in later if m.task is None]
        is_large = sum(m.content.nbytes for m in loose) * len(data.parts) > IN_TASKS
        for m in (start, *(loose if is_large else ())):
            m.make_task()
        first, changes = start.task, [m.content if m.task is None else m.task for m in later]
        passes = [
            local(first, broadcast.past, changes, k, data.structure, list(parts))
            for k, parts in enumerate(data.parts)
        ]
        while len(passes) > 1:
            passes = [merged(first, passes[k : k + FAN_IN]) for k in range(0, len(passes), FAN_IN)]
        if client is None:
            (result,) = dask.compute(passes[0], scheduler="synchronous")
            return result  # type: ignore[no-any-return]
        new = [m for m in messages if m.task is not None and not isinstance(m.task, Future)]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            future, *futures = client.compute([passes[0], *(m.task for m in new)], sync=False)
        for message, task in zip(new, futures, strict=True):
            message.task, message.content = task, None
        purpose = f"the loss and its gradients over {len(data.parts)} partitions"
        try:
            with waiting(NAME, purpose, self._timeout):
                return future.result(timeout=self._timeout)  # type: ignore[no-any-return]
        except BaseException:
            future.cancel()
            raise


class _Message:
    """Message that tasks on workers read.

    content : the message, as long as it is an argument of the tasks.
    task : the delayed task that makes the message, or its future on the cluster; None while it is an
        argument.
    """

    def __init__(self, message: Packed) -> None:
        self.content: Any = message
        self.task: Any = None

    def make_task(self) -> None:
        """Make the message the result of a task, so that it is sent to the cluster once instead of with each
        task.
        """
        if self.task is None:
            self.task = dask.delayed(_as_it_is, pure=False)(self.content)

    def is_lost(self) -> bool:
        """True if the scheduler has no task of the message any more, as after a restart."""
        return isinstance(self.task, Future) and self.task.cancelled()


def value_and_grad(
    loss: Callable[..., Array],
    reduction: Literal["mean", "sum"] = "mean",
    *,
    client: Client | Literal[False] | None = None,
    timeout: float = 300.0,
) -> ValueAndGrad:
    """A function of parameters and partitioned data that returns the loss over all data, and its gradients.

    Parameters
    ----------
    loss : ``loss(params, part)``, one number. ``part`` has the structure of ``data``, with a partition in
        place of each collection: a Tensor for one of a dask array, a list for one of a bag, a DataFrame, or
        what a delayed value is. `iverson.jit` makes it a compiled local step.
    reduction : "mean", where ``loss`` is a mean over the examples of a part: parts weigh as many as they
        have; or "sum". How many examples a part has is its length. A part without any is not evaluated.
    client : of ``distributed``; by default the current one. Without any, and with False, partitions are
        taken one by one in this process.
    timeout : seconds that a call may take.

    Returns
    -------
    A function of ``params``, a tree of tensors, and ``data``, a dask array (partitions are along its first
    axis), bag or dataframe, a list of delayed partitions, or a tuple or dict of these. It returns the loss
    and a tree of gradients, each in the layout that the derivative has: rows stay rows, and what does not
    depend on a parameter is in the zero layout. Partial sums are added in a tree of fixed shape, so that
    results do not depend on how many workers there are. Parameters go to workers once, then only the rows of
    them that changed.

    A worker that dies costs its part of the work again, by Dask. Raises TimedOutError after the timeout,
    ArgumentError for a partition whose examples fail, with its number and that of the row, DTypeError for
    parameters without a derivative, ShapeError for a loss of several numbers.

    >>> import dask.array as da, iverson as iv
    >>> step = value_and_grad(lambda w, x: ((x @ w) ** 2).mean())
    >>> value, gradient = step(iv.asarray([1.0, 2.0]), da.ones((6, 2), chunks=(4, 2)))
    >>> value, gradient
    (iverson.Tensor(9.), iverson.Tensor([6., 6.]))
    """
    return ValueAndGrad(loss, reduction, client=client, timeout=timeout)


def _parameters(leaves: Sequence[Leaf]) -> list[Leaf]:
    tables = {k: x for k, x in enumerate(leaves) if isinstance(x, TableRows)}
    parameters = tensors([0.0 if k in tables else x for k, x in enumerate(leaves)], NAME, "params")
    if not all(map(dtypes.is_inexact, {x.dtype for x in parameters})):
        k, dtype = next((k, x.dtype) for k, x in enumerate(parameters) if not dtypes.is_inexact(x.dtype))
        raise DTypeError(NAME, "params", got=f"leaf {k} of dtype {dtype}", expected="floating tensors")
    for k, x in tables.items():
        parameters[k] = x
    return parameters


def _as_it_is(message: Packed) -> Packed:
    return message


# --- on workers -------------------------------------------------------------------------------------


def _local(
    first: Packed,
    past: int,
    changes: Sequence[Packed],
    index: int,
    structure: PyTreeSpec,
    parts: Sequence[Part],
) -> Packed:
    """Message with the `Partial` of one partition: the number of examples, the sum of losses, and gradients.

    first, past, changes : messages of the `Broadcast`. index : the number of the partition, for errors.
    structure, parts : the tree of the collections, and the part of each of them in this partition.
    """
    state = replica(first)
    program, reduction = state.program
    leaves = [x.fresh() if isinstance(x, TableRows) else x for x in state.leaves(past, changes)]
    count = _examples(index, parts)
    if not count:
        return pack(partial_of(0, 0.0, {}, state.kinds, state.joint))
    variables = [x if isinstance(x, TableRows) else rewrap(x, variable(value_of(unwrap(x)))) for x in leaves]
    aliases = [x if isinstance(x, TableRows) else rewrap(x, alias(unwrap(x))) for x in variables]
    params = unflatten(state.structure, aliases)

    def run(examples: Sequence[Part]) -> Array:
        loss: Callable[..., Array] = program
        return loss(params, unflatten(structure, [_tensor(x) for x in examples]))

    value = _value(run, index, parts, variables)
    weight = count if reduction == "mean" else 1
    gradients = _gradients(value, asarray(np.asarray(weight, value.dtype)), variables)
    return pack(partial_of(count, value.item() * weight, gradients, state.kinds, state.joint), state.known)


def _merged(first: Packed, partial: Sequence[Packed]) -> Packed:
    state = replica(first)
    parts = [unpack(p, state.known) for p in partial]
    return pack(added(parts, state.like, state.kinds, state.joint), state.known)


def _gradients(value: Tensor, weight: Tensor, leaves: Sequence[Leaf]) -> dict[int, Array]:
    """Gradients of ``value`` times ``weight`` by leaf numbers; those in rows have each row once.

    The map is empty if ``value`` depends on no leaf.
    """
    if not value.requires_grad:
        return {}
    variables = [x.leaves() if isinstance(x, TableRows) else (x,) for x in leaves]
    gradients: Iterator[Tensor] = iter(iv.autograd.grad(value, list(chain.from_iterable(variables)), weight))
    return {
        k: x.gradient(list(islice(gradients, len(inputs))))
        if isinstance(x, TableRows)
        else _once(next(gradients))
        for k, (x, inputs) in enumerate(zip(leaves, variables, strict=True))
    }


def _once(g: Array) -> Array:
    return g if type(value_of(g, None)) is np.ndarray else summed([g])


def _zero(x: Leaf) -> Array:
    zero: Array = rewrap(x, make_handle(Zero(unwrap(x).shape, x.dtype)))
    return zero


def _tensor(part: Part) -> Part | Tensor:
    if isinstance(part, np.ndarray) and part.dtype in dtypes.ALL:
        return asarray(np.require(part, requirements="A"))
    return part


def _examples(index: int, parts: Sequence[Part]) -> int:
    counts = {len(part) if hasattr(part, "__len__") else 1 for part in parts}
    if len(counts) > 1:
        raise ArgumentError(
            NAME,
            "data",
            got=f"partition {index}, of {' and '.join(map(str, sorted(counts)))} examples",
            expected="as many in each collection",
        )
    return int(counts.pop())


def _value(
    run: Callable[[Sequence[Part]], Array], index: int, parts: Sequence[Part], variables: Sequence[Leaf]
) -> Tensor:
    """Loss of one partition; raises ArgumentError that names the row whose loss fails or is not finite.

    run : the loss as a function of the parts. index : the number of the partition. variables : the
        parameters; if they are not finite themselves, no row is searched for.
    """
    try:
        value = run(parts)
    except Exception as error:
        raise _failed(index, _first_bad(run, parts), error) from error
    if isinstance(value, iv.MaskedTensor):
        value = value.to_tensor(0.0)
    if not isinstance(value, iv.Tensor) or value.shape != ():
        kind = ShapeError if isinstance(value, iv.Tensor) else ArgumentError
        raise kind(NAME, "loss", got=described(value), expected="one number, a Tensor of shape ()")
    if not np.isfinite(value.item()) and _are_finite(variables):
        row = _first_bad(run, parts)
        if row is not None:
            raise _failed(index, row, f"a loss of {value.item()}")
    return value


def _are_finite(leaves: Sequence[Leaf]) -> bool:
    return all(iv.isfinite(unwrap(x).detach()).all() for x in leaves if not isinstance(x, TableRows))


def _failed(index: int, row: int | None, cause: Exception | str) -> IversonError:
    where = f"partition {index}" if row is None else f"partition {index}, row {row}"
    text = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else str(cause)
    return ArgumentError(NAME, "data", got=f"{where}: {text}", expected="examples with a finite loss")


def _first_bad(run: Callable[[Sequence[Part]], Array], parts: Sequence[Part]) -> int | None:
    """Number of the first row that fails by itself, by bisection; None if there is none or a half fails only
    as a whole.
    """
    start, stop = 0, len(parts[0]) if hasattr(parts[0], "__len__") else 0
    if not _is_bad(run, parts, start, stop):
        return None
    while stop - start > 1:
        middle = (start + stop) // 2
        if _is_bad(run, parts, start, middle):
            stop = middle
        elif _is_bad(run, parts, middle, stop):
            start = middle
        else:
            return None
    return start


def _rows(part: Part, start: int, stop: int) -> Part:
    rows: Any = getattr(part, "iloc", part)
    between: Part = rows[start:stop]
    return between


def _is_bad(run: Callable[[Sequence[Part]], Array], parts: Sequence[Part], start: int, stop: int) -> bool:
    """Return True if the loss of the rows from ``start`` to ``stop`` raises an error or is not finite."""
    try:
        value = run([_rows(part, start, stop) for part in parts])
        return not np.isfinite(value.item())
    except Exception:
        return True


__all__ = ["ValueAndGrad", "value_and_grad"]
