"""Each op on what the pass `entries` holds of its operands, and reads of its result.

Operands are boxes, selections, both or neither, zeros, of any two dtypes and of no extent; what is not
selected is nan. Results are those of dense arrays, the pass changes nothing the second time, and no more is
left than is written down, which ``IVERSON_UPDATE=1`` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.core.aval import aval_of
from iverson.core.dispatch import make_handle
from iverson.core.region import Region
from iverson.core.table import F
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import values_of
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.passes.demand_analysis import demands
from iverson.graph.passes.graph_namespace import GRAPHS
from iverson.graph.passes.support_and_demand import entries
from iverson.graph.tracing.trace import trace_flat
from iverson.kernels.partial.partial_values import part_of, placed
from iverson.layouts import Bracket, Zero
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns
from tests.graph.part_programs import key_of
from tests.graph.programs import entries as dense

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
COUNT = 2000 if EXHAUSTIVE else 24
Random = np.random.Generator
#: Of each op: how many equations are left in all, and how many entries those that compute read and make.
WORK = Path(__file__).with_name("entries.txt")
SIZES = {k: [int(n), int(m)] for k, n, m in map(str.split, WORK.read_text().splitlines())}


class Operand:
    """An array, and what a graph makes it of, which is held in some way.

    made : the handle, of the array that is given.
    """

    def __init__(self, rng: Random, shape: tuple[int, ...], dtype: Any) -> None:
        self.given = rng.uniform(0.5, 1.5, shape).astype(dtype)
        self.array = self.given.copy()
        self.dtype = np.dtype(dtype)
        how = [
            "whole",
            "box",
            "selected",
            "both",
            "box selected",
            "zero",
            "placed",
            "steps",
            "selected steps",
            "packed",
            "taken",
        ]
        self.how = how[rng.integers(len(how))]
        if not shape and self.how not in ("zero", "selected"):
            self.how = "whole"
        limits = [sorted(rng.integers(0, n + 1, 2).tolist()) for n in shape]
        if shape and rng.integers(2):  # next to an edge, or all
            limits[0][rng.integers(2)] = int(rng.integers(2)) * shape[0]
            limits[0].sort()
        self.key = tuple(
            slice(*(pair if rng.random() < 0.6 else (0, n)), 1) for pair, n in zip(limits, shape, strict=True)
        )
        within = self.given[self.key].shape if self.how == "both" else shape
        once = tuple(1 if rng.random() < 0.3 else n for n in within)
        self.there, self.negated = rng.random(once) < 0.6, bool(rng.integers(2))
        low = int(rng.integers(2)) * shape[0] if shape else 0  # perhaps nothing of what is there
        self.taken = rng.integers(low, shape[0] + 2, shape[0]) if shape else None
        self.steps = slice(int(rng.integers(2)), shape[0] if shape else 0, 2)
        self._fill(within)

    def _fill(self, within: tuple[int, ...]) -> None:
        """The array: zero and, where it is not selected, of what is given, nan."""
        x, shape = self.given, self.given.shape
        there = np.broadcast_to(self.there ^ self.negated, within)
        if self.how in ("box", "both", "box selected"):
            self.array = np.zeros_like(x)
            self.array[self.key] = x[self.key]
        if self.how == "both":
            part = self.array[self.key]
            part[~there] = 0
            _spoil(x[self.key], ~there)
        elif self.how in ("selected", "box selected", "selected steps"):
            self.array = np.where(there, self.array, 0).astype(self.dtype)
            _spoil(x, ~there)
        elif self.how == "zero":
            self.array = np.zeros_like(x)
        elif self.how == "taken":
            self.array = x[np.minimum(self.taken, shape[0] - 1)] * (self.taken < shape[0]).reshape(
                -1, *(1,) * (x.ndim - 1)
            )
        if self.how in ("placed", "steps", "selected steps"):
            kept = np.zeros(x.shape[:1], bool)
            kept[self.steps] = True
            self.array[~kept] = 0
        if self.how == "packed":
            self.array[~np.broadcast_to(self.there, x.shape)] = 0

    def made(self, x: Any) -> Any:
        shape, key = self.given.shape, self.key
        if self.how in ("box", "both", "box selected"):
            inner = x[key]
            if self.how == "both":
                there = np.broadcast_to(self.there, inner.shape)
                inner = F.bracket(there, inner, negated=self.negated)
            x = F.embed(inner, key=key, shape=shape)
        if self.how in ("selected", "box selected", "selected steps"):
            x = F.bracket(np.broadcast_to(self.there, shape), x, negated=self.negated)
        if self.how == "zero":
            return make_handle(Zero(shape, self.dtype))
        if self.how == "placed":
            at = (iv.arange(shape[0])[self.steps],)
            return F.scatter_add(x[self.steps], *at, axes=(0,), shape=shape, held=True)
        if self.how in ("steps", "selected steps"):
            key = (self.steps, *(slice(0, n, 1) for n in shape[1:]))
            return F.embed(x[self.steps], key=key, shape=shape, held=True)
        if (
            self.how == "taken"
        ):  # of a box, at places of which it is known in the pass that they are outside of it
            wider = F.embed(x, key=tuple(slice(0, n, 1) for n in shape), shape=(shape[0] + 2, *shape[1:]))
            return F.gather(wider, self.taken, axes=(0,))
        if self.how == "packed":
            mask = np.broadcast_to(self.there, shape)
            return F.unpack(F.pack(x, mask, count=int(mask.sum())), mask, count=int(mask.sum()))
        return x


def _spoil(x: Any, where: Any) -> None:
    if x.dtype.kind == "f":
        x[where] = np.nan


def _shapes(*shapes: tuple[int, ...]) -> Callable[[Random], Any]:
    """One of some shapes, which of each axis has now and then no extent."""

    def drawn(rng: Random) -> Any:
        nothing = [n for n in sorted({n for s in shapes for n in s}) if n > 1 and rng.random() < 0.06]
        return [tuple(0 if n in nothing else n for n in shape) for shape in shapes]

    return drawn


def _axis(rng: Random, shape: Any) -> int:
    return int(rng.integers(len(shape)))


def _axes(rng: Random, shape: Any) -> Any:
    chosen = tuple(k for k in range(len(shape)) if rng.integers(2))
    return (None, _axis(rng, shape), chosen or 0)[rng.integers(3)]


def _reshaped(rng: Random, x: Any) -> Any:
    n = int(np.prod(x.shape))
    shapes = [
        (n,),
        (1, *x.shape),
        (*x.shape, 1),
        (x.shape[0], *((2, x.shape[1] // 2) if x.shape[1:] else ())),
    ]
    return iv.reshape(x, shapes[rng.integers(4)] if n else (n,))


def _gathered(rng: Random, x: Any) -> Any:
    """At places that are known, computed, selected, or of several axes."""
    axis = _axis(rng, x.shape)
    n = x.shape[axis]
    at = rng.integers(0, max(n, 1), 3 if n else 0)
    kind = rng.integers(5)
    if kind == 0:
        other = rng.integers(0, max(x.shape[0], 1), 3 if x.shape[0] else 0)[: at.size]
        return F.gather(x, other, at[: other.size], axes=(0, axis)) if axis else F.gather(x, at, axes=(0,))
    if kind == 1:
        return F.gather(x, iv.argsort(iv.zeros(n) + 1.0 * np.arange(n)[::-1]), axes=(axis,))
    if kind == 2:
        return F.gather(x, F.bracket(at > 0, iv.asarray(at), negated=False), axes=(axis,))
    if kind == 3:
        return F.gather(x, at.reshape(-1, 1), axes=(axis,))
    return F.gather(x, at, axes=(axis,))


def _scattered(rng: Random, x: Any) -> Any:
    n = x.shape[0]
    at, shape = rng.integers(0, 4, n), (4, *x.shape[1:])
    kind = rng.integers(3)
    at = F.bracket(at > 0, iv.asarray(at), negated=False) if kind == 0 else iv.asarray(at)
    return F.scatter_add(x, at, axes=(0,), shape=shape, **({"held": True} if kind == 1 else {}))


def _joined(function: Any) -> Any:
    def join(rng: Random, *xs: Any) -> Any:
        chosen = [xs[k] for k in rng.integers(0, len(xs), rng.integers(1, 4))]
        return function(chosen, axis=int(rng.integers(chosen[0].ndim + (function is iv.stack))))

    return join


PLANE = _shapes((3, 4))
ALIKE = _shapes((3, 4), (3, 4), (3, 4))
#: A function of operands, and the shapes of these.
OPS: dict[str, tuple[Callable[..., Any], Callable[[Random], Any]]] = {
    "sin": (lambda rng, x: iv.sin(x), PLANE),
    "cos": (lambda rng, x: iv.cos(x), PLANE),
    "add": (lambda rng, x, y: iv.add(x, y), _shapes((3, 4), (3, 4))),
    "stretched": (lambda rng, x, y: (iv.add, iv.multiply)[rng.integers(2)](x, y), _shapes((3, 4), (4,))),
    "outer": (lambda rng, x, y: x * y, _shapes((3, 1), (1, 4))),
    "multiply": (lambda rng, x, y: x * y, _shapes((3, 4), (3, 4))),
    "number": (lambda rng, x, y: (x * 2.5, 1 - x, x / 2, y * x)[rng.integers(4)], _shapes((3, 4), ())),
    "divide": (lambda rng, x, y: x / (1 + y), _shapes((3, 4), (3, 4))),
    "maximum": (lambda rng, x, y: iv.maximum(x, y), _shapes((3, 4), (3, 4))),
    "where": (lambda rng, x, y, z: iv.where(z > 0.5, x, y), ALIKE),
    "one_term": (lambda rng, x: F.add_n(x), PLANE),
    "two_terms": (lambda rng, x, y: F.add_n(x, y), _shapes((3, 4), (3, 4))),
    "three_terms": (lambda rng, *xs: F.add_n(*xs), ALIKE),
    "matrices": (lambda rng, x, y: x @ y, _shapes((3, 4), (4, 2))),
    "vector": (lambda rng, x, y: (x @ y, y @ x.mT)[rng.integers(2)], _shapes((3, 4), (4,))),
    "batch": (lambda rng, x, y: x @ y, _shapes((5, 3, 4), (4, 2))),
    "batches": (lambda rng, x, y: x @ y, _shapes((1, 3, 4), (5, 4, 2))),
    "sum": (
        lambda rng, x: iv.sum(x, axis=_axes(rng, x.shape), keepdims=bool(rng.integers(2))),
        _shapes((3, 4, 2)),
    ),
    "max": (
        lambda rng, x: iv.max(iv.concat([x, x + 1], axis=1), axis=_axis(rng, x.shape)),
        lambda _: [(3, 4)],
    ),
    "sum_of_none": (lambda rng, x: iv.sum(x, axis=2), lambda _: [(3, 4, 0)]),
    "prod": (lambda rng, x: iv.prod(x, axis=_axes(rng, x.shape)), PLANE),
    "any": (lambda rng, x: iv.any(x > 0.7, axis=_axis(rng, x.shape), keepdims=bool(rng.integers(2))), PLANE),
    "softmax": (lambda rng, x: iv.softmax(x, axis=1), _shapes((3, 4, 2))),
    "cumulative": (
        lambda rng, x: (iv.cumulative_sum, iv.cumulative_prod)[rng.integers(2)](x, axis=_axis(rng, x.shape)),
        _shapes((3, 4, 2)),
    ),
    "sort": (lambda rng, x: iv.sort(x, axis=_axis(rng, x.shape)), PLANE),
    "permuted": (lambda rng, x: iv.permute_dims(x, (2, 0, 1)), _shapes((3, 4, 2))),
    "reshaped": (_reshaped, PLANE),
    "flip": (lambda rng, x: iv.flip(x, axis=_axis(rng, x.shape)), PLANE),
    "roll": (lambda rng, x: iv.roll(x, int(rng.integers(3)), axis=_axis(rng, x.shape)), PLANE),
    "broadcast": (lambda rng, x: iv.broadcast_to(x, (2, 3, x.shape[1])), _shapes((1, 4))),
    "selected": (
        lambda rng, c, x: F.bracket(c > 0.8, x, negated=bool(rng.integers(2))),
        lambda rng: [(3, 4), ((3, 4), (4,), (3, 1))[rng.integers(3)]],
    ),
    "recurrence": (
        lambda rng, x, y: F.linear_recurrence(x, y, axis=_axis(rng, x.shape), reverse=bool(rng.integers(2))),
        _shapes((3, 4), (3, 4)),
    ),
    "fourier": (lambda rng, x: iv.fft.irfft(iv.fft.rfft(x, axis=0), axis=0), lambda _: [(4, 3)]),
    "expanded": (lambda rng, x: iv.expand_dims(x, axis=int(rng.integers(3))), PLANE),
    "squeezed": (lambda rng, x: iv.squeeze(x, axis=1), _shapes((3, 1))),
    "tril": (lambda rng, x: iv.tril(x, k=int(rng.integers(-1, 2))), PLANE),
    "diagonal": (lambda rng, x: iv.linalg.diagonal(x, offset=int(rng.integers(2))), PLANE),
    "diagonals": (lambda rng, x: F.diag_embed(x, offset=0, shape=(*x.shape, x.shape[-1])), PLANE),
    "indexed": (lambda rng, x: x[key_of(rng, x.shape)], _shapes((3, 4))),
    "placed": (
        lambda rng, x: iv.pad(x, [tuple(rng.integers(0, 2, 2).tolist()) for _ in x.shape]),
        _shapes((3, 4)),
    ),
    "gathered": (_gathered, PLANE),
    "scattered": (_scattered, PLANE),
    "concat": (_joined(iv.concat), ALIKE),
    "stack": (_joined(iv.stack), ALIKE),
}  # fmt: skip

#: Of which zeros of operands are zeros of the result, or left out of it.
STRONG = {
    *(
        "sin",
        "multiply",
        "outer",
        "add",
        "stretched",
        "one_term",
        "two_terms",
        "three_terms",
        "sum",
        "permuted",
    ),
    *(
        "reshaped",
        "flip",
        "roll",
        "broadcast",
        "expanded",
        "squeezed",
        "tril",
        "diagonal",
        "diagonals",
        "indexed",
    ),
    *("gathered", "scattered", "concat", "stack", "selected"),
}


def drawn(name: str, seed: int) -> tuple[Callable[..., Any], list[Operand]]:
    """A function of handles that reads a part of what an op gives, and the operands."""
    function, shapes = OPS[name]
    rng = np.random.default_rng((seed, *name.encode()))
    mixed = rng.random() < 0.5
    operands = [
        Operand(rng, shape, np.float32 if mixed and rng.integers(2) else np.float64) for shape in shapes(rng)
    ]
    turn = int(rng.integers(1 << 30))

    def read(*xs: Any) -> Any:
        rng = np.random.default_rng(turn)
        out = function(rng, *xs)
        return out[key_of(rng, out.shape)] if rng.random() < 0.7 else out

    return read, operands


def text(graph: Any) -> str:
    """A graph without the numbers of its values: those of a branch are its own or those around it."""
    return re.sub(r"%\d+", "%", show(graph))


def compared(name: str, seed: int) -> tuple[int, int]:
    """Interpret what the pass makes of one function; how much is left of it, in equations and entries.

    Every other time the result is multiplied with inf where it is 0: zeros that are strong in eager code are.
    """
    f, operands = drawn(name, seed)
    expected = f(*(iv.asarray(x.array) for x in operands))
    given, entries_of = [iv.asarray(x.given) for x in operands], dense(expected)
    factor: Any = None
    if name in STRONG and seed % 2 and all(0 not in x.given.shape for x in operands):
        factor = np.where(entries_of == 0, np.inf, 2).astype(expected.dtype)

    def held(*xs: Any) -> Any:
        out = f(*(o.made(x) for o, x in zip(operands, xs, strict=True)))
        return out if factor is None else out * factor

    graph, captured, _ = trace_flat(lambda *xs: ([held(*xs)], None), list(map(aval_of, given)))
    made = check(entries(demands(check(graph))))
    assert text(entries(made)) == text(made)
    assert not any(e.params.get("held", e.op.name == "unpack") for e in made.equations)
    (found,) = interpret(made, [*given, *captured])
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    exact = 1e-12 if expected.dtype == np.float64 else 1e-5
    if factor is None:
        np.testing.assert_allclose(dense(found), entries_of, rtol=exact, atol=exact)
    else:
        there = np.isfinite(dense(held(*given)))
        np.testing.assert_allclose(dense(found)[there], 2 * entries_of[there], rtol=exact, atol=exact)
    computing = [e for e in made.equations if e.op.name not in ("index_basic", "embed")]
    held_by = (v.shape for e in computing for v in (*values_of(e.operands), *e.results))
    return len(made.equations), sum(prod(shape) for shape in held_by)


@pytest.mark.parametrize("name", by_turns(OPS, 3))
def test_an_op_computes_what_may_be_nonzero_and_is_read(name: str) -> None:
    size = np.zeros(2, int)
    for seed in range(SEED * COUNT, SEED * COUNT + COUNT):
        try:
            size += compared(name, seed)
        except Exception as error:
            told = [(x.how, x.given.shape, str(x.dtype)) for x in drawn(name, seed)[1]]
            error.add_note(f"{name} {seed}: {told}")
            raise
    if os.environ.get("IVERSON_UPDATE"):
        SIZES[name] = size.tolist()
        WORK.write_text("".join(f"{k} {n} {m}\n" for k, (n, m) in SIZES.items()))
    elif not EXHAUSTIVE and not SEED:
        assert (size <= SIZES[name]).all(), (size, SIZES[name])


@st.composite
def regions(draw: st.DrawFn, shape: tuple[int, ...]) -> Region:
    """A region of an array, of one entry or of none on some axes."""
    ends = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    return Region(tuple(a for a, _ in ends), tuple(b for _, b in ends))


@given(data=st.data(), shape=st.tuples(*[st.integers(1, 3)] * 3), selects=st.booleans())
def test_any_region_is_read_of_any_part(
    data: st.DataObject, shape: tuple[int, int, int], selects: bool
) -> None:
    own, wanted = data.draw(regions(shape)), data.draw(regions(shape))
    values = np.arange(1.0, 1 + prod(own.shape)).reshape(own.shape)
    there = values % 3 > 0 if selects else np.ones(own.shape, bool)
    inner = Bracket(iv.asarray(values), iv.asarray(there)) if selects else iv.asarray(values)
    expected = np.zeros(shape)
    expected[own.slices] = np.where(there, values, 0)
    found = GRAPHS.plain(part_of(GRAPHS, placed(GRAPHS, shape, own, inner), wanted))
    np.testing.assert_array_equal(dense(found), expected[wanted.slices])
