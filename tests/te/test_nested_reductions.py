"""Reductions for each point of ragged loops around them: values, and derivatives to order two, of PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.errors import ArgumentError
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.interpret import Visits, run
from iverson.te.ir.nodes import program_of
from iverson.te.ir.verify import check
from iverson.te.lowering.lowered_program import Interpreted
from iverson.te.lowering.statement_lowering import afresh
from iverson.te.ops.point_relations import relation_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

D = 3
P = np.array([0, 2, 2, 5, 9])
ROWS = [range(a, b) for a, b in itertools.pairwise(P)]
N, M = len(ROWS), int(P[-1])
rng = np.random.default_rng(0)
IDX = rng.integers(0, 6, M)
X, Y = rng.standard_normal((N, D)), rng.standard_normal((6, D))

Kernel = Callable[[Any, Any, Any, Any], te.Compute]


def row(p: Any, i: Any) -> Any:
    return te.reduce_axis((p[i], p[i + 1]), "e")


def exponentials(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        return te.sum(te.exp(te.sum(x[i, d] * y[idx[e], d], d)), e)

    return te.compute((N,), entry, "T")


def extrema(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        least = te.min(x[i, d] - y[idx[e], d], d)
        return te.sum(te.max(x[i, d] * y[idx[e], d], d) * te.prod(x[i, d] + y[idx[e], d], d) + least, e)

    return te.compute((N,), entry, "T")


def products(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    """Of factors of which some are 0: two in one row, one in another."""

    def entry(i: Any, c: Any) -> Any:
        e = row(p, i)
        return te.prod(y[idx[e], c] * x[i, 1], e)

    return te.compute((N, D), entry, "T")


def triplets(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    """Angles between pairs of neighbours, each pair once."""

    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        f = te.reduce_axis((p[i], e), "f")
        dot = te.sum((y[idx[e], d] - x[i, d]) * (y[idx[f], d] - x[i, d]), d)
        size = lambda e: te.sqrt(te.sum((y[idx[e], d] - x[i, d]) ** 2, d))
        return te.sum(te.sum(te.cos(dot / (size(e) * size(f))), f), e)

    return te.compute((N,), entry, "T")


def lennard_jones(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    """Energy over a neighbour list, with a cut-off."""

    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        square = te.sum((y[idx[e], d] - x[i, d]) ** 2, d)
        return te.sum(te.select(square < 9.0, square**-6.0 - square**-3.0, 0.0), e)

    return te.compute((N,), entry, "T")


def attention(p: Any, idx: Any, x: Any, y: Any) -> te.Compute:
    d = te.reduce_axis(D, "d")
    score = lambda i, e: te.sum(x[i, d] * y[idx[e], d], d)

    def over(total: Any, term: Any) -> Any:
        def entry(i: Any, *c: Any) -> Any:
            e = row(p, i)
            return total(term(i, e, *c), e)

        return entry

    m = te.compute((N,), over(te.max, score), "m")
    z = te.compute((N,), over(te.sum, lambda i, e: te.exp(score(i, e) - m[i])), "z")
    term = lambda i, e, c: te.exp(score(i, e) - m[i]) / z[i] * y[idx[e], c]
    return te.compute((N, D), over(te.sum, term), "o")


def of_rows(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """For each row, f of the row of x and of its neighbours in y."""
    return lambda x, y: torch.stack([f(x[i], y[IDX[list(r)]]) for i, r in enumerate(ROWS)])


def their_triplets(x: Any, k: Any) -> Any:
    pairs = [(k[a] - x, k[b] - x) for a in range(len(k)) for b in range(a)]
    terms = [torch.cos(u @ v / (torch.sqrt(u @ u) * torch.sqrt(v @ v))) for u, v in pairs]
    return sum(terms, start=0 * x.sum())


def their_energy(x: Any, k: Any) -> Any:
    square = ((k - x) ** 2).sum(-1)
    return torch.where(square < 9.0, square**-6.0 - square**-3.0, 0.0).sum()


def their_extrema(x: Any, k: Any) -> Any:
    if not len(k):
        return 0 * x.sum()
    return ((k * x).max(-1).values * (k + x).prod(-1) + (x - k).min(-1).values).sum()


KERNELS: dict[str, tuple[Kernel, Callable[[Any, Any], Any]]] = {
    "exponentials": (exponentials, of_rows(lambda x, k: torch.exp(k @ x).sum())),
    "extrema": (extrema, of_rows(their_extrema)),
    "products": (products, of_rows(lambda x, k: (k * x[1]).prod(0))),
    "triplets": (triplets, of_rows(their_triplets)),
    "lennard_jones": (lennard_jones, of_rows(their_energy)),
    "attention": (attention, of_rows(lambda x, k: torch.softmax(k @ x, 0) @ k if len(k) else 0 * x)),
}


def placeholders() -> list[te.Placeholder]:
    return [
        te.placeholder((N + 1,), "int64", "p"),
        te.placeholder((M,), "int64", "idx"),
        te.placeholder((N, D), name="x"),
        te.placeholder((6, D), name="y"),
    ]


@pytest.mark.parametrize(("name", "zeros"), [*((name, False) for name in KERNELS), ("products", True)])
def test_derivatives_are_those_of_torch(name: str, zeros: bool) -> None:
    define, theirs = KERNELS[name]
    p, idx, x, y = placeholders()
    output = define(p, idx, x, y)
    h = te.placeholder(output.shape, name="h")
    moves = {t: te.placeholder(t.shape, name=f"d{t.name}") for t in (x, y)}
    gradients = te.differentiate(output, [x, y], head=h)
    outputs: list[Tensor] = [output, *gradients, te.jvp(output, moves)]
    outputs += [te.jvp(g, moves) for g in gradients]
    outputs += te.differentiate(list(gradients), [x, y], head=list(moves.values()))

    y_value = Y.copy()
    if zeros:
        y_value[IDX[5]] = 0.0
        y_value[IDX[8], 0] = 0.0
    arrays = {"x": X, "y": y_value, "p": P, "idx": IDX}
    arrays |= {t.name: rng.standard_normal(t.shape) for t in (h, *moves.values())}
    tx, ty = (torch.tensor(arrays[k], requires_grad=True) for k in ("x", "y"))
    u, v, w = (torch.tensor(arrays[k]) for k in ("dx", "dy", "h"))
    value = theirs(tx, ty)
    first = torch.autograd.grad(value, (tx, ty), w, create_graph=True)
    along = sum((g * m).sum() for g, m in zip(first, (u, v), strict=True))
    second = torch.autograd.grad(along, (tx, ty))
    tangent = torch.autograd.functional.jvp(theirs, (tx, ty), (u, v))[1]
    expected = [value, *first, tangent, *second, *second]

    program = program_of(outputs)
    feed = [arrays[q.name] for q in program.inputs]
    check(program)
    eliminated = te.eliminate(program)
    check(eliminated)
    code = afresh(eliminated)
    assert not any(isinstance(s, Interpreted) for s in code.steps)
    for results in (run(program, feed), run(eliminated, feed), code(*feed), code(*feed, threads=2)):
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-9, atol=1e-10)


def test_modes_of_an_op_are_those_of_torch() -> None:
    op = te.op(attention)
    f = lambda x, y: iv.sin(op(P, IDX, x, y)).sum()
    their_f = lambda x, y: torch.sin(KERNELS["attention"][1](x, y)).sum()
    tx, ty = (torch.tensor(a, requires_grad=True) for a in (X, Y))
    first = torch.autograd.grad(their_f(tx, ty), (tx, ty))
    hessian = torch.autograd.functional.hessian(lambda y: their_f(tx, y), ty)
    x, y = iv.asarray(X), iv.asarray(Y)
    both = iv.grad(f, argnums=(0, 1))
    stacked = iv.stack([2 * x, x]), iv.stack([0 * y, y])
    gradients = [
        both(x, y),
        iv.jit(both)(x, y),
        iv.grad(iv.jit(f), argnums=(0, 1))(x, y),
        [g[1] for g in iv.vmap(both)(*stacked)],
        [g[1] for g in iv.jit(iv.vmap(both))(*stacked)],
        [g[1] for g in iv.grad(lambda x, y: iv.vmap(f)(x, y).sum(), argnums=(0, 1))(*stacked)],
    ]
    for result in gradients:
        for a, b in zip(result, first, strict=True):
            np.testing.assert_allclose(a, b.numpy(), atol=1e-12)
    second = iv.hessian(lambda y: f(x, y))
    for h in (second, iv.jit(second)):
        np.testing.assert_allclose(h(y), hessian.numpy(), atol=1e-11)


def test_the_relation_of_a_program_lists_what_its_rows_read() -> None:
    inputs = placeholders()
    program = program_of([exponentials(*inputs)], inputs)
    relation = relation_of(program, inputs, (P, IDX, iv.asarray(X), iv.asarray(Y)), 3, 0)
    expected = np.zeros((N, 6, D), bool)
    for i, r in enumerate(ROWS):
        expected[i, IDX[list(r)]] = True
    np.testing.assert_array_equal(relation.matrix().toarray().reshape(N, 6, D), expected)


def test_only_points_of_rows_are_visited() -> None:
    p, idx, x, y = placeholders()
    visits: list[Visits] = []
    program = te.eliminate(triplets(p, idx, x, y))
    arrays = {"x": X, "y": Y, "p": P, "idx": IDX}
    run(program, [arrays[q.name] for q in program.inputs], visits)
    pairs = sum(len(r) * (len(r) - 1) // 2 for r in ROWS)
    (record,) = visits
    assert (record.points, record.idle) == (M if record.points == M else pairs, 0)
    assert record.inner <= 3 * D * pairs + pairs


def test_conditions_bound_the_points_of_a_reduction() -> None:
    p, _, x, _ = placeholders()

    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        return te.sum(te.sum(te.select(d <= e - p[i], x[i, d], 0.0) * te.bracket(d > 0), d) ** 2, e)

    visits: list[Visits] = []
    program = te.eliminate(te.compute((N,), entry, "T"))
    arrays = {"x": X, "p": P}
    (result,) = run(program, [arrays[q.name] for q in program.inputs], visits)
    expected = [sum(X[i, 1 : e - P[i] + 1].sum() ** 2 for e in r) for i, r in enumerate(ROWS)]
    np.testing.assert_allclose(result, expected)
    np.testing.assert_allclose(afresh(program)(*[arrays[q.name] for q in program.inputs])[0], expected)
    assert visits[0].inner == M * (D - 1)


def test_axes_of_a_position_are_named() -> None:
    p, _, x, _ = placeholders()
    k = te.reduce_axis(2, "k")
    with pytest.raises(ArgumentError, match="ragged axis first"):
        te.compute((N,), lambda i: te.argmax(x[i, k], (k, row(p, i))))


def test_conditions_beyond_the_range_of_an_axis_do_not_widen_it() -> None:
    p, _, x, _ = placeholders()

    def entry(i: Any) -> Any:
        e, d = row(p, i), te.reduce_axis(D, "d")
        return te.sum(te.sum(te.select((d <= e) & (d + 9 > e), x[i, d], 0.0), d) ** 2, e)

    program = te.eliminate(te.compute((N,), entry, "T"))
    feed = [{"x": X, "p": P}[q.name] for q in program.inputs]
    terms = lambda i, e: [X[i, d] for d in range(D) if d <= e < d + 9]
    expected = [sum(sum(terms(i, e)) ** 2 for e in r) for i, r in enumerate(ROWS)]
    for (result,) in (run(program, feed), afresh(program)(*feed)):
        np.testing.assert_allclose(result, expected)
