"""Every elementwise function against NumPy and SciPy, over dtypes, shapes, promotion and Python scalars."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from iverson.core.scalars import SCALARS
from tests.array_api.common import draw, dtypes_of, same
from tests.conformance.product import examples

OTHERS = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else scipy.special.expit(x),
    "exp2": lambda x: np.exp(x * math.log(2)).astype(x.dtype) if x.dtype.kind == "c" else np.exp2(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "relu": lambda x: np.where(x > 0, x, np.zeros_like(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (0.5 * (1 + scipy.special.erf(x / np.sqrt(2)))).astype(x.dtype),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
    "angle": np.angle,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frac": lambda x: x - np.trunc(x),
}
NUMPY_NAMES = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
#: What derivatives are made of, and nobody calls.
INNER = {"gelu_derivative", "sech2"}
COVERED = {s.name for s in SCALARS.values() if not s.space and not s.orders} - INNER


def reference(name):
    return OTHERS.get(name) or getattr(np, NUMPY_NAMES.get(name, name))


@pytest.mark.parametrize("name", sorted(COVERED))
def test_other_dtypes_are_refused(name):
    scalar = SCALARS[name]
    for dtype in dtypes_of("".join(k for k in "biufc" if k not in scalar.kinds)):
        xs = [np.ones(2, dtype)] * scalar.arity
        if name == "where":
            continue
        with pytest.raises(DTypeError, match=name):
            getattr(iv, name)(*xs)


@settings(max_examples=examples(60), deadline=None)
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3), st.randoms())
def test_broadcasting(shapes, random):
    seeds = [random.randrange(100) for _ in range(3)]
    x, y, z = (draw(s, seed=k) for s, k in zip(shapes.input_shapes, seeds, strict=True))
    same(iv.add(x, y), x + y)
    same(iv.where(x > 0, y, z), np.where(x > 0, y, z))
    same(iv.clip(x, -abs(y), abs(z)), np.clip(x, -abs(y), abs(z)))


def test_alpha():
    x, y = draw((2, 3)), draw((3,), seed=1)
    same(iv.add(x, y, alpha=2), x + 2 * y)
    same(iv.asarray(x).subtract(y, alpha=0.5), x - 0.5 * y)
    same(iv.asarray(x, dtype="float32").add(1, alpha=2.0), x.astype("float32") + np.float32(2))


@pytest.mark.parametrize("dtype", dtypes_of("iuf"))
def test_clip(dtype):
    x = draw((3, 4), dtype)
    same(iv.clip(x, 1, 2), np.clip(x, 1, 2))
    same(iv.clip(x, min=1), np.maximum(x, np.ones((), dtype)))
    same(iv.clip(iv.asarray(x), max=1), np.minimum(x, np.ones((), dtype)))
    same(iv.clip(x), x)
    same(iv.asarray(x).clip(0, np.ones((4,), dtype)), np.clip(x, 0, np.ones((4,), dtype)))


def test_clip_keeps_nan():
    x = np.array([np.nan, 1.0, -1.0])
    same(iv.clip(x, 0.0), [np.nan, 1.0, 0.0])
    same(iv.clip(np.ones(1), np.array([np.nan]), None), [np.nan])


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308])
    for name in ("isnan", "isinf", "isfinite", "signbit", "abs", "sign", "floor", "tanh", "sigmoid", "erf"):
        same(getattr(iv, name)(x), reference(name)(x))
    same(iv.logaddexp(np.array([-np.inf, 1e4]), -np.inf), [-np.inf, 1e4])
    same(iv.hypot(np.array([1e308]), 1e308), np.hypot(np.array([1e308]), 1e308))
    same(iv.softplus(np.array([1000.0, -1000.0])), [1000.0, 0.0])


def test_python_numbers_alone():
    """Functions of numbers without an array give what they give of arrays of rank 0."""
    for scalar in (s for s in SCALARS.values() if s.example and not s.space):
        numbers = (1.5, 0.5)[: scalar.arity] if "f" in scalar.kinds else (3, 2)[: scalar.arity]
        numbers = (0.5,) if scalar.name in ("acos", "asin", "atanh") else numbers
        found = getattr(iv, scalar.name)(*numbers)
        assert type(found) is iv.Tensor
        same(found, getattr(iv, scalar.name)(*map(iv.asarray, numbers)).numpy())


def test_errors():
    with pytest.raises(ArgumentTypeError, match=r"exp.*list.*iverson\.asarray"):
        iv.exp([1.0])
    with pytest.raises(ArgumentTypeError, match=r"add: argument 'x2': got '1' \(a str\)"):
        iv.add(iv.ones(2), "1")
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)"):
        iv.add(iv.ones(2), iv.ones(3))
    with pytest.raises(DTypeError, match="where: argument 'condition': got dtype int64; expected bool"):
        iv.where(iv.asarray([1, 0]), 1.0, 2.0)
    with pytest.raises(ArgumentError, match=r"add.*300"):
        iv.add(iv.ones(2, dtype="int8"), 300)
    with pytest.raises(ArgumentError, match=r"pow.*negative integer powers"):
        iv.pow(iv.asarray([2]), -1)
    with pytest.raises(DTypeError, match="clip"):
        iv.clip(iv.asarray([1j]), 0, 1)


def test_signature_and_documentation():
    import inspect

    for name in sorted(COVERED):
        function = getattr(iv, name)
        assert function.__name__ == name
        assert ">>>" in function.__doc__
        expected = {1: ["x"], 2: ["x1", "x2"]}.get(SCALARS[name].arity)
        names = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        assert expected is None or names == expected
