"""Linear differential operators in one forward pass: Laplacians, and any with constant coefficients.

Of second order, the curves x + t v of all directions v are carried together, from the value, which they
share, up to the sum over the directions of coefficient 2: the value, the Jacobian and the Laplacian. This is
the forward Laplacian (Li et al., arXiv 2307.08214), collapsed Taylor mode (Dangel et al., arXiv 2505.13644)
of second order. Of other orders, coefficients are polynomials in the direction, as far as the operator sees
them (`iverson.transforms.series.apolar`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np

from iverson.core.dispatch import Wrapper, alias, make_handle, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, described
from iverson.core.inputs.arguments import checked
from iverson.core.protocols import NDArray, Pytree
from iverson.handles.typing import ArrayLike
from iverson.masked import MaskedTensor, masked_tensor
from iverson.transforms.batching.batch_level import Batch
from iverson.transforms.derivatives import Argnums, with_argnums
from iverson.transforms.series.apolar import Monomial, algebra_of
from iverson.transforms.series.curves import Directions, Place, UncollapsibleError
from iverson.transforms.series.polynomials import Polynomials
from iverson.transforms.series.series_level import Coefficient, SeriesLevel
from iverson.transforms.series.taylor import Expansion, floating
from iverson.transforms.trees import Function, P, R, as_named, flatten

#: The order in each variable.
MultiIndex: TypeAlias = tuple[int, ...]
#: Coefficients of partial derivatives, by multi-index, or by order for a function of one number.
Terms: TypeAlias = Mapping[MultiIndex, float] | Mapping[int, float]


def along(
    function: Function, args: Sequence[Pytree], directions: NDArray, weights: NDArray | None, operation: str
) -> Expansion:
    """A function on the curves of all directions, to second order, with coefficients 2 summed.

    directions : one in each row, of all entries of the arguments in order.
    """
    with Directions(len(directions), weights).entered() as curves:
        return _on_lines(function, args, directions, SeriesLevel(2, operation, curves), curves.single)


def _on_lines(
    function: Function, args: Sequence[Pytree], slopes: NDArray, level: SeriesLevel, batch: Batch | None
) -> Expansion:
    """A function on series of which all coefficients after those of order 1 are zero.

    slopes : coefficients 1 in its rows, of all entries of the arguments in order; a single row without batch.
    """
    leaves, structure = flatten(tuple(args))
    primals = real(leaves, level.name)
    coefficients: list[list[Coefficient]] = []
    start = 0
    for x in primals:
        part = slopes[:, start : start + x.size].reshape(len(slopes), *x.shape).astype(x.dtype)
        start += x.size
        slope = make_handle(part[0, ...]) if batch is None else batch.of_examples(make_handle(part))
        zeros = [None] * (level.order - 1)
        coefficients.append([alias(unwrap(x)), _like(x, slope) if part.any() else None, *zeros])
    return Expansion(level, function, structure, primals, coefficients)


def of_operator(
    function: Function, args: Sequence[Pytree], terms: Mapping[Monomial, float], operation: str
) -> Any:
    """The value of an operator whose terms, by the numbers of entries, are all of one order."""
    nonzero = tuple([(m, c) for m, c in terms.items() if c])
    if not nonzero:  # as of arguments without entries
        return along(function, args, np.zeros((0, _entries(args, operation))), None, operation).tree(2)
    algebra = algebra_of(nonzero)
    slopes = algebra.slopes(_entries(args, operation))
    with Polynomials(algebra).entered() as polynomials:
        level = SeriesLevel(algebra.order, operation, polynomials)
        try:
            return _on_lines(function, args, slopes, level, polynomials.batch(1)).tree(algebra.order)
        except UncollapsibleError:
            pass
    # A rule is not linear in derivatives, as that of a matrix function, which applies it to blocks.
    values = [_scaled(_partial(function, m, operation)(*args), c) for m, c in terms.items()]
    return reduce(_sum, values)


def _partial(function: Function, monomial: Monomial, operation: str) -> Function:
    """A partial derivative of a function, one variable after the other."""
    for entry, order in Counter(monomial).items():

        def derivative(*args: Pytree, of: Function = function, entry: int = entry, order: int = order) -> Any:
            unit = np.zeros((1, _entries(args, operation)))
            unit[0, entry] = 1
            expansion = _on_lines(of, args, unit, SeriesLevel(order, operation), None)
            return expansion.tree(order, float(math.factorial(order)))

        function = derivative
    return function


def _like(x: Pytree, slope: ArrayLike) -> Any:
    """The slope as a plain handle beside that of a leaf: of a masked tensor, of the entries that exist."""
    return unwrap(masked_tensor(slope, x.get_mask())) if isinstance(x, MaskedTensor) else slope


def along_axes(
    function: Function, args: Sequence[Pytree], weights: NDArray | None, operation: str
) -> Expansion:
    """A function on the curves along all axes, to second order (`iverson.transforms.series.curves`)."""
    leaves, structure = flatten(tuple(args))
    primals = real(leaves, operation)
    shape = primals[0].shape if len(primals) == 1 and not isinstance(primals[0], Wrapper) else ()
    size = math.prod(shape)
    count = max(shape, default=0)
    axis = shape.index(count) - len(shape) if shape else 0
    if count < 2 or (weights is not None and not weights.all()):
        directions = np.eye(sum(x.size for x in primals))
        if weights is not None:
            directions, weights = directions[weights != 0], weights[weights != 0]
        return along(function, args, directions, weights, operation)
    (x,) = primals
    width = size // count
    numbers = np.moveaxis(np.arange(size).reshape(shape), axis, 0).reshape(count, width)
    if weights is not None:
        weights = weights[numbers.ravel()]
    # Curve s moves all entries (i, s).
    part = np.zeros((width, size), x.dtype)
    part[np.arange(width)[:, None], numbers.T] = 1
    with Directions(size, weights, count).entered() as curves:
        batch = curves.group((Place(axis),))
        assert batch is not None
        slope = batch.of_examples(make_handle(part.reshape(width, *shape)))
        level = SeriesLevel(2, operation, curves)
        return Expansion(level, function, structure, primals, [[alias(unwrap(x)), slope, None]])


def real(leaves: list[Pytree], operation: str) -> list[Any]:
    """The leaves as tensors of real floating numbers; raises DTypeError if one has another dtype."""
    primals = floating(leaves, operation, "args")
    for k, x in enumerate(primals):
        if x.dtype.kind == "c":
            raise DTypeError(
                operation,
                "args",
                got=f"leaf {k} of dtype {x.dtype}",
                expected="real numbers",
                remedy="make it a function of the real and the imaginary part",
            )
    return primals


def _entries(args: Sequence[Pytree], operation: str) -> int:
    """The number of entries of all leaves."""
    return sum(x.size for x in real(flatten(tuple(args))[0], operation))


def _curvature(weights: ArrayLike | None, count: int) -> tuple[NDArray | None, NDArray | None]:
    """Directions and weights of the sum of W_ij d2/dx_i dx_j; ``weights`` is W, its diagonal, or None.

    No directions stand for the unit vectors.
    """
    if weights is None:
        return None, None
    if isinstance(weights, list | tuple) or not (
        hasattr(weights, "shape") or isinstance(weights, float | int)
    ):
        raise ArgumentTypeError(
            "laplacian", "weights", got=described(weights), expected="an array", remedy="use numpy.asarray"
        )
    entries = np.asarray(weights)  # raises where gradients are tracked
    is_real = entries.dtype.kind != "c"
    if not (is_real and np.all(np.isfinite(entries))):
        raise ArgumentError(
            "laplacian",
            "weights",
            got="an entry that is not finite" if is_real else f"dtype {entries.dtype}",
            expected="finite real numbers",
        )
    w = entries.astype(float)
    if w.shape == (count, count) and w.ndim == 2 and count != 1:
        sizes, vectors = np.linalg.eigh((w + w.T) / 2)
        present = np.abs(sizes) > 1e-15 * np.max(np.abs(sizes), initial=0)
        return np.ascontiguousarray(vectors.T[present]), sizes[present]
    if w.size == 1:
        w = np.full(count, w.item())
    if w.size != count:
        raise ShapeError(
            "laplacian",
            "weights",
            got=f"shape {w.shape} for {count} numbers to differentiate in",
            expected=f"{count} weights, or a matrix of shape {(count, count)}",
        )
    return None, w.reshape(-1)


@checked
def laplacian(
    function: Callable[P, R], argnums: Argnums = 0, weights: ArrayLike | None = None
) -> Callable[P, tuple[R, R]]:
    """A function that returns the value of a function and its Laplacian, by one forward pass.

    Parameters
    ----------
    function : of tensors, returns a pytree of tensors, of any shapes.
    argnums : which arguments to differentiate in, as in `grad`: pytrees of real floating tensors.
    weights : of the second derivatives, in the order of the entries of these arguments: numbers w_i for the
        sum of w_i d2/dx_i^2; a symmetric matrix for that of W_ij d2/dx_i dx_j, which is diagonalised.
        Default: all 1.

    Returns
    -------
    A function that returns ``(value, laplacian)``, pytrees like the result of ``function``: each entry of the
    second is the sum of the second derivatives of that entry.

    What is carried through the function is its value, its Jacobian and the sum of the second derivatives:
    in a network of d inputs each product has d + 2 rows for each example. The result can be differentiated
    in parameters, compiled and mapped. Raises ShapeError for weights that do not fit, ArgumentError for
    weights that are complex or not finite, GradientError for weights that are tracked, and DTypeError for
    arguments of integers and complex numbers.

    Source: Li et al., A computational framework for neural network-based variational Monte Carlo with Forward
    Laplacian, arXiv 2307.08214.

    >>> import iverson as iv
    >>> laplacian(lambda x: (x**3).sum())(iv.asarray([1.0, 2.0]))
    (iverson.Tensor(9.), iverson.Tensor(18.))
    >>> laplacian(lambda x: x[0] * x[1], weights=iv.asarray([[0.0, 1.0], [1.0, 0.0]]))(iv.ones(2))[1]
    iverson.Tensor(2.)
    """

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        partial, primals, _ = with_argnums(function, args, kwargs, argnums, "laplacian")
        directions, factors = _curvature(weights, _entries(primals, "laplacian"))
        if directions is None:
            expansion = along_axes(partial, primals, factors, "laplacian")
        else:
            expansion = along(partial, primals, directions, factors, "laplacian")
        return expansion.tree(0), expansion.tree(2, 2.0)

    return call


@checked
def biharmonic(function: Callable[P, R], argnums: Argnums = 0) -> Callable[P, R]:
    """A function that returns the Laplacian of the Laplacian of a function.

    The sum of d4/dx_i^2 dx_j^2 over all i and j, by one forward pass. What is carried through the function is
    its value, gradient and Hessian, the gradient of its Laplacian and the result: in a network of d inputs
    each product has d (d + 1) / 2 + 2 d + 2 rows for each example. Parameters and errors are those of
    `laplacian`.

    >>> import iverson as iv
    >>> biharmonic(lambda x: x[0]**4 + x[0]**2 * x[1]**2)(iv.asarray([1.0, 2.0]))
    iverson.Tensor(32.)
    """

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        partial, primals, _ = with_argnums(function, args, kwargs, argnums, "biharmonic")
        count = _entries(primals, "biharmonic")
        pairs = combinations_with_replacement(range(count), 2)
        terms: dict[Monomial, float] = {(i, i, j, j): 1.0 if i == j else 2.0 for i, j in pairs}
        return of_operator(partial, primals, terms, "biharmonic")

    return call


@checked
def differential_operator(function: Callable[P, R], terms: Terms, argnums: Argnums = 0) -> Callable[P, R]:
    """A function that returns a linear differential operator with constant coefficients, applied to a
    function.

    Parameters
    ----------
    function : of tensors, returns a pytree of tensors, of any shapes.
    terms : coefficients by multi-index: ``{(2, 0): 1.0, (0, 1): -0.5}`` is d2/dx0^2 - 0.5 d/dx1. An index
        has an order for each entry of the arguments that are differentiated in; for a function of one
        number it may be an integer.
    argnums : which arguments to differentiate in, as in `laplacian`.

    Returns
    -------
    A function that returns the operator's value, a pytree like the result of ``function``.

    For each order there is one forward pass. Coefficient k of a value is a polynomial of degree k in the
    direction, of which only what the operator can see is carried: the rows of each product are as few as
    those of any algebra of coefficients. Raises ArgumentError for no terms and for indices that are not whole
    numbers from 0, ShapeError for indices of another length.

    Source: Iarrobino and Kanev, Power Sums, Gorenstein Algebras, and Determinantal Loci (1999), chapter 1,
    for the algebra; Griewank and Walther, Evaluating Derivatives (2nd edition, 2008), chapter 13, for series.

    >>> import iverson as iv
    >>> wave = differential_operator(lambda x: iv.sin(x[0]) * x[1]**3, {(2, 0): 1.0, (1, 2): 2.0})
    >>> wave(iv.asarray([0.0, 1.0]))
    iverson.Tensor(12.)
    >>> differential_operator(iv.exp, {3: 1.0, 1: 2.0})(iv.asarray(0.0))
    iverson.Tensor(3.)
    """
    operation = "differential_operator"
    by_order = _by_order(terms)

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        partial, primals, _ = with_argnums(function, args, kwargs, argnums, operation)
        count = _entries(primals, operation)
        for indices in by_order.values():
            for index in indices:
                if len(index) != count:
                    raise ShapeError(
                        operation,
                        "terms",
                        got=f"the index {index} of {len(index)} orders",
                        expected=f"{count}, one for each number that is differentiated in",
                    )
        values = [
            of_operator(partial, primals, {_monomial(index): c for index, c in indices.items()}, operation)
            if order
            else _scaled(partial(*primals), *indices.values())
            for order, indices in sorted(by_order.items())
        ]
        return reduce(_sum, values)

    return call


def _scaled(tree: Pytree, factor: float) -> Any:
    import optree

    return optree.tree_map(lambda x: x * factor, tree)


def _sum(a: Pytree, b: Pytree) -> Any:
    import optree

    return optree.tree_map(lambda x, y: x + y, a, b)


def _monomial(index: MultiIndex) -> Monomial:
    """The variables of a multi-index, each as often as its order says."""
    return tuple([k for k, n in enumerate(index) for _ in range(n)])


def _by_order(terms: Terms) -> dict[int, dict[MultiIndex, float]]:
    """The coefficients that are not 0, by order and multi-index."""
    if not isinstance(terms, Mapping):
        raise ArgumentTypeError(
            "differential_operator",
            "terms",
            got=described(terms),
            expected="a dictionary of coefficients by multi-index",
        )
    by_order: dict[int, dict[MultiIndex, float]] = {}
    for key, factor in terms.items():
        index = (key,) if isinstance(key, int) else key
        if not isinstance(index, tuple) or any(type(n) is not int or n < 0 for n in index):
            raise ArgumentError(
                "differential_operator",
                "terms",
                got=f"the index {key!r}",
                expected="a tuple of orders, whole numbers from 0",
            )
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            raise ArgumentTypeError(
                "differential_operator",
                "terms",
                got=f"{described(factor)} for {key!r}",
                expected="a number",
                remedy="multiply the result of an operator with one term by a tensor",
            )
        by_order.setdefault(sum(index), {})[index] = float(factor)
    if not by_order:
        raise ArgumentError("differential_operator", "terms", got="no terms", expected="one at least")
    return by_order


__all__ = ["biharmonic", "differential_operator", "laplacian"]
