"""Derivatives: against differences, to second order, forward against reverse; conventions; overrides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from iverson.core.scalars import SCALARS
from iverson.expr.nodes import postorder
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE, by_turns, some, turn
from tests.te.corpus import KERNELS
from tests.te.oracles import check_derivatives, eliminated_value, value

rng = np.random.default_rng(5)
A = te.placeholder((4, 4), name="A")
B = te.placeholder((4,), name="B")
N = te.placeholder((5,), "int64", "N")
k, l = te.reduce_axis((0, 4), "k"), te.reduce_axis((1, 3), "l")
FEED: dict[Tensor, Any] = {
    A: rng.standard_normal((4, 4)),
    B: rng.standard_normal(4),
    N: np.array([0, 3, 3, 1, 0]),
}
F = te.F

DEFINITIONS = {
    "sum of transposes": lambda: te.compute((4, 4), lambda i, j: A[i, j] + A[j, i]),
    "functions": lambda: te.compute((4, 4), lambda i, j: F.sin(A[i, j]) * A[j, i] / F.exp(A[i, i])),
    "trace of square": lambda: te.compute((4,), lambda i: te.sum(A[i, k] * A[k, i], k)),
    "softmax": lambda: te.compute(
        (4, 4), lambda i, j: F.exp(A[i, j] - te.max(A[i, k], k)) / te.sum(F.exp(A[i, k]), k)
    ),
    "product": lambda: te.compute((4,), lambda i: te.prod(A[i, k] * B[k], k)),
    "product over two": lambda: te.compute((), lambda: te.prod(A[l, k] + 1, [k, l])),
    "empty product": lambda: te.compute((2,), lambda i: te.prod(A[i, 0], te.reduce_axis(0)) * A[i, 1]),
    "guarded product": lambda: te.compute(
        (4,),
        lambda i: te.prod(te.select(k <= i, A[i, k], 2.0), k) + te.select(i > 1, te.prod(A[k, i], k), B[i]),
    ),
    "largest": lambda: te.compute((2,), lambda i: te.max(A[i + l, k] * B[k], [k, l])),
    "smallest": lambda: te.compute((4,), lambda i: B[i] * te.min(F.cos(A[i, k]), k)),
    "guarded extremum": lambda: te.compute(
        (4,), lambda i: te.select(i > 0, te.max(A[i - 1, k], k), te.min(B[k], k))
    ),
    "guards": lambda: te.compute(
        (4, 4),
        lambda i, j: te.select((i < 3) & (j != 2), A[i, j] * A[j, i], te.select(i <= j, A[i, i], 2.0)),
    ),
    "or": lambda: te.compute((4, 4), lambda i, j: te.bracket((i == j) | (j == 3) | (i != 1)) * A[j, i] ** 3),
    "padding": lambda: te.compute((6,), lambda i: te.select((i >= 1) & (i < 5), A[i - 1, 0] ** 2, 0)),
    "clamp": lambda: te.compute((6, 6), lambda i, j: A[te.clamp(i - 1, 0, 3), te.clamp(j - 1, 0, 3)] ** 2),
    "scatter": lambda: te.scatter((4,), (5,), lambda e: (N[e], A[N[e], 0] * A[e % 4, e // 4])),
    "scatter affine": lambda: te.scatter((7,), (4, 4), lambda i, j: (i + j, F.tanh(A[i, j] * B[j]))),
    "scatter max": lambda: te.scatter(
        (3, 4), (5, 4), lambda e, j: ((N[e] - N[e] // 2, j), A[e % 4, j] * B[j]), combine="max"
    ),
    "scatter min": lambda: te.scatter(
        (3,), (4, 4), lambda i, j: ((i + j) // 3, F.tanh(A[i, j])), combine="min"
    ),
    "gather": lambda: te.compute((5, 4), lambda e, j: A[N[e], j] * B[N[e]]),
    "choice by data": lambda: te.compute(
        (4, 4), lambda i, j: te.select(A[i, j] > 0, A[i, j] ** 3, F.tanh(A[j, i]))
    ),
    "stages": lambda: _stages(),  # noqa: PLW0108
    "several uses": lambda: te.compute((4,), lambda i: te.sum(A[i, k] * _shared()[k], k) + _shared()[i]),
    "shared guards": lambda: _shared_guards(),  # noqa: PLW0108
}


def _stages() -> te.Compute:
    first = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * A[k, j], k), "first")
    second = te.compute((4,), lambda i: te.max(first[i, k], k), "second")
    return te.compute((4, 4), lambda i, j: second[i] * first[j, i] - F.log1p(F.square(B[j])), "third")


def _shared() -> te.Compute:
    return te.compute((4,), lambda i: F.sigmoid(te.sum(A[k, i], k)) * B[i], "shared")


def _shared_guards() -> te.Compute:
    def entry(i: Any, j: Any) -> Any:
        x = A[i, j] * B[j]
        for bound in range(6):  # a value used on many paths
            x = te.select(i + j > bound, x * 1.25, x + 0.5) + te.select(i < bound, x, 0)
        return x

    return te.compute((4, 4), entry)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_against_differences(name: str) -> None:
    output = DEFINITIONS[name]()
    inputs = [t for t in te.program_of([output]).inputs if t.dtype.kind == "f"]
    check_derivatives(
        output, inputs, FEED, order=1 if name == "shared guards" or (turn(name, 3) and not EXHAUSTIVE) else 2
    )


DIFFERENTIABLE = [
    s for s in SCALARS.values() if "f" in s.kinds and (s.d or s.vjp) and s.name != "where" and not s.orders
]


@pytest.mark.parametrize("scalar", DIFFERENTIABLE, ids=lambda s: s.name)
def test_single_precision_stays(scalar: Any) -> None:
    xs = [te.placeholder((3,), "float32", f"x{n}") for n in range(scalar.arity)]
    output = te.compute((3,), lambda i: getattr(F, scalar.name)(*(x[i] for x in xs)), "y")
    program = te.program_of([*te.differentiate(output, xs), te.jvp(output, {xs[-1]: xs[-1]})])
    check(program)
    for s in program.statements:
        assert not [n for n in postorder([s.body]) if n.dtype in (np.float64, np.complex128)]


SMOOTH = [
    s
    for s in SCALARS.values()
    if (s.d or s.vjp) and s.name not in ("where", "real", "imag", "conj", "angle") and not s.orders
]


@pytest.mark.parametrize("name", by_turns((s.name for s in SMOOTH), 3))
def test_every_function_of_the_table(name: str) -> None:
    scalar = SCALARS[name]
    xs = [te.placeholder((3,), name=f"x{n}") for n in range(scalar.arity)]
    feed = {}
    for x, domain in zip(xs, scalar.domain, strict=True):
        low, high = domain or (-1.5, 1.5)
        feed[x] = rng.uniform(low, high, 3)
    output = te.compute((3,), lambda i: getattr(F, scalar.name)(*(x[i] for x in xs)), "y")
    check_derivatives(output, xs, feed, order=1)


def test_product_is_exact_at_zeros_to_second_order() -> None:
    output = te.compute((4,), lambda i: te.prod(A[i, k], k))
    a = FEED[A].copy()
    a[0, 1] = a[1, :2] = a[2, :3] = 0
    check_derivatives(output, [A], {A: a})


def test_ties_go_to_the_first() -> None:
    x, q = te.placeholder((4,), name="x"), te.reduce_axis((0, 4), "q")
    for reduction, values in ((te.max, [1.0, 3, 3, 0]), (te.min, [2.0, 1, 1, 5])):
        output = te.compute((), lambda reduction=reduction: reduction(x[q], q))
        gradient = te.differentiate(output, x)[0]
        np.testing.assert_array_equal(value(gradient, {x: np.array(values)}), [0, 1, 0, 0])
    nan = np.array([1, np.nan, np.nan, 7])
    np.testing.assert_array_equal(value(te.differentiate(output, x)[0], {x: nan}), [0, np.nan, 0, 0])


def test_choices_let_nan_through_to_the_derivative() -> None:
    """Never a silent 0: elementwise and in scatters (of which the first has it); others have none."""
    nan = np.array([1.0, np.nan, 3.0, np.nan])
    x, q = te.placeholder((4,), name="x"), te.reduce_axis((0, 4), "q")
    every = np.where(np.isnan(nan), np.nan, 1.0)
    for choice, expected in (
        (lambda v: F.maximum(v, 0.0), every),
        (lambda v: F.minimum(v, 9.0), every),
        (F.relu, every),
        (lambda v: F.clip(v, 0.0, 9.0), every),
    ):
        entries = te.compute((4,), lambda i, choice=choice: choice(x[i]))
        output = te.compute((), lambda entries=entries: te.sum(entries[q], q))
        np.testing.assert_array_equal(value(te.differentiate(output, x)[0], {x: nan}), expected)
    output = te.scatter((1,), (4,), lambda i: (0, x[i]), combine="max")
    gradient = te.differentiate(output, x)[0]
    np.testing.assert_array_equal(value(gradient, {x: nan}), [[0, np.nan, 0, 0]])
    np.testing.assert_array_equal(value(gradient, {x: np.arange(4.0)}), [[0, 0, 0, 1]])


def test_choices_on_data_one_after_another_have_derivatives_as_long_as_they_are() -> None:
    def made(depth: int) -> tuple[Tensor, Tensor]:
        def body(i: te.Expr) -> te.Expr:
            found: te.Expr = B[i]
            for n in range(depth):
                found = te.select((A[n, i] > 0) & (A[n, 0] < 1), F.sin(found), found * found)
            return found

        y = te.compute((4,), body, "y")
        return y, te.differentiate(y, B, te.placeholder((4,), name="head"))[0]

    def length(depth: int) -> int:
        found = made(depth)[1]
        assert isinstance(found, te.Compute)
        return sum(len(postorder([s.body])) for s in found.statements)

    assert length(4) - length(3) == length(3) - length(2)
    y, _ = made(3)
    check_derivatives(y, [B], FEED)


def test_clip_gives_its_derivative_to_the_bound_that_wins() -> None:
    x, lo, hi = (te.placeholder((4,), name=n) for n in ("x", "lo", "hi"))
    feed = {x: np.array([0.0, 2.0, 5.0, -1.0]), lo: np.array([1.0, 3, 3, 0]), hi: np.array([2.0, 1, 1, 1])}
    output = te.compute((4,), lambda i: F.clip(x[i], lo[i], hi[i]))
    for given, expected in ((x, [0, 0, 0, 0]), (lo, [1, 0, 0, 1]), (hi, [0, 1, 1, 0])):
        jacobian = value(te.differentiate(output, given)[0], feed)
        np.testing.assert_array_equal(jacobian, np.diag(expected))
        moved = {**feed, given: feed[given] + 1e-3}
        np.testing.assert_allclose((value(output, moved) - value(output, feed)) / 1e-3, expected, atol=1e-9)


def test_strong_zeros() -> None:
    """A value that is not chosen does not turn the gradient into nan."""
    output = te.compute((4,), lambda i: te.select(B[i] > 0, F.sqrt(B[i]), 0.0) * te.bracket(i < 2))
    gradient = te.differentiate(output, B, te.placeholder((4,), name="H"))[0]
    program = te.program_of([gradient])
    feed = {"B": np.array([4.0, 0, -1, 9]), "H": np.array([1, np.inf, np.nan, np.inf])}
    from iverson.te.ir.interpret import run

    (found,) = run(te.eliminate(program), [feed[t.name] for t in program.inputs])
    np.testing.assert_array_equal(found, [0.25, 0, 0, 0])


def test_jacobian_of_a_permutation_costs_its_entries() -> None:
    output = te.compute((4, 4), lambda i, j: A[j, 3 - i])
    jacobian = te.differentiate(output, A)[0]
    visits: list[Any] = []
    found = eliminated_value(jacobian, FEED, visits)
    assert found.shape == (4, 4, 4, 4)
    assert sum(v.points for v in visits) == 16
    assert found.sum() == 16


def test_batched_heads() -> None:
    output = te.compute((4,), lambda i: te.sum(A[i, k] * A[k, i], k))
    head = te.placeholder((3, 4), name="H")
    h = rng.standard_normal((3, 4))
    gradient = te.differentiate(output, A, head)[0]
    assert gradient.shape == (3, 4, 4)
    jacobian = value(te.differentiate(output, A)[0], FEED)
    found = eliminated_value(gradient, {**FEED, head: h})
    np.testing.assert_allclose(found, np.tensordot(h, jacobian, 1))


def test_several_outputs() -> None:
    one = te.compute((4,), lambda i: te.sum(A[i, k], k) * B[i], "one")
    two = te.compute((4, 4), lambda i, j: A[i, j] * one[j], "two")
    heads = [te.placeholder((4,), name="h1"), te.placeholder((4, 4), name="h2")]
    feed = {**FEED, heads[0]: rng.standard_normal(4), heads[1]: rng.standard_normal((4, 4))}
    both = te.differentiate([one, two], [A, B], heads)
    alone = [te.differentiate(o, [A, B], h) for o, h in zip((one, two), heads, strict=True)]
    none = te.differentiate([one, two], [A, B], [None, heads[1]])
    for n in range(2):
        parts = [value(g[n], feed) for g in alone]
        np.testing.assert_allclose(eliminated_value(both[n], feed), sum(parts))
        np.testing.assert_allclose(eliminated_value(none[n], feed), parts[1])


def test_result_names_adjoints_and_summands() -> None:
    hidden = te.compute((4,), lambda i: B[i] * B[i], "hidden")
    output = te.compute((4,), lambda i: hidden[i] * B[i], "output")
    head = te.placeholder((4,), name="H")
    result = te.differentiate(output, head=head)
    assert len(result) == 2
    assert [t for t in (B, hidden, output) if t in result.adjoints] == [B, hidden, output]
    assert result.adjoints[output] is head
    assert result[0] is result.adjoints[B]
    h = np.array([1.0, 2, 3, 4])
    feed = {**FEED, head: h}
    by_output = value(result.adjoint_summands[output][B], feed)
    by_hidden = value(result.adjoint_summands[hidden][B], feed)
    np.testing.assert_allclose(by_output, h * FEED[B] ** 2)
    np.testing.assert_allclose(by_hidden, 2 * h * FEED[B] ** 2)
    np.testing.assert_allclose(value(result[0], feed), by_output + by_hidden)
    assert result[:1] == result.gradients[:1]
    assert "dB" in repr(result) or "output" in repr(result)


def test_constants_have_zero_gradients() -> None:
    output = te.compute((4,), lambda i: B[i] * 2)
    zero = te.differentiate(output, A)[0]
    assert zero.shape == (4, 4, 4)
    np.testing.assert_array_equal(value(zero, {}), np.zeros((4, 4, 4)))
    sunk = te.compute((4,), lambda i: zero[i, 0, 0] + B[i])
    np.testing.assert_array_equal(value(sunk, FEED), FEED[B])
    np.testing.assert_array_equal(value(te.jvp(output, {A: A}), {}), np.zeros(4))
    rounded = te.compute((4,), lambda i: F.floor(B[i]) + te.argmax(A[i, k], k))
    np.testing.assert_array_equal(value(te.differentiate(rounded, B)[0], FEED), np.zeros((4, 4)))


def test_override_replaces_a_tensor_by_a_rule() -> None:
    hidden = te.compute((4,), lambda i: F.exp(B[i]), "hidden")
    output = te.compute((4,), lambda i: hidden[i] * A[i, i], "output")
    seen = []

    def rule(out: Tensor, deps: list[Tensor], head: Tensor) -> list[Tensor | None]:
        seen.append((out, deps, head.shape))
        batch = head.shape[: head.ndim - out.ndim]
        return [te.compute((*batch, 4), lambda *i: head[i] * 10.0), None]

    head = te.placeholder((4,), name="H")
    h = rng.standard_normal(4)
    override = {hidden: ([B, A], rule)}
    gb, ga = te.differentiate(output, [B, A], head, override=override)
    feed = {**FEED, head: h}
    np.testing.assert_allclose(value(gb, feed), 10 * h * np.diag(FEED[A]))
    np.testing.assert_allclose(value(ga, feed), np.diag(h * np.exp(FEED[B])))
    assert seen[0][:2] == (hidden, [B, A])
    jacobian = te.differentiate(output, B, override=override)[0]
    np.testing.assert_allclose(value(jacobian, FEED), np.diag(10 * np.diag(FEED[A])))
    wrong = {hidden: ([B], lambda out, deps, head: [te.compute((3,), lambda i: head[i])])}
    with pytest.raises(
        ShapeError, match=r"'override': got an adjoint of B of shape \(3,\); expected shape \(4,\)"
    ):
        te.differentiate(output, B, head, override=wrong)
    few = {hidden: ([B], lambda out, deps, head: [])}
    with pytest.raises(ShapeError, match="0 adjoints for hidden; expected 1"):
        te.differentiate(output, B, head, override=few)
    bad = {hidden: ([B], lambda out, deps, head: [1.0])}
    with pytest.raises(ArgumentTypeError, match="a tensor or None"):
        te.differentiate(output, B, head, override=bad)  # type: ignore[arg-type]


def test_fdiff_replaces_the_single_step() -> None:
    hidden = te.compute((4,), lambda i: B[i] * 3, "hidden")
    output = te.compute((4,), lambda i: hidden[i] * 2, "output")

    def step(out: Tensor, inp: Tensor, head: Tensor) -> Tensor:
        batch = head.shape[: head.ndim - out.ndim]
        return te.compute((*batch, *inp.shape), lambda *i: head[i] * 7)

    found = value(te.differentiate(output, B, fdiff=step)[0], {})
    np.testing.assert_array_equal(found, 49 * np.eye(4))
    with pytest.raises(ShapeError, match="'fdiff'"):
        te.differentiate(output, B, fdiff=lambda out, inp, head: B)


def test_wrong_arguments() -> None:
    output = te.compute((4,), lambda i: B[i] * 2, "output")
    integers = te.compute((5,), lambda i: N[i] * 2, "integers")
    with pytest.raises(GradientError, match="integers of dtype int64"):
        te.differentiate(integers, N)
    with pytest.raises(GradientError, match="N of dtype int64"):
        te.differentiate(output, N)
    with pytest.raises(ShapeError, match=r"'head': got shape \(3,\); expected batch \+ \(4,\)"):
        te.differentiate(output, B, te.placeholder((3,)))
    with pytest.raises(ArgumentError, match="a head per output"):
        te.differentiate([output, output], B)
    with pytest.raises(ArgumentError, match="one per output"):
        te.differentiate([output], B, [None])
    with pytest.raises(ArgumentTypeError, match="te tensors"):
        te.differentiate(output, "B")
    with pytest.raises(ShapeError, match="'tangents'"):
        te.jvp(output, {B: A})
    with pytest.raises(ShapeError, match="one batch"):
        te.differentiate([output, output], B, [B, A])


def _complex(name: str) -> te.Placeholder:
    return te.placeholder((3,), "complex128", name)


@pytest.mark.peers
@pytest.mark.parametrize(
    "name", ["product", "abs", "real", "imag", "conj", "angle", "mixed", "sign", "matmul", "prod"]
)
def test_complex_gradients_are_torchs(name: str) -> None:
    import torch

    z, w, r = _complex("z"), _complex("w"), te.placeholder((3,), name="r")
    q = te.reduce_axis((0, 3), "q")
    bodies: dict[str, tuple[Any, Any]] = {
        "product": (lambda i: z[i] * F.exp(w[i]) / z[2 - i], lambda z, w, r: z * w.exp() / z.flip(0)),
        "abs": (lambda i: F.abs(z[i]) * w[i], lambda z, w, r: z.abs() * w),
        "real": (lambda i: F.real(z[i] * w[i]), lambda z, w, r: (z * w).real),
        "imag": (lambda i: F.imag(z[i] * w[i]), lambda z, w, r: (z * w).imag),
        "conj": (lambda i: F.conj(z[i]) * w[i] * r[i], lambda z, w, r: z.conj() * w * r),
        "angle": (lambda i: F.angle(z[i]) * r[i], lambda z, w, r: z.angle() * r),
        "mixed": (lambda i: r[i] * z[i] + F.sin(r[i]) * 1j, lambda z, w, r: r * z + r.sin() * 1j),
        "sign": (lambda i: F.sign(z[i]) * w[i], lambda z, w, r: z.sgn() * w),
        "matmul": (lambda i: te.sum(z[q] * w[i], q), lambda z, w, r: (z * w[:, None]).sum(1)),
        "prod": (lambda i: te.prod(z[q] * r[i], q), lambda z, w, r: (z * r[:, None]).prod(1)),
    }
    ours, theirs = bodies[name]
    output = te.compute((3,), ours, "y")
    feed = {t: rng.standard_normal(3) + 1j * rng.standard_normal(3) for t in (z, w)}
    feed[r] = rng.standard_normal(3)
    head = te.placeholder((3,), output.dtype, "H")
    g = rng.standard_normal(3) + (1j * rng.standard_normal(3) if output.dtype.kind == "c" else 0)
    gradients = te.differentiate(output, [z, w, r], head)
    leaves = [torch.tensor(feed[t], requires_grad=True) for t in (z, w, r)]
    y = theirs(*leaves)
    expected = torch.autograd.grad(y, leaves, torch.tensor(g), allow_unused=True)
    np.testing.assert_allclose(value(output, feed), y.detach().numpy(), rtol=1e-12)
    for found, e in zip(gradients, expected, strict=True):
        want = np.zeros(3) if e is None else e.resolve_conj().numpy()
        np.testing.assert_allclose(eliminated_value(found, {**feed, head: g}), want, rtol=1e-10, atol=1e-12)
    t = {x: rng.standard_normal(3) + (1j * rng.standard_normal(3) if x is not r else 0) for x in (z, w, r)}
    tangents = {x: te.placeholder((3,), x.dtype, "t") for x in t}
    pushed = value(te.jvp(output, tangents), {**feed, **{tangents[x]: v for x, v in t.items()}})
    pulled = sum(np.vdot(t[x], value(gr, {**feed, head: g})) for x, gr in zip(t, gradients, strict=True))
    np.testing.assert_allclose(np.real(np.vdot(g, pushed)), np.real(pulled))


@pytest.mark.parametrize("between", some("between", ["take", "flip", "pad", "where", "relu"], 2))
def test_a_derivative_does_not_depend_on_what_else_is_asked_for(between):
    """Second derivatives of ops with several cotangents, of which some are selections."""
    moves = {
        "take": lambda y: iv.take(y, np.array([2, 0, 0, 1])),
        "flip": iv.flip,
        "pad": lambda y: iv.pad(y, 1),
        "where": lambda y: iv.where(y > 0, y, 2 * y),
        "relu": iv.relu,
    }

    @te.op(name="windows")
    def windows(x, w):
        k = te.reduce_axis((0, w.shape[0]))
        return te.compute((x.shape[0] - w.shape[0] + 1,), lambda i: te.sum(x[i + k] * w[k], axis=k))

    rng = np.random.default_rng(0)
    weights = rng.normal(size=2)
    x = iv.asarray(rng.normal(size=5), requires_grad=True)
    s = iv.asarray(0.8, requires_grad=True)
    y = windows(moves[between](windows(x, weights * s)), weights * s)
    v = iv.asarray(rng.normal(size=y.shape), requires_grad=True)
    for first in iv.autograd.grad(y, (x, s), v, create_graph=True):
        alone = [iv.autograd.grad(first.sum(), z, create_graph=True) for z in (x, s, v)]
        for own, beside in zip(
            alone, iv.autograd.grad(first.sum(), (x, s, v), create_graph=True), strict=True
        ):
            np.testing.assert_allclose(
                beside.to_dense().detach().numpy(), own.to_dense().detach().numpy(), rtol=1e-12, atol=1e-14
            )


def _squared_tanh(x: Any) -> Any:
    y = te.compute(x.shape, lambda i, j: te.tanh(x[i, j] * 2))
    return te.compute(x.shape, lambda i, j: y[i, j] * y[i, j])


def _log_of_sums(x: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]))
    total = te.compute(x.shape[:1], lambda i: te.sum(te.exp(x[i, k] - x[i, 0]), k))
    return te.compute(x.shape[:1], lambda i: te.log(total[i]) + x[i, 0])


@pytest.mark.parametrize(
    ("define", "name", "times"),
    [
        (KERNELS["softmax"].define, "exp", 1),
        (_squared_tanh, "tanh", 1),
        (_log_of_sums, "exp", 2),  # in the sum, and where an entry gets its part of the gradient
    ],
    ids=["softmax", "tanh", "logsumexp"],
)
def test_gradients_read_dear_values_that_stages_hold(define, name, times):
    """A stage that is a function of tens of instructions, or a sum of such, is not computed again."""
    x = te.placeholder((3, 5), name="x")
    out = define(x)
    head = te.placeholder(out.shape, name="head")
    program = te.program_of([out, *te.differentiate(out, [x], head)], [x, head])
    assert lower(te.eliminate(program)).source.count(f"{name}(") == times
    check_derivatives(out, [x], {x: np.random.default_rng(0).normal(size=x.shape)})
