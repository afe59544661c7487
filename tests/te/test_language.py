"""Definitions mean what NumPy says, and wrong ones are refused where they stand."""

from __future__ import annotations

import inspect
import math
from functools import partial

import numpy as np
import pytest

from iverson import te
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    IndexingError,
    IversonError,
    ShapeError,
)
from iverson.te.ir.interpret import run
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import some
from tests.te.oracles import eliminated_value, value

rng = np.random.default_rng(3)
A = te.placeholder((4, 6), name="A")
a = rng.standard_normal((4, 6))
k = te.reduce_axis((0, 6), "k")
m = te.reduce_axis((1, 4), "m")


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (te.compute((4,), lambda i: te.sum(A[i, k], k)), a.sum(1)),
        (te.compute((4,), lambda i: te.prod(A[i, k], k)), a.prod(1)),
        (te.compute((4,), lambda i: te.max(A[i, k], k)), a.max(1)),
        (te.compute((4,), lambda i: te.min(A[i, k], k)), a.min(1)),
        (te.compute((4,), lambda i: te.argmax(A[i, k], k)), a.argmax(1)),
        (te.compute((4,), lambda i: te.argmin(A[i, k], k)), a.argmin(1)),
        (te.compute((), lambda: te.argmax(A[m, k], [m, k])), a[1:].argmax()),
        (te.compute((), lambda: te.sum(A[m, k], [m, k])), a[1:].sum()),
        (te.compute((2, 6), lambda i, j: A[2 * i + 1, 5 - j]), a[1::2, ::-1]),
        (te.compute((6, 4), lambda i, j: te.F.erf(A[j, i])), None),
        (
            te.compute((4, 6), lambda i, j: A[i, j] - te.max(A[i, k], k) / te.sum(A[i, k], k)),
            a - (a.max(1) / a.sum(1))[:, None],
        ),
        (te.compute((4, 6), lambda i, j: te.bracket(j <= i) * A[i, j]), np.tril(a)),
        (te.compute((4, 6), lambda i, j: te.select((j > i) | (j == 0), A[i, j], 1.0)), None),
        (te.compute((3,), lambda i: te.max(te.sum(A[i + m - m, k], k), m)), a[:3].sum(1)),
        (te.compute((4, 6), lambda i, j: i * 10 + j, dtype="float32"), None),
        (te.compute((8,), lambda i: te.if_then_else((i > 0) & (i < 7), A[0, i - 1], 0)), np.pad(a[0], 1)),
        (te.compute((0, 3), lambda i, j: i + j), np.zeros((0, 3))),
    ],
)
def test_values(tensor: te.Compute, expected: object) -> None:
    found = value(tensor, {A: a})
    np.testing.assert_array_equal(eliminated_value(tensor, {A: a}), found)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_indirect_reads_and_scatter() -> None:
    rows = te.placeholder((5,), "int32", "rows")
    at = np.array([3, 0, 0, 2, 3], np.int32)
    feed = {A: a, rows: at}
    picked = te.compute((5, 6), lambda e, j: A[rows[e], j], "picked")
    np.testing.assert_array_equal(value(picked, feed), a[at])
    summed = te.scatter((4, 6), (5, 6), lambda e, j: ((rows[e], j), picked[e, j]), "summed")
    expected = np.zeros((4, 6))
    np.add.at(expected, at, a[at])
    np.testing.assert_allclose(value(summed, feed), expected)
    segment = te.scatter((4,), (5,), lambda e: (rows[e], te.sum(A[rows[e], k], k)), "segment")
    np.testing.assert_allclose(value(segment, feed), expected.sum(1))
    with pytest.raises(IndexingError, match="index"):
        value(picked, {A: a, rows: at + 1})
    with pytest.raises(IndexingError, match="a write at 4"):
        value(te.scatter((4,), (5,), lambda e: (rows[e], 1.0)), {rows: at + 1})


def test_guards_protect_reads_from_data_dependent_indices() -> None:
    rows = te.placeholder((3,), "int64", "rows")
    safe = te.compute((3,), lambda e: te.select(rows[e] >= 0, A[rows[e], 0], -1.0), "safe")
    np.testing.assert_array_equal(value(safe, {A: a, rows: np.array([-1, 2, -7])}), [-1, a[2, 0], -1])


def test_ties_and_nan() -> None:
    x, q = te.placeholder((4,), name="x"), te.reduce_axis((0, 4), "q")
    for name, ufunc in (("argmax", np.argmax), ("argmin", np.argmin)):
        tensor = te.compute((), lambda name=name: getattr(te, name)(x[q], q))
        for values in ([1.0, 3, 3, 1], [np.nan, 5, np.nan, 9], [2.0, np.nan, 1, 9]):
            assert value(tensor, {x: np.array(values)}) == ufunc(values)
    assert np.isnan(value(te.compute((), lambda: te.max(x[q], q)), {x: np.array([1, np.nan, 2, 3])}))


def test_symbolic_sizes() -> None:
    n, d = te.var("n"), te.var("d")
    X, W = te.placeholder((n, d), name="X"), te.placeholder((d,), name="W")
    j = te.reduce_axis((0, d), "j")
    y = te.compute((n,), lambda i: te.F.tanh(te.sum(X[i, j] * W[j], j)), "y")
    head = te.placeholder((n,), name="H")
    gradients = list(te.differentiate(y, [X, W], head))
    for rows, width in ((3, 4), (5, 1)):
        bound = te.bind([y, *gradients], {n: rows, d: width})
        program = te.program_of(bound)
        feed = {t.name: rng.standard_normal(t.shape) for t in program.inputs}
        out, gx, gw = run(te.eliminate(program), [feed[t.name] for t in program.inputs])
        np.testing.assert_allclose(out, np.tanh(feed["X"] @ feed["W"]))
        g = feed["H"] * (1 - out**2)
        np.testing.assert_allclose(gx, np.outer(g, feed["W"]))
        np.testing.assert_allclose(gw, feed["X"].T @ g)
    with pytest.raises(ArgumentError, match=r"te\.bind"):
        run(te.program_of([y]), [np.zeros((2, 2)), np.zeros(2)])


_outside = te.reduce_axis((0, 3), "r")
_other: list[object] = []
te.compute((3,), lambda i: _other.append(i) or 1.0)
_rows = te.placeholder((5,), "int64", "rows")

REFUSED = [
    (lambda: te.compute((4, 6), lambda i, j: A[i, j + 1]), IndexingError, r"index j \+ 1 in \[1, 6\]"),
    (lambda: te.compute((4,), lambda i: A[i - 1, 0]), IndexingError, r"expected an index in \[0, 4\)"),
    (lambda: te.compute((4,), lambda i: te.select(i < 3, A[i + 2, 0], 0)), IndexingError, r"i \+ 2"),
    (lambda: te.compute((4,), lambda i: te.sum(A[i, k + 1], k)), IndexingError, "k"),
    (lambda: te.compute((9,), lambda i: A[i * i % 4, 0]), ArgumentError, "stride or divisor"),
    (lambda: te.compute((2, 3), lambda i, j: A[i * j, 0]), ArgumentError, "constants as strides"),
    (lambda: te.compute((3,), lambda i: A[_outside, i]), ArgumentError, "reduction axis r outside"),
    (lambda: te.compute((3,), lambda i: te.sum(A[0, k], k) + A[0, k]), ArgumentError, "reduction axis k"),
    (lambda: te.compute((3,), lambda i: A[_other[0], i]), ArgumentError, "index i of another"),
    (lambda: te.scatter((4,), (8,), lambda e: (e // 2, 1.0), combine="assign"), ArgumentError, "one writer"),
    (lambda: te.scatter((9,), (5,), lambda e: (_rows[e], 1), combine="assign"), ArgumentError, "one writer"),
    (lambda: te.scatter((4,), (8,), lambda e: (e, 1.0)), IndexingError, "a write to"),
    (lambda: te.scatter((4,), (8,), lambda e: ((e, e), 1.0)), ShapeError, "2 target indices"),
    (lambda: te.scatter((4,), (8,), lambda e: (e // 2, 1), combine="mean"), ArgumentError, "one of"),
    (lambda: te.compute((4, 6), lambda i: A[i, 0]), ShapeError, "a function of 1 indices"),
    (lambda: te.compute((-1,), lambda i: 1.0), ShapeError, "non-negative"),
    (lambda: te.compute((2.5,), lambda i: 1.0), ArgumentTypeError, "an int or a te.var"),
    (lambda: te.sum(A[0, k], "k"), ArgumentTypeError, "te.reduce_axis"),
    (lambda: te.max(A[0, k], te.reduce_axis((2, 2), "e")), ArgumentError, "empty"),
    (lambda: te.reduce_axis((3, 1)), ArgumentError, "lo <= hi"),
    (lambda: te.placeholder((3,), "float128"), DTypeError, "float128"),
    (lambda: te.compute((3,), lambda i: A[i // 0, 0]), ArgumentError, "division by 0"),
    (lambda: te.max(A[0, k] * 1j, k), ArgumentTypeError, "ordered dtype"),
    (lambda: te.reduce_axis((0, 2.5)), ArgumentTypeError, "'bounds': got 2.5"),
    (lambda: te.scatter((4,), "x", lambda e: (e, 1)), ArgumentTypeError, "'domain': got 'x'"),
    (lambda: te.scatter((4,), (4,), lambda e: 1.0), ArgumentTypeError, "expected a pair"),
    (lambda: te.compute(np.array([3.0]), lambda i: 1.0), ArgumentTypeError, "an int or a te.var"),
]  # fmt: skip


def test_numpys_functions_of_expressions_are_those_of_the_table() -> None:
    found = te.compute((3,), lambda i: np.arcsin(A[i, 0]) + np.float64(2) * np.sqrt(A[i, 1]))
    expected = te.compute((3,), lambda i: te.asin(A[i, 0]) + 2 * te.sqrt(A[i, 1]))
    assert te.program_of([found]).key() == te.program_of([expected]).key()
    with pytest.raises(ArgumentTypeError, match="use the functions of iverson"):
        te.compute((3,), lambda i: np.add.reduce(A[i, 0]))
    with pytest.raises(ArgumentTypeError, match=r"te\.exp\(x\), not math"):
        te.compute((3,), lambda i: math.exp(A[i, 0]))
    message = r"got A\[i, 0\], 1 of dtype float64; expected bool, integers or unsigned integers"
    with pytest.raises(DTypeError, match=message):
        te.compute((3,), lambda i: te.bitwise_and(A[i, 0], 1))


@pytest.mark.parametrize(("define", "kind", "message"), REFUSED)
def test_wrong_definitions_name_the_line(define: object, kind: type[IversonError], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        define()  # type: ignore[operator]
    line = inspect.getsourcelines(define)[1]  # type: ignore[arg-type]
    if "division" not in message:
        assert f"test_language.py:{line}" in str(caught.value)


def test_guards_that_do_protect_are_accepted() -> None:
    te.compute((4,), lambda i: te.select(i < 3, A[i + 1, 0], 0))
    te.compute((4,), lambda i: te.select(i >= 3, 0, A[i + 1, 0]))
    te.compute((4,), lambda i: te.select(~((i == 0) | (i == 3)), A[2 * i - 2, 0], 0))
    te.compute((12,), lambda i: A[i // 3, i % 3 * 2])
    te.compute((4, 6), lambda i, j: te.sum(te.bracket(j + k < 6) * A[i, te.clamp(j + k, 0, 5)], k))
    te.compute((4, 6), lambda i, j: te.sum(te.bracket(j + k < 6) * A[i, j + k], k))
    te.compute((8,), lambda i: te.select((i >= 2) & (i < 6), te.sum(A[i - 2, k], k), 0))


def test_elementwise_functions_are_functions_of_the_module() -> None:
    a = te.placeholder((3,), "float64", "A")
    by_module = te.compute((3,), lambda i: te.exp(te.maximum(a[i], 0)))
    by_name = te.compute((3,), lambda i: te.F.exp(te.F.maximum(a[i], 0)))
    values = np.array([-1.0, 0.5, 2.0])
    (left,), (right,) = (run(te.program_of([t]), [values]) for t in (by_module, by_name))
    np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(left, np.exp(np.maximum(values, 0)), rtol=1e-15)
    with pytest.raises(AttributeError, match="no attribute 'expp'"):
        _ = te.expp


@pytest.mark.parametrize("name", ["bool", "int8", "uint8", "int16", "uint32", "int64", "float32", "float64"])
def test_sums_and_products_are_in_the_dtype_of_numpys(name: str) -> None:
    most = 2 if name == "bool" else 5 if name.startswith("float") else 100
    x = np.random.default_rng(1).integers(1, most, (3, 40)).astype(name)
    t, axis = te.placeholder(x.shape, name, "x"), te.reduce_axis(40)
    asked = (None, "float64") if name.startswith("float") else (None, "float64", "int16", "uint8")
    for how in ("sum", "prod"):
        for dtype in some(name + how, asked):
            reduce = partial(getattr(te, how), axis=axis, dtype=dtype)
            y = te.compute((3,), lambda i, reduce=reduce: reduce(t[i, axis]))
            expected = getattr(x, how)(1, dtype=dtype)
            assert y.dtype == expected.dtype
            for found in (value(y, {t: x}), lower(te.eliminate(y))(x)[0]):
                np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_wider_sum_has_a_gradient_in_the_dtype_of_its_terms() -> None:
    t, axis = te.placeholder((5,), "float32", "x"), te.reduce_axis(5)
    y = te.compute((), lambda: te.sum(t[axis] * t[axis], axis, dtype="float64"))
    head = te.placeholder((), "float64", "h")
    g = te.differentiate(y, t, head)[0]
    assert (y.dtype, g.dtype) == (np.float64, np.float32)
    x = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(value(g, {t: x, head: np.float64(2)}), 4 * x)


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_indices_of_any_integers_are_exact(name: str) -> None:
    """What is added to a narrow index, or it is multiplied by, does not wrap; also where guards move it."""
    at, x = te.placeholder((3,), name, "at"), te.placeholder((300,), name="x")
    y = te.compute((3,), lambda i: te.select(i > 0, x[at[i].astype("int64") * 2 + 40], 0.0))
    feed = {at: np.array([0, 100, 120], name), x: rng.standard_normal(300)}
    expected = [0.0, feed[x][240], feed[x][280]]
    np.testing.assert_array_equal(eliminated_value(y, feed), expected)
    np.testing.assert_array_equal(
        lower(te.eliminate(y))(*(feed[t] for t in te.program_of([y]).inputs))[0], expected
    )


def test_what_is_assigned_has_that_name() -> None:
    """Tensors, axes, sizes and scans without a name of their own, in every message and text."""
    n = te.var()
    p = te.placeholder((4,), "int64")
    x = te.placeholder((n,))

    def row(i: te.Expr) -> te.Expr:
        entry = te.reduce_axis((p[i], p[i + 1]))
        return te.sum(x[entry] * te.sum(x[(other := te.reduce_axis(n))], other), entry)

    total = te.compute((3,), row)
    state = te.scan((3,), lambda s: te.compute((3,), lambda t: s[t - 1] + total[t]))
    (one, _), given = (te.placeholder((2,)), 0), te.placeholder((2,), name="own")
    assert (p.name, x.name, n.name, total.name, state.name) == ("p", "x", "n", "total", "state")
    assert given.name == "own"
    assert one.name.startswith("T")
    text = te.program_text(te.program_of([state]))
    assert "for entry in p[i]:p[i + 1]:" in text
    assert "for other in 0:n:" in text
    assert "state[t] = select(t - 1 >= 0, state[t - 1], 0.0) + total[t]" in text


def test_bounds_beyond_what_is_read_are_errors_whether_they_depend_on_data_or_not() -> None:
    @te.op
    def tails(start: te.Tensor, given: te.Tensor, *, end: int) -> te.Tensor:
        def row(i: te.Expr) -> te.Expr:
            e = te.reduce_axis((start[i], end))
            return te.sum(given[e], e)

        return te.compute(start.shape, row)

    np.testing.assert_array_equal(tails(np.array([0, 3]), np.ones(5), end=4), [4, 1])
    with pytest.raises(
        IndexError, match=r"'given': got index 5 at axis 0 of given\[e\], where i = 0, e = 5; .* 0 to 4"
    ):
        tails(np.array([0, 7]), np.ones(5), end=9)
    with pytest.raises(IndexError, match=r"'start': got start\[i\] = -1 at i = 1, the start of e; .* 0:4"):
        tails(np.array([0, -1]), np.ones(5), end=4)
