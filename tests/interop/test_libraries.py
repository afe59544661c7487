"""Libraries that take any arrays: right values, gradients that arrive, errors where they would not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import autograd
from iverson.errors import DetachWarning, GradientError
from iverson.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.peers

rng = np.random.default_rng(0)
VALUES = rng.normal(size=(2, 3, 4))
GAPS = np.array([[1.0, np.nan, 3.0], [4.0, 5.5, 6.0]])


def same(function: Callable[[Any], Any], values: Any, expected: Any = None) -> None:
    """A function of a tensor is that of the array, and its gradient that of differences along a direction."""
    expected = np.asarray(function(values) if expected is None else expected)
    x = iv.asarray(values.copy(), requires_grad=True)
    result = function(x)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    weights, direction = rng.normal(size=expected.shape), rng.normal(size=values.shape)
    there = np.isfinite(expected)
    grad = iv.autograd.grad(iv.where(iv.asarray(there), result * weights, 0.0).sum(), x).numpy()
    h = 1e-6
    low, high = (np.asarray(function(values + t * direction)) for t in (-h, h))
    np.testing.assert_allclose(
        (grad * direction).sum(), ((high - low) * weights)[there].sum() / (2 * h), rtol=1e-6, atol=1e-8
    )


@pytest.fixture
def einops() -> Any:
    found = pytest.importorskip("einops", reason="a peer")
    import iverson.interop.einops  # noqa: F401

    return found


def test_einops(einops: Any) -> None:
    from einops import array_api as from_array_api

    for function in (
        lambda x: einops.rearrange(x, "a (b c) d -> (c a) d b", c=3),
        lambda x: einops.reduce(x, "a b c -> a c", "max"),
        lambda x: einops.reduce(x, "a b (c d) -> d 1 a", "mean", d=2),
        lambda x: einops.reduce(x, "a b c -> c", "prod"),
        lambda x: einops.repeat(x, "a b c -> c r a b", r=2),
        lambda x: einops.einsum(x, x, "a b c, a d c -> b d"),
        lambda x: einops.pack([x, x * 2], "a b *")[0],
        lambda x: einops.unpack(x, [[1], [3]], "a b *")[1],
        lambda x: einops.rearrange([x, x], "n a b c -> a b (n c)"),
    ):
        same(function, VALUES)
    assert einops.parse_shape(iv.asarray(VALUES), "a _ c") == {"a": 2, "c": 4}
    same(lambda x: from_array_api.rearrange(x, "a b c -> (a c) b"), VALUES)
    masked = iv.masked_tensor(GAPS, ~np.isnan(GAPS))
    assert einops.reduce(masked, "a b -> a", "mean").tolist() == [2.0, 15.5 / 3]
    sparse = iv.to_layout(iv.eye(4), "csr")
    assert einops.rearrange(sparse, "a b -> b a").layout in ("csr", "csc", "coo")


def test_opt_einsum() -> None:
    oe = pytest.importorskip("opt_einsum", reason="comes with JAX, a peer")
    other = rng.normal(size=(4, 5))
    expression = oe.contract_expression("abc,cd->bda", (2, 3, 4), (4, 5))
    for function in (
        lambda x: oe.contract("abc,abd,de->ce", x, x, other),
        lambda x: oe.contract("abc,abd,de->ce", x, x, other, optimize="greedy"),
        lambda x: expression(x, other),
        oe.contract_expression("abc,cd->bda", (2, 3, 4), other, constants=[1]),
    ):
        same(function, VALUES)
    with oe.shared_intermediates():
        same(lambda x: oe.contract("abc,abd->cd", x, x), VALUES)


def test_array_api_extra() -> None:
    xpx = pytest.importorskip("array_api_extra", reason="a peer")
    for function in (
        lambda x: xpx.at(x, 0).add(x[1], copy=True),
        lambda x: xpx.atleast_nd(x, ndim=4),
        lambda x: xpx.cov(x[0]),
        lambda x: xpx.kron(x[0], x[1]),
        lambda x: xpx.pad(x, 1),
        xpx.sinc,
        lambda x: xpx.apply_where(x > 0, x, operator.neg, fill_value=2.0),
    ):
        same(function, VALUES)


def test_xarray() -> None:
    """Means and the like pass over nan, as xarray's do (skipna): the gradient there is zero, and no nan."""
    xr = pytest.importorskip("xarray", reason="a peer")

    def of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            given = xr.DataArray(x, dims=("t", "s"), coords={"t": [0, 1]})
            return function(given).data

        return call

    for name in ("sum", "mean", "std", "var", "min", "max", "prod", "median", "cumsum", "cumprod"):
        same(of(lambda d, name=name: getattr(d, name)("s")), GAPS)
    for function in (
        lambda d: d.mean("s", skipna=False),
        lambda d: d.mean(),
        lambda d: d.var("t", ddof=1),
        lambda d: d.quantile(0.3, "s"),
        lambda d: (d * 2 + d.mean("t")).isel(t=1),
        np.sin,
        lambda d: d.where(d > 2),
        lambda d: d.fillna(0.0).transpose("s", "t"),
        lambda d: d.sel(t=1).isel(s=[0, 2]),
        lambda d: xr.concat([d, d], "t"),
        lambda d: d.groupby("t").mean(),
        lambda d: xr.dot(d, d, dim="s"),
        lambda d: d.weighted(xr.DataArray(np.array([1.0, 2.0, 3.0]), dims="s")).mean("s"),
        lambda d: d.coarsen(t=2).mean(),
        lambda d: d.diff("s").shift(s=1),
        lambda d: d.stack(z=("t", "s")),
        lambda d: d.clip(2, 5),
        lambda d: xr.Dataset({"a": d}).mean().a,
    ):
        same(of(function), GAPS)
    d = xr.DataArray(iv.asarray(GAPS), dims=("t", "s"))
    assert d.count("s").data.tolist() == [2, 3]
    assert (d > 2).any("s").data.tolist() == [True, True]
    assert d.argmax("s").data.tolist() == [2, 2]
    np.testing.assert_array_equal(d.values, GAPS)
    assert "iverson.Tensor" in repr(d)
    tracked = xr.DataArray(iv.asarray(GAPS, requires_grad=True), dims=("t", "s"))
    for cut in (lambda: tracked.values, lambda: tracked.interp(s=0.5)):
        with pytest.raises(GradientError, match="detach"):
            cut()


def test_numba() -> None:
    """A function that numba compiled takes a tensor's entries, shared, unless a gradient would be cut."""
    numba = pytest.importorskip("numba", reason="a peer")

    @numba.njit
    def doubled(x: Any) -> Any:
        found = np.empty_like(x)
        for i, value in enumerate(x):
            found[i] = 2 * value
        return found

    @numba.njit
    def first_written(x: Any) -> Any:
        x[0] = 7.0

    x = iv.arange(4.0)
    held = np.asarray(x)
    assert np.shares_memory(held, x.numpy())
    result = doubled(held)
    y = iv.asarray(result)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert np.shares_memory(y.numpy(), result)
    # A tensor's memory is not numba's to write, as it is not NumPy's.
    with pytest.raises(numba.TypingError, match=r"immutable|readonly"):
        first_written(held)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    # numba compiles for arrays, not for tensors: it says so.
    with pytest.raises(numba.TypingError):
        doubled(x)
    sparse = iv.to_layout(x, "coo")
    assert sparse.with_values(doubled(np.asarray(sparse.values()))).to_dense().tolist() == y.tolist()
    tracked = x.requires_grad_()
    for refused in (tracked, tracked * 2, sparse * tracked):
        with pytest.raises(GradientError, match="detach"):
            doubled(np.asarray(refused))
    assert doubled(np.asarray(tracked.detach())).tolist() == y.tolist()


def test_an_op_of_numba_functions_differentiates() -> None:
    """Forward and backward are numba's, and backward is an op too: there are second derivatives."""
    numba = pytest.importorskip("numba", reason="a peer")
    from scipy.signal import lfilter

    @numba.njit
    def filtered(x: Any, a: Any) -> Any:  # y[i] = x[i] + a y[i - 1]
        y = x.copy()
        for i in range(1, len(x)):
            y[i] += a * y[i - 1]
        return y

    calls = []

    class Filter(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, a: float) -> Any:
            ctx.a = a
            calls.append("forward")
            return iv.asarray(filtered(np.asarray(x.detach()), a))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return iv.flip(Filter.apply(iv.flip(g), ctx.a)), None

    x = iv.asarray(rng.normal(size=6), requires_grad=True)
    y = Filter.apply(x, 0.5)
    np.testing.assert_allclose(
        y.detach().numpy(), lfilter([1.0], [1.0, -0.5], x.detach().numpy()), rtol=1e-12
    )
    (y**2).sum().backward()
    assert calls == ["forward"] * 2
    assert gradcheck(lambda t: Filter.apply(t, 0.5), (x,))
    assert gradgradcheck(lambda t: Filter.apply(t, 0.5) ** 2, (x,))


def test_pandas_and_matplotlib() -> None:
    pd = pytest.importorskip("pandas", reason="comes with Dask, a peer")
    frame = pd.DataFrame({"a": iv.asarray([1.0, 2.0]), "b": iv.asarray([3, 4])})
    assert frame.dtypes.astype(str).tolist() == ["float64", "int64"]
    assert iv.asarray(frame["a"]).tolist() == [1.0, 2.0]
    assert iv.asarray(frame.to_numpy()).shape == (2, 2)
    with pytest.raises(GradientError, match="detach"):
        pd.Series(iv.ones(2, requires_grad=True))
    matplotlib = pytest.importorskip("matplotlib", reason="comes with the demos")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots()
    (line,) = axes.plot(iv.arange(3.0), iv.asarray([1.0, 4.0, 9.0]))
    np.testing.assert_array_equal(line.get_xydata(), [[0, 1], [1, 4], [2, 9]])
    assert axes.imshow(iv.eye(3)).get_array().sum() == 3
    axes.hist(iv.arange(5.0))
    with pytest.warns(DetachWarning, match="detach"), pytest.raises(GradientError, match="detach"):
        axes.plot(iv.ones(2, requires_grad=True))
    plt.close(figure)


@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_missing_entries_are_filled_as_in_pandas(layout: str) -> None:
    pd = pytest.importorskip("pandas", reason="comes with Dask, a peer")
    for name, axis, limit in product(("ffill", "bfill"), (0, 1), (None, 1, 2)):
        values = rng.normal(size=rng.integers(1, 6, 2))
        values[rng.random(values.shape) < 0.6] = np.nan
        expected = getattr(pd.DataFrame(values), name)(axis=axis, limit=limit).to_numpy()
        fill = partial(getattr(iv, name), axis=axis, limit=limit)
        there = iv.to_layout(iv.asarray(~np.isnan(values)), layout)
        np.testing.assert_array_equal(fill(iv.asarray(values)).numpy(), expected)
        masked = fill(iv.masked_tensor(iv.asarray(values), there))
        np.testing.assert_array_equal(masked.to_tensor(np.nan).to_dense().numpy(), expected)


@pytest.mark.parametrize("name", ["h5py", "zarr"])
def test_h5py_and_zarr_hold_what_tensors_are_made_of(name: str, tmp_path: Any) -> None:
    """Of a sparse tensor its pattern and values, of a masked one data and mask; tracked ones are refused."""
    sparse = iv.to_layout(iv.asarray([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]), "csr")
    masked = iv.masked_tensor(GAPS, ~np.isnan(GAPS))
    held = sparse.to_scipy()
    parts = {"indptr": held.indptr, "indices": held.indices, "values": sparse.values()}
    parts |= {"data": masked.to_tensor(0.0), "mask": masked.mask()}
    library = pytest.importorskip(name, reason="a peer")
    store = (
        library.File(tmp_path / "x.h5", "w") if name == "h5py" else library.open_group(tmp_path / "x.zarr")
    )
    make = store.create_dataset if name == "h5py" else store.create_array
    for key, part in parts.items():
        make(key, data=np.asarray(part))
    read = {key: iv.asarray(store[key][...]) for key in parts}
    again = iv.sparse_csr_tensor(read["indptr"], read["indices"], read["values"], sparse.shape)
    assert again.layout == "csr"
    np.testing.assert_array_equal(again.to_dense().numpy(), sparse.to_dense().numpy())
    assert iv.masked_tensor(read["data"], read["mask"]).tolist() == masked.tolist()
    # zarr takes no arrays but NumPy's
    with pytest.raises(GradientError if name == "h5py" else TypeError):
        store["tracked"] = iv.ones(2, requires_grad=True)
