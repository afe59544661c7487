"""Lowered graphs compute what their interpretation does: every op and its gradient, networks."""

from __future__ import annotations

import contextlib
import os
from cProfile import Profile
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.launches import compiled_program
from iverson.codegen.nests.print import nameless_text
from iverson.codegen.programs import Nest, Product, Repeat
from iverson.core.dispatch import make_handle
from iverson.core.errors import ArgumentError, IndexingError, MissingRuleError, ShapeError
from iverson.core.python.recent_items import RecentItems
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.nodes import values_of
from iverson.graph.lowering import disk_cache
from iverson.graph.lowering.graph_lowering import Library, Lowered, Native, lower
from iverson.graph.native import expression_fusion
from iverson.graph.passes import simplified
from iverson.ops import TABLE, F
from tests.conformance.product import by_turns, ops
from tests.graph.programs import as_tuple, calls_of, close, loss_of, traced

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning"),
]
EVERY = bool(os.environ.get("IVERSON_TEST_ALL"))
#: Ops that read entries to know the shape of what they give, or whether it exists.
READS_ENTRIES = {"pack", "unpack"}
#: Ops that solve, factorise or transform, or are about patterns: library steps.
LIBRARY = {
    "adjugate", "adjugate_derivative", "cholesky", "det", "eig", "eigh", "eigvalsh", "fftn",
    "free_of_basis", "ifftn", "inv", "irfft", "pinv", "qr", "qr_complete", "rfft", "slogdet",
    "solve", "solve_triangular", "svd", "svd_full", "svdvals", "eigen_spectral", "singular_spectral",
    "logm", "lu", "matrix_exp", "solve_sylvester", "solve_toeplitz", "sqrtm",
    "bordered_solve", "eigsh", "iterative_solve",
    "extremum_shares_at", "from_values", "kron_sampled", "sampled_product", "to_dense",
    "to_layout", "values_at",
}  # fmt: skip


def agree(f: Any, args: Any, rtol: float = 1e-9) -> Lowered:
    graph = traced(f, args)
    lowered, kept = lower(graph), lower(graph)
    want = interpret(graph, [iv.asarray(a) for a in args])
    for program in (lowered, kept):  # the second one made from what was kept of the first
        for found, expected in zip(program(args), want, strict=True):
            if hasattr(expected, "_value"):
                close(make_handle(found), expected, rtol)
    return lowered


def in_one(*functions: Any) -> Any:
    """What several functions of the same arguments give, by one program: it is compiled in half the time."""
    return lambda *args: tuple(y for f in functions for y in as_tuple(f(*args)))


def library_of(lowered: Lowered) -> set[str]:
    """The library steps on dense real values."""
    steps = [s.equation for s in lowered.steps if isinstance(s, Library)]
    return {
        e.op.name for e in steps if all(v.dtype.kind != "c" for v in (*values_of(e.operands), *e.results))
    }


@pytest.mark.parametrize("name", by_turns((n for n in ops() if n not in READS_ENTRIES), 4))
def test_every_op_and_its_gradient_is_lowered(name: str) -> None:
    calls = calls_of(name)
    found: set[str] = set()
    for call in calls if EVERY else calls[:1]:
        made: list[Any] = [call.function]
        if call.args and TABLE[name].differentiable and all(a.dtype.kind in "fc" for a in call.args):
            gradient = iv.grad(loss_of(call.function), tuple(range(len(call.args))))
            with contextlib.suppress(MissingRuleError):
                gradient(*map(iv.asarray, call.args))
                made = [call.function, gradient] if EVERY else [in_one(call.function, gradient)]
        for function in made:
            found |= library_of(agree(function, call.args))
    if name not in LIBRARY:
        assert found <= LIBRARY


def network(x: Any, t: Any, *weights: Any) -> Any:
    """The loss of a classifier with two hidden layers."""
    for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = iv.relu(x @ w + b)
    z = x @ weights[-2] + weights[-1]
    return -iv.sum(t * iv.log_softmax(z, axis=1)) / x.shape[0]


def training_step(x: Any, t: Any, *weights: Any) -> Any:
    places = tuple(range(len(weights)))
    loss, gradient = iv.value_and_grad(lambda *w: network(x, t, *w), places)(*weights)
    return (loss, *(w - 0.1 * g for w, g in zip(weights, gradient, strict=True)))


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype) * 0.3


def test_a_training_step_is_one_native_call() -> None:
    shapes = [(40, 48), (48,), (48, 36), (36,), (36, 10), (10,)]
    args = [normal(33, 40), np.eye(10)[np.arange(33) % 10], *(normal(*s) for s in shapes)]
    lowered = agree(training_step, args)
    (step,) = lowered.steps
    assert isinstance(step, Native)
    program = step.compiled.program
    products = [s for s in program.steps if isinstance(s, Product)]
    assert len(products) == 3 + 5  # forward; backward without the gradient in x
    assert all(isinstance(s, Product | Nest) for s in program.steps)
    assert len(program.steps) <= 25
    assert not program.constants or all(a.size <= 33 * 10 for a in program.constants.values())


def attention(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    """Two heads, batched products of transposes of reshapes."""
    b, n, d = x.shape

    def heads(w: Any) -> Any:
        return iv.permute_dims(iv.reshape(x @ w, (b, n, 2, d // 2)), (0, 2, 1, 3))

    q, k, v = heads(wq), heads(wk), heads(wv)
    weights = iv.softmax(q @ iv.permute_dims(k, (0, 1, 3, 2)) / d**0.5, axis=-1)
    return iv.sum(iv.tanh(iv.reshape(iv.permute_dims(weights @ v, (0, 2, 1, 3)), (b, n, d))))


def test_attention_and_its_gradient_are_one_native_call() -> None:
    args = [normal(3, 7, 8), normal(8, 8), normal(8, 8), normal(8, 8)]
    assert len(agree(attention, args).steps) == 1
    assert len(agree(iv.grad(attention, (0, 1, 2, 3)), args).steps) == 1


def test_lowering_is_linear_in_the_length_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal steps are lowered once, and the Python calls of the rest grow with the number of steps."""
    lowered: list[int] = []
    calls: list[int] = []
    kernels: list[int] = []

    def nests(program: Any) -> Any:
        lowered[-1] += 1
        return plain(program)

    plain = expression_fusion.nests
    monkeypatch.setattr(expression_fusion, "nests", nests)
    monkeypatch.setattr(expression_fusion, "_templates", RecentItems(64))
    monkeypatch.setattr(disk_cache, "key_of", lambda *_: None)
    monkeypatch.setattr(compiled_program, "_known", lambda key: object())
    for count in (8, 8, 16, 32):
        graph = simplified(traced(iv.value_and_grad(_recurrent), [np.eye(40), np.ones((count, 3, 40))]))
        lowered.append(0)
        counted = Profile()
        (step,) = counted.runcall(lower, graph).steps
        calls.append(sum(entry.callcount for entry in counted.getstats()))
        kernels.append(len(step.compiled.layout.nests))
    assert max(kernels) - min(kernels) <= 1, "the thin products that are left over are one of their own"
    assert lowered[0] > 0
    assert not lowered[1]
    assert lowered[2] == lowered[3] <= 2, "the first and the last step know the length"
    _, eight, sixteen, thirty_two = calls
    assert thirty_two - sixteen <= 2.1 * (sixteen - eight)


def _recurrent(w: Any, x: Any) -> Any:
    h = x[0]
    for t in range(x.shape[0]):
        h = (h @ w + x[t]).tanh()
    return (h * h).sum()


def test_library_steps_cut_the_graph_where_they_must() -> None:
    def f(a: Any, b: Any, x: Any) -> Any:
        y = iv.tanh(iv.linalg.matrix_exp(a @ a) @ b) + iv.exp(x)
        return y, iv.sum(iv.linalg.pinv(a + 5 * iv.eye(4)) @ x)

    lowered = agree(f, [normal(4, 4), normal(4, 3), normal(4, 3)])
    kinds = [type(s) for s in lowered.steps]
    assert kinds == [Native, Library, Library, Native]


def test_views_of_inputs_and_outputs() -> None:
    def f(x: Any) -> Any:
        y = iv.tanh(x)
        return (
            y,
            y.T,
            iv.reshape(y.T, (-1,)),
            x,
            x[::-1, 1:3],
            iv.flip(y)[1:],
            y[2] + iv.reshape(y, (-1,))[:5],
        )

    lowered = agree(f, [normal(6, 5)])
    assert len(lowered.steps) == 1


def test_integers_and_bools() -> None:
    def f(n: Any, b: Any, x: Any) -> Any:
        m = iv.astype(n, iv.int32)
        return (
            n @ n.T, n @ x.T, n + 1.5, n // 3 + n % 3, m * 2, iv.sum(n, axis=0), iv.sum(m), iv.max(m, axis=1),
            iv.argmax(n, axis=1), iv.any(b, axis=0), iv.all(b), iv.where(b, n, -n),
            iv.astype(b, iv.float32) + x,
            iv.cumulative_sum(m, axis=1), iv.sum(b), n > 2, ~b, b & (n > 0), iv.flip(b), iv.concat([b, b]),
            iv.prod(n, axis=1), x**2, x / 3, iv.bitwise_xor(n, 5), n << 2, iv.mean(x, axis=0),
        )  # fmt: skip

    rng = np.random.default_rng(0)
    n = rng.integers(-5, 6, (4, 5))
    lowered = agree(f, [n, n > 1, normal(4, 5, dtype=np.float32)], 1e-5)
    assert not library_of(lowered)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_recurrences_along_any_axis_of_a_view(axis: int) -> None:
    """A loop for the places of an axis, or a nest along the last one: as many steps however long it is."""

    def f(x: Any) -> Any:
        y = iv.permute_dims(iv.tanh(x), (1, 2, 0))
        return iv.cumulative_sum(y, axis=axis), iv.cumulative_prod(y[::-1], axis=axis)

    lowered = agree(f, [normal(3, 4, 5)])
    (step,) = lowered.steps
    assert isinstance(step, Native)
    loops = [s for s in step.compiled.program.steps if isinstance(s, Repeat)]
    assert len(loops) == (0 if axis == 2 else 2)
    other = lower(simplified(traced(f, [normal(6, 9, 11)]))).steps
    assert len(other[0].compiled.program.steps) == len(step.compiled.program.steps)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(7,), (1, 5), (9, 6), (2, 3, 5), (4, 1)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
def test_recurrences_along_rows_of_any_number(shape: tuple[int, ...], reverse: bool, dtype: str) -> None:
    a, b = (np.asarray(3 * normal(*shape), dtype) for _ in range(2))
    axis = len(shape) - 1
    got = iv.jit(lambda a, b: F.linear_recurrence(a, b, axis=axis, reverse=reverse))(
        iv.asarray(a), iv.asarray(b)
    )
    want, last = np.zeros_like(b), np.zeros_like(b[..., 0])
    for k in range(shape[-1])[:: -1 if reverse else 1]:
        want[..., k] = last = b[..., k] + (a[..., k] * last if k != (shape[-1] - 1 if reverse else 0) else 0)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4)


def test_arguments_are_checked_and_indices_too() -> None:
    def f(x: Any, at: Any) -> Any:
        return F.gather(iv.tanh(x), at, axes=(0,))

    graph = traced(f, [normal(5), np.arange(3)])
    lowered = lower(graph)
    np.testing.assert_allclose(lowered([normal(5), np.array([4, 0, 2])])[0], np.tanh(normal(5))[[4, 0, 2]])
    with pytest.raises(IndexingError):
        lowered([normal(5), np.array([4, 5, 2])])
    with pytest.raises(ShapeError):
        lowered([normal(4), np.array([4, 0, 2])])
    with pytest.raises(ArgumentError):
        lowered([normal(5)])


def test_the_longest_nest_does_not_grow_with_the_program() -> None:
    """What LLVM takes for a nest grows faster than its length: a chain is nests of a bounded length."""

    def chain(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x * x - 0.5
        return x.sum()

    longest = {}
    for n in (100, 300):
        (step,) = agree(iv.grad(lambda x, n=n: chain(x, n)), (np.linspace(-1.0, 1.0, 7),)).steps
        longest[n] = max(len(nameless_text(s.kernel)) for s in step.compiled.program.steps)
    assert longest[300] < 1.2 * longest[100]


def test_chains_of_slices_are_as_long_as_one_likes() -> None:
    def chain(x: Any) -> Any:
        for _ in range(1200):
            x = x[1:]
        return (x * x).sum()

    x = iv.asarray(np.arange(1300.0))
    np.testing.assert_array_equal(
        iv.jit(iv.grad(chain))(x), 2 * np.arange(1300.0) * (np.arange(1300) >= 1200)
    )


#: Calls that index notation has no form for: the op's own kernel carries them out.
DECLINED = {
    "any of no rows": (lambda x: iv.any(x, axis=0), np.zeros((0, 3))),
    "all of nothing": (iv.all, np.zeros((0, 3))),
    "ndtr of integers": (iv.special.ndtr, np.arange(-2, 3)),
    "a probe of an argument x": (lambda x: iv.nn.one_hot(x, 3), np.array([0, 2])),
}


@pytest.mark.parametrize("case", DECLINED)
def test_what_loops_have_no_form_for_is_computed(case):
    f, x = DECLINED[case]
    np.testing.assert_array_equal(iv.jit(f)(iv.asarray(x)).numpy(), f(iv.asarray(x)).numpy(), strict=True)


def test_an_index_that_is_checked_is_of_the_argument():
    with pytest.raises(iv.errors.IndexingError, match="one_hot: argument 'x': got position 3"):
        iv.jit(lambda x: iv.nn.one_hot(x, 3))(iv.asarray(np.array([0, 3])))
