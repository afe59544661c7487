"""The conventions of docs/conventions.md, each at its point. A convention without a case here fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import grad
from iverson.core.errors import GradientError
from iverson.core.scalars import SCALARS
from iverson.ops import TABLE, F

DOCS = Path(__file__).parents[2] / "docs" / "conventions.md"


def gradients(name, *args, **params):
    """The gradients of the sum of an op's (first) result in all its arguments, as lists."""
    given = [
        a if isinstance(a, np.ndarray) else iv.asarray(np.asarray(a, float), requires_grad=True) for a in args
    ]
    xs = [x for x in given if isinstance(x, iv.Tensor)]
    with np.errstate(divide="ignore"):
        out = getattr(F, name)(*given, **params)
    out = out[0] if isinstance(out, tuple) else out
    g = iv.asarray(np.ones(out.shape, out.dtype))
    return [x.numpy().tolist() for x in grad(out, xs, g)]


INF, NAN = float("inf"), float("nan")
VALUES = {
    "pow": [("pow", ([0.0, 0.0, 0.0], [2.0, 0.0, -1.0]), {}, [[0.0, 0.0, -INF], [0.0, 0.0, -INF]])],
    "sqrt": [("sqrt", ([0.0],), {}, [[INF]])],
    "remainder": [("remainder", ([4.0], [2.0]), {}, [[1.0], [-2.0]])],
    "hypot": [("hypot", ([0.0], [0.0]), {}, [[0.0], [0.0]])],
    "maximum": [("maximum", ([1.0], [1.0]), {}, [[0.5], [0.5]])],
    "minimum": [("minimum", ([1.0], [1.0]), {}, [[0.5], [0.5]])],
    "abs": [("abs", ([0.0],), {}, [[0.0]])],
    "sign": [("sign", ([0.0, 2.0],), {}, [[0.0, 0.0]])],
    "copysign": [("copysign", ([0.0, 1.0], [1.0, -1.0]), {}, [[0.0, -1.0], [0.0, 0.0]])],
    "asin": [("asin", ([1.0, -1.0],), {}, [[INF, INF]])],
    "acos": [("acos", ([1.0, -1.0],), {}, [[-INF, -INF]])],
    "relu": [("relu", ([0.0, 1.0],), {}, [[0.0, 1.0]])],
    "angle": [("angle", ([-1.0, 1.0],), {}, [[0.0, 0.0]])],
    "atan2": [("atan2", ([0.0], [0.0]), {}, [[NAN], [NAN]])],
    "clip": [("clip", ([0.0, 1.0], 0.0, 1.0), {}, [[1.0, 1.0], 0.0, 0.0])],
    "max": [("max", ([1.0, 3.0, 3.0],), {"axis": (0,), "keepdims": False}, [[0.0, 0.5, 0.5]])],
    "min": [("min", ([1.0, 1.0, 3.0],), {"axis": (0,), "keepdims": False}, [[0.5, 0.5, 0.0]])],
    "segment_max": [("segment_max", ([1.0, 3.0, 3.0], np.array([0, 1, 1])), {"count": 2}, [[1.0, 0.5, 0.5]])],
    "deviation": [
        ("deviation", ([2.0, 2.0],), {"axis": (0,), "keepdims": False, "squared": False}, [[0.0, 0.0]])
    ],
    "norm": [("norm", ([0.0, 0.0],), {"axis": (0,), "keepdims": False}, [[0.0, 0.0]])],
    "fmod": [("fmod", ([4.0, -4.0], [2.0, 2.0]), {}, [[1.0, 1.0], [-2.0, 2.0]])],
    "frac": [("frac", ([2.0],), {}, [[1.0]])],
    "xlogy": [("xlogy", ([0.0], [0.0]), {}, [[-INF], [0.0]])],
    "xlog1py": [("xlog1py", ([0.0], [-1.0]), {}, [[-INF], [0.0]])],
    "rel_entr": [("rel_entr", ([0.0], [0.0]), {}, [[NAN], [-0.0]])],
    "kl_div": [("kl_div", ([0.0], [0.0]), {}, [[NAN], [1.0]])],
    "cbrt": [("cbrt", ([0.0],), {}, [[INF]])],
    "i0e": [("i0e", ([0.0],), {}, [[-0.0]])],
    "i1e": [("i1e", ([0.0],), {}, [[0.5]])],
    # sum of L for L L^H = x: dL22/dx12 is shared by x12 and x21.
    "cholesky": [("cholesky", ([[4.0, 0.0], [0.0, 1.0]],), {}, [[[0.25, 0.25], [0.25, 0.5]]])],
}
NOT_FINITE = {
    "eigh": lambda x: F.eigh(x)[1],
    "eigsh": lambda x: F.eigsh(x, k=2, which="LA", method="lanczos")[1],
    "eigen_spectral": lambda x: F.eigen_spectral(x, np.broadcast_to([1.0, 2.0], (*x.shape[:-2], 1, 2))),
    "svd": lambda x: F.svd(x)[0],
    "singular_spectral": lambda x: F.singular_spectral(x, np.broadcast_to([1.0, 2.0], (*x.shape[:-2], 1, 2))),
    "qr": lambda x: F.qr(x)[0],
    "lu": lambda x: F.lu(x)[0],
}
OF_SPANS = ("svd_full", "qr_complete")
DEGENERATE = {
    "eigh": np.eye(2),
    "eigsh": np.eye(2),
    "eigen_spectral": np.eye(2),
    "svd": np.eye(2),
    "singular_spectral": np.eye(2),
    "qr": np.zeros((2, 2)),
    "lu": np.zeros((2, 2)),
}


@pytest.mark.parametrize("case", [c for cases in VALUES.values() for c in cases], ids=lambda c: c[0])
def test_value(case):
    name, args, params, expected = case
    np.testing.assert_equal(gradients(name, *args, **params), expected)


def test_complex_zeros_and_branch_cuts():
    for name in ("sqrt", "angle"):
        x = iv.asarray(np.array([0j]), requires_grad=True)
        assert np.isnan(grad(getattr(F, name)(x), x, np.ones(1)).numpy()).all()
    sides = iv.asarray(np.array([complex(-4.0, 0.0), complex(-4.0, -0.0)]), requires_grad=True)
    np.testing.assert_array_equal(grad(F.sqrt(sides), sides, np.ones(2)).numpy(), [0.25j, -0.25j])


@pytest.mark.parametrize("batch", [(), (4,)])
@pytest.mark.parametrize("name", NOT_FINITE)
def test_degenerate_decompositions_have_no_finite_derivative(name, batch):
    x = iv.asarray(np.broadcast_to(DEGENERATE[name], (*batch, 2, 2)), requires_grad=True)
    out = NOT_FINITE[name](x)
    seed = iv.asarray(np.broadcast_to(np.array([[0.3, 1.0], [-2.0, 0.7]]), x.shape))
    for found in (grad(out, x, seed), iv.jvp(NOT_FINITE[name], (x.detach(),), (seed,))[1]):
        assert not np.isfinite(found.numpy()).all((-2, -1)).any()


def turned(values, scale):
    """A symmetric matrix with these eigenvalues, to rounding."""
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    return (q * (np.array(values) * scale)) @ q.T


#: What is degenerate to rounding: eigenvalues, and a function whose derivative divides by rounding alone.
TO_ROUNDING = {
    "qr": ((0.0, 1.0, 2.0), lambda x: F.qr(x)[0]),
    "qr of a tall matrix": ((0.0, 1.0, 2.0), lambda x: F.qr(F.concat(x, 2 * x, axis=0, offsets=(0, 3)))[0]),
    "qr, R": ((0.0, 1.0, 2.0), lambda x: F.qr(x)[1]),
    "qr_complete": ((0.0, 1.0, 2.0), lambda x: F.qr_complete(F.concat(x, x, axis=0, offsets=(0, 3)))[0]),
    "lu": ((0.0, 0.0, 2.0), lambda x: F.lu(x)[0]),
    "lu of a tall matrix": ((0.0, 1.0, 2.0), lambda x: F.lu(F.concat(x, 2 * x, axis=0, offsets=(0, 3)))[0]),
    "eigh": ((1.0, 2.0, 2.0), lambda x: F.eigh(x)[1]),
    "eigsh": ((1.0, 2.0, 2.0), lambda x: F.eigsh(x, k=1, which="LA", method="lanczos")[1]),
    "eig": ((1.0, 2.0, 2.0), lambda x: F.real(F.eig(x)[1])),
    "svd": ((1.0, 2.0, 2.0), lambda x: F.svd(x)[0]),
    "svd, zero": ((0.0, 1.0, 2.0), lambda x: F.svd(F.concat(x, x, axis=0, offsets=(0, 3)))[0]),
    "gradient of eigvalsh": ((1.0, 2.0, 2.0), iv.grad(lambda x: (F.eigvalsh(x) ** 3.0).sum())),
    "gradient of svdvals": ((1.0, 2.0, 2.0), iv.grad(lambda x: (F.svdvals(x) ** 3.0).sum())),
    "gradient of the values of eigh": ((1.0, 2.0, 2.0), iv.grad(lambda x: (F.eigh(x)[0] ** 3.0).sum())),
}


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("name", TO_ROUNDING)
def test_rounding_is_no_divisor(name, scale):
    """Not finite noise. Well away from it the same functions have their derivatives, at every scale."""
    values, function = TO_ROUNDING[name]
    seed = np.random.default_rng(1).standard_normal((3, 3))
    for given, finite in ((turned(values, scale), False), (turned((1.0, 2.0, 4.0), scale), True)):
        x = iv.asarray(given, requires_grad=True)
        y = function(x)
        g = grad((y * np.random.default_rng(2).standard_normal(y.shape)).sum(), x).numpy()
        t = iv.jvp(function, (iv.asarray(given),), (iv.asarray(seed),))[1].numpy()
        for found in (g, t):
            assert np.isfinite(found).all() == finite


def test_columns_of_very_different_size_have_full_rank():
    x = iv.asarray(turned((1.0, 2.0, 4.0), 1.0) * np.array([1.0, 1e-30, 1e30]), requires_grad=True)
    q, _ = F.qr(x)
    assert np.isfinite(grad(q.sum(), x).numpy()).all()


@pytest.mark.parametrize("name", OF_SPANS)
def test_further_columns_are_differentiated_through_their_span_alone(name):
    x = iv.asarray([[1.0], [2.0], [2.0]], requires_grad=True)
    rest = getattr(F, name)(x)[-1]
    span = rest @ rest.mT
    # The projector on the complement of a line: d(N N^T) = -(P + P^T), P = N N^T dx x^T / |x|^2.
    seed = np.arange(9.0).reshape(3, 3)
    expected = -span.detach().numpy() @ (seed + seed.T) @ x.detach().numpy() / 9
    np.testing.assert_allclose(grad(span, x, iv.asarray(seed)).numpy(), expected, rtol=1e-12, atol=1e-12)
    for scale in (1e-8, 1.0, 1e8):
        with pytest.raises(GradientError, match="the space they span"):
            grad((rest * np.arange(6.0).reshape(3, 2) * scale).sum(), x)


CHOICES = {
    "maximum": (lambda x: F.maximum(x, 1.0), [0.5, 2.0, 0.0]),
    "minimum": (lambda x: F.minimum(x, 1.0), [0.5, 0.0, 2.0]),
    "clip": (lambda x: F.clip(x, 0.5, 1.0), [2.0, 0.0, 0.0]),
    "relu": (F.relu, [2.0, 2.0, 0.0]),
    "max": (lambda x: F.max(x, axis=(0,), keepdims=True), [0.0, 2.0, 0.0]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_second_derivatives_of_choices(name):
    """Of squares, at a tie with 1, above and below it: what is done at a nan touches no other entry."""
    choose, expected = CHOICES[name]
    x = iv.asarray([1.0, 3.0, -1.0], requires_grad=True)
    first = grad(F.square(choose(x)), x, iv.ones(choose(x).shape), create_graph=True)
    assert grad(first.sum(), x).tolist() == expected


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_det_of_a_singular_matrix(rank):
    """Its derivatives are polynomials of the entries: first and second by cofactors, one entry at a time."""
    a = np.random.default_rng(rank).normal(size=(3, rank)) @ np.ones((rank, 3)) + np.diag([1.0, 0, 0]) * (
        rank > 1
    )
    x = iv.asarray(a, requires_grad=True)
    first = grad(F.det(x), x, create_graph=True)

    def minor(rows, columns):
        return np.linalg.det(np.delete(np.delete(a, rows, 0), columns, 1))

    cofactors = [[(-1) ** (i + j) * minor(i, j) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(first.detach().numpy(), cofactors, atol=1e-13)
    second = grad(first[0, 0], x).numpy()
    expected = np.array([[0, 0, 0], [0, a[2, 2], -a[2, 1]], [0, -a[1, 2], a[1, 1]]])
    np.testing.assert_allclose(second, expected, atol=1e-13)


def test_every_convention_has_a_case_and_a_row():
    listed = {op.name for op in TABLE.values() if op.convention}
    assert listed == set(VALUES) | set(NOT_FINITE) | set(OF_SPANS) | {"det"}
    text = DOCS.read_text()
    for op in TABLE.values():
        if op.convention:
            assert f"| `{op.name}` | {op.convention} |" in text


def test_functions_that_keep_zeros_say_so():
    """What of a sparse operand is stored follows from it in graphs, which cannot try the function at 0."""
    for scalar in SCALARS.values():
        op = TABLE[scalar.name]
        if scalar.orders or scalar.name == "clip":  # whose bounds are numbers
            continue
        try:
            with np.errstate(all="ignore"):
                y = op.forward(*[np.zeros(1)] * scalar.arity)
        except TypeError:  # of integers
            continue
        if y.dtype.kind == "f" and y == 0:
            assert op.zero_preserving or op.linear_in, scalar.name
