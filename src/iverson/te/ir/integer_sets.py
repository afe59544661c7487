"""Integer sets: emptiness of domains and exact loops over them, by isl; only this module calls isl.

There is one Context, made on first use; an operation on sets of two contexts is wrong without an error. isl
has no reliable time limit, so `affordable` decides *before* a call, from the size of the domain, whether it
is small and nearly linear. Maps are never composed here; the image of a map is a projection of its graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache, reduce
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

from iverson.core import dtypes
from iverson.core.python import locks
from iverson.expr.affine import Affine, make
from iverson.expr.build import apply, index, select
from iverson.expr.function_facts import NEGATED
from iverson.expr.nodes import Apply, Const, Expr, Select, once, postorder
from iverson.te.ir.expressions import Extent, Var, substitute, variables
from iverson.te.ir.index_arithmetic import (
    MOST_CASES,
    Cases,
    Constraint,
    affine_of,
    comparison_cases,
    constraints_of,
    expr_of,
    flattened,
    floor_parts,
    interval,
    joint_cases,
    negation,
)
from iverson.te.ir.nodes import For, If, Point, Walk

if TYPE_CHECKING:
    from islpy import AstExpr, AstNode

#: What isl is asked at most: dimensions, constraints, floors, the size of coefficients, and how many
#: atoms of one constraint have a coefficient other than 1 and -1 (7 in one took minutes, 4 a blink).
MAX_DIMENSIONS, MAX_CONSTRAINTS, MAX_FLOORS, MAX_COEFFICIENT, MAX_WIDTH = 14, 40, 6, 1 << 20, 3
#: The sum over constraints of (atoms beyond 3)**2. Of 4000 random domains, all that took isl more than a
#: second had 40 and more; convolutions, poolings, paddings and reshapes have 0.
MAX_COUPLING = 8

#: Passes over the constraints that narrow bounds before isl is asked.
ROUNDS = 8

_lock = locks.library_lock()


@cache
def _isl() -> Any:
    import islpy

    return islpy


@cache
def _context() -> Any:
    return _isl().Context()


def affordable(axes: Sequence[Var], constraints: Sequence[Constraint]) -> bool:
    """True if a domain is simple enough to ask isl about; decided from its size alone."""
    bound = all(isinstance(v.lo, int) and isinstance(v.hi, int) for v in axes)
    return bound and _is_simple(len(axes), constraints)


def _is_simple(dimensions: int, constraints: Sequence[Constraint]) -> bool:
    floors: set[Expr] = set()
    largest = widest = 0
    for c in constraints:
        wide: set[Expr] = set()
        forms, floor_atoms = [c.form], set[Expr]()
        while forms:
            form = forms.pop()
            largest = max([largest, *(abs(k) for _, k in form.terms)])
            wide |= {atom for atom, k in form.terms if abs(k) != 1}
            for atom, _ in form.terms:
                parts = floor_parts(atom)
                if parts is not None and atom not in floor_atoms:
                    floor_atoms.add(atom)
                    forms.append(parts[0])
        floors |= floor_atoms
        widest = max(widest, len(wide))
    return (
        dimensions + len(floors) <= MAX_DIMENSIONS
        and len(constraints) <= MAX_CONSTRAINTS
        and len(floors) <= MAX_FLOORS
        and largest <= MAX_COEFFICIENT
        and widest <= MAX_WIDTH
        and sum(max(0, len(c.form.terms) - 3) ** 2 for c in constraints) <= MAX_COUPLING
    )


def set_text(axes: Sequence[Var], constraints: Iterable[Constraint]) -> str:
    """Set of the points of a box that satisfy constraints, in isl's notation; sizes become its parameters."""
    constraints = tuple(constraints)
    names = {v: f"x{k}" for k, v in enumerate(axes)}
    all_variables = variables([atom for c in constraints for atom, _ in c.form.terms])
    sizes = {v: f"n{k}" for k, v in enumerate(v for v in all_variables if v not in names)}
    parts = [f"{v.lo} <= {names[v]} < {v.hi}" for v in axes] + [f"{n} >= 0" for n in sizes.values()]
    all_names = names | sizes
    parts += [f"{_isl_text(c.form, all_names)} {'=' if c.equality else '>='} 0" for c in constraints]
    inside = " and ".join(parts) or "true"
    parameters = f"[{', '.join(sizes.values())}] -> " if sizes else ""
    return f"{parameters}{{ [{', '.join(names.values())}] : {inside} }}"


def _isl_text(form: Affine, names: dict[Var, str]) -> str:
    text = str(form.const)
    for atom, c in form.terms:
        parts = floor_parts(atom)
        if isinstance(atom, Var):
            inner = names[atom]
        else:
            assert parts is not None
            inner = f"floor(({_isl_text(parts[0], names)})/{parts[1]})"
        text += f" + {c}*{inner}" if c >= 0 else f" - {-c}*{inner}"
    return text


def is_empty(axes: Sequence[Var], conditions: Sequence[Expr]) -> bool | None:
    """True if no point of the box satisfies all conditions, False if one does, None if isl is not asked.

    Conditions may contain "or" and "not". Conditions that are not quasi-affine are left out; if the set is
    not empty without them, the result is None.
    """
    return _is_empty(tuple(axes), tuple(conditions))


@lru_cache(maxsize=4096)
def _is_empty(axes: tuple[Var, ...], conditions: tuple[Expr, ...]) -> bool | None:
    exact = True
    pieces: Cases = [[]]
    for condition in conditions:
        disjuncts = alternatives(condition)
        if disjuncts is None:
            exact = False
            continue
        pieces = [[*p, *d] for p in pieces for d in disjuncts]
        if len(pieces) > 16:
            return None
    empty = True
    for constraints in pieces:
        if not affordable(axes, constraints):
            return None
        empty = empty and _has_no_point(axes, constraints)
    return empty if exact or empty else None


def _has_no_point(axes: Sequence[Var], constraints: Sequence[Constraint]) -> bool:
    """True if no point of the box satisfies constraints: by bounds where these decide, else by isl."""
    verdict = _by_bounds(axes, constraints)
    return _is_empty_text(set_text(axes, constraints)) if verdict is None else verdict


@lru_cache(maxsize=4096)
def _is_empty_text(text: str) -> bool:
    with _lock:
        return bool(_isl().Set(text, context=_context()).is_empty())


def _by_bounds(axes: Sequence[Var], constraints: Sequence[Constraint]) -> bool | None:
    """True if bounds of single variables exclude each other, False if their least or greatest values are a
    point; else None.

    Of a set of differences, the least values are a point wherever there is one (Bellman, 1958). A floor is a
    variable between two constraints: ``d q <= x < d q + d``.
    """
    low: dict[Expr, int] = {}
    high: dict[Expr, int] = {}
    rows: list[tuple[int, tuple[tuple[Expr, int], ...]]] = []
    for v in axes:
        assert isinstance(v.lo, int)
        assert isinstance(v.hi, int)
        low[v], high[v] = v.lo, v.hi - 1
    pending = [(c.form, c.equality) for c in constraints]
    while pending:
        form, equality = pending.pop()
        for atom, _ in form.terms:
            if atom in low:
                continue
            parts = floor_parts(atom)
            least, greatest = interval(affine_of(atom) if parts is None else parts[0])
            if parts is None or least in (-inf, inf) or greatest in (-inf, inf):
                return None  # a size, or what has no bounds
            x, d = parts
            low[atom], high[atom] = int(least) // d, int(greatest) // d
            remainder = x - make(0, {atom: d})
            pending += [(remainder, False), (remainder.scaled(-1).shift(d - 1), False)]
        rows.append((form.const, form.terms))
        if equality:
            rows.append((-form.const, tuple((a, -k) for a, k in form.terms)))
    for _ in range(ROUNDS):
        before = (*low.values(), *high.values())
        for const, terms in rows:
            largest = const + sum(k * (high[a] if k > 0 else low[a]) for a, k in terms)
            if largest < 0:
                return True
            for a, k in terms:  # k a >= -(largest - k * end of a)
                if k > 0 and (bound := -((largest - k * high[a]) // k)) > low[a]:
                    low[a] = bound
                elif k < 0 and (bound := (largest - k * low[a]) // -k) < high[a]:
                    high[a] = bound
        if any(low[a] > high[a] for a in low):
            return True
        if before == (*low.values(), *high.values()):
            break
    for at in (low, high):
        if all(const + sum(k * at[a] for a, k in terms) >= 0 for const, terms in rows):
            return False
    return None


@once
def alternatives(condition: Expr) -> Cases | None:
    """Lists of constraints, of which one list holds where ``condition`` does; None if not quasi-affine."""
    if isinstance(condition, Apply) and condition.name == "logical_or":
        parts = list(map(alternatives, flattened(condition, "logical_or")))
        result = [case for part in parts for case in part or ()]
        return None if None in parts or len(result) > MOST_CASES else result
    if isinstance(condition, Apply) and condition.name == "logical_and":
        return joint_cases(map(alternatives, flattened(condition, "logical_and")))
    if isinstance(condition, Apply) and condition.name == "logical_not":
        opposite = negation(condition.args[0])
        return None if opposite is condition else alternatives(opposite)
    if isinstance(condition, Apply) and condition.name == "not_equal":
        a, b = condition.args
        if a.dtype.kind in "iu":
            sides = [alternatives(apply("less", a, b)), alternatives(apply("greater", a, b))]
            return None if sides[0] is None or sides[1] is None else sides[0] + sides[1]
    plain = constraints_of(condition)
    if plain is not None:
        return [list(plain)]
    selects = [n for n in postorder([condition]) if isinstance(n, Select)]
    if not selects or not isinstance(condition, Apply) or condition.name not in NEGATED:
        return comparison_cases(condition)
    c = selects[0].condition
    either = [
        apply("logical_and", case, *substitute([condition], {selects[0]: side}))
        for case, side in ((c, selects[0].then), (negation(c), selects[0].other))
    ]
    return alternatives(apply("logical_or", *either))


def projection(
    axes: Sequence[Var],
    bound: Sequence[Var],
    cases: Sequence[Sequence[Constraint]],
    box: Sequence[Constraint],
) -> Expr | None:
    """The condition on ``axes`` under which some values of ``bound`` satisfy a case, if isl is asked.

    before -> after: ``0 <= k < 9, i = k + 1 -> 1 <= i <= 9`` for the axes i and the bound k.
    ``i < 3 | i == 3 -> i < 4``

    cases : constraints that hold together, with those of the ranges of ``bound``; sizes in them are
        parameters. box : constraints that hold wherever the condition is asked for.
    """
    atoms = [atom for c in (*box, *(c for case in cases for c in case)) for atom, _ in c.form.terms]
    sizes = [v for v in variables(atoms) if v.kind == "size"]
    dimensions = len(axes) + len(bound) + len(sizes)
    if not all(_is_simple(dimensions, [*case, *box]) for case in cases):
        return None
    names = {v: f"x{k}" for k, v in enumerate((*axes, *sizes))}
    inner_names = {v: f"e{k}" for k, v in enumerate(bound)}
    box_texts = [f"{names[v]} > 0" for v in sizes] + _texts(box, names)
    all_names = names | inner_names
    inside = (" and ".join([*box_texts, *_texts(case, all_names)]) or "true" for case in cases)
    text = _projected(
        tuple(names.values()),
        tuple(inner_names.values()),
        " or ".join(f"({case})" for case in inside),
        " and ".join(box_texts) or "true",
    )
    if text is None:
        return None
    condition = Const(bool(text), dtypes.bool) if isinstance(text, bool) else text
    return substitute([condition], dict(zip(_parameters(len(names)), names, strict=True)))[0]


def _texts(constraints: Iterable[Constraint], names: dict[Var, str]) -> list[str]:
    return [f"{_isl_text(c.form, names)} {'=' if c.equality else '>='} 0" for c in constraints]


@cache
def _parameters(count: int) -> tuple[Var, ...]:
    """Stand-ins for the parameters of a set."""
    return tuple(Var(f"x{k}", 0, None, "size") for k in range(count))


@lru_cache(maxsize=4096)
def _projected(
    names: tuple[str, ...], inner_names: tuple[str, ...], inside: str, box_text: str
) -> Expr | bool | None:
    """The condition on parameters (`_parameters`) under which a set has points, where ``box_text`` holds."""
    isl = _isl()
    with _lock:
        parameters = f"[{', '.join(names)}] -> {{ : "
        exists = f"exists {', '.join(inner_names)} : " if inner_names else ""
        points = isl.Set(f"{parameters}{exists}({inside}) }}", context=_context()).compute_divs().coalesce()
        box = isl.Set(f"{parameters}{box_text} }}", context=_context())
        if box.is_subset(points):
            return True
        if points.is_empty():
            return False
        tree = isl.AstBuild.from_context(box).expr_from_set(points.gist(box))
        translation = isl.Set(f"{parameters}{_text_of(tree)} }}", context=_context())
        if not translation.intersect(box).is_equal(points):
            return None
        return _expr_of(tree, dict(zip(names, _parameters(len(names)), strict=True)))


def loops_of(
    axes: Sequence[Var], constraints: Sequence[Constraint]
) -> tuple[tuple[Var, ...], tuple[Walk, ...] | None]:
    """Placeholders for the axes, and loops over exactly the points of the domain, outermost axis first.

    The loops are None if isl's loops visit other points. Ask `affordable` first. A loop over an axis has its
    placeholder as variable, which starts where the axis does: this simplifies bounds.
    """
    return _loops_of_text(set_text(axes, constraints), tuple(v.lo for v in axes))


def forget() -> None:
    """Clear the caches of isl's answers, for measurements."""
    _projected.cache_clear()
    _is_empty.cache_clear()
    _is_empty_text.cache_clear()
    _loops_of_text.cache_clear()


@lru_cache(maxsize=4096)
def _loops_of_text(text: str, starts: tuple[Extent, ...]) -> tuple[tuple[Var, ...], tuple[Walk, ...] | None]:
    """Result of `loops_of` for a set in isl's notation.

    starts : the first value of each axis.
    """
    isl = _isl()
    with _lock:
        axes = tuple(Var(f"x{k}", start, None) for k, start in enumerate(starts))
        domain = isl.Set(text, context=_context()).coalesce()
        if domain.is_empty():
            return axes, ()
        schedule = isl.Map.identity(domain.get_space().map_from_set()).intersect_domain(domain)
        context = isl.Set("{ : }", context=_context())
        build = isl.AstBuild.from_context(context).set_iterators(_iterators(len(axes)))
        tree = build.node_from_schedule_map(isl.UnionMap.from_map(schedule))
        if not _points_of(tree, len(axes)).is_equal(domain):
            return axes, None
        return axes, tuple(_walk_of(tree, axes, {}))


def _points_of(tree: AstNode, count: int) -> Any:
    """Set of the points that isl's loops visit, to be compared with the domain.

    islpy 2026.2.2 leaves out points of some domains with strides.

    count : the number of axes.
    """
    isl = _isl()
    at = [f"p{k}" for k in range(count)]
    points = isl.Set("{ [" + ", ".join(at) + "] : false }", context=_context())
    for names, conditions in _visits(tree):
        within = f"exists {', '.join(names)} : " if names else ""
        text = "{ [" + ", ".join(at) + "] : " + within + " and ".join(f"({c})" for c in conditions) + " }"
        points = points.union(isl.Set(text, context=_context()))
    return points


def _visits(node: AstNode) -> list[tuple[list[str], list[str]]]:
    """Pairs (iterators, conditions) around each point of isl's loops, as text that isl can read."""
    isl = _isl()
    kind = node.get_type()
    if kind == isl.ast_node_type.block:
        children = node.block_get_children()
        return [v for k in range(children.n_ast_node()) for v in _visits(children.get_ast_node(k))]
    if kind == isl.ast_node_type.if_:
        condition = _text_of(node.if_get_cond())
        visits = [(n, [condition, *c]) for n, c in _visits(node.if_get_then())]
        if node.if_has_else():
            visits += [(n, [f"not ({condition})", *c]) for n, c in _visits(node.if_get_else())]
        return visits
    if kind != isl.ast_node_type.for_:
        call = node.user_get_expr()
        values = [call.get_op_arg(k) for k in range(1, call.get_op_n_arg())]
        return [([], [_text_of(v, f"p{k} = {{}}") for k, v in enumerate(values)])]
    name, first = node.for_get_iterator().get_id().get_name(), node.for_get_init()
    conditions = [_text_of(first, f"{name} = {{}}")]
    if not node.for_is_degenerate():
        step = node.for_get_inc().get_val().to_python()
        conditions = [
            _text_of(first, f"{name} >= {{}}"),
            _text_of(node.for_get_cond()),
            _text_of(first, f"({name} - ({{}})) mod {step} = 0"),
        ]
    return [([name, *n], [*conditions, *c]) for n, c in _visits(node.for_get_body())]


#: How isl reads its operations on two arguments.
_TEXTS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "floor(({})/{})",
    "fdiv_q": "floor(({})/{})", "pdiv_q": "floor(({})/{})", "pdiv_r": "(({}) mod {})",
    "zdiv_r": "(({}) mod {})", "eq": "{} = {}", "le": "{} <= {}", "lt": "{} < {}", "ge": "{} >= {}",
    "gt": "{} > {}", "and_": "({}) and ({})", "and_then": "({}) and ({})", "or_": "(({}) or ({}))",
    "or_else": "(({}) or ({}))", "min": "min({}, {})", "max": "max({}, {})",
}  # fmt: skip


def _text_of(e: AstExpr, form: str = "{}") -> str:
    """Text of isl's expression ``e`` in the place of "{}" in ``form``, a condition that isl can read."""
    return " or ".join(" and ".join([*map("({})".format, c), f"({form.format(t)})"]) for c, t in _cases_of(e))


def _cases_of(e: AstExpr) -> list[tuple[tuple[str, ...], str]]:
    """Text of isl's expression ``e`` in each case of its choices, after the conditions of the case.

    isl writes ``c0 <= 1 ? 0 : 1``, which it cannot read.
    """
    isl = _isl()
    kind = e.get_type()
    if kind == isl.ast_expr_type.int:
        return [((), str(e.get_val().to_python()))]
    if kind == isl.ast_expr_type.id:
        return [((), e.get_id().get_name())]
    args = [e.get_op_arg(k) for k in range(e.get_op_n_arg())]
    op_type: Any = e.get_op_type()
    name = op_type.name
    if name in ("select", "cond"):
        condition = _text_of(args[0])
        sides = ((condition, args[1]), (f"not ({condition})", args[2]))
        return [((side, *c), text) for side, arg in sides for c, text in _cases_of(arg)]
    form = reduce(_TEXTS[name].format, ["{}"] * len(args)) if name != "minus" else "(-{})"
    return [
        (tuple(c for conditions, _ in cases for c in conditions), form.format(*(text for _, text in cases)))
        for cases in product(*map(_cases_of, args))
    ]


def _iterators(count: int) -> Any:
    isl = _isl()
    names = isl.IdList.alloc(_context(), count)
    for k in range(count):
        names = names.add(isl.Id(f"x{k}", context=_context()))
    return names


def _walk_of(node: AstNode, axes: Sequence[Var], names: dict[str, Expr]) -> list[Walk]:
    """Loops, guards and points of isl's tree ``node``.

    names : the expressions for isl's iterators.
    """
    isl = _isl()
    kind = node.get_type()
    if kind == isl.ast_node_type.block:
        children = node.block_get_children()
        items: list[Walk] = []
        for k in range(children.n_ast_node()):
            items += _walk_of(children.get_ast_node(k), axes, names)
        return items
    if kind == isl.ast_node_type.for_:
        return _walk_of_for(node, axes, names)
    if kind == isl.ast_node_type.if_:
        condition = _expr_of(node.if_get_cond(), names)
        then: list[Walk] = [If(condition, tuple(_walk_of(node.if_get_then(), axes, names)))]
        if node.if_has_else():
            other = tuple(_walk_of(node.if_get_else(), axes, names))
            then.append(If(negation(condition), other))
        return then
    call = node.user_get_expr()
    return [Point(tuple(_expr_of(call.get_op_arg(k + 1), names) for k in range(len(axes))))]


def _walk_of_for(node: AstNode, axes: Sequence[Var], names: dict[str, Expr]) -> list[Walk]:
    """Loop for isl's loop ``node``; if it has one iteration, its body with that value."""
    isl = _isl()
    name = node.for_get_iterator().get_id().get_name()
    lower = _expr_of(node.for_get_init(), names)
    if node.for_is_degenerate():
        return _walk_of(node.for_get_body(), axes, {**names, name: lower})
    # Two loops one after the other may run over one axis: the variable is the axis in both.
    var = axes[int(name[1:])]
    below = {**names, name: var}
    condition = node.for_get_cond()
    limit = _expr_of(condition.get_op_arg(1), below)
    inclusive = condition.get_op_type() == isl.ast_expr_op_type.le
    upper = limit + 1 if inclusive else limit
    step = node.for_get_inc().get_val().to_python()
    body = tuple(_walk_of(node.for_get_body(), axes, below))
    return [For(var, lower, _folded(upper), step, body)]


def _folded(e: Expr) -> Expr:
    return expr_of(affine_of(e))


def _expr_of(e: AstExpr, names: dict[str, Expr]) -> Expr:
    """Expression for isl's expression ``e``.

    names : the expressions for isl's iterators.
    """
    isl = _isl()
    kind = e.get_type()
    if kind == isl.ast_expr_type.int:
        return index(e.get_val().to_python())
    if kind == isl.ast_expr_type.id:
        return names[e.get_id().get_name()]
    op = isl.ast_expr_op_type
    operation = e.get_op_type()
    args = [_expr_of(e.get_op_arg(k), names) for k in range(e.get_op_n_arg())]
    binary = {
        op.add: "add",
        op.sub: "subtract",
        op.mul: "multiply",
        op.div: "floor_divide",  # exact
        op.fdiv_q: "floor_divide",
        op.pdiv_q: "floor_divide",
        op.pdiv_r: "remainder",
        op.zdiv_r: "remainder",  # compared with 0 only
        op.eq: "equal",
        op.le: "less_equal",
        op.lt: "less",
        op.ge: "greater_equal",
        op.gt: "greater",
        op.and_: "logical_and",
        op.and_then: "logical_and",
        op.or_: "logical_or",
        op.or_else: "logical_or",
    }
    if operation in (op.min, op.max):
        result = args[0]
        for other in args[1:]:
            result = apply("minimum" if operation == op.min else "maximum", result, other)
        return result
    if operation == op.minus:
        return apply("negative", args[0])
    if operation in (op.select, op.cond):
        return select(*args)
    return apply(binary[operation], *args)
