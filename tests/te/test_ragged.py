"""Ragged axes: drawn programs against loops in Python, known ones against SciPy, NumPy and torch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.errors import ArgumentError, ArgumentTypeError, IndexingError
from iverson.te.ir.interpret import Visits, run
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import lower
from tests.codegen.fenced import fenced
from tests.conformance.product import EXHAUSTIVE, examples, in_short, some, turn

from .oracles import check_derivatives

rng = np.random.default_rng(0)


# --- drawn programs, said once for expressions and for numbers -----------------------------------------


class Rows:
    """y[i, j] and z[e] made of entries x[e] and of a, over rows that begin at p[i].

    >>> # y[i, j] = 1 + sum(x[e] * a[c[e], j] for e in range(p[i], p[i + 1])); z[e] += x[e] * y[i, 0]
    """

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.one = lambda *options: draw(st.sampled_from(options))
        self.rows, self.entries, self.width = self.one(0, 1, 4), self.one(0, 1, 9), self.one(1, 3)
        self.columns = 3
        sizes = st.integers(0, self.entries)
        starts = [draw(sizes) for _ in range(self.rows + 1)]
        kind = self.one("sorted", "any", "empty")  # any: rows overlap, and end before they begin
        self.p = np.array(sorted(starts) if kind == "sorted" else starts, self.one("int32", "int64"))
        if kind == "empty":
            self.p[:] = self.entries
        self.c = np.array([draw(st.integers(0, 2)) for _ in range(self.entries)], self.one("int32", "int64"))
        self.how = self.one("sum", "sum", "max", "min")
        self.term = self.one("product", "gather", "inner", "guard", "within", "square")
        self.outer, self.ends = self.one(False, True), self.one("row", "row", "start", "twice")
        self.twice = self.one(False, True)

    def bounds(self, p: Any, i: Any, entries: Any) -> tuple[Any, Any]:
        if self.ends == "row":
            return p[i], p[i + 1]
        return (p[i], entries) if self.ends == "start" else (p[i], (p[i] + p[i + 1]) // 2)

    def value(self, F: Any, x: Any, a: Any, c: Any, i: Any, j: Any, e: Any) -> Any:
        if self.term == "product":
            return x[e] * a[c[e], j]
        if self.term == "gather":
            return F.sin(x[e]) * a[c[e], (j + i) % self.width] + x[e]
        if self.term == "inner":
            return x[e] * F.inner(lambda k: a[k, j] * a[c[e], j])
        if self.term == "guard":
            return F.select(c[e] > 0, x[e] * a[c[e] - 1, j], 0.5 * x[e])
        if self.term == "within":
            return F.select((e % 2 == 0) & (i > 0), x[e], 0.0 * x[e])
        return x[e] * x[e] * a[0, j]

    # as expressions

    def inputs(self, rows: Any, entries: Any) -> list[Any]:
        shapes = {"p": (rows + 1,), "c": (entries,), "x": (entries,), "a": (self.columns, self.width)}
        dtypes = {"p": self.p.dtype, "c": self.c.dtype}
        return [te.placeholder(s, dtypes.get(name, "float64"), name) for name, s in shapes.items()]

    def for_all_sizes(self, given_: Any) -> Any:
        """By the code for any number of rows and entries."""
        sizes = te.var("n"), te.var("m")
        inputs = self.inputs(*sizes)
        lowered = lower(te.eliminate(te.program_of(self.built(*inputs), inputs)))
        known = {"n": self.rows, "m": self.entries}
        return lowered.at({v: known[v.name] for v in lowered.program.sizes})(*map(fenced, given_))

    def built(self, p: Any, c: Any, x: Any, a: Any) -> list[Any]:
        (n,), (entries,), columns = p.shape, x.shape, self.columns
        rows = n - 1

        class F:
            sin, select = staticmethod(te.sin), staticmethod(te.select)

            @staticmethod
            def inner(body: Any) -> Any:
                k = te.reduce_axis(columns)
                return te.sum(body(k), k)

        def entry(i: Any, j: Any) -> Any:
            e = te.reduce_axis(self.bounds(p, i, entries))
            found = getattr(te, self.how)(self.value(F, x, a, c, i, j, e), e)
            if self.how != "sum":  # an extremum over none is infinite
                lo, hi = self.bounds(p, i, entries)
                found = te.select(lo < hi, found, 0.25)
            if self.twice:
                found = found * te.sum(x[e], e) + 1.0
            return te.select(i >= 1, found, 2.0 * a[0, j]) if self.outer else found

        y = te.compute((rows, self.width), entry, "y")
        domain = (rows, lambda i: self.bounds(p, i, entries))
        if self.term == "inner":  # of which there may be no more than one for each entry
            return [y, te.scatter((entries,), domain, lambda i, e: (e, x[e] * y[i, 0]), "z")]
        packed = te.scatter(
            (entries,), domain, lambda i, e: (e, self.value(F, x, a, c, i, 0, e) * y[i, 0]), "z"
        )
        return [y, packed]

    # as loops

    def computed(self, p: Any, c: Any, x: Any, a: Any) -> list[Any]:
        class F:
            sin, select = math.sin, staticmethod(lambda c, p, q: p if c else q)
            inner = staticmethod(lambda body: sum(body(k) for k in range(self.columns)))

        p = [int(n) for n in p]
        y, z = np.zeros((self.rows, self.width)), np.zeros(self.entries)
        for i in range(self.rows):
            row = range(*self.bounds(p, i, self.entries))
            for j in range(self.width):
                terms = [self.value(F, x, a, c, i, j, e) for e in row]
                if self.how == "sum":
                    found = sum(terms)
                else:
                    found = (max if self.how == "max" else min)(terms, default=0.25)
                if self.twice:
                    found = found * sum(x[e] for e in row) + 1.0
                y[i, j] = (found if i >= 1 else 2.0 * a[0, j]) if self.outer else found
            for e in row:
                z[e] += (x[e] if self.term == "inner" else self.value(F, x, a, c, i, 0, e)) * y[i, 0]
        return [y, z]


@given(st.data())
@settings(max_examples=examples(10), deadline=None)
def test_values_and_derivatives_of_drawn_programs(data: Any) -> None:
    case = Rows(data.draw)
    inputs = case.inputs(case.rows, case.entries)
    outputs = case.built(*inputs)
    _, _, x, a = inputs
    numbers = np.random.default_rng(case.entries)
    given_ = [case.p, case.c, numbers.standard_normal(x.shape), numbers.standard_normal(a.shape)]
    expected = case.computed(*given_)
    program = te.program_of(outputs, inputs)
    check(program)
    eliminated = te.eliminate(program)
    check(eliminated)
    if case.one(False, True):
        compiled = case.for_all_sizes(given_)
    else:
        compiled = lower(eliminated)(*map(fenced, given_))
    for found in (run(program, given_), run(eliminated, given_), compiled):
        for y, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)

    # a tangent by differences of the loops; the gradient, compiled, as its transpose
    heads = [te.placeholder(y.shape, name=f"h{k}") for k, y in enumerate(outputs)]
    tangents = [te.placeholder(t.shape, name=f"t_{t.name}") for t in (x, a)]
    pairs = dict(zip((x, a), tangents, strict=True))
    pushed = te.eliminate(te.program_of([te.jvp(y, pairs) for y in outputs], (*inputs, *tangents)))
    pulled = te.eliminate(te.program_of(te.differentiate(outputs, [x, a], heads), (*inputs, *heads)))
    check(pushed)
    check(pulled)
    dx = [np.cos(3 * v) for v in given_[2:]]
    g = [np.cos(5 * y) for y in expected]
    dy, gx = run(pushed, [*given_, *dx]), lower(pulled)(*map(fenced, [*given_, *g]))
    for one, other in zip(run(pulled, [*given_, *g]), gx, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    step = 1e-6
    moved = [[v + s * d for v, d in zip(given_[2:], dx, strict=True)] for s in (step, -step)]
    ends = [case.computed(case.p, case.c, *m) for m in moved]
    for y, plus, minus in zip(dy, *ends, strict=True):
        np.testing.assert_allclose(y, (plus - minus) / (2 * step), rtol=2e-6, atol=1e-6)
    ours = sum(float((u * v).sum()) for u, v in zip(gx, dx, strict=True))
    theirs = sum(float((u * v).sum()) for u, v in zip(g, dy, strict=True))
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-10)


# --- known kernels --------------------------------------------------------------------------------------


def spmm(p: Any, columns: Any, values: Any, b: Any) -> Any:
    """A sparse matrix, row by row, times a dense one."""

    def entry(i: Any, j: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]), "e")
        return te.sum(values[e] * b[columns[e], j], e)

    return te.compute((p.shape[0] - 1, b.shape[1]), entry, "y")


def segment(how: str) -> Callable[[Any, Any], Any]:
    """A reduction of x over each segment."""

    def of(p: Any, x: Any) -> Any:
        def entry(i: Any) -> Any:
            e = te.reduce_axis((p[i], p[i + 1]), "e")
            return getattr(te, how)(x[e], e)

        return te.compute((p.shape[0] - 1,), entry, "y")

    return of


def row_softmax(p: Any, x: Any) -> Any:
    """exp(x) over its sum in each row, for entries packed row by row."""
    rows = (p.shape[0] - 1,)

    def entries(i: Any) -> Any:
        return te.reduce_axis((p[i], p[i + 1]), "e")

    top = te.compute(rows, lambda i: te.max(x[(e := entries(i))], e), "top")
    whole = te.compute(rows, lambda i: te.sum(te.exp(x[(e := entries(i))] - top[i]), e), "whole")
    points = (*rows, lambda i: (p[i], p[i + 1]))
    return te.scatter(x.shape, points, lambda i, e: (e, te.exp(x[e] - top[i]) / whole[i]), "y")


def attention(p: Any, columns: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention of the nodes of a graph to their neighbours, by one head."""
    (edges,) = columns.shape
    d = q.shape[1]
    points = (p.shape[0] - 1, lambda i: (p[i], p[i + 1]))
    f = te.reduce_axis(d)
    scores = te.scatter((edges,), points, lambda i, e: (e, te.sum(q[i, f] * k[columns[e], f], f)), "scores")
    return spmm(p, columns, row_softmax(p, scores), v)


KERNELS = {
    "spmm": te.op(spmm, name="ragged_spmm"),
    "sum": te.op(segment("sum"), name="ragged_segment_sum"),
    "max": te.op(segment("max"), name="ragged_segment_max"),
    "softmax": te.op(row_softmax, name="ragged_row_softmax"),
    "attention": te.op(attention, name="ragged_attention"),
}


def matrix(rows: int, columns: int, index: str = "int32") -> Any:
    """A sparse matrix with empty rows, its pointers of an index dtype."""
    found = scipy.sparse.random(rows, columns, 0.3, format="csr", random_state=rows)
    found.data = rng.standard_normal(found.nnz)
    return found.indptr.astype(index), found.indices.astype(index), found


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_products_of_a_sparse_matrix_are_those_of_scipy(index: str) -> None:
    op = KERNELS["spmm"]
    for rows, columns, width in ((7, 5, 3), (4, 9, 20), (11, 3, 1)):
        p, c, s = matrix(rows, columns, index)
        b, g = rng.standard_normal((columns, width)), rng.standard_normal((rows, width))
        x = [iv.asarray(v, requires_grad=True) for v in (s.data, b)]
        y = op(p, c, *x)
        np.testing.assert_allclose(y.detach(), s @ b, atol=1e-12)
        dv, db = iv.autograd.grad((y * g).sum(), x)
        at = np.repeat(np.arange(rows), np.diff(p))
        np.testing.assert_allclose(dv, (g[at] * b[c]).sum(1), atol=1e-12)
        np.testing.assert_allclose(db, s.T @ g, atol=1e-12)
    assert op.expression.alone <= 2, "one program for all shapes, from the second on"


def test_softmax_of_rows_is_that_of_scipy() -> None:
    p, _, s = matrix(6, 8)
    rows = [scipy.special.softmax(s.data[a:b]) for a, b in itertools.pairwise(p)]
    np.testing.assert_allclose(KERNELS["softmax"](p, s.data), np.concatenate(rows), atol=1e-14)


def test_attention_of_a_graph_is_dense_attention_with_a_mask() -> None:
    p, c, s = matrix(6, 6)
    q, k, v = rng.standard_normal((3, 6, 4))
    dense = np.where(s.toarray() != 0, q @ k.T, -np.inf)
    some = np.diff(p) > 0
    expected = np.zeros((6, 4))
    expected[some] = scipy.special.softmax(dense[some], axis=1) @ v
    np.testing.assert_allclose(KERNELS["attention"](p, c, q, k, v), expected, atol=1e-12)


@pytest.mark.usefixtures("interpreted_by_turns")
@pytest.mark.parametrize("name", list(KERNELS))
def test_kernels_inside_of_transforms(name: str) -> None:
    p, c, s = matrix(4, 4)
    op = KERNELS[name]
    dense = rng.standard_normal((3, 4, 2))
    args = {"spmm": (s.data, dense[0]), "attention": tuple(dense)}.get(name, (s.data,))
    fixed = (p, c) if name in ("spmm", "attention") else (p,)

    def f(*x: Any) -> Any:
        return op(*fixed, *x)

    tracked = [iv.asarray(x, requires_grad=True) for x in args]
    defined = f if name != "max" else (lambda *x: iv.where(np.diff(p) > 0, f(*x), 0.0))
    assert iv.testing.gradcheck(defined, tracked, **in_short(name))
    if name == "attention":  # a second derivative for each set of inputs is a program
        assert iv.testing.gradgradcheck(lambda q: f(q, *args[1:]), tracked[:1], **in_short(name))
    elif EXHAUSTIVE or turn(f"{name} twice", 2) == 0:
        assert iv.testing.gradgradcheck(defined, tracked, **in_short(name))

    def compiled() -> None:
        np.testing.assert_allclose(iv.jit(f)(*args), f(*args), atol=1e-14)

    def mapped() -> None:
        batch = [np.stack([x, 2.0 * x]) for x in args]
        np.testing.assert_allclose(
            iv.vmap(f)(*batch), np.stack([f(*args), f(*(2.0 * x for x in args))]), atol=1e-12
        )

    for way in some(name, [compiled, mapped]):
        way()


def test_pointers_that_differ_between_examples() -> None:
    x = rng.standard_normal((2, 5))
    p = np.array([[0, 2, 5], [1, 1, 4]])
    found = iv.vmap(KERNELS["sum"])(p, x)
    np.testing.assert_allclose(found, [[x[0, :2].sum(), x[0, 2:].sum()], [0.0, x[1, 1:4].sum()]])


def test_points_are_entries() -> None:
    p, c, s = matrix(9, 30)
    width = 3
    inputs = [te.placeholder(v.shape, v.dtype, n) for n, v in (("p", p), ("c", c), ("v", s.data))]
    b, h = te.placeholder((30, width), name="b"), te.placeholder((9, width), name="h")
    y = spmm(*inputs, b)
    dv, db = te.differentiate(y, [inputs[2], b], h)
    second = te.differentiate(dv, [b], te.placeholder(dv.shape, name="g"))[0]
    for t in (y, dv, db, second, te.jvp(y, {b: te.placeholder(b.shape, name="t")})):
        visits: list[Visits] = []
        program = te.eliminate(t)
        feed = {"p": p, "c": c, "v": s.data}
        run(program, [feed.get(x.name, np.ones(x.shape)) for x in program.inputs], visits)
        assert [n.points for n in visits] == [s.nnz * width]
        assert all(n.idle == 0 for n in visits)
        assert lower(program).source.count("for ") <= 4, "no loop over a box of rows and entries"
        rows = lower(program).buffers[next(x for x in program.inputs if x.name == "p")]
        assert f"range(int64({rows.name}[" in lower(program).source
    program = te.eliminate(dv)
    out = lower(program).buffers[dv].name
    assert re.search(rf"for (\w+) in .*(\n.*)+\b{out}\[\1\] \+= acc", lower(program).source)


def test_an_extremum_and_its_position() -> None:
    p, x = np.array([0, 3, 3, 5]), np.array([1.0, 7.0, 2.0, 4.0, 4.0])

    def where(p: Any, x: Any) -> Any:
        def entry(i: Any) -> Any:
            e = te.reduce_axis((p[i], p[i + 1]))
            return te.argmax(x[e], e)

        return te.compute((p.shape[0] - 1,), entry)

    found = te.op(where, name="ragged_argmax")(p, x)
    np.testing.assert_array_equal(found, [1, -1, 0])
    t = iv.asarray(x, requires_grad=True)
    (g,) = iv.autograd.grad(KERNELS["max"](p, t)[np.array([0, 2])].sum(), [t])
    np.testing.assert_array_equal(g, [0, 1, 0, 1, 0])


def test_second_derivatives() -> None:
    p = te.placeholder((4,), "int64", "p")
    x, w = te.placeholder((6,), name="x"), te.placeholder((3,), name="w")

    y = te.compute((3,), lambda i: te.sum(te.sin(x[(e := te.reduce_axis((p[i], p[i + 1])))] * w[i]), e))
    feed = {p: np.array([0, 4, 4, 6]), x: rng.standard_normal(6), w: rng.standard_normal(3)}
    check_derivatives(y, [x, w], feed)


def test_rows_within_rows() -> None:
    """Sums over entries of rows of groups, each axis bounded by what the one before is."""
    groups, rows = np.array([0, 2, 2, 4]), np.array([0, 1, 4, 4, 6])
    x = rng.standard_normal(6)

    def totals(groups: Any, rows: Any, x: Any) -> Any:
        def entry(g: Any) -> Any:
            i = te.reduce_axis((groups[g], groups[g + 1]), "i")
            e = te.reduce_axis((rows[i], rows[i + 1]), "e")
            return te.sum(x[e] * (i + 1.0), (e, i))

        return te.compute((groups.shape[0] - 1,), entry)

    op = te.op(totals, name="ragged_totals")
    weight = np.repeat([1.0, 2.0, 3.0, 4.0], np.diff(rows))
    expected = [(x * weight)[:4].sum(), 0.0, (x * weight)[4:].sum()]
    np.testing.assert_allclose(op(groups, rows, x), expected)
    t = iv.asarray(x, requires_grad=True)
    np.testing.assert_allclose(iv.autograd.grad(op(groups, rows, t).sum(), [t])[0], weight)


def test_a_triangular_solve_row_by_row() -> None:
    """Ragged sums in the steps of a scan, which are as long as the row."""
    n = 6
    dense = np.tril(rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.5), -1)
    s, b = scipy.sparse.csr_array(dense), rng.standard_normal((n, 2))

    def mixed(p: Any, c: Any, v: Any, b: Any) -> Any:
        steps, width = b.shape

        def step(state: Any) -> Any:
            def entry(t: Any, j: Any) -> Any:
                e = te.reduce_axis((p[t], p[t + 1]))
                return b[t, j] + te.sum(v[e] * state[t - 1, c[e] % width], e)

            return te.compute((steps, width), entry)

        return te.scan((steps, width), step)

    op = te.op(mixed, name="ragged_mixed")
    expected, before = np.zeros((n, 2)), np.zeros(2)
    for t in range(n):
        row = slice(s.indptr[t], s.indptr[t + 1])
        before = b[t] + (s.data[row] * before[s.indices[row] % 2]).sum()
        expected[t] = before
    np.testing.assert_allclose(op(s.indptr, s.indices, s.data, b), expected, atol=1e-12)
    tracked = [iv.asarray(v, requires_grad=True) for v in (s.data, b)]
    assert iv.testing.gradcheck(lambda v, b: op(s.indptr, s.indices, v, b), tracked)


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "found"),
    [
        ([0, 2, 9, 9], r"'p': got p\[i \+ 1\] = 9 at i = 1, the end of e; expected e inside 0:5"),
        ([0, -2, 3, 5], r"'p': got p\[i\] = -2 at i = 1, the start of e"),
    ],
)
def test_a_bad_bound_is_named(p: list[int], found: str) -> None:
    x = np.ones(5)
    with pytest.raises(IndexingError, match=found):
        KERNELS["sum"](np.array(p), x)
    with pytest.raises(IndexingError, match=found):
        iv.grad(lambda x: KERNELS["sum"](np.array(p), x).sum())(x)


def test_bounds_that_end_before_they_begin_are_empty() -> None:
    np.testing.assert_array_equal(KERNELS["sum"](np.array([0, 3, 1, 4]), np.ones(5)), [3, 0, 3])


def test_definitions_that_are_refused() -> None:
    p, x = te.placeholder((4,), "int64", "p"), te.placeholder((9,), name="x")
    a = te.placeholder((3, 2), name="a")

    def over(body: Callable[[Any, Any], Any]) -> Any:
        return te.compute((3,), lambda i: body(i, te.reduce_axis((p[i], p[i + 1]), "e")))

    k = te.reduce_axis(2, "k")
    with pytest.raises(ArgumentTypeError, match="integers"):
        te.compute((3,), lambda i: te.sum(x[i], te.reduce_axis((0, x[i]))))
    with pytest.raises(ArgumentError, match="ragged axis first"):
        over(lambda i, e: te.argmax(x[e] + a[i, k], (k, e)))


# --- other libraries ------------------------------------------------------------------------------------


@pytest.mark.peers
def test_bags_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    table, weights = rng.standard_normal((7, 4)), rng.standard_normal(6)
    ids, offsets = np.array([1, 6, 1, 0, 3, 3]), np.array([0, 2, 2, 6])
    theirs = [torch.tensor(v, requires_grad=True) for v in (weights, table)]
    ours = [iv.asarray(v, requires_grad=True) for v in (weights, table)]
    y = torch.nn.functional.embedding_bag(
        torch.tensor(ids),
        theirs[1],
        torch.tensor(offsets),
        mode="sum",
        per_sample_weights=theirs[0],
        include_last_offset=True,
    )
    z = KERNELS["spmm"](offsets, ids, *ours)
    np.testing.assert_allclose(z.detach(), y.detach().numpy(), atol=1e-12)
    (y**2).sum().backward()
    for found, t in zip(iv.autograd.grad((z**2).sum(), ours), theirs, strict=True):
        np.testing.assert_allclose(found, t.grad.numpy(), atol=1e-12)


@pytest.mark.peers
def test_gradients_of_attention_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    p, c, s = matrix(6, 6)
    args = list(rng.standard_normal((3, 6, 4)))
    theirs = [torch.tensor(v, requires_grad=True) for v in args]
    ours = [iv.asarray(v, requires_grad=True) for v in args]
    q, k, v = theirs
    some = torch.tensor(np.flatnonzero(np.diff(p)))
    scores = torch.where(torch.tensor(s.toarray() != 0), q @ k.T, -torch.inf)[some]
    (torch.softmax(scores, 1) @ v).sin().sum().backward()
    found = iv.autograd.grad(iv.sin(KERNELS["attention"](p, c, *ours)).sum(), ours)
    for x, t in zip(found, theirs, strict=True):
        np.testing.assert_allclose(x, t.grad.numpy(), atol=1e-12)


def test_guards_on_the_ragged_axis_keep_stores_inside() -> None:
    """``D[2 * i] += ...`` where a condition on e says that 2 * i is in D: nothing is stored at other i."""
    rows = te.placeholder((4,), "int64", "rows")
    y, head = te.placeholder((3,), name="y"), te.placeholder((3,), name="head")

    def row(i: Any) -> Any:
        e = te.reduce_axis((rows[i], rows[i + 1]), "e")
        k = te.select(e > i, e - 2, 2 * i)
        return te.sum(y[e] * te.select((k >= 0) & (k < 3), y[te.clamp(k, 0, 2)] * y[k], 0.5), e)

    program = te.program_of(te.differentiate(te.compute((3,), row, "T"), [y], head))
    feeds = {"rows": np.array([0, 2, 2, 3]), "y": np.array([1.0, 2.0, 3.0]), "head": np.ones(3)}
    feed = [feeds[p.name] for p in program.inputs]
    (found,), (expected,) = lower(te.eliminate(program))(*feed), run(program, feed)
    np.testing.assert_allclose(found, expected)
