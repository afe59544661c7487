"""Reductions by a function of the user, against PyTorch: values, derivatives, modes and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import run
from iverson.te.ir.nodes import program_of
from iverson.te.ir.verify import check
from iverson.te.lowering.statement_lowering import afresh

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

N, K, D = 4, 6, 3
P = np.array([0, 2, 2, 5, 9])
IDX = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3])
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((N, D)), rng.standard_normal((K, D))


def online(a: Any, b: Any) -> Any:
    m = te.maximum(a[0], b[0])
    scaled = lambda e: te.select(e[1] > 0, e[1] * te.exp(e[0] - m), 0.0)
    return m, scaled(a) + scaled(b)


def moments(a: Any, b: Any) -> Any:
    """Count, mean and sum of squares (Chan, Golub, LeVeque)."""
    n, d = a[0] + b[0], b[1] - a[1]
    s = te.maximum(n, 1.0)
    return n, a[1] + d * b[0] / s, a[2] + b[2] + d * d * a[0] * b[0] / s


def matrices(a: Any, b: Any) -> Any:
    """Products of 2 x 2 matrices: associative, and not commutative."""
    return tuple(sum(a[2 * i + k] * b[2 * k + j] for k in (0, 1)) for i in (0, 1) for j in (0, 1))


normalizer = te.reducer(online, (-np.inf, 0.0))
welford = te.reducer(moments, (0.0, 0.0, 0.0))
product = te.reducer(matrices, (1.0, 0.0, 0.0, 1.0))
largest = te.reducer(
    lambda a, b: (te.maximum(a[0], b[0]), te.select(a[0] >= b[0], a[1], b[1])), (-np.inf, 0.0)
)
multiplied = te.reducer(lambda a, b: a * b, 1.0)


def logsumexp(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    k, d = te.reduce_axis(K, "k"), te.reduce_axis(D, "d")

    def entry(i: Any) -> Any:
        m, s = normalizer((te.sum(x[i, d] * y[k, d], d), 1.0), k)
        return m + te.log(s)

    return te.compute((N,), entry, "T")


def ragged_logsumexp(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    d = te.reduce_axis(D, "d")

    def entry(i: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]), "e")
        m, s = normalizer((te.sum(x[i, d] * y[idx[e], d], d), 1.0), e)
        return te.select(s > 0, m + te.log(s), 0.0)

    return te.compute((N,), entry, "T")


def variance(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    k = te.reduce_axis(K, "k")

    def entry(i: Any) -> Any:
        n, _, square = welford((1.0, y[k, 0] * x[i, 1], 0.0), k)
        return square / n

    return te.compute((N,), entry, "T")


def chain(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    k, d = te.reduce_axis(2, "k"), te.reduce_axis(D, "d")

    def entry(i: Any) -> Any:
        a, b, c, e = product((y[3 * k + d, 0], y[3 * k + d, 1], x[i, d], y[k, 2]), (k, d))
        return a + b * c - e

    return te.compute((N,), entry, "T")


def payload(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    k, d = te.reduce_axis(K, "k"), te.reduce_axis(D, "d")
    score = lambda i: te.sum(x[i, d] * y[k, d], d)
    return te.compute((N, D), lambda i, c: largest((score(i), y[k, c] * x[i, 0]), k)[1], "T")


def ragged_products(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    def entry(i: Any, c: Any) -> Any:
        e = te.reduce_axis((p[i], p[i + 1]), "e")
        return multiplied(x[i, c] - y[idx[e], c], e)

    return te.compute((N, D), entry, "T")


def their_chain(x: Any, y: Any) -> Any:
    out = []
    for i in range(N):
        m = torch.eye(2, dtype=torch.float64)
        for k in range(2):
            for d in range(D):
                rows = torch.stack([y[3 * k + d, 0], y[3 * k + d, 1]]), torch.stack([x[i, d], y[k, 2]])
                m = m @ torch.stack(rows)
        out.append(m[0, 0] + m[0, 1] * m[1, 0] - m[1, 1])
    return torch.stack(out)


def of_rows(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: torch.stack([f(x[i], y[IDX[P[i] : P[i + 1]]]) for i in range(N)])


KERNELS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "logsumexp": (logsumexp, lambda x, y: torch.logsumexp(x @ y.T, 1)),
    "ragged_logsumexp": (
        ragged_logsumexp,
        of_rows(lambda x, k: torch.logsumexp(k @ x, 0) if len(k) else 0 * x.sum()),
    ),
    "variance": (variance, lambda x, y: (y[:, 0] * x[:, 1:2]).var(1, unbiased=False)),
    "chain": (chain, their_chain),
    "payload": (payload, lambda x, y: y[(x @ y.T).argmax(1)] * x[:, :1]),
    "ragged_products": (ragged_products, of_rows(lambda x, k: (x - k).prod(0))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_are_those_of_torch(name: str) -> None:
    define, theirs = KERNELS[name]
    inputs = [te.placeholder((N + 1,), "int64", "p"), te.placeholder((len(IDX),), "int64", "idx")]
    x, y = te.placeholder((N, D), name="x"), te.placeholder((K, D), name="y")
    output = define(*inputs, x, y)
    h = te.placeholder(output.shape, name="h")
    moves = {t: te.placeholder(t.shape, name=f"d{t.name}") for t in (x, y)}
    gradients = te.differentiate(output, [x, y], head=h)
    outputs: list[Tensor] = [output, *gradients, te.jvp(output, moves)]
    outputs += [te.jvp(g, moves) for g in gradients]
    arrays = {"x": X, "y": Y, "p": P, "idx": IDX}
    arrays |= {t.name: rng.standard_normal(t.shape) for t in (h, *moves.values())}
    tx, ty = (torch.tensor(arrays[k], requires_grad=True) for k in ("x", "y"))
    u, v, w = (torch.tensor(arrays[k]) for k in ("dx", "dy", "h"))
    value = theirs(tx, ty)
    first = torch.autograd.grad(value, (tx, ty), w, create_graph=True)
    along = sum((g * m).sum() for g, m in zip(first, (u, v), strict=True))
    second = torch.autograd.grad(along, (tx, ty))
    tangent = torch.autograd.functional.jvp(theirs, (tx, ty), (u, v))[1]
    program = program_of(outputs)
    feed = [arrays[q.name] for q in program.inputs]
    check(program)
    eliminated = te.eliminate(program)
    check(eliminated)
    code = afresh(eliminated)
    for results in (run(program, feed), run(eliminated, feed), code(*feed), code(*feed, threads=2)):
        for a, b in zip(results, [value, *first, tangent, *second], strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["logsumexp", "ragged_logsumexp"])
def test_modes_of_an_op_are_those_of_torch(name: str) -> None:
    define, theirs = KERNELS[name]
    op = te.op(define)
    f = lambda y: iv.sin(op(P, IDX, X, y)).sum()
    tx, ty = torch.tensor(X), torch.tensor(Y, requires_grad=True)
    their_f = lambda y: torch.sin(theirs(tx, y)).sum()
    (first,) = torch.autograd.grad(their_f(ty), ty)
    hessian = torch.autograd.functional.hessian(their_f, ty)
    y = iv.asarray(Y)
    stacked = iv.stack([0 * y, y])
    for g in (
        iv.grad(f)(y),
        iv.jit(iv.grad(f))(y),
        iv.grad(iv.jit(f))(y),
        iv.vmap(iv.grad(f))(stacked)[1],
        iv.grad(lambda y: iv.vmap(f)(y).sum())(stacked)[1],
    ):
        np.testing.assert_allclose(g, first.numpy(), atol=1e-12)
    np.testing.assert_allclose(iv.jit(iv.hessian(f))(y), hessian.numpy(), atol=1e-11)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 17, 9001])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "float16"])
def test_any_number_of_elements_is_combined_in_order(n: int, dtype: str) -> None:
    """Maps ``v -> a v + b``, one after the other."""
    affine = te.reducer(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (1, 0))

    @te.op
    def composed(a: Any, b: Any) -> Any:
        k = te.reduce_axis(a.shape[0])
        return te.compute((), lambda: affine((a[k], b[k]), k)[1])

    a = rng.integers(-1, 2, n).astype(dtype)
    b = rng.integers(-3, 4, n).astype(dtype)
    v = np.zeros((), dtype)
    for x, y in zip(a, b, strict=True):
        v = v * x + y
    result = composed(a, b)
    assert str(result.dtype) == dtype
    np.testing.assert_allclose(np.asarray(result), v)


def test_a_scan_may_reduce_in_its_steps() -> None:
    @te.op
    def softmaxes(x: Any) -> Any:
        n, m = x.shape
        k = te.reduce_axis(m)

        def entry(s: Any, t: Any) -> Any:
            top, total = normalizer((x[t, k] * s[t - 1], 1.0), k)
            return top + te.log(total)

        return te.scan((n,), lambda s: te.compute((n,), lambda t: entry(s, t)), init=1.0)

    def theirs(x: Any) -> Any:
        s, out = torch.ones((), dtype=x.dtype), []
        for row in x:
            s = torch.logsumexp(row * s, 0)
            out.append(s)
        return torch.stack(out)

    tx = torch.tensor(X, requires_grad=True)
    (expected,) = torch.autograd.grad(theirs(tx).sum(), tx)
    np.testing.assert_allclose(softmaxes(X), theirs(tx).detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(
        iv.grad(lambda x: softmaxes(x).sum())(iv.asarray(X)), expected.numpy(), atol=1e-12
    )


def test_what_is_no_reducer_is_named() -> None:
    x, k = te.placeholder((5,), name="x"), te.reduce_axis(5, "k")
    with pytest.raises(ArgumentTypeError, match="combine"):
        te.reducer(3, 0.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"identity.*the element that changes no other"):
        te.reducer(lambda a, b: a, "0")  # type: ignore[arg-type]
    pairs = te.reducer(lambda a, b: a[0], (0.0, 0.0))
    with pytest.raises(ArgumentError, match=r"combine.*got one number.*a tuple of 2 numbers"):
        pairs((x[k], x[k]), k)
    with pytest.raises(ArgumentError, match=r"element.*got one number.*a tuple of 2 numbers"):
        largest(x[k], k)
    with pytest.raises(ArgumentError, match=r"reads x\[k\].*one more number of the element"):
        te.reducer(lambda a, b: a + b * x[k], 0.0)(x[k], k)
    with pytest.raises(ArgumentTypeError, match=r"axis.*te\.reduce_axis"):
        multiplied(x[k], 3)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"float64 as number 0.*int64"):
        te.reducer(lambda a, b: (a + b) / 2, 0)(te.placeholder((5,), "int64", "n")[k], k)
    with pytest.raises(ArgumentError, match=r"identity.*1\.0 as number 0, which combine makes 2\.0"):
        te.reducer(lambda a, b: a + b, 1.0)(x[k], k)
