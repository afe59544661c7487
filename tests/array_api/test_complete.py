"""What the standard names is there, is documented with an example, and is a method where it can be one.

That every public function is called, and with which oracle, is in tests/calls.
"""

import doctest
import inspect
import re

import iverson as iv
from iverson.handles.array import Array
from tests.array_api import test_random
from tests.conformance.product import each

DTYPES = {
    "bool",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
}
CONSTANTS = {"e", "inf", "nan", "newaxis", "pi"}
#: Packages, their functions and state of recording: tested with their packages.
ELSEWHERE = {
    "MaskedTensor",
    "Tensor",
    "as_masked_tensor",
    "autograd",
    "checkpoint",
    "cond",
    "dataclasses",
    "derivatives",
    "differential_operator",
    "enable_grad",
    "errors",
    "explain",
    "fft",
    "fori_loop",
    "grad",
    "graph",
    "hessian",
    "hvp",
    "is_grad_enabled",
    "jacobian",
    "jet",
    "jit",
    "jvp",
    "linalg",
    "load",
    "masked",
    "masked_tensor",
    "nn",
    "no_grad",
    "optim",
    "random",
    "ravel_pytree",
    "save",
    "scan",
    "set_grad_enabled",
    "special",
    "te",
    "testing",
    "transforms",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
}

#: What makes, converts and reads sparse tensors: tested in tests/sparse.
#: The main namespace of the standard 2025.12.
_STANDARD = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2
    atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip concat conj copysign cos cosh
    count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp
    expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater
    greater_equal hypot iinfo imag inf isdtype isfinite isin isinf isnan less less_equal linspace
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis
    nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real reciprocal
    remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt
    square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu
    trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
    zeros_like
"""
_LINALG = """
    cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
    matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
    vector_norm
"""
_FFT = "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn"


def test_random_functions_are_called():
    source = inspect.getsource(test_random)
    names = [n for n in iv.random.__all__ if n != "Generator"]
    assert [n for n in names if not re.search(rf'random\.{n}\b|"{n}"', source)] == []


def test_the_standard_is_there():
    assert {*_STANDARD.split(), *DTYPES} <= set(iv.__all__)
    assert set(_LINALG.split()) <= set(iv.linalg.__all__)
    assert set(_FFT.split()) == set(iv.fft.__all__)


def public():
    for space in (iv, iv.linalg, iv.fft, iv.random, iv.special):
        for name in space.__all__:
            value = getattr(space, name) if name not in ELSEWHERE else None
            if inspect.isfunction(value) and value.__module__.startswith("iverson.array_api"):
                yield value


def test_documented_with_an_example():
    each(documented_with_an_example, public())


def documented_with_an_example(function):
    assert function.__doc__
    assert doctest.DocTestParser().get_examples(function.__doc__)
    assert function.__name__ == function.__qualname__ != "function"


def test_methods_are_the_functions():
    for name, value in vars(Array).items():
        if inspect.isfunction(value) and value.__module__.startswith("iverson.array_api") and name[0] != "_":
            function = getattr(iv, name)
            assert value is function or value.__wrapped__ is function
    for name in set(iv.__all__) - ELSEWHERE:
        value = getattr(iv, name)
        if inspect.isfunction(value) and not name.endswith("_like"):
            first = next(iter(inspect.signature(value).parameters), "")
            assert first not in ("x", "x1", "logits") or hasattr(iv.Tensor, name) or name == "from_dlpack", (
                name
            )
