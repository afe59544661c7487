"""`vmap`: a function of one example as a function of many, which are computed together (`batch_level`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from iverson.autograd.tracked_guards import check_no_leaves
from iverson.core.dispatch import Handle, Operand, alias, is_tracked, rewrap, unwrap, value_of
from iverson.core.errors import ArgumentError, AxisError, ShapeError
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int, normalize_axis
from iverson.kernels.index_keys import canonical_slice
from iverson.masked import MaskedTensor, masked_tensor
from iverson.ops import F
from iverson.transforms.batching.batch_level import Batch, Batched, chunk, joined
from iverson.transforms.trees import Function, P, R, Tree, as_named, flatten, is_wrapper, tensors, unflatten

if TYPE_CHECKING:
    from optree import PyTreeSpec

    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike

#: An axis, None for no axis, or a tree of them.
AxisTree: TypeAlias = "SupportsIndex | Mapping[Any, AxisTree] | Sequence[AxisTree] | None"


@checked
def vmap(
    function: Callable[P, R], in_axes: AxisTree = 0, out_axes: AxisTree = 0, chunk_size: int | None = None
) -> Callable[P, R]:
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
    chunk_size : the largest number of examples computed together, to save memory; by default all.

    In the function, a tensor has the shape of one example and no entries to read: a branch on one, and its
    conversion to a number, raise GraphError. Random draws of `iverson.random` differ from example to example,
    unless their generator is made inside. A write into a tensor from outside is made once if it is the same
    for all examples, and refused if it differs. Gradients go through the mapped function, and `grad`, `jvp`,
    `jit` and `vmap` may stand inside it.

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

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        leaves, structure = flatten(args, none_is_leaf=True)
        axes = _prefix(axes_of, args, structure, "in_axes")
        present = [(k, n) for k, n in enumerate(axes) if n is not None and leaves[k] is not None]
        mapped = [_Mapped(leaves[k], n, k) for k, n in present]
        size = _size(mapped)
        pieces, order = _pieces(mapped, size, step)
        chunks = [_of_chunk(function, leaves, structure, kwargs, mapped, out_axes, piece) for piece in pieces]
        places, out_structure = chunks[0][1:]
        parts = zip(*(results for results, *_ in chunks), strict=True)
        outputs = [_joined(p, n, order) for p, n in zip(parts, places, strict=True)]
        return unflatten(out_structure, outputs)

    return call


def _of_chunk(
    function: Function,
    leaves: Sequence[object],
    structure: PyTreeSpec,
    kwargs: Mapping[str, object],
    mapped: Sequence[_Mapped],
    out_axes: AxisTree,
    piece: Piece,
) -> tuple[list[Any], list[int | None], Any]:
    """Results of ``function`` for the examples in ``piece``, the ``out_axes`` of its leaves, and its
    structure.

    A result has the examples along axis 0, or none of them if its axis in ``out_axes`` is None.
    leaves : leaves of the arguments. structure : their structure, a tuple of arguments.
    mapped : the leaves that have an axis of examples, with their positions in ``leaves``.
    """
    with Batch(piece.stop - piece.start if isinstance(piece, slice) else piece.size) as level:
        inputs = [_same_for_all(level, x) for x in leaves]
        for m in mapped:
            inputs[m.position] = m.example(level, piece)
        results: list[Any] = []
        try:
            out = function(*unflatten(structure, inputs), **kwargs)
            results, out_structure = flatten(out, none_is_leaf=True)
            places = _prefix(out_axes, out, out_structure, "out_axes")
            outputs = [_left(level, r, n) for r, n in zip(results, places, strict=True)]
        finally:
            wrote = level.put_back(results)
        if wrote:
            raise ArgumentError(
                "vmap",
                "function",
                got="a function that writes what differs from example to example into a tensor around it",
                expected="a function that returns what it computes",
                remedy="return the value, and write what vmap returns; the tensor is as it was",
            )
        check_no_leaves([unwrap(inputs[m.position]) for m in mapped], "vmap")
        del out, results, inputs  # tensors that it made and wrote are not from outside
    return outputs, places, out_structure


class _Mapped:
    """Leaf of the arguments that has an axis of examples, which is moved to axis 0.

    held : all examples, a plain handle.
    masks : of a MaskedTensor, the masks of all examples as a NumPy array; else None.
    position : the number of the leaf.
    """

    __slots__ = ("held", "masks", "position")

    def __init__(self, leaf: Array | ArrayLike, axis: SupportsIndex, position: int) -> None:
        (x,) = tensors([leaf], "vmap", "arguments")
        if not x.ndim:
            raise AxisError(
                "vmap",
                "in_axes",
                got=f"{axis} for leaf {position}, which has no axes",
                expected="None, for what is the same for all examples",
            )
        axis = normalize_axis(axis, x.ndim, "vmap", "in_axes")
        self.masks: Any = None
        if isinstance(x, MaskedTensor):
            self.masks = np.moveaxis(F.to_numpy(x.get_mask()), axis, 0)
            x = F.to_dense(x.to_tensor(0))
        self.held = _moved(alias(x), axis, 0)
        self.position = position

    @property
    def size(self) -> int:
        return self.held.shape[0]  # type: ignore[no-any-return]

    def example(self, level: Batch, piece: Piece) -> Any:
        """Argument of the mapped function in the batch ``level`` that computes the examples in ``piece``.

        The examples of a masked leaf in one piece have equal masks.
        """
        x = self.held
        if not isinstance(piece, slice):
            x = F.gather(x, piece, axes=(0,))
        elif (piece.start, piece.stop) != (0, self.size):
            x = F.index_basic(x, key=(piece, *(canonical_slice(slice(None), n) for n in x.shape[1:])))
        handle = level.of_examples(x)
        return handle if self.masks is None else masked_tensor(handle, self._mask(piece))

    def _mask(self, piece: Piece) -> Any:
        first = piece.start if isinstance(piece, slice) else piece[0]
        return self.masks[first] if self.size else np.ones(self.masks.shape[1:], bool)


#: Some examples: a range of them, or their numbers.
Piece = Any


def _pieces(mapped: Sequence[_Mapped], size: int, step: int | None) -> tuple[list[Piece], Any]:
    """Pieces: groups of examples that are computed together, each a slice or an array of example numbers.

    The second result gives the position of each example in the concatenated pieces; it is None if they are in
    order. Examples are together only if their masks are equal: entries that do not exist in all of them have
    no axis.
    step : the largest number of examples in a piece, or None.
    """
    groups: dict[bytes, list[int]] = {}
    for k in range(size):
        key = b"".join([np.packbits(m.masks[k]).tobytes() for m in mapped if m.masks is not None])
        groups.setdefault(key, []).append(k)
        if not key:
            break
    if len(groups) <= 1:
        n = step or max(size, 1)
        return [slice(start, min(start + n, size), 1) for start in range(0, max(size, 1), n)], None
    pieces = [
        np.array(group[start : start + (step or size)])
        for group in groups.values()
        for start in range(0, len(group), step or size)
    ]
    return pieces, np.argsort(np.concatenate(pieces))


def _moved(x: Handle, start: int, stop: int) -> Any:
    """Array with axis ``start`` of ``x`` moved to position ``stop``."""
    order = [k for k in range(x.ndim) if k != start]
    order.insert(stop, start)
    return F.permute_dims(x, axes=tuple(order)) if start != stop else x


def _size(mapped: Sequence[_Mapped]) -> int:
    """Number of examples; raises ShapeError if leaves differ in it."""
    sizes = {m.size: m for m in mapped}
    if not sizes:
        raise ArgumentError(
            "vmap", "in_axes", got="None for every argument", expected="an axis of one of them at least"
        )
    if len(sizes) > 1:
        counts = ", ".join(f"{n} in leaf {m.position}" for n, m in sizes.items())
        raise ShapeError("vmap", got=f"examples: {counts}", expected="as many in all arguments")
    return next(iter(sizes))


def _same_for_all(level: Batch, x: Any) -> Any:
    """Argument without an axis of examples, ready for the mapped function.

    A tensor that is tracked outside of the batch becomes a value of the batch; other values are returned
    unchanged.
    """
    handle = unwrap(x)
    return rewrap(x, level.variable_of(handle)) if isinstance(handle, Operand) and is_tracked(handle) else x


def _left(level: Batch, result: Tree, axis: int | None) -> Any:
    """Result of the mapped function outside of the batch, in a handle of its own.

    It has the examples along axis 0, or no axis of them if ``axis`` is None; raises ArgumentError if it then
    differs between examples. A masked result gives a `_MaskedPart`.
    """
    if result is None:
        return None
    (x,) = tensors([result], "vmap", "the function's result")
    if isinstance(x, MaskedTensor):
        data = _left(level, F.to_dense(x.to_tensor(0)), axis)
        return _MaskedPart(data, _left(level, x.get_mask(), axis))
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
            return alias(value.held)
        x = value.held
    if axis is None:
        return alias(x)
    return F.broadcast_to(x, shape=(level.size, *x.shape))


class _MaskedPart(NamedTuple):
    """Masked result of some examples, as two plain handles: entries (0 where unspecified) and mask."""

    data: Any
    mask: Any


def _joined(parts: Sequence[Any], axis: int | None, order: NDArray | None) -> Any:
    """Results of all chunks as one array, with the axis of examples moved to ``axis``.

    If ``axis`` is None, the result of the first chunk.
    order : the position of each example in the joined chunks; None if they are in order.
    """
    if isinstance(parts[0], _MaskedPart):
        data, masks = ([getattr(p, name) for p in parts] for name in _MaskedPart._fields)
        return masked_tensor(_joined(data, axis, order), _joined(masks, axis, order))
    x = parts[0]
    if axis is None or x is None:
        return x
    x = joined(parts)
    x = x if order is None else F.gather(x, order, axes=(0,))
    return _moved(x, 0, normalize_axis(axis, x.ndim, "vmap", "out_axes"))


def _prefix(axes: Any, tree: Any, structure: PyTreeSpec, argument: str) -> list[Any]:
    """List with an axis or None for every leaf of ``tree``.

    axes : a tree of axes with the structure of ``tree``, or of its upper part: an axis there is for all
        leaves below.
    argument : name of the argument that ``axes`` comes from, for the error message.
    """
    if type(axes) is int or axes is None:
        return [axes] * structure.num_leaves
    if (
        type(axes) is type(tree) is tuple
        and len(axes) == structure.num_children == structure.num_nodes - 1  # whose entries are leaves
        and _AXES.issuperset(map(type, axes))
    ):
        return list(axes)
    import optree

    try:
        leaf_axes = optree.broadcast_prefix(axes, tree, is_leaf=is_wrapper, none_is_leaf=True)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            "vmap",
            argument,
            got=repr(axes),
            expected="an integer, None, or a tree of these like the upper part of "
            + ("the arguments, a tuple" if argument == "in_axes" else "the result"),
            remedy=str(error).splitlines()[0],
        ) from None
    return [None if n is None else as_int(n, "vmap", argument) for n in leaf_axes]


_AXES = frozenset((int, type(None)))
