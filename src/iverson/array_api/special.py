"""Special functions under SciPy's names: of each record that says so the public function, and a few by hand.

Derivatives are exact to any order, in both modes and in every argument but whole orders. Those of incomplete
gamma and beta functions in their parameters are by `iverson.core.scalars.incomplete`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iverson.array_api.arguments import SCALARS as NUMBERS
from iverson.array_api.arguments import as_inexact, as_operand, as_weak, check_kind, named
from iverson.array_api.elementwise import digamma, documented, erf, erfc, lgamma, sigmoid
from iverson.array_api.nn import log_softmax as _log_softmax
from iverson.array_api.nn import softmax as _softmax
from iverson.array_api.reductions import logsumexp as _logsumexp
from iverson.core.arguments import checked
from iverson.core.dispatch import bind
from iverson.core.errors import ArgumentTypeError, described
from iverson.core.scalars import SCALARS, Scalar
from iverson.core.shapes import normalize_axes
from iverson.ops import TABLE, F

if TYPE_CHECKING:
    from iverson.array_api._special import *
    from iverson.tensor.typing import A, ArrayLike, Axes, Axis


def _of_record(scalar: Scalar) -> Callable[..., Any]:
    op, name, names = TABLE[scalar.name], scalar.name, scalar.arguments

    def called(*xs: Any) -> Any:
        # A Python number stays one where it meets an array.
        read = as_operand if all(type(x) in NUMBERS for x in xs) else as_weak
        return bind(op, tuple([read(x, name, argument) for x, argument in zip(xs, names, strict=True)]))

    def of_one(x1: A | ArrayLike, /) -> A:
        return called(x1)

    def of_two(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
        return called(x1, x2)

    def of_three(x1: A | ArrayLike, x2: A | ArrayLike, x3: A | ArrayLike, /) -> A:
        return called(x1, x2, x3)

    function: Any = (of_one, of_two, of_three)[scalar.arity - 1]
    signature = inspect.signature(function)
    given = zip(signature.parameters.values(), names, strict=True)
    function.__signature__ = signature.replace(parameters=[p.replace(name=n) for p, n in given])
    return named(function, name, documented(scalar))


_FROM_RECORDS = {s.name: _of_record(s) for s in SCALARS.values() if s.summary and s.space == "special"}
globals().update(_FROM_RECORDS)

expit = sigmoid
gammaln = lgamma


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
    25.11). Raises DTypeError for other dtypes, ShapeError where shapes do not fit.

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


def softmax(x: A | ArrayLike, /, axis: Axis | None = None) -> A:
    """exp(x) / sum(exp(x)) along an axis; over all entries unless an axis is given. As `iverson.softmax`.

    >>> from iverson import asarray
    >>> softmax(asarray([[0., 0.], [0., 0.]]))
    iverson.Tensor([[0.25, 0.25],
                    [0.25, 0.25]])
    """
    return _along(_softmax, x, axis, "softmax")


def log_softmax(x: A | ArrayLike, /, axis: Axis | None = None) -> A:
    """x - log(sum(exp(x))) along an axis; over all entries unless an axis is given. As `iverson.log_softmax`.

    >>> from iverson import asarray
    >>> log_softmax(asarray([0., 0.]))
    iverson.Tensor([-0.69314718, -0.69314718])
    """
    return _along(_log_softmax, x, axis, "log_softmax")


def _along(function: Callable[..., Any], x: Any, axis: Any, name: str) -> Any:
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
        "expit",
        "gammaln",
        "log_softmax",
        "logsumexp",
        "polygamma",
        "softmax",
        "zeta",
        *_FROM_RECORDS,
    ]

    def __dir__() -> list[str]:
        return sorted(__all__)
