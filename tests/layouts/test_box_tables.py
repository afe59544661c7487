"""Kernels of boxes on fixed calls and every box of a small array: the value, in the smallest box of it.

What is in a box is a random positive integer, so that an entry of a result is 0 only where it has to be, the
smallest box is that of the nonzero entries, and sums are exact in any order.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from iverson.core.counting import work
from iverson.core.dispatch import bind
from iverson.core.region import Region
from iverson.kernels import region_images
from iverson.kernels.kernel_registry import run, run_in_layouts
from iverson.kernels.partial.array_namespace import ARRAYS
from iverson.kernels.partial.partial_products import factors
from iverson.kernels.partial.partial_rules import RULES
from iverson.kernels.partial.partial_values import read
from iverson.layouts import Box, Bracket, Packed, Zero, from_strided, layout_of, to_strided
from iverson.layouts.bracket import held
from iverson.ops import TABLE

R = np.random.default_rng(0)
SHAPE = (3, 4)
ALL = slice(None)


def _slices(*items: Any) -> tuple[Any, ...]:
    return tuple(slice(*i) if isinstance(i, tuple) else i for i in items)


def _every_box(shape: tuple[int, ...]) -> Iterator[Region]:
    """All regions of an array but the empty ones."""
    for corners in itertools.product(*(itertools.combinations(range(n + 1), 2) for n in shape)):
        yield Region(tuple(a for a, _ in corners), tuple(b for _, b in corners))


def _box(region: Region, shape: tuple[int, ...] = SHAPE, dtype: str = "float64") -> Any:
    inner = np.asarray(R.integers(1, 2**20, region.shape)).astype(dtype)
    return inner if region.covers(shape) else Box(shape, region, inner)


def _support(x: Any) -> Region | None:
    at = np.argwhere(x)
    return Region(tuple(at.min(0).tolist()), tuple((at.max(0) + 1).tolist())) if len(at) else None


def _slices_of(x: Any) -> Any:
    region = _support(x)
    return (slice(0),) if region is None else region.slices


def _check(found: Any, wanted: Any, note: Any, selects: bool = False) -> None:
    """The value, in the smallest layout of boxes that holds it, and a selection only where that is asked."""
    layout_of(found).check(found)
    assert selects or type(found) is not Bracket, note
    assert found.shape == wanted.shape, note
    assert found.dtype == wanted.dtype, note
    assert np.array_equal(to_strided(found), wanted), note
    region = _support(wanted)
    if region is None:
        assert type(found) is Zero, note
    elif region.covers(wanted.shape):
        assert type(found) is not Box, note
    else:
        box = found.values if type(found) is Bracket else found
        assert type(box) is Box, note
        assert box.region == region, note


I, J = np.array([2, 0, 0]), np.array([1, 3, 2])
MOVES: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("permute_dims", (2, 3, 2), (), {"axes": (2, 0, 1)}),
    ("expand_dims", SHAPE, (), {"axis": (0,)}),
    ("expand_dims", SHAPE, (), {"axis": (1, 3)}),
    ("squeeze", (1, 3, 1), (), {"axis": (0,)}),
    ("squeeze", (1, 3, 1), (), {"axis": (0, 2)}),
    ("broadcast_to", (3, 1), (), {"shape": (2, 3, 4)}),
    ("broadcast_to", (1, 4), (), {"shape": (1, 4)}),
    ("broadcast_to", (1,), (), {"shape": (2, 3)}),
    ("sum", SHAPE, (), {"axis": (0,), "keepdims": False}),
    ("sum", SHAPE, (), {"axis": (1,), "keepdims": True}),
    ("sum", SHAPE, (), {"axis": (0, 1), "keepdims": False}),
    ("flip", SHAPE, (), {"axis": (0,)}),
    ("flip", SHAPE, (), {"axis": (0, 1)}),
    ("roll", SHAPE, (), {"axis": (1,), "shift": (1,)}),
    ("roll", SHAPE, (), {"axis": (0, 1), "shift": (-1, 2)}),
    ("roll", SHAPE, (), {"axis": (0, 1), "shift": (3, 5)}),
    *(("tril", SHAPE, (), {"k": k}) for k in (-3, -1, 0, 2)),
    *(("triu", SHAPE, (), {"k": k}) for k in (-2, 0, 1, 3, 4)),
    ("tril", (2, 2, 3), (), {"k": -1}),
    ("triu", (2, 3, 2), (), {"k": 1}),
    *(("diagonal", SHAPE, (), {"offset": k}) for k in (-2, -1, 0, 1, 3)),
    ("diagonal", (2, 2, 2), (), {"offset": 1}),
    ("diag_embed", SHAPE, (), {"offset": 0, "shape": (3, 4, 4)}),
    ("diag_embed", (3,), (), {"offset": 1, "shape": (3, 4)}),
    ("diag_embed", (3,), (), {"offset": -2, "shape": (5, 3)}),
    ("index_basic", SHAPE, (), {"key": _slices((1, 3, 1), (0, 4, 2))}),
    ("index_basic", SHAPE, (), {"key": _slices(1, None, (3, None, -1))}),
    ("embed", (2, 2), (), {"key": _slices((1, 3, 1), (0, 4, 2)), "shape": SHAPE}),
    ("embed", (4,), (), {"key": _slices(1, (3, None, -1)), "shape": SHAPE}),
    *(
        ("reshape", old, (), {"shape": new})
        for old, new in (
            (SHAPE, (12,)), (SHAPE, (4, 3)), (SHAPE, (3, 2, 2)), (SHAPE, (2, 6)), (SHAPE, (3, 1, 4)),
            (SHAPE, (1, 3, 4, 1)), ((12,), SHAPE), ((2, 2, 3), SHAPE), ((2, 2, 3), (2, 6)), ((1,), ()),
            ((1, 1), (1,)), ((2, 3, 1), (1, 6)),
        )
    ),
    ("gather", SHAPE, (I, J), {"axes": (0, 1)}),
    ("gather", SHAPE, (I,), {"axes": (0,)}),
    ("gather", SHAPE, (J,), {"axes": (1,)}),
    ("gather", (2, 3, 2), (np.array([1, 1]), np.array([[0], [1]])), {"axes": (0, 2)}),
    ("scatter_add", (3,), (I, J), {"axes": (0, 1), "shape": SHAPE}),
    ("scatter_add", (3, 2), (J,), {"axes": (0,), "shape": (5, 2)}),
    ("scatter_add", (3, 2), (J,), {"axes": (1,), "shape": (2, 4)}),
    ("scatter_add", (2, 3), (np.array([[0], [2]]), J), {"axes": (0, 1), "shape": SHAPE}),
]  # fmt: skip


@pytest.mark.parametrize("call", MOVES, ids=lambda c: f"{c[0]} {c[3]}")
def test_moves_of_every_box(call: Any) -> None:
    name, shape, others, params = call
    op = TABLE[name]
    for region in _every_box(shape):
        x = _box(region, shape)
        if not isinstance(x, Box):
            continue
        dense = op.forward(to_strided(x), *others, **params)
        wanted = np.asarray(dense) if isinstance(dense, np.ndarray | np.generic) else to_strided(dense)
        found = run_in_layouts(op, (x, *others), params)
        assert found is not NotImplemented
        _check(found, wanted, region, selects=name in ("gather", "reshape", "roll"))
        if name == "gather":  # indices may leave out some of what is in between
            held_part = type(found) is Bracket
            assert held_part is bool((wanted[_slices_of(wanted)] == 0).any())
            if held_part:
                assert np.array_equal(to_strided(held(found)), wanted != 0)
        known = op.entry_map.image(region, shape, others, params)
        assert (_support(wanted) is None) is (known is None or not known.size)
        if _support(wanted) is not None:
            assert known == _support(wanted)
    empty = Box(shape, Region((0,) * len(shape), (0,) * len(shape)), np.ones((0,) * len(shape)))
    found = run_in_layouts(op, (empty, *others), params)
    assert type(found) is Zero
    assert found.shape == np.shape(op.forward(np.ones(shape), *others, **params))


REGIONS = [Region((0, 1), (2, 3)), Region((1, 0), (3, 4)), Region((2, 3), (3, 4)), Region((0, 0), (3, 4))]
EMPTY = Box(SHAPE, Region((1, 2), (1, 4)), np.ones((0, 2)))


def _operands() -> dict[str, list[Any]]:
    """What an operand of `SHAPE`, or one that is broadcast to it, can be."""
    of_rows = [Region((1, 0), (3, 1)), Region((0, 0), (1, 1))]
    return {
        "boxes": [_box(r) for r in REGIONS],
        "zero": [Zero(SHAPE, np.dtype("float64")), Zero((), np.dtype("float64"))],
        "column": [_box(r, (3, 1)) for r in of_rows],
        "row": [_box(Region((1,), (3,)), (4,)), _box(Region((0, 3), (1, 4)), (1, 4))],
        "lifted": [_box(Region((0, 1, 1), (1, 2, 3)), (2, *SHAPE))],
        "numbers": [2.5, np.array(1.5)],
    }


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "hypot"])
@pytest.mark.parametrize("kind", _operands())
def test_elementwise(name: str, kind: str) -> None:
    op = TABLE[name]
    for region in REGIONS[:3]:
        x = _box(region)
        for other in _operands()[kind]:
            for values in ((x, other), (other, x)):
                plain = [v if isinstance(v, float) else to_strided(v) for v in values]
                with np.errstate(all="ignore"):
                    wanted = np.asarray(op.forward(*plain))
                    found = run_in_layouts(op, values, {})
                if name == "divide":
                    wanted = np.where(plain[0] == 0, 0, wanted)  # 0 / 0, which is not computed
                if found is NotImplemented:
                    assert _support(wanted) == Region.full(wanted.shape)
                else:
                    _check(found, wanted, (values, found))


@pytest.mark.parametrize("dtypes", ["dd", "fd", "df", "Df"])
def test_sums_take_the_hull_of_boxes_and_write_into_none(dtypes: str) -> None:
    first, second = dtypes
    boxes = [_box(r, dtype=first) for r in REGIONS[:3]]
    array, other = (R.integers(1, 99, SHAPE).astype(second) for _ in range(2))
    zero = Zero(SHAPE, np.dtype(second))
    for count, values in (
        (2, (boxes[0], boxes[2])),
        (2, (boxes[0], boxes[1])),
        (2, (boxes[2], zero)),
        (2, (EMPTY, boxes[2])),
        (2, (EMPTY, zero)),
        (1, (boxes[0],)),
        (2, (boxes[1], array)),
        (2, (array, EMPTY)),
        (3, (boxes[0], zero, boxes[2])),
        (4, (array, boxes[0], other, boxes[1])),
        (5, (boxes[0], boxes[1], zero, boxes[2], EMPTY)),
    ):
        before = [to_strided(v).copy() for v in values]
        for name in ("add", "add_n") if count == 2 else ("add_n",):
            op = TABLE[name]
            wanted = np.asarray(op.forward(*before))
            _check(run_in_layouts(op, values, {}), wanted, values)
        for value, old in zip(values, before, strict=True):
            assert np.array_equal(to_strided(value), old)


def test_joined_boxes_are_the_smallest() -> None:
    of_lists = [
        [_box(REGIONS[0]), EMPTY],
        [_box(REGIONS[0]), Zero(SHAPE, np.dtype("float64")), _box(REGIONS[2])],
        [Zero(SHAPE, np.dtype("float64")), _box(REGIONS[1], dtype="float32")],
        [Zero(SHAPE, np.dtype("float64")), EMPTY],
        [_box(REGIONS[3]), Zero(SHAPE, np.dtype("float64"))],
        [_box(REGIONS[0]), _box(REGIONS[3]), EMPTY],
        [_box(REGIONS[1]), _box(REGIONS[1]), _box(REGIONS[0])],
    ]
    for values in of_lists:
        plain = [to_strided(v) for v in values]
        for axis in range(3):
            params: dict[str, Any] = {"axis": axis}
            wanted = np.stack(plain, axis)
            _check(run_in_layouts(TABLE["stack"], tuple(values), params), wanted, (values, axis))
        for axis in range(2):
            offsets = tuple(SHAPE[axis] * k for k in range(len(values)))
            params = {"axis": axis, "offsets": offsets}
            wanted = np.concatenate(plain, axis)
            _check(run_in_layouts(TABLE["concat"], tuple(values), params), wanted, (values, axis))
    without = np.ones((0, 4))
    for parts, offsets in (((without, _box(REGIONS[0])), (0, 0)), ((_box(REGIONS[0]), without), (0, 3))):
        wanted = np.concatenate([to_strided(v) for v in parts])
        _check(run_in_layouts(TABLE["concat"], parts, {"axis": 0, "offsets": offsets}), wanted, parts)
    scalar, zero = np.array(2.0), Zero((), np.dtype("float64"))
    for parts in ((scalar, zero), (zero, zero), (zero, scalar, zero)):
        wanted = np.stack([to_strided(v) for v in parts])
        _check(run_in_layouts(TABLE["stack"], parts, {"axis": 0}), wanted, parts)


def test_any_two_boxes_are_added_and_put_beside_each_other() -> None:
    """Whether or not one follows the other along an axis, and ends with it on the others."""
    shape = (2, 3)
    for p, q in itertools.product(_every_box(shape), repeat=2):
        a, b = _box(p, shape), _box(q, shape)
        dense = to_strided(a), to_strided(b)
        for values, arrays in (((a, b), dense), ((b, a, b), (*dense, dense[1]))):
            _check(bind(TABLE["add_n"], values, {})._value, sum(arrays), (p, q))
        for axis, n in enumerate(shape):
            found = bind(TABLE["concat"], (a, b), {"axis": axis, "offsets": (0, n)})._value
            _check(found, np.concatenate(dense, axis), (p, q))
    third = _box(Region((1, 2), (2, 3)), shape)
    for p, q in itertools.product(_every_box(shape), repeat=2):
        values = _box(p, shape), _box(q, shape), third
        _check(bind(TABLE["add_n"], values, {})._value, sum(map(to_strided, values)), (p, q))


@pytest.mark.parametrize("lead", [((), ()), ((2,), (2,)), ((2, 1), (3,)), ((), (2,))])
def test_products_are_of_what_both_hold(lead: Any) -> None:
    shapes = (*lead[0], 3, 4), (*lead[1], 4, 2)
    drawn = [R.permutation(list(_every_box(s)))[:10] for s in shapes]
    both = [[Region(tuple(map(int, a)), tuple(map(int, b))) for a, b in found] for found in drawn]
    op = TABLE["matmul"]
    for p, q in itertools.product(*both):
        a, b = _box(p, shapes[0]), _box(q, shapes[1])
        if not isinstance(a, Box) and not isinstance(b, Box):
            continue
        wanted = to_strided(a) @ to_strided(b)
        with work.counting() as done:
            found = bind(op, (a, b), {})._value
        _check(found, wanted, (p, q))
        inner = min(p.stop[-1], q.stop[-2]) - max(p.start[-1], q.start[-2])
        for rows, between, columns in done.product_shapes:
            assert (rows, between, columns) == (p.shape[-2], inner, q.shape[-1])
        assert bool(done.product_shapes) is bool(wanted.any())
        asked = Region(*map(tuple, R.permutation(list(_every_box(wanted.shape)))[0].tolist()))
        region, of_a, of_b = factors(p, q, shapes, wanted.shape, asked)
        there = np.zeros_like(wanted)
        if region.size and of_a.size:
            assert asked.intersect(region) == region
            there[region.slices] = to_strided(a)[of_a.slices] @ to_strided(b)[of_b.slices]
        np.testing.assert_array_equal(there[asked.slices], wanted[asked.slices])
    zero = Zero(shapes[1], np.dtype("float32"))
    found = run_in_layouts(op, (_box(both[0][0], shapes[0]), zero), {})
    _check(found, op.forward(np.zeros(shapes[0]), np.zeros(shapes[1])), "zero")


def test_a_region_of_every_operand() -> None:
    dense = R.uniform(1, 2, SHAPE) * (R.random(SHAPE) < 0.5)
    batch = R.uniform(1, 2, (3, 4, 2)) * (R.random((3, 4, 1)) < 0.5)
    lines = R.uniform(1, 2, (3, 1)) * np.array([[0], [1], [1]])
    values = [
        dense,
        _box(REGIONS[0]),
        EMPTY,
        Zero(SHAPE, np.dtype("float32")),
        lines,
        dense[1],
        np.array(3.0),
    ]
    values += [from_strided(dense, name) for name in ("coo", "csr", "csc")]
    values += [from_strided(lines, "csr"), from_strided(dense, "bsr", (1, 2))]
    for value in values:
        for region in _every_box(SHAPE):
            found = ARRAYS.plain(read(ARRAYS, value, region))
            assert found.dtype == value.dtype
            wanted = np.broadcast_to(to_strided(value), SHAPE)[region.slices]
            assert np.array_equal(np.broadcast_to(found, region.shape), wanted)
    assert read(ARRAYS, 2, REGIONS[0]) == 2
    for trailing in (from_strided(batch, "coo", sparse_axes=2), from_strided(batch, "csr", sparse_axes=2)):
        for region in _every_box(batch.shape):
            assert np.array_equal(read(ARRAYS, trailing, region), batch[region.slices])


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
def test_boxes_beside_other_layouts() -> None:
    x, array = _box(REGIONS[0]), R.uniform(1, 2, SHAPE)
    mask = R.random(SHAPE) < 0.5
    square = Box((4, 4), Region((0, 0), (2, 2)), np.ones((2, 2)))
    sparse = from_strided(array * mask, "csr")
    chosen = Box(SHAPE, x.region, R.random(x.region.shape) < 0.5)
    zero = Zero(SHAPE, x.dtype)
    part = Region((1,), (3,))
    line = Bracket(Box((4,), part, np.array([2.0, 3.0])), Box((4,), part, np.array([True, False])))
    picked = run(TABLE["bracket"], (R.random(SHAPE) < 0.5, sparse), {"negated": False})
    for other in (Bracket(array, mask), Packed(mask, array[mask]), sparse, Bracket(x, chosen), picked):
        for name, operands, params in (
            ("multiply", (x, other), {}),
            ("multiply", (Bracket(x, chosen), other), {}),
            ("multiply", (line, other), {}),
            ("multiply", (other, 2.5), {}),
            ("add", (x, other), {}),
            ("subtract", (Bracket(x, chosen), other), {}),
            ("add_n", (x, other), {}),
            ("add_n", (Bracket(x, chosen), other, zero), {}),
            ("add_n", (Bracket(x, chosen), x, zero, other), {}),
            ("stack", (x, other), {"axis": 0}),
            ("concat", (x, other), {"axis": 0, "offsets": (0, 3)}),
            ("matmul", (other, square), {}),
        ):
            found = to_strided(run(TABLE[name], operands, params))
            plain = [v if isinstance(v, float) else to_strided(v) for v in operands]
            wanted = to_strided(TABLE[name].forward(*plain, **params))
            np.testing.assert_allclose(found, wanted, rtol=1e-15, err_msg=name)
    scaled = run(TABLE["multiply"], (2.5, Bracket(x, chosen)), {})
    assert scaled.values.region == x.region
    elementwise = RULES["elementwise"]
    assert elementwise(ARRAYS, TABLE["add"], (x, array), {}) is NotImplemented
    _check(elementwise(ARRAYS, TABLE["add"], (x, Zero(SHAPE, x.dtype)), {}), to_strided(x), "zero")
    found = elementwise(ARRAYS, TABLE["multiply"], (x, sparse), {})
    assert found.region == x.region
    assert np.array_equal(to_strided(found), to_strided(x) * array * mask)
    at = Box((3,), Region((0,), (2,)), np.array([1, 2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in ((x, at), (array, at), (x, I)):
            found = to_strided(run(TABLE["gather"], values, {"axes": (0,)}))
            np.testing.assert_array_equal(found, to_strided(values[0])[to_strided(values[1])])


def test_a_box_that_only_moves_is_not_copied() -> None:
    x, zero = _box(REGIONS[1]), Zero(SHAPE, np.dtype("float64"))
    for name, values, params in (
        ("stack", (zero, x), {"axis": 1}),
        ("concat", (x, zero), {"axis": 0, "offsets": (0, 3)}),
        ("reshape", (x,), {"shape": (3, 2, 2)}),
        ("reshape", (x,), {"shape": (12,)}),
        ("permute_dims", (x,), {"axes": (1, 0)}),
        ("flip", (x,), {"axis": (0,)}),
    ):
        assert np.shares_memory(run_in_layouts(TABLE[name], values, params).inner, x.inner), name


@pytest.mark.parametrize(
    ("region", "shape", "starts", "length"),
    [
        (Region((), ()), (), [0], 1),
        (Region((1,), (3,)), (4,), [1], 2),
        (Region((0,), (4,)), (4,), [0], 4),
        (Region((1, 0), (3, 4)), (3, 4), [4], 8),
        (Region((0, 1), (2, 4)), (3, 4), [1, 5], 3),
        (Region((0, 1), (3, 4)), (3, 4), [1, 5, 9], 3),
        (Region((1, 0), (2, 3)), (3, 4), [4], 3),
        (Region((0, 0), (3, 4)), (3, 4), [0], 12),
        (Region((0, 1, 0), (2, 2, 2)), (2, 3, 2), [2, 8], 2),
        (Region((0, 0, 1), (2, 3, 2)), (2, 3, 2), [1, 3, 5, 7, 9, 11], 1),
        (Region((1, 0, 0), (2, 3, 2)), (2, 3, 2), [6], 6),
    ],
)
def test_runs_of_a_region(region: Region, shape: Any, starts: list[int], length: int) -> None:
    found = region_images._runs(region, shape)
    assert (found[0].tolist(), found[1]) == (starts, length)


@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        ((), (), [(0, 0)]),
        ((1,), (), [(1, 0)]),
        ((3, 4), (12,), [(2, 1)]),
        ((3, 4), (3, 4), [(1, 1), (2, 2)]),
        ((3, 4), (3, 2, 2), [(1, 1), (2, 3)]),
        ((3, 4), (1, 3, 4), [(1, 2), (2, 3)]),
        ((3, 4, 1), (3, 4), [(1, 1), (3, 2)]),
        ((3, 4), (3, 4, 1), [(1, 1), (2, 3)]),
        ((2, 3, 2), (6, 2), [(2, 1), (3, 2)]),
        ((2, 1, 3), (2, 3), [(1, 1), (3, 2)]),
        ((1, 2, 3), (2, 1, 1, 3), [(2, 1), (3, 4)]),
        ((4, 6, 5), (2, 2, 30), [(1, 2), (3, 3)]),
        ((2, 4), (4, 2), [(2, 2)]),
        ((1, 1), (1,), [(2, 1)]),
    ],
)
def test_axes_that_hold_the_same_entries(old: Any, new: Any, ends: Any) -> None:
    found = region_images.groups(old, new)
    starts = [(0, 0), *ends[:-1]]
    assert found == [(range(a, c), range(b, d)) for (a, b), (c, d) in zip(starts, ends, strict=True)]
