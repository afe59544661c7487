"""Pairs that Python's ``==`` does not tell apart, and pairs of one name: each has a result of its own.

What is compiled, planned or found for the first of a pair is there when the second one comes, in both orders.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.autograd import override_vjp
from iverson.core.errors import ArgumentError, DensifyWarning
from iverson.core.op import Op
from iverson.core.table import F, defined
from tests.conformance.product import EXHAUSTIVE

#: Groups of values that are equal, or whose members are, and not the same.
EQUAL: tuple[tuple[Any, ...], ...] = (
    (1, 1.0, True, np.int64(1), np.float32(1), np.float64(1), 1 + 0j),
    (0.0, -0.0, 0, False, np.float32(0.0), np.float32(-0.0), np.float64(-0.0)),
    (complex(0.0, 1.0), complex(-0.0, 1.0)),
    (float("nan"), float("nan")),
    (Fraction(1), 1.0),
)
Pair = namedtuple("Pair", "a b")


@dataclass(frozen=True)
class Setting:
    value: Any


@iv.dataclasses.dataclass
class Scaled:
    weight: Any
    scale: Any = iv.dataclasses.field(default=1, pytree_node=False)


def wrappings(value: Any) -> tuple[Any, ...]:
    """A value in what may be a static argument."""
    return value, (value,), Setting(value), frozenset([value]), Pair(0, (value, Setting(value)))


def inner(x: Any) -> Any:
    while not isinstance(x, int | float | complex | np.generic | Fraction):
        x = x.value if isinstance(x, Setting) else tuple(x)[-1]
    return x


def said(x: Any) -> Any:
    """All that a result is: signs of zeros and dtypes too."""
    if isinstance(x, dict):
        return type(x), [(type(k), k, said(v)) for k, v in x.items()]
    return x.dtype, repr(x.tolist())  # which tells -0.0, and takes nan for nan


def both_orders(
    make: Callable[[], Callable[[Any], Any]], plain: Callable[[Any], Any], values: tuple[Any, ...]
) -> None:
    """One function on values one after the other, each against what it does without memory."""
    with np.errstate(all="ignore"):
        want = [said(plain(v)) for v in values]
        for order in (range(len(values)), range(len(values))[::-1]):
            function = make()
            for k in order:
                assert said(function(values[k])) == want[k], (values[k], [values[n] for n in order])


COUNTS = np.array([2, 3])


@pytest.mark.parametrize("values", EQUAL, ids=str)
@pytest.mark.parametrize("wrapping", range(5))
def test_static_arguments(values: tuple[Any, ...], wrapping: int) -> None:
    def multiplied(x: Any, by: Any) -> Any:
        by = inner(by)
        return x * (float(by) / 2 if isinstance(by, Fraction) else by)

    counts = iv.asarray(COUNTS)
    both_orders(
        lambda: partial(iv.jit(multiplied, static=1), counts),
        partial(multiplied, counts),
        tuple([wrappings(v)[wrapping] for v in values]),
    )


@pytest.mark.parametrize("values", EQUAL[:4], ids=str)
def test_what_trees_have_besides_leaves(values: tuple[Any, ...]) -> None:
    """Fields of the structure, and keys of dictionaries."""
    x = iv.asarray(COUNTS)

    def of_field(p: Scaled) -> Any:
        return p.weight * p.scale

    def on_fields(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda v: f(Scaled(x, v))

    both_orders(lambda: on_fields(iv.jit(of_field)), on_fields(of_field), values)

    def of_key(d: dict[Any, Any]) -> Any:
        return {k: v * (2 if type(k) is int else 3) for k, v in d.items()}

    def on_keys(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda v: f({v: x})

    both_orders(lambda: on_keys(iv.jit(of_key)), on_keys(of_key), tuple([v for v in values if v == v]))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_dictionaries_have_an_order(kind: type) -> None:
    x = iv.asarray([1.0, 2.0])

    def difference(d: dict[str, Any], **more: Any) -> Any:
        first, second = d.values()
        return {**d, "of d": first - second, "named": next(iter(more.values())) * 1}

    f = iv.jit(difference)
    for names in ("ab", "ba", "ab"):
        d = kind((n, x * (k + 1)) for k, n in enumerate(names))
        more = {n: x + k for k, n in enumerate(names)}
        found, want = f(d, **more), difference(d, **more)
        assert list(found) == list(want)
        assert said(dict(found)) == said(dict(want))


@pytest.mark.parametrize("values", EQUAL[:3], ids=str)
def test_constants_of_an_op_in_index_notation(values: tuple[Any, ...]) -> None:
    x = np.array([2.0, 3.0])
    values = tuple([v for v in values if not isinstance(v, np.generic)])

    def make() -> Callable[[Any], Any]:
        @te.op
        def shifted(x: Any, *, by: Any) -> Any:
            return te.compute(x.shape, lambda i: by * x[i] if type(by) is not bool else x[i] + by)

        return lambda v: 1 / shifted(x, by=v)

    def compiled() -> Callable[[Any], Any]:
        function = make()
        return lambda v: iv.jit(lambda: function(v))()

    def plain(v: Any) -> Any:
        return 1 / iv.asarray(v * x if type(v) is not bool else x + v)

    both_orders(make, plain, values)
    both_orders(compiled, plain, values)


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_numbers_beside_sparse_operands(zeros: tuple[float, ...]) -> None:
    """atan2(0, 0.0) is 0, atan2(0, -0.0) is pi."""
    x = np.array([[0.0, 1.0], [2.0, 0.0]])
    for zero in (*zeros, *zeros):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DensifyWarning)
            found = iv.atan2(iv.asarray(x).to_sparse(), zero)
        np.testing.assert_array_equal(found.to_dense().numpy(), np.arctan2(x, zero))


def test_an_argument_that_is_there_twice_is_one() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        a[0] = 5.0 * a[0] + (1.0 if a is b else 0.0)
        return (a * b * c).sum()

    jitted = iv.jit(f)
    for pattern in ("abc", "aab", "aba", "abb", "aaa", "abc", "aab"):
        values = [{n: iv.asarray([1.0 + k, 2.0]) for k, n in enumerate("abc")} for _ in range(2)]
        found, want = (
            function(*(v[n] for n in pattern)) for function, v in zip((jitted, f), values, strict=True)
        )
        assert said(found) == said(want), pattern
        for n in "abc":
            assert said(values[0][n]) == said(values[1][n]), pattern


def test_one_tensor_that_reaches_a_function_in_two_ways_is_not_written_to() -> None:
    w = iv.asarray([1.0, 2.0, 3.0])

    def writes_argument(x: Any) -> Any:
        x[0] = 9.0
        return w.sum()

    def writes_outside(x: Any) -> Any:
        w[0] = 9.0
        return x.sum()

    def writes_part(x: Any, part: Any) -> Any:
        part[0] = 9.0
        return x.sum()

    for function in (writes_argument, writes_outside):
        f = iv.jit(function)
        f(iv.asarray([1.0, 2.0, 3.0]))
        w[0] = 1.0
        with pytest.raises(ArgumentError, match="two ways"):
            f(w)
        assert w.tolist() == [1.0, 2.0, 3.0], "nothing was changed"
    with pytest.raises(ArgumentError, match="two ways"):
        iv.jit(writes_part)(w, w[1:])
    assert w.tolist() == [1.0, 2.0, 3.0]
    assert iv.jit(writes_part)(w, iv.asarray(w[1:], copy=True)).item() == 6.0


# --- rules in force -----------------------------------------------------------------------------------

BODIES: dict[str, Callable[[Any], Any]] = {
    "checkpoint": iv.checkpoint(iv.sin),
    "scan": lambda x: iv.scan(lambda c, _: (iv.sin(c), None), x, length=1)[0],
    "fori_loop": lambda x: iv.fori_loop(0, 1, lambda _, c: iv.sin(c), x),
    "cond": lambda x: iv.cond(x.sum() > 0, iv.sin, iv.cos, x),
    "jit": iv.jit(iv.sin),
    "plain": iv.sin,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("factors", [(None, 10.0, 7.0, None), (10.0, None, 10.0)])
def test_rules_that_stand_in_are_those_of_their_block(name: str, factors: tuple[float | None, ...]) -> None:
    """Bodies of one text are one graph, whose derivatives are kept: by the rules that they were made of."""
    x = iv.asarray([0.3])
    salt = len(factors)  # texts of its own

    def f(x: Any) -> Any:
        return (BODIES[name](x * salt) / salt).sum()

    for k in factors:
        if k is None:
            assert iv.grad(f)(x).tolist() == pytest.approx([np.cos(0.3 * salt)])
            continue
        with override_vjp("sin", lambda F, g, y, x, k=k: k * g):
            assert iv.grad(f)(x).tolist() == pytest.approx([k])
            assert iv.jit(iv.grad(f))(x).tolist() == pytest.approx([k])


# --- ops of one name ----------------------------------------------------------------------------------


def test_an_op_of_an_extension_is_not_the_one_that_had_its_name() -> None:
    """In memory, and on disk, where another version of the extension may have left what it was."""
    x = iv.asarray([1.0, 2.0])
    for k in (2.0, 3.0, 2.0):
        op = Op(
            name="scaled_by_extension",
            forward=lambda x, k=k: k * x,
            abstract=lambda a: a,
            vjp=(lambda F, g, y, x, k=k: k * g,),
            te=lambda x, k=k: te.compute(x.shape, lambda i: k * x[i]),
        )
        with defined(op):
            assert iv.jit(lambda x: F.scaled_by_extension(x) + 1.0)(x).tolist() == [k + 1.0, 2 * k + 1.0]
            assert iv.jit(iv.grad(lambda x: F.scaled_by_extension(x).sum()))(x).tolist() == [k, k]


# --- what functions close over -------------------------------------------------------------------------


class Box:
    """Something with an attribute."""

    def __init__(self, value: Any) -> None:
        self.value = value


def closures(place: str) -> tuple[Callable[[Any], None], Callable[[], Any]]:
    """How a number that a function reads is set, and how it is read."""
    local: Any = 1.0
    box, items, names = Box(1.0), [1.0], globals()

    def put(value: Any) -> None:
        nonlocal local
        local = names["factor"] = box.value = items[0] = value

    return put, {
        "variable": lambda: local,
        "global": lambda: factor,  # type: ignore[name-defined]  # noqa: F821
        "attribute": lambda: box.value,
        "item": lambda: items[0],
    }[place]


def notation(read: Callable[[], Any]) -> Callable[[Any], Any]:
    @te.op
    def scaled(x: Any) -> Any:
        by = read()
        return te.compute(x.shape, lambda i: x[i] * by)

    return scaled  # type: ignore[no-any-return]


def custom(read: Callable[[], Any]) -> Callable[[Any], Any]:
    class Scale(iv.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * read()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * read()

    return Scale.apply


MODES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "eager": lambda f: f,
    "jit": iv.jit,
    "grad": lambda f: iv.grad(lambda x: f(x).sum()),
    "jit of grad": lambda f: iv.jit(iv.grad(lambda x: f(x).sum())),
    "grad of jit": lambda f: iv.grad(iv.jit(lambda x: f(x).sum())),
    "vmap": lambda f: lambda x: iv.vmap(f)(x[None])[0],
    "checkpoint": iv.checkpoint,
    "scan": lambda f: lambda x: iv.scan(lambda c, _: (f(c), None), x, length=1)[0],
}


PLACES = ("variable", "global", "attribute", "item")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [notation, custom], ids=lambda f: f.__name__)
def test_what_an_op_of_users_closes_over_is_what_it_is_now(
    place: str, make: Callable[[Callable[[], Any]], Callable[[Any], Any]]
) -> None:
    put, read = closures(place)
    scaled = make(read)
    turns = list(MODES) if EXHAUSTIVE else list(MODES)[PLACES.index(place) :: len(PLACES)]
    functions = {name: MODES[name](scaled) for name in turns}
    for value in (2.0, 3.0, 0.0, -0.0, 2.0):
        for size in (2, 3) if EXHAUSTIVE else (2,):  # the second one has a program for any size
            put(value)
            x = np.arange(1.0, size + 1)
            for name, f in functions.items():
                want = np.full(size, float(value)) if "grad" in name else value * x
                found = f(iv.asarray(x)).numpy()
                np.testing.assert_array_equal(found, want, err_msg=name)
                if "grad" not in name:  # where it is multiplied with 0 there is no derivative
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(want), err_msg=name)


def test_a_derivative_of_what_an_op_was_is_refused_unless_it_is_known() -> None:
    put, read = closures("variable")
    scaled = notation(read)
    x = iv.asarray([1.0, 2.0], requires_grad=True)
    put(2.0)
    y = scaled(x).sum()
    put(3.0)
    with pytest.raises(ArgumentError, match=r"te\.scaled.*reads something else"):
        iv.autograd.grad(y, x)
    y = scaled(x).sum()
    assert iv.autograd.grad(y, x, retain_graph=True).tolist() == [3.0, 3.0]
    put(4.0)
    assert iv.autograd.grad(y, x).tolist() == [3.0, 3.0], "what was compiled is as it was"


def test_what_the_function_of_an_op_changes_itself_is_no_change() -> None:
    built: list[Any] = []

    @te.op
    def doubled(x: Any) -> Any:
        built.append(x)
        return te.compute(x.shape, lambda i: 2.0 * x[i])

    for _ in range(3):
        assert doubled(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert len(built) == 1
