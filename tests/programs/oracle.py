"""The namespace of programs over dual numbers: what a program means, by plain NumPy and Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs import duals as d
from tests.programs.namespace import row_major
from tests.programs.plain import Plain, mapped


class Array:
    """A tensor: dual numbers, with a mask (entries that exist) or a pattern (entries that are stored).

    A part of a dense one is a view: it is read of its base, and written into it.
    """

    __array_ufunc__ = None

    def __init__(self, data: Any, mask: Any = None, pattern: Any = None, columns_first: bool = False) -> None:
        self._data, self.mask, self.pattern, self.columns_first = data, mask, pattern, columns_first
        self._base: tuple[Array, Callable[..., Any], Callable[..., Any]] | None = None

    @property
    def data(self) -> Any:
        if self._base is None:
            return self._data
        base, read, _ = self._base
        return read(base.data)

    @data.setter
    def data(self, data: Any) -> None:
        if self._base is None:
            self._data = data
        else:
            base, _, written = self._base
            base.data = written(base.data, data)

    def part_of(self, base: Array, read: Callable[..., Any], written: Callable[..., Any]) -> Array:
        """This, as what ``read`` gives of a base; ``written`` makes the base's data of its own, and of it.

        Numbers, and parts of sparse and masked tensors, are their own.
        """
        if self.shape and base.mask is None and base.pattern is None:
            self._base = base, read, written
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return d.base(self.data).shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype:
        return d.base(self.data).dtype

    @property
    def T(self) -> Array:
        turned = None if self.pattern is None else self.pattern.T
        read = lambda x: d.permute(x, axes=(1, 0))
        found = Array(read(self.data), pattern=turned, columns_first=not self.columns_first)
        return found.part_of(self, read, lambda _, x: read(x))

    def __add__(self, other: Any) -> Array:
        return _binary(d.add, self, other, _union)

    def __sub__(self, other: Any) -> Array:
        return _binary(d.sub, self, other, _union)

    def __mul__(self, other: Any) -> Array:
        return _binary(d.mul, self, other, _intersection)

    def __truediv__(self, other: Any) -> Array:
        return _binary(d.div, self, other, lambda p, q: p)

    def __radd__(self, other: Any) -> Array:
        return _array(other) + self

    def __rsub__(self, other: Any) -> Array:
        return _array(other) - self

    def __rmul__(self, other: Any) -> Array:
        return _array(other) * self

    def __rtruediv__(self, other: Any) -> Array:
        return _array(other) / self

    def __neg__(self) -> Array:
        return Array(d.neg(self.data), self.mask, self.pattern, self.columns_first)

    def __matmul__(self, other: Any) -> Array:
        return _product(self, _array(other))

    def __rmatmul__(self, other: Any) -> Array:
        return _product(_array(other), self)

    def __gt__(self, other: Any) -> Any:
        return d.base(self.data) > d.base(_array(other).data)

    def __lt__(self, other: Any) -> Any:
        return d.base(self.data) < d.base(_array(other).data)

    def __getitem__(self, index: Any) -> Array:
        parts = [None if m is None else m[index] for m in (self.mask, self.pattern)]
        read = lambda x: d.index(x, index=index)
        found = Array(read(self.data), *parts, self.columns_first)
        if any(isinstance(i, list | np.ndarray) for i in (index if isinstance(index, tuple) else (index,))):
            return found  # a copy, as in NumPy
        return found.part_of(self, read, lambda x, part: d.put(x, part, index=index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data = d.put(self.data, _array(value).data, index=index)

    def __iadd__(self, other: Any) -> Array:
        self.data = d.add(self.data, _array(other).data)
        return self

    def __imul__(self, other: Any) -> Array:
        self.data = d.mul(self.data, _array(other).data)
        return self


def _array(x: Any) -> Array:
    return x if isinstance(x, Array) else Array(np.asarray(x) if not isinstance(x, d.Dual) else x)


def _union(p: Any, q: Any) -> Any:
    return None if p is None or q is None else p | q


def _intersection(p: Any, q: Any) -> Any:
    if p is None or q is None:
        return p if q is None else q
    return p & q


def _binary(rule: Callable[..., Any], a: Any, b: Any, patterns: Callable[..., Any]) -> Array:
    a, b = _array(a), _array(b)
    data = rule(a.data, b.data)
    shape = d.base(data).shape
    masks = [np.broadcast_to(m, shape) for m in (a.mask, b.mask) if m is not None]
    mask = np.logical_and.reduce(masks) if masks else None
    pattern = patterns(a.pattern, b.pattern)
    if pattern is not None:
        pattern = np.broadcast_to(pattern, shape)
        data = d.select(pattern, data, np.zeros(()))
    columns_first = a.columns_first if a.pattern is not None else b.columns_first
    return Array(data, mask, pattern, columns_first)


def _product(a: Array, b: Array) -> Array:
    """The product; a term counts where both factors are specified."""
    if a.mask is None and b.mask is None:
        data = d.matmul(a.data, b.data)
        if a.pattern is None or b.pattern is None:
            return Array(data)
        return Array(data, pattern=(a.pattern.astype(int) @ b.pattern.astype(int)) > 0)
    masks = [np.ones(x.shape, bool) if x.mask is None else x.mask for x in (a, b)]
    filled = [d.select(m, x.data, np.zeros(())) for m, x in zip(masks, (a, b), strict=True)]
    return Array(d.matmul(*filled), np.asarray((masks[0].astype(int) @ masks[1].astype(int)) > 0))


def _same(body: Callable[[Any], Any], zero_to_zero: bool) -> Callable[[Any, Any], Array]:
    def call(self: Any, x: Any) -> Array:
        x = _array(x)
        pattern = x.pattern if zero_to_zero else None
        return Array(body(x.data), x.mask, pattern, x.columns_first)

    return call


def _moved(body: Callable[..., Any], back: Callable[..., Any] | None = None) -> Callable[..., Array]:
    """An op that moves entries, and so masks and patterns; ``back`` undoes it, where it gives a view."""

    def call(self: Any, x: Any, *args: Any, **params: Any) -> Array:
        x = _array(x)
        own = (None if m is None else np.asarray(body(m, *args, **params)) for m in (x.mask, x.pattern))
        read = lambda y: body(y, *args, **params)
        found = Array(read(x.data), *own, x.columns_first)
        if back is None:
            return found
        return found.part_of(x, read, lambda whole, part: back(part, d.base(whole).shape, *args, **params))

    return call


def _stacked(axis: int, *xs: Any) -> Array:
    return Array(d.stack(*(_array(x).data for x in xs), axis=axis))


class Oracle(Plain):
    """Programs on dual numbers."""

    sin, tanh = _same(d.sin, True), _same(d.tanh, True)
    cos, exp, sigmoid = _same(d.cos, False), _same(d.exp, False), _same(d.sigmoid, False)
    log, sqrt = _same(d.log, False), _same(d.sqrt, True)
    arccos, log1p = _same(d.arccos, False), _same(d.log1p, True)
    relu, abs = _same(d.relu, True), _same(d.absolute, True)
    square = _same(d.square, True)
    real, imag, conj = _same(d.real, True), _same(d.imag, True), _same(d.conj, True)

    flip = _moved(lambda x, axis: d.flip(x, axis=axis), lambda x, _, axis: d.flip(x, axis=axis))
    roll = _moved(lambda x, shift, axis: d.roll(x, shift=shift, axis=axis))
    reshape = _moved(
        lambda x, shape: d.reshape(x, shape=shape), lambda x, whole, shape: d.reshape(x, shape=whole)
    )
    permute_dims = _moved(
        lambda x, axes: d.permute(x, axes=axes),
        lambda x, _, axes: d.permute(x, axes=tuple(int(k) for k in np.argsort(axes))),
    )
    broadcast_to = _moved(lambda x, shape: d.broadcast(x, shape=shape))
    diagonal = _moved(lambda x, offset: d.diagonal(x, offset=offset))

    def asarray(self, x: Any) -> Array:
        return _array(x)

    def clone(self, x: Any) -> Array:
        x = _array(x)
        return Array(x.data, x.mask, x.pattern, x.columns_first)

    def detach(self, x: Any) -> Array:
        return Array(d.base(x.data), x.mask)

    pad = _moved(lambda x, widths: d.pad(x, widths=widths))
    tril = _moved(lambda x, k: d.tril(x, k=k))
    triu = _moved(lambda x, k: d.triu(x, k=k))

    def concat(self, xs: Sequence[Any], axis: int) -> Array:
        xs = [_array(x) for x in xs]
        stored = all(x.pattern is not None for x in xs)
        pattern = np.concatenate([x.pattern for x in xs], axis) if stored else None
        return Array(d.concat(*(x.data for x in xs), axis=axis), pattern=pattern)

    def stack(self, xs: Sequence[Any], axis: int) -> Array:
        return _stacked(axis, *xs)

    def maximum(self, a: Any, b: Any) -> Array:
        return Array(d.larger(_array(a).data, _array(b).data))

    def minimum(self, a: Any, b: Any) -> Array:
        return -self.maximum(-_array(a), -_array(b))

    def where(self, condition: Any, a: Any, b: Any) -> Array:
        return Array(d.select(np.asarray(condition), _array(a).data, _array(b).data))

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Array:
        if x.mask is None:
            return Array(d.total(x.data, axis=axis, keepdims=keepdims))
        data = d.select(x.mask, x.data, np.zeros(()))
        return Array(d.total(data, axis=axis, keepdims=keepdims), _any(x.mask, axis, keepdims))

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False) -> Array:
        mask = np.ones(x.shape, bool) if x.mask is None else x.mask
        count = np.sum(mask, axis=axis, keepdims=keepdims)
        summed = self.sum(x, axis, keepdims)
        return Array(d.div(summed.data, np.maximum(count, 1) if x.mask is not None else count), summed.mask)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Array:
        if x.mask is None:
            return Array(d.extreme(x.data, axis, keepdims, np.max))
        some = _any(x.mask, axis, True)
        data = d.select(x.mask, x.data, np.full((), -np.inf))
        found = d.extreme(d.select(some, data, np.zeros(())), axis, keepdims, np.max)
        return Array(found, _any(x.mask, axis, keepdims))

    def min(self, x: Any, axis: int, keepdims: bool = False) -> Array:
        return -self.max(-x, axis, keepdims)

    def prod(self, x: Any, axis: int) -> Array:
        if x.mask is None:
            return Array(d.product(x.data, axis))
        return Array(d.product(d.select(x.mask, x.data, np.ones(())), axis), _any(x.mask, axis, False))

    def cumulative_sum(self, x: Any, axis: int) -> Array:
        data = x.data if x.mask is None else d.select(x.mask, x.data, np.zeros(()))
        return Array(d.running_total(data, axis=axis), x.mask)

    def softmax(self, x: Any, axis: int) -> Array:
        powers = d.exp(x.data)
        if x.mask is not None:
            powers = d.select(x.mask, powers, np.zeros(()))
        below = d.total(powers, axis=axis, keepdims=True)
        if x.mask is not None:
            below = d.select(_any(x.mask, axis, True), below, np.ones(()))
        return Array(d.div(powers, below), x.mask)

    def logsumexp(self, x: Any, axis: int) -> Array:
        return Array(d.log(d.total(d.exp(x.data), axis=axis)))

    def sort(self, x: Any, axis: int, descending: bool) -> Array:
        keys = d.base(x.data)
        if descending:  # nan first
            order = np.lexsort((-keys, ~np.isnan(keys)), axis=axis)
        else:
            order = np.argsort(keys, axis=axis, kind="stable")
        return Array(d.take_along(x.data, indices=order, axis=axis))

    def argsort(self, x: Any, axis: int) -> Any:
        return np.argsort(d.base(x.data), axis=axis, kind="stable")

    def take_along_axis(self, x: Any, indices: Any, axis: int) -> Array:
        return Array(d.take_along(x.data, indices=indices, axis=axis))

    def take(self, x: Any, indices: Any, axis: int) -> Array:
        return x[(slice(None),) * (axis % x.ndim) + (indices,)]

    def scatter_add(self, x: Any, indices: Any, values: Any, axis: int) -> Array:
        """Adds values at places along an axis."""
        return Array(d.add_at(x.data, values.data, index=(slice(None),) * (axis % x.ndim) + (indices,)))

    def power(self, x: Any, exponent: float) -> Array:
        return Array(d.power(x.data, exponent=exponent))

    def outer(self, a: Any, b: Any) -> Array:
        return a[:, None] * b[None, :]

    def chosen(self, x: Any, flags: Any) -> Array:
        return self.where(d.base(flags.data) > 0.5, x * 2.0, 0.25)

    # --- layouts and masks -------------------------------------------------------

    def sparse(self, layout: str, pattern: np.ndarray, values: Any) -> Array:
        columns_first = layout == "csc"
        places = row_major(pattern) if not columns_first else row_major(pattern.T)[::-1]
        zeros = np.zeros(pattern.shape, d.base(values.data).dtype)
        return Array(d.put(zeros, values.data, index=places), pattern=pattern, columns_first=columns_first)

    def to_dense(self, x: Any) -> Array:
        return Array(x.data)

    def values(self, x: Any) -> Array:
        """The stored entries, in the order of rows."""
        return Array(d.index(x.data, index=row_major(x.pattern)))

    def nnz(self, x: Any) -> int:
        return int(x.pattern.sum())

    def shifted(self, x: Any) -> Array:
        """Other values on the stored entries."""
        return self.sparse_mask(x * 0.5 + 0.1, x)

    def sparse_mask(self, x: Any, pattern: Any) -> Array:
        return Array(d.select(pattern.pattern, x.data, np.zeros(())), pattern=pattern.pattern)

    def masked(self, x: Any, mask: Any = None) -> Array:
        mask = x.pattern if mask is None else np.asarray(mask)
        return Array(d.select(mask, x.data, np.zeros(())), np.broadcast_to(mask, x.shape))

    def to_tensor(self, x: Any, fill: float) -> Array:
        return Array(d.select(x.mask, x.data, np.full((), fill)))

    # --- custom rules --------------------------------------------------------------

    _wave = staticmethod(
        d.elementary(
            lambda x, w: np.sin(x) * w,
            lambda t, y, x, w: d.mul(d.mul(2.0, t), d.mul(d.cos(x), w)),
            lambda t, y, x, w: d.mul(t, d.sin(x)),
        )
    )

    def wave(self, x: Any, w: Any) -> Array:
        return Array(self._wave(_array(x).data, _array(w).data))

    # --- derivatives -----------------------------------------------------------------------

    def _derivative(self, f: Callable[..., Any], args: Sequence[Any], k: int) -> tuple[Array, Any]:
        """The gradient in an argument: one pass for each entry, for each part of a complex one.

        Its first axes are those of the argument, then come those of the result.
        """
        x = args[k].data
        entries = d.base(x)
        slopes, aux = [], None
        for place in np.ndindex(entries.shape):
            parts = []
            for unit in (1.0, 1.0j) if entries.dtype.kind == "c" else (1.0,):
                direction = np.zeros_like(entries)
                direction[place] = unit
                level = next(d.LEVELS)
                given = list(args)
                given[k] = Array(d.Dual(level, x, direction))
                y, aux = f(*given)
                parts.append(d.tangent_of(y.data, level))
            slopes.append(parts[0] if len(parts) == 1 else d.add(parts[0], d.mul(1j, parts[1])))
        if not slopes:
            y, aux = f(*args)
            return Array(np.zeros(entries.shape + y.shape, entries.dtype)), aux
        shape = entries.shape + d.base(slopes[0]).shape
        return Array(d.reshape(d.stack(*slopes, axis=0), shape=shape)), aux

    def grad(self, f: Callable[..., Any], argnums: tuple[int, ...] = (0,)) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            found = [self._derivative(f, args, k) for k in argnums]
            return tuple(g for g, _ in found), found[0][1]

        return run

    def jvp(self, f: Callable[..., Any], factors: Sequence[float]) -> Callable[..., Any]:
        """The directional derivative along each argument times a factor."""

        def run(*args: Any) -> Any:
            level = next(d.LEVELS)
            given = [
                Array(d.Dual(level, a.data, d.mul(c, d.base(a.data))))
                for a, c in zip(args, factors, strict=True)
            ]
            y, aux = f(*given)
            primal = mapped(lambda a: Array(d.primal_of(a.data, level)), aux)
            return Array(d.tangent_of(y.data, level)), primal

        return run

    def hessian(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Of the first argument."""

        def run(*args: Any) -> Any:
            gradient = lambda *a: (self.grad(f)(*a)[0][0], ())
            rows, _ = self._derivative(gradient, args, 0)
            n = args[0].ndim
            return self.permute_dims(rows, (*range(n, 2 * n), *range(n))), ()

        return run


def _any(mask: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.asarray(np.any(mask, axis=axis, keepdims=keepdims))
