"""Calls of `scipy.signal`, `scipy.ndimage` and `scipy.fft`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.probe.table import calls, like, names, rng, without_floats

wave, kernel, image = rng.normal(size=24), rng.normal(size=3), rng.normal(size=(7, 8))
square, positive = rng.normal(size=(3, 3)), rng.uniform(0.5, 1.5, 24)
times, weights = np.linspace(0.1, 3.0, 24), np.array([1.0, 0.3])
sos = np.array([[1.0, 0.5, 0.2, 1.0, 0.1, 0.05]])
num, den = np.array([1.0, 0.5]), np.array([1.0, 0.6, 0.3])
state = (
    np.array([[-0.5, 0.1], [0.2, -0.7]]), np.array([[1.0], [0.5]]), np.array([[1.0, 0.3]]), np.array([[0.2]]),
)  # fmt: skip

_P = "signal"


def _joined(b: Any) -> Any:
    import iverson as iv

    return iv.concat([b, iv.asarray(den)])[None]


names(_P, "convolve correlate fftconvolve oaconvolve", wave, kernel)
names(_P, "convolve2d correlate2d", image, square)
names(_P, "sepfir2d", image, kernel, kernel[::-1].copy())
names(
    _P,
    "detrend hilbert cspline1d qspline1d periodogram medfilt find_peaks argrelmax argrelmin square "
    "sawtooth gausspulse",
    wave,
)
names(_P, "hilbert2 medfilt2d", image)
names(_P, "cspline2d qspline2d", rng.normal(size=(24, 25)))
calls(
    _P,
    wave,
    wiener=lambda f, x: f(x, 3),
    welch=lambda f, x: f(x, nperseg=8),
    spectrogram=lambda f, x: f(x, nperseg=8),
    stft=lambda f, x: f(x, nperseg=8),
    envelope=lambda f, x: f(x),
    resample=lambda f, x: f(x, 10),
    resample_poly=lambda f, x: f(x, 2, 3),
    decimate=lambda f, x: f(x, 2, n=2),
    savgol_filter=lambda f, x: f(x, 5, 2),
    upfirdn=lambda f, x: f(kernel, x, 2),
    gauss_spline=lambda f, x: f(x, 3),
    order_filter=lambda f, x: f(x, np.ones(3), 1),
    vectorstrength=lambda f, x: f(x, 0.7),
    czt=lambda f, x: f(x, 5),
    zoom_fft=lambda f, x: f(x, 0.5, 5),
    CZT=lambda f, x: f(24, 5)(x),
    ZoomFFT=lambda f, x: f(24, 0.5, 5)(x),
    ShortTimeFFT=lambda f, x: f(np.ones(4), 2, 1.0).stft(x),
    sosfilt=lambda f, x: f(sos, x),
    sosfiltfilt=lambda f, x: f(sos, x, padlen=3),
    cspline1d_eval=lambda f, x: f(x, np.array([0.3, 1.7])),
    qspline1d_eval=lambda f, x: f(x, np.array([0.3, 1.7])),
    symiirorder1=lambda f, x: f(x, 0.5, 0.3),
    symiirorder2=lambda f, x: f(x, 0.2, 0.3),
    chirp=lambda f, x: f(x, 1.0, 2.0, 3.0),
    sweep_poly=lambda f, x: f(x, np.poly1d([1.0, 2.0])),
    find_peaks_cwt=lambda f, x: f(x, np.arange(1, 4)),
    argrelextrema=lambda f, x: f(x, np.greater),
    peak_prominences=lambda f, x: f(x, np.array([int(np.argmax(wave[1:-1])) + 1]))[0],
    peak_widths=lambda f, x: f(x, np.array([int(np.argmax(wave[1:-1])) + 1]))[0],
    istft=lambda f, x: f(x.reshape((3, 8)) + 0j, nperseg=4),
    dlsim=lambda f, x: f((num, den, 1.0), x),
    lsim=lambda f, x: f((num, den), x, times),
)
calls(_P, image, minimum_phase=lambda f, x: f(like(x, [1.0, 0.4, 0.2, 0.1]) * x[0, 0] ** 2))
names(_P, "csd coherence", wave, wave[::-1].copy(), nperseg=8)
calls(_P, times, wave, positive, lombscargle=lambda f, t, y, w: f(t, y, w))
calls(
    _P,
    wave,
    kernel,
    lfilter=lambda f, x, b: f(b, like(x, den), x),
    filtfilt=lambda f, x, b: f(b, like(x, den), x, padlen=3),
    deconvolve=lambda f, x, b: f(x, like(x, [1.0, 0.3]))[0],
    correlation_lags=lambda f, x, b: f(24, 3),
)
calls(
    _P,
    num,
    den,
    lfilter_zi=lambda f, b, a: f(b, a),
    lfiltic=lambda f, b, a: f(b, 2 * a, np.array([0.3, 0.2])),
    freqz=lambda f, b, a: f(b, a, 8)[1],
    freqs=lambda f, b, a: f(b, a, like(b, [0.1, 0.5]))[1],
    group_delay=lambda f, b, a: f((b, a), 8)[1],
    bilinear=lambda f, b, a: f(b, a),
    normalize=lambda f, b, a: f(b, a),
    lp2lp=lambda f, b, a: f(b, a, 2.0),
    lp2hp=lambda f, b, a: f(b, a, 2.0),
    lp2bp=lambda f, b, a: f(b, a, 2.0, 0.5),
    lp2bs=lambda f, b, a: f(b, a, 2.0, 0.5),
    tf2ss=lambda f, b, a: f(b, a),
    tf2zpk=lambda f, b, a: f(b, a),
    tf2sos=lambda f, b, a: f(b, a),
    residue=lambda f, b, a: f(b, a),
    residuez=lambda f, b, a: f(b, a),
    impulse=lambda f, b, a: f((b, a), N=6),
    step=lambda f, b, a: f((b, a), N=6),
    dimpulse=lambda f, b, a: f((b, a, 1.0), n=5)[1][0],
    dstep=lambda f, b, a: f((b, a, 1.0), n=5)[1][0],
    bode=lambda f, b, a: f((b, a), w=[0.1, 0.5]),
    dbode=lambda f, b, a: f((b, a, 1.0), w=[0.1, 0.5]),
    freqresp=lambda f, b, a: f((b, a), w=[0.1, 0.5]),
    dfreqresp=lambda f, b, a: f((b, a, 1.0), w=[0.1, 0.5]),
    TransferFunction=lambda f, b, a: f(b, a).num,
    lti=lambda f, b, a: f(b, a).num,
    dlti=lambda f, b, a: f(b, a).num,
    findfreqs=lambda f, b, a: f(b, a, 5),
)
calls(
    _P,
    den[1:],
    num + 1,
    zpk2tf=lambda f, z, p: f(z, p, 2.0),
    zpk2ss=lambda f, z, p: f(z, p, 2.0),
    zpk2sos=lambda f, z, p: f(z, p, 2.0),
    freqz_zpk=lambda f, z, p: f(z, p / 4, 2.0, 8)[1],
    freqs_zpk=lambda f, z, p: f(z, p, 2.0, like(z, [0.1, 0.5]))[1],
    bilinear_zpk=lambda f, z, p: f(z, -p, 2.0, 1.0),
    lp2lp_zpk=lambda f, z, p: f(z, p, 2.0, 1.5),
    lp2hp_zpk=lambda f, z, p: f(z, p, 2.0, 1.5),
    lp2bp_zpk=lambda f, z, p: f(z, p, 2.0, 1.5, 0.5),
    lp2bs_zpk=lambda f, z, p: f(z, p, 2.0, 1.5, 0.5),
    ZerosPolesGain=lambda f, z, p: f(z, p, 2.0).zeros,
    invres=lambda f, r, p: f(r, p, like(r, [1.0])),
    invresz=lambda f, r, p: f(r, p, like(r, [1.0])),
    unique_roots=lambda f, z, p: f(z),
)
calls(
    _P,
    np.array([1.0, 0.5, 0.2]),
    **{
        name: (
            lambda f, b, more=more: f(
                np.concatenate([b, den])[None] if isinstance(b, np.ndarray) else _joined(b), *more
            )
        )
        for name, more in {
            "freqz_sos": (8,),
            "sosfreqz": (8,),
            "sos2tf": (),
            "sos2zpk": (),
            "sosfilt_zi": (),
        }.items()
    },
)
calls(
    _P,
    *state,
    ss2tf=lambda f, a, b, c, d: f(a, b, c, d),
    ss2zpk=lambda f, a, b, c, d: f(a, b, c, d),
    abcd_normalize=lambda f, a, b, c, d: f(a, b, c, d),
    cont2discrete=lambda f, a, b, c, d: f((a, b, c, d), 0.1)[:4],
    StateSpace=lambda f, a, b, c, d: f(a, b, c, d).A,
    place_poles=lambda f, a, b, c, d: f(a, like(a, np.eye(2)), like(a, [-1.0, -2.0])).gain_matrix,
)
calls(_P, np.array([0.3]), firwin=lambda f, c: f(5, c), kaiserord=lambda f, c: f(40.0, c[0]))
calls(_P, np.array([0.2, 0.3]), firwin2=lambda f, c: f(5, [0.0, 0.5, 1.0], [1.0, c[0], 0.0]))
calls(_P, np.array([0.25]), butter=lambda f, w: f(2, w[0]), kaiser_beta=lambda f, a: f(120 * a[0]))
calls(_P, np.array([0.25]), kaiser_atten=lambda f, a: f(7, a[0]), iirnotch=lambda f, w: f(w[0], 2.0))
calls(
    _P,
    np.array([0.25]),
    cheby1=lambda f, w: f(2, 1.0, w[0]),
    cheby2=lambda f, w: f(2, 20.0, w[0]),
    ellip=lambda f, w: f(2, 1.0, 20.0, w[0]),
    bessel=lambda f, w: f(2, w[0]),
    iirfilter=lambda f, w: f(2, w[0], btype="low"),
    iirpeak=lambda f, w: f(w[0], 2.0),
    iircomb=lambda f, w: f(0.25, 8 * w[0]),
    iirdesign=lambda f, w: f(w[0], 0.5, 1.0, 20.0),
    buttord=lambda f, w: f(w[0], 0.5, 1.0, 20.0),
    cheb1ord=lambda f, w: f(w[0], 0.5, 1.0, 20.0),
    cheb2ord=lambda f, w: f(w[0], 0.5, 1.0, 20.0),
    ellipord=lambda f, w: f(w[0], 0.5, 1.0, 20.0),
    gammatone=lambda f, w: f(w[0], "iir"),
    firls=lambda f, w: f(5, [0.0, w[0], 0.5, 1.0], [1.0, 1.0, 0.0, 0.0]),
    remez=lambda f, w: f(5, [0.0, w[0], 0.35, 0.5], [1.0, 0.0]),
)
without_floats(
    _P,
    "BadCoefficients band_stop_obj besselap buttap cheb1ap cheb2ap check_COLA check_NOLA choose_conv_method "
    "closest_STFT_dual_window czt_points ellipap firwin_2d get_window max_len_seq savgol_coeffs "
    "spline_filter "
    "unit_impulse",
)

_N = "ndimage"
names(
    _N,
    "laplace sobel prewitt spline_filter spline_filter1d center_of_mass extrema label maximum "
    "maximum_position mean median minimum minimum_position standard_deviation sum sum_labels variance "
    "distance_transform_bf distance_transform_cdt distance_transform_edt binary_closing "
    "binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss binary_opening",
    np.abs(image) + 0.1,
)
for _name, _value in {
    "gaussian_filter": 1.0, "gaussian_filter1d": 1.0, "uniform_filter": 3, "uniform_filter1d": 3,
    "maximum_filter": 3, "minimum_filter": 3, "maximum_filter1d": 3, "minimum_filter1d": 3,
    "median_filter": 3,
    "zoom": 1.5, "shift": 0.5, "rotate": 30.0, "gaussian_laplace": 1.0, "gaussian_gradient_magnitude": 1.0,
    "grey_closing": 3, "grey_dilation": 3, "grey_erosion": 3, "grey_opening": 3, "black_tophat": 3,
    "white_tophat": 3, "morphological_gradient": 3, "morphological_laplace": 3, "fourier_gaussian": 1.0,
    "fourier_uniform": 3.0, "fourier_ellipsoid": 3.0, "fourier_shift": 0.5,
}.items():  # fmt: skip
    names(_N, _name, image, _value)
names(_N, "convolve correlate", image, square)
names(_N, "convolve1d correlate1d", image, kernel)
calls(
    _N,
    image,
    rank_filter=lambda f, x: f(x, 1, 3),
    percentile_filter=lambda f, x: f(x, 30, 3),
    generic_filter=lambda f, x: f(x, np.mean, 3),
    generic_filter1d=lambda f, x: f(x, lambda a, b: None, 3),
    generic_laplace=lambda f, x: f(x, lambda a, axis, *r: a),
    generic_gradient_magnitude=lambda f, x: f(x, lambda a, axis, *r: a),
    geometric_transform=lambda f, x: f(x, lambda p: (p[0] - 0.5, p[1])),
    affine_transform=lambda f, x: f(x, like(x, [[0.9, 0.1], [-0.1, 1.1]]), 0.2),
    vectorized_filter=lambda f, x: f(x, np.mean, size=3),
    histogram=lambda f, x: f(x, 0, 2, 4),
    labeled_comprehension=lambda f, x: f(x, np.ones((7, 8), int), [1], np.mean, float, 0.0),
    value_indices=lambda f, x: f(x.astype(int) if isinstance(x, np.ndarray) else x),
)
calls(
    _N,
    image,
    np.array([[1.2, 2.7], [3.1, 4.4]]),
    map_coordinates=lambda f, x, c: f(x, c),
)
without_floats(
    _N, "binary_propagation find_objects generate_binary_structure iterate_structure watershed_ift"
)

_F = "fft"
names(_F, "fft ifft rfft irfft hfft ihfft dct idct dst idst fftshift ifftshift", wave)
names(
    _F,
    "fftn ifftn fft2 ifft2 rfftn rfft2 irfftn irfft2 dctn idctn dstn idstn hfftn hfft2 ihfftn ihfft2",
    image,
)
calls(_F, wave, fht=lambda f, x: f(x, 0.1, 0.5), ifht=lambda f, x: f(x, 0.1, 0.5))
without_floats(
    _F,
    "fftfreq rfftfreq next_fast_len prev_fast_len fhtoffset set_backend skip_backend set_global_backend "
    "register_backend get_workers set_workers",
)
