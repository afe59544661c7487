"""Derivatives of what is composed of ops, first and second, against central differences; and at kinks."""

import numpy as np
import pytest

import iverson as iv
from iverson import fft, linalg
from iverson.autograd import grad
from iverson.ops import override_vjp
from tests.array_api.common import check_gradient, draw, same
from tests.conformance.product import EXHAUSTIVE, turn

X, V = draw((2, 3)), draw((4,), seed=1)
POS = np.abs(X) + 0.5
Z = draw((2, 3), "complex128", 2)
SQUARE = draw((3, 3), seed=3) + 3 * np.eye(3)
P = np.exp(X) / np.exp(X).sum(1, keepdims=True)

CASES = {
    "mean": (lambda x: iv.mean(x, axis=1), X),
    "var": (lambda x: iv.var(x, axis=0, correction=1), X),
    "var-complex": (iv.var, Z),
    "std": (lambda x: iv.std(x, axis=1, keepdims=True), X),
    "prod": (lambda x: iv.prod(x, axis=1), X),
    "logsumexp": (lambda x: iv.logsumexp(x, axis=0), X),
    "cumulative_sum": (lambda x: iv.cumulative_sum(x, axis=1, include_initial=True), X),
    "cumulative_prod": (lambda x: iv.cumulative_prod(x, axis=1, include_initial=True), X),
    "clip": (
        lambda x, lo, hi: iv.clip(x, lo, hi) ** 2,
        X,
        np.array([[-0.5], [-1.7]]),
        np.array([0.6, 0.9, 1.1]),
    ),
    "clip-below": (lambda x: iv.clip(x, min=0.1) ** 2, X),
    "where": (lambda x, y: iv.where(x > 0, x * y, y**2), X, POS),
    "add-alpha": (lambda x, y: iv.add(x, y, alpha=x) ** 2, X, POS),
    "sort": (lambda x: iv.sort(x, axis=1, descending=True) ** 3, X),
    "take": (lambda x: iv.take(x, np.array([0, 2, 2]), axis=1) ** 2, X),
    "take_along_axis": (lambda x: iv.take_along_axis(x, np.array([[0, 0, 2], [1, 2, 1]]), axis=1) ** 2, X),
    "unique_values": (lambda x: iv.unique_values(x) ** 2, np.array([2.0, 1.0, 3.0])),
    "stack": (lambda x, y: iv.stack([x, y], axis=1) ** 2, X, POS),
    "concat": (lambda x, y: iv.concat([x, y], axis=None) ** 2, X, V),
    "split": (lambda x: tuple(p**2 for p in iv.split(x, [1], axis=1)), X),
    "unstack": (lambda x: iv.unstack(x, axis=1)[1] ** 3, X),
    "roll": (lambda x: iv.roll(x, (1, 2), axis=(0, 1)) ** 2, X),
    "tile": (lambda x: iv.tile(x, (2, 2)) ** 2, X),
    "repeat": (lambda x: iv.repeat(x, 2, axis=1) ** 2, X),
    "repeat-counts": (lambda x: iv.repeat(x, np.array([1, 0, 2]), axis=1) ** 2, X),
    "diff": (lambda x: iv.diff(x, n=2, prepend=x) ** 2, X),
    "moveaxis": (lambda x: iv.moveaxis(x, 0, 1) ** 2, X),
    "meshgrid": (lambda x, y: tuple(g**2 for g in iv.meshgrid(x, y)), V, np.array([1.0, 2.0])),
    "pad-constant": (lambda x: iv.pad(x, 1, constant_values=2.0) ** 2, X),
    "pad-zero": (lambda x: iv.pad(x, ((0, 1), (2, 0))) ** 2, X),
    "pad-reflect": (lambda x: iv.pad(x, 2, "reflect") ** 2, X),
    "pad-edge": (lambda x: iv.pad(x, 2, "edge") ** 2, X),
    "pad-ramp": (lambda x: iv.pad(x, (3, 2), "linear_ramp", end_values=2.0) ** 2, X),
    "pad-mean": (lambda x: iv.pad(x, (1, 2), "mean", stat_length=2) ** 2, X),
    "pad-median": (lambda x: iv.pad(x, 2, "median") ** 2, X),
    "pad-maximum": (lambda x: iv.pad(x, 2, "maximum") ** 2, X),
    "pad-minimum": (lambda x: iv.pad(x, 1, "minimum", stat_length=2) ** 2, X),
    "pad-wrap": (lambda x: iv.pad(x, (3, 4), "wrap") ** 2, X),
    "diagonal": (lambda x: iv.diagonal(x, offset=1) ** 2, X),
    "tril": (lambda x: iv.tril(x, k=-1) ** 2, SQUARE),
    "matmul": (lambda x, y: x @ y, X, draw((2, 3, 2))),
    "tensordot": (lambda x, y: iv.tensordot(x, y, axes=((1,), (0,))), X, draw((3, 2, 2))),
    "vecdot": (iv.vecdot, Z, draw((3,), "complex128")),
    "einsum-diagonal": (lambda x, y: iv.einsum("iij,jk->k", x, y), draw((2, 2, 3)), draw((3, 2))),
    "einsum-three": (lambda x, y, z: iv.einsum("ab,...b,bc->...ac", x, y, z), X, draw((2, 3)), SQUARE),
    "einsum-stretch": (lambda x, y: iv.einsum("ij,ij->i", x, y), draw((2, 1)), X),
    "outer": (iv.outer, V, V[:2]),
    "trace": (lambda x: linalg.trace(x, offset=1) ** 2, SQUARE),
    "cross": (linalg.cross, X, draw((3,))),
    "inv": (linalg.inv, SQUARE),
    "solve-vector": (linalg.solve, SQUARE, draw((3,))),
    "solve-complex": (linalg.solve, SQUARE + 1j * np.eye(3), draw((3, 2), "complex128")),
    "det": (linalg.det, SQUARE),
    "slogdet": (lambda x: linalg.slogdet(x).logabsdet, SQUARE),
    "cholesky": (lambda x: linalg.cholesky(x @ x.mT, upper=True), SQUARE),
    "eigvalsh": (lambda x: linalg.eigvalsh(x + x.mT), SQUARE * [1, 2, 5]),
    "eig": (lambda x: (linalg.eigvals(x), iv.abs(linalg.eig(x).eigenvectors)), SQUARE + np.diag([0, 3.0, 9])),
    "svdvals": (linalg.svdvals, X),
    "qr": (lambda x: tuple(linalg.qr(x)), SQUARE[:, :2]),
    "pinv": (linalg.pinv, X),
    "pinv-complex": (linalg.pinv, Z),
    "pinv-rank": (lambda x, y: linalg.pinv(iv.outer(x, y), rtol=1e-6), V, draw((3,))),
    "matrix_power": (lambda x: linalg.matrix_power(x, 3), SQUARE * 0.3),
    "matrix_power-negative": (lambda x: linalg.matrix_power(x, -2), SQUARE),
    "norm-fro": (linalg.matrix_norm, Z),
    "norm-nuc": (lambda x: linalg.matrix_norm(x, ord="nuc"), X),
    "norm-spectral": (lambda x: linalg.matrix_norm(x, ord=2), X),
    "norm-1": (lambda x: linalg.matrix_norm(x, ord=1), X),
    "norm-vector": (lambda x: linalg.vector_norm(x, axis=1), X),
    "norm-3": (lambda x: linalg.vector_norm(x, axis=0, ord=3), X),
    "norm-complex-half": (lambda x: linalg.vector_norm(x, ord=0.5), Z),
    "norm-inf": (lambda x: linalg.vector_norm(x, ord=np.inf), X),
    "softmax": (lambda x: iv.softmax(x, axis=0), X),
    "log_softmax": (iv.log_softmax, X),
    "cross_entropy": (lambda x: iv.cross_entropy(x, np.array([2, 0])), X),
    "cross_entropy-vector": (lambda x: iv.cross_entropy(x, np.array(2)), V),
    "cross_entropy-axis": (
        lambda x: iv.cross_entropy(x, np.array([[1, 0], [0, 0]]), axis=1, reduction="none"),
        draw((2, 3, 2)),
    ),
    "cross_entropy-probabilities": (lambda x, p: iv.cross_entropy(x, p, reduction="sum"), X, P),
    "fft-padded": (lambda x: fft.fft(x, n=5), Z),
    "fft-cut": (lambda x: fft.fft(x, n=2, norm="ortho"), Z),
    "fftn": (lambda x: fft.fftn(x, s=(3, 2), axes=(0, 1)), X),
    "rfft": (lambda x: fft.rfft(x, n=4), X),
    "irfft": (lambda x: fft.irfft(x, n=5, norm="forward"), Z),
    "rfftn": (lambda x: fft.rfftn(x, s=(3, 4), axes=(0, 1)), X),
    "irfftn": (fft.irfftn, Z),
    "hfft": (lambda x: fft.hfft(x, n=3), Z),
    "ihfft": (fft.ihfft, X),
    "fftshift": (lambda x: fft.fftshift(x) ** 2, X),
    "linspace-like": (lambda x: iv.broadcast_to(iv.expand_dims(x, -1), (2, 3, 2)) ** 2, X),
}


@pytest.mark.parametrize("name", CASES)
def test_against_differences(name):
    function, *arrays = CASES[name]
    check_gradient(function, *arrays, order=2, tolerance=1e-5)


def first_and_second(function, x):
    x = iv.asarray(np.asarray(x, float), requires_grad=True)
    y = function(x)
    g = grad(y.sum(), x, create_graph=True)
    return g.detach().numpy(), grad(g.sum(), x).numpy() if g.requires_grad else np.zeros(x.shape)


@pytest.mark.parametrize(
    "function",
    [
        iv.std,
        linalg.norm,
        linalg.matrix_norm,
        lambda x: linalg.vector_norm(x, axis=1),
        lambda x: linalg.vector_norm(x, ord=1.5),
        lambda x: iv.hypot(x[0], x[1]),
        lambda x: linalg.vector_norm(x, axis=0) ** 2,
        lambda x: linalg.vector_norm(x, ord=1.5) ** 2,
        lambda x: iv.hypot(x[0], x[1]) ** 2,
        lambda x: iv.abs(x[0] + 1j * x[1]) ** 2,
    ],
)
def test_norms_at_zero_have_gradient_zero_and_no_second_derivative(function):
    """Its product with 0, as in the square of a norm, is nan and not a 0 that is wrong."""
    first, second = first_and_second(function, np.zeros((2, 3)))
    np.testing.assert_array_equal(first, 0)
    assert not np.isfinite(second).all()


@pytest.mark.parametrize("order", [1, 0.5, 0, 2.5, 3, 4, np.inf, -np.inf, -1])
def test_norms_of_other_orders_have_all_derivatives_0_at_0(order):
    """In both modes, alone and along axes: neither these nor their squares have a second derivative there."""
    for axis in (None, 1):
        for power in (1, 2):
            norm = lambda x, axis=axis, power=power: linalg.vector_norm(x, axis=axis, ord=order) ** power
            first, second = first_and_second(norm, np.zeros((2, 3)))
            np.testing.assert_array_equal(first, 0)
            np.testing.assert_array_equal(second, 0)
            x, t = iv.zeros((2, 3)), iv.asarray(np.arange(6.0).reshape(2, 3))
            compiled = EXHAUSTIVE or not turn(f"{order} {axis} {power}", 9)
            for way in (norm, iv.jit(norm)) if compiled else (norm,):
                slope = lambda x, way=way, t=t: iv.jvp(way, (x,), (t,))[1]
                np.testing.assert_array_equal(slope(x).numpy(), 0)
                np.testing.assert_array_equal(iv.jvp(slope, (x,), (t,))[1].to_dense().numpy(), 0)


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 2.5, 3, 4, np.inf])
def test_norms_with_entries_that_vanish(order):
    """Where the norm has a derivative: against that of the other entries alone."""
    x = np.array([1.0, 0.0, -2.0])
    first, second = first_and_second(lambda x: linalg.vector_norm(x, ord=order), x)
    which = [0, 2]
    alone = first_and_second(lambda x: linalg.vector_norm(x, ord=order), x[which])
    for got, want in zip((first, second), alone, strict=True):
        np.testing.assert_allclose(got[which], want, rtol=1e-12, atol=1e-15)
    assert first[1] == 0


def test_norm_of_single_rows_that_vanish():
    first, second = first_and_second(lambda x: linalg.vector_norm(x, axis=1), [[3.0, 4.0], [0.0, 0.0]])
    same(iv.asarray(first), [[0.6, 0.8], [0.0, 0.0]])
    assert np.isfinite(second[0]).all()


def test_the_checker_finds_wrong_rules():
    for rule in (lambda F, g, y, x: -g * F.cos(x), lambda F, g, y, x: g * F.cos(x).detach()):
        with override_vjp("sin", rule), pytest.raises(AssertionError):
            check_gradient(iv.sin, X)


def test_zeros_of_the_structure_are_strong():
    x = iv.asarray(np.array([0.0, 4.0]), requires_grad=True)
    y = iv.stack([iv.sqrt(x), x])
    same(grad(y[1].sum(), x), [1.0, 1.0])


def test_gradients_keep_the_precision_of_their_input():
    x = iv.asarray(draw((3, 4), "float32"), requires_grad=True)
    for function in (iv.mean, iv.var, iv.std, linalg.norm, lambda t: iv.clip(t, 0, 1).sum(), iv.logsumexp):
        assert grad(function(x), x).dtype == iv.float32


def test_integers_carry_no_gradient():
    x = iv.asarray(draw((3, 4)), requires_grad=True)
    for name in ("argmax", "argsort", "count_nonzero", "isnan", "sign", "floor"):
        assert not getattr(iv, name)(x).requires_grad or name in ("sign", "floor")
    same(grad(iv.floor(x).sum() + x.sum(), x), np.ones((3, 4)))
