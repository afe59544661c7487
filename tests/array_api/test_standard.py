"""What the array API standard says of special numbers and of the protocols of arrays, case by case."""

import inspect
import math

import numpy as np
import pytest

import iverson as iv
from iverson import te
from iverson.core.errors import ArgumentError
from iverson.te.ir import interpret
from iverson.te.lowering import statement_lowering

INF, NAN = math.inf, math.nan
#: x1, x2 and floor_divide(x1, x2); with the signs of zeros.
FLOOR_DIVIDE = [
    *((a, b, a * b) for a in (INF, -INF) for b in (0.5, 2.0, -0.5, -2.0)),
    *(
        (a, b, math.copysign(0.0, math.copysign(1, a) * b))
        for a in (0.0, -0.0, 1.0, -1.0, 1e300)
        for b in (INF, -INF)
    ),
    *((a, b, NAN) for a in (INF, -INF, NAN) for b in (INF, -INF, NAN)),
    (0.0, 0.0, NAN),
    (7.0, -2.0, -4.0),
]
X1, X2, QUOTIENT = (np.array(column) for column in zip(*FLOOR_DIVIDE, strict=True))


def identical(found, expected):
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)]
    )


def compiled(run):
    a, b = (te.placeholder(X1.shape, name=name) for name in "ab")
    return run(
        te.program_of([te.compute(X1.shape, lambda i: te.F.floor_divide(a[i], b[i]))], (a, b)), [X1, X2]
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floor_divide():
    identical(iv.floor_divide(X1, X2).numpy(), QUOTIENT)
    identical((iv.asarray(X1, requires_grad=True) // X2).detach().numpy(), QUOTIENT)
    for run in (interpret.run, statement_lowering.run):
        identical(compiled(run)[0], QUOTIENT)
    x = iv.asarray(X1)
    x //= iv.asarray(X2)
    identical(x.numpy(), QUOTIENT)
    for a, b, quotient in FLOOR_DIVIDE:
        identical(iv.floor_divide(iv.asarray(a), b).numpy(), np.float64(quotient))
        identical(iv.floor_divide(a, iv.asarray(b)).numpy(), np.float64(quotient))


UNSIGNED = "any"
#: The real and imaginary part of x, and of expm1(x): a number, or what says only that a sign is not said.
EXPM1 = [
    *((a, b, (0.0 if a == -INF else a) * math.cos(b) - 1, abs(a) * math.sin(b) if a > 0 else 0.0)
      for a in (INF, -INF) for b in (1.0, 2.0)),
    (INF, 0.0, INF, 0.0), (-INF, 0.0, -1.0, 0.0), (-INF, INF, -1.0, UNSIGNED), (-INF, NAN, -1.0, UNSIGNED),
    (INF, INF, UNSIGNED, NAN), (INF, NAN, UNSIGNED, NAN), (0.5, INF, NAN, NAN), (0.5, NAN, NAN, NAN),
    (NAN, 0.0, NAN, 0.0), (NAN, 1.0, NAN, NAN), (NAN, NAN, NAN, NAN), (0.0, 0.0, 0.0, 0.0),
]  # fmt: skip
TANH = [
    *((INF, b, 1.0, 0.0) for b in (0.0, 1.0, 2.0, 100.0)),
    (INF, INF, 1.0, UNSIGNED), (INF, NAN, 1.0, UNSIGNED), (0.5, INF, NAN, NAN), (0.0, INF, 0.0, NAN),
    (0.5, NAN, NAN, NAN), (0.0, NAN, 0.0, NAN), (NAN, 0.0, NAN, 0.0), (NAN, 1.0, NAN, NAN),
    (NAN, NAN, NAN, NAN), (0.0, 0.0, 0.0, 0.0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("function", "cases"), [(iv.expm1, EXPM1), (iv.tanh, TANH)], ids=["expm1", "tanh"])
def test_complex_numbers_that_are_not_finite(function, cases, dtype):
    x = np.array([complex(a, b) for a, b, *_ in cases], dtype)
    for z, sign in ((x, 1), (x.conj(), -1)):
        found = function(iv.asarray(z)).numpy()
        for (a, b, real, imag), y in zip(cases, found.tolist(), strict=True):
            for part, wanted in ((y.real, real), (y.imag, imag if imag is UNSIGNED else sign * imag)):
                if wanted is UNSIGNED:
                    assert part == 0 or math.isinf(part), (a, b, y)
                else:
                    assert math.isclose(part, wanted, rel_tol=1e-6) or (
                        math.isnan(part) and math.isnan(wanted)
                    )
                    assert math.isnan(wanted) or np.signbit(part) == np.signbit(wanted), (a, b, y)
    np.testing.assert_array_equal(function(iv.asarray(x[0])).numpy(), function(iv.asarray(x)).numpy()[0])


def test_protocols():
    x = iv.ones(3)
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12", None):
        assert x.__array_namespace__(api_version=version) is iv
    with pytest.raises(ArgumentError, match=r"__array_namespace__: argument 'api_version': got '1999"):
        x.__array_namespace__(api_version="1999.12")
    names = {"self": None, "stream": None, "max_version": None, "dl_device": None, "copy": None}
    assert list(inspect.signature(iv.Tensor.__dlpack__).parameters) == list(names)
    for call in (len, iter, list):
        with pytest.raises(TypeError):
            call(iv.asarray(1.0))


def test_empty_masks():
    for shape in ((0,), (0, 2)):
        x, none = iv.zeros(shape, requires_grad=True), iv.zeros((0,), dtype="bool")
        assert x[none].shape == shape
        y = x * 1
        y[none] = 1.0
        assert y.shape == shape
