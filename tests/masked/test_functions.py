"""Custom functions of masked tensors: what they see, gradients to second order, and gradcheck."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import iverson as iv
from iverson.testing import GradcheckError, gradcheck, gradgradcheck

VALUES = np.array([[1.5, np.nan, 0.5], [np.inf, 2.0, 3.0]])
MASK = np.array([[True, False, True], [False, True, True]])


def masked(layout, scale=1.0):
    mask = iv.to_layout(iv.asarray(MASK), layout)
    return iv.masked_tensor(iv.asarray(VALUES * scale), mask, requires_grad=True)


@pytest.fixture(params=["strided", "coo", "csr"])
def layout(request):
    return request.param


class Cube(iv.autograd.Function):
    seen: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        Cube.seen.append(x)
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        Cube.seen += [x, g]
        return 3 * x * x * g


class Scaled(iv.autograd.Function):
    """x * w by lines, and the sums of its rows: of a masked x and a plain w, with its own jvp."""

    @staticmethod
    def forward(ctx, x, w, power):
        ctx.save_for_backward(x, w)
        ctx.power = power
        ctx.product = x * w
        return ctx.product, ctx.product.sum(axis=1) ** power

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        inner = g + (ctx.power * ctx.product.sum(axis=1) ** (ctx.power - 1) * h)[:, None]
        return inner * w, (inner * x).sum(axis=0), None

    @staticmethod
    def jvp(ctx, t, u, _):
        x, w = ctx.saved_tensors
        inner = t * w + x * u
        return inner, ctx.power * ctx.product.sum(axis=1) ** (ctx.power - 1) * inner.sum(axis=1)


def test_forward_and_backward_see_masked_tensors(layout):
    Cube.seen.clear()
    m = masked(layout)
    y = Cube.apply(m)
    g = iv.autograd.grad(y.sum(), m)
    assert len(Cube.seen) == 3
    for x in (*Cube.seen, y, g):
        assert isinstance(x, iv.MaskedTensor)
        assert x.layout == layout
        np.testing.assert_array_equal(x.get_mask().numpy(), MASK)
    assert y.requires_grad
    np.testing.assert_allclose(g.to_tensor(0).to_dense().numpy(), np.where(MASK, 3 * VALUES**2, 0))
    assert not Cube.apply(m.detach()).requires_grad
    assert isinstance(Cube.apply(iv.asarray(2.0)), iv.Tensor)


def test_to_second_order(layout):
    m = masked(layout)
    g = iv.autograd.grad(Cube.apply(m).sum(), m, create_graph=True)
    h = iv.autograd.grad(g.sum(), m)
    assert isinstance(h, iv.MaskedTensor)
    np.testing.assert_allclose(h.to_tensor(0).to_dense().numpy(), np.where(MASK, 6 * VALUES, 0))
    assert gradcheck(Cube.apply, (m,))
    assert gradgradcheck(Cube.apply, (m,))


@pytest.mark.parametrize("fast", [False, True])
def test_beside_a_plain_parameter(layout, fast):
    m, w = masked(layout), iv.asarray([1.0, 2.0, 0.5], requires_grad=True)
    product, powers = Scaled.apply(m, w, 2)
    assert product.layout == layout
    np.testing.assert_allclose(powers.to_tensor(0).to_dense().detach().numpy(), [1.75**2, 5.5**2])
    gm, gw = iv.autograd.grad(product.sum() + powers.sum(), (m, w))
    assert isinstance(gm, iv.MaskedTensor)
    assert isinstance(gw, iv.Tensor)
    assert gradcheck(lambda m, w: Scaled.apply(m, w, 2), (m, w), fast=fast)
    assert gradgradcheck(lambda m, w: Scaled.apply(m, w, 2), (m, w), fast=fast)
    _, t = iv.jvp(lambda m, w: Scaled.apply(m, w, 2)[0], (m.detach(), w.detach()), (m.detach(), w.detach()))
    assert isinstance(t, iv.MaskedTensor)
    np.testing.assert_allclose(
        t.to_tensor(0).to_dense().numpy()[MASK], (2 * VALUES * w.detach().numpy())[MASK]
    )


def test_a_gradient_of_another_kind_is_brought_to_the_mask(layout):
    class Plain(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * 2, w * 2

        @staticmethod
        def backward(ctx, g, h):
            return iv.full((2, 3), 2.0), iv.masked_tensor([2.0, iv.nan], [True, False])

    m, w = masked(layout), iv.ones(2, requires_grad=True)
    y, z = Plain.apply(m, w)
    gm, gw = iv.autograd.grad(y.sum() + z.sum(), (m, w))
    assert gm.layout == layout
    assert gm.tolist() == [[2.0, None, 2.0], [None, 2.0, 2.0]]
    assert gw.tolist() == [2.0, 0.0]


def test_a_result_that_is_not_differentiable_or_not_used(layout):
    class Split(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = x > 1
            ctx.mark_non_differentiable(order)
            return order, x + 1, None

        @staticmethod
        def backward(ctx, g, h, _):
            assert g.dtype == iv.bool
            return h

    m = masked(layout)
    order, y, nothing = Split.apply(m)
    assert nothing is None
    assert order.tolist() == [[True, None, False], [None, True, True]]
    assert iv.autograd.grad(y.sum(), m).tolist() == [[1.0, None, 1.0], [None, 1.0, 1.0]]


def test_a_wrong_gradient_is_found(layout):
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g + iv.where(x > 2.5, 1.0, 0.0) * g

    with pytest.raises(GradcheckError) as caught:
        gradcheck(Wrong.apply, (masked(layout),))
    assert caught.value.finding.input_index == (1, 2)


def test_errors(layout):
    class Short(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return iv.ones(2)

    m = masked(layout)
    with pytest.raises(iv.errors.ShapeError, match=r"Short\.backward: argument 'gradient 0'.*\(2, 3\)"):
        iv.autograd.grad(Short.apply(m).sum(), m)
