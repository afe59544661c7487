"""`vmap`: a function of one example as a function of many, which are computed together (`batch`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from iverson.core.arguments import checked
from iverson.core.dispatch import Operand, Wrapper, alias, is_tracked, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError, AxisError, ShapeError
from iverson.core.shapes import as_int, normalize_axis
from iverson.kernels.keys import canonical_slice
from iverson.ops import F
from iverson.transforms.batch import Batch, Batched, chunk, joined
from iverson.transforms.trees import tensors

P = ParamSpec("P")


@checked
def vmap(
    function: Callable[P, Any], in_axes: Any = 0, out_axes: Any = 0, chunk_size: int | None = None
) -> Callable[P, Any]:
    """A function of arrays with an axis of examples, from a function of one example.

    The result is that of a loop over the examples whose results are stacked, computed by operations on all
    examples at once.

    Parameters
    ----------
    function : takes and returns pytrees of tensors.
    in_axes : along which axis of each argument the examples are: an integer for all, or a tuple with an entry
        for each argument, which is an integer, None for what is the same for all examples, or a pytree of
        these like the argument, or like the upper part of it. Keyword arguments are the same for all.
    out_axes : likewise, where the axis of the examples stands in each result. None: it is the same for all
        examples and has no such axis. A result that does not depend on the example is repeated.
    chunk_size : how many examples are computed together at most, to save memory; all, by default.

    In the function, a tensor has the shape of one example and no entries to read: a branch on one, and its
    conversion to a number, raise GraphError. Random draws of `iverson.random` differ from example to example,
    unless their generator is made inside. Gradients go through the mapped function, and `grad`, `jvp`, `jit`
    and `vmap` may stand inside it.

    Raises, at the call, ShapeError unless all arguments have as many examples, AxisError for an axis that an
    argument does not have, and ArgumentError for ``in_axes`` or ``out_axes`` that do not fit.

    >>> import iverson as iv
    >>> x = iv.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> vmap(lambda row: row @ row)(x)
    iverson.Tensor([ 5., 25.])
    >>> loss = lambda w, row: (w @ row) ** 2
    >>> vmap(iv.grad(loss), (None, 0))(iv.asarray([1.0, 0.0]), x)  # a gradient for each example
    iverson.Tensor([[ 2.,  4.],
                    [18., 24.]])
    """
    step = chunk(chunk_size, "vmap")
    axes_of = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = _flattened(args)
        axes = _prefix(axes_of, args, "in_axes")
        mapped = [_Mapped(leaves[k], n, k) for k, n in enumerate(axes) if n is not None]
        size = _size(mapped)
        chunks = [
            _of_chunk(function, leaves, structure, kwargs, mapped, out_axes, start, min(start + n, size))
            for n in (step or max(size, 1),)
            for start in range(0, max(size, 1), n)
        ]
        places, out_structure = chunks[0][1:]
        parts = zip(*(results for results, *_ in chunks), strict=True)
        return _unflattened(out_structure, [_joined(p, n) for p, n in zip(parts, places, strict=True)])

    return call


def _of_chunk(
    function: Any, leaves: Any, structure: Any, kwargs: Any, mapped: Any, out_axes: Any, start: int, stop: int
) -> tuple[list[Any], list[int | None], Any]:
    """The results for some examples, with the axes they are to get and the structure they have."""
    with Batch(stop - start) as level:
        own = [_same_for_all(level, x) for x in leaves]
        for m in mapped:
            own[m.position] = level.of_examples(m.part(start, stop))
        out = function(*_unflattened(structure, own), **kwargs)
        results, out_structure = _flattened(out)
        places = _prefix(out_axes, out, "out_axes")
        found = [_left(level, r, n) for r, n in zip(results, places, strict=True)]
    return found, places, out_structure


class _Mapped:
    """A leaf with examples, in front."""

    __slots__ = ("held", "position")

    def __init__(self, leaf: Any, axis: Any, position: int) -> None:
        (x,) = tensors([leaf], "vmap", "arguments")
        if not x.ndim:
            raise AxisError(
                "vmap",
                "in_axes",
                got=f"{axis} for leaf {position}, which has no axes",
                expected="None, for what is the same for all examples",
            )
        axis = normalize_axis(axis, x.ndim, "vmap", "in_axes")
        self.held = _moved(alias(x), axis, 0)
        self.position = position

    @property
    def size(self) -> int:
        return self.held.shape[0]  # type: ignore[no-any-return]

    def part(self, start: int, stop: int) -> Any:
        """Some of the examples."""
        if (start, stop) == (0, self.size):
            return self.held
        key = (slice(start, stop, 1), *(canonical_slice(slice(None), n) for n in self.held.shape[1:]))
        return F.index_basic(self.held, key=key)


def _moved(x: Any, start: int, stop: int) -> Any:
    """x with an axis moved."""
    order = [k for k in range(x.ndim) if k != start]
    order.insert(stop, start)
    return F.permute_dims(x, axes=tuple(order)) if start != stop else x


def _size(mapped: Sequence[_Mapped]) -> int:
    """How many examples all leaves have."""
    sizes = {m.size: m for m in mapped}
    if not sizes:
        raise ArgumentError(
            "vmap", "in_axes", got="None for every argument", expected="an axis of one of them at least"
        )
    if len(sizes) > 1:
        got = ", ".join(f"{n} in leaf {m.position}" for n, m in sizes.items())
        raise ShapeError("vmap", got=f"examples: {got}", expected="as many in all arguments")
    return next(iter(sizes))


def _same_for_all(level: Batch, x: Any) -> Any:
    """An argument without examples: if it is tracked, that is outside of the batch."""
    held = unwrap(x)
    return rewrap(x, level.variable_of(held)) if isinstance(held, Operand) and is_tracked(held) else x


def _left(level: Batch, result: Any, axis: int | None) -> Any:
    """What a result of the function is for all examples, these in front; for no axis, as it is."""
    if result is None:
        return None
    (x,) = tensors([result], "vmap", "the function's result")
    value = value_of(x)
    if isinstance(value, Batched) and value._level is level:
        if value.lead and axis is None:
            raise ArgumentError(
                "vmap",
                "out_axes",
                got="None for a result that differs from example to example",
                expected="the axis that the examples get",
            )
        if value.lead:
            return value.held
        x = value.held
    if axis is None:
        return x
    return F.broadcast_to(x, shape=(level.size, *x.shape))


def _joined(parts: Sequence[Any], axis: int | None) -> Any:
    """The results of all chunks as one, with the examples' axis in its place."""
    x = parts[0]
    if axis is None or x is None:
        return x
    x = joined(parts)
    return _moved(x, 0, normalize_axis(axis, x.ndim, "vmap", "out_axes"))


def _flattened(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree, among them None and wrappers."""
    import optree

    leaves, structure = optree.tree_flatten(tree, is_leaf=_is_wrapper, none_is_leaf=True)
    return list(leaves), structure


def _is_wrapper(x: Any) -> bool:
    return isinstance(x, Wrapper)


def _unflattened(structure: Any, leaves: Sequence[Any]) -> Any:
    import optree

    return optree.tree_unflatten(structure, leaves)


def _prefix(axes: Any, tree: Any, argument: str) -> list[Any]:
    """An axis or None for every leaf of a tree, from a tree of them like it or like the upper part of it."""
    import optree

    try:
        found = optree.broadcast_prefix(axes, tree, is_leaf=_is_wrapper, none_is_leaf=True)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            "vmap",
            argument,
            got=repr(axes),
            expected="an integer, None, or a tree of these like the upper part of "
            + ("the arguments, a tuple" if argument == "in_axes" else "the result"),
            remedy=str(error).splitlines()[0],
        ) from None
    return [None if n is None else as_int(n, "vmap", argument) for n in found]
