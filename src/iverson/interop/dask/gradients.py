"""A loss over partitions: the local pass on each, and the reduction by a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import dask
import numpy as np
from dask.sizeof import sizeof
from distributed import Client

import iverson as iv
from iverson.core import dtypes
from iverson.core.arguments import as_function
from iverson.core.dispatch import alias, make_handle, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError, DTypeError, IversonError, ShapeError, described
from iverson.core.shapes import check_choice
from iverson.interop.dask.broadcast import Broadcast, replica
from iverson.interop.dask.partitions import Partitions, client_of, waiting
from iverson.interop.dask.table import PartitionedTable, TableRows
from iverson.interop.packing import Packed, pack, summed, unpack
from iverson.layouts import Zero, layout_of
from iverson.tensor import asarray
from iverson.transforms.trees import flatten, tensors, unflatten

NAME = "value_and_grad"
#: How many partial sums a task adds.
FAN_IN = 8

sizeof.register(Packed, lambda x: x.nbytes)


class ValueAndGrad:
    """What `value_and_grad` returns: a function of parameters and partitioned data."""

    def __init__(
        self,
        loss: Callable[..., Any],
        reduction: Literal["mean", "sum"] = "mean",
        *,
        client: Client | Literal[False] | None = None,
        timeout: float = 300.0,
    ) -> None:
        from cloudpickle import dumps

        check_choice(reduction, ("mean", "sum"), NAME, "reduction")
        self._client, self._timeout = client, timeout
        self._broadcast = Broadcast(dumps((as_function(loss, NAME, "loss"), reduction)), self._sent)
        self._mean = reduction == "mean"

    def __call__(self, params: Any, data: Any) -> tuple[Any, Any]:
        """The loss over all partitions, and its gradients: a tree like ``params``."""
        leaves, structure = flatten(params)
        leaves = [_parameter(k, x) for k, x in enumerate(leaves)]
        found = Partitions(data, NAME)
        messages, known = self._broadcast.messages(leaves, structure)
        local, merged = (dask.delayed(f, pure=False) for f in (_local, _merged))
        passes = [
            local(messages[0], messages[1:], k, found.structure, list(parts))
            for k, parts in enumerate(found.parts)
        ]
        while len(passes) > 1:
            passes = [merged(messages[0], passes[k : k + FAN_IN]) for k in range(0, len(passes), FAN_IN)]
        try:
            result = self._computed(passes[0], len(found.parts))
        except Exception:
            for table in leaves:
                if isinstance(table, PartitionedTable):
                    table.check()
            raise
        count, value, gradients = unpack(result, known)
        if not count:
            raise ArgumentError(
                NAME, "data", got="partitions without any example", expected="at least one example"
            )
        scale = 1 / count if self._mean else 1.0
        gradients = [rewrap(x, _scaled(unwrap(g), scale)) for x, g in zip(leaves, gradients, strict=True)]
        return asarray(np.asarray(value * scale)), unflatten(structure, gradients)

    def _sent(self, message: Packed) -> Any:
        client = client_of(self._client)
        if client is None:
            return message
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return client.submit(_as_it_is, message, pure=False)

    def _computed(self, root: Any, count: int) -> Packed:
        client = client_of(self._client)
        if client is None:
            (found,) = dask.compute(root, scheduler="synchronous")
            return found  # type: ignore[no-any-return]
        future = client.compute(root, sync=False)
        try:
            with waiting(NAME, f"the loss and its gradients over {count} partitions", self._timeout):
                return future.result(timeout=self._timeout)  # type: ignore[no-any-return]
        except BaseException:
            future.cancel()
            raise


def value_and_grad(
    loss: Callable[..., Any],
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


def _scaled(x: Any, scale: float) -> Any:
    """A tensor times a number, without a call of an op for each of many parameters."""
    value = value_of(x)
    layout = layout_of(value)
    buffers = layout.buffers(value)
    if not buffers or scale == 1:
        return x
    return make_handle(
        layout.rebuild(value, (*buffers[:-1], np.asarray(buffers[-1] * buffers[-1].dtype.type(scale))))
    )


def _parameter(k: int, x: Any) -> Any:
    if isinstance(x, TableRows):
        return x
    (x,) = tensors([x], NAME, "params")
    if not dtypes.is_inexact(x.dtype):
        raise DTypeError(NAME, "params", got=f"leaf {k} of dtype {x.dtype}", expected="floating tensors")
    return x.detach()


def _as_it_is(message: Packed) -> Packed:
    return message


# --- on workers -------------------------------------------------------------------------------------


def _local(
    first: Packed, changes: Sequence[Packed], index: int, structure: Any, parts: Sequence[Any]
) -> Packed:
    """How many examples a partition has, the sum of their losses, and its gradients."""
    held = replica(first)
    loss, reduction = held.program
    leaves = [x.fresh() if isinstance(x, TableRows) else x for x in held.leaves(changes)]
    count = _examples(index, parts)
    if not count:
        return pack((0, 0.0, [rewrap(x, _zero(unwrap(x))) for x in leaves]), held.known)
    given = [x if isinstance(x, TableRows) else x.requires_grad_() for x in leaves]
    params = unflatten(
        held.structure, [x if isinstance(x, TableRows) else rewrap(x, alias(unwrap(x))) for x in given]
    )

    def run(some: Sequence[Any]) -> Any:
        return loss(params, unflatten(structure, [_tensor(x) for x in some]))

    value = _value(run, index, parts, given)
    weight = count if reduction == "mean" else 1
    gradients = _gradients(value, asarray(np.asarray(weight, value.dtype)), given)
    return pack((count, value.item() * weight, gradients), held.known)


def _merged(first: Packed, partial: Sequence[Packed]) -> Packed:
    known = replica(first).known
    counts, values, gradients = zip(*(unpack(p, known) for p in partial), strict=True)
    return pack((sum(counts), sum(values), [summed(terms) for terms in zip(*gradients, strict=True)]), known)


def _gradients(value: Any, weight: Any, given: Sequence[Any]) -> list[Any]:
    variables = [x.leaves() if isinstance(x, TableRows) else [x] for x in given]
    flat = [x for own in variables for x in own]
    found = iter(
        iv.autograd.grad(value, flat, weight)
        if value.requires_grad
        else [rewrap(x, _zero(unwrap(x))) for x in flat]
    )
    of_each = [[next(found) for _ in own] for own in variables]
    return [
        x.gradient(g) if isinstance(x, TableRows) else summed(g) for x, g in zip(given, of_each, strict=True)
    ]


def _zero(x: Any) -> Any:
    return make_handle(Zero(x.shape, x.dtype))


def _tensor(part: Any) -> Any:
    if isinstance(part, np.ndarray) and part.dtype in dtypes.ALL:
        return asarray(np.require(part, requirements="A"))
    return part


def _examples(index: int, parts: Sequence[Any]) -> int:
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
    run: Callable[[Sequence[Any]], Any], index: int, parts: Sequence[Any], variables: Sequence[Any]
) -> Any:
    """The loss of a partition; raises ArgumentError that says which row is at fault where one is."""
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


def _are_finite(leaves: Sequence[Any]) -> bool:
    return all(iv.isfinite(unwrap(x).detach()).all() for x in leaves if not isinstance(x, TableRows))


def _failed(index: int, row: int | None, what: Any) -> IversonError:
    where = f"partition {index}" if row is None else f"partition {index}, row {row}"
    said = f"{type(what).__name__}: {what}" if isinstance(what, Exception) else str(what)
    return ArgumentError(NAME, "data", got=f"{where}: {said}", expected="examples with a finite loss")


def _first_bad(run: Callable[[Sequence[Any]], Any], parts: Sequence[Any]) -> int | None:
    """The first row by itself at fault, found by halves; None where no half is."""
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


def _is_bad(run: Callable[[Sequence[Any]], Any], parts: Sequence[Any], start: int, stop: int) -> bool:
    try:
        value = run([getattr(part, "iloc", part)[start:stop] for part in parts])
        return not np.isfinite(value.item())
    except Exception:
        return True


__all__ = ["ValueAndGrad", "value_and_grad"]
