"""Calls of JAX's transforms on a function, each written once for the wrapped function and for JAX's own.

A call takes ``vector`` (of x and w, to a vector), ``scalar`` (to a real number) and arrays x and w.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import jet
from jax.extend.core import jaxpr_as_fun


def vector(F: Any) -> Callable[..., Any]:
    """A holomorphic function of a vector and a matrix."""
    return lambda x, w: F.sin(x @ w) * F.exp(x * 0.5)


def scalar(F: Any) -> Callable[..., Any]:
    """A real function, not holomorphic for complex arguments."""
    f = vector(F)
    return lambda x, w: F.sum(F.abs(f(x, w)) ** 2) + F.sum(F.real(x * x))


def _holomorphic(x: Any) -> bool:
    return bool(jnp.iscomplexobj(x))


def _scan(f: Any, x: Any, w: Any) -> Any:
    return lax.scan(lambda c, _: (f(c, w) * 0.5, c), x, None, length=3)


def _while(f: Any, x: Any, w: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], w) * 0.5), (0, x))[1]


def _cond(f: Any, x: Any, w: Any) -> Any:
    return lax.cond(jnp.real(x)[0] > 0, lambda x: f(x, w), lambda x: x, x)


def _custom(f: Any) -> Any:
    @jax.custom_jvp
    def outer(x: Any, w: Any) -> Any:
        return f(x, w)

    @outer.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return jax.jvp(f, primals, tangents)

    return outer


def _linear_transpose(f: Any, x: Any, w: Any) -> Any:
    y, along = jax.linearize(lambda x: f(x, w), x)
    return jax.linear_transpose(along, x)(y)


def _converted(f: Any, x: Any, w: Any) -> Any:
    pure, constants = jax.closure_convert(lambda x: f(x, w), x)
    return pure(x, *constants)


def _rows(x: Any) -> Any:
    return jnp.stack([x, 2 * x, x - 1])


def _grad(g: Any, **how: Any) -> Any:
    return jax.grad(g, **how)


#: By name: the call, of (vector, scalar, x, w).
CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "call": lambda f, g, x, w: f(x, w),
    "jit": lambda f, g, x, w: jax.jit(f)(x, w),
    "jit twice": lambda f, g, x, w: jax.jit(lambda x: jax.jit(f)(x, w))(x),
    "eval_shape": lambda f, g, x, w: jnp.zeros(jax.eval_shape(f, x, w).shape),
    "make_jaxpr": lambda f, g, x, w: jaxpr_as_fun(jax.make_jaxpr(f)(x, w))(x, w),
    "lower and compile": lambda f, g, x, w: jax.jit(f).lower(x, w).compile()(x, w),
    "grad": lambda f, g, x, w: jax.grad(g)(x, w),
    "grad of both": lambda f, g, x, w: jax.grad(g, (0, 1))(x, w),
    "value_and_grad": lambda f, g, x, w: jax.value_and_grad(g, 1)(x, w),
    "jit of grad": lambda f, g, x, w: jax.jit(jax.grad(g, (0, 1)))(x, w),
    "grad of jit": lambda f, g, x, w: jax.grad(jax.jit(g), (0, 1))(x, w),
    "grad with aux": lambda f, g, x, w: jax.grad(lambda x: (g(x, w), f(x, w)), has_aux=True)(x),
    "grad, captured": lambda f, g, x, w: jax.grad(lambda w: g(x, w))(w),
    "holomorphic grad": lambda f, g, x, w: jax.grad(lambda x: f(x, w).sum(), holomorphic=_holomorphic(x))(x),
    "vjp": lambda f, g, x, w: jax.vjp(f, x, w)[1](x),
    "vjp called twice": lambda f, g, x, w: [jax.vjp(f, x, w)[1](c * x) for c in (1, 2)],
    "vjp in jit": lambda f, g, x, w: jax.jit(lambda x, w: jax.vjp(f, x, w)[1](x))(x, w),
    "jvp": lambda f, g, x, w: jax.jvp(f, (x, w), (2 * x, w)),
    "jvp of one": lambda f, g, x, w: jax.jvp(lambda x: f(x, w), (x,), (x,)),
    "jvp in jit": lambda f, g, x, w: jax.jit(lambda x, w: jax.jvp(f, (x, w), (x, w)))(x, w),
    "jvp of jit": lambda f, g, x, w: jax.jvp(jax.jit(f), (x, w), (x, w)),
    "jvp of scalar": lambda f, g, x, w: jax.jvp(g, (x, w), (x, w)),
    "linearize": lambda f, g, x, w: jax.linearize(f, x, w)[1](x, w),
    "linearize, vmap": lambda f, g, x, w: jax.vmap(jax.linearize(lambda x: f(x, w), x)[1])(_rows(x)),
    "linear_transpose": lambda f, g, x, w: _linear_transpose(f, x, w),
    "jacrev": lambda f, g, x, w: jax.jacrev(f, holomorphic=_holomorphic(x))(x, w),
    "jacfwd": lambda f, g, x, w: jax.jacfwd(f, holomorphic=_holomorphic(x))(x, w),
    "jacfwd of both": lambda f, g, x, w: jax.jacfwd(f, (0, 1), holomorphic=_holomorphic(x))(x, w),
    "jit of jacrev": lambda f, g, x, w: jax.jit(jax.jacrev(f, holomorphic=_holomorphic(x)))(x, w),
    "jit of jacfwd": lambda f, g, x, w: jax.jit(jax.jacfwd(f, holomorphic=_holomorphic(x)))(x, w),
    "hessian": lambda f, g, x, w: jax.hessian(lambda x: f(x, w).sum(), holomorphic=_holomorphic(x))(x),
    "hessian of both": lambda f, g, x, w: jax.hessian(
        lambda x, w: f(x, w).sum(), (0, 1), holomorphic=_holomorphic(x)
    )(x, w),
    "jit of hessian": lambda f, g, x, w: jax.jit(
        jax.hessian(lambda x: f(x, w).sum(), holomorphic=_holomorphic(x))
    )(x),
    "jacrev of jacrev": lambda f, g, x, w: jax.jacrev(
        jax.jacrev(f, holomorphic=_holomorphic(x)), 1, holomorphic=_holomorphic(x)
    )(x, w),
    "jacfwd of jacfwd": lambda f, g, x, w: jax.jacfwd(
        jax.jacfwd(f, holomorphic=_holomorphic(x)), 1, holomorphic=_holomorphic(x)
    )(x, w),
    "jacrev of jacfwd": lambda f, g, x, w: jax.jacrev(
        jax.jacfwd(f, holomorphic=_holomorphic(x)), holomorphic=_holomorphic(x)
    )(x, w),
    "hvp, forward over reverse": lambda f, g, x, w: jax.jvp(lambda x: jax.grad(g)(x, w), (x,), (x,))[1],
    "hvp, reverse over reverse": lambda f, g, x, w: jax.grad(
        lambda x: jnp.sum(jnp.real(jax.grad(g)(x, w) * 2))
    )(x),
    "hvp, reverse over forward": lambda f, g, x, w: jax.grad(
        lambda x: jax.jvp(lambda x: g(x, w), (x,), (jnp.ones_like(x),))[1]
    )(x),
    "hvp in jit": lambda f, g, x, w: jax.jit(lambda x: jax.jvp(lambda x: jax.grad(g)(x, w), (x,), (x,))[1])(
        x
    ),
    "third": lambda f, g, x, w: jax.grad(
        lambda x: jnp.sum(jnp.real(jax.grad(lambda x: jnp.sum(jnp.real(jax.grad(g)(x, w))))(x)))
    )(x),
    "jet": lambda f, g, x, w: jet.jet(lambda x: f(x, w), (x,), ([jnp.ones_like(x), 0 * x],)),
    "vmap": lambda f, g, x, w: jax.vmap(f, (0, None))(_rows(x), w),
    "vmap of both": lambda f, g, x, w: jax.vmap(f)(_rows(x), _rows(w)),
    "vmap, other axes": lambda f, g, x, w: jax.vmap(f, (1, 2), 1)(_rows(x).T, jnp.stack([w, w, -w], 2)),
    "vmap twice": lambda f, g, x, w: jax.vmap(jax.vmap(f, (None, 0)), (0, None))(_rows(x), _rows(w)),
    "vmap of one": lambda f, g, x, w: jax.vmap(f, (0, None))(x[None], w),
    "vmap in jit": lambda f, g, x, w: jax.jit(jax.vmap(f, (0, None)))(_rows(x), w),
    "vmap of jit": lambda f, g, x, w: jax.vmap(jax.jit(f), (0, None))(_rows(x), w),
    "vmap, captured": lambda f, g, x, w: jax.vmap(lambda x: f(x, w * x[0]))(_rows(x)),
    "vmap of grad": lambda f, g, x, w: jax.vmap(jax.grad(g, (0, 1)), (0, None))(_rows(x), w),
    "grad of vmap": lambda f, g, x, w: jax.grad(lambda x: jax.vmap(g, (0, None))(_rows(x), w).sum())(x),
    "jvp of vmap": lambda f, g, x, w: jax.jvp(lambda x: jax.vmap(f, (0, None))(_rows(x), w), (x,), (x,)),
    "vmap of hessian": lambda f, g, x, w: jax.vmap(
        jax.hessian(lambda x: f(x, w).sum(), holomorphic=_holomorphic(x))
    )(_rows(x)),
    "checkpoint": lambda f, g, x, w: jax.grad(jax.checkpoint(g), (0, 1))(x, w),
    "scan": lambda f, g, x, w: _scan(f, x, w),
    "grad of scan": lambda f, g, x, w: jax.grad(lambda x: jnp.sum(jnp.abs(_scan(f, x, w)[0]) ** 2))(x),
    "while_loop": lambda f, g, x, w: _while(f, x, w),
    "jvp of while_loop": lambda f, g, x, w: jax.jvp(lambda x: _while(f, x, w), (x,), (x,)),
    "fori_loop": lambda f, g, x, w: lax.fori_loop(0, 3, lambda _, c: f(c, w) * 0.5, x),
    "cond": lambda f, g, x, w: _cond(f, x, w),
    "grad of cond": lambda f, g, x, w: jax.grad(lambda x: jnp.sum(jnp.abs(_cond(f, x, w)) ** 2))(x),
    "switch": lambda f, g, x, w: lax.switch(1, [lambda x: x, lambda x: f(x, w)], x),
    "map": lambda f, g, x, w: lax.map(lambda x: f(x, w), _rows(x)),
    "map in batches": lambda f, g, x, w: lax.map(lambda x: f(x, w), _rows(x), batch_size=2),
    "associative_scan": lambda f, g, x, w: lax.associative_scan(
        jax.vmap(lambda a, b: f(a, w) + b), jnp.stack([x, x])
    ),
    "custom_jvp around": lambda f, g, x, w: jax.jvp(_custom(f), (x, w), (x, w)),
    "custom_vjp's residual": lambda f, g, x, w: jax.grad(lambda x: jnp.sum(jnp.abs(_custom(f)(x, w)) ** 2))(
        x
    ),
    "closure_convert": lambda f, g, x, w: _converted(f, x, w),
    "pmap": lambda f, g, x, w: jax.pmap(f, in_axes=(0, None))(x[None], w),
    "disable_jit": lambda f, g, x, w: _without_jit(f, x, w),
    "debug_nans": lambda f, g, x, w: _with_debug_nans(f, x, w),
    "stop_gradient": lambda f, g, x, w: jax.grad(lambda x: g(x, lax.stop_gradient(w * x[0])))(x),
    "donate": lambda f, g, x, w: jax.jit(f, donate_argnums=0)(x + 0, w),
    "partial": lambda f, g, x, w: jax.jit(functools.partial(lambda w, x: f(x, w), w))(x),
    "named_call": lambda f, g, x, w: jax.named_call(f, name="step")(x, w),
    "tree gradient": lambda f, g, x, w: jax.grad(lambda p: g(p["x"], p["w"]))({"x": x, "w": w}),
    "empty batch": lambda f, g, x, w: jax.vmap(f, (0, None))(_rows(x)[:0], w),
}


def _without_jit(f: Any, x: Any, w: Any) -> Any:
    with jax.disable_jit():
        return jax.jit(f)(x, w)


def _with_debug_nans(f: Any, x: Any, w: Any) -> Any:
    with jax.debug_nans(True):
        return jax.jit(f)(x, w)


def operands(dtype: str) -> tuple[Any, Any]:
    """A vector and a matrix of ``dtype``."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(3), rng.standard_normal((3, 3))
    if np.dtype(dtype).kind == "c":
        x, w = x + 0.3j * x[::-1], w - 0.2j * w.T
    return jnp.asarray(x, dtype), jnp.asarray(w, dtype)
