"""The namespace of programs over Iverson."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import iverson as iv
from iverson import te
from tests.programs.namespace import Feed, Namespace


class Wave(iv.autograd.Function):
    """A function whose rule is twice the derivative of what it computes in x: nobody may look inside."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return iv.sin(x) * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return (
            _onto(2 * g * iv.conj(iv.cos(x) * w), x) if ctx.needs_input_grad[0] else None,
            _onto(g * iv.conj(iv.sin(x)), w) if ctx.needs_input_grad[1] else None,
        )


def _onto(g: Any, x: Any) -> Any:
    """The sum of a cotangent over the axes along which x was broadcast."""
    lead = g.ndim - x.ndim
    axes = tuple(range(lead)) + tuple(k + lead for k in range(x.ndim) if x.shape[k] != g.shape[k + lead])
    return iv.reshape(iv.sum(g, axis=axes), x.shape) if axes else g


@cache
def stencil(names: tuple[str, ...]) -> Any:
    i, k, u, w = names
    source = f"""
def kernel({u}, {w}):
    {k} = te.reduce_axis((0, 2))
    return te.compute(({u}.shape[0] - 1,),
        lambda {i}: te.sum({u}[{i} + {k}] * {w}[{k}], axis={k}) + te.F.sin({u}[{i}]))
"""
    return te.op(_defined(source))


@cache
def spread(names: tuple[str, ...]) -> Any:
    i, _, u, _ = names
    source = f"""
def kernel({u}):
    return te.compute(({u}.shape[0] + 2,),
        lambda {i}: te.maximum(0.45, te.sigmoid({u}[{i} % {u}.shape[0]])) * ({i} + 1.0))
"""
    return te.op(_defined(source))


@te.op
def chosen(x: Any, flags: Any) -> Any:
    return te.compute(x.shape, lambda i: te.select(flags[i] > 0.5, x[i] * 2.0, 0.25))


def _defined(source: str) -> Any:
    scope: dict[str, Any] = {"te": te}
    exec(source, scope)
    return scope["kernel"]


class Library(Namespace):
    """Programs on tensors. Draws are results of bodies: further results, beside the first."""

    def __init__(self, seed: int = 0, dtype: Any = np.float64) -> None:
        self.generator, self.dtype = iv.random.default_rng(seed), np.dtype(dtype)

    abs, conj, cos, exp, imag, log, real, relu = (
        staticmethod(f) for f in (iv.abs, iv.conj, iv.cos, iv.exp, iv.imag, iv.log, iv.real, iv.relu)
    )
    arccos, log1p, power = (staticmethod(f) for f in (iv.acos, iv.log1p, iv.pow))
    sigmoid, sin, sqrt, square, tanh = (
        staticmethod(f) for f in (iv.sigmoid, iv.sin, iv.sqrt, iv.square, iv.tanh)
    )
    asarray, clone, outer, where = (staticmethod(f) for f in (iv.asarray, iv.clone, iv.outer, iv.where))
    maximum, minimum, checkpoint, vmap = (
        staticmethod(f) for f in (iv.maximum, iv.minimum, iv.checkpoint, iv.vmap)
    )
    jit, cond, scan, while_loop, grad_of = (
        staticmethod(f) for f in (iv.jit, iv.cond, iv.scan, iv.while_loop, iv.grad)
    )
    reshape, permute_dims, broadcast_to, pad = (
        staticmethod(f) for f in (iv.reshape, iv.permute_dims, iv.broadcast_to, iv.pad)
    )

    def detach(self, x: Any) -> Any:
        return x.detach()

    def flip(self, x: Any, axis: Any) -> Any:
        return iv.flip(x, axis=axis)

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return iv.roll(x, shift, axis=axis)

    def diagonal(self, x: Any, offset: int) -> Any:
        return iv.diagonal(x, offset=offset)

    def tril(self, x: Any, k: int) -> Any:
        return iv.tril(x, k=k)

    def triu(self, x: Any, k: int) -> Any:
        return iv.triu(x, k=k)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return iv.concat(xs, axis=axis)

    def stack(self, xs: Sequence[Any], axis: int) -> Any:
        return iv.stack(xs, axis=axis)

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return iv.sum(x, axis=axis, keepdims=keepdims)

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return iv.mean(x, axis=axis, keepdims=keepdims)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return iv.max(x, axis=axis, keepdims=keepdims)

    def min(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return iv.min(x, axis=axis, keepdims=keepdims)

    def prod(self, x: Any, axis: int) -> Any:
        return iv.prod(x, axis=axis)

    def cumulative_sum(self, x: Any, axis: int) -> Any:
        return iv.cumulative_sum(x, axis=axis)

    def softmax(self, x: Any, axis: int) -> Any:
        return iv.softmax(x, axis=axis)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return iv.logsumexp(x, axis=axis)

    def sort(self, x: Any, axis: int, descending: bool) -> Any:
        return iv.sort(x, axis=axis, descending=descending)

    def argsort(self, x: Any, axis: int) -> Any:
        return iv.argsort(x, axis=axis)

    def take_along_axis(self, x: Any, indices: Any, axis: int) -> Any:
        return iv.take_along_axis(x, indices, axis=axis)

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        return iv.take(x, iv.asarray(indices), axis=axis)

    def scatter_add(self, x: Any, indices: Any, values: Any, axis: int) -> Any:
        return iv.index_add(x, iv.asarray(indices), values, axis=axis)

    # --- layouts and masks -------------------------------------------------------

    def sparse(self, layout: str, pattern: np.ndarray, values: Any) -> Any:
        return iv.to_layout(iv.asarray(pattern.astype(float)), layout).with_values(values)

    def to_dense(self, x: Any) -> Any:
        return x.to_dense()

    def values(self, x: Any) -> Any:
        """The stored entries, in the order of rows."""
        return iv.to_layout(x, "csr").values()

    def nnz(self, x: Any) -> int:
        return int(x.nnz)

    def shifted(self, x: Any) -> Any:
        """Other values on the stored entries."""
        return x.with_values(x.values() * 0.5 + 0.1)

    def sparse_mask(self, x: Any, pattern: Any) -> Any:
        return iv.sparse_mask(x, pattern)

    def masked(self, x: Any, mask: Any = None) -> Any:
        return iv.masked_tensor(x) if mask is None else iv.masked_tensor(x, mask)

    def to_tensor(self, x: Any, fill: float) -> Any:
        return x.to_tensor(fill)

    # --- custom rules ---------------------------------------------------------------

    def wave(self, x: Any, w: Any) -> Any:
        return Wave.apply(x, w)

    def stencil(self, x: Any, w: Any, names: Sequence[str]) -> Any:
        return stencil(tuple(names))(x, w)

    def chosen(self, x: Any, flags: Any) -> Any:
        return chosen(x, flags)

    def spread(self, x: Any, names: Sequence[str]) -> Any:
        return spread(tuple(names))(x)

    # --- bodies -----------------------------------------------------------------------

    def draw(self, site: str, shape: tuple[int, ...]) -> Any:
        return self.generator.normal(size=shape, dtype=self.dtype)

    def fori_loop(self, n: int, f: Callable[..., Any], init: Any) -> Any:
        return iv.fori_loop(0, n, lambda k, c: f(iv.astype(iv.asarray(k), self.dtype), c), init)

    # --- derivatives --------------------------------------------------------------------

    def grad(self, f: Callable[..., Any], argnums: tuple[int, ...] = (0,)) -> Callable[..., Any]:
        return iv.grad(f, argnums, has_aux=True)

    def jvp(self, f: Callable[..., Any], factors: Sequence[float]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            tangents = tuple(a.detach() * c for a, c in zip(args, factors, strict=True))
            _, tangent, aux = iv.jvp(f, args, tangents, has_aux=True)
            return tangent, aux

        return run

    def hessian(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: (iv.hessian(lambda *a: f(*a)[0])(*args), ())


def feed_of(names: Sequence[str], draws: Sequence[Any]) -> Feed:
    return {name: np.asarray(x.to_dense().numpy()) for name, x in zip(names, draws, strict=True)}
