"""The first nan or infinity, with the line that it arises in: in each mode, forward and backward."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import iverson as iv

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def bad(x):
    y = x * 2.0
    z = iv.log(y)  # nan
    return (z * y).sum()


def kink(x):
    y = x - 1.0
    return iv.sqrt(iv.abs(y)).sum()  # kink


def stepwise(x):
    def step(c, v):
        w = iv.log(v)  # nan
        return c + w, c

    return iv.scan(step, iv.asarray(0.0), x)[0]


def branch(x):
    return iv.cond(iv.asarray(True), bad, lambda x: x.sum(), x)


def repeated(x):
    return iv.while_loop(
        lambda c: c[1] < 3,
        lambda c: (iv.log(c[0]), c[1] + 1),  # nan
        (x.sum(), iv.asarray(0)),
    )[0]


X = np.array([1.0, 2.0, -1.0])
AT_KINK = np.array([3.0, 1.0])
#: The mode, the function, the point, and the comment of the line at fault.
FORWARD = {
    "eager": lambda f: f,
    "jit": iv.jit,
    "interpret": lambda f: iv.jit(f, interpret=True),
    "vmap": lambda f: lambda x: iv.vmap(f)(iv.stack([x, x])),
    "jit of vmap": lambda f: iv.jit(lambda x: iv.vmap(f)(iv.stack([x, x]))),
    "grad": iv.grad,
    "jit of grad": lambda f: iv.jit(iv.value_and_grad(f)),  # what nobody reads is not computed
    "grad of jit": lambda f: iv.grad(iv.jit(f)),
    "checkpoint": iv.checkpoint,
    "jvp": lambda f: lambda x: iv.jvp(f, (x,), (x,)),
}
BACKWARD = {
    "grad": iv.grad,
    "jit of grad": lambda f: iv.jit(iv.grad(f)),
    "grad of jit": lambda f: iv.grad(iv.jit(f)),
    "vmap of grad": lambda f: lambda x: iv.vmap(iv.grad(f))(iv.stack([x, x])),
    "grad of vmap": lambda f: iv.grad(lambda x: iv.vmap(f)(iv.stack([x, x])).sum()),
    "jvp": lambda f: lambda x: iv.jvp(f, (x,), (x,)),
    "jit of jvp": lambda f: iv.jit(lambda x: iv.jvp(f, (x,), (x,))),
    "checkpoint": lambda f: iv.grad(iv.checkpoint(f)),
}


def line(f, mark):
    """File and line of the comment in the source of a function."""
    lines, start = inspect.getsourcelines(f)
    (k,) = [k for k, text in enumerate(lines) if f"# {mark}" in text]
    return f"{inspect.getsourcefile(f)}:{start + k}"


def found(call, **options):
    with iv.debug.nans(**options), pytest.raises(iv.errors.NonFiniteError) as caught:
        call()
    assert isinstance(caught.value, FloatingPointError)
    return caught.value


@pytest.mark.parametrize("mode", FORWARD)
@pytest.mark.parametrize("f", [bad, stepwise, repeated, branch], ids=lambda f: f.__name__)
def test_a_nan_of_the_function(mode, f):
    """Each mode names the op and the line, whichever function the op is in."""
    if f is repeated and "grad" in mode:
        with pytest.raises(iv.errors.GradientError, match="max_steps"):
            FORWARD[mode](f)(iv.asarray(X))
        return
    x = iv.asarray(X if f is not repeated else -X)
    error = found(lambda: FORWARD[mode](f)(x))
    assert error.line == line(bad if f is branch else f, "nan")
    assert "log" in error.operation
    assert "without one" in error.got or "finite" in error.got


@pytest.mark.parametrize("mode", BACKWARD)
def test_an_infinity_of_the_derivative(mode):
    """At a kink only the derivative is infinite: the line is that of the call that is differentiated."""
    call = lambda: BACKWARD[mode](kink)(iv.asarray(AT_KINK))
    assert found(call).line == line(kink, "kink")
    kink(iv.asarray(AT_KINK))


def test_backward_of_leaves():
    x = iv.asarray(AT_KINK, requires_grad=True)
    y = kink(x)
    assert found(y.backward).line == line(kink, "kink")


def test_a_function_compiled_before_is_looked_at():
    f = iv.jit(bad)
    f(iv.asarray(X))
    assert found(lambda: f(iv.asarray(X))).line == line(bad, "nan")
    assert np.isnan(f(iv.asarray(X)).item())


def test_two_bodies_of_one_text_have_their_own_lines():
    def first(c, v):
        return c, iv.log(v)  # nan

    def second(c, v):
        return c, iv.log(v)  # nan

    zero, good, wrong = iv.asarray(0.0), iv.asarray([1.0]), iv.asarray([-1.0])
    call = lambda: (iv.scan(first, zero, good), iv.scan(second, zero, wrong))
    assert found(call).line == line(second, "nan")


def test_a_write():
    x = iv.zeros(3)

    def write():
        x[1] = iv.asarray(np.nan)

    assert "operand" in found(write).got


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex128"])
def test_dtypes(dtype):
    x = iv.asarray(np.array([0.0, 1.0]).astype(iv.asarray(0.0, dtype=dtype).dtype))
    assert "first at (0,)" in found(lambda: 1.0 / x).got


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_stored_entries(layout):
    x = iv.asarray([[0.0, -1.0], [4.0, 0.0]]).to_layout(layout)
    with iv.debug.nans():
        iv.abs(x)
    assert "nan in 1 of 2" in found(lambda: iv.sqrt(x)).got


def test_infinities_that_are_meant():
    """Infinities of operands, and with a flag all others, raise nothing."""
    x = iv.asarray([1.0, -1.0])
    with iv.debug.nans():
        iv.softmax(iv.where(x > 0, x, -np.inf), axis=0)
    with iv.debug.nans(infinities=False):
        assert np.isinf(iv.exp(x * 1000.0).numpy()[0])
        iv.jit(iv.exp)(x * 1000.0)
    assert "infinity" in found(lambda: iv.exp(x * 1000.0)).got
    assert "infinity" in found(lambda: iv.jit(lambda x: iv.exp(x * 1000.0))(x)).got


def test_a_nan_of_the_data_says_so():
    x = iv.asarray([np.nan, 1.0])
    assert "operand 0, which has one already" in found(lambda: x + 1.0).got


def test_nothing_raises_afterwards_nor_of_finite_numbers():
    x = iv.asarray(np.abs(X))
    with iv.debug.nans():
        for mode in FORWARD.values():
            mode(bad)(x)
    assert np.isnan(bad(iv.asarray(X)).item())
    with pytest.raises(iv.errors.ArgumentTypeError, match="infinities"), iv.debug.nans(infinities="no"):
        pass
