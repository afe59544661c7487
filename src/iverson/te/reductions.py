"""Reductions that are not sums, rewritten into what differentiates: products and extrema.

B[o] = prod_k b(o, k)   a balanced tree of pairwise products: T0[o, k] = b(o, k) and
                        T1[o, m] = T0[o, 2m] * T0[o, 2m + 1], ..., so that zeros among the factors
                        need no care, to any order, at the cost of one product per factor
B[o] = max_k b(o, k)    B[o] = b(o, arg[o]) with arg[o] the saved position of the first largest
B[f(p)] max= b(p)       B[f(p)] += [first[f(p)] = p] b(p) with first[f(p)] min= p where b(p) = B[f(p)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, GradientError
from iverson.expr.build import apply, const, index, select
from iverson.expr.functions import identity
from iverson.expr.nodes import Expr, Select, same
from iverson.te.expressions import Read, Var, extent, substitute, variables
from iverson.te.nodes import Compute, Domain, Statement
from iverson.te.ragged import bounds_in
from iverson.te.stages import position
from iverson.te.where import conjunction

#: What differentiation does where there is no derivative; tests hold it to this.
CONVENTIONS = {
    "max, min": "the derivative belongs to the first of equal values, in the order of the axes' box",
    "max, min of nan": "the derivative belongs to the first nan, and is nan",
    "prod": "exact at zeros, to any order",
    "maximum, minimum, abs, ...": "as in iverson.core.scalars",
    "select": "the derivative is that of the side chosen; the condition is constant",
    "floor, //, integers": "no derivative",
    "complex": "conjugate Wirtinger: g * conj(dy/dx); the real part where x is real",
}


def linear_statements(tensor: Compute) -> tuple[Statement, ...]:
    """Statements of combine sum or assign that define the same tensor, for differentiation.

    They may read new tensors (the tree of a product, the saved position of a maximum). The same
    tensor gives the same ones again, so that the new tensors are shared.
    """
    if all(s.combine in ("sum", "assign") for s in tensor.statements):
        return tensor.statements
    if tensor.linear is None:
        (statement,) = tensor.statements
        tensor.linear = _rewritten(tensor, statement)
    return tensor.linear


def _rewritten(tensor: Compute, s: Statement) -> tuple[Statement, ...]:
    if tensor.dtype.kind not in "fcV":
        return ()
    if s.combine == "prod":
        if not _is_gather(s):
            raise GradientError(
                "te.differentiate",
                tensor.name,
                got="a scatter with combine='prod'",
                expected="sum, max, min or assign",
                remedy="the product of the others is not known of an entry that data chooses: reduce, "
                "te.prod(te.select(f[k] == i, x[k], 1), k), exact at zeros; or, of positive numbers, "
                "te.exp of a scatter of te.log(x[k])",
            )
        return (_of_product(tensor, s),)
    return (_of_extremum(tensor, s) if _is_gather(s) else _of_scattered(tensor, s),)


def _is_gather(s: Statement) -> bool:
    """Whether the write is the first axes of the domain, counted from 0."""
    own = tuple(v - v.lo for v in s.domain.axes[: len(s.write)])
    return same(s.write, own)


def _reduced_axes(statement: Statement) -> tuple[list[Var], list[Var]]:
    """(the axes that are written along, the axes that are reduced over)."""
    axes = statement.domain.axes
    count = len(statement.write)
    return list(axes[:count]), list(axes[count:])


def unravelled(place: Expr, axes: Sequence[Var]) -> dict[Expr, Expr]:
    """Each axis' value at a position in their box: the inverse of `stages.position`."""
    result: dict[Expr, Expr] = {}
    stride = 1
    for k, v in reversed(list(enumerate(axes))):
        n = extent(v)
        if not isinstance(n, int) or not isinstance(v.lo, int):
            raise ArgumentError(
                "te.differentiate",
                got=f"a product or extremum over {v.name} of extent {n}",
                expected="constant extents",
                remedy="bind the sizes first: te.bind(tensors, {n: 5})",
            )
        digit = place // stride
        if k:
            digit = digit % n
        result[v] = digit + v.lo
        stride *= n
    return result


def _of_extremum(tensor: Compute, s: Statement) -> Statement:
    kept, reduced = _reduced_axes(s)
    combine = "argmax" if s.combine == "max" else "argmin"
    saved = replace(s, out=None, combine=combine, position=position(reduced))
    arg = Compute(tensor.shape, dtypes.int64, f"{tensor.name}.arg", (saved,))
    place: Expr = Read(arg, s.write)
    inside = set(kept)
    where = tuple(c for c in s.domain.where if inside.issuperset(variables([c])))
    if len(where) == len(s.domain.where):
        (body,) = substitute([s.body], unravelled(place, reduced))
        body = _marked(body)
    else:  # there may be no point at all, and then the position is -1
        at = unravelled(apply("maximum", place, index(0)), reduced)
        (body,) = substitute([s.body], at)
        body = Select(place >= 0, _marked(body), const(0, body.dtype))
    return Statement(None, s.write, body, Domain(tuple(kept), where), "sum")


def _marked(body: Expr) -> Expr:
    """The same value, with the derivative nan where it is nan."""
    return body * select(apply("isnan", body), const(float("nan"), body.dtype), const(1, body.dtype))


def _of_scattered(tensor: Compute, s: Statement) -> Statement:
    """The first of the points that attain an entry's extremum adds its value to it; others add 0."""
    place = position(s.domain.axes)
    attains = (s.body == tensor[s.write]) | (s.body != s.body)  # a nan is the extremum wherever it stands
    never = const(identity("min", dtypes.int64), dtypes.int64)
    earliest = Statement(None, s.write, Select(attains, place, never), s.domain, "min")
    first = Compute(tensor.shape, dtypes.int64, f"{tensor.name}.first", (earliest,))
    body = Select(first[s.write] == place, _marked(s.body), const(0, tensor.dtype))
    return Statement(None, s.write, body, s.domain, "sum")


def _of_product(tensor: Compute, s: Statement) -> Statement:
    kept, reduced = _reduced_axes(s)
    bounds, _ = bounds_in(s.domain)
    for v in reduced:
        if v in bounds and bounds[v].lower is not None:
            raise GradientError(
                "te.differentiate",
                tensor.name,
                got=f"a product along {v.name}, which starts where data says",
                expected="an axis that starts at a number",
                remedy="sum logarithms, or copy rows into a padded tensor",
            )
    count = 1
    for v in reduced:
        n = extent(v)
        assert isinstance(n, int) or unravelled(index(0), reduced)
        count *= n if isinstance(n, int) else 1
    one = const(1, tensor.dtype)
    if count == 0:
        return Statement(None, s.write, one, Domain(tuple(kept)), "sum")
    m = Var("m", 0, count)
    at = unravelled(m, reduced)
    body, condition = substitute([s.body, conjunction(s.domain.where)], at)
    factor = select(condition, body, one)
    level = Statement(None, (*s.write, m), factor, Domain((*kept, m)), "assign")
    tree = Compute((*tensor.shape, count), tensor.dtype, f"{tensor.name}.factors", (level,))
    while count > 1:
        half = (count + 1) // 2
        m = Var("m", 0, half)
        right: Expr = Read(tree, (*s.write, m * 2 + 1))
        if count % 2:
            right = select(m < half - 1, right, one)
        product = apply("multiply", Read(tree, (*s.write, m * 2)), right)
        level = Statement(None, (*s.write, m), product, Domain((*kept, m)), "assign")
        tree = Compute((*tensor.shape, half), tensor.dtype, f"{tensor.name}.{half}", (level,))
        count = half
    last = Read(tree, (*s.write, index(0)))
    return Statement(None, s.write, last, Domain(tuple(kept)), "sum")
