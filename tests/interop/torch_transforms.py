"""Calls of torch's transforms on a function, each written once for the wrapped function and for torch's own.

A call takes ``vector`` (of x and w, to a vector), ``scalar`` (to a real number) and tensors x and w.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import func
from torch.autograd import forward_ad, functional
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint


def vector(F: Any) -> Callable[..., Any]:
    """A holomorphic function of a vector and a matrix."""
    return lambda x, w: F.sin(x @ w) * F.exp(x * 0.5)


def scalar(F: Any) -> Callable[..., Any]:
    """A real function, not holomorphic for complex arguments."""
    f = vector(F)
    return lambda x, w: F.sum(F.abs(f(x, w)) ** 2) + F.sum(F.abs(x) ** 2)


def _rows(x: Any) -> Any:
    return torch.stack([x, 2 * x, x - 1])


def _leaf(*xs: Any) -> Any:
    return [x.detach().clone().requires_grad_() for x in xs]


def _gradients(y: Any, xs: Any, **how: Any) -> Any:
    return torch.autograd.grad(y, xs, **how)


def _backward(g: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    g(x, w).backward()
    return x.grad, w.grad


def _grad(g: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    return _gradients(g(x, w), (x, w))


def _second(g: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    first = _gradients(g(x, w), (x, w), create_graph=True)
    return _gradients(sum((a.abs() ** 2).sum() for a in first), (x, w))


def _batched(f: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    rows = torch.eye(3, dtype=x.dtype)
    return _gradients(f(x, w), (x, w), grad_outputs=rows, is_grads_batched=True)


def _checkpointed(g: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    return _gradients(checkpoint(g, x, w, use_reentrant=False), (x, w))


def _dual(f: Any, x: Any, w: Any) -> Any:
    with forward_ad.dual_level():
        y = f(forward_ad.make_dual(x, 2 * x), w)
        return tuple(forward_ad.unpack_dual(y))


def _hooked(g: Any, x: Any, w: Any) -> Any:
    x, w = _leaf(x, w)
    with torch.autograd.graph.save_on_cpu():
        y = g(x, w)
    return _gradients(y, (x, w))


def _compiled(f: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, fullgraph=True, backend="aot_eager")


class _Module(torch.nn.Module):
    def __init__(self, f: Any, w: Any) -> None:
        super().__init__()
        self.f, self.w = f, torch.nn.Parameter(w.detach().clone())

    def forward(self, x: Any) -> Any:
        return self.f(x, self.w)


def _exported(f: Any, x: Any, w: Any, strict: bool) -> Any:
    return torch.export.export(_Module(f, w), (x,), strict=strict).module()(x)


def _trained(f: Any, x: Any, w: Any) -> Any:
    module = torch.export.export(_Module(f, w), (x,), strict=False).module()
    (module(x).abs() ** 2).sum().backward()
    return [p.grad for p in module.parameters()]


def _functional_call(f: Any, x: Any, w: Any) -> Any:
    module = _Module(f, w)
    parameters = dict(module.named_parameters())
    return func.grad(lambda p: (func.functional_call(module, p, (x,)).abs() ** 2).sum())(parameters)["w"]


def _ensemble(f: Any, x: Any, w: Any) -> Any:
    modules = [_Module(f, w), _Module(f, 2 * w)]
    parameters, _ = func.stack_module_state(modules)
    base = copy.deepcopy(modules[0])
    return func.vmap(lambda p: func.functional_call(base, p, (x,)))(parameters)


def _captured(f: Any, x: Any, w: Any) -> Any:
    return func.grad(lambda w: (func.vmap(lambda x: f(x, w))(_rows(x)).abs() ** 2).sum())(w)


#: What torch cannot do with a function that it does not look into.
REFUSED = ("export, strict",)

#: By name: the call, of (vector, scalar, x, w).
CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "call": lambda f, g, x, w: f(x, w),
    "no_grad": lambda f, g, x, w: torch.no_grad()(f)(*_leaf(x, w)),
    "inference_mode": lambda f, g, x, w: torch.inference_mode()(f)(x, w).clone(),
    "backward": lambda f, g, x, w: _backward(g, x, w),
    "autograd.grad": lambda f, g, x, w: _grad(g, x, w),
    "autograd.grad twice": lambda f, g, x, w: _second(g, x, w),
    "is_grads_batched": lambda f, g, x, w: _batched(f, x, w),
    "checkpoint": lambda f, g, x, w: _checkpointed(g, x, w),
    "saved tensors' hooks": lambda f, g, x, w: _hooked(g, x, w),
    "functional.jacobian": lambda f, g, x, w: functional.jacobian(f, (x, w)),
    "functional.jacobian, vectorized": lambda f, g, x, w: functional.jacobian(f, (x, w), vectorize=True),
    "functional.hessian": lambda f, g, x, w: functional.hessian(g, (x, w)),
    "functional.vjp": lambda f, g, x, w: functional.vjp(f, (x, w), x)[1],
    "functional.jvp": lambda f, g, x, w: functional.jvp(f, (x, w), (x, w))[1],
    "functional.hvp": lambda f, g, x, w: functional.hvp(lambda x: g(x, w), x, x)[1],
    "functional.vhp": lambda f, g, x, w: functional.vhp(lambda x: g(x, w), x, x)[1],
    "forward_ad": lambda f, g, x, w: _dual(f, x, w),
    "func.grad": lambda f, g, x, w: func.grad(g, (0, 1))(x, w),
    "func.grad, captured": lambda f, g, x, w: func.grad(lambda w: g(x, w))(w),
    "func.grad_and_value": lambda f, g, x, w: func.grad_and_value(g)(x, w),
    "func.grad with aux": lambda f, g, x, w: func.grad(lambda x: (g(x, w), f(x, w)), has_aux=True)(x),
    "func.vjp": lambda f, g, x, w: func.vjp(f, x, w)[1](x),
    "func.jvp": lambda f, g, x, w: func.jvp(f, (x, w), (2 * x, w)),
    "func.jvp of one": lambda f, g, x, w: func.jvp(lambda x: f(x, w), (x,), (x,)),
    "func.linearize": lambda f, g, x, w: func.linearize(lambda x: f(x, w), x)[1](x),
    "func.jacrev": lambda f, g, x, w: func.jacrev(f, (0, 1))(x, w),
    "func.jacrev in chunks": lambda f, g, x, w: func.jacrev(f, chunk_size=2)(x, w),
    "func.jacfwd": lambda f, g, x, w: func.jacfwd(f, (0, 1))(x, w),
    "func.hessian": lambda f, g, x, w: func.hessian(g)(x, w),
    "jacrev of jacrev": lambda f, g, x, w: func.jacrev(func.jacrev(f), 1)(x, w),
    "jacfwd of jacfwd": lambda f, g, x, w: func.jacfwd(func.jacfwd(f), 1)(x, w),
    "jacrev of jacfwd": lambda f, g, x, w: func.jacrev(func.jacfwd(f))(x, w),
    "jvp of grad": lambda f, g, x, w: func.jvp(lambda x: func.grad(g)(x, w), (x,), (x,)),
    "grad of grad": lambda f, g, x, w: func.grad(lambda x: (func.grad(g)(x, w).abs() ** 2).sum())(x),
    "grad of jvp": lambda f, g, x, w: func.grad(lambda x: func.jvp(lambda x: g(x, w), (x,), (x,))[1])(x),
    "vmap": lambda f, g, x, w: func.vmap(f, (0, None))(_rows(x), w),
    "vmap of both": lambda f, g, x, w: func.vmap(f)(_rows(x), _rows(w)),
    "vmap, other axes": lambda f, g, x, w: func.vmap(f, (1, 2), 1)(_rows(x).T, torch.stack([w, w, -w], 2)),
    "vmap twice": lambda f, g, x, w: func.vmap(func.vmap(f, (None, 0)), (0, None))(_rows(x), _rows(w)),
    "vmap in chunks": lambda f, g, x, w: func.vmap(f, (0, None), chunk_size=2)(_rows(x), w),
    "vmap of grad": lambda f, g, x, w: func.vmap(func.grad(g, (0, 1)), (0, None))(_rows(x), w),
    "grad of vmap": lambda f, g, x, w: func.grad(lambda x: func.vmap(g, (0, None))(_rows(x), w).sum())(x),
    "jvp of vmap": lambda f, g, x, w: func.jvp(lambda x: func.vmap(f, (0, None))(_rows(x), w), (x,), (x,)),
    "vmap of jvp": lambda f, g, x, w: func.vmap(lambda x: func.jvp(lambda x: f(x, w), (x,), (x,)))(_rows(x)),
    "vmap of hessian": lambda f, g, x, w: func.vmap(func.hessian(g), (0, None))(_rows(x), w),
    "vmap, captured": lambda f, g, x, w: _captured(f, x, w),
    "backward of vmap": lambda f, g, x, w: _backward(
        lambda x, w: func.vmap(g, (0, None))(_rows(x), w).sum(), x, w
    ),
    "functional_call": lambda f, g, x, w: _functional_call(f, x, w),
    "ensemble": lambda f, g, x, w: _ensemble(f, x, w),
    "compile": lambda f, g, x, w: _compiled(lambda x, w: f(x, w) * 2)(x, w),
    "compile, backward": lambda f, g, x, w: _backward(_compiled(lambda x, w: g(x, w) * 2), x, w),
    "compile of the function": lambda f, g, x, w: _compiled(f)(x, w),
    "compile of a module": lambda f, g, x, w: _compiled(_Module(f, w))(x),
    "compile of func.grad": lambda f, g, x, w: _compiled(func.grad(g))(x, w),
    "compile of func.jvp": lambda f, g, x, w: _compiled(lambda x, w: func.jvp(f, (x, w), (x, w)))(x, w),
    "compile of vmap": lambda f, g, x, w: _compiled(lambda x, w: func.vmap(f, (0, None))(_rows(x), w))(x, w),
    "compile of jacrev": lambda f, g, x, w: _compiled(func.jacrev(f))(x, w),
    "export": lambda f, g, x, w: _exported(f, x, w, False),
    "export, strict": lambda f, g, x, w: _exported(f, x, w, True),
    "export, trained": lambda f, g, x, w: _trained(f, x, w),
    "make_fx": lambda f, g, x, w: make_fx(f)(x, w)(2 * x, w),
    "make_fx of grad": lambda f, g, x, w: make_fx(func.grad(g))(x, w)(2 * x, w),
    "make_fx, symbolic": lambda f, g, x, w: make_fx(f, tracing_mode="fake")(x, w)(2 * x, w),
    "functionalize": lambda f, g, x, w: func.functionalize(f)(x, w),
    "gradcheck": lambda f, g, x, w: torch.tensor(
        x.dtype == torch.float32 or torch.autograd.gradcheck(f, _leaf(x, w))
    ),
    "gradcheck, forward and batched": lambda f, g, x, w: torch.tensor(
        x.dtype == torch.float32
        or torch.autograd.gradcheck(f, _leaf(x, w), check_forward_ad=True, check_batched_grad=True)
    ),
    "gradgradcheck": lambda f, g, x, w: torch.tensor(
        x.dtype == torch.float32 or torch.autograd.gradgradcheck(f, _leaf(x, w))
    ),
}


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A vector and a matrix of ``dtype``."""
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(3, dtype=dtype, generator=generator),
        torch.randn(3, 3, dtype=dtype, generator=generator),
    )
