"""What of a compiled function is not machine code: ops by name, with the reason; nothing of usual models."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.codegen.programs.nodes import Product, walk
from iverson.core.dispatch import bind, make_handle
from iverson.core.scalars import SCALARS
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.lowering.graph_lowering import Native
from iverson.graph.native.step_kinds import Kinds
from iverson.graph.passes import simplified
from iverson.graph.sparse import sparse_lowering
from iverson.graph.sparse.sparse_lowering import on_patterns
from iverson.layouts import Sparse, to_strided
from iverson.ops import TABLE
from tests.conformance.product import (
    EXHAUSTIVE,
    Case,
    by_turns,
    dtypes_of,
    held_and_dense,
    ops,
    samples_of,
    some,
    turn,
)

#: Ops that a program leaves to Python, by what they are.
EXCEPTIONS = {
    "decompositions of several steps in NumPy or SciPy, and iterations": {
        "adjugate", "adjugate_derivative", "bordered_solve", "eig", "eigsh", "free_of_basis",
        "iterative_solve", "pinv", "eigen_spectral", "singular_spectral", "logm", "lu",
        "matrix_exp", "solve_sylvester", "solve_toeplitz", "sqrtm",
    },
    "of complex numbers: a factor that follows the real part, a choice of a series": {"logcumsumexp", "sinc"},
}  # fmt: skip
NAMES = set().union(*EXCEPTIONS.values())


def library_steps(function, handles):
    graph = simplified(iv.jit(function).graph(*handles))
    how = on_patterns(graph)
    graph = graph if how is None else dead_code(how.core)
    kinds = Kinds(graph)
    return [e for e in graph.equations if kinds.of(e) == "library"]


def cases():
    for name, op in sorted((n, TABLE[n]) for n in ops()):
        for dtype in dtypes_of(op) if name in NAMES else some(name, dtypes_of(op)):
            for sample in samples_of(op, dtype)[:1]:
                yield pytest.param(op, sample, id=f"{name}-{dtype}")


def calls(op, sample):
    """The op, and the gradient of its squared results, as functions of its arrays; handles of these."""
    args = list(sample.args)
    at = [k for k, a in enumerate(args) if hasattr(a, "shape")]

    def forward(*arrays):
        full = list(args)
        for k, x in zip(at, arrays, strict=True):
            full[k] = x
        return bind(op, tuple(full), dict(sample.params))

    floating = tuple(n for n, k in enumerate(at) if args[k].dtype.kind in "fc")

    def loss(*arrays):
        out = forward(*arrays)
        outs = out if isinstance(out, tuple) else (out,)
        return sum(iv.real(x * iv.conj(x)).sum() for x in outs if x.dtype.kind in "fc")

    return forward, iv.grad(loss, floating) if floating else None, [make_handle(args[k]) for k in at]


def closed_over(function, handles, given):
    """The function of these of its arguments, which closes over the others; and them."""
    own = [k for k in range(len(handles)) if k in given]

    def of_given(*xs):
        now = dict(zip(own, xs, strict=True))
        return function(*(now.get(k, x) for k, x in enumerate(handles)))

    return of_given, [handles[k] for k in own]


def test_ops_that_are_not_native_are_listed():
    """Of each op and its gradient, on real and complex samples."""
    found = set()
    for case in cases():
        op, sample = case.values
        forward, gradient, handles = calls(op, sample)
        if not handles:
            continue
        steps = library_steps(forward, handles)
        if not steps and gradient is not None and op.differentiable and forward(*handles) is not None:
            outs = forward(*handles)
            if any(x.dtype.kind in "fc" for x in (outs if isinstance(outs, tuple) else (outs,))):
                steps = library_steps(gradient, handles)
        names = {e.op.name for e in steps}
        assert names <= NAMES, case.id
        found |= names
    assert found == NAMES


#: Of sparse operands, what is left to Python besides: of an op, or of its gradient. What these read and give
#: is packed and opened.
SPARSE_EXCEPTIONS = {"products of two sparse matrices, and parts of them": {"matmul", "sampled_product"}}
#: Products of two sparse vectors that are too long to be made arrays.
OF_VECTORS = {"linear_convolution"}
#: Of sparse matrices that are too large to be made arrays.
OF_LARGE = {"argtop", "det", "eigvalsh", "rfft", "slogdet", "solve_triangular", "svdvals"}
PACKED = {"from_values", "values_at"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_ops_on_sparse_operands_that_are_not_native_are_listed(layout, large, monkeypatch):
    """Of each op that takes one, and of its gradient, on its first sample; in COO, of slices too."""
    allowed = NAMES | PACKED | set().union(*SPARSE_EXCEPTIONS.values())
    if large:  # so that no array of an operand's shape is made
        monkeypatch.setattr(sparse_lowering, "_SMALL", 1)
        monkeypatch.setattr(sparse_lowering, "_FACTOR", 0)
        allowed |= OF_LARGE | OF_VECTORS if layout == "coo" else OF_LARGE
    found = set()
    always = set().union(*SPARSE_EXCEPTIONS.values())
    for name in ops():  # each op in one layout and one size
        if not (EXHAUSTIVE or name in always or turn(name, 4) == 2 * (layout == "csr") + large):
            continue
        for sample in turns(list(sparse_samples(name, layout)), layout):
            forward, gradient, handles = calls(TABLE[name], sample)
            outs = forward(*handles)
            steps = {e.op.name for e in library_steps(forward, handles)}
            floating = any(x.dtype.kind in "fc" for x in (outs if isinstance(outs, tuple) else (outs,)))
            of_gradient = set()
            native = [] if steps else [forward]
            if gradient is not None and TABLE[name].differentiable and floating:
                of_gradient = {e.op.name for e in library_steps(gradient, handles)}
                native += [] if of_gradient else [gradient]
            strided = [k for k, x in enumerate(handles) if x.layout == "strided"]
            for f in (
                native if strided and not large else ()
            ):  # so are they where what is sparse is a constant
                assert not library_steps(*closed_over(f, handles, strided)), name
            for own in (steps, of_gradient):
                assert not own or not own <= PACKED, name
                assert own <= allowed, (name, own - allowed)
                found |= own
    assert found >= always


#: Ops whose rules on entries are not those of a whole family.
OWN = ("cross_entropy", "extremum_shares_at", "kron", "kron_sampled", "sampled_product", "scatter_add",
       "segment_max", "segment_softmax", "softmax_pullback")  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "layout"), by_turns(itertools.product(OWN, ["csr", "coo", "bsc"]), 6))
def test_parts_and_segments_of_stored_values_are_those_of_eager_calls(name, layout, monkeypatch):
    """Each operand stored, or all but one; of operands so large that no array of their shape is made."""
    monkeypatch.setattr(sparse_lowering, "_SMALL", 1)
    monkeypatch.setattr(sparse_lowering, "_FACTOR", 0)
    found = list(sparse_samples(name, layout))
    samples = [*found, *samples_of(TABLE[name], "float64")[-1:]]
    for sample in found:
        stored = [k for k, x in enumerate(sample.args) if isinstance(x, Sparse)]
        samples += [
            replace(sample, args=tuple(to_strided(x) if n == k else x for n, x in enumerate(sample.args)))
            for k in (stored if len(stored) > 1 else ())
        ]
    assert found or layout == "bsc"
    for sample in samples if EXHAUSTIVE else samples[-2:]:
        forward, gradient, handles = calls(TABLE[name], sample)
        outs = forward(*handles)
        ways = [forward, gradient if TABLE[name].differentiable and outs.dtype.kind == "f" else None]
        for f in ways if len(handles) > 1 or ways[1] is None else [ways[1]]:
            if f is None:
                continue
            for a, b in zip(entries_of(iv.jit(f)(*handles)), entries_of(f(*handles)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def entries_of(found):
    return [x.to_dense().detach().numpy() for x in (found if isinstance(found, tuple) else (found,))]


def turns(samples, layout):
    """The first of them; in COO the last too, which may be of slices."""
    return samples[:1] + (samples[1:][-1:] if layout == "coo" else [])


def sparse_samples(name, layout):
    """The calls of an op with arguments in a layout, where it takes them."""
    for k, sample in enumerate(samples_of(TABLE[name], "float64")):
        held, _ = held_and_dense(Case(name, layout, "float64", k, (), 0))
        if not any(isinstance(x, Sparse) for x in held) or name == "from_values":  # which takes entries
            continue
        try:
            bind(TABLE[name], tuple(map(handle_of, held)), dict(sample.params))
        except iv.errors.LinearAlgebraError:
            continue
        yield replace(sample, args=held)


def handle_of(x):
    return make_handle(x) if hasattr(x, "shape") else x


#: Where special functions are compared: their domains, edges, and beyond; and where sums of series do not
#: cancel, with how far they may differ.
PLACES = [-np.inf, -40.0, -3.0, -2.9, -1.5, -0.5, -0.0, 0.0, 1e-300, 0.2, 0.5, 0.9, 1.0, 1.3, 2.0, 7.5, 60.0,
          np.inf, np.nan]  # fmt: skip
EVEN = [0.0, 0.3, 1.3, 2.0, np.inf, np.nan]


def special_functions(series):
    """Their names, with orders, and how many other arguments they have."""
    for s in SCALARS.values():
        if (s.space or s.orders) and (s.series is not None) == series:
            for orders in [(n,) * s.orders for n in ((2,) if series else (1, 3))] if s.orders else [()]:
                yield s.name, orders, s.arity - s.orders


@pytest.mark.parametrize(
    ("dtype", "series"), some("special", [("float64", False), ("float32", False), ("float64", True)], 2)
)
def test_special_functions_are_those_of_eager_calls(dtype, series):
    """All of them in one function, on their domains, the edges of these, and beyond."""
    places, rtol = (EVEN, 1e-12) if series else (PLACES, 8 * np.finfo(dtype).eps)
    grid = np.stack(np.meshgrid(places, places, [0.0, 0.3, 1.0]), -1).reshape(-1, 3).astype(dtype)
    arrays = [iv.asarray(np.ascontiguousarray(x)) for x in grid.T]

    def all_of(*xs):
        named = special_functions(series)
        return {(n, orders): bind(TABLE[n], (*orders, *xs[:count]), {}) for n, orders, count in named}

    compiled = iv.jit(all_of)
    with np.errstate(all="ignore"):
        found, expected = compiled(*arrays), all_of(*arrays)
    for name, x in expected.items():
        assert found[name].dtype == x.dtype
        np.testing.assert_allclose(found[name].numpy(), x.numpy(), rtol=rtol, err_msg=str(name))
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


#: Sums of series of which the order says how many terms they have: where it is an array, it is not known.
SERIES = {
    *("betainc_order", "erfcx_order", "gammainc_order", "i0e_order", "k0e_order", "psi_step_order"),
    "zeta_order",
}


def test_orders_that_are_arrays_are_native_but_of_series():
    x, n = iv.asarray(np.array([0.5, 1.3, 2.0])), iv.asarray(np.array([0.0, 1.0, 2.0]))
    with_orders = [s for s in SCALARS.values() if s.orders]
    found = set()
    for s in with_orders:
        f = lambda n, x, s=s: bind(TABLE[s.name], (*[n] * s.orders, *[x] * (s.arity - s.orders)), {})
        found |= {e.op.name for e in library_steps(f, [n, x])}
        np.testing.assert_allclose(iv.jit(f)(n, x).numpy(), f(n, x).numpy(), rtol=1e-12)
    assert found == SERIES


PARTS = [-np.inf, -3.0, -1.0, -0.5, -0.0, 0.0, 1e-3, 0.9, 1.0, 2.5, np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_functions_are_those_of_eager_calls(dtype):
    """All of them in one function: NumPy's, but where they overflow or cancel; and on the edges the same."""
    scalars = [s for s in SCALARS.values() if "c" in s.kinds and s.name != "where"]
    grid = np.stack(np.meshgrid(*[PARTS] * 2), -1).reshape(-1, 2)
    x = (grid[:, 0] + 0j).astype(dtype)
    x.imag = grid[:, 1]
    arrays = [iv.asarray(x), iv.asarray(np.full_like(x, 0.7 - 1.3j))]

    def all_of(*xs):
        return {s.name: bind(TABLE[s.name], xs[: s.arity], {}) for s in scalars}

    compiled = iv.jit(all_of)
    with np.errstate(all="ignore"):
        found, expected = compiled(*arrays), all_of(*arrays)
    eps = np.finfo(dtype).eps
    for name, y in expected.items():
        assert found[name].dtype == y.dtype
        np.testing.assert_allclose(found[name].numpy(), y.numpy(), rtol=8 * eps, atol=4 * eps, err_msg=name)
    (entry,) = compiled._entries.values()
    others = [step for step in entry.compiled._program.steps if not isinstance(step, Native)]
    assert {step.equation.op.name for step in others} == {"sinc"}  # a choice of a series, in NumPy


@pytest.mark.parametrize("dtype", some("entries that move", ["complex64", "complex128"]))
def test_complex_entries_move_and_are_summed_as_in_eager_calls(dtype):
    """Rows of whole and of masked vectors, strides, steps back, indices, casts, sums, products, a scan."""
    r = np.random.default_rng(0)
    x, w = ((r.standard_normal(s) + 1j * r.standard_normal(s)).astype(dtype) for s in ((5, 19), (19, 7)))
    rows = np.array([3, 0, 3, 4])

    def f(x, w, rows):
        moved = [x.T, x[:, ::-2], x[1:, 3:9], iv.take(x, rows, axis=0), iv.roll(x, 3, axis=1)]
        sums = [
            x.sum(),
            x.sum(axis=0),
            x.mean(axis=1),
            iv.prod(x[:, :3], axis=1),
            iv.cumulative_sum(x, axis=1),
        ]
        products = [x @ w, iv.conj(w.T) @ iv.conj(x.T), x @ w.real, iv.vecdot(x, x), iv.linalg.vector_norm(w)]
        chosen = iv.where(iv.real(x) > 0, x * 2j, iv.exp(x) / (x + 3))
        return [*moved, *sums, *products, chosen, iv.astype(x.imag, dtype), iv.abs(x) * x]

    def loss(x, w, rows):
        return sum(iv.real(y * iv.conj(y)).sum() * (k + 1) for k, y in enumerate(f(x, w, rows)))

    arrays = list(map(iv.asarray, (x, w, rows)))
    tol = 100 * np.finfo(dtype).eps
    gradient = iv.grad(loss, (0, 1))
    both = lambda *a: [*f(*a), *gradient(*a)]
    compiled = iv.jit(both)
    for found, expected in zip(compiled(*arrays), both(*arrays), strict=True):
        assert found.dtype == expected.dtype
        scale = np.abs(expected.numpy()).max()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=tol, atol=tol * scale)
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    some("orders of eager calls", [("float64", (3, 37, 2)), ("float32", (2, 64, 1)), ("int64", (1, 2, 1)),
                                   ("uint8", (2, 33, 1)), ("bool", (2, 5, 3))], 2),
)  # fmt: skip
def test_orders_are_those_of_eager_calls(dtype, shape):
    """Rows of lengths that are powers of two, and not; equal entries, nan, infinities and signed zeros."""
    r = np.random.default_rng(0)
    x = r.integers(0, 40, shape).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[::5], x.flat[1::7], x.flat[2::11], x.flat[3::6] = np.nan, np.inf, -np.inf, -0.0
    queries = np.concatenate([x[0, :, 0], x[0, :, 0]]).reshape(2, -1)

    def f(x, queries):
        lines = [x, iv.permute_dims(x, (1, 2, 0))]
        made = [g(v, axis=k, descending=d) for g in (iv.sort, iv.argsort) for v, k, d in zip(
            [*lines, x], (1, 0, -1), (False, True, True), strict=True)]  # fmt: skip
        made += iv.topk(x, min(3, shape[1]), axis=1)
        made += [iv.searchsorted(iv.sort(x[0, :, 0]), queries, side=s) for s in ("left", "right")]
        if x.dtype.kind != "b":
            made += [g(v, axis=k) for g in (iv.cummax, iv.cummin) for v, k in zip(lines, (1, 0), strict=True)]
        return made

    arrays = [iv.asarray(x), iv.asarray(queries)]
    compiled = iv.jit(f)
    for found, expected in zip(compiled(*arrays), f(*arrays), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


@pytest.mark.parametrize("dtype", some("orders", ["complex64", "complex128"]))
def test_orders_of_complex_numbers_are_those_of_eager_calls(dtype):
    """By real parts, then by imaginary ones; with nan in one of them, or in both."""
    parts = [1.0, -np.inf, 0.0, np.nan, 2.0, 1.0]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    x = np.random.default_rng(0).permutation(np.concatenate([x, x])).reshape(4, 18)
    numbers = np.where(np.isnan(x), 3 + 1j, x).astype(dtype)

    def f(x, numbers):
        made = [bind(TABLE[name], (v,), {"axis": k, "descending": d, **more})
                for name, more in (("sort", {}), ("argsort", {"stable": True}))
                for v in (x, numbers) for k, d in ((1, False), (0, True))]  # fmt: skip
        made += [bind(TABLE[name], (v,), {"axis": k, "keepdims": kept}) for name in ("argmax", "argmin")
                 for v in (x, numbers) for k, kept in ((1, False), (0, True), (None, False))]  # fmt: skip
        line = bind(TABLE["sort"], (iv.reshape(x, (-1,)),), {"axis": 0, "descending": False})
        return made + [bind(TABLE["searchsorted"], (line, x), {"side": s}) for s in ("left", "right")]

    arrays = [iv.asarray(x), iv.asarray(numbers)]
    compiled = iv.jit(f)
    for found, expected in zip(compiled(*arrays), f(*arrays), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


def test_gradients_of_orders_and_scans_are_those_of_eager_calls():
    r = np.random.default_rng(1)
    x = iv.asarray(r.permutation(24).reshape(4, 6).astype("float64"))
    weights = iv.asarray(r.standard_normal(24))

    def loss(x):
        made = [iv.sort(x, axis=1), iv.sort(x, axis=0, descending=True), iv.cummax(x, axis=1)]
        made += [iv.logcumsumexp(x / 9, axis=1), iv.topk(x, 4, axis=0).values]
        made.append(iv.convolve(x[0], x[1, :3]))
        flat = iv.concat([iv.reshape(iv.sin(y), (-1,)) for y in made])
        return (flat[:24] * weights).sum() + (flat**2).sum()

    gradient = iv.grad(loss)
    second = iv.grad(lambda x: (gradient(x) ** 2).sum())
    every = lambda x: (loss(x), gradient(x), second(x))
    compiled = iv.jit(every)
    for found, expected in zip(compiled(x), every(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)
    (entry,) = compiled._entries.values()
    assert all(isinstance(step, Native) for step in entry.compiled._program.steps)


# --- models -----------------------------------------------------------------------------------------

rng = np.random.default_rng(0)


def leaf(*shape):
    values = (rng.standard_normal(shape) * 0.2).astype("float32")
    return iv.asarray(values, copy=True, requires_grad=True)


def data(*shape):
    return rng.standard_normal(shape).astype("float32")


def mlp():
    params = [leaf(6, 8), leaf(8), leaf(8, 4), leaf(4)]

    def loss(p, x, y):
        return iv.cross_entropy(iv.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)

    return params, loss, (data(5, 6), rng.integers(0, 4, 5))


def convolutional():
    params = [leaf(3, 3, 1, 4), leaf(4), leaf(36, 5)]

    def convolved(x, w):
        _, rows, columns, _ = x.shape
        h, v, _, _ = w.shape
        parts = [x[:, i : rows - h + 1 + i, j : columns - v + 1 + j] for i in range(h) for j in range(v)]
        return iv.concat(parts, axis=-1) @ iv.reshape(w, (-1, w.shape[-1]))

    def loss(p, x, y):
        z = iv.relu(convolved(x, p[0]) + p[1])
        z = iv.reshape(z, (z.shape[0], 3, 2, 3, 2, 4)).max(axis=(2, 4))
        return iv.cross_entropy(iv.reshape(z, (z.shape[0], -1)) @ p[2], y)

    return params, loss, (data(2, 8, 8, 1), rng.integers(0, 5, 2))


def transformer():
    d, length, heads = 8, 6, 2
    params = {name: leaf(d, d) for name in "qkvo"} | {
        "a": leaf(d, 16),
        "b": leaf(16, d),
        "g": leaf(d),
        "h": leaf(d),
    }

    def normalised(p, x):
        mean = x.mean(axis=-1, keepdims=True)
        spread = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        return (x - mean) / iv.sqrt(spread + 1e-5) * p["g"] + p["h"]

    def loss(p, x, y):
        n = normalised(p, x)
        shape = (2, length, heads, d // heads)
        q, k, v = (iv.permute_dims(iv.reshape(n @ p[c], shape), (0, 2, 1, 3)) for c in "qkv")
        weights = iv.softmax(q @ iv.matrix_transpose(k) * 0.5, axis=-1)
        x = x + iv.reshape(iv.permute_dims(weights @ v, (0, 2, 1, 3)), x.shape) @ p["o"]
        x = x + iv.gelu(normalised(p, x) @ p["a"]) @ p["b"]
        return ((x - y) ** 2).mean()

    return params, loss, (data(2, length, d), data(2, length, d))


def graph_attention():
    nodes, edges, d = 10, 30, 4
    params = [leaf(6, d), leaf(d), leaf(d)]

    def loss(p, x, source, target):
        h = x @ p[0]
        e = (h @ p[1])[source] + (h @ p[2])[target]
        weights = iv.segment_softmax(iv.where(e > 0, e, 0.2 * e), target, nodes)
        return (iv.tanh(iv.segment_sum(weights[:, None] * h[source], target, nodes)) ** 2).mean()

    ends = [rng.integers(0, nodes, edges) for _ in range(2)]
    return params, loss, (data(nodes, 6), ends[0], np.sort(ends[1]))


def lstm():
    hidden = 5
    params = [leaf(3, 4 * hidden), leaf(hidden, 4 * hidden), leaf(4 * hidden)]

    def loss(p, xs):
        def cell(carry, x):
            h, s = carry
            z = x @ p[0] + h @ p[1] + p[2]
            i, f, g, o = (z[:, k * hidden : (k + 1) * hidden] for k in range(4))
            s = iv.sigmoid(f) * s + iv.sigmoid(i) * iv.tanh(g)
            h = iv.sigmoid(o) * iv.tanh(s)
            return (h, s), h

        zero = iv.zeros((2, hidden), dtype=iv.float32)
        return (iv.scan(cell, (zero, zero), xs)[1] ** 2).mean()

    return params, loss, (data(7, 2, 3),)


def language():
    params = [leaf(50, 4), leaf(4, 50)]

    def loss(p, words):
        logs = iv.log_softmax(iv.embedding(words, p[0]) @ p[1], axis=-1)
        return -logs[iv.arange(6), words].mean()

    return params, loss, (rng.integers(0, 50, 6),)


def copied(params):
    import optree

    return optree.tree_map(lambda x: iv.asarray(x.detach(), copy=True, requires_grad=True), params)


@pytest.mark.parametrize(
    "model", some("models", [mlp, convolutional, transformer, graph_attention, lstm, language], 3)
)
def test_a_training_step_is_one_native_call_that_allocates_what_it_returns(model):
    params, loss, batch = model()
    other = copied(params)
    opt, eager = optim.SGD(params, lr=0.1), optim.SGD(other, lr=0.1)
    batch = [iv.asarray(x) for x in batch]

    def step(opt, params, *batch):
        opt.zero_grad()
        value = loss(params, *batch)
        value.backward()
        opt.step()
        opt.zero_grad()
        return value.detach()

    compiled = iv.jit(lambda *batch: step(opt, params, *batch))
    for _ in range(3):
        found, expected = compiled(*batch), step(eager, other, *batch)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4)
    (entry,) = compiled._entries.values()
    (native,) = entry.compiled._program.steps
    assert isinstance(native, Native)
    assert [b.shape for b in native.compiled.program.of("out")] == [()]
    gc.collect()
    tracemalloc.start()
    compiled(*batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12_000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(80, 3, 64), (83, 64, 32), (323, 7, 64), (97, 33, 64)]
)
def test_products_with_a_small_right_factor_are_nests(
    rows: int, inner: int, columns: int, dtype: str
) -> None:
    """Alone and of a batch whose rows are those of one matrix, also with an axis of one entry between."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, inner)).astype(dtype)
    b = rng.standard_normal((inner, columns)).astype(dtype)
    compiled = iv.jit(lambda a, b: a @ b)
    for x in (a, a[:, None, None, :], np.stack([a, a])[:, :, None, :]):
        found = compiled(iv.asarray(x), iv.asarray(b)).numpy()
        np.testing.assert_allclose(found, x @ b, rtol=0, atol=64 * inner * np.finfo(dtype).eps)
    for entry in compiled._entries.values():
        for step in entry.compiled._program.steps:
            assert isinstance(step, Native)
            assert not [s for s in walk(step.compiled.program.steps) if isinstance(s, Product)]
