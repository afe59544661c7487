"""Special functions under SciPy's names: `iverson.special`. Most are made from records of `core.scalars`.

Derivatives are exact to any order, in both modes and in every argument but whole orders. Those of incomplete
gamma and beta functions in their parameters are by `iverson.core.scalars.incomplete`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import numpy as np

from iverson.array_api.conventions.operands import SCALARS as NUMBERS
from iverson.array_api.conventions.operands import as_inexact, as_operand, as_weak, cast, check_kind, named
from iverson.array_api.elementwise import digamma, documented, erf, erfc, exp2, lgamma, sigmoid
from iverson.array_api.nn import log_softmax as _log_softmax
from iverson.array_api.nn import softmax as _softmax
from iverson.array_api.reduction.reductions import logsumexp as _logsumexp
from iverson.core import dtypes
from iverson.core.dispatch import bind
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.scalars import SCALARS, Scalar
from iverson.core.shapes import as_int, normalize_axes
from iverson.ops import TABLE, F

if TYPE_CHECKING:
    from iverson.array_api._special import *
    from iverson.handles.array import Array
    from iverson.handles.typing import A, ArrayLike, Axes, Axis


def _of_record(scalar: Scalar) -> Callable[..., Any]:
    """Public function of a record of one, two or three arguments, with its signature and docstring."""
    op, name, names = TABLE[scalar.name], scalar.name, scalar.arguments

    def called(*xs: Array | ArrayLike) -> Any:
        # A Python number stays one where it meets an array.
        make_operand = as_operand if all(type(x) in NUMBERS for x in xs) else as_weak
        return bind(
            op, tuple([make_operand(x, name, argument) for x, argument in zip(xs, names, strict=True)])
        )

    def of_one(x1: A | ArrayLike, /) -> A:
        return called(x1)

    def of_two(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
        return called(x1, x2)

    def of_three(x1: A | ArrayLike, x2: A | ArrayLike, x3: A | ArrayLike, /) -> A:
        return called(x1, x2, x3)

    function: Any = (of_one, of_two, of_three)[scalar.arity - 1]
    parameters = [Parameter(n, Parameter.POSITIONAL_ONLY, annotation="A | ArrayLike") for n in names]
    function.__signature__ = Signature(parameters, return_annotation="A")
    return named(function, name, documented(scalar))


_FROM_RECORDS = {s.name: _of_record(s) for s in SCALARS.values() if s.example and s.space == "special"}
globals().update(_FROM_RECORDS)

expit = sigmoid
gammaln = lgamma
psi = digamma


def _read(name: str, **arguments: Array | ArrayLike) -> list[Any]:
    """List of the operands of a composed function in their common dtype; Python numbers become arrays of it.

    Numbers are converted here, as an intermediate result of numbers alone would have a dtype of its own.
    name : the function, for errors.
    """
    make_operand = as_operand if all(type(x) in NUMBERS for x in arguments.values()) else as_weak
    operands = [make_operand(x, name, argument) for argument, x in arguments.items()]
    for x, argument in zip(operands, arguments, strict=True):
        check_kind(x, "iuf", name, argument) if type(x) not in NUMBERS else None
    common_dtype = dtypes.to_inexact(dtypes.result_type(*operands))
    return [
        as_operand(np.asarray(x, common_dtype), name) if type(x) in NUMBERS else cast(x, common_dtype)
        for x in operands
    ]


def huber(delta: A | ArrayLike, r: A | ArrayLike, /) -> A:
    """r**2 / 2 where abs(r) <= delta, else delta * (abs(r) - delta / 2); inf for negative delta.

    Raises DTypeError for dtypes that are not real, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> huber(1., asarray([0.5, 2.]))
    iverson.Tensor([0.125, 1.5  ])
    """
    bound, x = _read("huber", delta=delta, r=r)
    size = F.abs(x)
    loss = F.where(F.less_equal(size, bound), 0.5 * x * x, bound * (size - 0.5 * bound))
    return F.where(F.less(bound, 0), float("inf"), loss)


def pseudo_huber(delta: A | ArrayLike, r: A | ArrayLike, /) -> A:
    """delta**2 * (sqrt(1 + (r / delta)**2) - 1), smooth everywhere; inf for negative delta.

    Raises DTypeError for dtypes that are not real, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> pseudo_huber(1., asarray([0., 2.]))
    iverson.Tensor([0.        , 1.23606798])
    """
    bound, x = _read("pseudo_huber", delta=delta, r=r)
    none = F.equal(bound, 0)
    u = x / F.where(none, 1.0, bound)
    loss = F.where(none, 0.0, x * x / (F.sqrt(1 + u * u) + 1))
    return F.where(F.less(bound, 0), float("inf"), loss)


def radian(d: A | ArrayLike, m: A | ArrayLike, s: A | ArrayLike, /) -> A:
    """The angle of d degrees, m minutes and s seconds, in radians.

    Raises DTypeError for dtypes that are not real, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> radian(asarray([180.]), 0., 0.)
    iverson.Tensor([3.14159265])
    """
    degrees, minutes, seconds = _read("radian", d=d, m=m, s=s)
    return (degrees + (minutes + seconds / 60) / 60) * (math.pi / 180)


def gdtr(a: A | ArrayLike, b: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The distribution function at x of the gamma distribution of rate a and shape b.

    Raises DTypeError for dtypes that are not real, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> gdtr(1., 1., asarray([1., 2.]))
    iverson.Tensor([0.63212056, 0.86466472])
    """
    rate, shape, at = _read("gdtr", a=a, b=b, x=x)
    return F.gammainc(shape, rate * at)


def gdtrc(a: A | ArrayLike, b: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """1 - gdtr(a, b, x), exact in the tail.

    >>> from iverson import asarray
    >>> gdtrc(1., 1., asarray([1., 2.]))
    iverson.Tensor([0.36787944, 0.13533528])
    """
    rate, shape, at = _read("gdtrc", a=a, b=b, x=x)
    return F.gammaincc(shape, rate * at)


def pdtr(k: A | ArrayLike, m: A | ArrayLike, /) -> A:
    """The distribution function at k of the Poisson distribution of mean m; differentiable in m.

    >>> from iverson import asarray
    >>> pdtr(1., asarray([1., 2.]))
    iverson.Tensor([0.73575888, 0.40600585])
    """
    k, m = _read("pdtr", k=k, m=m)
    return F.gammaincc(F.floor(k) + 1.0, m)


def pdtrc(k: A | ArrayLike, m: A | ArrayLike, /) -> A:
    """1 - pdtr(k, m), exact in the tail; differentiable in m.

    >>> from iverson import asarray
    >>> pdtrc(1., asarray([1., 2.]))
    iverson.Tensor([0.26424112, 0.59399415])
    """
    k, m = _read("pdtrc", k=k, m=m)
    return F.gammainc(F.floor(k) + 1.0, m)


def fdtr(dfn: A | ArrayLike, dfd: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The distribution function at x of the F distribution of dfn and dfd degrees of freedom.

    Raises DTypeError for dtypes that are not real, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> fdtr(2., 2., asarray([1., 3.]))
    iverson.Tensor([0.5 , 0.75])
    """
    return _of_ratio("fdtr", dfn, dfd, x)[0]


def fdtrc(dfn: A | ArrayLike, dfd: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """1 - fdtr(dfn, dfd, x), exact in the tail.

    >>> from iverson import asarray
    >>> fdtrc(2., 2., asarray([1., 3.]))
    iverson.Tensor([0.5 , 0.25])
    """
    return _of_ratio("fdtrc", dfn, dfd, x)[1]


def _of_ratio(
    name: str, dfn: Array | ArrayLike, dfd: Array | ArrayLike, x: Array | ArrayLike
) -> tuple[Any, Any]:
    """Values of `fdtr` and `fdtrc`, both exact where they are small.

    They are computed from the smaller one of w = n x / (d + n x) and 1 - w.
    """
    n, d, at = _read(name, dfn=dfn, dfd=dfd, x=x)
    low = F.less(n * at, d)
    a, b = F.where(low, 0.5 * n, 0.5 * d), F.where(low, 0.5 * d, 0.5 * n)
    w = F.where(low, n * at, d) / (d + n * at)
    lower, upper = F.betainc(a, b, w), F.betaincc(a, b, w)
    return F.where(low, lower, upper), F.where(low, upper, lower)


def multigammaln(a: A | ArrayLike, d: int, /) -> A:
    """The logarithm of the multivariate gamma function of dimension d, for a > (d - 1) / 2.

    Raises DTypeError for dtypes that are not real, ArgumentError for d below 1.

    >>> from iverson import asarray
    >>> multigammaln(asarray([2., 3.]), 2)
    iverson.Tensor([0.45158271, 1.55019499])
    """
    (x,), d = _read("multigammaln", a=a), as_int(d, "multigammaln", "d")
    if d < 1:
        raise ArgumentError("multigammaln", "d", got=str(d), expected="a dimension, 1 or more")
    from iverson.array_api.entries.creation import arange

    shifted = F.lgamma(F.expand_dims(x, axis=(x.ndim,)) - 0.5 * arange(d, dtype=x.dtype))
    return F.sum(shifted, axis=(x.ndim,), keepdims=False) + d * (d - 1) / 4 * math.log(math.pi)


_MADE = (
    "fdtr", "fdtrc", "gdtr", "gdtrc", "huber", "multigammaln", "pdtr", "pdtrc", "pseudo_huber", "radian",
)  # fmt: skip


def polygamma(n: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The n-th derivative of digamma. Differentiable in x.

    Parameters
    ----------
    n : a whole number of at least 0, or an integer array of them.
    x : an array or a number, of a real dtype; n and x broadcast.

    Raises DTypeError for other dtypes, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> polygamma(1, asarray([1., 2.]))
    iverson.Tensor([1.64493407, 0.64493407])
    """
    if type(n) is not int:
        n = as_operand(n, "polygamma", "n")
        check_kind(n, "iu", "polygamma", "n")
    return F.polygamma(n, as_inexact(x, "polygamma"))


def zeta(x: A | ArrayLike, q: A | ArrayLike = 1.0, /) -> A:
    """The Hurwitz zeta function, the sum of (k + q)**-x over k >= 0; for q = 1, the default, Riemann's.

    Parameters
    ----------
    x, q : arrays or numbers that broadcast, of a real dtype. Riemann's function is defined for x below 1 too.

    Differentiable in both: in x by the Euler-Maclaurin formula (NIST Handbook of Mathematical Functions,
    25.11) for x >= -2, and below, for q = 1, by the reflection formula (25.4.1); for other q the derivatives
    are nan there. Raises DTypeError for other dtypes, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> zeta(asarray([2., 4.]))
    iverson.Tensor([1.64493407, 1.08232323])
    """
    x = as_operand(x, "zeta") if type(q) in NUMBERS else as_weak(x, "zeta")
    return F.zeta(x, as_weak(q, "zeta", "q"))


@checked
def logsumexp(
    a: A | ArrayLike, /, axis: Axes = None, b: A | ArrayLike | None = None, *, keepdims: bool = False
) -> A:
    """log(sum(b * exp(a))) over axes (None: all), without overflow; -inf where there is no entry.

    Parameters
    ----------
    a : an array of a real dtype.
    axis : the axes to reduce; None for all.
    b : factors that broadcast with a, of either sign, 1 unless given. A sum below 0 has the logarithm nan.
    keepdims : whether reduced axes stay, with extent 1.

    Raises AxisError, DTypeError for complex a or b, ShapeError where shapes do not fit.

    >>> from iverson import asarray
    >>> logsumexp(asarray([1000., 1000.]), b=asarray([2., -1.]))
    iverson.Tensor(1000.)
    """
    if b is None:
        return _logsumexp(a, axis, keepdims=keepdims)
    a, b = as_inexact(a, "logsumexp", "a"), as_inexact(b, "logsumexp", "b")
    for x, argument in ((a, "a"), (b, "b")):
        check_kind(x, "f", "logsumexp", argument)
    a = a + 0.0 * b
    axes = normalize_axes(axis, a.ndim, "logsumexp")
    if not a.size:
        return _logsumexp(a, axis, keepdims=keepdims)
    top = F.max(F.where(F.equal(b, 0), -float("inf"), a), axis=axes, keepdims=True)
    top = F.where(F.isfinite(top), top, 0.0)
    # Above the top are only entries with the factor 0, which must not become 0 * inf.
    terms = b * F.exp(F.minimum(a - top, 80.0))
    total = F.log(F.sum(terms, axis=axes, keepdims=True)) + top
    return total if keepdims else F.squeeze(total, axis=axes)


@checked
def softmax(x: A | ArrayLike, /, axis: Axis | None = None) -> A:
    """exp(x) / sum(exp(x)) along an axis; over all entries unless an axis is given. As `iverson.softmax`.

    >>> from iverson import asarray
    >>> softmax(asarray([[0., 0.], [0., 0.]]))
    iverson.Tensor([[0.25, 0.25],
                    [0.25, 0.25]])
    """
    return _along(_softmax, x, axis, "softmax")


@checked
def log_softmax(x: A | ArrayLike, /, axis: Axis | None = None) -> A:
    """x - log(sum(exp(x))) along an axis; over all entries unless an axis is given. As `iverson.log_softmax`.

    >>> from iverson import asarray
    >>> log_softmax(asarray([0., 0.]))
    iverson.Tensor([-0.69314718, -0.69314718])
    """
    return _along(_log_softmax, x, axis, "log_softmax")


def _along(function: Callable[..., Array], x: Array | ArrayLike, axis: Axis | None, name: str) -> Any:
    x = as_operand(x, name)
    if axis is not None and type(axis) is not int:
        raise ArgumentTypeError(name, "axis", got=described(axis), expected="an integer or None")
    if axis is not None or x.ndim == 1:
        return function(x, -1 if axis is None else axis)
    return F.reshape(function(F.reshape(x, shape=(x.size,))), shape=x.shape)


if not TYPE_CHECKING:
    __all__ = [
        "digamma",
        "erf",
        "erfc",
        "exp2",
        "expit",
        "gammaln",
        "log_softmax",
        "logsumexp",
        "polygamma",
        "psi",
        "softmax",
        "zeta",
        *_FROM_RECORDS,
        *_MADE,
    ]

    def __dir__() -> list[str]:
        return sorted(__all__)
