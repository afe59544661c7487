"""Sparse operands of compiled functions: which steps are native, and that results are those of eager code."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson import optim
from iverson.codegen.nests.nodes import Store, statements
from iverson.codegen.programs import Nest
from iverson.codegen.programs.nodes import walk
from iverson.core.aval import Aval
from iverson.core.counting import work
from iverson.core.dispatch import make_handle, value_of
from iverson.core.entries import Stored
from iverson.core.region import Region
from iverson.core.table import TABLE
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.entry_ops import stored_on
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.pattern_binding import binding_of
from iverson.graph.lowering.graph_lowering import Native
from iverson.graph.passes import simplified
from iverson.graph.passes.common_subexpressions import common
from iverson.graph.sparse import sparse_lowering
from iverson.graph.sparse.calling_convention import Along
from iverson.graph.sparse.sparse_lowering import on_patterns
from iverson.graph.tracing.trace import trace_flat
from iverson.kernels.kernel_registry import run
from iverson.layouts import Box, Bracket, select, to_strided
from iverson.layouts.pattern_symbols import Counts
from iverson.transforms.pytree_tracing import TracedFunction
from tests.conformance.product import EXHAUSTIVE, by_turns, each, some, turn

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((6, 3)), RNG.standard_normal((3, 2))
#: Numbers of entries, one after the other; programs with a capacity serve all but the first.
COUNTS = (12, 12, 8, 24, 4, 0)
LAYOUTS = {"coo": None, "csr": None, "csc": None, "bsr": (2, 3), "bsc": (3, 2)}


def drawn(layout, stored=12):
    """A matrix of some entries, or a third as many blocks, at random places; rows may be empty."""
    r, c = LAYOUTS[layout] or (1, 1)
    blocks = np.zeros((36 // (r * c), r, c))
    at = RNG.permutation(len(blocks))[: stored if r == 1 else stored // 4]
    blocks[at] = RNG.standard_normal((len(at), r, c))
    dense = blocks.reshape(6 // r, 6 // c, r, c).transpose(0, 2, 1, 3).reshape(6, 6)
    return iv.asarray(dense).to_layout(layout, blocksize=LAYOUTS[layout])


def repeated(stored=12):
    """Entries in no order, some of them at one place."""
    at = RNG.integers(0, 36, stored - 4)
    at = RNG.permutation(np.concatenate([at, at[:4]]))
    return iv.sparse_coo_tensor(np.divmod(at, 6), RNG.standard_normal(stored), (6, 6))


def convolved(s, x, w):
    return (iv.relu(s @ x @ w) ** 2).sum()


def of_values(values, s, x, w):
    return convolved(s.with_values(values), x, w)


def of_lines(s, f):
    """The gradient of a function of a sparse matrix in its stored values."""
    return iv.grad(lambda values: f(s.with_values(values)))(s.values())


#: By name: a function of a sparse matrix and a dense one.
FUNCTIONS = {
    "graph convolution": lambda s, x: convolved(s, x, iv.asarray(W)),
    "its gradient": lambda s, x: iv.grad(convolved, (1, 2))(s, x, iv.asarray(W)),
    "its gradient in values": lambda s, x: iv.grad(of_values, (0, 2))(s.values(), s, x, iv.asarray(W)),
    "sums of rows": lambda s, x: (s * 2).sum(axis=1),
    "sums of columns": lambda s, x: (s * 2).sum(axis=0, keepdims=True),
    "extrema of lines": lambda s, x: (s.max(axis=1), s.min(axis=0, keepdims=True), s.max()),
    "their gradient in values": lambda s, x: of_lines(s, lambda s: (s.max(axis=1) ** 2).sum() + s.min()),
    "lengths of lines": lambda s, x: (iv.linalg.vector_norm(s, axis=1), iv.linalg.vector_norm(s)),
    "their gradients": lambda s, x: of_lines(s, lambda s: (iv.linalg.vector_norm(s, axis=0) ** 3).sum()),
    "entries": lambda s, x: (s[3, 2], s[np.array([[0, 5], [5, 1]]), np.array([2, 4])]),
    "their gradient in the values": lambda s, x: of_lines(
        s, lambda s: s[2, 2] * s[[1, 1, 0], [2, 2, 5]].sum()
    ),
    "dense by sparse": lambda s, x: x.mT @ s,
    "by rows and columns": lambda s, x: (s * x[:, :1] * x[:, 0] + s).sum(),
    "entry by entry": lambda s, x: iv.sin(s) * s - s / 2,
    "transposed": lambda s, x: s.mT @ x,
    "values": lambda s, x: s.values() * 2,
    "with dense": lambda s, x: s.to_dense() + s,
    "sampled": lambda s, x: s * (x @ x.mT),
    "sampled, in the dense": iv.grad(lambda s, x: (s * (x @ x.mT)).sum(), 1),
    "given back": lambda s, x: (s, s * 2),
}


#: The same of slices over a dense axis, and of features of rows.
OF_SLICES = {
    "entry by entry": lambda s, x: iv.sin(s) * s - s / 2,
    "scaled by rows and columns": lambda s, x: s * x[:, None] + s * x,
    "scaled by entries": lambda s, x: (s * (x @ x.mT)[..., None]).sum(axis=1),
    "sums": lambda s, x: (s.sum(axis=2).sum(axis=0), s.sum(axis=1), s.sum(axis=(0, 2)), (s * s).sum()),
    "each by a matrix": lambda s, x: (iv.relu(s @ iv.asarray(W)) ** 2).sum(axis=1),
    "its gradients": lambda s, x: iv.grad(
        lambda v, w: (iv.relu(s.with_values(v) @ w) ** 2).sum(axis=1).sum(), (0, 1)
    )(s.values(), iv.asarray(W)),
    "entries": lambda s, x: (s[np.array([0, 5]), np.array([1, 2])], s[..., 1] @ x),
    "extrema": lambda s, x: (s.max(axis=2), s.min(axis=(0, 1))),
    "turned": lambda s, x: iv.permute_dims(s, (1, 0, 2)) * 2,
    "values": lambda s, x: (s.values() * 2, s.to_dense() + s),
    "given back": lambda s, x: (s, s * 2),
    "examples": lambda s, x: iv.vmap(lambda s, x: (s * x).sum(axis=0))(s, iv.sin(x)),
}

#: Those in which layouts differ most.
SOME = ("its gradient", "by rows and columns", "transposed", "given back")


def dense(x):
    return [np.asarray(y.to_dense().numpy()) for y in (x if isinstance(x, tuple) else (x,))]


def steps(compiled):
    """The programs' steps, "native" or a library op's name."""
    made = [s for entry in compiled._entries.values() for s in entry.compiled._program.steps]
    return ["native" if isinstance(s, Native) else s.equation.op.name for s in made]


@pytest.fixture
def traces(monkeypatch):
    """How many times functions were traced."""
    counted = []
    plain = TracedFunction._trace
    monkeypatch.setattr(TracedFunction, "_trace", lambda *args: counted.append(1) or plain(*args))
    return counted


def agree(f, g, *args):
    for a, b in zip(dense(f(*args)), dense(g(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_on_stored_entries_are_native_and_traced_once_for_all_patterns(layout, traces):
    names = FUNCTIONS if layout in ("csr", "bsr") else SOME
    if not EXHAUSTIVE:  # half of the functions in one of the two layouts, and one in each of the others
        other = layout == "bsr"
        names = some(layout, SOME) if names is SOME else [n for n in FUNCTIONS if turn(n, 4) == other]
    for name, f in ((n, FUNCTIONS[n]) for n in names):
        compiled = iv.jit(f)
        traces.clear()
        for k, count in enumerate(COUNTS):
            agree(compiled, f, drawn(layout, count), iv.asarray(X))
            if not k:
                traces.clear()
        assert set(steps(compiled)) == {"native"}, name
        assert not traces, name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_on_slices_are_native_and_traced_once_for_all_patterns(layout, traces):
    for number, (name, f) in enumerate(OF_SLICES.items()):
        if layout not in some("slices", LAYOUTS, 1, number):
            continue
        compiled = iv.jit(f)
        for k, count in enumerate(COUNTS):
            s = drawn(layout, count)
            s = s.with_values(RNG.standard_normal((*s.values().shape, 3)))
            agree(compiled, f, s, iv.asarray(X))
            if not k:
                traces.clear()
        assert set(steps(compiled)) == {"native"}, name
        assert not traces, name


#: Of batches: of matrices with patterns of their own, of one pattern, of dense factors.
BATCHES = {
    "batches": lambda s, x: (s @ x, s @ x[0], s.mT @ x, x.mT @ s),
    "gradients": lambda s, x: iv.grad(lambda x: ((s @ x) ** 2).sum() + iv.sin(x[0].mT @ s).sum())(x),
    "of the values": lambda s, x: iv.grad(lambda v: ((s.with_values(v) @ x) ** 2).sum())(s.values()),
    "examples": iv.vmap(lambda s, x: (s @ x).sum(axis=0)),
    "gradients of examples": iv.vmap(iv.grad(lambda s, x: iv.tanh(s.mT @ x).sum(), 1)),
}


@pytest.mark.parametrize("layout", some("batches", LAYOUTS, 2))
def test_batches_of_sparse_matrices_are_native_and_traced_once(layout, traces):
    x = iv.asarray(RNG.standard_normal((2, 6, 3)))
    for name in BATCHES if layout in ("csr", "bsc") else ("batches",):
        f = BATCHES[name]
        compiled = iv.jit(f)
        for k in range(3):
            pair = iv.stack([drawn(layout).to_dense() for _ in range(2)])
            s = pair.to_layout(layout, blocksize=LAYOUTS[layout])
            agree(compiled, f, s, x)
            if not k:
                traces.clear()
        assert set(steps(compiled)) == {"native"}, name
        assert not traces, name


def stores(program):
    """The stores of all nests of a program."""
    nests = (s for s in walk(program.steps) if isinstance(s, Nest))
    return [s for n in nests for s in statements(n.kernel.phases) if isinstance(s, Store)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_product_writes_each_entry_once_and_is_counted(layout):
    s, x = drawn(layout), iv.asarray(X)
    for f in (lambda s, x: s @ x, lambda s, x: s.mT @ x, lambda s, x: x.mT @ s):
        compiled = iv.jit(f)
        agree(compiled, f, s, x)
        (entry,) = compiled._entries.values()
        program = entry.compiled._program
        (native,) = program.steps
        assert {s.combine for s in stores(native.compiled.program)} == {"assign"}
        with work.counting() as counted:
            compiled(s, x)
        assert counted.sparse_multiply_adds == s.nnz * 3
        values = value_of(s), value_of(x)
        opened = program.how.opened(values, binding_of(entry.compiled.graph, values))
        (found,) = interpret(program.how.core, list(map(make_handle, opened)))
        np.testing.assert_allclose(found.numpy(), dense(f(s, x))[0], rtol=1e-12, atol=1e-13)


def smooth(s, x, w):
    return (iv.tanh(s @ x @ w) ** 2).sum()


def weighted(s, x):
    return ((s * x[:, :1] * 2).sum(axis=0) ** 2).sum() + (s * s).sum()


def shared(s, x):
    """One pattern twice: what is added up stays on it."""
    t = s * 2 - s.with_values(iv.sin(s.values()))
    return t @ x, t


def scanned(s, x):
    return (iv.scan(lambda c, _: (iv.tanh(s @ c), c.sum()), x, None, length=3)[0] ** 2).sum()


def of_gradient(s, x, w):
    return (iv.grad(smooth, 1)(s, x, w) ** 2).sum()


def examples(f):
    return lambda s, x, w: iv.vmap(iv.grad(f, 1), (None, 0, None))(s, iv.stack([x, 2 * x]), w)


compiled_smooth, compiled_weighted = iv.jit(smooth), iv.jit(weighted)
#: The compiled way, and the eager one.
WAYS = {
    "gradient of a compiled one": (iv.grad(compiled_smooth, (1, 2)), iv.grad(smooth, (1, 2))),
    "in the sparse operand": (iv.grad(compiled_smooth, 0), iv.grad(smooth, 0)),
    "compiled": (iv.jit(iv.grad(compiled_smooth, (1, 2))), iv.grad(smooth, (1, 2))),
    "interpreted": (iv.jit(iv.grad(smooth, (0, 2)), interpret=True), iv.grad(smooth, (0, 2))),
    "twice": (
        iv.grad(lambda s, x, w: (iv.grad(compiled_smooth, 1)(s, x, w) ** 2).sum(), 2),
        iv.grad(of_gradient, 2),
    ),
    "twice, compiled": (iv.jit(iv.grad(of_gradient, 2)), iv.grad(of_gradient, 2)),
    "examples": (examples(compiled_smooth), examples(smooth)),
    "examples, compiled": (iv.jit(examples(smooth)), examples(smooth)),
    "at the entries": (iv.grad(compiled_weighted, 0), iv.grad(weighted, 0)),
    "of a row's weight": (iv.jit(iv.grad(weighted, 1)), iv.grad(weighted, 1)),
    "one pattern twice": (iv.jit(shared), shared),
    "a loop": (iv.jit(iv.grad(scanned, 1)), iv.grad(scanned, 1)),
}


@pytest.mark.parametrize("name", by_turns(WAYS))
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_derivatives_are_traced_once_for_all_patterns(name, traces):
    compiled, eager = WAYS[name]
    count = 2 if name in ("one pattern twice", "at the entries", "of a row's weight", "a loop") else 3
    for layout in some(name, ["csr", "coo"]):
        for k, stored in enumerate((12, 8, 12)):
            agree(compiled, eager, drawn(layout, stored), *map(iv.asarray, (X, W)[: count - 1]))
            if not k:
                traces.clear()
        eagerly = len(traces)
        eager(drawn(layout), *map(iv.asarray, (X, W)[: count - 1]))
        assert eagerly == 2 * (len(traces) - eagerly), layout  # loops are traced eagerly too


def while_below(s, x):
    body = lambda c: (iv.tanh(s @ c[0]), c[1] + 1)
    return iv.while_loop(lambda c: c[1] + 0 * (s @ c[0]).sum() < 3, body, (x, iv.asarray(0)))[0]


def chosen(s, x):
    return iv.cond(x.sum() > 0, lambda s, x: s @ x, lambda s, x: s.mT @ x * s.sum(), s, x)


def recomputed(s, x):
    return (iv.checkpoint(lambda s, x: iv.tanh(s @ x))(s, x) ** 2).sum()


def of_steps(s, x):
    values = iv.stack([s.values(), s.values() * 2])
    return (iv.scan(lambda c, v: (s.with_values(v) @ c, None), x, values)[0] ** 2).sum()


def computed_steps(v, s, x):
    step = lambda c, k: (iv.tanh(s.with_values(iv.sin(v) * k) @ c), None)
    return (iv.scan(step, x, iv.asarray([1.0, 2.0]))[0] ** 2).sum()


#: By name: what runs a graph in which something is sparse, and how often it is traced eagerly.
LOOPS = {
    "scan": scanned,
    "of a scan": iv.grad(scanned, 1),
    "of a scan, in the values": lambda s, x: iv.grad(lambda v: scanned(s.with_values(v), x))(s.values()),
    "of a scan, twice": iv.grad(lambda s, x: (iv.grad(scanned, 1)(s, x) ** 2).sum(), 1),
    "while": while_below,
    "of a while": lambda s, x: iv.jvp(lambda x: while_below(s, x), (x,), (x,))[1],
    "cond": lambda s, x: (chosen(s, x), chosen(s, -x)),
    "of a cond": iv.grad(lambda s, x: (chosen(s, x) ** 2).sum() + chosen(s, -x).sum(), 1),
    "of a cond, twice": iv.grad(
        lambda s, x: (iv.grad(lambda s, x: (chosen(s, x) ** 3).sum(), 1)(s, x) ** 2).sum(), 1
    ),
    "checkpoint": recomputed,
    "of a checkpoint": iv.grad(recomputed, 1),
    "of a checkpoint, twice": iv.grad(lambda s, x: (iv.grad(recomputed, 1)(s, x) ** 2).sum(), 1),
    "of each step": of_steps,
    "gradient of each step": iv.grad(of_steps, 1),
    "gradient of each step, twice": iv.grad(
        lambda s, x: (iv.grad(computed_steps)(s.values(), s, x) ** 2).sum(), 1
    ),
    "in a loop": lambda s, x: iv.fori_loop(0, 2, lambda _, x: iv.fori_loop(0, 2, lambda _, x: s @ x, x), x),
    "examples": lambda s, x: iv.vmap(lambda x: scanned(s, x))(iv.stack([x, 2 * x])),
}


@pytest.mark.parametrize("name", by_turns(LOOPS, 3))
def test_loops_and_branches_on_stored_entries_are_native(name, traces):
    for layout in ("csr", "coo") if name in ("of a scan", "of each step") else ("csr",):
        compiled = iv.jit(LOOPS[name])
        for k, stored in enumerate((12, 12, 8)):
            s, x = drawn(layout, stored), iv.asarray(X)
            expected = dense(LOOPS[name](s, x))
            traces.clear()
            for a, b in zip(dense(compiled(s, x)), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
            assert not (k and traces)
        assert set(steps(compiled)) == {"native"}


ATTENTION = {
    "forward": lambda s, x: s.with_values(iv.segment_softmax(s.values(), s)) @ x,
    "backward": lambda s, x: iv.grad(lambda v: ((s.with_values(iv.segment_softmax(v, s)) @ x) ** 2).sum())(
        s.values()
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_rows_of_a_pattern_are_segments_that_a_program_reads(name, traces):
    compiled = iv.jit(ATTENTION[name])
    for count in COUNTS if name == "forward" else COUNTS[:2]:
        agree(compiled, ATTENTION[name], drawn("csr", count), iv.asarray(X))
    assert len(traces) == 2
    assert set(steps(compiled)) == {"native"}


@iv.jit
def several(s, x, y):
    return s @ x, s.mT @ y, s.sum(axis=0), (s * y[:, :1]).sum(), s.sum(axis=1), s * (y @ x.mT)


@given(st.sampled_from(["csr", "coo", "csc"]), st.integers(0, 20), st.integers(0, 99), st.booleans())
@settings(max_examples=400 if EXHAUSTIVE else 10, deadline=None)
def test_drawn_patterns_agree_with_scipy(layout, count, seed, is_twice):
    """Empty ones, empty rows, full ones, and in COO entries in no order, some stored twice."""
    rng = np.random.default_rng(seed)
    at = rng.permutation(20)[:count]
    if is_twice and layout == "coo" and count:
        at = np.concatenate([at, at[: count // 2]])
    index, values = np.divmod(at, 5), rng.standard_normal(at.size)
    s = iv.sparse_coo_tensor(index, values, (4, 5))
    if layout != "coo":
        s = s.to_layout(layout)
    held = scipy.sparse.coo_array((values, index), (4, 5)).tocsr()
    x, y = rng.standard_normal((5, 2)), rng.standard_normal((4, 2))
    found = several(s, iv.asarray(x), iv.asarray(y))
    weighted = held.multiply(y[:, :1])
    sampled = held.multiply(y @ x.T).toarray()
    for a, b in zip(
        found, (held @ x, held.T @ y, held.sum(0), weighted.sum(), held.sum(1), sampled), strict=True
    ):
        np.testing.assert_allclose(np.asarray(a.to_dense().numpy()), b, rtol=1e-12, atol=1e-13)


def network():
    """A step of a graph convolution of two layers, and its parameters."""
    params = [iv.asarray(a, copy=True, requires_grad=True) for a in (W, np.ones((2, 2)) / 3)]
    opt = optim.SGD(params, lr=0.1)

    def step(s, x):
        opt.zero_grad()
        loss = ((s @ iv.relu(s @ x @ params[0]) @ params[1]) ** 2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    return step, params


def test_a_training_step_is_one_native_call_and_traced_once_for_all_graphs(traces):
    (eager, own), (step, params) = network(), network()
    compiled = iv.jit(step)
    for count in COUNTS:
        agree(compiled, eager, drawn("csr", count), iv.asarray(X))
    assert len(traces) == 2
    assert steps(compiled) == ["native", "native"]
    for p, q in zip(own, params, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-10)


def test_entries_stored_twice_are_read_as_their_sum(traces):
    f = lambda s, x: (iv.grad(convolved, (1, 2))(s, x, iv.asarray(W)), s.sum(axis=1), s * 2)
    flat = lambda s, x: (*f(s, x)[0], *f(s, x)[1:])
    compiled = iv.jit(flat)
    for s in (repeated(), drawn("coo"), repeated()):
        agree(compiled, flat, s, iv.asarray(X))


def test_what_depends_on_the_number_of_entries_of_a_part_is_traced_for_each_pattern(traces):
    f = lambda s, x: s @ x[1] + iv.tril(s).values().mean()
    compiled, x = iv.jit(f), iv.asarray(X @ X.T)
    first, second = drawn("csr"), drawn("csr")
    for s, count in ((first, 3), (second, 1), (first, 0), (first * 2, 0)):  # with the first it is found out
        traces.clear()
        agree(compiled, f, s, x)
        assert len(traces) == count
    assert compiled.cache_size == 2


def test_what_depends_on_the_number_of_entries_is_traced_for_each():
    weights = iv.asarray(RNG.standard_normal(8))
    for f in (
        lambda s, x: s.values().sum() / s.nnz,
        lambda s, x: s.values().mean(),
        lambda s, x: (s * len(s.values())).sum(),
        lambda s, x: (s @ x) * float(s.nnz > 10),
        lambda s, x: (s.with_values(s.values() * weights) if s.nnz == 8 else s) @ x,
        lambda s, x: iv.cumulative_sum(s.values()),
        lambda s, x: iv.grad(lambda v: (s.with_values(v) @ x).sum() / v.shape[0])(s.values()),
    ):
        compiled = iv.jit(f)
        for count in (12, 8, 16, 8):
            agree(compiled, f, drawn("coo", count), iv.asarray(X))


#: Ways to learn how many entries a sparse operand stores, and what may be done with a number.
SIZES = {
    "nnz": lambda s: s.nnz,
    "shape": lambda s: s.values().shape[0],
    "size": lambda s: s.values().size,
    "nbytes": lambda s: s.values().nbytes // 8,
    "len": lambda s: len(s.values()),
    "of a part": lambda s: s.values()[1:].shape[0] + 1,
    "of two": lambda s: iv.concat([s.values(), s.values()]).shape[0] // 2,
    "unpacked": lambda s: max(*s.values().shape, 0),
    "as many ones": lambda s: iv.ones_like(s.values()).shape[0],
    "as many zeros": lambda s: (iv.zeros_like(s.values()) + s.values()).shape[0],
    "as many numbers": lambda s: iv.full_like(s.values(), 3.0).shape[0],
    "numpy.shape": lambda s: np.shape(s.values())[0],
    "numpy.size": lambda s: np.size(s.values()),
    "iteration": lambda s: sum(1 for _ in s.values()),
    "masked": lambda s: iv.masked_tensor(s.values(), iv.ones_like(s.values(), dtype="bool")).shape[0],
    "batched": lambda s: batched_extent(iv.stack([s.values(), s.values()])),
}
USES = {
    "compared": lambda n: n > 12,
    "plus": lambda n: n + 1 > 13,
    "minus": lambda n: 12 - n < 0,
    "over": lambda n: 12 / n < 1,
    "rest": lambda n: divmod(n, 13) != (0, n),
    "bits": lambda n: (n >> 2) > 3,
    "range": lambda n: 12 in range(n),
    "list": lambda n: [0] * n > [0] * 12,
    "text": lambda n: f"{n:9d}" > f"{12:9d}",
    "float": lambda n: float(n) > 12.0,
    "math": lambda n: math.isqrt(n) > 3,
    "numpy": lambda n: bool(np.int64(n) > 12),
    "tried": lambda n: next((k for k in (12, 11) if k >= n), None) is None,
}


def batched_extent(x):
    extents = []
    iv.vmap(lambda row: extents.append(row.shape[0]) or row)(x)
    return extents[0]


def test_every_use_of_a_number_of_entries_is_seen():
    """A branch on it, whatever it is computed with, is taken anew for other numbers."""

    def check(case):
        read, use = SIZES[case[0]], USES[case[1]]
        f = lambda s: s.sum() * (2.0 if use(read(s)) else 1.0)
        compiled = iv.jit(f, interpret=True)
        for count in (6, 8, 10, 20):
            s = drawn("coo", count)
            expected = dense(s)[0].sum() * (2.0 if count > 12 else 1.0)
            np.testing.assert_allclose(compiled(s).numpy(), expected, rtol=1e-12)

    each(check, by_turns(itertools.product(SIZES, USES), 8))


def test_surroundings_that_change_are_seen_for_any_number_of_entries():
    f = lambda s, x: s @ x * scale
    compiled, x = iv.jit(f), iv.asarray(X)
    # Also where a program for more entries is made of what was traced.
    for count, now in ((12, 2.0), (20, 2.0), (20, 3.0), (24, 4.0), (36, 5.0), (4, 5.0), (4, 2.0), (36, 2.0)):
        scale = now
        agree(compiled, f, drawn("csr", count), x)


def test_what_is_beyond_the_entries_is_never_read():
    """Rows of the other factor that no entry meets may be inf or nan."""
    f = lambda s, x: (s @ x, s.mT @ x, (s * x[:, :1]).sum(axis=0), s * (x @ x.mT))
    compiled = iv.jit(f)
    for count in (3, 5, 2):
        x, s = X.copy(), drawn("csr", count)
        x[np.flatnonzero(~dense(s)[0].any(0) & ~dense(s)[0].any(1))] = np.nan
        agree(compiled, f, s, iv.asarray(x))
        assert np.isfinite(dense(compiled(s, iv.asarray(x)))[0]).all()


def test_a_product_of_sparse_matrices_is_a_library_step_between_native_ones():
    s, x = drawn("csr"), iv.asarray(X)
    f = lambda s, x: ((s * 2) @ s) @ x + x
    compiled = iv.jit(f)
    np.testing.assert_allclose(compiled(s, x).numpy(), f(s, x).numpy(), rtol=1e-12)
    assert [n for n in steps(compiled) if n != "native"] == ["from_values", "matmul", "values_at"]


def test_reports_say_what_is_traced_for_each_pattern():
    any_pattern, each = iv.jit(lambda s, x: (s @ x).sum()), iv.jit(lambda s, x: iv.tril(s).values().mean())
    found = str(iv.explain.report(lambda s, x: any_pattern(s, x) + each(s, x))(drawn("csr"), iv.asarray(X)))
    assert found.count("traced for each pattern") == 1
    assert "traced for each pattern of its sparse arguments\n    native " in found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_lines_with_ties_nan_and_no_entries(dtype):
    """Full and empty lines, ties with zeros that are stored and that are not, nan, infinities."""
    a = np.array(
        [
            [-1.0, -2.0, -1.0, -3.0],
            [0.0, 0.0, 0.0, 0.0],
            [2.0, 0.0, 2.0, 1.0],
            [np.nan, 1.0, 0.0, -1.0],
            [-np.inf, 0.0, -1.0, 0.0],
            [np.inf, np.inf, -900.0, 3.0],
            [-900.0, -901.0, -900.0, -902.0],
        ],
        dtype,
    )
    s = iv.from_scipy(scipy.sparse.csr_array(a))
    s = s.with_values(iv.where(s.values() == 1, 0.0, s.values()))  # a zero that is stored

    def values(s):
        return s.max(axis=1), s.min(axis=0), s.max(), iv.linalg.vector_norm(s, axis=0)

    def gradients(s):
        reductions = (lambda s: s.max(axis=1), lambda s: s.min(axis=0), lambda s: s.max())
        return [of_lines(s, lambda s, f=f: f(s).sum()) for f in reductions]

    for f in (values, gradients):
        for found, expected in zip(iv.jit(f)(s), f(s), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-6)


def test_parts_of_large_matrices_are_native_as_arrays():
    """Rows by index arrays and single entries, where every entry of the matrix would be too much."""
    n, rows = 1500, np.array([3, 1499, 3, 700])
    s = iv.from_scipy(scipy.sparse.random_array((n, n), density=2e-3, rng=RNG, format="csr"))

    def parts(s):
        return s[rows], s[rows, rows[::-1]], s[7, 9], s[:, rows], s[-1, :5]

    def gradient(s):
        return of_lines(s, lambda s: (s[rows] ** 2).sum() + s[rows, [0, 1, 2, 3]].sum() * s[3, 5])

    for f in (parts, lambda s: (gradient(s),)):
        compiled = iv.jit(f)
        agree(compiled, f, s)
        assert set(steps(compiled)) == {"native"}


# --- operands so large that no array of their shape is made -----------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Operands count as large, whatever they are."""
    monkeypatch.setattr(sparse_lowering, "_SMALL", 0)
    monkeypatch.setattr(sparse_lowering, "_FACTOR", 0)


def lined(layout, dtype, seed):
    """Lines that are full and not, with ties, zeros that are stored, nan, of one sign."""
    r = np.random.default_rng(seed)
    x = (r.integers(-3, 4, (6, 4)) * (r.random((6, 4)) < 0.6)).astype(dtype)
    index = np.nonzero(np.ones_like(x) if seed else x)
    x[0], x[1], x[:, 3] = [1, 2, 3, 4], [-1, -2, -3, -3], -1
    if dtype == "float64":
        x[3, 1] = np.nan
    if dtype == "complex128":
        x = x * (1 + 0.5j)
    held = iv.sparse_coo_tensor(np.array(index), x[index], x.shape)
    return held if layout == "coo" else held.to_layout(layout, blocksize=(3, 2) if layout == "bsr" else None)


REDUCTIONS = {
    "max": "fi", "min": "fi", "argmax": "fi", "argmin": "fi", "prod": "fic", "any": "fic", "all": "fic",
    "sum": "fic", "std": "fc", "logsumexp": "f", "norm": "fc",
}  # fmt: skip


def reduced(name, s, axis, keepdims):
    if name == "norm":
        return iv.linalg.vector_norm(s, axis=axis, keepdims=keepdims)
    f = getattr(iv, name)
    if name == "std" and s.dtype.kind == "c":
        return iv.sqrt(iv.real(f(s.real, axis=axis, keepdims=keepdims)))
    return f(s, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        (layout, dtype)
        for number, layout in enumerate(some("large lines", ["csr", "coo", "csc", "bsr"], 2))
        for dtype in some("lines", ["float64", "int64", "complex128"], 1, number)
    ],
)
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_reductions_of_large_matrices_are_native(layout, dtype, large):
    """Of lines and of all entries, for any pattern by one trace, as NumPy's of the dense array."""
    names = [n for n, kinds in REDUCTIONS.items() if np.dtype(dtype).kind in kinds]
    ways = [(n, axis, keepdims) for n in names for axis, keepdims in ((0, True), (1, False), (None, False))]
    every = iv.jit(lambda s: [reduced(n, s, axis, keepdims) for n, axis, keepdims in ways])
    for seed in (0, 1, 2):
        s = lined(layout, dtype, seed)
        dense = s.to_dense()
        for way, found in zip(ways, every(s), strict=True):
            # A zero that is not stored annihilates a nan in products.
            expected = reduced(way[0], s if way[0] == "prod" else dense, *way[1:]).to_dense()
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, err_msg=str(way))
    assert all(isinstance(x, Native) for e in every._entries.values() for x in e.compiled._program.steps)


@pytest.mark.parametrize("layout", ["csr", "coo", "csc", "bsr"])
def test_entries_of_large_matrices_at_indices_of_a_call_are_read_natively(layout, large):
    s = lined(layout, "float64", 1) * 1.5
    rows, columns = (iv.asarray(np.array(n)) for n in ([5, 0, 0, 3], [1, 3, 0, 2]))
    f = iv.jit(lambda s, i, j: (s[i], s[:, j], s[i, j], s[iv.reshape(i, (2, 2))]))
    dense = s.to_dense()
    expected = dense[rows], dense[:, columns], dense[rows, columns], dense[iv.reshape(rows, (2, 2))]
    for found, y in zip(f(s, rows, columns), expected, strict=True):
        np.testing.assert_array_equal(found.to_dense().numpy(), y.numpy())
    assert all(isinstance(x, Native) for e in f._entries.values() for x in e.compiled._program.steps)


def test_what_is_written_into_a_sparse_matrix_is_so_where_it_is_known_too():
    """Numbers, arrays and constants, beside entries that stay."""
    s = drawn_matrix(9, 9, 20)
    row = iv.asarray(np.arange(1.0, 10.0))

    def f(s, x):
        a = s * 1
        a[2, 3] = 5.0
        a[4] = x * 2
        a[5:7, 1] = row[:2]
        return a, iv.concat([s, iv.asarray(np.eye(9))], axis=0)

    compiled = iv.jit(f)
    for found, expected in zip(compiled(s, row), f(s, row), strict=True):
        np.testing.assert_array_equal(found.to_dense().numpy(), expected.to_dense().numpy())


#: Functions whose results a trace knows to be stored from kernels alone.
STORED_RESULTS = {
    "power": lambda s: s**2,
    "a chain": lambda s: iv.clip(iv.maximum(s, 0.0) ** 3, -1.0, 2.0),
    "two branches": lambda s: iv.minimum(s**2, 1.0) * iv.hypot(s, s),
    "compared": lambda s: s > 0.5,
    "chosen rows": lambda s: iv.take(s, np.array([3, 0, 0]), axis=0) ** 2,
    "product": lambda s: s @ s,
}


@pytest.mark.parametrize("name", STORED_RESULTS)
def test_what_is_read_on_a_pattern_alone_is_made_there(name, large):
    """No array of the shape of a result that is stored is made on the way to it."""
    f = STORED_RESULTS[name]
    for layout in ("csr", "coo", "bsr"):
        s = drawn(layout, 8)
        compiled = iv.jit(f)
        found, expected = compiled(s), f(s)
        assert found.layout == expected.layout
        np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy())
        how = on_patterns(simplified(compiled.graph(s)))
        core = dead_code(common(how.core))
        made = [v for e in core.equations for v in e.results if not sparse_lowering.is_stored(v)]
        assert all(len(v.shape) < 2 for v in made), name


def drawn_matrix(n, m, count):
    at = np.random.default_rng(2).permutation(n * m)[:count]
    held = iv.sparse_coo_tensor(np.divmod(at, m), np.arange(1.0, count + 1), (n, m))
    return held.to_layout("csr")


def test_an_array_is_put_into_a_layout_where_it_is_given_back():
    """Which of its entries are zero is known when it is there; what reads it until then takes all of them."""
    x = np.array([[0.0, 2.0], [3.0, 0.0]])
    f = iv.jit(lambda x: ((s := (x * 2).to_layout("csr")), s @ x, s.sum(axis=0)))
    s, product, sums = f(iv.asarray(x))
    assert (s.layout, s.values().shape) == ("csr", (2,))
    np.testing.assert_array_equal(s.to_dense().numpy(), 2 * x)
    np.testing.assert_array_equal(product.numpy(), 2 * x @ x)
    np.testing.assert_array_equal(sums.to_dense().numpy(), 2 * x.sum(0))
    assert all(isinstance(x, Native) for e in f._entries.values() for x in e.compiled._program.steps)


def test_blocks_of_one_row_and_those_that_become_entries():
    """The transpose of blocks of two rows and a column; axes of a batch in another order."""
    r = np.random.default_rng(0)
    tall = iv.asarray(r.standard_normal((4, 6))).to_layout("bsr", blocksize=(2, 1))
    wide = iv.asarray(r.standard_normal((6, 4))).to_layout("bsr", blocksize=(1, 2))
    x = iv.asarray(r.standard_normal((4, 3)))
    f = iv.jit(lambda s, t, x: (s.mT @ x, t @ x, x.mT @ s))
    for found, expected in zip(f(tall, wide, x), (tall.to_dense().mT @ x, wide.to_dense() @ x,
                                                  x.mT @ tall.to_dense()), strict=True):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    batch = iv.asarray(r.standard_normal((2, 3, 4))).to_layout("bsr", blocksize=(1, 2))
    turned = iv.jit(lambda s: iv.permute_dims(s, (2, 0, 1)))(batch)
    np.testing.assert_array_equal(turned.to_dense().numpy(), batch.to_dense().numpy().transpose(2, 0, 1))


def test_zeros_that_are_not_stored_are_strong_where_a_derivative_is_infinite():
    s = drawn_matrix(4, 4, 6)
    for f in (iv.special.cbrt, iv.special.rgamma, lambda s: iv.special.xlogy(s, s)):
        of = lambda f: iv.grad(lambda s: (f(s) ** 2).sum())
        expected = of(f)(s)
        assert np.isfinite(expected.to_dense().numpy()).all()
        for found in (iv.jit(of(f))(s), of(iv.jit(f))(s)):
            assert found.layout == expected.layout
            np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy(), rtol=1e-12)


def scaled(c):
    return c / (iv.abs(c).sum(axis=1, keepdims=True) + 0.5)


#: Loops and branches that carry a sparse value on the pattern that it has at first.
CARRYING = {
    "a product of it": lambda s, v: iv.scan(lambda c, _: (c * 0.5, c @ v), s, None, length=3)[1],
    "a scan": lambda s, v: iv.scan(lambda c, t: (c * t, c.sum()), s, v),
    "steps of it": lambda s, v: iv.scan(lambda c, t: (iv.sin(c), c * t), s, v)[1].sum(axis=0) @ v,
    "a number of steps": lambda s, v: iv.fori_loop(0, 3, lambda i, c: scaled(c), s),
    "read after": lambda s, v: iv.fori_loop(0, 3, lambda i, c: scaled(c), s) @ v,
    "while": lambda s, v: iv.while_loop(lambda c: iv.abs(c).sum() < 99, lambda c: c * 2.0, s),
    "a branch": lambda s, v: iv.cond(s.sum() > 0, lambda s: s * 2, scaled, s),
    "with a vector": lambda s, v: iv.fori_loop(0, 4, lambda i, c: (c[0] * 0.5, c[0] @ c[1]), (s, v))[1],
    "exchanged": lambda s, v: iv.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (s, s * 2))[0],
}


@pytest.mark.parametrize("name", by_turns(CARRYING, 3))
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_loops_that_carry_sparse_values_are_native(name):
    """And their derivatives, for changing patterns, by one trace for any number of entries."""
    f, v = CARRYING[name], iv.asarray(np.linspace(0.5, 1.5, 6))

    def loss(s, v):
        return sum((x.to_dense() ** 2).sum() for x in _flat(f(s, v)))

    functions = [f] if name == "while" else [f, iv.grad(loss, (0, 1))]
    for g in functions:
        compiled = iv.jit(g)
        for stored in (12, 12, 7, 20):
            s = drawn("csr", stored)
            for found, expected in zip(_flat(compiled(s, v)), _flat(g(s, v)), strict=True):
                np.testing.assert_allclose(
                    found.to_dense().numpy(), expected.to_dense().numpy(), rtol=1e-11, atol=1e-12
                )
        for e in compiled._entries.values():
            for c in (e.compiled, *e.compiled._fitted.values()):
                assert c._program is None or all(isinstance(x, Native) for x in c._program.steps)


def _flat(x):
    return [z for y in x for z in _flat(y)] if isinstance(x, tuple) else [x]


def conversions(f, *args):
    """Of the program of a function: arrays that are made of entries, and entries that are read of arrays."""
    how = on_patterns(simplified(iv.jit(f).graph(*args)))
    graph = dead_code(common(how.core))
    where = {v for v, take in zip(graph.inputs, how.takes, strict=True) if isinstance(take, Along)}
    found = {"scatter_add": [], "gather": []}
    for e in graph.equations:
        whole = e.results[0] if e.op.name == "scatter_add" else e.operands[0]
        if (
            e.op.name in found
            and where.issuperset(e.operands[1:])
            and len(e.operands) - 1 == len(whole.shape) > 1
        ):
            found[e.op.name].append(e)
    return graph, *found.values()


def test_no_value_changes_its_form_twice():
    """What is made an array is so once, and no entries are read of an array that was made of entries."""
    count = 0
    for layout in some("forms", LAYOUTS, 3):
        slices = drawn(layout).with_values(RNG.standard_normal((*drawn(layout).values().shape, 3)))
        named = [(f, drawn(layout)) for f in FUNCTIONS.values()] + [(f, slices) for f in OF_SLICES.values()]
        for f, s in named:
            graph, arrays, entries = conversions(f, s, iv.asarray(X))
            count += len(arrays) + len(entries)
            assert len({e.operands[0] for e in arrays}) == len(arrays)
            of_entries = {e.results[0] for e in arrays}
            for e in graph.equations:
                if e.op.elementwise and of_entries.intersection(e.operands):
                    of_entries.update(e.results)
            assert not of_entries.intersection(e.operands[0] for e in entries)
    assert count


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_entries_of_a_box_on_a_pattern_may_be_a_selection(layout):
    # As of a cotangent of a slice that a body takes on the pattern of what was sliced.
    s = drawn(layout)
    pattern, part = value_of(s).pattern, (slice(1, 4), slice(2, 5))
    avals = [Aval((6, 6), np.dtype(np.float64), Stored(pattern))]
    graph, _, _ = trace_flat(lambda s: ([iv.sin(s) @ X, s * 2.0], None), avals)
    dense = np.zeros((6, 6))
    dense[part] = s.to_dense().numpy()[part]
    of = Box((6, 6), Region((1, 2), (4, 5)), dense[part])
    for native in (True, False):
        found = [make_handle(x).to_dense().numpy() for x in Compiled(graph, "f", native=native).run([of])]
        np.testing.assert_allclose(found[0], np.sin(dense) @ X)
        np.testing.assert_allclose(found[1], 2 * dense)


def _chosen_in_a_branch(x, y):
    """Where y is large, the sum of tanh(x), else of tanh(2 x), halved where y is negative."""

    def body(x, y):
        return iv.tanh(iv.where(iv.broadcast_to(y, (6, 6)) > 0.1, x, 2 * x)).sum()

    return iv.cond(y > 0, body, lambda x, y: body(x, y) * 0.5, x, y)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_bodies_whose_operands_are_made_dense_find_their_patterns(layout):
    f = iv.jit(iv.grad(_chosen_in_a_branch))
    for stored in COUNTS:
        for y in (0.5, 0.05, -0.3):
            s = drawn(layout, stored)
            k = 1 if y > 0.1 else 2
            expected = k * (0.5 if y < 0 else 1.0) / np.cosh(k * s.to_dense().numpy()) ** 2
            np.testing.assert_allclose(f(s, iv.asarray(y)).to_dense().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_part_that_stores_nothing(layout):
    """Its tangent is zero, and stored on the pattern of what is read there: nothing is moved."""
    pattern = iv.asarray(np.array([[1.0, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 1]])).to_layout(layout)

    def f(x):
        factor = iv.cond(x.sum() > 0.0, lambda x: x[0] * 1.0, lambda x: x[1] * 1.0, x)
        return (factor * iv.pad(pattern.with_values(x), ((1, 0), (0, 1)))[0]).to_dense().sum()

    x = iv.asarray(np.arange(1.0, 6))
    assert iv.jit(lambda x: iv.jvp(f, (x,), (x,))[1])(x).item() == 0.0
    assert iv.jit(iv.grad(f))(x).to_dense().tolist() == [0.0] * 5


@pytest.mark.parametrize("count", [0, 8, 1000, 10**6])
def test_capacities_of_many_symbols_are_near_each_other(count):
    """Each is another number, of at least as many entries, and programs are no larger for it."""
    counts = Counts({3, 4})
    capacities = [counts.of((count,)) for _ in range(200)]
    assert len(set(capacities)) == 200
    assert count <= min(capacities)
    assert max(capacities) <= 1.25 * count + 4000


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_selection_that_is_put_on_a_pattern_stays_one(layout):
    """What it leaves out, of an array and of stored entries, meets no infinite factor."""
    pattern = value_of(iv.asarray(np.ones((3, 3)) - np.eye(3)).to_layout(layout)).pattern
    condition = np.arange(9).reshape(3, 3) % 2 == 1
    factor = np.where(condition, 1.0, np.inf)
    of_array = Bracket(np.full((3, 3), 2.0), condition)
    entries = run(TABLE["values_at"], (of_array,), {"pattern": pattern})
    of_entries = run(TABLE["from_values"], (entries,), {"pattern": pattern})
    for selection in (of_array, of_entries):
        product = run(TABLE["multiply"], (run(stored_on, (selection,), {"pattern": pattern}), factor), {})
        np.testing.assert_array_equal(to_strided(select(product)), np.where(condition, 2.0, 0.0))
