"""The rules of partial values say the same in eager code and in graphs.

Each rule of the table runs on the samples of its ops, whose operands are boxes, selections, both, neither or
zero by turns: once on arrays, once on values of a graph, which is then interpreted. The results are equal,
and so is what they hold. The oracle of values is the op on dense arrays, in which what is left out is 0.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest

from iverson.core.aval import Aval
from iverson.core.dispatch import make_handle
from iverson.core.entries import FULL, NOTHING, Entries, hull, plain
from iverson.core.entries import Box as BoxOf
from iverson.core.op import Op, Sample
from iverson.core.region import Region
from iverson.graph.ir.entry_ops import stored_samples
from iverson.graph.ir.interpret import interpret
from iverson.graph.passes.graph_namespace import GRAPHS
from iverson.graph.tracing.trace import trace_flat
from iverson.kernels.partial.array_namespace import ARRAYS
from iverson.kernels.partial.partial_products import sampled
from iverson.kernels.partial.partial_rules import RULES, rule_of
from iverson.kernels.partial.partial_values import everything, region_of
from iverson.layouts import Box, Bracket, Zero, to_strided
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, dtypes_of, samples_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ROUNDS = 60 if EXHAUSTIVE else 6
Random = np.random.Generator
#: Where graphs know less than eager code: which rows and columns of two selections meet.
MEETS = {"matmul"}
#: Which kernels of sparse layouts read at a pattern, in eager code.
AT_PATTERNS = {"values_at"}


class Operand:
    """An array, and how some of it is left out: the rest of its values are inf, nan or a number."""

    def __init__(self, rng: Random, x: Any) -> None:
        self.kind = str(rng.choice(["whole", "zero", "box", "bracket", "negated", "made", "both", "rows"]))
        shape = x.shape
        if not shape or not x.size or x.dtype.kind not in "fc":
            self.kind = "whole"
        corners = [sorted(int(k) for k in rng.choice(n + 1, 2, replace=False)) for n in shape if n]
        self.region = Region.full(shape)
        if self.kind in ("box", "both"):
            self.region = Region(*map(tuple, zip(*corners, strict=True)))
            if self.region.covers(shape):
                self.kind, self.region = "whole", Region.full(shape)
        self.shape, self.dtype = shape, x.dtype
        inner = x[self.region.slices]
        self.condition = np.asarray(rng.random(inner.shape) < 0.6)
        if self.kind == "rows":
            self.condition = np.broadcast_to(self.condition[..., :1], inner.shape).copy()
        if self.kind in ("whole", "box"):
            self.condition[...] = True
        self.negated = self.kind == "negated"
        spoiled = 0 if self.kind == "made" else rng.choice([np.inf, np.nan, 3.0])
        self.values = np.where(self.condition, inner, spoiled).astype(x.dtype) if inner.size else inner
        self.dense = np.zeros(shape, x.dtype)
        if self.kind != "zero":
            self.dense[self.region.slices] = np.where(self.condition, inner, 0)
        self.mask = np.zeros(shape)
        if self.kind != "zero":
            self.mask[self.region.slices] = self.condition

    @property
    def selects(self) -> bool:
        return self.kind not in ("whole", "zero", "box")

    @property
    def arrays(self) -> list[Any]:
        """What of it a graph reads."""
        return [] if self.kind == "zero" else [self.values, self.condition ^ self.negated]

    def made(self, given: list[Any], zero: Any) -> Any:
        """The value, of these arrays or values of a graph."""
        if self.kind == "zero":
            return zero(self.shape, self.dtype)
        values, condition = given
        if self.kind == "whole":
            return values
        if self.kind == "box":
            return Box(self.shape, self.region, values)
        if self.kind == "both":
            values, condition = (Box(self.shape, self.region, v) for v in (values, condition))
        return Bracket(values, condition, self.negated, is_made=self.kind == "made")


def drawn(rng: Random, op: Op, sample: Sample) -> list[Any] | None:
    """Operands for the arrays in which an op is linear, or entry by entry; None where all are whole."""
    linear = {k for group in op.groups(len(sample.args)) for k in group}
    some = [isinstance(x, np.ndarray) and (op.elementwise or k in linear) for k, x in enumerate(sample.args)]
    operands = [Operand(rng, x) if use else x for x, use in zip(sample.args, some, strict=True)]
    kinds = [x.kind if isinstance(x, Operand) else "whole" for x in operands]
    if {"whole"}.issuperset(kinds):
        return None
    if any(group and all(kinds[k] == "zero" for k in group) for group in op.groups(len(kinds))):
        return None  # of which the result is zero, which is known before
    return operands


def held(N: Any, x: Any) -> Any:
    x = everything(N, N.as_selection(x))
    if type(x) is Bracket:
        return N.everywhere(x)
    return N.zeros(x.shape, np.dtype(bool)) if N.is_zero(x) else N.true(x.shape)


def in_arrays(op: Op, operands: list[Any], params: Any) -> Any:
    values = [x.made(x.arrays, Zero) if isinstance(x, Operand) else x for x in operands]
    out = rule_of(op)(ARRAYS, op, values, params)
    return out if out is NotImplemented else (ARRAYS.plain(out), to_strided(held(ARRAYS, out)))


def in_a_graph(op: Op, operands: list[Any], params: Any, need: Entries = FULL) -> Any:
    """The result, what it holds, and the region that it is in, of all that is read of it."""
    arrays = [a for x in operands if isinstance(x, Operand) for a in x.arrays]

    def f(*handles: Any) -> Any:
        rest = iter(handles)
        values = [
            x.made([next(rest) for _ in x.arrays], GRAPHS.zero)
            if isinstance(x, Operand)
            else make_handle(x)
            if isinstance(x, np.ndarray)
            else x
            for x in operands
        ]
        out = rule_of(op)(GRAPHS, op, values, params, need)
        region.append(None if out is NotImplemented or GRAPHS.is_zero(out) else region_of(out))
        return ([] if out is NotImplemented else [GRAPHS.plain(out), held(GRAPHS, out)]), None

    region: list[Region | None] = []
    graph, captured, _ = trace_flat(f, [Aval(a.shape, a.dtype) for a in arrays], op.name)
    found = interpret(graph, [*map(make_handle, arrays), *captured])
    return [*(to_strided(h._value) for h in found), *region] if found else []


def check(op: Op, sample: Sample, rng: Random) -> bool:
    operands = drawn(rng, op, sample)
    if operands is None:
        return False
    note = f"{op.name} of {[getattr(x, 'kind', 'other') for x in operands]}"
    found, compiled = in_arrays(op, operands, sample.params), in_a_graph(op, operands, sample.params)
    selects = any(isinstance(x, Operand) and x.selects for x in operands)
    if found is NotImplemented or not compiled:
        assert not selects or op.name in ("unpack", "sampled_product"), note
        return False
    (values, there), (again, there_too, region) = found, compiled
    assert_within(op, operands, sample.params, region, note)
    assert_read(op, operands, sample.params, rng, values, note)
    np.testing.assert_allclose(again, values, rtol=1e-12, atol=1e-12, err_msg=note)
    assert again.dtype == values.dtype, note
    at_least = there_too | ~there if op.name in MEETS else there_too == there
    assert np.broadcast_to(at_least, values.shape).all(), note
    if selects and op.linear_in:
        assert_held(op, operands, sample.params, there, note)
    dense = [x.dense if isinstance(x, Operand) else x for x in operands]
    expected = op.forward(*dense, **sample.params)
    expected = np.asarray(expected) if isinstance(expected, np.generic) else to_strided(expected)
    left_out = ~np.broadcast_to(there, values.shape)
    assert not values[left_out].any(), note
    counts = np.isfinite(expected) | ~left_out  # 0 / 0 is left out where 0 is
    np.testing.assert_allclose(values[counts], expected[counts], rtol=1e-12, atol=1e-12, err_msg=note)
    return True


def assert_held(op: Op, operands: list[Any], params: Any, there: Any, note: str) -> None:
    """An entry is held where it has a term that is held: where the op, of ones for what is held, is not 0."""
    linear = {k for group in op.groups(len(operands)) for k in group}
    masks = [
        x
        if not isinstance(x, Operand)
        else (k + 1) * x.mask
        if k in linear
        else np.ones(x.shape)
        if x.dtype.kind in "fc"
        else x.dense
        for k, x in enumerate(operands)
    ]
    ones = op.forward(*masks, **params)
    expected = (np.asarray(ones) if isinstance(ones, np.generic) else to_strided(ones)) != 0
    assert (there | ~expected).all() if op.name in AT_LEAST else (there == expected).all(), note


#: Ops of which a rule leaves out less than it could: by values of other operands, or of boxes.
AT_LEAST = {"imag", "sampled_product", "where"}


def assert_within(op: Op, operands: list[Any], params: Any, region: Region | None, note: str) -> None:
    """Nothing is computed outside of where the record says that the result may be nonzero."""
    avals = [
        Aval(x.shape, x.dtype, NOTHING if x.kind == "zero" else plain(BoxOf(x.region), x.shape))
        if isinstance(x, Operand)
        else x
        for x in operands
    ]
    out = op.infer(*avals, **params)
    bound = hull(out.support, out.shape)
    assert region is None or region.intersect(bound) == region, note


#: Ops that read all of their operands whatever is read of their result.
WHOLE = {"bracket", "cumulative_sum", "overwritten", "pack", "sampled_product", "unpack"}


def assert_read(op: Op, operands: list[Any], params: Any, rng: Random, values: Any, note: str) -> None:
    """Of a result that is read in a region, these entries are right, and no others are computed."""
    if not values.ndim or not values.size or op.entry_map.moves or op.name in WHOLE:
        return
    corners = [sorted(int(k) for k in rng.choice(n + 1, 2, replace=False)) for n in values.shape]
    wanted = Region(*map(tuple, zip(*corners, strict=True)))
    compiled = in_a_graph(op, operands, params, BoxOf(wanted))
    if compiled:
        found, _, region = compiled
        np.testing.assert_allclose(found[wanted.slices], values[wanted.slices], rtol=1e-12, atol=1e-12)
        assert region is None or region.intersect(wanted) == region, note


def more_of(name: str) -> list[Sample]:
    """Samples that are no samples of the op's record: of three operands, one is no end."""
    if name != "stack":
        return []
    rng = np.random.default_rng(SEED)
    return [Sample(tuple(rng.normal(size=(3, 2, 2))), {"axis": 0})]


def names() -> list[str]:
    """Ops with a rule: by their names, and elementwise ones."""
    elementwise = sorted(op.name for op in TABLE.values() if op.family == "elementwise" and op.samples)
    own = [name for name in RULES if name in TABLE and name not in AT_PATTERNS]
    return [*own, *(elementwise if EXHAUSTIVE else elementwise[SEED % 7 :: 7])]


@pytest.mark.parametrize("name", ["add", "add_n", "concat", "multiply"])
@pytest.mark.parametrize("namespace", [ARRAYS, GRAPHS])
def test_zeros_give_zero(name: str, namespace: Any) -> None:
    """A walk that finds its operands to be zero need not have known before."""
    op, zero = TABLE[name], namespace.zero((2, 3), np.dtype("float64"))
    params = {"axis": 0, "offsets": (0, 2)} if name == "concat" else {}
    out = rule_of(op)(namespace, op, [zero, zero], params)
    assert namespace.is_zero(out)
    assert out.shape == ((4, 3) if name == "concat" else (2, 3))


@pytest.mark.parametrize("name", ["multiply", "matmul"])
def test_a_product_of_zero_with_a_selection_is_zero(name: str) -> None:
    op, zero = TABLE[name], Zero((3, 3), np.dtype("float64"))
    selection = Bracket(np.full((3, 3), np.nan), np.eye(3) > 1)
    for values in ((zero, selection), (selection, zero)):
        assert type(rule_of(op)(ARRAYS, op, values, {})) is Zero


@pytest.mark.parametrize("sides", [(True, False), (False, True), (True, True)])
def test_entries_of_a_product_at_index_arrays_are_held_where_anything_of_their_lines_is(
    sides: tuple[bool, bool],
) -> None:
    """As compiled graphs have them, in which patterns are index arrays."""
    rng, rows, columns = np.random.default_rng(0), np.array([0, 2, 1, 2]), np.array([3, 1, 0, 0])
    there = [rng.random(shape) < 0.4 for shape in ((3, 2), (2, 4))]
    arrays = [
        np.where(c | (not s), rng.uniform(1, 2, c.shape), np.nan) for c, s in zip(there, sides, strict=True)
    ]

    def f(a: Any, b: Any, p: Any, q: Any, rows: Any, columns: Any) -> Any:
        factors = [Bracket(x, c) if s else x for x, c, s in zip((a, b), (p, q), sides, strict=True)]
        out = sampled(GRAPHS, stored_samples, [*factors, rows, columns], {})
        return [GRAPHS.plain(out), held(GRAPHS, out)], None

    values = [*arrays, *there, rows, columns]
    graph, captured, _ = trace_flat(f, [Aval(a.shape, a.dtype) for a in values], "samples")
    found, where = (to_strided(h._value) for h in interpret(graph, [*map(make_handle, values), *captured]))
    a, b = map(np.nan_to_num, arrays)
    np.testing.assert_allclose(found, (a @ b)[rows, columns], rtol=1e-14)
    lines = there[0].any(1)[rows] | (not sides[0]), there[1].any(0)[columns] | (not sides[1])
    np.testing.assert_array_equal(where, lines[0] & lines[1])


@pytest.mark.parametrize("name", names())
def test_a_rule_says_the_same_of_arrays_and_of_graphs(name: str) -> None:
    op, compared = TABLE[name], 0
    for dtype in dtypes_of(op):
        for k, sample in enumerate((*samples_of(op, dtype), *more_of(name))):
            rng = np.random.default_rng(crc32(f"{name}{dtype}{k}{SEED}".encode()))
            compared += sum(check(op, sample, rng) for _ in range(ROUNDS))
    assert compared or op.elementwise, "no sample was compared"
