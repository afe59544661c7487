"""Gradients: of the leaf's own kind and mask, right to second order, never reached by what is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import iverson as iv
from iverson.autograd import grad
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import examples
from tests.masked.oracle import masked, pairs

RNG = np.random.default_rng(3)
VALUES = RNG.permutation(12).reshape(3, 4) / 4 + 0.6
MASK = np.array([[True, False, True, True], [False, False, False, False], [True, True, False, True]])
OTHER = np.array([[True, True, False, True], [True, False, True, True], [False, True, True, True]])


def first():
    return masked(VALUES, MASK, requires_grad=True)


def second():
    return masked(VALUES[::-1] + 0.05, OTHER, requires_grad=True)


def parameter(shape=(4,)):
    return iv.asarray(RNG.standard_normal(shape) + 2.0, requires_grad=True)


UNARY = {
    "chain": lambda a: iv.log(a) * iv.sqrt(a) + a**2.5,
    "reciprocal": lambda a: 1 / a,
    "relu": lambda a: (a - 2.1).relu(),
    "sum": lambda a: a.sum(axis=1),
    "prod": lambda a: a.prod(axis=0, keepdims=True),
    "mean": lambda a: a.mean(axis=1),
    "max": lambda a: a.max(axis=1),
    "min": lambda a: a.min(),
    "var": lambda a: a.var(axis=1, correction=1),
    "std": lambda a: a.std(axis=1),
    "norm": lambda a: iv.linalg.vector_norm(a, axis=0),
    "norm3": lambda a: iv.linalg.vector_norm(a, axis=1, ord=3),
    "logsumexp": lambda a: a.logsumexp(axis=1),
    "softmax": lambda a: a.softmax(axis=1),
    "log_softmax": lambda a: a.log_softmax(axis=0),
    "cumulative_sum": lambda a: a.cumulative_sum(axis=1),
    "cumulative_prod": lambda a: a.cumulative_prod(axis=1),
    "sort": lambda a: iv.sort(a, axis=1, descending=True),
    "gram": lambda a: a @ a.T,
    "index": lambda a: a[a > 1.0] * a[0, 0],
    "rows": lambda a: a[[2, 0, 2]],
    "iteration": lambda a: sum(row.sum() for row in [a[0], a[2]]),
    "reshape": lambda a: iv.flip(a.T.reshape(2, 6)),
    "pad": lambda a: iv.pad(a, 1) ** 2,
    "where": lambda a: iv.where(a > 1.5, a * a, 3 * a),
    "clip": lambda a: a.clip(1.01, 2.01) * a,
    "to_tensor": lambda a: a.to_tensor(2.0) ** 2,
    "unstacked": lambda a: iv.stack(iv.unstack(a, axis=1)),
}
BINARY = {
    "add": lambda a, b: a + b * b,
    "divide": lambda a, b: a / b,
    "maximum": lambda a, b: iv.maximum(a, b) * a,
    "matmul": lambda a, b: a @ b.T,
    "concat": lambda a, b: iv.concat([a, b], axis=1) ** 2,
    "where": lambda a, b: iv.where(a > 1.5, a, b * b),
    "broadcast": lambda a, b: a[:1] * b + b[:, :1],
    "scaled": lambda a, b: a.add(b, alpha=2) ** 2,
}
MIXED = {
    "scale": lambda a, w: a * w,
    "product": lambda a, w: a @ w,
    "fill": lambda a, w: a.to_tensor(w) ** 2,
    "scalar": lambda a, w: a * w[0] + w[1],
    "softmax": lambda a, w: (a * w).softmax(axis=1) * w,
}


@pytest.mark.parametrize("name", UNARY)
def test_of_one_operand(name):
    assert gradcheck(UNARY[name], (first(),))
    assert gradgradcheck(UNARY[name], (first(),))


@pytest.mark.parametrize("name", BINARY)
def test_of_two_masks(name):
    assert gradcheck(BINARY[name], (first(), second()))
    assert gradgradcheck(BINARY[name], (first(), second()))


@pytest.mark.parametrize("name", MIXED)
def test_of_a_plain_parameter(name):
    assert gradcheck(MIXED[name], (first(), parameter()))
    assert gradgradcheck(MIXED[name], (first(), parameter()))


def test_complex():
    values = VALUES + 1j * VALUES[::-1]
    a = masked(values, MASK, requires_grad=True)
    for f in (lambda a: abs(a * a).sum(axis=1), lambda a: a @ a.conj().T, lambda a: iv.exp(a).mean(axis=0)):
        assert gradcheck(f, (a,))
        assert gradgradcheck(f, (a,))


@given(pairs(), st.sampled_from(["sum", "mean", "max", "softmax", "prod", "std"]), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_gradients_have_the_masks_of_their_leaves(pair, name, data):
    values, mask = pair
    m = masked(values, mask, requires_grad=True)
    axis = data.draw(st.integers(0, values.ndim - 1)) if values.ndim else None
    assume(name != "softmax" or axis is not None)
    out = getattr(iv, name)(m * m, axis=axis)
    g = iv.autograd.grad(out, m, iv.ones(out.shape), create_graph=True)
    h = iv.autograd.grad(g.sum(), m)
    for x in (g, h):
        assert isinstance(x, iv.MaskedTensor)
        np.testing.assert_array_equal(x.get_mask().numpy(), mask)
        # A deviation of 0, of a single entry, has a first derivative by convention and no second.
        assert (x is h and name == "std") or np.isfinite(x.detach().get_data().numpy()).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_leaves_out_examples_without_a_label(reduction):
    known = np.array([True, False, True])
    data = np.random.default_rng(0).standard_normal((3, 4))
    data[1] = np.nan  # what is not asked for is not read
    labels = iv.masked_tensor(np.array([0, 3, 2]), known)
    logits = iv.asarray(data, requires_grad=True)
    few = iv.asarray(data[known], requires_grad=True)
    ours = iv.cross_entropy(logits, labels, reduction=reduction)
    theirs = iv.cross_entropy(few, iv.asarray([0, 2]), reduction=reduction)
    kept = known if reduction == "none" else ()
    np.testing.assert_allclose(ours.detach().to_tensor(0).numpy()[kept], theirs.detach().numpy(), rtol=1e-14)
    gradient = grad(ours.sum(), logits).to_dense().numpy()
    np.testing.assert_allclose(gradient[known], grad(theirs.sum(), few).numpy(), rtol=1e-14)
    np.testing.assert_array_equal(gradient[1], 0)
    masked = iv.masked_tensor(data, np.arange(12).reshape(3, 4) != 11, requires_grad=True)
    assert gradcheck(lambda m: iv.cross_entropy(m, labels, reduction=reduction), (masked,))
    with pytest.raises(iv.errors.IndexingError, match="class 4"):
        iv.cross_entropy(logits, iv.masked_tensor(np.array([0, 3, 4]), known))


def test_cross_entropy_leaves_out_what_has_no_class():
    m = iv.masked_tensor(VALUES, OTHER, requires_grad=True)
    classes = np.array([3, 1, 1])  # the second example's class is unspecified
    losses = iv.cross_entropy(m, classes, reduction="none")
    expected = [
        np.log(np.exp(VALUES[k][OTHER[k]]).sum()) - VALUES[k, classes[k]] if k != 1 else None
        for k in range(3)
    ]
    assert losses.tolist() == [e if e is None else pytest.approx(e) for e in expected]
    assert iv.cross_entropy(m, classes).item() == pytest.approx((expected[0] + expected[2]) / 2)
    assert iv.cross_entropy(m, classes, reduction="sum").item() == pytest.approx(expected[0] + expected[2])
    assert gradcheck(lambda m: iv.cross_entropy(m, classes), (m,))


def test_a_leaf_and_its_gradient():
    m = iv.masked_tensor([1.0, np.nan, 3.0], [True, False, True])
    assert m.requires_grad_() is m
    assert m.is_leaf
    assert m.grad is None
    m.tanh().sum().backward()
    (m * 2).sum().backward()
    expected = 1 - np.tanh([1.0, 3.0]) ** 2 + 2
    assert m.grad.tolist()[1] is None
    np.testing.assert_allclose([m.grad.tolist()[0], m.grad.tolist()[2]], expected)
    m.grad = None
    assert m.grad is None
    seen = []
    handle = m.register_hook(lambda g: (seen.append(g), g * 10)[1])
    (m * m).sum().backward()
    handle.remove()
    assert seen[0].tolist() == [2.0, None, 6.0]
    assert m.grad.tolist() == [20.0, None, 60.0]
    y = m * m
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0, None, 1.0]


def test_a_plain_parameter_has_a_plain_gradient():
    w = iv.ones(3, requires_grad=True)
    m = iv.masked_tensor([[1.0, np.nan, 3.0]], [[True, False, True]], requires_grad=True)
    (m * w).sum().backward()
    assert isinstance(w.grad, iv.Tensor)
    assert w.grad.numpy().tolist() == [1.0, 0.0, 3.0]
    assert m.grad.tolist() == [[1.0, None, 1.0]]


def test_dividing_by_zero_and_then_masking():
    """Issue: x/0, then mask, leaves no nan in the gradient, to second order."""
    x = iv.asarray([1.0, 1.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        y = x * x / iv.asarray([0.0, 1.0])
    m = iv.masked_tensor(y, [False, True])
    (g,) = iv.autograd.grad(m.sum(), [x], create_graph=True)
    assert g.detach().numpy().tolist() == [0.0, 2.0]
    assert iv.autograd.grad(g.sum(), x).numpy().tolist() == [0.0, 2.0]
    x = iv.asarray([0.0, -1.0, 4.0], requires_grad=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        y = iv.log(iv.sqrt(x))
    (g,) = iv.autograd.grad(iv.masked_tensor(y, [False, False, True]).sum(), [x])
    assert g.numpy().tolist() == [0.0, 0.0, 0.125]


@pytest.mark.parametrize(
    "f", [lambda a: a.softmax(axis=1), lambda a: a.mean(axis=1), lambda a: a.max(axis=1)]
)
def test_a_line_without_entries(f):
    """Issue: its result is unspecified, and gradients elsewhere are finite."""
    a = first()
    y = f(a)
    assert not y.get_mask().numpy()[1].any()
    g = iv.autograd.grad((y * y).sum(), a)
    assert np.isfinite(g.get_data().numpy()).all()
    np.testing.assert_array_equal(g.get_mask().numpy(), MASK)


def test_all_unspecified():
    m = iv.masked_tensor([np.nan, np.inf], [False, False], requires_grad=True)
    total = m.sum()
    assert total.tolist() is None
    total.backward()
    assert m.grad.tolist() == [None, None]
    assert (total + iv.asarray(1.0)).tolist() is None


def test_filling_differentiates_in_both():
    m = iv.masked_tensor([1.0, np.nan, 3.0], [True, False, True], requires_grad=True)
    fill = iv.asarray(5.0, requires_grad=True)
    (m.to_tensor(fill) ** 2).sum().backward()
    assert m.grad.tolist() == [2.0, None, 6.0]
    assert fill.grad.item() == 10.0


def test_assignment_specifies_and_differentiates():
    m = first()
    v = iv.asarray(2.0, requires_grad=True)
    x = m * 1.0
    x[0, 1] = v
    x[1] = iv.masked_tensor([7.0, 8.0, 0.0, 0.0], [True, True, False, False])
    assert x.get_mask().numpy()[:2].tolist() == [[True] * 4, [True, True, False, False]]
    (x * x).sum().backward()
    assert v.grad.item() == 4.0
    np.testing.assert_array_equal(m.grad.get_mask().numpy(), MASK)


def test_in_place():
    m = iv.masked_tensor([1.0, 2.0, 3.0], [True, False, True], requires_grad=True)
    x = m * 1.0
    x *= iv.masked_tensor([2.0, 2.0, 2.0], [True, True, False])
    assert x.tolist() == [2.0, None, None]
    x.sum().backward()
    assert m.grad.tolist() == [2.0, None, 0.0]
