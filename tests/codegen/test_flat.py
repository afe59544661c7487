"""Loops of elementwise code: which axes become one, and how often a line of memory comes into a cache."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson.codegen.nests import interpret
from iverson.codegen.nests.nodes import Loop, statements
from iverson.codegen.programs.nodes import Nest, Product, walk
from iverson.codegen.schedule.row_tiling import parts
from iverson.graph.lowering.graph_lowering import lower
from iverson.graph.passes import simplified

RNG = np.random.default_rng(0)


def steps(f, *arrays):
    args = [iv.asarray(a) for a in arrays]
    jitted = iv.jit(f)
    for got, want in zip(jitted(*args), f(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    (step,) = lower(simplified(jitted.graph(*args))).steps
    return list(walk(step.compiled.program.steps))


def depths(f, *arrays):
    """The loops of each nest, cuts of them for threads aside."""
    nests = (s for s in steps(f, *arrays) if isinstance(s, Nest))
    return [sum(isinstance(x, Loop) and x.step == 1 for x in statements(s.kernel.phases)) for s in nests]


A, B = RNG.normal(size=(6, 5, 7, 11)), RNG.normal(size=(6, 5, 7, 11))


#: Functions, their arguments, and how many loops they take.
LOOPS = {
    "all axes": (lambda a, b: (a * b + 1,), (A, B), 1),
    "several results": (lambda a, b: (iv.sin(a), a > b, a - b), (A, B), 1),
    "a scalar": (lambda a, b: (a * b.sum(),), (A, np.array(2.0)), 1),
    "a row": (lambda a, b: (a * b,), (A, B[0, 0, 0]), 2),
    "a column": (lambda a, b: (a * b,), (A, B[..., :1]), 2),
    "columns in the middle": (lambda a, b: (a * b,), (A, B[:, :1, :1]), 3),
    "extents of 1": (lambda a, b: (a[:, None] - b[:, None],), (A, B), 1),
    "a transposed operand": (lambda a, b: (a + iv.permute_dims(b, (1, 0, 2, 3)),), (A[:5], B[:, :5][:5]), 3),
    "positions": (lambda a: (iv.tril(a),), (A[0, 0],), 2),
    "rows of whole vectors": (lambda a, b: (a * b,), (np.ones((6, 5, 32)), np.ones((6, 5, 32))), 3),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    f, args, loops = LOOPS[name]
    assert set(depths(f, *args)) == {loops}


def test_what_is_seen_in_another_shape_is_written_over():
    made = steps(lambda x, w: (iv.sin(x @ w) * 2,), RNG.normal(size=(40, 60)), RNG.normal(size=(60, 41)))
    product, nest = made
    assert isinstance(product, Product)
    assert [v.buffer for v in nest.views] == [product.out.buffer]
    assert product.out.buffer.role == "out"


def test_products_of_one_term_are_loops():
    columns, rows = RNG.normal(size=(3, 40, 1)), RNG.normal(size=(3, 1, 50))
    assert not any(isinstance(s, Product) for s in steps(lambda a, b: (a @ b,), columns, rows))
    assert not any(isinstance(s, Product) for s in steps(lambda a, b: (a @ b,), columns[0], rows[0]))


BIASED = RNG.normal(size=(40, 60)), RNG.normal(size=(60, 48)), RNG.normal(size=48)


def biased(x, w, b):
    y = x @ w + b
    return iv.relu(y), y > 0, iv.isnan(y), iv.exp(iv.sin(y)) * iv.exp(iv.cos(y))


#: Functions whose values are read several times, their arguments, and their loops besides the product.
PASSED = {
    "in the same iteration": (biased, BIASED, 1),
    "in chains": (lambda x, w, b: biased(iv.tanh(biased(x, w, b)[0]), w.T[:48], b[:1]), BIASED, 2),
    "in another order": (
        lambda x: ((y := iv.exp(iv.sin(x) * x)) + iv.flip(y, axis=(1,)), y * 2),
        (RNG.normal(size=(20, 32)),),
        2,
    ),
    "by rows": (
        lambda x, b: ((y := iv.exp(x) * x - b) - y.max(axis=1, keepdims=True), y.sum(axis=0)),
        (RNG.normal(size=(20, 32)), RNG.normal(size=32)),
        None,
    ),
}


@pytest.mark.parametrize("name", PASSED)
def test_what_is_read_in_the_same_iteration_is_in_a_register(name):
    f, args, loops = PASSED[name]
    phases = [p for s in steps(f, *args) if isinstance(s, Nest) for p in s.kernel.phases]
    assert loops is None or sum(max(len(parts(p)), 1) for p in phases) == loops


def test_what_nobody_else_reads_is_not_stored():
    def f(x, w, b):
        y = iv.exp(iv.sin(x @ w + b))
        return iv.sin(y) * iv.cos(y), iv.tanh(y) + iv.exp(y), y * iv.log(y)

    product, nest = steps(f, *BIASED)
    assert isinstance(product, Product)
    assert len(nest.views) == 5 - 1  # the bias, and results, one of them over the product


class Traced(np.ndarray):
    """An array whose reads and writes pass through a cache of `Lines`."""

    def __getitem__(self, at):
        self.lines.touch(id(self), np.dot(at, self.steps))
        return super().__getitem__(at)

    def __setitem__(self, at, value):
        self.lines.touch(id(self), np.dot(at, self.steps))
        super().__setitem__(at, value)


class Lines:
    """A cache of so many lines of 16 entries, the one used last leaving last; counts what comes in."""

    def __init__(self, count):
        self.count, self.inside, self.misses = count, OrderedDict(), 0

    def touch(self, array, entry):
        line = array, entry // 16
        self.misses += line not in self.inside
        self.inside[line] = True
        self.inside.move_to_end(line)
        if len(self.inside) > self.count:
            self.inside.popitem(last=False)


X, Y = (RNG.normal(size=(64, 96)).astype(np.float32) for _ in range(2))
LINES = {
    "alone": (lambda x: (x.mT,), (X,)),
    "beside another": (lambda x, y: (x.mT + y.mT * 2,), (X, Y)),
    "beside rows": (lambda x, y: (iv.permute_dims(x, (1, 0)) - y,), (X, RNG.normal(size=(96, 64)))),
    "rows added up": (lambda x, z: (x.mT @ z,), (RNG.normal(size=(61, 96)), RNG.normal(size=61))),
    "a vector before a matrix": (lambda x, z: (z @ x,), (RNG.normal(size=(61, 96)), RNG.normal(size=61))),
    "rows by a vector": (lambda x, z: (x @ z,), (RNG.normal(size=(96, 64)), RNG.normal(size=64))),
    "of a batch": (lambda x: (iv.permute_dims(x, (0, 2, 1)) * 2,), (X.reshape(4, 16, 96),)),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_memory_is_read_and_written_once(name):
    f, args = LINES[name]
    nests = [s for s in steps(f, *args) if isinstance(s, Nest)]
    lines, total = Lines(64), 0
    for s in nests:
        arrays = {}
        for b in s.kernel.buffers:
            arrays[b.name] = np.zeros(b.shape, b.dtype).view(Traced)
            arrays[b.name].lines = lines
            arrays[b.name].steps = b.strides or np.array(arrays[b.name].strides) // b.dtype.itemsize
            total += -(-arrays[b.name].size // 16)
        interpret.run(s.kernel, arrays)
    assert total <= lines.misses <= 1.1 * total


#: Functions of a matrix that read along a line with jumps, and NumPy's.
JUMPS = {
    "roll": (lambda x, s: iv.roll(x, s, axis=1), lambda x, s: np.roll(x, s, 1)),
    "roll of both axes": (
        lambda x, s: iv.roll(x, (s, 1 - s), axis=(0, 1)),
        lambda x, s: np.roll(x, (s, 1 - s), (0, 1)),
    ),
    "roll of all entries": (lambda x, s: iv.roll(x, s) + x, lambda x, s: np.roll(x, s) + x),
    "roll of a part": (lambda x, s: iv.roll(x[:, 1:], s, axis=1), lambda x, s: np.roll(x[:, 1:], s, 1)),
    "tile": (lambda x, s: iv.tile(x, (2, 3)), lambda x, s: np.tile(x, (2, 3))),
    "a periodic stencil": (
        lambda x, s: x[:, ::-1] * iv.roll(x, 1, axis=1) * iv.roll(x, -s, axis=1),
        lambda x, s: x[:, ::-1] * np.roll(x, 1, 1) * np.roll(x, -s, 1),
    ),
    "sums of a roll": (
        lambda x, s: iv.sum(iv.roll(x, s, axis=1), axis=0),
        lambda x, s: np.sum(np.roll(x, s, 1), axis=0, dtype=None if x.dtype.kind in "bi" else x.dtype),
    ),
    "two rolls": (lambda x, s: iv.roll(iv.roll(x, s) * 2, -3), lambda x, s: np.roll(np.roll(x, s) * 2, -3)),
}


@pytest.mark.parametrize("extents", [(3, 5), (2, 16), (3, 33), (1, 40), (2, 64), (3, 67), (2, 131)])
@pytest.mark.parametrize("name", JUMPS)
def test_reads_that_jump_are_numpys(name, extents):
    ours, numpys = JUMPS[name]
    for dtype in ("float32", "complex64", "int8", "bool"):
        x = RNG.normal(size=extents) * 9
        x = (x + 1j * x[::-1] if dtype == "complex64" else x).astype(dtype)
        for s in (0, 1, 7, -2, extents[1] - 1):
            if dtype == "float32" or s == 7:
                found = iv.jit(partial(ours, s=s))(iv.asarray(x))
                np.testing.assert_allclose(found, numpys(x, s), rtol=1e-5 * (dtype[0] in "fc"), atol=1e-5)


def rolled(n):
    (step,) = lower(simplified(iv.jit(lambda x: iv.roll(x, 7, axis=1)).graph(iv.ones((3, n))))).steps
    return step.compiled


def test_reads_that_jump_seldom_are_contiguous_loads():
    assert re.search(r"br i1 [^\n]*even", rolled(48).text)
    for n in (64, 1000, 1024):  # a loop for each piece in which no quotient changes
        assert rolled(n).source.count("range(0, 7)") == 1
        assert not re.search("%|//", rolled(n).source)
