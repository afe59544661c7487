"""SciPy's functions on tensors, with its array API support: right derivatives or an error, never a cut."""

from __future__ import annotations

import pytest

from tests.interop.tally import outcomes

pytestmark = pytest.mark.peers

#: What SciPy carries out in NumPy alone, of all arrays.
IN_NUMPY = {
    "special": "ellipk ellipkm1 hyp1f1",
    "fft": "dct idct dst idst dctn idctn dstn idstn",
    "integrate": "simpson",
    "linalg": "det inv expm pinv solve",
    "signal": (
        "convolve detrend detrend_constant lfilter resample_poly upfirdn savgol_filter "
        "sosfilt filtfilt wiener bilinear cspline1d deconvolve"
    ),
    "ndimage": (
        "gaussian_filter uniform_filter convolve laplace sobel maximum_filter "
        "median_filter zoom shift rotate spline_filter"
    ),
    "interpolate": "CubicSpline PchipInterpolator RegularGridInterpolator",
}


def test_scipys_functions_differentiate_or_refuse() -> None:
    found = outcomes("tests.interop.scipy_calls")
    refusing = {f"{module}.{name}" for module, names in IN_NUMPY.items() for name in names.split()}
    assert {n: e for n, e in found.items() if e != "right" and not e.startswith("refused")} == {}
    assert {n for n, e in found.items() if e != "right"} == refusing
    assert sum(e == "right" for e in found.values()) >= 180
    for name in refusing:  # says what to do
        assert "detach()" in found[name] or "call iverson.interop.scipy." in found[name], (name, found[name])
