"""What a Function computes without a record: a second derivative is right or raises, and never a silent 0."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, grad, once_differentiable
from iverson.core.errors import DetachWarning, GradientError
from iverson.testing import gradcheck, gradgradcheck

X = 0.7  # exp: all derivatives are its value; other functions give theirs below.


def exponential(name, keep, use, forward=iv.exp):
    """A Function for exp that keeps something in forward, and finds the derivative from it in backward."""

    def run(ctx, x):
        y = forward(x)
        keep(ctx, x, y)
        return y

    def backward(ctx, g):
        return g * use(ctx)

    return type(name, (Function,), {"forward": staticmethod(run), "backward": staticmethod(backward)})


def setting(**kept):
    def keep(ctx, x, y):
        for name, make in kept.items():
            setattr(ctx, name, make(x, y))

    return keep


def saving(make):
    return lambda ctx, x, y: ctx.save_for_backward(make(x, y))


def saved(ctx):
    return ctx.saved_tensors[0]


def unrecorded(f):
    with iv.no_grad():
        return f()


def numpy_exp(x):
    return iv.asarray(np.exp(x.detach().numpy()))


def computed(x):
    """exp in two steps."""
    return iv.exp(x / 2) * iv.exp(x / 2)


#: What is recorded: inputs and results, wherever they are kept, and constants.
RECORDED = {
    "result saved": (saving(lambda x, y: y), saved),
    "result as attribute": (setting(y=lambda x, y: y), lambda ctx: ctx.y),
    "result in a list": (setting(lst=lambda x, y: [y]), lambda ctx: ctx.lst[0]),
    "result in nested containers": (
        setting(kept=lambda x, y: {"a": ([y, 1], None)}),
        lambda ctx: ctx.kept["a"][0][0],
    ),
    "result on an object": (setting(o=lambda x, y: SimpleNamespace(y=y)), lambda ctx: ctx.o.y),
    "result in a closure": (setting(f=lambda x, y: lambda: y), lambda ctx: ctx.f()),
    "input saved": (saving(lambda x, y: x), lambda ctx: iv.exp(saved(ctx))),
    "input in a list": (setting(lst=lambda x, y: [x]), lambda ctx: iv.exp(ctx.lst[0])),
    "a constant saved": (
        lambda ctx, x, y: (
            saving(lambda x, y: iv.asarray(2.0) * 3)(ctx, x, y),
            setting(y=lambda x, y: y)(ctx, x, y),
        ),
        lambda ctx: ctx.y * saved(ctx) / 6,
    ),
    "a comparison saved": (
        lambda ctx, x, y: (saving(lambda x, y: x > 0)(ctx, x, y), setting(y=lambda x, y: y)(ctx, x, y)),
        lambda ctx: iv.where(saved(ctx), ctx.y, -ctx.y),
    ),
    "a number looked at": (
        setting(y=lambda x, y: y, sign=lambda x, y: 1 if x.sum() else 2, text=lambda x, y: f"{x.sum():.2f}"),
        lambda ctx: ctx.y * ctx.sign,
    ),
    "something unused": (setting(y=lambda x, y: y, other=lambda x, y: x * x), lambda ctx: ctx.y),
}
#: What is not.
UNRECORDED = {
    "intermediate saved": (saving(lambda x, y: iv.exp(x / 2)), lambda ctx: saved(ctx) ** 2),
    "intermediate as attribute": (setting(h=lambda x, y: iv.exp(x / 2)), lambda ctx: ctx.h * ctx.h),
    "intermediate in a list": (setting(h=lambda x, y: [iv.exp(x / 2)]), lambda ctx: ctx.h[0] * ctx.h[0]),
    "intermediate on an object": (
        setting(o=lambda x, y: SimpleNamespace(h=iv.exp(x / 2))),
        lambda ctx: ctx.o.h**2,
    ),
    "intermediate written in place": (
        setting(h=lambda x, y: written(iv.zeros(x.shape), iv.exp(x))),
        lambda ctx: ctx.h,
    ),
    "detached input": (saving(lambda x, y: x.detach()), lambda ctx: iv.exp(saved(ctx))),
    "array kept": (setting(a=lambda x, y: np.exp(x.detach().numpy())), lambda ctx: iv.asarray(ctx.a)),
    "array in a list": (setting(a=lambda x, y: [np.exp(x.detach().numpy())]), lambda ctx: ctx.a[0]),
    "array on an object": (
        setting(o=lambda x, y: SimpleNamespace(a=np.exp(x.detach().numpy()))),
        lambda ctx: ctx.o.a,
    ),
    "array saved as a tensor": (saving(lambda x, y: numpy_exp(x)), saved),
    "number kept": (setting(n=lambda x, y: math.exp(x.sum().item())), lambda ctx: ctx.n),
    "implicit number kept": (setting(n=lambda x, y: math.exp(x.sum())), lambda ctx: ctx.n),
    "list of numbers": (setting(n=lambda x, y: y.tolist()), lambda ctx: np.asarray(ctx.n)),
    "derivative in NumPy": (saving(lambda x, y: x), lambda ctx: np.exp(saved(ctx).detach().numpy())),
    "derivative in NumPy of a part": (
        saving(lambda x, y: x),
        lambda ctx: np.exp(2 * (saved(ctx).detach() / 2).numpy()),
    ),
    "derivative of a number": (saving(lambda x, y: x), lambda ctx: math.exp(saved(ctx).sum().item())),
    "derivative by DLPack": (saving(lambda x, y: x), lambda ctx: np.exp(np.from_dlpack(saved(ctx).detach()))),
    "derivative under no_grad": (saving(lambda x, y: x), lambda ctx: unrecorded(lambda: iv.exp(saved(ctx)))),
    "part under no_grad": (
        saving(lambda x, y: x),
        lambda ctx: iv.exp(saved(ctx) / 2) * unrecorded(lambda: iv.exp(saved(ctx) / 2)),
    ),
    "under no_grad and written in place": (
        saving(lambda x, y: x),
        lambda ctx: written(saved(ctx) * 0.0, unrecorded(lambda: iv.exp(saved(ctx)))),
    ),
    "detached in the rule": (saving(lambda x, y: x), lambda ctx: iv.exp(saved(ctx).detach())),
    "result in NumPy": (setting(lst=lambda x, y: [y]), lambda ctx: ctx.lst[0].detach().numpy()),
}


def written(x, value):
    x[...] = value
    return x


def second_derivatives(f, x):
    yield lambda: iv.grad(lambda x: iv.grad(f)(x) * 1.0)(x)
    yield lambda: iv.jvp(iv.grad(f), (x,), (iv.ones(()),))[1]
    yield lambda: iv.grad(lambda x: iv.jvp(f, (x,), (iv.ones(()),))[1])(x)
    leaf = iv.asarray(x, copy=True).requires_grad_()
    yield lambda: grad(grad(f(leaf), leaf, create_graph=True), leaf)


@pytest.mark.parametrize("forward", [iv.exp, computed])
@pytest.mark.parametrize(("keep", "use"), RECORDED.values(), ids=RECORDED)
def test_what_is_recorded_is_differentiated_again(keep, use, forward):
    f = exponential("Exp", keep, use, forward).apply
    x = iv.asarray(X)
    assert iv.grad(f)(x).item() == pytest.approx(math.exp(X))
    for second in second_derivatives(f, x):
        assert second().item() == pytest.approx(math.exp(X))
    assert gradcheck(f, (iv.asarray([0.3, 0.2], requires_grad=True),))


@pytest.mark.parametrize("name", [n for n in RECORDED if n.startswith(("result", "input", "a comparison"))])
def test_a_forward_in_numpy_with_a_recorded_backward_is_differentiated_again(name):
    f = exponential("Exp", *RECORDED[name], numpy_exp).apply
    opaque = name in ("result on an object", "result in a closure")  # may hold what NumPy computed
    for second in second_derivatives(f, iv.asarray(X)):
        if opaque:
            with pytest.raises(GradientError, match="numbers or arrays"):
                second()
        else:
            assert second().item() == pytest.approx(math.exp(X))


@pytest.mark.parametrize(("keep", "use"), UNRECORDED.values(), ids=UNRECORDED)
def test_what_is_not_recorded_is_differentiated_once(keep, use):
    f = exponential("Exp", keep, use).apply
    x = iv.asarray(X)
    assert iv.grad(f)(x).item() == pytest.approx(math.exp(X))
    for second in second_derivatives(f, x):
        with pytest.raises(GradientError, match=r"Exp.*: got a derivative through .*saved inputs or results"):
            second()
    # A recorded pass that nobody differentiates is fine, and the next one too.
    leaf = iv.asarray(x, copy=True).requires_grad_()
    y = f(leaf) * 2.0
    for recorded in (True, False, True):
        assert grad(y, leaf, create_graph=recorded).item() == pytest.approx(2 * math.exp(X))


class Once(Function):
    """x**3 in NumPy."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return iv.asarray(x.detach().numpy() ** 3) * factor

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return iv.asarray(3 * x.detach().numpy() ** 2 * g.numpy() * ctx.factor), None


def test_once_differentiable():
    def f(x):
        return Once.apply(x, 1.0)

    x = iv.asarray(2.0)
    assert iv.grad(f)(x).item() == 12.0
    for second in second_derivatives(f, x):
        with pytest.raises(GradientError, match="once_differentiable"):
            second()
    m = iv.masked_tensor([1.0, 2.0], [True, False])
    assert iv.grad(lambda m: f(m.to_tensor(0)).sum())(m).tolist() == [3.0, None]


class AllInNumpy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return iv.exp(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return iv.asarray(np.exp(x.detach().numpy()) * g.detach().numpy())


class AllUnderNoGrad(AllInNumpy):
    @staticmethod
    @iv.no_grad
    def backward(ctx, g):
        return iv.exp(ctx.saved_tensors[0]) * g


class HalfInNumpy(AllInNumpy):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return iv.exp(x) * g / 2 + np.exp(x.detach().numpy()) * (2 * g.detach()).numpy() / 4


def test_forward_mode_asks_for_no_derivative_in_the_inputs():
    """It transposes backward: what NumPy computed of the inputs alone is a factor of a linear map."""
    x, t = iv.asarray(X), iv.asarray(2.0)
    for name in ("derivative in NumPy", "array on an object", "derivative of a number", "intermediate saved"):
        f = exponential("Exp", *UNRECORDED[name]).apply
        assert iv.jvp(f, (x,), (t,))[1].item() == pytest.approx(2 * math.exp(X)), name
    for f, what in ((AllInNumpy, "numbers"), (HalfInNumpy, "numbers"), (AllUnderNoGrad, "without a record")):
        assert iv.grad(f.apply)(x).item() == pytest.approx(math.exp(X))
        for derived in (lambda f=f: iv.jvp(f.apply, (x,), (t,)), *second_derivatives(f.apply, x)):
            with pytest.raises(GradientError, match=what):
                derived()


class NumpyTangent(Function):
    """exp, with a jvp in NumPy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return iv.exp(x)

    @staticmethod
    def backward(ctx, g):
        return g * iv.exp(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, t):
        return t * np.exp(ctx.saved_tensors[0].detach().numpy())


def test_a_tangent_computed_in_numpy():
    x, one = iv.asarray(X), iv.ones(())

    def tangent(x):
        return iv.jvp(NumpyTangent.apply, (x,), (one,))[1]

    assert tangent(x).item() == pytest.approx(math.exp(X))
    for second in (lambda: iv.grad(tangent)(x), lambda: iv.jvp(tangent, (x,), (one,))):
        with pytest.raises(
            GradientError, match=r"NumpyTangent\.jvp: got a derivative through numbers or arrays"
        ):
            second()


class Outer(Function):
    """exp by another Function and a transform, both inside forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.inner = exponential("Exp", *RECORDED["result saved"]).apply(x)
        ctx.slope = iv.grad(iv.exp)(x)
        return iv.exp(x)

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.inner + ctx.slope) / 2


def test_what_other_functions_and_transforms_computed_in_forward_is_not_recorded_either():
    x = iv.asarray(X)
    assert iv.grad(Outer.apply)(x).item() == pytest.approx(math.exp(X))
    compiled = iv.jit(iv.grad(lambda x: iv.grad(Outer.apply)(x) * 1.0))
    for second in (*second_derivatives(Outer.apply, x), lambda: compiled(x)):
        with pytest.raises(GradientError, match="what forward kept"):
            second()


def test_conversions_in_a_recorded_rule_say_so():
    class Number(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return iv.exp(x)

        @staticmethod
        def backward(ctx, g):
            return g * math.exp(ctx.saved_tensors[0])

    x = iv.asarray(X, requires_grad=True)
    with pytest.warns(DetachWarning):
        g = grad(Number.apply(x), x, create_graph=True)
    with pytest.raises(GradientError, match="a derivative through numbers"):
        grad(g, x)


def test_results_in_containers_pass_gradgradcheck():
    f = exponential("Exp", *RECORDED["result in nested containers"]).apply
    assert gradgradcheck(f, (iv.asarray([0.3, 0.2], requires_grad=True),))
