"""Where it is decided that an access is inside its buffer: by bounds, guards and sizes, or in the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iverson.codegen.nests.access_checks import accesses, is_inside, plan
from iverson.codegen.nests.integer_bounds import Scope
from iverson.codegen.nests.nodes import BOOL, INT64, Buffer, If, Kernel, Let, Local, Loop, Size, Stmt, Store
from iverson.expr.nodes import Cast, Expr, Select
from tests.codegen.nests import F64, I32, add, c, f, i, ld

N = Size("n")
X, LONG = Buffer("x", F64, (3,)), Buffer("long", F64, ("n",))
AT, TO = Buffer("at", INT64, (9,)), Buffer("to", I32, (9,))
OWN = Buffer("own", INT64, (9,), "inout")
OUT = Buffer("out", F64, (9,), "out")
ZERO = c(0.0, F64)


NINE = c(9)


def _kernel(*body: Stmt, upper: Expr = NINE) -> Kernel:
    return Kernel("test", (X, LONG, AT, TO, OWN, OUT), (Loop("i", c(0), upper, body),))


def _put(e: Expr) -> Store:
    return Store(OUT, (c(0),), e)


def _where(condition: Expr, at: Expr, *, then: bool = True) -> Stmt:
    """``x[at]`` where a condition holds (or where it does not), 0 elsewhere."""
    sides = (ld(X, at), ZERO) if then else (ZERO, ld(X, at))
    return _put(Select(condition, *sides))


def _less(a: Expr, b: Expr) -> Expr:
    return f("less", a, b)


TWO = f("greater_equal", i, c(2))
SHORT = _less(i, c(3))
READ = ld(AT, i)
BETWEEN = f("logical_and", f("greater_equal", READ, c(0)), _less(READ, c(3)))
OUTSIDE = f("logical_or", _less(READ, c(0)), f("greater_equal", READ, c(3)))
OF_OWN = f("logical_and", f("greater_equal", ld(OWN, i), c(0)), _less(ld(OWN, i), c(3)))
NARROW = f("logical_and", f("greater_equal", ld(TO, i), c(0, I32)), _less(ld(TO, i), c(3, I32)))
IS, HERE = Local("is", BOOL), Local("here", INT64)

#: What runs in a loop over 9 iterations, and how the access of x (or of long) is decided.
PLANS: dict[str, tuple[Kernel, str]] = {
    "inside": (_kernel(_put(ld(X, c(2)))), "proven"),
    "first entries": (_kernel(_put(ld(X, i)), upper=c(3)), "proven"),
    "always outside": (_kernel(_put(ld(X, c(3)))), "loop"),
    "sometimes outside": (_kernel(_put(ld(X, i)), upper=c(4)), "loop"),
    "before the first": (_kernel(_put(ld(X, f("subtract", i, c(1)))), upper=c(3)), "loop"),
    "a loop that is empty": (_kernel(_put(ld(X, c(7))), upper=c(0)), "proven"),
    "up to the size": (_kernel(_put(ld(LONG, i)), upper=N), "proven"),
    "beyond the size": (_kernel(_put(ld(LONG, add(i, c(1)))), upper=N), "loop"),
    "up to a size that is not its own": (_kernel(_put(ld(X, i)), upper=N), "loop"),
    "nine of a size": (_kernel(_put(ld(LONG, i))), "loop"),
    "read": (_kernel(_put(ld(X, READ))), "loop"),
    "up to what is read": (_kernel(_put(ld(X, i)), upper=ld(AT, c(0))), "loop"),
    "up to what is written": (_kernel(_put(ld(X, i)), upper=ld(OWN, c(0))), "loop"),
    "up to what is made of floats": (_kernel(_put(ld(X, i)), upper=Cast(ld(X, c(0)), INT64)), "loop"),
    "written": (_kernel(_put(ld(X, ld(OWN, i)))), "loop"),
    "made of floats": (_kernel(_put(ld(X, Cast(ld(X, c(0)), INT64)))), "loop"),
    "read beyond what can be known": (_kernel(_put(ld(X, f("multiply", i, Cast(ld(TO, i), INT64))))), "loop"),
    "named": (_kernel(Let("here", READ), _put(ld(X, HERE))), "loop"),
    "named, written": (_kernel(Let("here", ld(OWN, i)), _put(ld(X, HERE))), "loop"),
    "named within a product": (_kernel(Let("here", READ), _put(ld(X, f("minimum", HERE, i)))), "loop"),
    "named within a product, written": (
        _kernel(Let("here", ld(OWN, i)), _put(ld(X, f("minimum", HERE, i)))),
        "loop",
    ),
    "a name of another place": (_kernel(_put(ld(X, f("minimum", HERE, i)))), "loop"),
    "stored": (_kernel(Store(OWN, (add(i, c(1)),), c(0))), "loop"),
    "stored as read": (_kernel(Store(OWN, (READ,), c(0))), "loop"),
    "where": (_kernel(_where(SHORT, i)), "proven, clamped"),
    "where, too wide": (_kernel(_where(_less(i, c(4)), i)), "loop, clamped"),
    "where less or equal": (_kernel(_where(f("less_equal", i, c(2)), i)), "proven, clamped"),
    "where less or equal, too wide": (_kernel(_where(f("less_equal", i, c(3)), i)), "loop, clamped"),
    "where greater": (_kernel(_where(f("greater", c(3), i), i)), "proven, clamped"),
    "where greater, too wide": (_kernel(_where(f("greater", c(4), i), i)), "loop, clamped"),
    "where greater or equal": (_kernel(_where(f("greater_equal", c(2), i), i)), "proven, clamped"),
    "where greater or equal, too wide": (_kernel(_where(f("greater_equal", c(3), i), i)), "loop, clamped"),
    "where equal": (_kernel(_where(f("equal", READ, c(2)), READ)), "proven, clamped"),
    "where equal, outside": (_kernel(_where(f("equal", READ, c(3)), READ)), "loop, clamped"),
    "where unequal": (_kernel(_where(f("not_equal", READ, c(2)), READ)), "loop, clamped"),
    "elsewhere": (_kernel(_where(f("greater_equal", i, c(3)), i, then=False)), "proven, clamped"),
    "elsewhere, the other side": (_kernel(_where(SHORT, i, then=False)), "loop, clamped"),
    "where, the other side": (_kernel(_where(f("greater_equal", i, c(3)), i)), "loop, clamped"),
    "elsewhere of greater": (_kernel(_where(f("greater", i, c(2)), i, then=False)), "proven, clamped"),
    "elsewhere of less or equal": (
        _kernel(_where(f("less_equal", c(3), i), i, then=False)),
        "proven, clamped",
    ),
    "elsewhere of unequal": (
        _kernel(_where(f("not_equal", READ, c(2)), READ, then=False)),
        "proven, clamped",
    ),
    "elsewhere of equal": (_kernel(_where(f("equal", READ, c(2)), READ, then=False)), "loop, clamped"),
    "where not": (_kernel(_where(f("logical_not", f("greater_equal", i, c(3))), i)), "proven, clamped"),
    "elsewhere of not": (_kernel(_where(f("logical_not", SHORT), i, then=False)), "proven, clamped"),
    "where not, the other side": (_kernel(_where(f("logical_not", SHORT), i)), "loop, clamped"),
    "where both": (_kernel(_where(BETWEEN, READ)), "proven, clamped"),
    "where one of two": (_kernel(_where(f("logical_or", SHORT, TWO), i)), "loop, clamped"),
    "elsewhere of one of two": (_kernel(_where(OUTSIDE, READ, then=False)), "proven, clamped"),
    "elsewhere of both": (
        _kernel(_where(f("logical_and", f("greater_equal", i, c(3)), f("greater", i, c(4))), i, then=False)),
        "loop, clamped",
    ),
    "where a name holds": (_kernel(Let("is", SHORT), _where(IS, i)), "proven, clamped"),
    "where another name holds": (_kernel(_where(IS, i)), "loop, clamped"),
    "where a constant holds": (_kernel(_where(c(True, BOOL), i)), "loop, clamped"),
    "where what is written is inside": (_kernel(_where(OF_OWN, ld(OWN, i))), "loop, clamped"),
    "where a name of what is written is inside": (
        _kernel(
            Let("here", ld(OWN, i)),
            _where(f("logical_and", f("greater_equal", HERE, c(0)), _less(HERE, c(3))), HERE),
        ),
        "loop, clamped",
    ),
    "where floats compare": (_kernel(_where(_less(Cast(i, F64), c(3.0, F64)), i)), "loop, clamped"),
    "where narrow integers compare": (
        _kernel(_where(NARROW, Cast(ld(TO, i), INT64))),
        "loop, clamped",
    ),
    "where something else": (_kernel(_where(f("isnan", i), i)), "loop, clamped"),
    "if": (_kernel(If(SHORT, (_put(ld(X, i)),))), "proven, clamped"),
    "if not": (_kernel(If(f("logical_not", SHORT), (_put(ld(X, i)),))), "loop, clamped"),
    "where it is inside anyway": (_kernel(_where(SHORT, c(0))), "proven"),
    "in a condition": (_kernel(_put(Select(f("greater", ld(X, i), ZERO), ZERO, ZERO))), "loop"),
}


def _decided(kernel: Kernel, sizes: dict[str, int] | None = None) -> str:
    found = plan(kernel, sizes)
    own = [
        a
        for a in accesses(kernel)
        if a.buffer in (X, LONG) or (isinstance(a.node, Store) and a.buffer is OWN)
    ]
    access = own[-1]
    how = "loop" if access.key in found.tested else "proven"
    assert (access.key in found.tested) == (access.key in {a.key for a in found.reported})
    # What the loop tests touches memory only where it is inside.
    clamped = access.key in found.clamped
    assert clamped or how != "loop"
    return how + (", clamped" if clamped and access.scope.guards else "")


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str) -> None:
    kernel, expected = PLANS[name]
    assert _decided(kernel) == expected
    assert _decided(kernel) == expected.replace("loop", "loop")


def test_one_access_is_reported_once() -> None:
    twice = ld(X, ld(OWN, i))
    found = plan(_kernel(_put(twice), _put(twice), _put(ld(X, c(4)))))
    assert sorted(found.tested.values()) == [0, 1]
    assert [a.buffer.name for a in found.reported] == ["x", "x"]


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        ("beyond the size", 0, "proven"),
        ("beyond the size", 4, "loop"),
        ("up to a size that is not its own", 3, "proven"),
        ("up to a size that is not its own", 4, "loop"),
        ("nine of a size", 9, "proven"),
        ("nine of a size", 8, "loop"),
        ("up to the size", 5, "proven"),
        ("read", 9, "loop"),
        ("up to what is read", 9, "loop"),
        ("where equal", 9, "proven, clamped"),
    ],
)
def test_what_sizes_decide(name: str, n: int, expected: str) -> None:
    kernel = replace(PLANS[name][0], sizes=("n",))
    assert _decided(kernel, {"n": n}) == expected
    assert _decided(kernel) == PLANS[name][1], "what is found for some sizes is not said of others"


@pytest.mark.parametrize(("upper", "guard", "expected"), [(9, 9, True), (10, 9, True), (10, 10, False)])
def test_a_store_that_is_inside(upper: int, guard: int, expected: bool) -> None:
    scope = Scope((Loop("i", c(0), c(upper), ()),), ((_less(i, c(guard)), True),))
    assert is_inside(Store(OUT, (i,), ZERO), scope) is expected
    square = Buffer("square", F64, (9, 9), "out")
    assert is_inside(Store(square, (c(0), i), ZERO), scope) is expected
    assert not is_inside(Store(square, (i, c(9)), ZERO), scope)
    written = Scope(scope.loops, ((_less(ld(OWN, i), c(0)), True),))
    assert is_inside(Store(OUT, (i,), ZERO), written) is (upper == 9)


def test_choices_that_say_nothing_of_indices_are_not_told_apart() -> None:
    """An entry read behind choices by numbers, each of them another, is inside by the one around them all."""
    e: Expr = ld(X, i)
    for k in range(40):
        e = Select(_less(c(float(k), F64), ld(LONG, c(0))), add(e, c(1.0, F64)), ld(X, i))
    made = plan(_kernel(_put(Select(SHORT, e, ZERO))))
    assert not [a for a in made.reported if a.buffer is X]
    assert plan(_kernel(_put(Select(SHORT, ZERO, e)))).reported
