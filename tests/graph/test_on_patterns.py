"""Sparse operands of compiled functions: which steps are native, and that results are those of eager code."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.graph.lower import Native

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((6, 6)) < 0.4, RNG.standard_normal((6, 6)), 0)
DENSE[2] = 0
X, W = RNG.standard_normal((6, 3)), RNG.standard_normal((3, 2))
LAYOUTS = {"coo": None, "csr": None, "csc": None, "bsr": (2, 3), "bsc": (3, 2)}


def convolved(s, x, w):
    return (iv.relu(s @ x @ w) ** 2).sum()


def of_values(values, s, x, w):
    return convolved(s.with_values(values), x, w)


#: By name: a function of a sparse matrix and a dense one.
FUNCTIONS = {
    "graph convolution": lambda s, x: convolved(s, x, iv.asarray(W)),
    "its gradient": lambda s, x: iv.grad(convolved, (1, 2))(s, x, iv.asarray(W)),
    "its gradient in values": lambda s, x: iv.grad(of_values, (0, 2))(s.values(), s, x, iv.asarray(W)),
    "sums of rows": lambda s, x: (s * 2).sum(axis=1),
    "sums of columns": lambda s, x: (s * 2).sum(axis=0, keepdims=True),
    "dense by sparse": lambda s, x: x.mT @ s,
    "by rows and columns": lambda s, x: (s * x[:, :1] * x[:, 0] + s).sum(),
    "entry by entry": lambda s, x: iv.sin(s) * s - s / 2,
    "transposed": lambda s, x: s.mT @ x,
    "values": lambda s, x: s.values() * 2,
    "with dense": lambda s, x: s.to_dense() + s,
    "sampled": lambda s, x: s * (x @ x.mT),
    "sampled, in the dense": iv.grad(lambda s, x: (s * (x @ x.mT)).sum(), 1),
    "given back": lambda s, x: (s, s * 2),
}


def dense(x):
    return [np.asarray(y.to_dense().numpy()) for y in (x if isinstance(x, tuple) else (x,))]


def steps(compiled):
    """The program's steps, "native" or a library op's name."""
    (entry,) = compiled._entries.values()
    made = entry.compiled._program.steps
    return ["native" if isinstance(s, Native) else s.equation.op.name for s in made]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_on_stored_entries_are_native(layout):
    s = iv.asarray(DENSE).to_layout(layout, blocksize=LAYOUTS[layout])
    x = iv.asarray(X)
    for name, f in FUNCTIONS.items():
        compiled = iv.jit(f)
        for a, b in zip(dense(compiled(s, x)), dense(f(s, x)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13, err_msg=name)
        assert steps(compiled) == ["native"], name


def test_a_product_of_sparse_matrices_is_a_library_step_between_native_ones():
    s, x = iv.asarray(DENSE).to_layout("csr"), iv.asarray(X)
    f = lambda s, x: ((s * 2) @ s) @ x + x
    compiled = iv.jit(f)
    np.testing.assert_allclose(compiled(s, x).numpy(), f(s, x).numpy(), rtol=1e-12)
    assert [n for n in steps(compiled) if n != "native"] == ["from_values", "matmul"]
