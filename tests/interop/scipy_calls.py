"""Functions of SciPy on tensors that track gradients: how each call ends, as JSON.

Run as a program, as SciPy reads ``SCIPY_ARRAY_API`` when it is imported. Values are compared with SciPy's own
of NumPy arrays, derivatives with central differences of these.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np
from scipy import constants, fft, integrate, interpolate, linalg, ndimage, optimize, signal, special, stats
from scipy.cluster import vq
from scipy.spatial.transform import Rotation

import iverson as iv

rng = np.random.default_rng(0)
unit, above = rng.uniform(0.2, 0.8, 6), rng.uniform(1.1, 2.0, 6)
wave, positive, kernel = rng.normal(size=8), rng.uniform(0.5, 2.0, 12), rng.normal(size=3)
matrix, quaternions, square = rng.normal(size=(4, 5)), rng.normal(size=(3, 4)), rng.normal(size=(3, 3))
other = positive[::-1] ** 2

#: By name, a function of arrays and the arrays it is called on.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def _by_name(module: Any, names: str, *args: Any) -> None:
    for name in names.split():
        CALLS[f"{module.__name__.split('.')[-1]}.{name}"] = getattr(module, name), args


def _calls(prefix: str, args: tuple[Any, ...], **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        CALLS[f"{prefix}.{name}"] = function, args


def _statistic(test: Callable[..., Any], *samples: Any) -> Any:
    return test(*samples).statistic


def _of_second(function: Callable[..., Any], second: Any, x: Any) -> Any:
    return function(x, second)


def _like(x: Any, values: Any) -> Any:
    """A constant of the library that x is of."""
    return _of(x).asarray(values)


def _of(x: Any) -> Any:
    """The library that x is of."""
    return iv if isinstance(x, iv.Tensor) else np


_by_name(
    special,
    "cbrt entr erf erfc erfcx erfinv exp1 exp10 exp2 exprel expi expit gamma gammaln "
    "loggamma rgamma i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e y0 y1 log_ndtr logit ndtr ndtri "
    "psi sinc spence ellipk ellipkm1 cosdg sindg tandg cosm1 logsumexp softmax "
    "log_softmax",
    unit,
)
_by_name(
    special,
    "betaln binom boxcox boxcox1p inv_boxcox inv_boxcox1p chdtr chdtrc gammainc gammaincc "
    "huber kl_div rel_entr xlogy xlog1py poch pseudo_huber pdtr pdtrc zeta stdtr",
    above,
    unit,
)
_by_name(special, "betainc betaincc fdtr fdtrc gdtr gdtrc", above, above[::-1].copy(), unit)
_by_name(special, "zetac", above)
_by_name(special, "radian hyp1f1", unit, above, unit)
_calls(
    "special",
    (above,),
    multigammaln=lambda x: special.multigammaln(x, 2),
    polygamma=lambda x: special.polygamma(1, x),
)
_by_name(
    stats,
    "gmean hmean tmean tvar tmin tmax tstd tsem skew kurtosis sem zscore gzscore gstd iqr "
    "median_abs_deviation variation kstat kstatvar circmean circvar circstd entropy "
    "lmoment differential_entropy",
    positive,
)
_calls(
    "stats",
    (positive,),
    pmean=lambda x: stats.pmean(x, 2.0),
    moment=lambda x: stats.moment(x, 3),
    trim_mean=lambda x: stats.trim_mean(x, 0.2),
    quantile=lambda x: stats.quantile(x, 0.3),
    describe=lambda x: stats.describe(x).variance,
    ttest_1samp=lambda x: stats.ttest_1samp(x, 0.5).statistic,
    p_of_ttest_1samp=lambda x: stats.ttest_1samp(x, 0.5).pvalue,
    power_divergence=lambda x: stats.power_divergence(x).statistic,
    chisquare=lambda x: stats.chisquare(x).statistic,
    boxcox_llf=lambda x: stats.boxcox_llf(0.5, x),
    yeojohnson_llf=lambda x: stats.yeojohnson_llf(0.5, x),
    sigmaclip=lambda x: stats.sigmaclip(x).clipped,
)
for _name in ("skewtest", "kurtosistest", "normaltest", "jarque_bera"):
    CALLS[f"stats.{_name}"] = (
        partial(_statistic, getattr(stats, _name)),
        (np.concatenate([positive, positive + 0.3]),),
    )
for _name in ("pearsonr", "ttest_ind", "ttest_rel", "f_oneway", "bartlett", "levene", "alexandergovern"):
    CALLS[f"stats.{_name}"] = partial(_statistic, getattr(stats, _name)), (positive, other)
_by_name(stats, "zmap", positive, other)
_by_name(stats, "false_discovery_control", unit)
_calls(
    "stats",
    (unit[:2], unit[2:4]),
    ttest_ind_from_stats=lambda a, b: stats.ttest_ind_from_stats(a[0], a[1], 10, b[0], b[1], 12).statistic,
)
_calls("stats", (unit,), combine_pvalues=lambda x: stats.combine_pvalues(x).statistic)
_calls("stats", (matrix,), directional_stats=lambda x: stats.directional_stats(x).mean_direction)
_by_name(fft, "fft ifft rfft irfft hfft dct idct dst idst fftshift ifftshift", wave)
_by_name(fft, "fftn ifftn fft2 ifft2 rfftn dctn idctn dstn idstn", matrix)
_calls("fft", (wave,), fht=lambda x: fft.fht(x, 0.1, 0.5))
_by_name(integrate, "trapezoid simpson cumulative_trapezoid romb", matrix)
_calls("integrate", (matrix,), cumulative_simpson=lambda x: integrate.cumulative_simpson(x, dx=0.1))


def _integral(a: Any, low: float, high: float) -> Any:
    def bell(x: Any, a: Any) -> Any:  # whose derivative is none of inf: abscissae are as large as 1e300
        return _of(x).exp(-_of(x).minimum(a * x * x, _like(x, 700.0)))

    return integrate.tanhsinh(bell, _like(a, low), _like(a, high), args=(a,)).integral


def _zeta(a: Any, last: float) -> Any:
    return integrate.nsum(lambda k, a: k**-a, _like(a, 1.0), _like(a, last), args=(a,)).sum


def _zeta_slope(a: Any) -> Any:
    if isinstance(a, iv.Tensor):
        return iv.grad(lambda a: _zeta(a, np.inf).sum())(a)
    return np.array([float(mpmath.zeta(s, derivative=1)) for s in a])


# tanhsinh writes into parts of a reshaped transpose.
_calls(
    "integrate",
    (above,),
    tanhsinh=lambda a: _integral(a, 0.0, 1.0),
    tanhsinh_half_line=lambda a: _integral(a, 0.0, np.inf),
    tanhsinh_line=lambda a: _integral(a, -np.inf, np.inf),
    nsum=lambda a: _zeta(a, 10.0),
    nsum_to_infinity=lambda a: _zeta(a + 1.0, np.inf),  # overwrites, through an index, what is not finite
    slope_of_nsum_to_infinity=lambda a: _zeta_slope(a + 1.0),
)
_by_name(optimize, "rosen rosen_der rosen_hess", wave)
_by_name(optimize, "rosen_hess_prod", wave, wave[::-1].copy())
_by_name(linalg, "block_diag", matrix, quaternions)
_by_name(linalg, "fiedler", wave)
_by_name(linalg, "det inv expm pinv", square)
_by_name(linalg, "solve", square, square[:, :2])
_calls(
    "linalg",
    (square, square.T + np.eye(3)),
    orthogonal_procrustes=lambda a, b: linalg.orthogonal_procrustes(a, b)[0],
)
_calls("constants", (wave,), convert_temperature=lambda x: constants.convert_temperature(x, "C", "K"))
_by_name(constants, "lambda2nu", positive)
_calls(
    "spatial",
    (quaternions,),
    as_matrix=lambda x: Rotation.from_quat(x).as_matrix(),
    as_rotvec=lambda x: Rotation.from_quat(x).as_rotvec(),
    as_euler=lambda x: Rotation.from_quat(x).as_euler("xyz"),
    as_mrp=lambda x: Rotation.from_quat(x).as_mrp(),
    inv=lambda x: Rotation.from_quat(x).inv().as_quat(),
    magnitude=lambda x: Rotation.from_quat(x).magnitude(),
)
_calls(
    "spatial",
    (square,),
    from_rotvec=lambda x: Rotation.from_rotvec(x).as_matrix(),
    from_euler=lambda x: Rotation.from_euler("xyz", x).as_quat(),
)
_calls("spatial", (quaternions, square), apply=lambda q, x: Rotation.from_quat(q).apply(x))
_calls(
    "spatial",
    (quaternions, quaternions[::-1].copy()),
    product=lambda p, q: (Rotation.from_quat(p) * Rotation.from_quat(q)).as_matrix(),
)
_by_name(vq, "whiten", matrix)
_by_name(signal, "fftconvolve oaconvolve", wave, kernel)
_calls(
    "signal",
    (wave, kernel),
    convolve=lambda x, h: signal.convolve(x, h, method="direct"),
    correlate=lambda x, h: signal.correlate(x, h, method="fft"),
    lfilter=lambda x, b: signal.lfilter(b, 1.0, x),
    upfirdn=lambda x, h: signal.upfirdn(h, x, 2),
    filtfilt=lambda x, b: signal.filtfilt(b, _like(x, [1.0, 0.1]), x, padlen=2),
)
_calls(
    "signal",
    (wave,),
    detrend=signal.detrend,
    detrend_constant=lambda x: signal.detrend(x, type="constant"),
    hilbert=lambda x: signal.hilbert(x).imag,
    resample=lambda x: signal.resample(x, 6),
    resample_poly=lambda x: signal.resample_poly(x, 2, 1),
    savgol_filter=lambda x: signal.savgol_filter(x, 5, 2),
    sosfilt=lambda x: signal.sosfilt(_like(x, [[1.0, 0.5, 0.2, 1.0, 0.1, 0.05]]), x),
    vectorstrength=lambda x: signal.vectorstrength(x, 0.7)[0],
    wiener=lambda x: signal.wiener(x, 3),
    gauss_spline=lambda x: signal.gauss_spline(x, 3),
    cspline1d=signal.cspline1d,
    deconvolve=lambda x: signal.deconvolve(x, _like(x, [1.0, 0.2]))[0],
)
_calls(
    "signal",
    (kernel,),
    freqz=lambda b: signal.freqz(b, 1.0, 8)[1].real,
    freqs=lambda b: signal.freqs(b, _like(b, [1.0, 2.0]), _like(b, [0.1, 0.5]))[1].real,
    bilinear=lambda b: signal.bilinear(b[:2], _like(b, [1.0, 2.0]))[0],
    zpk2tf=lambda z: signal.zpk2tf(z, z * 0.5, 2.0)[0],
    normalize=lambda b: signal.normalize(b, b[1:] * 2 + 1)[0],
    lp2lp=lambda b: signal.lp2lp(b, b + 2, 2.0)[0],
)
_calls("signal", (matrix,), hilbert2=lambda x: signal.hilbert2(x).real)
_by_name(ndimage, "laplace sobel spline_filter", matrix)
for _name, _value in {
    "gaussian_filter": 1.0, "uniform_filter": 3, "maximum_filter": 3, "median_filter": 3, "zoom": 2.0,
    "shift": 0.5, "rotate": 30.0,
}.items():  # fmt: skip
    CALLS[f"ndimage.{_name}"] = partial(_of_second, getattr(ndimage, _name), _value), (matrix,)
_by_name(ndimage, "convolve", matrix, square)
_calls(
    "interpolate",
    (wave,),
    PchipInterpolator=lambda y: interpolate.PchipInterpolator(_like(y, np.arange(8.0)), y)(
        _like(y, [0.3, 1.7])
    ),
    CubicSpline=lambda y: interpolate.CubicSpline(_like(y, np.arange(8.0)), y)(_like(y, [0.3, 1.7])),
    RegularGridInterpolator=lambda y: interpolate.RegularGridInterpolator((_like(y, np.arange(8.0)),), y)(
        _like(y, [[0.3], [1.7]])
    ),
)


def _differences(function: Callable[..., Any], args: Sequence[Any], k: int, weights: Any) -> Any:
    """The derivative of the weighed entries of the result in argument k."""

    def along(index: tuple[int, ...], step: float) -> Any:
        moved = args[k].copy()
        moved[index] += step
        return np.sum(np.real(np.asarray(function(*args[:k], moved, *args[k + 1 :]))) * weights)

    h, found = 1e-6, np.zeros_like(args[k])
    for index in np.ndindex(*found.shape):
        found[index] = (along(index, h) - along(index, -h)) / (2 * h)
    return found


def ending(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """How a call on tensors that track gradients ends: "right", or what is wrong."""
    expected = np.asarray(function(*args))
    tensors = [iv.asarray(a.copy(), requires_grad=True) for a in args]
    try:
        result = function(*tensors)
    except iv.errors.IversonError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    if not isinstance(result, iv.Tensor) or not result.requires_grad:
        return f"cut: a {type(result).__name__}"
    if not np.allclose(result.detach().numpy(), expected, rtol=1e-8, atol=1e-10):
        return "another value"
    weights = rng.normal(size=expected.shape)
    grads = iv.autograd.grad((iv.real(result) * weights).sum(), tensors)
    compare = partial(np.allclose, rtol=1e-4, atol=1e-5)
    right = [compare(g.numpy(), _differences(function, args, k, weights)) for k, g in enumerate(grads)]
    return "right" if all(right) else "another derivative"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: ending(*call) for name, call in CALLS.items()}))
