"""`reducer`: reductions of elements of several numbers, combined by an associative function of the user's.

As in TVM's comm_reducer (tvm.te.comm_reducer), but the order of the elements is kept, so that the function
need not commute. A reduction is a `iverson.te.ir.expressions.Fold` for each number of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, TypeAlias

import numpy as np

from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.protocols import DType
from iverson.core.python.caller import assigned_name
from iverson.expr.build import as_expr, cast
from iverson.expr.nodes import Const, Expr, ExprLike, postorder
from iverson.te.ir.expressions import Fold, Placeholder, Reducer, Var, reads_of, scoped
from iverson.te.ir.ragged_axes import bounded
from iverson.te.ir.source_site import operation
from iverson.te.language.definitions import Axes, reduction_axes

#: An element: its numbers, or its only number.
Element: TypeAlias = "ExprLike | Sequence[ExprLike]"
Combine: TypeAlias = "Callable[[Any, Any], Element]"


class AssociativeReduction:
    """A reduction by `reducer`: called with an element and its axes, it gives the combined element."""

    def __init__(self, combine: Combine, identity: tuple[complex, ...], single: bool, name: str) -> None:
        self.combine, self.identity, self.single, self.name = combine, identity, single, name

    def __call__(self, element: Element, axis: Axes) -> Any:
        """The combined element over one or several axes: a tuple of expressions, or one.

        element : its numbers at a point, a tuple, or one number where the identity is one.
        axis : a `reduce_axis` or several, in whose order, row by row, elements are combined.

        Raises ArgumentError for another count of numbers than the identity has, ArgumentTypeError for an axis
        that is no reduction axis, DTypeError where the function changes the dtype of a number.
        """
        site = operation(self.name)
        values = _numbers(element, self.single, len(self.identity), site, "element")
        axes = reduction_axes(axis, site)
        exprs = [as_expr(v, site) for v in values]
        kinds = [_dtype_with(e, n) for e, n in zip(exprs, self.identity, strict=True)]
        exprs = [cast(e, kind) for e, kind in zip(exprs, kinds, strict=True)]
        ranged_axes, terms, where = bounded(axes, exprs)
        rule = _traced(self, tuple(kinds), site)
        folds = tuple(Fold(rule, k, ranged_axes, terms, where) for k in range(len(terms)))
        return folds[0] if self.single else folds

    def __repr__(self) -> str:
        return f"te.reducer({self.name}, identity={self.identity[0] if self.single else self.identity})"


def reducer(combine: Combine, identity: complex | Sequence[complex], name: str = "") -> AssociativeReduction:
    """A reduction of elements of several numbers by an associative function.

    Parameters
    ----------
    combine : takes two elements, each a tuple of expressions, and returns the tuple of the combined one: a
        function of these alone, which is associative. It need not commute: elements are combined in the order
        of the axes. Where ``identity`` is one number, elements are numbers.
    identity : the numbers of an element that changes no other, such as ``(-inf, -1)``.
    name : of the reduction, in messages and texts.

    Returns
    -------
    A function ``(element, axis)``, to be used as `sum` is; the combined element is a tuple of expressions, or
    one expression where ``identity`` is one number. Over no points it is the identity. Its derivatives are
    those of ``combine``: over a box in time proportional to the points, over ragged axes to their square in
    each row.

    Raises
    ------
    ArgumentError
        Where combine returns another count of numbers, reads anything beside its arguments, or changes the
        identity.
    ArgumentTypeError
        Where combine is no function, or identity no numbers.

    References
    ----------
    TVM's comm_reducer (T. Chen et al., TVM, OSDI 2018). M. Milakov and N. Gimelshein, Online normalizer
    calculation for softmax, 2018. B. P. Welford, Technometrics 4 (1962), combined by T. F. Chan, G. H. Golub
    and R. J. LeVeque, 1979.

    Examples
    --------
    The largest entry and a payload, and the logarithm of a sum of exponentials in one pass:

    >>> import numpy as np
    >>> from iverson import te
    >>> largest = te.reducer(
    ...     lambda a, b: (te.maximum(a[0], b[0]), te.select(a[0] >= b[0], a[1], b[1])), (-np.inf, 0.0))
    >>> @te.op
    ... def label(x, labels):
    ...     n, m = x.shape
    ...     k = te.reduce_axis(m)
    ...     return te.compute((n,), lambda i: largest((x[i, k], labels[k]), k)[1])
    >>> label(np.array([[1.0, 5.0, 2.0], [7.0, 1.0, 7.0]]), np.array([10.0, 20.0, 30.0]))
    iverson.Tensor([20., 10.])
    >>> def online(a, b):
    ...     m = te.maximum(a[0], b[0])
    ...     scaled = lambda e: te.select(e[1] > 0, e[1] * te.exp(e[0] - m), 0.0)
    ...     return m, scaled(a) + scaled(b)
    >>> normalizer = te.reducer(online, (-np.inf, 0.0))
    >>> @te.op
    ... def logsumexp(x):
    ...     k = te.reduce_axis(x.shape[0])
    ...     m, s = normalizer((x[k], 1.0), k)
    ...     return te.compute((), lambda: m + te.log(s))
    >>> logsumexp(np.array([1000.0, 1000.0]))
    iverson.Tensor(1000.69314718)
    """
    operation("reducer", name)
    name = name or assigned_name() or "reducer"
    site = operation("reducer", name)
    as_function(combine, site, "combine")
    single = not isinstance(identity, (tuple, list))
    numbers: tuple[Any, ...] = (identity,) if isinstance(identity, (int, float, complex)) else ()
    numbers = tuple(identity) if isinstance(identity, (tuple, list)) else numbers
    if not numbers or not all(isinstance(n, (bool, int, float, complex)) for n in numbers):
        raise ArgumentTypeError(
            site,
            "identity",
            got=described(identity),
            expected="a number, or a tuple of numbers",
            remedy="give the element that changes no other: 0.0 of a sum, (-inf, 0.0) of a largest entry",
        )
    return AssociativeReduction(combine, numbers, single, name)


def _dtype_with(e: Expr, identity: complex) -> DType:
    """Dtype of a number of an element: that of its expression, unless the identity needs another."""
    return as_expr(e + as_expr(identity)).dtype if e.weak else e.dtype


def _numbers(element: Element, single: bool, count: int, site: str, argument: str) -> list[ExprLike]:
    """Numbers of an element; an error unless there are ``count`` of them."""
    is_tuple = isinstance(element, (tuple, list))
    numbers: list[Any] = list(element) if isinstance(element, (tuple, list)) else [element]
    if single is not is_tuple and len(numbers) == count:
        return numbers
    raise ArgumentError(
        site,
        argument,
        got=f"{len(numbers)} numbers in a tuple" if is_tuple else f"one number, {element!r}",
        expected="one number" if single else f"a tuple of {count} numbers",
        remedy="as many as identity has",
    )


def _traced(reduction: AssociativeReduction, kinds: tuple[DType, ...], site: str) -> Reducer:
    """The function of a reduction, for numbers of these dtypes, after checks of what it returns."""
    single, count = reduction.single, len(kinds)
    first, second = (
        tuple(Placeholder((), kind, f"{side}{k}") for k, kind in enumerate(kinds)) for side in "ab"
    )
    a, b = ([t[()] for t in side] for side in (first, second))
    result = reduction.combine(a[0], b[0]) if single else reduction.combine(tuple(a), tuple(b))
    results = [as_expr(e, site) for e in _numbers(result, single, count, site, "combine")]
    for e in results:
        _check_closed(e, {*first, *second}, site)
    typed = tuple(cast(e, kind) if e.weak else e for e, kind in zip(results, kinds, strict=True))
    for k, (e, kind) in enumerate(zip(typed, kinds, strict=True)):
        if e.dtype != kind:
            raise DTypeError(
                site,
                "combine",
                got=f"{e.dtype} as number {k} of the combined element",
                expected=f"{kind}, that of both elements",
                remedy=f"cast it, .astype('{kind}'), or the element",
            )
    identities = tuple(cast(as_expr(n), kind) for n, kind in zip(reduction.identity, kinds, strict=True))
    rule = Reducer(first, second, typed, identities, reduction.name)
    for k, (e, n) in enumerate(zip(rule.combined(identities, identities), identities, strict=True)):
        assert isinstance(n, Const)
        if isinstance(e, Const) and _rounded(e) != _rounded(n) and not isnan(abs(n.value)):
            raise ArgumentError(
                site,
                "identity",
                got=f"{n.value} as number {k}, which combine makes {e.value} of two identities",
                expected="an element that changes no other",
                remedy="guard what is not defined there: te.select(n > 0, s / n, 0.0)",
            )
    return rule


def _rounded(constant: Const) -> Any:
    """The number of its dtype next to a constant, whose value has the precision of the text."""
    return np.asarray(constant.value).astype(constant.dtype).item()


def _check_closed(e: Expr, parameters: set[Placeholder], site: str) -> None:
    """Raise ArgumentError if an expression reads anything beside the parameters of combine."""
    outside: list[Expr] = [r for r in reads_of([e]) if r.tensor not in parameters]
    outside += [n for n in postorder([e]) if isinstance(n, Var)] + list(scoped([e]))
    if outside:
        raise ArgumentError(
            site,
            "combine",
            got=f"a function that reads {outside[0]!r}",
            expected="a function of its two elements alone",
            remedy="make it one more number of the element",
        )
