"""Zeros of Jacobians that are known save passes and change nothing; none is claimed where an entry is."""

from __future__ import annotations

import contextlib
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson import te
from iverson.autograd.mode import no_grad
from iverson.core.dispatch import value_of
from iverson.core.python.recent_items import RecentItems
from iverson.errors import ArgumentError, LinearAlgebraError, MissingRuleError, ShapeError
from iverson.ops import TABLE
from iverson.transforms.derivatives import Linearization
from iverson.transforms.jacobians import sparse_jacobian
from iverson.transforms.jacobians.dependence import dependences, structure
from iverson.transforms.jacobians.sparse_jacobian import plan
from tests.conformance.product import by_turns
from tests.graph.programs import as_tuple, calls_of, entries
from tests.tools.entered import python_calls

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
rng = np.random.default_rng(0)


def by_unit_vectors(f, args):
    """The Jacobian with respect to all arguments as a matrix, one pushforward at a time."""
    columns = []
    for k, a in enumerate(args):
        for at in np.ndindex(a.shape):
            tangents = [np.zeros(x.shape, x.dtype) for x in args]
            tangents[k][at] = 1
            out = iv.jvp(f, list(map(iv.asarray, args)), list(map(iv.asarray, tangents)))[1]
            columns.append(np.concatenate([entries(y).ravel() for y in as_tuple(out)]))
    return np.array(columns).T


@pytest.mark.parametrize(
    "name", by_turns((n for n, op in TABLE.items() if op.samples and op.differentiable), 3)
)
def test_what_no_op_reads_it_does_not_depend_on(name):
    for call in calls_of(name):
        args = [a for a in call.args if a.size]
        if len(args) < len(call.args) or not args:
            continue

        def f(*xs, call=call):
            return tuple(y for y in call.function(*xs) if y.dtype.kind in "fc")

        with contextlib.suppress(MissingRuleError, LinearAlgebraError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matrix = by_unit_vectors(f, args)
            line = Linearization(f, list(map(iv.asarray, args)), "jacobian")
            known = np.concatenate([as_booleans(d) for d in dependences(line.variables, line.outputs)])
            assert not np.any((matrix != 0) & ~known)


def as_booleans(dependence):
    """For each entry, whether it may depend on each place."""
    known = dependence.matrix.toarray()
    return known[:, :-1] | known[:, -1:]


def test_equal_structures_have_equal_dependences():
    seen = {}
    for name, op in TABLE.items():
        for call in calls_of(name) if op.samples and op.differentiable else ():
            if not all(a.size for a in call.args) or not call.args:
                continue
            with contextlib.suppress(MissingRuleError, LinearAlgebraError):
                line = Linearization(call.function, list(map(iv.asarray, call.args)), "jacobian")
                ends = [y for y in line.outputs if y.dtype.kind in "fc"]
                key = structure(line.variables, ends)
                found = [as_booleans(d).tolist() for d in dependences(line.variables, ends)]
                assert key is None or seen.setdefault(key, found) == found
    for at in ([0, 2, 1], [0, 1, 2], [True, True, False]):  # places named otherwise than by parameters
        line = Linearization(lambda x, at=at: x[np.array(at)], [iv.asarray(np.ones(3))], "jacobian")
        key = structure(line.variables, line.outputs)
        found = [as_booleans(d).tolist() for d in dependences(line.variables, line.outputs)]
        assert key is not None
        assert seen.setdefault(key, found) == found
    assert len(seen) > 100


def test_the_zeros_of_a_function_are_found_once(monkeypatch):
    walks = []
    monkeypatch.setattr(
        sparse_jacobian, "dependences", lambda *a, **k: walks.append(a) or dependences(*a, **k)
    )
    monkeypatch.setattr(sparse_jacobian, "_plans", RecentItems(8))
    for f, count in ((stencil, 1), (five_points, 2), (stencil, 2)):
        for scale in (1.0, 2.0):
            x = scale * VECTOR[:100].reshape((100,) if f is stencil else (10, 10))
            found = iv.jacobian(f)(iv.asarray(x)).numpy()
            assert len(walks) == count
            np.testing.assert_allclose(found.reshape(-1, 100), by_unit_vectors(f, [x]), rtol=1e-12)


@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_plans_are_kept_as_far_as_their_entries_reach(layout, monkeypatch):
    """The next call of a function finds its plan and pattern, unless it lists more than all plans may."""
    plans = sparse_jacobian._plans
    monkeypatch.setattr(sparse_jacobian, "_plans", RecentItems(8, plans.weigh, 400))
    for n, is_kept in ((20, True), (60, True), (300, False), (60, True)):
        found = iv.jacobian(stencil, layout=layout)
        first, second = (found(iv.asarray(scale * VECTOR[:n])) for scale in (1.0, 2.0))
        for jacobian, scale in ((first, 1.0), (second, 2.0)):
            dense = iv.to_layout(jacobian, "strided").numpy()
            expected = by_unit_vectors(stencil, [scale * VECTOR[:n]])
            np.testing.assert_allclose(dense, expected, rtol=1e-12)
        kept = list(sparse_jacobian._plans.values())
        assert sum(map(plans.weigh, kept)) <= 400
        assert any(p is not None and p.columns.max() == n - 1 for (p,) in kept) is is_kept
        if layout != "strided":
            assert (value_of(first).pattern is value_of(second).pattern) is is_kept


def test_what_passes_costs_the_functions_it_enters():
    gradient = iv.vmap(iv.grad(lambda w, x: iv.sum(iv.tanh(x @ w))), (None, 0))
    w, x = iv.asarray(MATRIX), iv.asarray(np.ones((3, 4)))
    assert python_calls(lambda: gradient(w, x)) <= 745
    assert python_calls(lambda: iv.jacobian(stencil)(iv.asarray(VECTOR))) <= 1600


#: Functions of a matrix of 6 x 4, of which entries of the Jacobian are zero, and how entries are mixed.
STEPS = {
    "sine": iv.sin,
    "neighbours": lambda x: x - 0.5 * iv.roll(x, 1, axis=0) * x,
    "slices": lambda x: iv.concat([x[1:] * x[:-1], x[:1]]),
    "rows": lambda x: iv.tanh(x @ MATRIX),
    "softmax": lambda x: iv.softmax(x, axis=1),
    "turned": lambda x: x.T.reshape(6, 4),
    "assigned": lambda x: assigned(x),  # noqa: PLW0108
    "taken": lambda x: iv.take(x, np.array([0, 2, 2, 5, 1, 3]), axis=0),
    "scattered": lambda x: x + iv.sum(x, axis=1, keepdims=True),
    "one row of all": lambda x: iv.concat([x[:-1], iv.sum(x, axis=0, keepdims=True) * iv.sum(x)]),
    "choice": lambda x: iv.where(x > 0, x, iv.flip(x, axis=1)),
    "scan": lambda x: iv.cumulative_sum(x, axis=1),
    "gradient": iv.grad(lambda x: iv.sum(iv.sin(x[1:] * x[:-1]))),
}
MATRIX = rng.normal(size=(4, 4))


def assigned(x):
    y = x * 2
    y[1:3] = x[:2] * x[2:4]
    return y


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
    st.sampled_from(["auto", "forward", "reverse"]),
    st.sampled_from([None, 2]),
)
def test_jacobians_of_random_functions(steps, mode, chunk_size):
    def f(x):
        for name in steps:
            x = STEPS[name](x)
        return x[:, 1:], iv.sum(x, axis=0)

    x = rng.normal(size=(6, 4))
    found = iv.jacobian(f, mode=mode, chunk_size=chunk_size)(iv.asarray(x))
    rows = np.concatenate([entries(block).reshape(-1, 24) for block in found])
    np.testing.assert_allclose(rows, by_unit_vectors(f, [x]), rtol=1e-10, atol=1e-12)


@given(st.sampled_from(sorted(STEPS)), st.sampled_from(["auto", "forward", "reverse"]))
def test_sparse_jacobians_store_what_may_not_be_zero(name, mode):
    """The same entries at any point, however many of the values are zero there."""

    def f(x):
        return STEPS[name](x), iv.sum(x * x), x[0, 0]

    patterns = []
    for x in (rng.normal(size=(6, 4)), np.zeros((6, 4))):
        dense = iv.jacobian(f, mode=mode)(iv.asarray(x))
        stored = iv.jacobian(f, mode=mode, layout="coo")(iv.asarray(x))
        for a, b in zip(dense, stored, strict=True):
            assert b.layout == "coo"
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)
        patterns.append([b.indices().tolist() for b in stored])
    assert patterns[0] == patterns[1]
    assert stored[2].nnz == 1


def test_a_sparse_jacobian_takes_nothing_of_the_size_of_a_dense_one():
    n = 200_000
    x = iv.asarray(np.linspace(0, 1, n))
    with iv.explain.count() as done:
        found = iv.jacobian(stencil, layout="csr")(x)
        second = iv.hessian(lambda u: iv.sum(stencil(u)), layout="csc")(x)
    assert (found.layout, second.layout) == ("csr", "csc")
    assert found.nnz == 3 * (n - 2)
    assert second.nnz == 3 * n - 4
    assert done.total_bytes < 4000 * n
    small = iv.hessian(lambda u: iv.sum(stencil(u)))(x[:9])
    np.testing.assert_allclose(
        iv.hessian(lambda u: iv.sum(stencil(u)), layout="csr")(x[:9]).numpy(), small.numpy()
    )


def test_sparse_jacobians_are_compiled_mapped_and_differentiated():
    x = iv.asarray(VECTOR[:12])
    of = iv.jacobian(stencil, layout="csr")
    expected = by_unit_vectors(stencil, [VECTOR[:12]])
    np.testing.assert_allclose(iv.jit(lambda x: of(x) @ x)(x).numpy(), expected @ VECTOR[:12], rtol=1e-12)
    both = iv.vmap(lambda x: of(x) @ x)(iv.stack([x, x]))
    np.testing.assert_allclose(both[1].numpy(), expected @ VECTOR[:12], rtol=1e-12)
    dense = iv.grad(lambda x: iv.sum((iv.jacobian(stencil)(x) @ x) ** 2))(x)
    np.testing.assert_allclose(
        iv.grad(lambda x: iv.sum((of(x) @ x) ** 2))(x).numpy(), dense.numpy(), rtol=1e-10
    )


@pytest.mark.parametrize("layout", ["strided", "coo"])
def test_real_and_complex_arguments_and_results_together(layout):
    """Each block is that of one result in one argument alone."""
    args = iv.asarray(VECTOR[:12]), iv.asarray(VECTOR[:12] + 1j * VECTOR[12:24])
    f = lambda a, b: (a[1:] * a[:-1], b * b[::-1] * a, iv.real(b) * a)
    found = iv.jacobian(f, argnums=(0, 1), layout=layout)(*args)
    for k, row in enumerate(found):
        for argument, block in enumerate(row):
            alone = iv.jacobian(lambda *xs, k=k: f(*xs)[k], argnums=argument)(*args)
            np.testing.assert_allclose(block.numpy(), alone.numpy(), rtol=1e-12, atol=1e-14)


def test_layouts_that_do_not_hold_a_block_are_refused():
    with pytest.raises(ShapeError, match=r"'csr' for a block of shape \(2, 2, 2, 2\); expected 'coo'"):
        iv.jacobian(lambda x: x * x, layout="csr")(iv.ones((2, 2)))
    with pytest.raises(ShapeError, match="'strided' for a number"):
        iv.jacobian(iv.sin, layout="coo")(iv.asarray(1.0))
    with pytest.raises(ArgumentError, match="masked"):
        iv.jacobian(iv.sin, layout="coo")(iv.masked_tensor([1.0, 2.0], [True, False]))
    with pytest.raises(ArgumentError, match="layout"):
        iv.hessian(lambda x: (x * x).sum(), layout="bsr")(iv.ones(2))
    assert iv.jacobian(lambda x: x * x, layout="csr")(iv.ones(0)).shape == (0, 0)


def stencil(u):
    inner = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]) + 0.01 * iv.tanh(u[1:-1])
    return inner * u[1:-1]


def five_points(x):
    return x * x * 4 - (iv.roll(x, 1, axis=0) + iv.roll(x, -1, axis=0) + iv.roll(x, (1, -1), axis=(1, 1)))


def arrow(x):
    return iv.concat([iv.sin(x), iv.sum(x**2, keepdims=True)])


VECTOR = rng.normal(size=400)
PASSES = {
    "stencil": (stencil, VECTOR, (3, 0)),
    "hessian of a stencil": (iv.grad(lambda u: iv.sum(stencil(u) ** 2)), VECTOR, (5, 0)),
    "batch of examples": (lambda x: iv.sum(iv.tanh(x @ MATRIX) ** 2, axis=1), VECTOR.reshape(100, 4), (1, 0)),
    "both modes": (arrow, VECTOR, (1, 1)),
    "nothing known": (lambda x: x * iv.sum(x), VECTOR, None),
}


@pytest.mark.parametrize("name", PASSES)
def test_how_many_passes_there_are(name):
    f, x, expected = PASSES[name]
    made = plan(Linearization(f, [iv.asarray(x)], "jacobian"), "auto")
    assert (made and (made.count, made.alone.size)) == expected


BANDED = sp.diags_array([rng.normal(size=60), rng.normal(size=59)], offsets=[0, 1], format="csr")
NEAREST = (rng.integers(0, 40, 100), rng.integers(0, 40, 100))


@te.op
def second_difference(u):
    return te.compute((u.shape[0] - 2,), lambda i: u[i] - 2 * u[i + 1] + u[i + 2])


@te.op
def looked_up(u, at):
    return te.compute(at.shape, lambda i: u[at[i]] * te.F.sin(u[i]))


@te.op
def smoothed(u):
    def step(s):
        return te.compute(
            u.shape,
            lambda t, i: te.select(t == 0, u[t, i], 0.5 * (s[t - 1, i] + s[t - 1, te.clamp(i - 1, 0, 9)])),
        )

    return te.scan(u.shape, step)


def laplacian(scale):
    """A graph Laplacian whose weights are an argument: values on a pattern that is known."""
    edges = iv.sparse_coo_tensor(np.stack(NEAREST), scale, (40, 40)).coalesce()
    return lambda x: edges @ x


def diffused(u, _):
    return u + 0.1 * (iv.roll(u, 1) - 2 * u + iv.roll(u, -1)) * u, u[::2]


#: Functions of a vector, its extent, and how many entries may be nonzero.
STORED = {
    "sparse times dense": (lambda x: iv.from_scipy(BANDED) @ x, 60, 119),
    "dense times sparse": (lambda x: x @ iv.from_scipy(BANDED), 60, 119),
    "csc": (lambda x: iv.from_scipy(BANDED.tocsc()) @ iv.sin(x), 60, 119),
    "coo": (lambda x: iv.from_scipy(BANDED.tocoo()) @ x, 60, 119),
    "bsr": (lambda x: iv.from_scipy(BANDED.tobsr((2, 2))) @ x, 60, 4 * (30 + 29)),
    "twice": (lambda x: iv.from_scipy(BANDED) @ (iv.from_scipy(BANDED) @ x), 60, 3 * 60 - 3),
    "scaled by a pattern": (lambda x: iv.sum(iv.from_scipy(BANDED) * x, axis=0), 60, 60),
    "matrices": (lambda x: iv.from_scipy(BANDED[:8, :8]) @ x.reshape(8, 8), 64, 15 * 8),
    "weights on edges": (lambda x: laplacian(x[:100])(iv.asarray(VECTOR[:40])), 100, 100),
    "gradient": (iv.grad(lambda x: iv.sum((iv.from_scipy(BANDED) @ x) ** 4)), 60, 178),
    "detached": (lambda x: x * iv.sum(x.detach()), 60, 60),
    "index notation": (second_difference, 60, 3 * 58),
    "indices that are data": (lambda x: looked_up(x, np.array([3, 3, 0, 1, 4])), 10, 9),
    "scan in index notation": (lambda x: smoothed(x.reshape(4, 10)), 40, 10 + 19 + 27 + 34),
    "convolution": (lambda x: iv.nn.conv1d(x.reshape(1, 1, -1), iv.ones((1, 1, 3))), 60, 58 * 3),
    "convolution of vectors": (lambda x: iv.convolve(x, iv.ones(3), mode="valid"), 60, 58 * 3),
    "segments": (lambda x: iv.segment_sum(x, np.arange(60) // 2, 30), 60, 60),
    "softmax of segments": (lambda x: iv.segment_softmax(x, np.arange(60) // 2, 30), 60, 120),
    "batch of solutions": (
        lambda x: iv.linalg.solve(x.reshape(5, 4, 4) + 9 * iv.eye(4), iv.ones((5, 4, 1))),
        80,
        320,
    ),
    "batch of factors": (lambda x: iv.linalg.inv(x.reshape(15, 2, 2) + 9 * iv.eye(2)), 60, 240),
    "cumulative sum": (iv.cumulative_sum, 60, 60 * 61 // 2),
    "a long row": (lambda x: iv.concat([x[1:], iv.sum(x[:50], keepdims=True)]), 60, 59 + 50),
    "compiled": (iv.jit(lambda x: x[1:] * x[:-1]), 60, 118),
    "a compiled gradient": (iv.grad(iv.jit(lambda x: iv.sum((x[1:] * x[:-1]) ** 2))), 60, 178),
    "a compiled choice": (lambda x: iv.jit(iv.take)(x, iv.asarray(np.arange(60)[::-1].copy())), 60, 60),
    "checkpointed": (iv.checkpoint(lambda x: x[1:] * x[:-1]), 60, 118),
    "branches": (lambda x: iv.cond(x[0] > 0, lambda x: x[1:], lambda x: x[:-1], x), 60, 118),
    "a compiled branch": (
        iv.jit(lambda x: iv.cond(x[0] > 0, lambda x: x[1:], lambda x: x[:-1], x)),
        60,
        118,
    ),
    "steps of a scan": (lambda x: iv.scan(diffused, x, iv.zeros(3))[0], 60, 7 * 60),
    "results of steps": (lambda x: iv.scan(diffused, x, iv.zeros(3))[1], 60, (1 + 3 + 5) * 30),
    "slices of a scan": (
        lambda x: iv.scan(lambda c, a: (c + a[0], c * a), iv.ones(15), x.reshape(4, 15))[1],
        60,
        15 * (1 + 2 + 3 + 4),
    ),
    "a scan from behind": (
        lambda x: iv.scan(lambda c, a: (c + a, c * a), iv.ones(15), x.reshape(4, 15), reverse=True)[1],
        60,
        15 * (1 + 2 + 3 + 4),
    ),
    "a compiled scan": (iv.jit(lambda x: iv.scan(diffused, x, iv.zeros(3))[0]), 60, 7 * 60),
    "a constant of steps": (
        lambda x: iv.scan(lambda c, _: (iv.roll(c, 1) * x, None), iv.ones(60), iv.zeros(3))[0],
        60,
        3 * 60,
    ),
    "packed": (lambda x: iv.asarray(x)[np.arange(60) % 3 == 0], 60, 20),
}


@pytest.mark.parametrize("name", STORED)
def test_what_a_jacobian_stores(name):
    """As many entries as may be nonzero, in every mode, and with values of the dense one."""
    f, n, count = STORED[name]
    x = iv.asarray(0.5 + rng.uniform(size=n))
    found = iv.jacobian(f, layout="coo")(x)
    assert found.nnz == count
    expected = by_unit_vectors(f, [x.numpy()])
    for mode in ("auto", "forward", "reverse"):
        dense = iv.jacobian(f, mode=mode)(x).numpy().reshape(-1, n)
        np.testing.assert_allclose(dense, expected, rtol=1e-10, atol=1e-12)
        stored = iv.jacobian(f, mode=mode, layout="coo")(x)
        assert stored.nnz == count
        np.testing.assert_allclose(stored.numpy().reshape(-1, n), expected, rtol=1e-10, atol=1e-12)
    compiled = iv.jit(iv.jacobian(f, layout="coo"))(x)
    np.testing.assert_allclose(compiled.numpy().reshape(-1, n), expected, rtol=1e-10, atol=1e-12)
    both = iv.vmap(iv.jacobian(f))(iv.stack([x, x]))[1].numpy().reshape(-1, n)
    np.testing.assert_allclose(both, expected, rtol=1e-10, atol=1e-12)


def test_a_pattern_that_may_change_hides_no_derivative():
    """Entries that S does not store have derivatives: where S is differentiated around, they count."""
    s = iv.from_scipy(BANDED[:6, :6])
    x = iv.asarray(VECTOR[:6])

    def of(s):
        return iv.jacobian(lambda x: s @ x)(x)

    dense = by_unit_vectors(of, [BANDED[:6, :6].toarray()])
    found = iv.jacobian(of)(s).numpy().reshape(36, 36)
    stored = BANDED[:6, :6].toarray().ravel() != 0
    np.testing.assert_allclose(found[:, stored], dense[:, stored], atol=1e-12)
    pushed = iv.jvp(of, [s], [iv.ones((6, 6))])[1]
    np.testing.assert_allclose(pushed.numpy(), np.ones((6, 6)))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_pattern_that_a_trace_does_not_know(layout):
    """A sparse argument of a compiled function: any of its entries may be stored."""
    x = iv.asarray(VECTOR[:20])
    f = iv.jit(lambda s, x: iv.jacobian(lambda x: s @ x)(x))
    for density in (0.1, 0.2):
        s = sp.random_array((20, 20), density=density, rng=1, format=layout)
        np.testing.assert_allclose(f(iv.from_scipy(s), x).numpy(), s.toarray(), rtol=1e-12)


def test_work_grows_with_the_points_and_not_with_their_square():
    points = []
    for n in (200, 400):
        with iv.explain.count() as done:
            iv.jacobian(stencil)(iv.asarray(VECTOR[:n]))
        points.append(done.total_entrywise)
    assert points[1] < 2.1 * points[0]


def test_compiled_mapped_and_differentiated_again():
    x = iv.asarray(VECTOR[:12])
    expected = by_unit_vectors(stencil, [VECTOR[:12]])
    np.testing.assert_allclose(iv.jit(iv.jacobian(stencil))(x).numpy(), expected, rtol=1e-12)
    both = iv.vmap(iv.jacobian(stencil))(iv.stack([x, x * 2]))
    np.testing.assert_allclose(both[0].numpy(), expected, rtol=1e-12)
    again = iv.jacobian(iv.jacobian(stencil))(x)
    pushed = by_unit_vectors(iv.jacobian(stencil), [VECTOR[:12]])
    np.testing.assert_allclose(again.numpy().reshape(-1, 12), pushed, rtol=1e-10, atol=1e-12)
    w = iv.asarray(2.0, requires_grad=True)
    total = iv.jacobian(lambda x: stencil(x * w))(x).sum()
    found = iv.autograd.grad(total, w).item()
    with no_grad():
        step = [iv.jacobian(lambda x, w=w: stencil(x * w))(x).sum().item() for w in (2 + 1e-6, 2 - 1e-6)]
    assert found == pytest.approx((step[0] - step[1]) / 2e-6, rel=1e-7)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kinds", ["complex", "of real inputs", "of complex inputs"])
def test_complex_functions(mode, kinds):
    z = rng.normal(size=12) + (0 if kinds == "of real inputs" else 1j * rng.normal(size=12))

    def f(z):
        return iv.real(z) * iv.imag(z[::-1]) if kinds == "of complex inputs" else z * z[::-1] + 2j * z

    known = iv.jacobian(f, mode=mode)(iv.asarray(z))
    whole = iv.jacobian(
        lambda z: f(z) + 0 * iv.sum(z) * (1 if kinds != "of complex inputs" else 0), mode=mode
    )
    np.testing.assert_allclose(known.numpy(), whole(iv.asarray(z)).numpy(), rtol=1e-12, atol=1e-14)
    assert value_of(known).dtype.kind == "c"


def test_an_account_of_the_zeros_of_a_jacobian():
    """What it says is what is stored and the passes that run, and calls that lose zeros are named."""
    f, n, count = STORED["a long row"]
    x = iv.asarray(VECTOR[:n])
    found = iv.explain.sparsity(f)(x)
    stored = iv.jacobian(f, layout="csr")(x)
    assert (found.pattern.shape, found.pattern.nnz) == ((n, n), count)
    np.testing.assert_array_equal(found.pattern.toarray(), iv.to_scipy(stored).toarray() != 0)
    assert (found.pushforwards, found.pullbacks, found.lost) == (1, 1, ())
    assert "109 of 60 x 60 entries may be nonzero" in str(found)
    wide = iv.explain.sparsity(lambda x: iv.concat([iv.softmax(iv.sin(x)), iv.log_softmax(x) * 2]))(x)
    assert wide.pattern.nnz == 2 * n * n
    assert [call.split("'")[1] for call in wide.lost] == ["softmax", "log_softmax"]
    assert all("test_sparse_jacobian.py" in call for call in wide.lost)
    pair = iv.explain.sparsity(lambda a, b: (a[1:], a * b), argnums=(0, 1))(x, x)
    assert (pair.pattern.shape, pair.pattern.nnz) == ((2 * n - 1, 2 * n), n - 1 + 2 * n)


@te.op
def running_product(x):
    return te.scan(x.shape, lambda s: te.compute(x.shape, lambda k: te.select(k == 0, x[k], x[k] * s[k - 1])))


@te.op
def added_where(x, y):
    squares = te.compute(x.shape, lambda i: x[i] ** 2)
    return te.compute((x.shape[0] - 1,), lambda i: squares[i] + te.select(y[i] > 0, squares[i + 1], 0))


@te.op
def of_the_second(_x, y):
    return te.compute(y.shape, lambda i: y[i] * 2)


@te.op
def by_dtype(x):
    step = 2 if x.dtype == np.float32 else 3
    return te.compute(x.shape, lambda i: x[(i * step) % 16] ** 2)


#: Gradients whose programs in index notation count what is selected, or leave operands unread.
COUNTED = {
    "a recurrence": lambda x: iv.sum(running_product(x)[np.array([3, 9])]),
    "two statements": lambda x: iv.sum(added_where(x, iv.ones(16))[np.array([3, 9])] ** 2),
    "empty segments": lambda x: iv.sum(iv.segment_prod(x, np.arange(16) // 4, 6)),
    "a convolution": lambda x: iv.sum(iv.nn.conv1d(x.reshape(1, 1, -1), iv.ones((1, 1, 3))) ** 3),
    "a pool": lambda x: iv.sum(iv.nn.avg_pool1d(x.reshape(1, 1, -1), 2) ** 3),
    "an operand that is not read": lambda x: iv.sum(of_the_second(x, x * x) ** 2),
}


@pytest.mark.parametrize("name", COUNTED)
def test_second_derivatives_of_index_notation(name):
    x = np.linspace(0.8, 1.2, 16)
    expected = by_unit_vectors(iv.grad(COUNTED[name]), [x])
    for layout in ("strided", "coo"):
        found = iv.hessian(COUNTED[name], layout=layout)(iv.asarray(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_plans_are_told_apart_by_all_that_they_follow_from():
    """By dtypes, which programs in index notation are made for, and by what is differentiated around."""
    x = np.arange(1.0, 17.0)
    for dtype, place in (("float64", 3), ("float32", 2), ("float64", 3)):
        found = iv.jacobian(by_dtype)(iv.asarray(x.astype(dtype))).numpy()
        assert np.flatnonzero(found[1]).tolist() == [place]
    s = iv.from_scipy(sp.eye_array(12, format="csr"))
    one = iv.ones(12)
    of = lambda w, s: iv.jacobian(lambda x: w * (s @ x))(one)
    iv.jvp(lambda w: of(w, s), [one], [one])  # s is a constant, whose zeros count
    assert np.count_nonzero(iv.jvp(lambda s: of(one, s), [s], [iv.ones((12, 12))])[1].numpy()) == 144


def test_a_jacobian_with_a_sparse_factor_takes_what_is_stored():
    n = 50_000
    s = iv.from_scipy(sp.diags_array([np.ones(n), np.ones(n - 1)], offsets=[0, 1], format="csr"))
    with iv.explain.count() as done:
        found = iv.jacobian(lambda x: s @ x, layout="csr")(iv.ones(n))
    assert found.nnz == 2 * n - 1
    assert done.total_bytes < 1000 * n


def _weights(s, x):
    """The weights of a softmax by rows of S * x, at the entries that S stores; others are exp(0)."""
    scaled = sp.csr_array(s * x)
    exponentials = scaled.copy()
    exponentials.data = np.exp(scaled.data)
    missing = s.shape[1] - np.diff(s.indptr)
    return sp.csr_array(exponentials / (exponentials.sum(axis=1) + missing)[:, None])


def _largest(s, x):
    """1 where S * x is the largest of its row, if that is more than 0."""
    scaled = sp.csr_array(s * x)
    top = np.repeat(scaled.max(axis=1).toarray().ravel(), np.diff(scaled.indptr))
    scaled.data = ((scaled.data == top) & (top > 0)).astype(float)
    return scaled


#: Functions of a sparse factor and x, and their Jacobians.
OF_STORED = {
    "sum": (lambda s, x: iv.sum(s * x, axis=1), lambda s, x: s),
    "transposed": (lambda s, x: (s * x).T @ iv.ones(len(x)), lambda s, x: sp.diags_array(s.sum(axis=0))),
    "reshaped": (lambda s, x: iv.sum(iv.reshape(s * x, (1, *s.shape)), axis=(0, 2)), lambda s, x: s),
    "logsumexp": (lambda s, x: iv.logsumexp(s * x, axis=1), lambda s, x: _weights(s, x) * s),
    "max": (lambda s, x: iv.max(s * x, axis=1), lambda s, x: _largest(s, x) * s),
    "cross entropy": (
        lambda s, x: iv.nn.cross_entropy(s * x, np.arange(len(x)) // 2, axis=1, reduction="none"),
        lambda s, x: (
            _weights(s, x) * s
            - s * sp.csr_array((np.ones(len(x)), (np.arange(len(x)), np.arange(len(x)) // 2)), shape=s.shape)
        ),
    ),
    "squares": (
        lambda s, x: iv.sum((s * x) ** 2, axis=1, keepdims=True)[:, 0],
        lambda s, x: 2 * (s * s) * x,
    ),
}


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", OF_STORED)
def test_a_jacobian_through_sparse_values_has_rows_for_stored_entries_alone(name, layout, mode):
    """Time and memory follow the 59,998 entries that are stored, not the 4e8 of the array."""
    function, expected = OF_STORED[name]
    few, many = 7, 20_000
    for n in (few, many) if mode == "auto" else (few,):
        local = np.random.default_rng(n)
        bands = [local.normal(size=n - abs(k)) for k in (-1, 0, 1)]
        matrix = sp.csr_array(sp.diags_array(bands, offsets=[-1, 0, 1]))
        s, x = iv.from_scipy(matrix.asformat(layout)), local.normal(size=n)
        tracemalloc.start()
        found = iv.jacobian(lambda x, s=s: function(s, x), layout="csr", mode=mode)(iv.asarray(x))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert n == few or peak < 4000 * n
        own = found.to_scipy()
        assert abs(own - sp.csr_array(expected(matrix, x))).max() < 1e-12
        assert own.nnz <= matrix.nnz


@pytest.mark.parametrize("axis", [0, 1])
def test_a_hessian_through_sparse_values_stays_sparse(axis):
    for n in (6, 20_000):
        local = np.random.default_rng(n)
        matrix = sp.csr_array(sp.diags_array([local.normal(size=n - k) for k in (0, 1)], offsets=[0, 1]))
        x = local.normal(size=n)
        s = iv.from_scipy(matrix)
        tracemalloc.start()
        found = iv.hessian(lambda x, s=s: iv.sum(iv.logsumexp(s * x, axis=axis)), layout="csr")(iv.asarray(x))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert n < 1000 or peak < 8000 * n
        if axis == 1:
            own = sp.csr_array(_weights(matrix, x) * matrix)
            expected = sp.diags_array((own * matrix).sum(axis=0)) - own.T @ own
            assert abs(found.to_scipy() - expected).max() < 1e-12
        else:
            assert found.nnz == n
