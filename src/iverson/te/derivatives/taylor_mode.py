"""Taylor mode over statements: coefficients of a tensor, each a statement over the points of the primal.

Out[w(p)] += body(p)   ->   Out_k[w(p)] += coefficient k of body(p), from coefficients of the tensors read

Within an expression, coefficients follow as those of values do (`iverson.transforms.series.series_level`):
what is linear is applied to each, a product is a Cauchy product, a record may have a recurrence, and else
y'(t) = jvp(x(t), x'(t)) gives coefficient k of y from coefficient k - 1 of the tangent. Expressions are
interned, so a rule that refers to its own result, or to a partner that refers back, closes (Griewank and
Walther, Evaluating Derivatives, 2nd edition, 2008, chapter 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from iverson.core.scalars import SCALARS
from iverson.core.table import TABLE
from iverson.expr.build import as_expr, cast, const, select, simplified_with
from iverson.expr.nodes import Apply, Cast, Const, Expr, Select, is_number, producers_first
from iverson.te.derivatives.expression_derivatives import cast_cotangent, is_inexact, pushed
from iverson.te.derivatives.forward_mode import with_rewrites
from iverson.te.derivatives.recurrence_derivatives import Order, coefficient_recurrence, named
from iverson.te.derivatives.reduction_derivatives import terms_of
from iverson.te.ir.expressions import Placeholder, Read, Reduce, Scoped, Tensor, operands_here, renamed
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement
from iverson.te.ir.scalar_namespace import F
from iverson.te.ir.supports import met
from iverson.te.language.nonlinear_reductions import linear_statements
from iverson.te.language.stages import split_guard

#: A product of two coefficients.
Binary: TypeAlias = Callable[..., Any]


def coefficients(
    outputs: Sequence[Tensor], series: Mapping[Tensor, Sequence[Tensor | None]], order: int
) -> list[list[Tensor | None]]:
    """The Taylor coefficients of orders 1 to ``order`` of each output; None for one that is zero.

    series : coefficients of these orders of tensors that the outputs depend on, None for zero.

    >>> from iverson.te.language import definitions as te
    >>> A, dA = te.placeholder((3,), name="A"), te.placeholder((3,), name="dA")
    >>> coefficients([te.compute((3,), lambda i: A[i] * A[i], "B")], {A: [dA, None]}, 2)
    [[Compute(B.coefficient1: float64[3]), Compute(B.coefficient2: float64[3])]]
    """
    by_order = {(t, k): c for t, cs in series.items() for k, c in enumerate(cs, 1) if c is not None}
    varying = set(series)

    def statements(s: Statement, k: int, new: Mapping[Order, Tensor]) -> list[Statement]:
        body = expansion({**by_order, **new}).of(s.body, k)
        if body is None or is_number(body, 0):
            return []
        where, body = split_guard(cast(body, s.body.dtype))
        domain = Domain(s.domain.axes, met((*s.domain.where, *where), body, "sum"))
        return [Statement(None, s.write, body, domain, "sum")]

    expansions: dict[frozenset[Order], Expansion] = {}

    def expansion(tensors: dict[Order, Tensor]) -> Expansion:
        return expansions.setdefault(frozenset(tensors), Expansion(tensors))

    for unit in with_rewrites(outputs):
        if isinstance(unit, Recurrence):
            by_order |= coefficient_recurrence(unit, order, varying, statements)
            varying.update(m for m in unit.members if any((m, k) in by_order for k in range(1, order + 1)))
        elif isinstance(unit, Compute) and unit not in varying:
            for k in range(1, order + 1):
                parts = [new for s in linear_statements(unit) for new in statements(s, k, {})]
                if parts:
                    by_order[unit, k] = Compute(unit.shape, unit.dtype, named(unit, k, order), parts)
                    varying.add(unit)
    return [[by_order.get((t, k)) for k in range(1, order + 1)] for t in outputs]


class Expansion:
    """The Taylor coefficients of expressions.

    tensors : coefficients of tensors that are read, by tensor and order; others are constant.
    """

    def __init__(self, tensors: Mapping[Order, Tensor]) -> None:
        self.tensors = tensors
        self._varying = {t for t, _ in tensors}
        self._known: dict[tuple[Expr, int], Expr | None] = {}
        self._varies: dict[Expr, bool] = {}
        self._rules: dict[Expr, Callable[[int], Expr | None]] = {}
        #: The expressions whose derivatives in the parameter are these.
        self._sources: dict[Expr, Expr] = {}
        self._slopes: dict[Expr, Expr] = {}

    def of(self, e: Expr, k: int) -> Expr | None:
        """Coefficient k of an expression; None where it is zero."""
        for order in range(k):  # so that recursion is not deep
            for node in producers_first([e], _operands):
                self._of(node, order)
        return self._of(e, k)

    def _of(self, e: Expr, k: int) -> Expr | None:
        if not self.varies(e):
            return None if k else e
        key = e, k
        if key not in self._known:
            c = self._computed(e, k)
            self._known[key] = None if c is None or is_number(c, 0) else cast_cotangent(c, e.dtype)
        return self._known[key]

    def varies(self, e: Expr) -> bool:
        """True if an expression reads what varies."""
        if e not in self._varies:
            for node in producers_first([e], _operands):
                below = any(map(self._varies.__getitem__, _operands(node)))
                reads = node in self._sources or (isinstance(node, Read) and node.tensor in self._varying)
                self._varies[node] = is_inexact(node) and (below or reads)
        return self._varies[e]

    def _computed(self, e: Expr, k: int) -> Expr | None:
        if e in self._sources:
            c = self._of(self._sources[e], k + 1)
            return c if c is None or k == 0 else c * (k + 1)
        if isinstance(e, Read):
            t = self.tensors.get((e.tensor, k))
            return e if k == 0 else None if t is None else t[e.indices]
        if isinstance(e, Select):
            then, other = self._of(e.then, k), self._of(e.other, k)
            if then is None and other is None:
                return None
            return select(self._first(e.condition), *(_or_zero(c, e) for c in (then, other)))
        if isinstance(e, Cast):
            return self._of(e.operand, k)
        if k == 0:
            return self._first_of(e)
        if e not in self._rules:
            self._rules[e] = self._of_reduction(e) if isinstance(e, Scoped) else self._of_function(e)
        return self._rules[e](k)

    def _first(self, e: Expr) -> Expr:
        """Coefficient 0 of an expression of any dtype."""
        if is_inexact(e):
            return _or_zero(self._of(e, 0), e)
        return self._first_of(e)

    def _first_of(self, e: Expr) -> Expr:
        if isinstance(e, Read):  # its indices are integers, which do not vary
            return e
        return simplified_with(e, [self._first(o) for o in e.operands])

    # --- functions --------------------------------------------------------------------------------------

    def _of_function(self, e: Expr) -> Callable[[int], Expr | None]:
        assert isinstance(e, Apply)
        scalar = SCALARS[e.name]
        varying = {n for n, a in enumerate(e.args) if self.varies(a)}
        groups = [g for g in scalar.linear_in if varying.intersection(g)]
        if varying <= {n for g in groups for n in g}:
            return lambda k: self._product(e, groups, k)
        rule = TABLE[e.name].taylor
        if rule is not None:
            recurrence = rule(F, _Coefficients(self, e), *(_Coefficients(self, a) for a in e.args))
            if recurrence is not NotImplemented:
                return recurrence  # type: ignore[no-any-return]
        shares = [(n, pushed(scalar, n, e, self._slope(e.args[n]))) for n in sorted(varying)]
        return self._integrated([share for _, share in shares if share is not None])

    def _integrated(self, tangents: Sequence[Expr]) -> Callable[[int], Expr | None]:
        """The coefficients from those of a tangent, a sum."""

        def rule(k: int) -> Expr | None:
            c = _total(self._of(t, k - 1) for t in tangents)
            return c if c is None or k == 1 else c / k

        return rule

    def _slope(self, x: Expr) -> Expr:
        """The derivative of an expression in the parameter, as a read of a tensor of its own."""
        if x not in self._slopes:
            slope = self._slopes[x] = Read(Placeholder((), x.dtype, "slope"), ())
            self._sources[slope] = x
        return self._slopes[x]

    def _product(self, e: Apply, groups: Sequence[tuple[int, ...]], k: int) -> Expr | None:
        """Coefficient k of a function that is linear in each group of operands."""
        if e.name == "multiply" and e.args[0] is e.args[1]:
            return self._squared(e.args[0], k)
        terms = []
        for orders in compositions(k, len(groups)):
            args = list(e.args)
            for group, j in zip(groups, orders, strict=True):
                parts = [self._of(e.args[n], j) for n in group]
                if all(c is None for c in parts):
                    break
                for n, c in zip(group, parts, strict=True):
                    args[n] = _or_zero(c, e.args[n])
            else:
                terms.append(simplified_with(e, args))
        return _total(terms)

    def _squared(self, x: Expr, k: int) -> Expr | None:
        """Coefficient k of x * x: products of two different coefficients occur twice."""

        def pair(j: int) -> Expr | None:
            a, b = self._of(x, j), self._of(x, k - j)
            return None if a is None or b is None else a * b

        twice = _total(pair(j) for j in range((k + 1) // 2))
        doubled = None if twice is None else 2 * twice
        return doubled if k % 2 else _total([doubled, pair(k // 2)])

    # --- reductions -------------------------------------------------------------------------------------

    def _of_reduction(self, e: Scoped) -> Callable[[int], Expr | None]:
        if isinstance(e, Reduce) and e.combine == "sum":
            return lambda k: self._summed(e, k)
        terms = terms_of(e)
        if not any(t.axes for t in terms):  # an extremum, at its position
            return lambda k: _total(self._of(t.body, k) for t in terms)
        tangents = []
        for t in terms:
            if self.varies(t.body):
                slope = self._slope(t.body)
                tangent = slope if t.factor is None else slope * t.factor
                tangents.append(Reduce("sum", t.axes, cast(tangent, e.dtype), t.where))
        return self._integrated(tangents)

    def _summed(self, e: Reduce, k: int) -> Expr | None:
        body = self._of(e.body, k)
        return None if body is None else renamed(e.over(e.axes, (body, *e.where)))


class _Coefficients:
    """A series of an expression as a ``taylor`` rule reads it (`iverson.ops.rules.recurrences`)."""

    def __init__(self, expansion: Expansion, of: Expr) -> None:
        self._expansion, self._of = expansion, of

    def __getitem__(self, k: int) -> Any:
        c = self._expansion._of(self._of, k)
        return c.value if isinstance(c, Const) and k == 0 else c

    def convolved(
        self,
        other: _Coefficients,
        k: int,
        product: Binary,
        weight: Callable[[int], float] | None = None,
    ) -> Expr | None:
        """The sum of product(self[j], other[k - j]) over j from 1 to k, times weight(j)."""
        terms = []
        for j in range(1, k + 1):
            a, b = self[j], other[k - j]
            if a is not None and b is not None:
                terms.append(product(a if weight is None else a * weight(j), b))
        return _total(terms)

    def slope_power(self, k: int) -> Any:
        """Coefficient 1 to the power k."""
        return F.pow(self[1], k)

    def power(self, exponent: int, k: int) -> Expr | None:
        """Coefficient k of a power with a whole exponent above 0, by repeated squares."""
        result: Expr | None = None
        square = self._of
        while True:
            if exponent & 1:
                result = square if result is None else result * square
            exponent >>= 1
            if not exponent:
                assert result is not None
                return self._expansion.of(result, k)
            square = square * square


def _operands(e: Expr) -> tuple[Expr, ...]:
    """Operands of an expression, at the same points or at those of a reduction."""
    return e.operands if isinstance(e, Scoped) else operands_here(e)


def _or_zero(c: Expr | None, like: Expr) -> Expr:
    return const(0, like.dtype) if c is None else c


def _total(terms: Iterator[Expr | None] | Sequence[Expr | None]) -> Expr | None:
    """The sum of the terms that are not zero; None if all are."""
    total: Expr | None = None
    for t in terms:
        if t is not None:
            total = t if total is None else total + as_expr(t)
    return total


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many numbers, in order."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for orders in compositions(total - first, parts - 1):
            yield (first, *orders)
