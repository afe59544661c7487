"""What a Function's context is told, and arguments by name; absent cotangents stay structural."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, grad
from iverson.core.errors import ArgumentTypeError, GradientError
from iverson.testing import gradcheck, gradgradcheck


def parts(materialize, seen):
    """Sine and cosine at once, noting which cotangents arrive."""

    class Parts(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(x)
            return iv.sin(x), iv.cos(x)

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g, h))
            (x,) = ctx.saved_tensors
            terms = [
                t
                for t in (g is not None and g * iv.cos(x), h is not None and -h * iv.sin(x))
                if t is not False
            ]
            return sum(terms[1:], terms[0])

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return t * iv.cos(x), -t * iv.sin(x)

    return Parts


X = np.array([0.3, 1.1])


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("through", ["eager", "jit", "vmap"])
def test_an_absent_cotangent_is_a_structural_zero_or_none(materialize, through):
    seen = []
    function = parts(materialize, seen)

    def loss(x):
        return iv.sum(function.apply(x)[0] ** 2)

    if through == "vmap":
        found = iv.vmap(iv.grad(loss))(iv.asarray(X))
    else:
        derivative = iv.grad(loss)
        found = (iv.jit(derivative) if through == "jit" else derivative)(iv.asarray(X))
    np.testing.assert_allclose(found.numpy(), 2 * np.sin(X) * np.cos(X))
    assert seen
    for g, h in seen:
        assert g is not None
        if not materialize:
            assert h is None
        elif through == "eager":
            assert h.layout == "zero"  # no entry is stored, none is computed
    if through == "eager":
        assert gradcheck(function.apply, (iv.asarray(X, requires_grad=True),))


def test_a_gradient_outside_of_a_batch_has_none_where_nothing_flows():
    seen = []
    function = parts(False, seen)
    x = iv.asarray(X, requires_grad=True)
    y, _ = iv.vmap(function.apply)(x)
    np.testing.assert_allclose(grad(y.sum(), x).numpy(), np.cos(X))
    assert all(h is None for _, h in seen)


def test_an_absent_tangent():
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

        @staticmethod
        def jvp(ctx, t, u):
            seen.append(u)
            x, y = ctx.saved_tensors
            if t is None or u is None:
                return x * u if u is not None else t * y if t is not None else None
            return t * y + x * u

    zero = iv.zeros_like(iv.asarray(X))
    _, t = iv.jvp(lambda x: Product.apply(x, iv.asarray(X)), (zero,), (iv.asarray(X),))
    np.testing.assert_allclose(t.numpy(), X * X)
    assert seen == [None]
    assert gradcheck(Product.apply, tuple(iv.asarray(X + k, requires_grad=True) for k in (1, 2)))


def test_jvp_has_what_is_saved_for_it():
    """As PyTorch's example of `save_for_forward`; what is saved of results is that of this call, too."""

    class Product(Function):
        apart = True

        @staticmethod
        def forward(ctx, x, y):
            out = x * y
            ctx.save_for_backward(y, x)
            if Product.apart:
                ctx.save_for_forward(y, None, out)
            return out

        @staticmethod
        def backward(ctx, g):
            y, x = ctx.saved_tensors
            return g * y, g * x

        @staticmethod
        def jvp(ctx, s, t):
            if not Product.apart:
                y, x = ctx.saved_tensors
                return s * y + x * t
            y, nothing, out = ctx.saved_tensors
            assert nothing is None
            return s * y + out / y * t

    x, y = iv.asarray(X), iv.asarray(X + 1)
    for apart in (True, False):
        Product.apart = apart
        for through in (lambda f: f, iv.jit):
            out, tangent = through(lambda x, y: iv.jvp(Product.apply, (x, y), (y, x)))(x, y)
            np.testing.assert_allclose(out.numpy(), X * (X + 1))
            np.testing.assert_allclose(tangent.numpy(), (X + 1) ** 2 + X**2)
        tracked = [iv.asarray(v, requires_grad=True) for v in (X, X + 1)]
        assert gradcheck(Product.apply, tracked)
        assert gradgradcheck(Product.apply, tracked)


class Rows(Function):
    @staticmethod
    def forward(ctx, x):
        kept = x * 3
        ctx.mark_non_differentiable(kept)
        return x * 2, kept

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


@pytest.mark.parametrize("reads", [False, True], ids=["mapped", "example by example"])
@pytest.mark.filterwarnings("ignore::iverson.errors.BatchWarning")
def test_what_is_not_differentiable_is_not_in_a_batch_either(reads):
    class Reading(Rows):
        @staticmethod
        def forward(ctx, x):
            float(x)
            return Rows.forward(ctx, x)

    x = iv.asarray(X, requires_grad=True)
    y, kept = iv.vmap((Reading if reads else Rows).apply)(x)
    assert y.requires_grad
    assert not kept.requires_grad
    np.testing.assert_allclose(grad(y.sum(), x).numpy(), [2.0, 2.0])


def test_an_argument_that_is_said_to_change():
    class Dirty(Function):
        @staticmethod
        def forward(ctx, x):
            x += 1
            ctx.mark_dirty(x)
            return x

    with pytest.raises(GradientError, match=r"mark_dirty.*x = F\.apply\(x\)"):
        Dirty.apply(iv.asarray(X, requires_grad=True))


class Affine(Function):
    """a x + b; setup apart, as PyTorch recommends."""

    @staticmethod
    def forward(x, a=2.0, b=0.0):
        return a * x + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs

    @staticmethod
    def backward(ctx, g):
        x, a, *b = ctx.inputs if len(ctx.inputs) > 1 else (*ctx.inputs, 2.0)
        needs = ctx.needs_input_grad
        found = (g * a if needs[0] else None, (g * x).sum() if len(needs) > 1 and needs[1] else None)
        return (*found, g.sum() if b and needs[2] else None)


def leaves():
    return (
        iv.asarray(X, requires_grad=True),
        iv.asarray(3.0, requires_grad=True),
        iv.asarray(1.0, requires_grad=True),
    )


def test_arguments_by_name():
    x, a, b = leaves()
    expected = grad(Affine.apply(x, a, b).sum(), (x, a, b))
    for call in (
        lambda: Affine.apply(x, b=b, a=a),
        lambda: Affine.apply(a=a, b=b, x=x),
        lambda: Affine.apply(x, a, b=b),
    ):
        for got, want in zip(grad(call().sum(), (x, a, b)), expected, strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())
    # Defaults stand before what is named, and nothing after it.
    gx, gb = grad(Affine.apply(x, b=b).sum(), (x, b))
    assert (gx.tolist(), gb.item()) == ([2.0, 2.0], 2.0)
    assert grad(Affine.apply(x=x).sum(), x).tolist() == [2.0, 2.0]
    assert gradcheck(lambda x, a, b: Affine.apply(x, b=b, a=a), leaves())


def test_arguments_by_name_of_a_forward_with_a_context():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, *, power=1):
            return x

    class Power(Function):
        @staticmethod
        def forward(ctx, x, scale=1.0, power=2):
            ctx.save_for_backward(x)
            ctx.scale, ctx.power = scale, power
            return scale * x**power

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.scale * ctx.power * x ** (ctx.power - 1), None, None

    x = iv.asarray(X, requires_grad=True)
    np.testing.assert_allclose(grad(Power.apply(x, power=3).sum(), x).numpy(), 3 * X**2)
    np.testing.assert_allclose(iv.vmap(lambda x: Power.apply(power=3, x=x))(iv.asarray(X)).numpy(), X**3)
    assert Scaled.apply(x).tolist() == X.tolist()
    with pytest.raises(ArgumentTypeError, match="power by name"):
        Scaled.apply(x, power=2)
    with pytest.raises(ArgumentTypeError, match="'exponent'"):
        Power.apply(x, exponent=2)
    with pytest.raises(ArgumentTypeError, match="multiple values"):
        Power.apply(x, x=x)


@pytest.mark.peers
def test_as_pytorch_has_it():
    import torch

    class Theirs(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return torch.sin(x), torch.cos(x)

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            (x,) = ctx.saved_tensors
            return (0 if g is None else g * torch.cos(x)) - (0 if h is None else h * torch.sin(x))

    x, t = iv.asarray(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    for k in (0, 1):
        seen, ours = [], []
        expected = torch.autograd.grad(Theirs.apply(t)[k].sum(), t)[0]
        found = grad(parts(False, ours).apply(x)[k].sum(), x)
        np.testing.assert_allclose(found.numpy(), expected.numpy())
        assert [(g is None, h is None) for g, h in ours] == seen
