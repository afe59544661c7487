"""The layout law: f(to(x, L)) == f(x), values and gradients, for functions that stay sparse and others."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.layouts import Sparse, layouts, stored, to_strided
from iverson.transforms import jvp
from tests.conformance.product import in_layout, paired
from tests.sparse.common import LAYOUTS, checked, held, holds, weighted

D = holds(density=1.0, seed=5) + 0.1
ROW = np.arange(1.0, 7.0)


def other(layout: str) -> Any:
    return held(holds(seed=3), layout)


#: Functions of a sparse matrix that must not make it dense (a DensifyWarning is an error here).
SPARSE = {
    "sin": lambda x: x.sin(),
    "relu": lambda x: x.relu(),
    "abs": abs,
    "square": lambda x: x * x,
    "power": lambda x: x**2,
    "scaled": lambda x: -2.0 * x / 3.0,
    "times dense": lambda x: x * D,
    "times row": lambda x: x * ROW,
    "dense over": lambda x: x / D,
    "plus csr": lambda x: x + other("csr"),
    "minus coo": lambda x: x - other("coo"),
    "times csc": lambda x: x * other("csc"),
    "times bsr": lambda x: other("bsr") * x,
    "greater": lambda x: iv.where(x > 0.0, x, 0.0),
    "clip": lambda x: x.clip(-0.5, 0.5),
    "transpose": lambda x: x.mT,
    "reshape": lambda x: x.reshape(3, 8),
    "flat": lambda x: x.reshape(24),
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, ::-2],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 1],
    "entry": lambda x: x[0, 1],
    "chosen rows": lambda x: x[np.array([2, 0, 2])],
    "chosen columns": lambda x: x.take(np.array([5, 5, 0]), axis=1),
    "points": lambda x: x[np.array([0, 3, 3]), np.array([1, 0, 0])],
    "new axis": lambda x: x[:, None],
    "concat": lambda x: iv.concat([x, other("csr"), x], axis=1),
    "stack": lambda x: iv.stack([x, x * 2.0]),
    "flip": lambda x: iv.flip(x, axis=0),
    "roll": lambda x: iv.roll(x, 2, axis=1),
    "tril": lambda x: x.tril(),
    "diagonal": lambda x: iv.linalg.diagonal(x, offset=1),
    "broadcast": lambda x: iv.broadcast_to(x, (2, 4, 6)),
    "sum": lambda x: x.sum(),
    "row sums": lambda x: x.sum(axis=1),
    "column sums": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=0),
    "at dense": lambda x: x @ D.T,
    "dense at": lambda x: D.T @ x,
    "at vector": lambda x: x @ ROW,
    "vector at": lambda x: np.arange(4.0) @ x,
    "at batch": lambda x: iv.matmul(x, np.stack([D.T, D.T * 2])),
    "at sparse": lambda x: x @ other("csc").mT,
    "gram": lambda x: x @ x.mT,
    "dense": lambda x: x.to_dense(),
    "to csr": lambda x: x.to_layout("csr"),
    "masked": lambda x: iv.sparse_mask(x, other("csc")),
    "sampled": lambda x: iv.sampled_matmul(x, x.mT, held(np.eye(4), "csr")),
    "astype": lambda x: x.astype("complex128"),
}
#: Where at least one rule makes the derivative dense because it is so: cos(0) = 1.
DENSE = {
    "cos": lambda x: x.cos(),
    "plus one": lambda x: x + 1.0,
    "plus dense": lambda x: x + D,
    "max": lambda x: x.max(axis=1),
    "softmax": lambda x: iv.softmax(x, axis=1),
    "prod": lambda x: (x + 2.0).prod(axis=0),
    "norm": lambda x: iv.linalg.matrix_norm(x + D),
    "sort": lambda x: iv.sort(x + D, axis=0),
}
densifies = pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")


def value_of(f: Any, x: Any) -> Any:
    return checked(f(x).detach())


@pytest.mark.parametrize(("name", "layout"), paired(SPARSE, LAYOUTS, 2))
def test_values_without_densifying(name, layout):
    x = holds()
    found = SPARSE[name](held(x, layout))
    np.testing.assert_allclose(checked(found), value_of(SPARSE[name], iv.asarray(x)), rtol=1e-12, atol=1e-12)


@densifies
@pytest.mark.parametrize(("name", "layout"), paired([*SPARSE, *DENSE], LAYOUTS, 2))
def test_gradients_to_second_order_and_tangents(name, layout):
    f = {**SPARSE, **DENSE}[name]
    x = holds()
    found, expected = [], []
    for leaf, results in ((held(x, layout, True), found), (iv.asarray(x, requires_grad=True), expected)):
        (g,) = grad(weighted(f, leaf, 1), (leaf,), create_graph=True)
        results.append(g)
        results.append(grad((g * D).sum() + (g * g).sum(), leaf))
        t = holds(seed=9, density=1.0)
        results.append(jvp(f, (leaf.detach(),), (iv.asarray(t),))[1])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(checked(a.detach()), checked(b.detach()), rtol=1e-10, atol=1e-10)


SHAPES = st.sampled_from([(1, 1), (2, 3), (3, 1), (0, 3), (2, 0), (5, 4)])


@densifies
@given(
    shape=SHAPES,
    layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from([*LAYOUTS, "strided"])),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["float64", "complex128", "float32"]),
    name=st.sampled_from(["add", "multiply", "divide", "matmul", "rmatmul", "maximum", "concat", "where"]),
)
def test_two_operands_in_any_layouts(shape, layouts, density, seed, dtype, name):
    """Duplicates, empty rows, size 0 included; gradients of both."""
    assume(name != "maximum" or dtype != "complex128")
    f = {
        "add": lambda a, b: a + b * a,
        "multiply": lambda a, b: a * b,
        "divide": lambda a, b: a / (iv.exp(b)),
        "matmul": lambda a, b: a @ b.mT,
        "rmatmul": lambda a, b: b.mT @ a,
        "maximum": iv.maximum,
        "concat": lambda a, b: iv.concat([a, b * 2.0], axis=0),
        "where": lambda a, b: iv.where(abs(a) > 0.5, a, b),
    }[name]
    x, z = holds(shape, density, seed, dtype), holds(shape, 0.5, seed + 1, dtype)
    a, b = (
        held(v, layout, True) if layout != "strided" else iv.asarray(v, requires_grad=True)
        for v, layout in zip((x, z), layouts, strict=True)
    )
    p, q = iv.asarray(x, requires_grad=True), iv.asarray(z, requires_grad=True)
    found, expected = f(a, b), f(p, q)
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(checked(found.detach()), checked(expected.detach()), tolerance, tolerance)
    seeds = iv.ones(expected.shape, dtype=expected.dtype)
    for s, d in zip(grad(found, (a, b), seeds), grad(expected, (p, q), seeds), strict=True):
        np.testing.assert_allclose(checked(s), checked(d), tolerance, tolerance)


def test_layouts_of_results_follow_from_support():
    s, t = held(holds(), "csr"), held(holds(seed=3), "csc")
    assert (s * 2.0)._value.pattern is s._value.pattern
    assert s.sin()._value.pattern is s._value.pattern
    assert (s * D)._value.pattern is s._value.pattern
    assert (s * s)._value.pattern is s._value.pattern
    assert (s * t).nnz == np.count_nonzero(holds() * holds(seed=3))
    assert (s + t).nnz == np.count_nonzero((holds() != 0) | (holds(seed=3) != 0))
    assert (s + t).layout == "csr"
    with pytest.warns(iv.errors.DensifyWarning, match="cos: no kernel for layout 'csr'"):
        assert s.cos().layout == "strided"


def test_the_gradient_has_the_layout_of_the_derivative():
    s = held(holds(), "csr", True)
    g = grad((s * s).sum(), s)
    assert g._value.pattern is s._value.pattern
    assert grad((s @ iv.ones((6, 2))).sum(), s).layout == "strided"
    x = iv.asarray(D, requires_grad=True)
    assert grad((s.detach() * x).sum(), x).layout == "csr"


def test_a_large_dense_gradient_of_a_sparse_tensor_warns():
    s = iv.sparse_csr_tensor(np.arange(2001), np.arange(2000), np.ones(2000), requires_grad=True)
    y = (s @ iv.ones((2000, 1))).sum()
    for run in (lambda: grad(y, s), y.backward):
        with pytest.warns(iv.errors.DensifyWarning, match="2000 stored entries.*values") as caught:
            run()
        assert [w.filename for w in caught] == [__file__]
    assert s.grad.layout == "strided"
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(iv.errors.DensifyWarning):
            grad(y, s)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < s.size  # of 8 bytes each: it warns before the gradient is made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad((s * s).sum(), s).layout == "csr"
        small = iv.sparse_csr_tensor([0, 1], [0], [1.0], requires_grad=True)
        assert grad((small @ iv.ones((1, 1))).sum(), small).layout == "strided"


def test_a_large_dense_gradient_that_no_op_makes_warns_too():
    class Dense(iv.autograd.Function):
        @staticmethod
        def forward(ctx, s):
            return s.sum()

        @staticmethod
        def backward(ctx, g):
            return iv.ones((2000, 2000)) * g

    s = iv.sparse_csr_tensor(np.arange(2001), np.arange(2000), np.ones(2000), requires_grad=True)
    with pytest.warns(iv.errors.DensifyWarning, match="2000 stored entries"):
        grad(Dense.apply(s), s)
    x = iv.sparse_csr_tensor(np.arange(2001), np.arange(2000), np.ones(2000), requires_grad=True)
    with pytest.warns(iv.errors.DensifyWarning, match="2000 stored entries"):
        grad(x.to_dense(), x, iv.ones((2000, 2000)))


def test_a_structural_zero_annihilates_inf():
    s = iv.sparse_csr_tensor([0, 1, 1], [0], [2.0], (2, 2), requires_grad=True)
    d = iv.asarray([[1.0, np.inf], [np.nan, np.inf]], requires_grad=True)
    y = s * d
    np.testing.assert_array_equal(checked(y.detach()), [[2, 0], [0, 0]])
    np.testing.assert_array_equal(checked(grad(y.sum(), d)), [[2, 0], [0, 0]])
    b = iv.asarray([[1.0], [np.inf]])
    np.testing.assert_array_equal((s @ b).detach().numpy(), [[2], [0]])


@pytest.mark.parametrize("layout", [found.name for found in layouts()])
@pytest.mark.parametrize("divisor", ["dense", "column", "sparse", "scalar"])
def test_nothing_over_zero_is_nothing(layout, divisor):
    """0 / 0 is nan where the 0 is stored, 0 where it is not: one rule for every layout."""
    x = holds()
    d = np.where(np.random.default_rng(1).random((4, 6)) < 0.5, 0.0, 2.0)
    d[:2] = 0
    value, dense = in_layout(x, layout, np.random.default_rng(3))
    if isinstance(value, Sparse):
        value.values.ravel()[0] = 0  # stored all the same
        dense = to_strided(value)
    by, y = {
        "dense": (d, d),
        "column": (d[:, :1], d[:, :1]),
        "sparse": (held(d, "coo"), d),
        "scalar": (0.0, 0.0),
    }[divisor]
    at = np.zeros((4, 6), bool)
    at[stored(value)[0]] = layout != "zero"
    with np.errstate(all="ignore"):
        expected = np.where(at, dense / y, 0)
        found = iv.Tensor(value) / by
    np.testing.assert_array_equal(checked(found), expected)
    assert layout == "zero" or np.isnan(expected).any()
