"""Every way a value leaves a tensor, in every context: no derivative is lost in silence."""

from __future__ import annotations

import array
import cmath
import copy
import itertools
import math
import operator
import pickle
import threading
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, no_grad
from iverson.core.errors import DetachWarning, GradientError


def assigned(x):
    entries = np.zeros(2)
    entries[0] = x


#: Conversions that nobody wrote down as one: Python, math, cmath and NumPy ask for a number.
IMPLICIT = {
    "written assignment": assigned,
    "float": float,
    "int": int,
    "complex": complex,
    "math.sin": math.sin,
    "math.floor": math.floor,
    "math.hypot": lambda x: math.hypot(x, 1.0),
    "cmath.exp": cmath.exp,
    "assignment into an array": lambda x: operator.setitem(np.zeros(2), 0, x),
    "assignment into a complex array": lambda x: operator.setitem(np.zeros(2, complex), 0, x),
    "array.fill": lambda x: np.zeros(2).fill(x),
    "array.array": lambda x: array.array("d", [x]),
    "format with %": lambda x: "%f" % x,  # noqa: UP031
}
#: What says itself that a number, or text, is wanted.
EXPLICIT = {
    "item": lambda x: x.item(),
    "bool": bool,
    "if": lambda x: 1 if x > 0 else 0,
    "in": lambda x: 2.0 in x.reshape(1),
    "max": lambda x: max([x, 0.0]),
    "format": lambda x: f"{x:.3f}",
    "repr": repr,
    "str": str,
    "detach": lambda x: np.asarray(x.detach()),
    "masked detach": lambda x: float(x.detach()),
}
#: What gives a tensor that is still differentiated.
KEPT = {
    "copy.copy": copy.copy,
    "asarray": iv.asarray,
    "asarray(copy=True)": lambda x: iv.asarray(x, copy=True),
    "asarray(requires_grad=True)": lambda x: iv.asarray(x, requires_grad=True),
    "sum": lambda x: sum([x, x]) - x,
    "iter": lambda x: next(iter(x.reshape(1))),
    "list": lambda x: iv.stack(list(x.reshape(1)))[0],
    "abs": abs,
    "pos": operator.pos,
}
#: What shares memory or makes a leaf: refused of whatever is tracked.
REFUSED = {
    "numpy": lambda x: x.numpy(),
    "numpy.asarray": np.asarray,
    "numpy.array": np.array,
    "numpy.float64 in a list": lambda x: np.array([1.0, x]),
    "dlpack": np.from_dlpack,
    "full": lambda x: np.asarray(iv.full((2,), x)),
    "range": range,
    "index": operator.index,
    "memoryview": memoryview,
}
#: What copies a leaf of the user's, but would cut off a variable of a transform.
OWN_LEAF = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


def plain():
    return iv.asarray(2.0)


def sparse():
    return iv.sparse_coo_tensor([[1]], [2.0], (3,))


def zero():
    return iv.autograd.grad(iv.asarray(0.0), iv.zeros((), requires_grad=True))


def masked():
    return iv.masked_tensor(iv.asarray(2.0), True)


KINDS = {
    "plain": (plain, lambda x: x),
    "masked": (masked, lambda x: x),
    "sparse": (sparse, lambda s: s[1]),
    "zero layout": (zero, lambda x: x),
}


def untracked(f, x):
    f(x)


def tracked(f, x):
    f((x * 1.0).requires_grad_())


def result(f, x):
    f((x * 1.0).requires_grad_() * 2.0)


def forgotten(f, x):
    """No gradient is asked for: nothing is lost."""
    with no_grad():
        f((x * 1.0).requires_grad_())


def in_grad(f, x):
    iv.grad(lambda x: _then(f, x))(x)


def in_grad_of_tracked(f, x):
    iv.grad(lambda x: _then(f, x * 2.0))((x * 1.0).requires_grad_())


def in_jvp(f, x):
    iv.jvp(lambda x: _then(f, x * 3.0), (x,), (x,))


def in_vjp(f, x):
    iv.vjp(lambda x: _then(f, x), x)


def in_outer(f, x):
    """A variable of the outer transform, in the inner one's function."""
    iv.grad(lambda x: iv.jvp(lambda t: _then(f, x) * t, (x,), (x,))[1].sum())(x)


def after_inner(f, x):
    """What the inner transform gave depends on the outer variable."""
    iv.jvp(lambda x: _then(f, iv.grad(lambda t: (t * t * x).sum())(x)), (x,), (x,))


def in_hessian(f, x):
    iv.hessian(lambda x: (_then(f, x) * x).sum())(x)


def in_thread(f, x):
    """The function hands its argument to a worker."""

    def function(x):
        errors = []

        def work():
            try:
                f(x)
            except Exception as error:
                errors.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        if errors:
            raise errors[0]
        return x.sum()

    iv.grad(function)(x)


def closed_over(f, x):
    """Tracked, but nothing that the running transform differentiates in."""
    w = (x * 1.0).requires_grad_()
    iv.grad(lambda t: (f(w * 2.0), t)[1])(iv.asarray(1.0))


def after_a_transform(f, x):
    """The transform is over, and failed."""
    held = []
    with pytest.raises(ZeroDivisionError):
        iv.grad(lambda x: (held.append(x), 1 / 0))(x)
    f(held[0])


def _then(f, x):
    f(x)
    return (x * 1.0).sum()


UNDER = (
    in_grad,
    in_grad_of_tracked,
    in_jvp,
    in_vjp,
    in_outer,
    after_inner,
    in_hessian,
    in_thread,
)
TRACKED = (tracked, result, closed_over, after_a_transform)
FREE = (untracked, forgotten)


def run(context, f, kind):
    make, number = KINDS[kind]
    context(lambda x: f(number(x)), make())


@pytest.mark.parametrize("kind", KINDS)
def test_implicit_conversions_raise_under_a_transform_and_warn_where_gradients_are_tracked(kind):
    for name, f in IMPLICIT.items():
        for context in FREE:
            run(context, f, kind)
        for context in TRACKED:
            if kind == "sparse" and context is closed_over:
                continue  # the leaf times 2 is sparse, and indexed: the same as a result
            with pytest.warns(DetachWarning, match=r"x\.item\(\) or x\.detach\(\)") as caught:
                run(context, f, kind)
            assert {w.filename for w in caught} == {__file__}, name
        for context in UNDER:
            if kind == "zero layout" and context in (in_grad_of_tracked, in_jvp, after_inner):
                continue  # a zero times anything is a constant
            with pytest.raises((GradientError, ValueError)) as raised:
                run(context, f, kind)
            # NumPy puts an error of its own on top of what an element assigned raises.
            error = raised.value if isinstance(raised.value, GradientError) else raised.value.__cause__
            assert isinstance(error, GradientError), name
            assert "being differentiated" in str(error)
            assert "x.item() or x.detach()" in str(error)
            assert ("iverson.stack of the entries" in str(error)) == (f is assigned), name


@pytest.mark.parametrize("kind", KINDS)
def test_what_says_that_it_leaves_passes(kind):
    for f, context in itertools.product(EXPLICIT.values(), (*FREE, *TRACKED, *UNDER)):
        if kind == "masked" and f is EXPLICIT["detach"]:
            continue
        run(context, f, kind)


def test_what_stays_a_tensor_keeps_its_derivative():
    for name, f in KEPT.items():
        for kind in ("plain", "sparse"):
            make, number = KINDS[kind]
            x = make()
            found = iv.grad(lambda x, f=f, number=number: f(number(x)) * 3.0)(x).to_dense()
            np.testing.assert_array_equal(found, np.where(x.to_dense().numpy() != 0, 3.0, 0.0), err_msg=name)


def test_shared_memory_is_refused_of_what_is_tracked():
    for name, f in REFUSED.items():
        for context in (*TRACKED, *UNDER):
            with pytest.raises((TypeError, GradientError)):  # noqa: PT012
                run(context, f, "plain")
                pytest.fail(name)


def test_copies_of_leaves_are_refused_of_variables():
    for f in OWN_LEAF.values():
        for kind in ("plain", "masked"):
            for context in (untracked, tracked, forgotten):
                run(context, f, kind)
            for context in (result, *UNDER):
                with pytest.raises(GradientError, match=r"x\.detach\(\) first"):
                    run(context, f, kind)


@pytest.mark.parametrize("kind", ["plain", "masked"])
def test_lists_are_refused_of_variables(kind):
    for context in (untracked, tracked, forgotten, result):
        run(context, lambda x: x.tolist(), kind)
    for context in UNDER:
        with pytest.raises(GradientError, match=r"x\.detach\(\)\.tolist\(\)"):
            run(context, lambda x: x.tolist(), kind)


def test_the_rules_of_a_function_may_convert_what_nothing_is_recorded_of():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.scale = math.floor(x) + float(x.sum())
            return ctx.scale * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale * float(g)

    x = iv.asarray(2.0, requires_grad=True)
    assert iv.autograd.grad(Scaled.apply(x), x).item() == 4.0


def test_a_warning_made_an_error_leaves_nothing_behind():
    x = iv.asarray(2.0, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DetachWarning):
            float(x)
        assert x.item() == 2.0
