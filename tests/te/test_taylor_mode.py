"""Taylor coefficients of programs, against the values along the curve; and their work, counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import iverson as iv
from iverson import te
from iverson.core.counting import work as counted
from iverson.core.errors import IndexingError
from iverson.expr.nodes import Apply, postorder
from iverson.te.derivatives.taylor_mode import coefficients
from iverson.te.ir.interpret import run
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import lower
from tests.conformance.product import EXHAUSTIVE, by_turns

from . import corpus_recurrences, corpus_scenes  # noqa: F401  (they enter their kernels)
from .corpus import KERNELS
from .programs import ROWS, Programs, drawn

ORDER = 3
#: The points of the curve at which values are computed, and the degree of a polynomial through them.
RADIUS, NODES, DEGREE = 0.02, 14, 10
#: Relative distance of values from the polynomial, beyond which they are not taken for smooth.
ERROR = 1e-12
Values = dict[te.Tensor, Any]


def expanded(outputs: Any, feed: Values, moves: list[Values]) -> list[list[Any]]:
    """The coefficients of each output by Taylor mode; ``moves`` are those of inputs, by order."""
    inputs = moves[0].keys()
    series: dict[te.Tensor, list[te.Tensor | None]] = {
        x: [te.placeholder(x.shape, x.dtype, f"{x.name}_{k}") for k in range(1, ORDER + 1)] for x in inputs
    }
    feed = feed | {p: m[x] for x in inputs for p, m in zip(series[x], moves, strict=True)}
    found = coefficients(outputs, series, ORDER)
    program = te.program_of([t for ts in found for t in ts if t is not None])
    values = iter(run(program, [feed[p] for p in program.inputs]))
    return [[0.0 if t is None else next(values) for t in ts] for ts in found]


def along(outputs: Any, feed: Values, moves: list[Values]) -> list[tuple[Any, list[Any]]]:
    """Of each output which entries are polynomials near 0, and their coefficients, each with its error."""
    program = te.program_of(outputs)
    nodes = RADIUS * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    values = []
    for t in nodes:
        here = {x: feed[x] + sum(m[x] * t**k for k, m in enumerate(moves, 1)) for x in moves[0]}
        values.append(run(program, [(feed | here)[p] for p in program.inputs]))
    basis = chebyshev.chebvander(nodes / RADIUS, DEGREE)
    powers = np.zeros((DEGREE + 1, DEGREE + 1))
    for k in range(DEGREE + 1):
        powers[: k + 1, k] = chebyshev.cheb2poly([0] * k + [1])
    inverse = np.linalg.pinv(basis)
    rounding = [ERROR * np.abs((powers @ inverse)[k]).sum() / RADIUS**k for k in range(1, ORDER + 1)]
    results = []
    for at in zip(*values, strict=True):
        table = np.reshape(at, (NODES, -1))
        fit = inverse @ table
        size = 1 + np.abs(table).max(axis=0)
        smooth = np.abs(basis @ fit - table).max(axis=0) <= ERROR * size
        terms = powers @ fit
        shape = np.shape(at)[1:]
        sizes = np.max(size, initial=1, where=smooth)
        by_order = [
            (np.reshape(terms[k] / RADIUS**k, shape), 4 * r * sizes) for k, r in enumerate(rounding, 1)
        ]
        results.append((smooth.reshape(shape), by_order))
    return results


def agree(outputs: Any, feed: Values, rng: np.random.Generator) -> float:
    """Compare all coefficients; the result is the share of the entries that could be."""
    inputs = [p for p in feed if p.dtype.kind in "fc"]
    moves = [{x: 0.3 * drawn(rng, x) for x in inputs} for _ in range(ORDER)]
    outputs = [t for t in outputs if t.dtype.kind in "fc"]
    shares = [1.0]
    for found, (smooth, expected) in zip(
        expanded(outputs, feed, moves), along(outputs, feed, moves), strict=True
    ):
        shares.append(float(np.mean(smooth)) if smooth.size else 1.0)
        for a, (b, atol) in zip(found, expected, strict=True):
            a, b = np.broadcast_to(a, b.shape)[smooth], b[smooth]
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol)
    return min(shares)


@pytest.mark.parametrize("name", by_turns(KERNELS, 12))
def test_kernels_of_the_literature(name):
    given, outputs, values = KERNELS[name].built()
    share = agree(outputs, dict(zip(given, values.values(), strict=True)), np.random.default_rng(2))
    assert share > 0.3


@pytest.mark.parametrize("seed", range(600 if EXHAUSTIVE else 8))
def test_random_programs(seed):
    drawing = Programs(seed)
    output, differentiable = drawing.program()
    if not differentiable or drawing.dtype != "float64":
        return
    program = te.program_of([output])
    sizes = dict(zip(drawing.shape, (drawing.n, drawing.m), strict=True)) if program.sizes else {}
    bound = te.program_of(te.bind([output], {v: sizes[v] for v in program.sizes})) if sizes else program
    rng = np.random.default_rng(seed)
    feeds = {"rows": rng.integers(0, 1 + drawing.Y.shape[0], ROWS), "at": rng.integers(0, 4, 4)}
    feed = {p: feeds[p.name] if p.name in feeds else drawn(rng, p) for p in bound.inputs}
    try:
        with np.errstate(all="ignore"):
            agree(bound.outputs, feed, rng)
    except IndexingError:  # the primal has it, too
        with pytest.raises(IndexingError):
            run(bound, list(feed.values()))


@te.op
def correlated(x, w):
    k = te.reduce_axis((0, w.shape[0]))
    shape = (x.shape[0] - w.shape[0] + 1,)
    return te.compute(shape, lambda i: te.sum(te.sin(w[k] * x[i + k]), axis=k))


@te.op
def bilinear(x, w):
    k = te.reduce_axis((0, w.shape[0]))
    shape = (x.shape[0] - w.shape[0] + 1,)
    return te.compute(shape, lambda i: te.sum(w[k] * x[i + k], axis=k))


def points(op, order):
    """Points visited by the program of all coefficients, and its multiplications."""
    x, w = te.placeholder((9,), name="x"), te.placeholder((3,), name="w")
    (y,) = op.expression.outputs((x, w), {})
    series = {t: [te.placeholder(t.shape, name=f"{t.name}{k}") for k in range(1, order + 1)] for t in (x, w)}
    program = te.program_of([y, *coefficients([y], series, order)[0]])
    nodes = postorder([s.body for s in program.statements])
    multiplications = sum(isinstance(e, Apply) and e.name == "multiply" for e in nodes)
    return work(lower(te.eliminate(program))).points, multiplications


def test_points_grow_with_the_order_and_products_with_its_square():
    """Each order is one more statement over the points of the primal; a product has a term for each pair."""
    single = points(bilinear, 1)[0] / 2
    for order in range(1, 7):
        visited, multiplications = points(bilinear, order)
        assert visited <= (order + 1) * single
        assert multiplications == (order + 1) * (order + 2) / 2
        visited, multiplications = points(correlated, order)
        assert visited <= (order + 1) * single
        # w x; its slope times sin and cos; the factors j of slopes
        assert multiplications <= 3 * (order + 1) * (order + 2) / 2 + order


@pytest.mark.parametrize("op", [correlated, bilinear])
def test_all_orders_are_one_call(op):
    x, w = iv.asarray(np.linspace(0.1, 1, 9)), iv.asarray(np.linspace(0.2, 0.5, 3))
    for order in range(1, 7):
        with counted.counting() as found:
            iv.jet(op, (x, w), ([x] * order, [w] * order))
        assert found.calls.total() == 1
        assert found.total_entrywise == 7 * (order + 1)


def test_series_in_all_modes():
    """The third derivative of a loss of an op, and its gradient: as PyTorch's, nested."""
    torch = pytest.importorskip("torch")
    x, w = np.linspace(0.1, 1, 9), np.linspace(0.2, 0.5, 3)

    def third(w, x):
        f = lambda t: (correlated(x * (1 + t), iv.exp(t) * w) ** 2).sum()
        return iv.derivatives(f, 3)(iv.asarray(0.0))[3]

    leaf, t = torch.tensor(w, requires_grad=True), torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    windows = (torch.tensor(x) * (1 + t)).unfold(0, 3, 1)
    value = (torch.sin(windows * torch.exp(t) * leaf).sum(-1) ** 2).sum()
    for _ in range(3):
        (value,) = torch.autograd.grad(value, t, create_graph=True)
    (gradient,) = torch.autograd.grad(value, leaf)
    a, b = iv.asarray(w), iv.asarray(x)
    for found in (third(a, b), iv.jit(third)(a, b), iv.vmap(third, (None, 0))(a, iv.stack([b, b]))[1]):
        np.testing.assert_allclose(found.numpy(), value.item(), rtol=1e-10)
    modes = [
        iv.jit(iv.grad(third)),
        iv.grad(third),
        iv.grad(iv.jit(third)),
        iv.grad(iv.checkpoint(third)),
        iv.jacobian(third, mode="forward"),
        lambda w, x: iv.vmap(iv.grad(third), (None, 0))(w, iv.stack([x, x]))[1],
        iv.grad(lambda w, x: iv.scan(lambda c, _: (c + third(w, x), None), iv.asarray(0.0), iv.arange(1))[0]),
    ]
    for f in modes if EXHAUSTIVE else modes[:2]:
        np.testing.assert_allclose(f(a, b).numpy(), gradient.numpy(), rtol=1e-9)


class Inner(iv.autograd.Function):
    """A function in whose forward and jvp an op is called: coefficients are asked for one by one."""

    @staticmethod
    def forward(ctx, x):
        y = bilinear(iv.sin(x), iv.asarray([0.5, 1.0], dtype=x.dtype))
        ctx.save_for_forward(x)
        return y

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return bilinear(iv.cos(x) * t, iv.asarray([0.5, 1.0], dtype=x.dtype))


@pytest.mark.parametrize(
    "function",
    [Inner.apply, lambda x: bilinear(iv.sin(x), iv.asarray([0.5, 1.0], dtype=x.dtype))],
    ids=["lazy", "known"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
def test_closed_form(function, dtype):
    x = np.linspace(0.1, 0.9, 4).astype(dtype)
    found = iv.derivatives(function, 4, direction=iv.ones(4))(iv.asarray(x))
    exact = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    eps = np.finfo(dtype).eps
    for c, f in zip(found, exact, strict=True):
        wide = x.astype("complex128" if dtype == "complex128" else "float64")
        assert str(c.dtype) == dtype
        np.testing.assert_allclose(c.numpy(), 0.5 * f(wide)[:-1] + f(wide)[1:], rtol=0, atol=8 * eps)


def test_operators_of_an_op():
    """sum_i sum_k sin(w_k x_(i+k)): of each term -w_k^2 sin, and w_k^4 sin; then of its sine, as Hessians."""
    x, w = np.linspace(0.1, 1, 9), np.linspace(0.2, 0.5, 3)
    f = lambda x: correlated(x, iv.asarray(w)).sum()
    exact = sum(-(w[k] ** 2) * np.sin(w[k] * x[k : k + 7]).sum() for k in range(3))
    value, found = iv.laplacian(f)(iv.asarray(x))
    np.testing.assert_allclose(value.numpy(), f(iv.asarray(x)).numpy())
    np.testing.assert_allclose(found.numpy(), exact, rtol=1e-12)
    fourth = sum(w[k] ** 4 * np.sin(w[k] * x[k : k + 7]).sum() for k in range(3))
    np.testing.assert_allclose(iv.biharmonic(f)(iv.asarray(x)).numpy(), fourth, rtol=1e-12)
    g = lambda x: iv.sin(correlated(iv.exp(x), iv.asarray(w))).sum()
    trace = lambda f: lambda x: iv.linalg.trace(iv.hessian(f)(x))
    second = trace(g)(iv.asarray(x)).numpy()
    for h in (iv.laplacian(g), iv.jit(iv.laplacian(g)), iv.laplacian(iv.jit(g))):
        np.testing.assert_allclose(h(iv.asarray(x))[1].numpy(), second, rtol=1e-11)
    mapped = iv.vmap(iv.laplacian(g))(iv.stack([iv.asarray(x)] * 2))[1]
    np.testing.assert_allclose(mapped.numpy(), [second, second], rtol=1e-11)
    found = iv.grad(lambda x: iv.laplacian(g)(x)[1])(iv.asarray(x))
    np.testing.assert_allclose(found.numpy(), iv.grad(trace(g))(iv.asarray(x)).numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("d", [8, 12])
def test_an_operator_is_one_call_and_each_line_has_the_points_of_the_primal(d):
    """Of d variables the Laplacian has d lines and a biharmonic d^2; the value has a program of its own."""
    w = iv.asarray(np.linspace(0.2, 0.5, 3))
    f = lambda x: correlated(x, w).sum()
    for operator, order, lines in ((iv.laplacian, 2, d), (iv.biharmonic, 4, d * d)):
        with counted.counting() as found:
            operator(f)(iv.ones(d))
        calls = {name: n for name, n in found.calls.items() if name.startswith("te.")}
        assert calls == {"te.correlated": 1, "te.correlated.taylor.x.batch": 1}
        assert found.entrywise["te.correlated.taylor.x.batch"] == order * lines * (d - 2)
