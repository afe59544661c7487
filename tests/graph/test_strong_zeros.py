"""Zeros of selections, boxes and paddings are strong in compiled code as they are in eager code."""

from __future__ import annotations

import os
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.core.aval import aval_of
from iverson.core.dispatch import value_of
from iverson.graph.ir.interpret import interpret
from iverson.graph.ir.print import show
from iverson.graph.ir.verify import check
from iverson.graph.passes import PASSES, simplified
from iverson.graph.tracing.trace import trace_flat
from tests.autograd.test_brackets import CASES, PADDED, ROWS, weighted
from tests.conformance.product import EXHAUSTIVE, SEED, by_turns, paired
from tests.graph.part_programs import held, part_program, read
from tests.graph.programs import entries, loss_of
from tests.graph.ways import agree

#: Random programs to a test, and how many tests of them there are.
BLOCK, BLOCKS = (100, 40) if EXHAUSTIVE else (6, 5)
CONSTANTS = 400 if EXHAUSTIVE else 10
#: Of each test of them: how many equations are left, and how many entries they compute.
WORK = Path(__file__).with_name("part_programs.txt")
SIZES = {int(k): [int(n), int(m)] for k, n, m in map(str.split, WORK.read_text().splitlines())}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", by_turns(CASES, 3))
def test_first_and_second_derivatives_are_those_of_eager_code(name):
    f, at = CASES[name]
    x = iv.asarray(at)
    v = np.random.default_rng(1).uniform(0.5, 1.5, at.shape)
    first = iv.grad(lambda x: weighted(f, x))
    second = iv.grad(lambda x: (first(x) * v).sum())
    for a, b in zip(iv.jit(lambda x: (first(x), second(x)))(x), (first(x), second(x)), strict=True):
        assert np.isfinite(entries(b)).all()
        np.testing.assert_allclose(entries(a), entries(b), rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "mode"), paired(by_turns(CASES, 2, 1), ["reverse", "forward"]))
def test_zeros_stay_strong_between_compiled_functions(name, mode):
    """Derivatives of a compiled function to the third order, of one that calls another, and of a part of it:
    what is left out is neither given to a derivative as numbers, nor kept for the next."""
    f, at = CASES[name]
    x, v = iv.asarray(at), iv.asarray(np.random.default_rng(1).uniform(0.5, 1.5, at.shape))

    def derivatives(f):
        loss = lambda x: weighted(f, x)
        for _ in range(3):
            if mode == "reverse":
                loss = lambda x, f=loss: (iv.grad(f)(x) * v).sum()
            else:
                loss = lambda x, f=loss: iv.jvp(f, (x,), (v,))[1]
            yield loss(x)

    compiled = iv.jit(f, interpret=not EXHAUSTIVE)
    apart = iv.jit(lambda x: x * 1.0, interpret=not EXHAUSTIVE)
    expected = list(derivatives(f))
    for g in (compiled, lambda x: compiled(apart(x)), lambda x: apart(f(1 * x)), lambda x: compiled(1 * x)):
        for a, b in zip(derivatives(g), expected, strict=True):
            np.testing.assert_allclose(entries(a), entries(b), rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(("count", "width"), [(4, 2), (2, 5), (2, 3)])
@pytest.mark.parametrize("turned", [True, False])
def test_padding_that_is_known_when_the_program_runs(turned, count, width, padded):
    """The same program, whichever rows are nan: a product that is finite is made once. Of few rows, the
    factor across from what is left out is smaller than the product, and looked at in its place."""

    def loss(w, x, rows):
        y = (w.mT @ x.mT).mT if turned else x @ w
        return (iv.where(rows[:, None], iv.exp(y), 0.0) ** 2).sum()

    gradient = iv.grad(loss)
    compiled = iv.jit(gradient)
    w = np.random.default_rng(0).normal(size=(3, width))
    x, rows = (PADDED[-count:], ROWS[-count:]) if padded else (np.ones((count, 3)), ~ROWS[:count])
    args = list(map(iv.asarray, (w, x, rows)))
    np.testing.assert_allclose(entries(compiled(*args)), entries(gradient(*args)), rtol=1e-12)
    equations = simplified(compiled.graph(*args)).equations
    names = [e.op.name for e in equations]
    assert names.count("matmul") == 2
    assert names.count("mended") == 1
    (looked_at,) = (e.operands[1] for e in equations if e.op.name == "mended")
    assert prod(looked_at.shape) == 3 * min(count, width)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_box_that_is_stored_stays_one():
    """Between products and library steps, what is outside of a box is not multiplied."""
    x = iv.asarray([[4.0, 9.0], [0.0, 1.0], [1.0, 0.0]])
    w = iv.asarray([[1.0, 2.0], [3.0, 5.0]])

    def f(x):
        y = iv.sqrt(x) @ w
        return iv.linalg.inv(y[:1] * y[:1].mT + iv.eye(2)).sum() + (1 / x)[0].sum()

    g = iv.grad(f)
    assert np.isfinite(entries(g(x))).all()
    np.testing.assert_allclose(entries(iv.jit(g)(x)), entries(g(x)), rtol=1e-9)


def test_what_a_branch_leaves_out_is_known_when_it_is_compiled():
    """Conditions of entries that an index names are constants of the branch, of a part of the array."""

    def branch(x):
        return iv.grad(lambda x: iv.sin(x[np.array([0, 0, 0])]).sum() + (x**2).sum())(x)

    def f(p, x):
        return iv.cond(p, branch, lambda x: 2 * x, x)

    x, compiled = iv.asarray([0.3, -1.2, 2.0]), iv.jit(f)
    for p in (True, False):
        found, expected = compiled(iv.asarray(p), x), f(iv.asarray(p), x)
        np.testing.assert_allclose(entries(found), entries(expected), rtol=1e-14)


def test_what_is_read_and_not_zero_is_computed():
    """Of a product that is read in two rows, these are multiplied; of what is summed, a box."""
    x, w = np.ones((40, 8)), np.ones((8, 6))

    def multiply_adds(f, *args):
        with iv.explain.count() as work:
            iv.jit(f)(*args)
        return work.multiply_adds

    assert multiply_adds(lambda x, w: (x @ w)[3:5], x, w) == 2 * 8 * 6
    assert multiply_adds(lambda x, w: iv.softmax(iv.tanh(x @ w))[3].sum(), x, w) == 8 * 6
    assert multiply_adds(lambda x, w: iv.stack([x @ w, x @ w[:, ::-1]])[1, :4].sum(axis=0), x, w) == 4 * 8 * 6


def test_a_part_is_read_at_positions_of_fewer_axes():
    """What sorting moves back, of a box: along one axis by position, along the others by their numbers."""
    x = iv.asarray(np.random.default_rng(3).normal(size=(4, 3, 2)))
    for axis in range(3):
        g = iv.grad(lambda x, axis=axis: (iv.sort(iv.sin(x), axis=axis)[0, :1] ** 2).sum())
        (found,) = interpret(simplified(iv.jit(g).graph(x)), [x])
        np.testing.assert_allclose(entries(found), entries(g(x)), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(SEED * CONSTANTS, SEED * CONSTANTS + CONSTANTS))
def test_constants_of_which_parts_and_selections_are_held(seed):
    """As strided ones: in boxes, selected, or both, and read by the random programs and their gradients."""
    program, arrays = part_program(seed)
    constants = [held(np.random.default_rng(seed + k), x) for k, x in enumerate(arrays)]
    gradient = iv.grad(loss_of(program), (0, 1))

    def f(*args):
        return [*program(*args), *(gradient(*args) if seed % 2 else ())]

    expected = [iv.asarray(entries(y)) for y in f(*(iv.asarray(entries(x)) for x in constants))]
    graph, captured, _ = trace_flat(lambda *args: (f(*args), None), list(map(aval_of, constants)))
    assert not captured
    known = zip(graph.inputs, map(value_of, constants), strict=True)
    graph = replace(graph, inputs=(), constants=(*graph.constants, *known))
    for run in PASSES:
        graph = check(run(graph))
        assert show(run(graph)) == show(graph)
        agree(interpret(graph, []), expected, 1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_parts_and_selections(block):
    """Simplified graphs give what eager code does, from no more work; each pass is done once.

    No more than eager code multiplies and adds in products; no more equations and entries than are written
    down, which ``IVERSON_UPDATE=1`` does: of a product that is made again, each term is an entry.
    """
    size = np.zeros(2, int)
    for seed in range((SEED * BLOCKS + block) * BLOCK, (SEED * BLOCKS + block + 1) * BLOCK):
        program, arrays = part_program(seed)
        args = list(map(iv.asarray, arrays))
        first = iv.grad(loss_of(program), (0, 1))
        parts = (lambda *a, d=first, s=seed: read(s, d(*a)), lambda *a, d=first: d(*a))[seed // 2 % 2]
        second = iv.grad(loss_of(parts))
        f = (
            lambda *a, p=program, d=parts: [*p(*a), *d(*a)],
            lambda *a, d=second, s=seed: read(s, [d(*a)]) if s % 3 else [d(*a)],
        )[seed % 2]
        try:
            with iv.explain.count() as eager:
                expected = [iv.asarray(entries(y)) for y in f(*args)]
            assert all(np.isfinite(y.numpy()).all() for y in expected)
            graph, captured, _ = trace_flat(lambda *a, f=f: (f(*a), None), list(map(aval_of, args)))
            for run in PASSES:
                graph = check(run(graph))
                assert show(run(graph)) == show(graph)
            with iv.explain.count() as work:
                agree(interpret(graph, [*args, *captured]), expected, 1e-9)
            again = [e.params["again"] for e in graph.equations if e.op.name == "mended"]
            assert work.multiply_adds <= eager.multiply_adds
            for g in again:
                assert set(g.inputs) <= {x for e in g.equations for x in e.operands}
            size += len(graph.equations), work.entries.total()
        except Exception as error:
            error.add_note(f"in program {seed}")
            raise
    if os.environ.get("IVERSON_UPDATE"):
        SIZES[block] = size.tolist()
        WORK.write_text("".join(f"{k} {n} {m}\n" for k, (n, m) in sorted(SIZES.items())))
    elif not EXHAUSTIVE and not SEED:
        assert (size <= SIZES[block]).all(), (size, SIZES[block])


def test_a_selection_is_made_once_for_both_orders_of_its_axes() -> None:
    """The cotangents of a ReLU network are factors of two products each, of one of them turned: a view."""

    def loss(x: Any, *weights: Any) -> Any:
        for w in weights:
            x = x @ w
            x = iv.maximum(x, 0 * x)
        return (x**2).sum()

    def second(x: Any, *weights: Any) -> Any:
        return (iv.grad(lambda x: iv.grad(loss)(x, *weights).sum())(x) ** 2).sum()

    shapes = ((9, 4), (4, 4), (4, 4), (4, 4))
    args = [iv.asarray(np.random.default_rng(k).normal(size=s)) for k, s in enumerate(shapes)]
    f = iv.grad(second, (1, 2, 3))
    found = iv.jit(f)
    for a, b in zip(found(*args), f(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    chosen = [e for e in simplified(found.graph(*args)).equations if e.op.name == "where"]
    assert chosen
    assert not any(e.results[0].shape == (4, 9) for e in chosen)
