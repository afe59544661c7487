"""Random programs by seed, and what is held about each of them.

Indices are any arithmetic: held between bounds, divided, reduced, reversed, chosen, read from data and from
what other stages computed; extents include 0 and 1, and may be sizes that a call gives; guards are on
indices, on their digits and on data. A read is brought inside by a clamp, a remainder or a guard, or it
depends on data that may be wrong. Results are entries, scatters of every combine, scans (along one axis or
both, over bands, with another one in each step) and ragged reductions, which nest, of floats of all widths
and of complex numbers, by the library's combines and others.

Compiled code gives the interpreter's numbers, and an error where that has one; every array lies against a
page that may not be touched. The interpreter gives what definitions mean, entry by entry (`pointwise`). Code
for all sizes gives what the interpreter gives at these. Points visited are the terms that are not 0.
Gradients are the adjoints of tangents, and products with Hessians are symmetric.
`python -m tests.te.programs FIRST LAST` goes through a range of seeds.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np

from iverson import te
from iverson.codegen.launches import compiled_kernel as kernel
from iverson.codegen.launches import compiled_program
from iverson.codegen.runtime import workspaces
from iverson.core.dtypes import is_inexact
from iverson.core.errors import IndexingError
from iverson.expr.nodes import Expr
from iverson.te.elimination.nest_translation import compiles
from iverson.te.ir.expressions import Tensor, Var
from iverson.te.ir.half_rounding import in_single
from iverson.te.ir.interpret import run
from iverson.te.ir.verify import check
from iverson.te.lowering import lowered_program
from iverson.te.lowering.statement_lowering import lower
from tests.codegen.fenced import fenced

from .pointwise import Pointwise, Terms

F = te.F
#: What programs compute in, and how far compiled code may be from the interpreter: a few roundings.
DTYPES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-3, "float16": 3e-2, "bfloat16": 0.1}
#: Of these, those in which roundings decide nothing.
EXACT = ("float64", "complex128")
ROWS = 7  # where ragged rows start, and how many there are at most
SECOND = 4  # second derivatives are those of one program in so many
FAR = 4  # inputs have an infinite entry in one program of so many
DATA = 8  # how often an index read from data is wrong: once in so many


class Programs:
    """Draws programs over placeholders X, Y (floats) and at (integers)."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.chosen = random.Random(~seed)  # of conditions with choices: other draws do not depend on it
        self.n, self.m = self.one(0, 1, 2, 3, 5), self.one(0, 1, 3, 8, 17)
        half = "bfloat16" if seed % 2 and find_spec("ml_dtypes") else "float16"
        self.dtype = self.one(*["float64"] * 6, "complex128", "float32", half)
        self.ordered = self.dtype != "complex128"
        self.symbolic = self.one(False, False, True)
        self.shape = (te.var("n"), te.var("m")) if self.symbolic else (self.n, self.m)
        self.X = te.placeholder((self.one(1, 2, 4), self.one(1, 3, 9)), self.dtype, name="X")
        self.Y = te.placeholder((self.one(1, 5, 16),), self.dtype, name="Y")
        self.rows = te.placeholder((ROWS,), "int64", "rows")
        self.at = te.placeholder((4,), "int64", "at")
        self.floats: list[Tensor] = [self.X, self.Y]
        self.integers: list[Tensor] = [self.at]

    def one(self, *choices: Any) -> Any:
        return choices[self.r.randrange(len(choices))]

    def number(self, axes: list[Var], depth: int) -> Expr:
        """An integer expression, of any sign and size."""
        kind = self.one("axis", "axis", "sum", "held", "quotient", "choice", "data") if depth else "axis"
        v: Any = self.one(*axes)
        if kind == "axis":
            return self.one(1, 1, 2, -1) * v + self.one(0, 0, 1, -2)
        a = self.number(axes, depth - 1)
        if kind == "sum":
            return a + self.one(1, -1) * self.number(axes, depth - 1)
        if kind == "held":
            how = self.one(F.minimum, F.maximum)
            return how(a, self.one(self.number(axes, depth - 1), self.one(0, 2, 5)))
        if kind == "quotient":
            return self.one(a // self.one(2, 3), a % self.one(2, 3, 4))
        if kind == "choice":
            return te.select(self.condition(axes, 0), a, self.number(axes, depth - 1))
        source = self.one(*self.integers)
        return source[tuple(self.inside(axes, n, depth - 1) for n in source.shape)]

    def inside(self, axes: list[Var], n: Any, depth: int) -> Expr:
        """An index of an axis of extent n."""
        a = self.number(axes, depth)
        return self.one(te.clamp(a, 0, n - 1), te.clamp(a, 0, n - 1), a % n, F.abs(a) % n)

    def condition(self, axes: list[Var], depth: int) -> Expr:
        a, b = self.number(axes, depth), self.number(axes, 0)
        return self.one(a < b, a >= b, a == b, (a > b) | (b == 2), (a <= 3) & (b >= 1))

    def read(self, axes: list[Var]) -> Expr:
        source = self.one(*self.floats)
        how = self.one("inside", "inside", "guarded", "digits", "data")
        if how == "inside":
            return source[tuple(self.inside(axes, n, 2) for n in source.shape)]
        at = [self.number(axes, 2) for _ in source.shape]
        if how == "data":
            at = [self.at[te.clamp(a, 0, 3)] for a in at]
            if self.one(*[True] * DATA, False):
                at = [te.clamp(a, 0, n - 1) for a, n in zip(at, source.shape, strict=True)]
            return source[tuple(at)]
        fits = [(a >= 0) & (a < n) for a, n in zip(at, source.shape, strict=True)]
        if how == "digits":  # where a strided walk arrives
            by = self.one(2, 3)
            fits = [(a % by == 0) & (a >= 0) & (a < by * n) for a, n in zip(at, source.shape, strict=True)]
            at = [a // by for a in at]
        whole = fits[0]
        for f in fits[1:]:
            whole = whole & f
        return te.select(whole, source[tuple(at)], self.one(0.0, 0.5))

    def value(self, axes: list[Var], depth: int) -> Expr:
        kind = self.one("read", "read", "product", "guard", "sum", "data") if depth else "read"
        if kind == "read":
            return self.read(axes)
        a = self.value(axes, depth - 1)
        if kind == "product":
            return a * self.value(axes, depth - 1)
        if kind == "sum":
            return a + F.sin(self.value(axes, depth - 1))
        if kind == "guard":
            return te.select(self.condition(axes, 1), a, self.one(0.0, 0.25))
        return te.select(self.size(self.read(axes)) > 0.3, a, self.one(0.0, -9.0))

    def size(self, e: Expr) -> Expr:
        """A number that can be compared."""
        return e if self.ordered else F.abs(e)

    def entry(self, i: Var, j: Var) -> Expr:
        how = self.one("", "", "sum", "sum", *(("max", "min") if self.ordered else ()), "prod")
        if not how:
            return self.value([i, j], 2)
        low, n = self.one((0, 1), (0, 4), (1, 6))
        k = te.reduce_axis((low, self.one(low, n) if how == "sum" else n), "k")
        if self.one(*[False] * 4, True):
            total = self.fold([i, j, k], k)
        else:
            total = getattr(te, how)(self.value([i, j, k], 2), k)
        return te.select(self.condition([i, j], 1), total, 0.0) if self.one(True, False) else total

    def ragged(self, i: Var, j: Var, *rows: Expr) -> Expr:
        """A reduction between bounds that are data."""
        row = te.clamp(self.one(*(rows or (i, j, i + j))), 0, ROWS - 2)
        e = te.reduce_axis((self.rows[row], self.rows[row + 1]), "e")
        reduce = self.one(te.sum, te.sum, te.prod, *((te.max, te.min) if self.ordered else ()))
        return reduce(self.Y[e] * self.term([i, j, e], row, e), e)

    def term(self, axes: list[Var], row: Expr, e: Var) -> Expr:
        """A term of a ragged reduction: a value, or a reduction of its own for each of its points."""
        how = self.one("value", "value", "dense", "triangle", "ragged", "fold")
        if how == "value":
            return self.value(axes, 1)
        low = self.one(0, 1)
        bounds = {"ragged": (self.rows[row], self.rows[row + 1]), "triangle": (0, te.clamp(e, 0, 4))}
        k = te.reduce_axis(bounds.get(how, (low, low + self.one(0, 2, 3))), "k")
        if how == "fold" or (how == "ragged" and self.one(True, False)):
            return self.fold([*axes, k], k)
        reduce = self.one(
            te.sum, te.sum, te.prod, *((te.max, te.min) if self.ordered and how == "ragged" else ())
        )
        terms = self.value([*axes, k], 1)
        return reduce(terms * self.Y[k] if how == "ragged" else terms, k)

    def fold(self, axes: list[Var], k: Var) -> Expr:
        """A reduction of elements of one or two numbers."""
        value = self.value(axes, 1)
        how = self.one("product", "maps", "maps", *(("largest",) if self.ordered else ()))
        if how == "product":
            return te.reducer(lambda a, b: a * b, 1.0)(value, k)
        if how == "maps":
            maps = te.reducer(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (1.0, 0.0))
            return maps((value, self.value(axes, 1)), k)[self.one(0, 1)]

        def better(a: Any, b: Any) -> tuple[Any, Any]:
            return tuple(te.select(a[0] >= b[0], x, y) for x, y in zip(a, b, strict=True))

        return te.reducer(better, (-6e4, 0.0))((value, self.value(axes, 0)), k)[self.one(0, 1)]

    def scanned(self) -> Tensor:
        """A recurrence from either end: along the first axis or both, or with another one in its steps."""
        how = self.one("steps", "steps", "band", "table", "nested")
        reverse = self.one(False, True)
        back = -1 if reverse else 1
        last = self.shape[1] - 1

        def before(state: Any, t: Var, j: Var) -> Expr:
            if how == "table" and self.one(True, False):
                return state[t, j - back * self.one(1, 1, 2)]
            ago = t - back * self.one(1, 1, 2)
            if how == "band":
                k = te.reduce_axis(self.shape[1], "k")
                near = self.one(
                    self.chosen.choice(((k - j <= 1) & (j - k <= 1), F.abs(k - j) <= 1)), k <= j, k == j
                )
                return te.sum(te.select(near, state[ago, k] * self.size(self.read([j, k])), 0.0), k)
            if how == "table":
                return state[ago, self.one(j, j - back, j + back, last - j)]
            return state[ago, self.one(j, j, last - j)]

        def entry(state: Any, t: Var, j: Var) -> Expr:
            value = before(state, t, j)
            kept = self.one(value * 0.5, F.sin(value), te.select(j > 2, value, 0.0))
            rows = self.one(*[False] * 3, True)
            return kept + (self.ragged(t, j, t, j) if rows else self.value([t, j], 1))

        def step(state: Any) -> te.Compute:
            if how != "nested":
                return te.compute(self.shape, lambda t, j: entry(state, t, j), "R", dtype=self.dtype)
            other = self.one(False, True)
            ahead = -1 if other else 1

            def inside(inner: Any) -> te.Compute:
                return te.compute(
                    self.shape,
                    lambda t, j: F.sin(inner[t, j - ahead]) * 0.5 + entry(state, t, j),
                    "Q",
                    dtype=self.dtype,
                )

            inner = te.scan(self.shape, inside, "Q", init=0.5, dtype=self.dtype, reverse=other, axis=1)
            return te.compute(
                self.shape,
                lambda t, j: inner[t, self.one(j, last - j)] * 0.5 + before(state, t, j),
                "R",
                dtype=self.dtype,
            )

        return te.scan(
            self.shape,
            step,
            "R",
            init=self.one(0, 1),
            dtype=self.dtype,
            reverse=reverse,
            axis=(0, 1) if how == "table" else 0,
        )

    def scattered(self, combine: str) -> Tensor:
        """What points of a box add to entries, or write once."""
        n, m = self.one(0, 1, 5), self.one(1, 3, 8)
        r = n * m if combine == "assign" else self.one(1, 4, 9)
        if combine != "assign" and self.one(True, False):  # rows, or columns
            rows = self.one(True, False)
            return te.scatter(
                (r, m) if rows else (n, r),
                (n, m),
                lambda i, j: (
                    (self.inside([i], r, 2), j) if rows else (i, self.inside([i, j], r, 2)),
                    self.value([i, j], 2),
                ),
                "T",
                combine,
            )

        def point(i: Var, j: Var) -> tuple[Expr, Expr]:
            once = self.one(i * m + j, i * m + (m - 1 - j), (n - 1 - i) * m + j)
            return once if combine == "assign" else self.inside([i, j], r, 2), self.value([i, j], 2)

        return te.scatter((r,), (n, m), point, "T", combine)

    def result(self) -> tuple[Tensor, bool]:
        """What is computed, and whether it has derivatives."""
        how = self.one("entry", "entry", "entry", "ragged", "scan", "scatter")
        if how == "scatter":
            combine = self.one("sum", "prod", "assign", *(("max", "min") if self.ordered else ()))
            return self.scattered(combine), True
        if how == "scan":
            return self.scanned(), True
        made = te.compute(self.shape, self.entry if how == "entry" else self.ragged, "T")
        return made, is_inexact(made.dtype)

    def program(self) -> tuple[Tensor, bool]:
        if self.one(True, False):
            self.integers.append(te.compute((3,), lambda i: self.number([i], 2), "N"))
        if self.one(True, False):
            self.floats.append(te.compute((3, 6), self.entry, "S"))
        if self.one(True, False):
            self.floats.append(self.structured())
        return self.result()

    def structured(self) -> te.Compute:
        """A stage that is 0 outside of a band, a triangle or a few entries, stored or not."""
        source = self.one(*self.floats)

        def entry(i: Var, j: Var) -> Expr:
            read = source[tuple(te.clamp(v, 0, n - 1) for v, n in zip((i, j), source.shape, strict=False))]
            where = self.one(
                i == j, j <= i, (i - j <= 1) & (j - i <= 1), i == 2 * j, (i == j) | (j == 5), i % 2 == 1
            )
            others = (
                F.abs(i - j) <= 1,
                F.abs(i - j) == 2,
                F.maximum(i, j) <= 3,
                F.minimum(i, 5 - j) < 1,
                te.select(i < 3, j - i, i) >= 2,
            )
            return te.select(self.chosen.choice((where, self.chosen.choice(others))), read, 0.0)

        made = te.compute((6, 6), entry, "Z")
        lever = self.one(None, None, te.keep, te.recompute)
        return made if lever is None else lever(made)


def drawn(rng: np.random.Generator, p: te.Placeholder) -> Any:
    """Numbers for an input, of its dtype."""
    found = rng.uniform(-1, 1, p.shape)
    return (found + 1j * rng.uniform(-1, 1, p.shape) if p.dtype.kind == "c" else found).astype(p.dtype)


# --- fences -----------------------------------------------------------------------------------------


class _Fenced:
    """Stands for NumPy where compiled programs take memory."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.lay(np.full(shape, np.nan if is_inexact(np.dtype(dtype)) else 99, dtype))

    def lay(self, array: Any) -> Any:
        return fenced(array, at_end=self.r.random() < 0.7)


@contextmanager
def fences(r: random.Random) -> Iterator[_Fenced]:
    """All memory of compiled programs lies against pages that may not be touched, and holds nan."""
    pages = _Fenced(r)
    with (
        mock.patch.object(lowered_program, "np", pages),
        mock.patch.object(compiled_program, "np", pages),
        mock.patch.object(workspaces, "take", pages.empty),
        mock.patch.object(workspaces, "give_back"),
    ):
        yield pages


# --- what is held -----------------------------------------------------------------------------------


def hold(seed: int) -> str:
    """Make the program of a seed and hold all of it; in a word, what came of it."""
    made = Programs(seed)
    r = made.r
    output, differentiable = made.program()
    assert isinstance(output, te.Compute)
    rng = np.random.default_rng(seed)
    H = te.placeholder(output.shape, output.dtype, name="H")
    inputs = [made.X, made.Y]
    gradients = te.differentiate(output, inputs, H) if differentiable else ()
    program = te.program_of([output, *gradients])
    sizes = dict(zip(made.shape, (made.n, made.m), strict=True)) if program.sizes else {}
    values = sizes = {v: sizes[v] for v in program.sizes}
    bound = te.program_of(te.bind(program.outputs, sizes)) if sizes else program
    # An op has no code for all shapes then.
    if 0 in sizes.values() or not all(map(compiles, in_single(program).statements)):
        program, sizes = bound, {}
    feeds = {
        "rows": rng.integers(0, 1 + made.Y.shape[0], ROWS) - (rng.random(ROWS) < 0.02),
        "at": rng.integers(-1, 6, 4),
    }
    feed = [feeds[p.name] if p.name in feeds else drawn(rng, p) for p in bound.inputs]
    if seed % FAR == 1:  # beside a structural zero it does not matter, elsewhere it does
        for p, a in zip(bound.inputs, feed, strict=True):
            if p in inputs and a.size:
                a.reshape(-1)[rng.integers(a.size)] = np.inf
    eliminated = te.eliminate(program)
    check(eliminated)
    try:
        expected = run(bound, feed)
    except IndexingError:
        expected = None
    lowered = lower(eliminated)
    given = {p.name: a for p, a in zip(bound.inputs, feed, strict=True)}
    own = lowered.at(dict(zip(lowered.program.sizes, sizes.values(), strict=True))) if sizes else lowered
    try:
        with fences(r) as pages:
            found = own(*(pages.lay(given[p.name]) for p in program.inputs), threads=r.choice([None, 1, 2]))
    except IndexingError:
        assert expected is None, "an error that the interpreter does not have"
        return "refused"
    if expected is None:
        assert len(program.statements) > 1, "no error where the interpreter has one"
        return "unread"  # what is wrong is in a stage of which the others do not read that entry
    exact([bound.outputs[0]], given)
    if differentiable and seed % SECOND == 0:
        exact(bound.outputs[1:], given)
    near = DTYPES[made.dtype]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            a, b, rtol=near, atol=near * (1 + np.abs(b).max(initial=0, where=np.isfinite(b)))
        )
    if made.dtype in EXACT:
        with np.errstate(all="ignore"):  # what overflows does so in all three
            own_value = Pointwise(given, values).of(output)
        np.testing.assert_allclose(own_value, expected[0], rtol=near, atol=near)
    if differentiable and made.dtype in EXACT:
        _adjoints(seed, rng, output, inputs, given, expected[1:], values)
        if seed % SECOND == 0:
            _second(rng, inputs, list(gradients), given, values)
    return "symbolic" if sizes else "held"


def exact(tensors: Sequence[Tensor], given: dict[str, Any]) -> str:
    """Points visited are the terms that may be nonzero, of each statement of which that is a law (`Terms`).

    In a word, of how many: "all", "some" or "none". More choices of indices than elimination resolves
    (`iverson.te.ir.convex_pieces.MAX_PIECES`, `iverson.te.ir.supports.MOST_PIECES`) may leave out fewer.
    """
    terms = Terms(te.eliminate(te.program_of(tensors)), given)
    held = 0
    for visited, nonzero, is_bound, intricate in zip(
        terms.visited, terms.nonzero, terms.is_bound, terms.intricate, strict=True
    ):
        if is_bound and not (intricate and visited != nonzero):
            assert visited == nonzero, "points are visited whose terms are 0"
            held += 1
    return "none" if not held else "all" if held == len(terms.visited) else "some"


@np.errstate(invalid="ignore")  # where an input has an infinite entry, a sum may be nan
def _sums(pairs: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """Sum of the real products of pairs, and of their sizes."""
    terms = [(a.conj() * b).real for a, b in pairs]
    return sum(t.sum() for t in terms), sum(np.abs(t).sum() for t in terms)


def _adjoints(
    seed: int,
    rng: np.random.Generator,
    output: te.Compute,
    inputs: list[te.Placeholder],
    given: dict[str, Any],
    gradients: tuple[Any, ...],
    sizes: dict[Var, int],
) -> None:
    """The heads along the tangents are the gradients along the inputs' moves, as pairs of real numbers."""
    tangents = {x: te.placeholder(x.shape, x.dtype, f"{x.name}_t") for x in inputs}
    pushed = te.jvp(output, tangents)
    forward = te.program_of(te.bind([pushed], sizes) if sizes else [pushed])
    moves = {t.name: drawn(rng, t) for t in tangents.values()}
    (along,) = run(forward, [(given | moves)[p.name] for p in forward.inputs])
    pairs = [(given["H"], along)] if "H" in given else []
    pairs += [(-g, moves[f"{x.name}_t"]) for x, g in zip(inputs, gradients, strict=True)]
    total, size = _sums(pairs)
    if np.isfinite(size):
        assert abs(total) <= 1e-9 * (1 + size), "gradients are not the adjoints of tangents"
        if output.dtype.kind == "f" and seed % 4 == 0:
            _symmetric(rng, output, inputs, given, moves, sizes)


def _symmetric(
    rng: np.random.Generator,
    output: te.Compute,
    inputs: list[te.Placeholder],
    given: dict[str, Any],
    moves: dict[str, Any],
    sizes: dict[Var, int],
) -> None:
    """Products with the Hessian along two moves of the inputs give the same number, from either side."""
    head = te.placeholder(output.shape, output.dtype, name="H")
    tangents = {x: te.placeholder(x.shape, x.dtype, f"{x.name}_t") for x in inputs}
    pushed = [te.jvp(g, tangents) for g in te.differentiate(output, inputs, head)]
    program = te.program_of(te.bind(pushed, sizes) if sizes else pushed)
    others = {t.name: drawn(rng, t) for t in tangents.values()}
    along, across = (
        run(te.eliminate(program), [(given | m)[p.name] for p in program.inputs]) for m in (moves, others)
    )
    pairs = [(product, others[f"{x.name}_t"]) for x, product in zip(inputs, along, strict=True)]
    pairs += [(-product, moves[f"{x.name}_t"]) for x, product in zip(inputs, across, strict=True)]
    total, size = _sums(pairs)
    if np.isfinite(size):
        assert abs(total) <= 1e-8 * (1 + size), "the Hessian is not symmetric"


def _second(
    rng: np.random.Generator,
    inputs: list[te.Placeholder],
    gradients: Sequence[Tensor],
    given: dict[str, Any],
    sizes: dict[Var, int],
) -> None:
    """Gradients of gradients are the adjoints of their tangents, as pairs of real numbers."""
    moves = {x: te.placeholder(x.shape, x.dtype, f"{x.name}_t") for x in inputs}
    heads = {x: te.placeholder(x.shape, x.dtype, f"{x.name}_h") for x in inputs}
    forward = [te.jvp(g, moves) for g in gradients]
    reverse = list(te.differentiate(list(gradients), inputs, head=list(heads.values())))
    outputs = [*forward, *reverse]
    program = te.program_of(te.bind(outputs, sizes) if sizes else outputs)
    values = {t.name: drawn(rng, t) for t in (*moves.values(), *heads.values())}
    results = run(program, [(given | values)[p.name] for p in program.inputs])
    compiled = lower(te.eliminate(program))(*[(given | values)[p.name] for p in program.inputs])
    for a, b in zip(compiled, results, strict=True):
        scale = np.abs(b).max(initial=0, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * (1 + scale))
    pairs = [(values[f"{x.name}_h"], r) for x, r in zip(inputs, results[: len(inputs)], strict=True)]
    pairs += [(-r, values[f"{x.name}_t"]) for x, r in zip(inputs, results[len(inputs) :], strict=True)]
    total, size = _sums(pairs)
    if np.isfinite(size):
        assert abs(total) <= 1e-8 * (1 + size), "second derivatives are not each other's adjoints"


def hold_all(seeds: range) -> None:
    """Hold each; an error says which seed it is of."""
    for seed in seeds:
        try:
            hold(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: python -m tests.te.programs {seed} {seed + 1}")
            raise
    kernel.forget()
    compiled_program.forget()


if __name__ == "__main__":
    for n in range(int(sys.argv[1]), int(sys.argv[2])):
        print(n, end=" ", flush=True)
        try:
            print(hold(n), flush=True)
        except Exception:
            print("FAILED", flush=True)
            traceback.print_exc()
