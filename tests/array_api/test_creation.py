"""Creation and dtype functions, constants and inspection against NumPy."""

import math
import subprocess
import sys

import numpy as np
import pytest

import iverson as iv
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tests.array_api.common import SHAPES, draw, dtypes_of, same

ALL = dtypes_of("biufc")


@pytest.mark.parametrize(
    ("name", "like"), [("zeros", "zeros_like"), ("ones", "ones_like"), ("empty", "empty_like")]
)
def test_of_a_shape(name, like):
    function, like = getattr(iv, name), getattr(iv, like)
    for shape in (*SHAPES, 3):
        for dtype in (None, *ALL):
            expected = getattr(np, "zeros" if name == "empty" else name)(shape, dtype or float)
            results = [function(shape, dtype=dtype), like(draw(expected.shape, dtype or float))]
            results.append(like(iv.zeros(shape, dtype="int8"), dtype=dtype or float))
            for found in results:
                assert found.numpy().ctypes.data % 64 == 0 or not found.size
                same(found if name != "empty" else iv.zeros_like(found), expected)
    assert function((2,), requires_grad=True).requires_grad
    assert like(iv.ones(2), requires_grad=True).is_leaf


def test_full():
    for value in (True, 3, 2.5, 1 + 2j):
        same(iv.full((2, 3), value), np.full((2, 3), value))
        same(iv.full_like(np.ones(2, complex), value), np.full(2, value, complex))
    same(iv.full((2,), 3, dtype="float32"), np.full(2, 3, "float32"))
    same(iv.full((), 2), np.array(2))
    with pytest.raises(ArgumentError, match="got 300; expected a value that int8 can hold"):
        iv.full((2,), 300, dtype="int8")
    x = iv.asarray(2.0, requires_grad=True)
    for filled in (
        iv.full((2, 3), x),
        iv.full_like(iv.ones((2, 3)), x),
        iv.full((2, 3), x, dtype="complex64"),
    ):
        np.testing.assert_array_equal(filled.detach().numpy(), np.full((2, 3), 2))
        assert iv.autograd.grad(iv.real(filled).sum(), x).item() == 6
    same(iv.full((2,), np.asarray(3)), np.full(2, 3))
    assert iv.full((2,), np.float64(3.0), requires_grad=True).requires_grad
    with pytest.raises(ShapeError, match=r"full: argument 'fill_value': got shape \(2,\)"):
        iv.full((2,), iv.ones(2))
    with pytest.raises(
        ArgumentError, match=r"full: argument 'fill_value': got dtype float64.*int64 can hold"
    ):
        iv.full((2,), x, dtype="int64")
    with pytest.raises(ArgumentError, match=r"full.*int64 can hold"):
        iv.full((2,), 1.5, dtype="int64")
    with pytest.raises(ArgumentTypeError, match=r"full: argument 'fill_value': got '1' \(a str\)"):
        iv.full((2,), "1")


@pytest.mark.parametrize("args", [(5,), (2, 7), (0, 1, 0.25), (5, 0, -2), (3.5,), (0,), (-3,), (1, 2, 5)])
def test_arange(args):
    expected = np.arange(*args)
    same(iv.arange(*args), expected)
    same(iv.arange(*args, dtype="float32"), expected.astype("float32"))
    with pytest.raises(ArgumentError, match="arange: argument 'step'"):
        iv.arange(0, 1, 0)
    with pytest.raises(ArgumentTypeError, match="arange: argument 'start': got a str"):
        iv.arange("a", 2)


def test_linspace():
    for args in ((0, 1, 5), (2.5, -1.0, 3), (0, 1, 1), (0, 1, 0), (0, 1j, 3)):
        for endpoint in (True, False):
            same(iv.linspace(*args, endpoint=endpoint), np.linspace(*args, endpoint=endpoint))
    same(iv.linspace(0, 1, 3, dtype="float32"), np.linspace(0, 1, 3, dtype="float32"))
    with pytest.raises(ArgumentError, match="linspace: argument 'num'"):
        iv.linspace(0, 1, -1)


def test_eye():
    for args in ((3,), (2, 3), (3, 2), (0, 2)):
        for k in (-1, 0, 1, 9):
            same(iv.eye(*args, k=k, dtype="int32"), np.eye(*args, k=k, dtype="int32"))


def test_asarray_and_dlpack():
    x = draw((2, 3))
    same(iv.asarray(x.tolist()), x)
    assert np.shares_memory(iv.asarray(x).numpy(), x)
    assert np.shares_memory(iv.from_dlpack(x).numpy(), x)
    assert not np.shares_memory(iv.from_dlpack(x, copy=True).numpy(), x)
    same(iv.from_dlpack(iv.asarray(x)), x)
    assert iv.from_dlpack(x, requires_grad=True).requires_grad
    with pytest.raises(ArgumentTypeError, match="__dlpack__"):
        iv.from_dlpack([1.0])
    with pytest.raises(ArgumentError, match="float128"):
        iv.from_dlpack(np.ones(2, np.longdouble))


@pytest.mark.parametrize("source", ALL)
def test_astype(source):
    x = np.abs(draw((2, 3), source)) if np.dtype(source).kind == "f" else draw((2, 3), source)
    for target in ALL:
        if x.dtype.kind == "c" and np.dtype(target).kind not in "cb":
            with pytest.raises(DTypeError, match=f"astype.*{target}.*take real, imag or abs"):
                iv.astype(x, target)
            continue
        same(iv.astype(iv.asarray(x), target), x.astype(target))
        same(iv.asarray(x).astype(np.dtype(target)), x.astype(target))
    t = iv.asarray(x)
    assert iv.astype(t, source, copy=False) is t
    assert not np.shares_memory(iv.astype(t, source).numpy(), x)


def test_dtype_functions():
    for a in ALL:
        for b in ALL:
            assert iv.result_type(a, np.ones(2, b)) == np.result_type(a, b)
            assert iv.can_cast(a, b) == np.can_cast(a, b)
            assert iv.can_cast(iv.zeros(2, dtype=a), np.dtype(b)) == np.can_cast(a, b)
        for kind in (
            "bool",
            "signed integer",
            "unsigned integer",
            "integral",
            "real floating",
            "complex floating",
        ):
            assert iv.isdtype(np.dtype(a), kind) == np.isdtype(np.dtype(a), kind)
    assert iv.result_type(iv.float32, 1.0) == iv.float32
    assert iv.isdtype(iv.int8, (iv.float32, "integral"))
    for given in ((), ("x",), (iv.int8, object)):
        with pytest.raises(DTypeError, match="result_type"):
            iv.result_type(*given)
    with pytest.raises(ArgumentError, match="isdtype: argument 'kind'"):
        iv.isdtype(iv.int8, "number")


def test_limits():
    for name in ("float32", "float64", "complex64", "complex128"):
        ours, numpys = iv.finfo(getattr(iv, name)), np.finfo(name)
        assert iv.finfo(getattr(np, name)) == ours  # NumPy's scalar types name dtypes too
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(numpys, field)
            assert type(getattr(ours, field)) in (int, float)
        assert ours.dtype == numpys.dtype
    for name in dtypes_of("iu"):
        ours, numpys = iv.iinfo(iv.ones(2, dtype=name)), np.iinfo(name)
        assert (ours.bits, ours.max, ours.min, ours.dtype) == (
            numpys.bits,
            numpys.max,
            numpys.min,
            np.dtype(name),
        )
    with pytest.raises(DTypeError, match="use iinfo"):
        iv.finfo("int8")
    with pytest.raises(DTypeError, match="use finfo"):
        iv.iinfo(iv.float32)


def test_constants_and_inspection():
    assert (iv.pi, iv.e, iv.inf, iv.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(iv.nan)
    info = iv.__array_namespace_info__()
    assert iv.ones(2).__array_namespace__() is iv
    assert info.devices() == (info.default_device(),) == ("cpu",)
    assert info.dtypes(kind="real floating") == {"float32": iv.float32, "float64": iv.float64}
    assert len(info.dtypes()) == 13
    assert info.default_dtypes()["integral"] == iv.int64
    assert info.capabilities()["max dimensions"] == 64
    assert iv.__array_api_version__ == "2025.12"


def test_errors():
    for name in ("zeros", "ones", "empty"):
        with pytest.raises(ShapeError, match=f"{name}.*non-negative"):
            getattr(iv, name)((-1,))
        with pytest.raises(ArgumentTypeError, match=f"{name}.*an integer"):
            getattr(iv, name)(2.5)
        with pytest.raises(ArgumentError, match=f"{name}.*device"):
            getattr(iv, name)(2, device="gpu")
        with pytest.raises(DTypeError, match=f"{name}.*float128"):
            getattr(iv, name)(2, dtype="float128")
        with pytest.raises(DTypeError, match="requires_grad"):
            getattr(iv, name)(2, dtype="int8", requires_grad=True)
    with pytest.raises(DTypeError, match="astype"):
        iv.astype(iv.ones(2), "complex256")


def test_import_is_light():
    """Nothing is imported that a plain use does not ask for: libraries, packages, namespaces, pictures."""
    code = (
        "import sys, inspect, numpy; before = set(sys.modules); "
        "import iverson; found = set(sys.modules) - before; "
        "others = {m.partition('.')[0] for m in found} - {'iverson', '__future__', 'copy', 'dataclasses'} "
        "- {'threading', 'importlib'}; "
        "assert not others, others; "
        "lazy = 'te codegen graph transforms masked explain nn optim fft linalg random special '"
        "'handles.spy handles.notebook core.counting.notes array_api.conventions.limits'.split(); "
        "assert not found & {f'iverson.{n}' for n in lazy}, found; "
        "x = iverson.ones(3, requires_grad=True); (x * x).sum().backward(); "
        "assert 'scipy' not in sys.modules; "
        "import iverson.linalg; from iverson.fft import fft; from iverson.random import default_rng; "
        "assert iverson.special.j0 and {'special', 'linalg', 'nn'} <= set(dir(iverson)); "
        "from iverson.core.errors import ShapeError"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("layout", ["strided", "csr", "coo"])
@pytest.mark.parametrize("k", [2**70, -(2**70), 2**62, -(2**62)])
def test_diagonals_beyond_any_index(layout: str, k: int) -> None:
    """A matrix without the diagonal has no entries; one that has it would need too many addresses."""
    assert iv.eye(3, k=k, layout=layout).to_dense().sum() == 0
    with pytest.raises(iv.errors.ShapeError, match="diag: argument 'k'"):
        iv.diag(iv.ones(3), k=k, layout=layout)


def test_tensor_copies_under_pytorchs_name():
    array = np.arange(3.0)
    made = iv.tensor(array, requires_grad=True)
    array[0] = 5.0
    np.testing.assert_array_equal(made.detach().numpy(), [0.0, 1.0, 2.0])
    assert made.requires_grad
    assert iv.tensor([1, 2]).dtype == iv.int64
    assert iv.tensor([1, 2], dtype="float32").dtype == iv.float32
    assert iv.tensor(iv.eye(2, layout="csr")).layout == "csr"
    x = iv.asarray([1.0, 2.0], requires_grad=True)
    np.testing.assert_array_equal(iv.autograd.grad((iv.tensor(x) ** 2).sum(), x).numpy(), [2.0, 4.0])
    with pytest.raises(iv.errors.ArgumentTypeError, match=r"^tensor: argument 'data'"):
        iv.tensor(np.ma.masked_array([1.0], [True]))
