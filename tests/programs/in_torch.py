"""The namespace of programs over PyTorch, as a second oracle: reverse mode that nobody here wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tests.programs.generator import Program
from tests.programs.plain import Plain

#: What PyTorch has not: masks, patterns of results, negative steps, products in place of what they read.
MISSING = ("xp.masked", "xp.sparse", "::-", "] *= ")


def written_in_torch(program: Program) -> bool:
    return not any(name in program.source for name in MISSING) and program.layout == "strided"


class Wave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return torch.sin(x) * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return 2 * g * torch.cos(x) * w, g * torch.sin(x)


class Torch(Plain):
    """Programs on PyTorch's tensors."""

    sin, cos, tanh, exp, log, sqrt, relu, sigmoid, square = (
        staticmethod(getattr(torch, name))
        for name in ("sin", "cos", "tanh", "exp", "log", "sqrt", "relu", "sigmoid", "square")
    )
    abs, conj, outer, tril, triu, detach, clone, asarray = (
        staticmethod(f)
        for f in (
            *(torch.abs, torch.conj, torch.outer, torch.tril, torch.triu, torch.detach),
            *(torch.clone, torch.as_tensor),
        )
    )
    reshape, permute_dims, broadcast_to = (
        staticmethod(f) for f in (torch.reshape, torch.permute, torch.broadcast_to)
    )
    wave = staticmethod(Wave.apply)

    def real(self, x: Any) -> Any:
        return torch.real(x) if x.is_complex() else x

    def imag(self, x: Any) -> Any:
        return torch.imag(x)

    def maximum(self, a: Any, b: Any) -> Any:
        return torch.maximum(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return torch.minimum(a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return torch.where(condition, a, b)

    def flip(self, x: Any, axis: int) -> Any:
        return torch.flip(x, (axis,))

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return torch.roll(x, shift, axis)

    def pad(self, x: Any, widths: Any) -> Any:
        return torch.nn.functional.pad(x, [n for pair in reversed(widths) for n in pair])

    def diagonal(self, x: Any, offset: int) -> Any:
        return torch.diagonal(x, offset, -2, -1)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return torch.cat(self._of_one_dtype(xs), axis)

    def stack(self, xs: Sequence[Any], axis: int) -> Any:
        return torch.stack(self._of_one_dtype(xs), axis)

    def _of_one_dtype(self, xs: Sequence[Any]) -> list[Any]:
        dtype = torch.complex128 if any(x.is_complex() for x in xs) else torch.float64
        return [x.to(dtype) for x in xs]

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return torch.sum(x) if axis is None else torch.sum(x, axis, keepdim=keepdims)

    def mean(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return torch.mean(x, axis, keepdim=keepdims)

    def max(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return torch.amax(x, axis, keepdim=keepdims)

    def min(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        return torch.amin(x, axis, keepdim=keepdims)

    def prod(self, x: Any, axis: int) -> Any:
        return torch.prod(x, axis)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return torch.logsumexp(x, axis)

    def softmax(self, x: Any, axis: int) -> Any:
        return torch.softmax(x, axis)

    def cumulative_sum(self, x: Any, axis: int) -> Any:
        return torch.cumsum(x, axis)

    def sort(self, x: Any, axis: int, descending: bool) -> Any:
        return torch.sort(x, dim=axis, descending=descending, stable=True)[0]

    def argsort(self, x: Any, axis: int) -> Any:
        return torch.sort(x, dim=axis, stable=True)[1]

    def take_along_axis(self, x: Any, indices: Any, axis: int) -> Any:
        return torch.gather(x, axis, indices)

    def take(self, x: Any, indices: Any, axis: int) -> Any:
        return x[(slice(None),) * (axis % x.ndim) + (indices,)]

    def scatter_add(self, x: Any, indices: Any, values: Any, axis: int) -> Any:
        return torch.index_add(x, axis, torch.as_tensor(indices), values.to(x.dtype))

    # --- derivatives ---------------------------------------------------------------------

    def _gradient(self, f: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int]) -> Any:
        variables = [a.clone() if a.requires_grad else a.clone().requires_grad_() for a in args]
        y, aux = f(*variables)
        wanted = [variables[k] for k in argnums]
        if not y.requires_grad:
            return [torch.zeros_like(v) for v in wanted], aux
        slopes = torch.autograd.grad(y, wanted, create_graph=True, materialize_grads=True)
        return slopes, aux

    def grad(self, f: Callable[..., Any], argnums: tuple[int, ...] = (0,)) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            slopes, aux = self._gradient(f, args, argnums)
            return tuple(slopes), aux

        return run

    def jvp(self, f: Callable[..., Any], factors: Sequence[float]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            slopes, aux = self._gradient(f, args, range(len(args)))
            terms = zip(slopes, args, factors, strict=True)
            return sum(c * self.real(torch.sum(torch.conj(g) * a.detach())) for g, a, c in terms), aux

        return run

    def hessian(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Of the first argument."""

        def run(*args: Any) -> Any:
            shape = tuple(args[0].shape)
            rows = [
                self._gradient(lambda *a, k=place: (self._gradient(f, a, (0,))[0][0][k], ()), args, (0,))[0][
                    0
                ]
                for place in np.ndindex(shape)
            ]
            return (torch.stack(rows).reshape(shape + shape) if rows else torch.zeros(shape + shape)), ()

        return run
