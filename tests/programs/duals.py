"""Arrays of dual numbers over NumPy: values and derivatives of any order, by forward mode alone.

An oracle for programs that are compiled, mapped and differentiated: nothing here is compiled, a batch is a
loop over examples, a loop is a Python loop, and a gradient is one pass for each entry. A tangent that is zero
by structure is None and is never multiplied, so what a selection leaves out meets no factor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Dual:
    """A value and its tangent; both are arrays or duals of lower levels."""

    __slots__ = ("level", "tangent", "value")

    def __init__(self, level: int, value: Any, tangent: Any) -> None:
        self.level, self.value, self.tangent = level, value, tangent


Rule = Callable[..., Any]
LEVELS = itertools.count(1)


def base(x: Any) -> np.ndarray:
    """The entries, without any tangent."""
    while isinstance(x, Dual):
        x = x.value
    return np.asarray(x)


def _level(args: Sequence[Any]) -> int:
    return max((a.level for a in args if isinstance(a, Dual)), default=0)


def _parts(args: Sequence[Any], level: int) -> tuple[list[Any], list[Any]]:
    at = [isinstance(a, Dual) and a.level == level for a in args]
    values = [a.value if here else a for a, here in zip(args, at, strict=True)]
    return values, [a.tangent if here else None for a, here in zip(args, at, strict=True)]


def elementary(body: Rule, *rules: Rule | None) -> Rule:
    """A function with one rule for each argument: the tangent of the result from that of the argument."""

    def call(*args: Any, **params: Any) -> Any:
        level = _level(args)
        if not level:
            return np.asarray(body(*args, **params))
        values, tangents = _parts(args, level)
        y, total = call(*values, **params), None
        for t, rule in zip(tangents, rules, strict=False):
            if t is not None and rule is not None:
                term = rule(t, y, *values, **params)
                total = term if total is None else add(total, term)
        return y if total is None else Dual(level, y, total)

    return call


def linear(body: Rule) -> Rule:
    """A function that is linear in its arguments together."""

    def call(*args: Any, **params: Any) -> Any:
        level = _level(args)
        if not level:
            return np.asarray(body(*args, **params))
        values, tangents = _parts(args, level)
        y = call(*values, **params)
        if all(t is None for t in tangents):
            return y
        zeros = [np.zeros_like(base(v)) if t is None else t for v, t in zip(values, tangents, strict=True)]
        return Dual(level, y, call(*zeros, **params))

    return call


def _unary(body: Rule, slope: Rule) -> Rule:
    return elementary(body, lambda t, y, x: mul(t, slope(y, x)))


def _put(x: np.ndarray, v: np.ndarray, index: Any) -> np.ndarray:
    out = np.array(x, dtype=np.result_type(x, v))
    out[index] = v
    return out


def _add_at(x: np.ndarray, v: np.ndarray, index: Any) -> np.ndarray:
    out = np.array(x, dtype=np.result_type(x, v))
    np.add.at(out, index, v)
    return out


add = linear(np.add)
sub = linear(np.subtract)
neg = linear(np.negative)
mul = elementary(np.multiply, lambda t, y, a, b: mul(t, b), lambda t, y, a, b: mul(a, t))
div = elementary(np.divide, lambda t, y, a, b: div(t, b), lambda t, y, a, b: neg(mul(t, div(y, b))))
matmul = elementary(np.matmul, lambda t, y, a, b: matmul(t, b), lambda t, y, a, b: matmul(a, t))
where = linear(lambda a, b, *, condition: np.where(condition, a, b))
index = linear(lambda x, *, index: x[index])
put = linear(lambda x, v, *, index: _put(x, v, index))
add_at = linear(lambda x, v, *, index: _add_at(x, v, index))
total = linear(lambda x, *, axis=None, keepdims=False: np.sum(x, axis=axis, keepdims=keepdims))
running_total = linear(lambda x, *, axis: np.cumsum(x, axis=axis))
reshape = linear(lambda x, *, shape: np.reshape(x, shape))
permute = linear(lambda x, *, axes: np.transpose(x, axes))
broadcast = linear(lambda x, *, shape: np.broadcast_to(x, shape))
concat = linear(lambda *xs, axis: np.concatenate(xs, axis=axis))
stack = linear(lambda *xs, axis: np.stack(xs, axis=axis))
pad = linear(lambda x, *, widths: np.pad(x, widths))
flip = linear(lambda x, *, axis: np.flip(x, axis))
roll = linear(lambda x, *, shift, axis: np.roll(x, shift, axis))
diagonal = linear(lambda x, *, offset: np.diagonal(x, offset, -2, -1))
tril = linear(lambda x, *, k: np.tril(x, k))
triu = linear(lambda x, *, k: np.triu(x, k))
take_along = linear(lambda x, *, indices, axis: np.take_along_axis(x, indices, axis))
real = linear(np.real)
imag = linear(np.imag)
conj = linear(np.conj)

power = elementary(
    lambda x, *, exponent: np.power(x, exponent),
    lambda t, y, x, *, exponent: mul(t, mul(exponent, power(x, exponent=exponent - 1))),
)
sin = _unary(np.sin, lambda y, x: cos(x))
cos = _unary(np.cos, lambda y, x: neg(sin(x)))
exp = _unary(np.exp, lambda y, x: y)
log = _unary(np.log, lambda y, x: div(1.0, x))
sqrt = _unary(np.sqrt, lambda y, x: div(0.5, y))
log1p = _unary(np.log1p, lambda y, x: div(1.0, add(1.0, x)))
arccos = _unary(np.arccos, lambda y, x: neg(power(sub(1.0, mul(x, x)), exponent=-0.5)))
tanh = _unary(np.tanh, lambda y, x: sub(1.0, mul(y, y)))
sigmoid = _unary(lambda x: 1 / (1 + np.exp(-x)), lambda y, x: mul(y, sub(1.0, y)))
# The convention where arguments are equal: they share the derivative.
maximum = linear(lambda a, b, *, share: share * a + (1 - share) * b)


def select(condition: Any, a: Any, b: Any) -> Any:
    return where(a, b, condition=condition)


def relu(x: Any) -> Any:
    return select((base(x) > 0) | np.isnan(base(x)), x, np.zeros_like(base(x)))


def absolute(x: Any) -> Any:
    if base(x).dtype.kind == "c":
        return sqrt(add(square(real(x)), square(imag(x))))
    return select(base(x) > 0, x, neg(x)) if np.all(base(x)) else mul(np.sign(base(x)), x)


def square(x: Any) -> Any:
    return mul(x, x)


def larger(a: Any, b: Any) -> Any:
    x, y = base(a), base(b)
    halves = mul(0.5, add(a, b))
    return select(x == y, halves, select((x > y) | np.isnan(x), a, b))


def extreme(x: Any, axis: int, keepdims: bool, best: Callable[..., Any]) -> Any:
    """The largest or smallest along an axis; equal ones share the derivative."""
    entries = base(x)
    found = best(entries, axis=axis, keepdims=True)
    ties = (entries == found) | (np.isnan(entries) & np.isnan(found))
    weights = ties / np.sum(ties, axis=axis, keepdims=True)
    return total(select(ties, mul(x, weights), np.zeros(())), axis=axis, keepdims=keepdims)


def product(x: Any, axis: int) -> Any:
    """The product along an axis, factor by factor."""
    n = base(x).shape[axis]
    shape = np.delete(base(x).shape, axis)
    out: Any = np.ones(tuple(shape))
    for k in range(n):
        out = mul(out, index(x, index=(slice(None),) * (axis % base(x).ndim) + (k,)))
    return out


# --- derivatives ---------------------------------------------------------------


def tangent_of(y: Any, level: int) -> Any:
    if isinstance(y, Dual) and y.level == level:
        return y.tangent
    return np.zeros_like(base(y))


def primal_of(y: Any, level: int) -> Any:
    return y.value if isinstance(y, Dual) and y.level == level else y
