"""Kernels of the zero, box and bracket layouts, on operands of all layouts mixed, against NumPy's result."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import iverson.handles  # noqa: F401  (the ops and kernels are registered)
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.kernels.kernel_registry import run
from iverson.layouts import Box, Bracket, Packed, Zero, from_strided, layout_of, layouts_by_type, to_strided

pytestmark = pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")

SHAPE = (3, 4)
RNG = np.random.default_rng(0)
C, D = RNG.random(SHAPE) < 0.6, RNG.random(SHAPE) < 0.6
ROWS = np.array([[True], [False], [True]])
TWO_OF_FOUR = np.array([[True, False, True, False], [False, True, True, False], [True, True, False, False]])
PLAIN = (np.ndarray, int, float, complex, bool)


def values(*shape: int, dtype: str = "float64") -> Any:
    return RNG.uniform(0.5, 2, shape).astype(dtype)


def box(start: tuple[int, ...], stop: tuple[int, ...], shape: tuple[int, ...] = SHAPE) -> Box:
    region = Region(start, stop)
    return Box(shape, region, values(*region.shape))


LARGE = box((0, 1), (2, 4))
#: Operands of one shape, in every layout, under several conditions and under the same one.
OPERANDS: dict[str, Any] = {
    "strided": values(*SHAPE),
    "single": values(*SHAPE, dtype="float32"),
    "zero": Zero(SHAPE, np.dtype("float64")),
    "single zero": Zero(SHAPE, np.dtype("float32")),
    "complex zero": Zero(SHAPE, np.dtype("complex128")),
    "box": LARGE,
    "another box": box((1, 0), (3, 2)),
    "no box": box((1, 2), (1, 3)),
    "bracket": Bracket(values(*SHAPE), C),
    "its other side": Bracket(values(*SHAPE), C, True),
    "single other side": Bracket(values(*SHAPE, dtype="float32"), C, True),
    "another bracket": Bracket(values(*SHAPE), D),
    "a view's": Bracket(values(*SHAPE), D[:, ::-1]),
    "rows": Bracket(values(*SHAPE), np.broadcast_to(ROWS, SHAPE)),
    "columns": Bracket(values(*SHAPE), np.broadcast_to(D[0], SHAPE), True),
    "bracket of a box": Bracket(LARGE, Box(SHAPE, LARGE.region, D[:2, 1:])),
    "packed": Packed(TWO_OF_FOUR, values(6)),
    "coo": from_strided(np.where(C, values(*SHAPE), 0), "coo"),
    "csr": from_strided(np.where(D, values(*SHAPE), 0), "csr"),
}
#: Operands that are broadcast to that shape.
SMALLER: dict[str, Any] = {
    "number": 1.5,
    "0-d": np.asarray(0.75),
    "0-d zero": Zero((), np.dtype("float64")),
    "line": values(4),
    "line of zeros": Zero((4,), np.dtype("float64")),
    "column box": box((1, 0), (2, 1), (3, 1)),
    "line's bracket": Bracket(values(4), D[1]),
    "column's bracket": Bracket(values(3, 1), ROWS, True),
}


def dense(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) or type(value) in PLAIN else to_strided(value)


def check(name: str, operands: tuple[Any, ...], params: dict[str, Any], at: Any = None) -> None:
    """The op on operands in their layouts has the entries, shape and dtype of the op on strided ones."""
    if all(type(v) in PLAIN for v in operands):
        return
    op = TABLE[name]
    expected = dense(op.forward(*(v if type(v) in PLAIN else dense(v) for v in operands), **params))
    found = run(op, operands, params)
    assert found.shape == expected.shape, (name, at)
    assert found.dtype == expected.dtype, (name, at)
    if type(found) in layouts_by_type:
        layout_of(found).check(found)
    entries = dense(found)
    np.testing.assert_allclose(entries, expected, rtol=1e-6, atol=1e-12, err_msg=f"{name} {at}")
    if name == "subtract" and type(operands[0]) is Zero:  # a branch cut is approached from the same side
        np.testing.assert_array_equal(np.signbit(entries.real), np.signbit(expected.real), str(at))
    for value in operands:
        assert found is not value or np.array_equal(dense(value), expected)


def pairs() -> Iterator[tuple[str, str, Any, Any]]:
    everything = OPERANDS | SMALLER
    for a, b in product(everything, repeat=2):
        if a in OPERANDS or b in OPERANDS:
            yield a, b, everything[a], everything[b]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "atan2"])
def test_elementwise(name):
    for a, b, x, y in pairs():
        if name in ("add", "subtract", "multiply") or "complex zero" not in (a, b):
            check(name, (x, y), {}, (a, b))
    check(name, (Zero((3, 1), np.dtype("float64")), SMALLER["line"]), {})
    check(name, (Zero(SHAPE, np.dtype("float64")), np.where(C, 0.0, -1.0)), {})


def test_sums_of_several():
    of_one_dtype = [k for k, x in OPERANDS.items() if x.dtype == np.float64]
    for a, b in product(of_one_dtype, repeat=2):
        check("add_n", (OPERANDS[a], OPERANDS[b]), {}, (a, b))
        for c in ("strided", "zero", "box", "bracket"):
            check("add_n", (OPERANDS[a], OPERANDS[b], OPERANDS[c]), {}, (a, b, c))


CONDITIONS = {
    "array": C,
    "line": D[0],
    "numbers": C.astype("int64"),
    "box": Box(SHAPE, LARGE.region, C[:2, 1:]),
    "none": Zero(SHAPE, np.dtype(bool)),
}


def test_choices():
    for name, condition in CONDITIONS.items():
        for a, b, x, y in pairs():
            if name != "numbers":
                check("where", (condition, x, y), {}, (name, a, b))
    for line in (D[0], C):
        check("where", (line, Zero((4,), np.dtype("float64")), SMALLER["line"]), {})
        check("where", (line, 2, Zero(line.shape, np.dtype("float64"))), {})


@pytest.mark.parametrize("negated", [False, True])
def test_selections(negated):
    for name, condition in CONDITIONS.items():
        for a, x in (OPERANDS | SMALLER).items():
            check("bracket", (condition, x), {"negated": negated}, (name, a))


KEYS = [
    (slice(0, 2, 1), slice(1, 4, 2)),
    (slice(0, 3, 1), 1),
    (2, slice(0, 1, 1)),
    (slice(0, 3, 1), slice(0, 4, 1)),
]
ONE = [
    ("sum", {"axis": (0,), "keepdims": False}),
    ("sum", {"axis": (1,), "keepdims": True}),
    ("sum", {"axis": (0, 1), "keepdims": False}),
    ("broadcast_to", {"shape": (2, *SHAPE)}),
    ("permute_dims", {"axes": (1, 0)}),
    ("reshape", {"shape": (2, 6)}),
    ("flip", {"axis": (1,)}),
    ("roll", {"shift": (1,), "axis": (1,)}),
    ("tril", {"k": 0}),
    ("negative", {}),
    ("exp", {}),
    ("sin", {}),
    *(("index_basic", {"key": key}) for key in KEYS),
    *(("overwritten", {"key": key}) for key in KEYS),
]


@pytest.mark.parametrize("number", range(len(ONE)))
def test_of_one(number):
    name, params = ONE[number]
    for a, x in OPERANDS.items():
        check(name, (x,), params, (params, a))


def test_side_by_side():
    for a, b in product(OPERANDS, repeat=2):
        parts = (OPERANDS[a], OPERANDS[b])
        for axis in (0, 1):
            check("concat", parts, {"axis": axis, "offsets": (0, SHAPE[axis])}, (a, b, axis))
            check("stack", parts, {"axis": axis}, (a, b, axis))


def test_products_of_matrices():
    for a, b in product(OPERANDS, repeat=2):
        x, y = OPERANDS[a], OPERANDS[b]
        turned = run(TABLE["permute_dims"], (y,), {"axes": (1, 0)}) if type(y) is not np.ndarray else y.T
        check("matmul", (x, turned), {}, (a, b))
        if type(x) in (np.ndarray, Box, Zero, Bracket):
            batch = box((1, 1, 0), (2, 4, 1), (2, 4, 2))
            check("matmul", (x, batch), {}, (a, "batch"))


def test_infinite_values_that_are_left_out_stay_out():
    """What a condition or a zero excludes is never multiplied, whatever it is."""
    bad = np.where(C, 1.0, np.array([np.inf, np.nan, -np.inf, np.nan]))
    held = Bracket(bad, C)
    for name, other in OPERANDS.items():
        for op in ("multiply", "add", "subtract"):
            found = dense(run(TABLE[op], (held, other), {}))
            expected = TABLE[op].forward(np.where(C, 1.0, 0.0), dense(other))
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=f"{op} {name}")
    rows = Bracket(np.where(ROWS, 1.0, np.nan) * np.ones(SHAPE), np.broadcast_to(ROWS, SHAPE))
    right = np.array([[1.0, 2.0], [np.inf, np.nan], [3.0, 4.0]])
    left_out = run(TABLE["permute_dims"], (rows,), {"axes": (1, 0)})
    with np.errstate(invalid="ignore"):
        found = dense(run(TABLE["matmul"], (left_out, right), {}))
    np.testing.assert_array_equal(found, [[4.0, 6.0]] * 4)
    zero = Zero(SHAPE, np.dtype("float64"))
    np.testing.assert_array_equal(dense(run(TABLE["where"], (C, bad, zero), {})), C)
    np.testing.assert_array_equal(dense(run(TABLE["where"], (~C, zero, bad), {})), C)
    np.testing.assert_array_equal(dense(run(TABLE["where"], (C, bad, Zero((), np.dtype("float64"))), {})), C)


def test_what_is_selected_in_a_box_and_stored_stays_stored():
    """A product of a selection in a box with a sparse array makes no other entry."""
    region = Region((0, 1), (3, 3))
    selected = Bracket(Box(SHAPE, region, values(3, 2)), Box(SHAPE, region, C[:, 1:3]))
    stored = from_strided(np.where(D, values(*SHAPE), 0), "csr")
    for operands in ((selected, stored), (stored, selected)):
        found = run(TABLE["multiply"], operands, {})
        assert type(found) is type(stored)
        np.testing.assert_array_equal(dense(found), dense(selected) * dense(stored))


def test_entries_that_are_nowhere_stored_are_zero():
    pattern = from_strided(np.where(C, 1.0, 0.0), "csr").pattern
    empty = pattern.part(np.zeros(0, np.int64)).value(np.zeros(0))
    found = run(TABLE["values_at"], (empty,), {"pattern": pattern, "held": True})
    assert type(found) is Zero
    assert found.shape == (pattern.count,)
