"""Sparse tensors that compiled functions close over: what is native of an argument is native of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import iverson as iv
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.lowering.graph_lowering import Library
from tests.conformance.product import EXHAUSTIVE, some, turn
from tests.graph.test_on_patterns import (
    BATCHES,
    CARRYING,
    FUNCTIONS,
    LAYOUTS,
    LOOPS,
    OF_SLICES,
    RNG,
    SOME,
    X,
    drawn,
)


def recorded(s):
    return iv.asarray(s.detach(), requires_grad=True)


def of_argument(f, s, way):
    made = way(f)
    return lambda x: made(s, x)


def of_constant(f, s, way):
    made = way(lambda _, x: f(s, x))
    return lambda x: made(None, x)


def of_partial(f, s, way):
    made = way(lambda _, x: partial(f, s)(x))
    return lambda x: made(None, x)


def of_tracked(f, s, way):
    return of_constant(f, recorded(s), way)


GIVEN = (of_constant, of_partial, of_tracked)


def flat(x):
    return [z for y in x for z in flat(y)] if isinstance(x, tuple) else [x]


def loss(f):
    return lambda s, x: sum((y.to_dense() ** 2).sum() for y in flat(f(s, x)))


#: What is done with a function of a sparse tensor and another, compiled with ``jit``.
WAYS = {
    "value": lambda jit: jit,
    "gradient of a compiled one": lambda jit: lambda f: iv.grad(loss(jit(f)), 1),
    "compiled gradient": lambda jit: lambda f: jit(iv.grad(loss(f), 1)),
    "tangent": lambda jit: lambda f: lambda s, x: iv.jvp(lambda x: loss(jit(f))(s, x), (x,), (x,))[1],
    "examples": lambda jit: lambda f: iv.vmap(loss(jit(f)), (None, 0)),
}


#: Of which derivatives and batches are taken.
DERIVED = ("graph convolution", "by rows and columns", "dense by sparse", "transposed", "sampled")


def cases(layout, way):
    """Functions by name, with a sparse tensor and another."""
    x, s = iv.asarray(X), drawn(layout)
    if way != "value":
        yield from ((n, FUNCTIONS[n], s, x) for n in DERIVED)
        return
    slices = s.with_values(RNG.standard_normal((*s.values().shape, 3)))
    pair = iv.stack([drawn(layout).to_dense() for _ in range(2)])
    pair = pair.to_layout(layout, blocksize=LAYOUTS[layout])
    every = EXHAUSTIVE or layout == ("csr", "bsr")[turn("every", 2)]
    yield from ((n, f, s, x) for n, f in FUNCTIONS.items() if every or n in (*SOME, *DERIVED))
    yield from ((n, f, slices, x) for n, f in OF_SLICES.items() if layout == "coo")
    yield ("batches", BATCHES["batches"], pair, iv.stack([x, -x]))
    yield from ((n, f, s, x) for n, f in LOOPS.items() if n in ("scan", "while", "cond", "checkpoint"))
    yield from ((n, f, s, x[:, 0]) for n, f in CARRYING.items() if layout == "csr")


@pytest.fixture
def left(monkeypatch):
    """The ops of library steps of all programs that are made."""
    found: list[str] = []
    plain = Compiled._executable

    def executable(self):
        made = plain(self)
        found.extend(s.equation.op.name for s in made.steps if isinstance(s, Library))
        return made

    monkeypatch.setattr(Compiled, "_executable", executable)
    return found


@pytest.mark.parametrize(
    ("layout", "way"),
    [(layout, way) for k, layout in enumerate(LAYOUTS) for way in some("ways", WAYS, 2, 2 * k)],
)
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
def test_what_is_native_of_arguments_is_so_of_what_is_closed_over(layout, way, left):
    """Values, derivatives and batches, which are those of eager calls."""
    for name, f, s, x in cases(layout, way):
        if not EXHAUSTIVE and turn(f"{name} {layout} {way}", 5):
            continue
        x = iv.stack([x, 2 * x]) if way == "examples" else x
        expected = [y.to_dense().numpy() for y in flat(of_argument(f, s, WAYS[way](lambda f: f))(x))]
        left.clear()
        of_argument(f, s, WAYS[way](iv.jit))(x)
        assert not left, name
        ways = GIVEN if way == "value" and EXHAUSTIVE else (of_constant, of_tracked)
        for given in ways if EXHAUSTIVE else ways[turn(name + layout + way, 2) :][:1]:
            left.clear()
            found = flat(given(f, s, WAYS[way](iv.jit))(x))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a.detach().to_dense().numpy(), b, rtol=1e-11, atol=1e-12)
            assert not left, (name, given.__name__)
