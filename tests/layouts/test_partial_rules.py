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
from iverson.core.op import Op, Sample
from iverson.core.region import Region
from iverson.graph.ir.interpret import interpret
from iverson.graph.passes.graph_namespace import GRAPHS
from iverson.graph.tracing.trace import trace_flat
from iverson.kernels.partial.array_namespace import ARRAYS
from iverson.kernels.partial.partial_rules import RULES, rule_of
from iverson.kernels.partial.partial_values import everything
from iverson.layouts import Box, Bracket, Zero, to_strided
from iverson.ops import TABLE
from tests.conformance.product import EXHAUSTIVE, SEED, dtypes_of, samples_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ROUNDS = 60 if EXHAUSTIVE else 6
Random = np.random.Generator
#: Where graphs know less than eager code: which rows and columns of two selections meet.
MEETS = {"matmul"}
#: Of which kernels of sparse layouts are the rule of arrays.
AT_PATTERNS = {"values_at", "sampled_product"}


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
        self.plain = x

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


def in_a_graph(op: Op, operands: list[Any], params: Any) -> Any:
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
        out = rule_of(op)(GRAPHS, op, values, params)
        return ([] if out is NotImplemented else [GRAPHS.plain(out), held(GRAPHS, out)]), None

    graph, captured, _ = trace_flat(f, [Aval(a.shape, a.dtype) for a in arrays], op.name)
    return [to_strided(h._value) for h in interpret(graph, [*map(make_handle, arrays), *captured])]


def check(op: Op, sample: Sample, rng: Random) -> bool:
    operands = drawn(rng, op, sample)
    if operands is None:
        return False
    note = f"{op.name} of {[getattr(x, 'kind', 'other') for x in operands]}"
    found, compiled = in_arrays(op, operands, sample.params), in_a_graph(op, operands, sample.params)
    if found is NotImplemented or not compiled:
        return False
    (values, there), (again, there_too) = found, compiled
    np.testing.assert_allclose(again, values, rtol=1e-12, atol=1e-12, err_msg=note)
    assert again.dtype == values.dtype, note
    at_least = there_too | ~there if op.name in MEETS else there_too == there
    assert np.broadcast_to(at_least, values.shape).all(), note
    dense = [x.dense if isinstance(x, Operand) else x for x in operands]
    expected = op.forward(*dense, **sample.params)
    expected = np.asarray(expected) if isinstance(expected, np.generic) else to_strided(expected)
    left_out = ~np.broadcast_to(there, values.shape)
    assert not values[left_out].any(), note
    counts = np.isfinite(expected) | ~left_out  # 0 / 0 is left out where 0 is
    np.testing.assert_allclose(values[counts], expected[counts], rtol=1e-12, atol=1e-12, err_msg=note)
    return True


def names() -> list[str]:
    """Ops with a rule: by their names, and elementwise ones."""
    elementwise = sorted(op.name for op in TABLE.values() if op.family == "elementwise" and op.samples)
    own = [name for name in RULES if name in TABLE and name not in AT_PATTERNS]
    return [*own, *(elementwise if EXHAUSTIVE else elementwise[SEED % 7 :: 7])]


@pytest.mark.parametrize("name", names())
def test_a_rule_says_the_same_of_arrays_and_of_graphs(name: str) -> None:
    op, compared = TABLE[name], 0
    for dtype in dtypes_of(op):
        for k, sample in enumerate(samples_of(op, dtype)):
            rng = np.random.default_rng(crc32(f"{name}{dtype}{k}{SEED}".encode()))
            compared += sum(check(op, sample, rng) for _ in range(ROUNDS))
    assert compared or op.elementwise, "no sample was compared"
