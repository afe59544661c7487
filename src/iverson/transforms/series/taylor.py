"""`jet` and `derivatives`: functions of truncated Taylor series, in one pass for all orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from iverson.autograd.record import selected
from iverson.autograd.tracked_guards import check_no_leaves
from iverson.core import dtypes
from iverson.core.dispatch import alias, make_handle, rewrap, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.core.inputs.arguments import as_function, as_sequence, checked
from iverson.core.protocols import Pytree
from iverson.core.shapes import as_int
from iverson.core.table import F
from iverson.layouts import Zero
from iverson.transforms.series import control_series  # noqa: F401  registers the rules of control flow
from iverson.transforms.series.series_level import Coefficient, SeriesLevel
from iverson.transforms.trees import (
    Function,
    P,
    R,
    as_named,
    flatten,
    match,
    tensors,
    unflatten,
)

if TYPE_CHECKING:
    from optree import PyTreeSpec


class Expansion:
    """A function carried out on series: the structure of its result and the coefficients of each leaf.

    primals : the leaves of its arguments, with their semantics (masks).
    results : of each leaf of the result, its coefficients, plain handles; None where they are zero.
    like : the leaves of the result, of which the semantics are.
    """

    def __init__(
        self,
        level: SeriesLevel,
        function: Function,
        structure: PyTreeSpec,
        primals: Sequence[Pytree],
        coefficients: Sequence[Sequence[Coefficient]],
    ) -> None:
        with level:
            inputs = [rewrap(x, level.handle(cs)) for x, cs in zip(primals, coefficients, strict=True)]
            self.like: list[Any] = []
            try:
                out = function(*unflatten(structure, inputs))
                leaves, self.structure = flatten(out)
                self.like = tensors(leaves, level.name, "the function's result")
                self.results = [level.coefficients_of(unwrap(x)) for x in self.like]
            finally:
                wrote = level.put_back(self.like)
            if wrote:
                raise ArgumentError(
                    level.name,
                    "function",
                    got="a function that writes a series into a tensor around it",
                    expected="a function that returns what it computes",
                    remedy=f"return the value, and write what {level.name} returns; the tensor is as it was",
                )
            check_no_leaves([unwrap(x) for x in inputs], level.name)
            del out, inputs

    def tree(self, k: int, factor: float = 1) -> Any:
        """A tree like the result with coefficient k of each leaf, times a factor."""
        leaves = []
        for like, coefficients in zip(self.like, self.results, strict=True):
            c = coefficients[k]
            if c is None:
                x = unwrap(like)
                c = make_handle(Zero(x.shape, dtypes.to_inexact(x.dtype)))
            elif factor != 1:
                c = F.multiply(c, factor)
            leaves.append(rewrap(like, alias(selected(c))))
        return unflatten(self.structure, leaves)


def floating(leaves: list[Pytree], operation: str, argument: str) -> list[Any]:
    """The leaves as tensors; raises DTypeError for one that is not floating."""
    inputs = tensors(leaves, operation, argument)
    for k, x in enumerate(inputs):
        if not dtypes.is_inexact(x.dtype):
            raise DTypeError(
                operation,
                argument,
                got=f"leaf {k} of dtype {x.dtype}",
                expected="floating tensors",
                remedy="convert it with astype, or let the function close over it",
            )
    return inputs


def as_order(order: SupportsIndex, operation: str) -> int:
    """A number of derivatives; raises ArgumentError for one below 1."""
    number = as_int(order, operation, "order")
    if number < 1:
        raise ArgumentError(operation, "order", got=str(number), expected="a whole number of at least 1")
    return number


@checked
def jet(
    function: Callable[..., R],
    primals: Sequence[Pytree],
    series: Sequence[Sequence[Pytree]],
    scaled: bool = False,
) -> tuple[R, list[R]]:
    """The Taylor series of a function along a curve, to any order: the value and the further coefficients.

    With arguments x(t) = x_0 + x_1 t + ... + x_K t^K, the coefficients y_0, ..., y_K of f(x(t)) are computed
    in one pass, by truncated Taylor arithmetic: about K^2 products of coefficients for each product or
    elementary function, where nested derivatives take a number that grows exponentially with K. Matrix
    products and other linear operations take all coefficients in one call.

    Parameters
    ----------
    function : takes the primals, returns a pytree of tensors.
    primals : pytrees of floating tensors, x_0 of each argument.
    series : for each primal the K coefficients x_1, ..., x_K: pytrees like the primal.
    scaled : True if coefficients are derivatives, in ``series`` and in the result: coefficient k times k!.

    Returns
    -------
    ``(y_0, [y_1, ..., y_K])``, pytrees like the result of the function. Where it follows from the operations
    that a coefficient is zero, it is a tensor in the zero layout.

    Where derivatives need a convention, coefficients follow that of nested `grad` (docs/conventions.md). A
    branch of Python may read a condition, which is that of the value. ``x.detach()`` is the value alone, a
    constant whose entries may be read.

    Raises ArgumentError for no coefficients, for series of different lengths and for trees that do not match,
    DTypeError for integer primals, ShapeError for coefficients of another shape than their primal.

    Method: Griewank and Walther, Evaluating Derivatives (2nd edition, 2008), chapter 13.

    >>> import iverson as iv
    >>> y, (slope, second) = jet(iv.exp, (iv.asarray(0.0),), ([iv.asarray(1.0), iv.asarray(0.0)],))
    >>> y, slope, second
    (iverson.Tensor(1.), iverson.Tensor(1.), iverson.Tensor(0.5))
    >>> jet(iv.sin, (iv.asarray(0.0),), ([1.0, 0.0, 0.0],), scaled=True)[1]
    [iverson.Tensor(1.), iverson.Tensor(0.), iverson.Tensor(-1.)]
    """
    as_function(function, "jet", "function")
    primals, series = as_sequence(primals, "jet", "primals"), as_sequence(series, "jet", "series")
    if len(primals) != len(series) or not primals:
        raise ArgumentError(
            "jet",
            "series",
            got=f"{len(series)} for {len(primals)} primals",
            expected="the coefficients of each primal, and at least one primal",
        )
    lengths = [len(s) if isinstance(s, list | tuple) else -1 for s in series]
    if -1 in lengths:
        raise ArgumentTypeError(
            "jet",
            "series",
            got=f"a {type(series[lengths.index(-1)]).__name__} for primal {lengths.index(-1)}",
            expected="a list or tuple of coefficients, those of orders 1, 2, ...",
        )
    if len(set(lengths)) > 1 or not lengths[0]:
        raise ArgumentError(
            "jet",
            "series",
            got=f"{', '.join(map(str, lengths))} coefficients",
            expected="as many for each primal, and at least one",
            remedy="fill the shorter ones with zeros",
        )
    (order, *_) = lengths
    leaves, structure = flatten(primals)
    inputs = floating(leaves, "jet", "primals")
    coefficients: list[list[Coefficient]] = [[alias(unwrap(x))] for x in inputs]
    for k in range(1, order + 1):
        terms, like = flatten(tuple(s[k - 1] for s in series))
        for x, cs, c in zip(
            inputs, coefficients, match(terms, like, inputs, structure, "jet", "series"), strict=True
        ):
            c = c if c.dtype == x.dtype else F.astype(c, dtype=x.dtype)
            cs.append(F.divide(c, math.factorial(k)) if scaled and k > 1 else c)
    expansion = Expansion(SeriesLevel(order), function, structure, inputs, coefficients)
    factors = [float(math.factorial(k)) if scaled else 1.0 for k in range(order + 1)]
    return expansion.tree(0), [expansion.tree(k, factors[k]) for k in range(1, order + 1)]


@checked
def derivatives(
    function: Callable[P, R], order: SupportsIndex, direction: Pytree = None
) -> Callable[P, list[R]]:
    """A function that returns the value and all derivatives up to an order, of a function of one number.

    Parameters
    ----------
    function : of a first argument that is one number, and of others that are held fixed; returns a pytree.
    order : that of the highest derivative, at least 1.
    direction : a pytree like the first argument, which may then be any pytree of floating tensors: the
        derivatives are those of t -> f(x + t direction) at 0. With ones, those of an elementwise function at
        each entry.

    Returns
    -------
    A function that returns a list of ``order + 1`` pytrees like the result: the value, then the derivatives.
    They are computed together, by one pass of `jet`.

    Raises ArgumentError for an order below 1. The result's call raises ShapeError for a first argument that
    is no number where no direction is given, and for a direction of another shape.

    >>> import iverson as iv
    >>> derivatives(lambda x: x ** 4, 3)(iv.asarray(2.0))
    [iverson.Tensor(16.), iverson.Tensor(32.), iverson.Tensor(48.), iverson.Tensor(48.)]
    >>> derivatives(iv.sin, 2, direction=iv.ones(2))(iv.asarray([0.0, 0.5]))[2]
    iverson.Tensor([-0.        , -0.47942554])
    """
    count = as_order(order, "derivatives")

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        if not args:
            raise ArgumentError(
                "derivatives",
                "args",
                got="no argument by position",
                expected="the argument that is differentiated in, then others",
            )
        x, *constants = args
        leaves, structure = flatten((x,))
        inputs = floating(leaves, "derivatives", "args")
        if direction is None:
            if len(inputs) != 1 or inputs[0].size != 1:
                shapes = ", ".join(str(g.shape) for g in inputs)
                raise ShapeError(
                    "derivatives",
                    "args",
                    got=f"a first argument of shape {shapes}" if shapes else "no tensor",
                    expected="one number",
                    remedy="give a direction, along which a function of many numbers is differentiated",
                )
            tangents = [make_handle(np.ones(inputs[0].shape, inputs[0].dtype))]
        else:
            along, like = flatten((direction,))
            tangents = match(along, like, inputs, structure, "derivatives", "direction")
            tangents = [
                t if t.dtype == x.dtype else F.astype(t, dtype=x.dtype)
                for t, x in zip(tangents, inputs, strict=True)
            ]
        coefficients = [
            [alias(unwrap(x)), t, *(None,) * (count - 1)] for x, t in zip(inputs, tangents, strict=True)
        ]
        expansion = Expansion(
            SeriesLevel(count, "derivatives"),
            lambda x: function(x, *constants, **kwargs),  # type: ignore[arg-type]
            structure,
            inputs,
            coefficients,
        )
        return [expansion.tree(k, float(math.factorial(k))) for k in range(count + 1)]

    return call


__all__ = ["Expansion", "as_order", "derivatives", "floating", "jet"]
