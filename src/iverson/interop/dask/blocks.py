"""Dask arrays whose blocks are tensors, sparse and masked ones too, and derivatives of their functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import dask
import dask.array as da
import numpy as np
from dask.array.dispatch import concatenate_lookup, numel_lookup, tensordot_lookup
from dask.sizeof import sizeof

import iverson as iv
from iverson.core.dispatch import unwrap, value_of
from iverson.core.errors import ArgumentTypeError, GradientError, ShapeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.protocols import NDArray
from iverson.handles import Tensor, asarray
from iverson.interop.messages import summed
from iverson.layouts import layout_of
from iverson.masked import MaskedTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask.delayed import Delayed
    from scipy.sparse import sparray

    from iverson.handles.typing import DTypeLike

Block = Tensor | MaskedTensor
if TYPE_CHECKING:
    #: What a block of a dask array may be, and how it is cut into blocks.
    Held: TypeAlias = Block | NDArray | sparray
    Chunks: TypeAlias = (
        int
        | str
        | Sequence[int | str | Sequence[int] | None]
        | Mapping[int, int | str | Sequence[int] | None]
    )


def _bytes(x: Block) -> int:
    value = value_of(unwrap(x), None)
    return (
        0
        if value is None
        else sum(b.nbytes for b in (*layout_of(value).buffers(value), *layout_of(value).structure(value)))
    )


def _count(
    x: Block, axis: int | Sequence[int] | None = None, keepdims: bool = False, **_: DTypeLike
) -> Block:
    """Number of entries that each result of a reduction over ``axis`` covers; for a masked block, of
    specified entries.
    """
    if isinstance(x, MaskedTensor):
        return iv.astype(x.get_mask(), "float64").sum(axis=axis, keepdims=keepdims)
    axes = range(x.ndim) if axis is None else [k % x.ndim for k in np.atleast_1d(axis).tolist()]
    shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes]
    return iv.full(tuple(shape), float(np.prod([x.shape[k] for k in axes], dtype=np.int64)))


for _kind in (Tensor, MaskedTensor):
    sizeof.register(_kind, _bytes)
    concatenate_lookup.register(_kind, lambda parts, axis=0: iv.concat(list(parts), axis=axis))
    tensordot_lookup.register(_kind, lambda a, b, axes=2: iv.tensordot(a, b, axes=axes))
    numel_lookup.register(_kind, _count)


def to_dask(x: Block, chunks: Chunks = "auto") -> da.Array:
    """A tensor as a dask array whose blocks are tensors in its layout, masked where it is.

    x : a Tensor or MaskedTensor that tracks no gradients. chunks : as `dask.array.from_array` takes them.

    Sums, elementwise functions and products of dask are then Iverson's, of each block. Products of masked
    blocks along several chunks are summed by `matmul` and by ``dask.array.tensordot``; dask's ``@`` adds them
    entry by entry, which would lose what not all of them specify, and is an error. Raises ArgumentTypeError
    for what is no tensor, GradientError for one that tracks gradients, which dask would not keep.

    >>> import iverson as iv
    >>> x = to_dask(iv.eye(4, layout="csr"), chunks=(2, 4))
    >>> x.numblocks, from_dask(x).layout
    ((2, 1), 'csr')
    """
    if not isinstance(x, Block):
        raise ArgumentTypeError("to_dask", "x", got=described(x), expected="a Tensor or a MaskedTensor")
    if x.requires_grad:
        raise GradientError(
            "to_dask",
            "x",
            got="a tensor that tracks gradients",
            expected="one that does not: dask keeps no graph",
            remedy="call x.detach() first, or take gradients of blocks by map_blocks_vjp",
        )
    sizes = da.core.normalize_chunks(chunks, x.shape, dtype=x.dtype)
    starts = [np.cumsum([0, *lengths]).tolist() for lengths in sizes]
    grid = np.empty(tuple(map(len, sizes)), object)
    for at in np.ndindex(grid.shape):
        window = tuple(slice(starts[k][n], starts[k][n + 1]) for k, n in enumerate(at))
        grid[at] = dask.delayed(_in_layout(x[window], x.layout) if x.shape else x, traverse=False)
    return _assembled(grid, sizes, _meta(x))


def from_dask(x: da.Array) -> Block:
    """A dask array as a tensor: all of its blocks, computed and put together, in the layout they have.

    >>> import dask.array as da
    >>> from_dask(da.arange(3, chunks=2) * 2.0)
    iverson.Tensor([0., 2., 4.])
    """
    if not isinstance(x, da.Array):
        raise ArgumentTypeError("from_dask", "x", got=described(x), expected="a dask array")
    grid = x.to_delayed()
    blocks = np.empty(grid.shape, object)
    for at, block in zip(np.ndindex(grid.shape), dask.compute(*grid.ravel()), strict=True):
        blocks[at] = tensor_of(block)
    layouts = {block.layout for block in blocks.ravel()}
    for axis in reversed(range(blocks.ndim)):
        merged = np.empty(blocks.shape[:axis], object)
        for at in np.ndindex(merged.shape):
            parts = list(blocks[at])
            merged[at] = parts[0] if len(parts) == 1 else iv.concat(parts, axis=axis)
        blocks = merged
    result: Block = blocks.item()
    return _in_layout(result, layouts.pop()) if len(layouts) == 1 else result


def matmul(a: da.Array, b: da.Array) -> da.Array:
    """The matrix product of dask arrays of tensors, as ``a @ b`` of these.

    a, b : dask arrays, with the same chunks along the axis that they share. Of masked blocks a product counts
        where both factors are specified, however the axis is cut into chunks.

    Raises ArgumentTypeError for other arrays, ShapeError for scalars.

    >>> import iverson as iv
    >>> x = to_dask(iv.masked_tensor([[1.0, 2.0]], [[True, False]]), chunks=(1, 1))
    >>> from_dask(matmul(x, x.T))
    iverson.MaskedTensor([[1.]])
    """
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, da.Array):
            raise ArgumentTypeError("matmul", name, got=described(x), expected="a dask array")
        if not x.ndim:
            raise ShapeError("matmul", name, got="rank 0", expected="at least one axis")
    rows, columns = a.ndim > 1, b.ndim > 1
    lead = max(a.ndim, b.ndim, 2) - 2
    row, inner, column = lead, lead + 1, lead + 2
    of_a = (*range(lead - max(a.ndim - 2, 0), lead), *([row] if rows else []), inner)
    of_b = (*range(lead - max(b.ndim - 2, 0), lead), inner, *([column] if columns else []))
    dtype = np.result_type(a.dtype, b.dtype)
    products = da.blockwise(
        _product,
        (*range(lead), *([row] if rows else []), *([column] if columns else []), inner),
        *(a, of_a, b, of_b),
        dtype=dtype,
        meta=asarray(np.zeros((0,) * (lead + rows + columns + 1), dtype)),
        adjust_chunks={inner: 1},
        concatenate=False,
    )
    return products.sum(axis=-1)


def map_blocks(function: Callable[..., Block], *arrays: da.Array, **options: Any) -> da.Array:
    """Apply a function of tensors to each block: ``dask.array.map_blocks`` with tensors for blocks.

    options : of ``dask.array.map_blocks`` (``dtype``, ``chunks``, ``drop_axis``, ...).

    See `map_blocks_vjp` for derivatives.

    >>> import dask.array as da, iverson as iv
    >>> from_dask(map_blocks(iv.exp, da.zeros(4, chunks=2)))
    iverson.Tensor([1., 1., 1., 1.])
    """
    as_function(function, "map_blocks", "function")
    options.setdefault("dtype", getattr(arrays[0], "dtype", None) if arrays else None)
    options.setdefault(
        "meta", asarray(np.zeros((0,) * max((x.ndim for x in arrays), default=0), options["dtype"]))
    )
    return da.map_blocks(_called, function, *arrays, **options)


def map_blocks_vjp(
    function: Callable[..., Block], *arrays: da.Array, **options: Any
) -> tuple[da.Array, Callable[[da.Array], tuple[da.Array, ...]]]:
    """Return the result of `map_blocks` and the pullback, from a cotangent to a dask array per argument.

    The cotangent is a dask array of the result's blocks. Each block of a gradient is computed from the
    blocks it depends on, when it is requested; where one block was used with several others, the gradients
    are summed. Raises ShapeError where the function does not keep the number of blocks of its arguments
    along each axis.

    >>> import dask.array as da, iverson as iv
    >>> x = da.arange(4, chunks=2) * 1.0
    >>> y, pull = map_blocks_vjp(lambda x: x * x, x)
    >>> (gradient,) = pull(da.ones(4, chunks=2))
    >>> from_dask(gradient)
    iverson.Tensor([0., 2., 4., 6.])
    """
    result = map_blocks(function, *arrays, **options)
    widest = tuple(max(n) for n in zip(*(_padded(x.numblocks, result.ndim) for x in arrays), strict=True))
    if widest != result.numblocks:
        raise ShapeError(
            "map_blocks_vjp",
            "function",
            got=f"{result.numblocks} blocks from {widest}",
            expected="a block for each block of the arguments",
            remedy="sum over blocks afterwards, or use value_and_grad over partitions",
        )

    def pull(cotangent: da.Array) -> tuple[da.Array, ...]:
        if getattr(cotangent, "chunks", None) != result.chunks:
            raise ShapeError(
                "pullback",
                "cotangent",
                got=described(cotangent),
                expected=f"a dask array of chunks {result.chunks}",
            )
        delayed_blocks, seeds = [x.to_delayed() for x in arrays], cotangent.to_delayed()
        terms = [np.frompyfunc(lambda _: [], 1, 1)(np.empty(x.numblocks, object)) for x in arrays]
        for at in np.ndindex(seeds.shape):
            places = [_place(at, x.numblocks) for x in arrays]
            blocks = [grid[place] for grid, place in zip(delayed_blocks, places, strict=True)]
            cotangents = dask.delayed(_pulled, pure=False, nout=len(arrays))(function, blocks, seeds[at])
            for k, place in enumerate(places):
                terms[k][place].append(cotangents[k])
        return tuple(
            _assembled(np.frompyfunc(_total, 1, 1)(grid), x.chunks, _meta(x))
            for grid, x in zip(terms, arrays, strict=True)
        )

    return result, pull


def tensor_of(block: Held) -> Block:
    """Block of a dask array as a tensor. Tensors are returned as they are; arrays of `numpy.ma` become masked
    tensors.
    """
    if isinstance(block, Block):
        return block
    if isinstance(block, np.ma.MaskedArray):
        return iv.masked_tensor(block.data, ~np.ma.getmaskarray(block))
    if not isinstance(block, np.ndarray) and hasattr(block, "tocoo"):
        return iv.from_scipy(block)
    return asarray(np.require(block, requirements="A"))


def _in_layout(x: Block, layout: str) -> Block:
    return x if x.layout == layout or isinstance(x, MaskedTensor) else iv.to_layout(x, layout)


def _product(a: Held, b: Held) -> Block:
    """Matrix product of two blocks, with a last axis of length 1, along which chunks of the contracted axis
    are summed.
    """
    return iv.expand_dims(tensor_of(a) @ tensor_of(b), axis=-1)


def _called(function: Callable[..., Block], *blocks: Held, **options: Any) -> Block:
    return function(*map(tensor_of, blocks), **options)


def _pulled(function: Callable[..., Block], blocks: Sequence[Held], seed: Held) -> tuple[Block, ...]:
    _, pull = iv.vjp(function, *map(tensor_of, blocks))
    cotangents = pull(tensor_of(seed))
    return tuple(cotangents) if isinstance(cotangents, (tuple, list)) else (cotangents,)


def _total(terms: list[Delayed]) -> Delayed:
    return terms[0] if len(terms) == 1 else dask.delayed(summed)(terms)


def _padded(numblocks: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    return (1,) * (ndim - len(numblocks)) + numblocks


def _place(at: tuple[int, ...], numblocks: tuple[int, ...]) -> tuple[int, ...]:
    """Position of the block of an argument that is used for the result's block at ``at``.

    Axes are aligned at the end, and an axis with one block is broadcast.
    numblocks : numbers of blocks of the argument along its axes.
    """
    return tuple(0 if n == 1 else k for k, n in zip(at[len(at) - len(numblocks) :], numblocks, strict=True))


def _meta(x: Block | da.Array) -> Tensor:
    return asarray(np.zeros((0,) * x.ndim, x.dtype))


def _assembled(grid: NDArray, chunks: tuple[tuple[int, ...], ...], meta: Tensor) -> da.Array:
    """Dask array from an array of delayed blocks.

    chunks : extents of the blocks along each axis. meta : an empty tensor of the dtype.
    """
    if not grid.ndim:
        return da.from_delayed(grid[()], (), dtype=meta.dtype, meta=meta)
    parts = np.empty(grid.shape, object)
    for at in np.ndindex(grid.shape):
        shape = tuple(chunks[k][n] for k, n in enumerate(at))
        parts[at] = da.from_delayed(grid[at], shape, dtype=meta.dtype, meta=meta)
    return da.block(parts.tolist())


__all__ = ["from_dask", "map_blocks", "map_blocks_vjp", "matmul", "tensor_of", "to_dask"]
