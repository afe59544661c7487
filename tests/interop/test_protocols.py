"""Protocols by which code written for NumPy reads arrays: the same values, or an error of ours."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import ArgumentTypeError, GradientError, IversonError

ENTRIES = np.array([[0.4, -1.26, 2.0], [3.5, 7.0, 0.0]])

#: By name, a function of an array that has the same value for a tensor.
CALLS: dict[str, Any] = {
    "flat": lambda x: list(map(float, x.flat)),
    "entry of flat": lambda x: x.flat[2],
    "copy": lambda x: x.copy(),
    "copy in an order": lambda x: x.copy("C"),
    "numpy.copy": np.copy,
    "round": np.round,
    "round to a digit": lambda x: np.round(x, 1),
    "round of a number": lambda x: round(x[0, 1], 1),
    "method": lambda x: x.round(decimals=1),
    "divmod": lambda x: divmod(x, 2)[0] + 10 * divmod(x, 2)[1],
    "divmod of a number": lambda x: sum(divmod(7.0, x + 3)),
    "numpy.divmod": lambda x: np.divmod(x, 1.5)[1],
    "interp": lambda x: np.interp(x, [0.0, 1.0, 5.0], [1.0, -1.0, 2.0]),
    "interp of a table": lambda x: np.interp([0.1, 1.9], [0.0, 1.0, 2.0], x[0]),
    "interp with ends": lambda x: np.interp(x, [0.0, 1.0], [1.0, 3.0], left=-5.0, right=9.0),
    "interp with a period": lambda x: np.interp(x, [0.0, 1.0, 1.5], [1.0, 3.0, 0.0], period=2.0),
    "cumsum": np.cumsum,
    "cumsum along an axis": lambda x: np.cumsum(x, axis=1),
    "cumsum of the last axis": lambda x: np.cumsum(x, -1),
    "cumprod": np.cumprod,
    "take": lambda x: np.take(x, [1, 4, 4]),
    "take one": lambda x: np.take(x, 5),
    "take along an axis": lambda x: np.take(x, [2, 0], axis=1),
    "take of a table of indices": lambda x: np.take(x, [[1, 0], [5, 2]]),
    "take of indices beyond": lambda x: np.take(x, [7, -9], mode="wrap"),
    "any with no output": lambda x: np.add.reduce(x > 0, axis=None, out=None),
    "method with no output": lambda x: x.sum(axis=0, out=None),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::iverson.errors.DensifyWarning")
@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_values_are_numpys(name: str, layout: str) -> None:
    call = CALLS[name]
    x = iv.to_layout(iv.asarray(ENTRIES), layout)
    result = call(x)
    expected = np.asarray(call(ENTRIES))
    dense = result.to_dense() if isinstance(result, iv.Tensor) else result
    np.testing.assert_allclose(np.asarray(dense), expected, rtol=1e-14)
    if name.startswith(("flat", "round of")):
        return
    tracked = call(iv.asarray(ENTRIES, requires_grad=True))
    assert isinstance(tracked, iv.Tensor)
    np.testing.assert_allclose(tracked.detach().numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("name", [n for n in CALLS if "interp of" in n or n[:3] in ("cum", "tak", "cop")])
def test_derivatives_are_those_of_differences(name: str) -> None:
    call, rng, h = CALLS[name], np.random.default_rng(0), 1e-6
    direction = rng.normal(size=ENTRIES.shape)
    ahead, behind = (np.asarray(call(ENTRIES + t * direction)) for t in (h, -h))
    weights = rng.normal(size=ahead.shape)
    g = iv.grad(lambda x: (call(x) * weights).sum())(iv.asarray(ENTRIES))
    expected = ((ahead - behind) * weights).sum() / (2 * h)
    np.testing.assert_allclose(float((g * direction).sum()), expected, rtol=1e-7)


def test_memory() -> None:
    x = iv.asarray(ENTRIES)
    assert bytes(x) == ENTRIES.tobytes()
    assert bytes(iv.to_layout(x, "csr")) == ENTRIES.tobytes()
    np.testing.assert_array_equal(np.from_dlpack(x), ENTRIES)
    tracked, masked = iv.asarray(ENTRIES, requires_grad=True), iv.masked_tensor(ENTRIES, ENTRIES > 0)
    for refused in (bytes, np.asarray, np.array, np.from_dlpack):
        with pytest.raises(GradientError, match="detach"):
            refused(tracked)
    for refused in (np.asarray, np.array, np.from_dlpack):
        with pytest.raises(ArgumentTypeError, match="to_masked_array"):
            refused(masked)
    if sys.version_info >= (3, 12):  # before, no class written in Python has the protocol
        assert memoryview(x).tobytes() == ENTRIES.tobytes()
        np.testing.assert_array_equal(np.frombuffer(x), ENTRIES.ravel())
        assert memoryview(x).readonly
        with pytest.raises(GradientError, match="detach"):
            memoryview(tracked)
    else:
        with pytest.raises(TypeError, match="bytes-like"):
            memoryview(x)


def test_attributes_of_arrays_that_tensors_lack() -> None:
    for name in ("strides", "flags", "tobytes", "view", "fill", "put", "dumps", "setflags", "tofile"):
        with pytest.raises(AttributeError, match=f"'{name}'; here it is "):
            getattr(iv.ones(3), name)


def test_numpy_ma_both_ways() -> None:
    theirs = np.ma.masked_array(ENTRIES, mask=ENTRIES < 1)
    ours = iv.masked_tensor(theirs)
    np.testing.assert_array_equal(ours.get_mask().numpy(), ~theirs.mask)
    again = ours.to_masked_array()
    np.testing.assert_array_equal(again.mask, theirs.mask)
    np.testing.assert_array_equal(again.filled(9.0), theirs.filled(9.0))
    assert float(ours.mean()) == theirs.mean()
    sums = iv.cumulative_sum(ours * 2, axis=1).to_masked_array()
    np.testing.assert_array_equal(sums.filled(9.0), (theirs * 2).cumsum(axis=1).filled(9.0))
    x = iv.asarray(ENTRIES)
    for mixed in (lambda: x + theirs, lambda: ours + theirs, lambda: theirs + ours, lambda: iv.sum(theirs)):
        with pytest.raises(IversonError, match="masked"):
            mixed()
    with pytest.raises(GradientError, match="detach"):
        theirs + iv.asarray(ENTRIES, requires_grad=True)
    with pytest.raises(GradientError, match="detach"):
        iv.masked_tensor(iv.asarray(ENTRIES, requires_grad=True), ENTRIES > 1).to_masked_array()


def test_pandas_missing_values_both_ways() -> None:
    pd = pytest.importorskip("pandas", reason="comes with Dask, a peer")
    for dtype in ("Float64", "Int64", "boolean"):
        theirs = pd.array([1, None, 0], dtype=dtype)
        ours = iv.masked_tensor(pd.Series(theirs))
        np.testing.assert_array_equal(ours.get_mask().numpy(), [True, False, True])
        again = pd.array(ours.to_masked_array())
        assert again.dtype == theirs.dtype
        assert again.equals(theirs)
    with pytest.raises(ArgumentTypeError, match="to_masked_array"):
        pd.Series(ours)


def test_arrow_and_polars() -> None:
    pa = pytest.importorskip("pyarrow", reason="comes with Dask, a peer")
    vector, masked = iv.asarray(ENTRIES[0]), iv.masked_tensor(ENTRIES[0], [True, False, True])
    for x, entries in ((vector, [0.4, -1.26, 2.0]), (masked, [0.4, None, 2.0]), (iv.arange(3), [0, 1, 2])):
        assert pa.array(x).to_pylist() == entries
        assert pa.table({"x": x})["x"].to_pylist() == entries

        class OfC:  # what has Arrow's protocol in C alone
            __arrow_c_array__ = x.__arrow_c_array__

        assert pa.array(OfC()).to_pylist() == entries
    tracked = iv.asarray(ENTRIES[0], requires_grad=True)
    with pytest.raises(GradientError, match="detach"):
        pa.array(tracked)
    pl = pytest.importorskip("polars", reason="a peer")
    assert pl.Series(vector).to_list() == [0.4, -1.26, 2.0]
    assert pl.Series("x", masked).to_list() == [0.4, None, 2.0]
    assert pl.DataFrame({"x": vector})["x"].to_list() == [0.4, -1.26, 2.0]
    with pytest.raises(GradientError, match="detach"):
        pl.Series(tracked)
    assert iv.asarray(pl.Series([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert iv.masked_tensor(pl.Series([1.0, None])).tolist() == [1.0, None]


def test_xarray_windows_derivatives_and_fits() -> None:
    xr = pytest.importorskip("xarray", reason="a peer")

    def of(x: Any) -> Any:
        return xr.DataArray(x, dims=("t", "s"), coords={"s": [0.0, 1.0, 3.0]})

    rng, h = np.random.default_rng(0), 1e-6
    direction = rng.normal(size=ENTRIES.shape)
    for call in (
        lambda d: d.rolling(s=2).mean(),
        lambda d: d.rolling(s=2, min_periods=1).sum(),
        lambda d: d.rolling(s=2, center=True).max(),
        lambda d: d.rolling(s=2).construct("w"),
        lambda d: d.differentiate("s"),
        lambda d: d.differentiate("s", edge_order=2),
        lambda d: d.integrate("s"),
        lambda d: d.cumulative("s").sum(),
        lambda d: d.polyfit("s", 1).polyfit_coefficients,
        lambda d: d.round(1),
    ):
        expected = call(of(ENTRIES)).values
        found = call(of(iv.asarray(ENTRIES))).data
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
        tensor = iv.asarray(ENTRIES, requires_grad=True)
        tracked = call(of(tensor)).data
        assert isinstance(tracked, iv.Tensor)
        finite = np.isfinite(expected)
        weights = np.where(finite, rng.normal(size=expected.shape), 0.0)
        slope = (call(of(ENTRIES + h * direction)) - call(of(ENTRIES - h * direction))).values
        exact = np.sum(np.where(finite, slope, 0.0) * weights) / (2 * h)

        def loss(x: Any, call: Any = call, w: Any = weights) -> Any:
            return (iv.where(w != 0, call(of(x)).data, 0.0) * w).sum()

        g = iv.grad(loss)(tensor)
        np.testing.assert_allclose(float((g * direction).sum()), exact, rtol=1e-6, atol=1e-8)


@pytest.mark.peers
def test_zarr_takes_what_numpy_takes(tmp_path: Any) -> None:
    """It asks for a method of NumPy's arrays; the error names it, and the array is `Tensor.numpy`."""
    zarr = pytest.importorskip("zarr", reason="a peer")
    x = iv.asarray(ENTRIES)
    zarr.save(tmp_path / "x.zarr", x.numpy())
    np.testing.assert_array_equal(zarr.load(tmp_path / "x.zarr"), ENTRIES)
    with pytest.raises(TypeError, match="must be numpy"):
        zarr.save(tmp_path / "y.zarr", x)
    with pytest.raises(AttributeError, match=r"'view'; here it is .*x\.numpy\(\)"):
        zarr.array(x)


@pytest.mark.peers
def test_masked_tensors_of_torch_are_read() -> None:
    torch = pytest.importorskip("torch", reason="a peer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "a prototype"
        theirs = torch.masked.masked_tensor(torch.from_numpy(ENTRIES), torch.from_numpy(ENTRIES > 1))
    ours = iv.masked_tensor(theirs)
    np.testing.assert_array_equal(ours.get_mask().numpy(), ENTRIES > 1)
    assert float(ours.sum()) == ENTRIES[ENTRIES > 1].sum()
    with pytest.raises(IversonError, match="torch"):
        iv.asarray(theirs)
