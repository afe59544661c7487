"""Filters of images of any rank, as in `scipy.ndimage`: weighted windows, and order statistics of windows.

Entries beyond the edges are read from inside by a map of indices, so an image is padded by gathering, whose
derivative adds up. Filters that are products of filters along axes go axis by axis. SciPy's ``output`` is
left out, and arguments that follow it are passed by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np

import iverson as iv
from iverson import te
from iverson.array_api.conventions.operands import as_inexact, as_operand, as_plain, as_real, check_kind
from iverson.core.errors import ArgumentError, ShapeError
from iverson.core.protocols import NDArray
from iverson.core.shapes import as_int, check_choice, normalize_axes, normalize_axis
from iverson.handles import Tensor
from iverson.interop.scipy.by_matrix import image_transforms
from iverson.interop.scipy.by_matrix.image_transforms import *  # noqa: F403
from iverson.interop.scipy.by_matrix.linear_maps import Setting
from iverson.ops import F

if TYPE_CHECKING:
    import numpy.typing as npt

    from iverson.handles.typing import ArrayLike, Axes, Real

T = TypeVar("T")
#: One value for all axes, or one for each.
Each: TypeAlias = T | Sequence[T] | NDArray


class _GaussianOptions(TypedDict, total=False):
    """Options of `gaussian_filter` that functions built on it take and pass on."""

    truncate: float
    radius: Each[int | None]
    axes: Axes


#: NumPy's names of the modes of SciPy.
_MODES = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge",
    "wrap": "wrap", "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}  # fmt: skip


@te.op(name="scipy.correlation")
def correlation(x: te.Tensor, w: te.Tensor) -> te.Compute:
    """Sum of ``w`` times the entries of each window of the shape of ``w``, for windows that are inside of
    ``x``.
    """
    shape = tuple(n - m + 1 for n, m in zip(x.shape, w.shape, strict=True))
    k = [te.reduce_axis((0, m)) for m in w.shape]
    return te.compute(
        shape, lambda *i: te.sum(x[tuple(map(sum, zip(i, k, strict=True)))] * w[tuple(k)], axis=k)
    )


def _image(x: ArrayLike, operation: str, kinds: str = "fc") -> Tensor:
    image: Tensor = F.to_dense(as_real(x, operation, "input", kinds))
    return image


def _per_axis(value: Each[T], count: int, operation: str, argument: str) -> list[T]:
    """Values of an argument for each axis, from one value for all axes or a sequence."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return [value] * count
    if len(value) != count:
        raise ShapeError(
            operation, argument, got=f"{len(value)} of them", expected=f"one, or one for each of {count} axes"
        )
    return list(value)


def _around(x: Tensor, axis: int, before: int, after: int, mode: str, cval: float, operation: str) -> Tensor:
    """Array ``x`` extended along ``axis`` by ``before`` and ``after`` entries, which ``mode`` computes from
    it.

    cval : the entry beyond the ends for the mode "constant".
    """
    check_choice(mode, tuple(_MODES), operation, "mode")
    if not (before or after) or not x.shape[axis]:
        return x
    if _MODES[mode] == "constant":
        widths = [(before, after) if k == axis else (0, 0) for k in range(x.ndim)]
        return iv.pad(x, widths, constant_values=cval)
    at = np.pad(np.arange(x.shape[axis]), (before, after), mode=_MODES[mode])  # type: ignore[call-overload]
    return iv.take(x, at, axis=axis)


def _reach(size: int, origin: int, operation: str) -> tuple[int, int]:
    """Number of entries of a window before and after its position, for a window of ``size`` shifted by
    ``origin``.
    """
    shift = as_int(origin, operation, "origin")
    before = size // 2 + shift
    if not 0 <= before < size:
        raise ArgumentError(
            operation, "origin", got=str(origin), expected=f"a shift within the window of {size} entries"
        )
    return before, size - 1 - before


def _correlated(
    name: str,
    x: Tensor,
    weights: Tensor,
    axes: Sequence[int],
    modes: list[str],
    cval: float,
    origins: list[int],
) -> Tensor:
    """Correlation of ``x`` with ``weights`` along ``axes``, of the shape of ``x``.

    weights : has an axis for each of ``axes``, in this order. name : the operation, for errors.
    """
    if not x.size:
        return x
    for k, axis in enumerate(axes):
        x = _around(x, axis, *_reach(weights.shape[k], origins[k], name), modes[k], cval, name)
    shape = [1] * x.ndim
    for k, axis in enumerate(axes):
        shape[axis] = weights.shape[k]
    transposed = iv.permute_dims(weights, tuple(np.argsort(axes).tolist()))
    return correlation(x, iv.reshape(transposed, tuple(shape)))


def _weights(weights: ArrayLike, operation: str, count: int, x: Tensor) -> Tensor:
    numbers = as_inexact(as_plain(weights, operation, "weights"), operation, "weights")
    if numbers.ndim != count or not numbers.size:
        raise ShapeError(
            operation, "weights", got=f"shape {numbers.shape}", expected=f"{count} axes, none empty"
        )
    return iv.astype(numbers, x.dtype) if x.dtype.kind == numbers.dtype.kind == "f" else numbers


def correlate(
    input: ArrayLike,
    weights: ArrayLike,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
    axes: Axes = None,
) -> Tensor:
    """The sums of weights times the entries in a window around each entry.

    Parameters
    ----------
    input : an image of any rank, real or complex; integers become float64.
    weights : an array with an axis for each of ``axes``.
    mode : what is beyond the edges, one or one for each axis: "reflect" (the image mirrored beside its edge),
        "mirror" (at the entry of the edge), "nearest", "wrap" or "constant", and SciPy's further names.
    cval : of what is beyond, in the mode "constant".
    origin : by how much windows are shifted, one or one for each axis.
    axes : the axes that windows extend along; None for all.

    Differentiable in the image and in the weights. Raises ShapeError and ArgumentError for arguments that do
    not fit.

    >>> correlate(iv.asarray([1., 2., 4.]), iv.asarray([-1., 0., 1.]))
    iverson.Tensor([1., 3., 2.])
    """
    x = _image(input, "correlate")
    axis_numbers = normalize_axes(axes, x.ndim, "correlate")
    w = _weights(weights, "correlate", len(axis_numbers), x)
    modes: list[str] = _per_axis(mode, len(axis_numbers), "correlate", "mode")
    return _correlated(
        "correlate",
        x,
        w,
        axis_numbers,
        modes,
        cval,
        _per_axis(origin, len(axis_numbers), "correlate", "origin"),
    )


def convolve(
    input: ArrayLike,
    weights: ArrayLike,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
    axes: Axes = None,
) -> Tensor:
    """Convolution with weights: see `correlate`; the weights are reversed along each axis.

    >>> convolve(iv.asarray([1., 2., 4.]), iv.asarray([-1., 0., 1.]))
    iverson.Tensor([-1., -3., -2.])
    """
    x = _image(input, "convolve")
    axis_numbers = normalize_axes(axes, x.ndim, "convolve")
    w = _weights(weights, "convolve", len(axis_numbers), x)
    modes: list[str] = _per_axis(mode, len(axis_numbers), "convolve", "mode")
    shifts = _per_axis(origin, len(axis_numbers), "convolve", "origin")
    mirrored_origins = [
        -as_int(o, "convolve", "origin") - (n % 2 == 0) for o, n in zip(shifts, w.shape, strict=True)
    ]
    return _correlated("convolve", x, iv.flip(w), axis_numbers, modes, cval, mirrored_origins)


def correlate1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """`correlate` with a vector along an axis.

    >>> correlate1d(iv.asarray([1., 2., 4.]), iv.asarray([1., 1., 1.]), mode="constant")
    iverson.Tensor([3., 7., 6.])
    """
    return correlate(input, weights, mode=mode, cval=cval, origin=origin, axes=(axis,))


def convolve1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """`convolve` with a vector along an axis.

    >>> convolve1d(iv.asarray([1., 0., 0.]), iv.asarray([1., 2., 3.]), mode="constant")
    iverson.Tensor([2., 3., 0.])
    """
    return convolve(input, weights, mode=mode, cval=cval, origin=origin, axes=(axis,))


def _along_axes(
    name: str,
    input: ArrayLike,
    axes: Axes,
    mode: Each[str],
    filter_axis: Callable[..., Tensor],
    *settings: tuple[str, Each[Tensor | Real | None]],
) -> Tensor:
    """Result of ``filter_axis`` applied along one axis after the other.

    settings : pairs of an argument's name and its value, one value for all axes or a sequence with one for
        each.
    """
    x = _image(input, name)
    axis_numbers = normalize_axes(axes, x.ndim, name)
    modes: list[str] = _per_axis(mode, len(axis_numbers), name, "mode")
    values_by_axis = [_per_axis(value, len(axis_numbers), name, argument) for argument, value in settings]
    for k, axis in enumerate(axis_numbers):
        x = filter_axis(x, axis, modes[k], *(values[k] for values in values_by_axis))
    return x


def uniform_filter1d(
    input: ArrayLike, size: int, axis: int = -1, *, mode: str = "reflect", cval: float = 0.0, origin: int = 0
) -> Tensor:
    """The means of windows along an axis.

    >>> uniform_filter1d(iv.asarray([3., 0., 0., 6.]), 3)
    iverson.Tensor([2., 1., 2., 4.])
    """
    extent = as_int(size, "uniform_filter1d", "size")
    if extent < 1:
        raise ArgumentError("uniform_filter1d", "size", got=str(size), expected="at least 1")
    return correlate1d(input, np.full(extent, 1 / extent), axis, mode=mode, cval=cval, origin=origin)


def uniform_filter(
    input: ArrayLike,
    size: Each[int] = 3,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
    axes: Axes = None,
) -> Tensor:
    """The means of windows, of one size or one for each axis.

    >>> uniform_filter(iv.asarray([[4., 0.], [0., 0.]]), 2)
    iverson.Tensor([[4., 2.],
                    [2., 1.]])
    """
    return _along_axes(
        "uniform_filter", input, axes, mode,
        lambda x, axis, m, n, o: x if n == 1 else uniform_filter1d(x, n, axis, mode=m, cval=cval, origin=o),
        ("size", size), ("origin", origin),
    )  # fmt: skip


def gaussian_filter1d(
    input: ArrayLike,
    sigma: Tensor | Real,
    axis: int = -1,
    order: int = 0,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: int | None = None,
) -> Tensor:
    """A normal density, or its derivative of some order, convolved along an axis.

    ``sigma`` is its deviation, in entries: a number, or a tensor of rank 0 in which the result is
    differentiable, with the ``radius`` of windows held. Raises ArgumentError for a radius or order below 0.

    >>> gaussian_filter1d(iv.asarray([0., 0., 1., 0., 0.]), 0.5, radius=1).round(decimals=3)
    iverson.Tensor([0.   , 0.107, 0.787, 0.107, 0.   ])
    """
    deviation = as_operand(sigma, "gaussian_filter1d", "sigma")
    check_kind(deviation, "iuf", "gaussian_filter1d", "sigma")
    if radius is None:
        radius = int(
            float(truncate) * float(deviation.detach() if hasattr(deviation, "detach") else deviation) + 0.5
        )
    reach, derivative = (
        as_int(radius, "gaussian_filter1d", "radius"),
        as_int(order, "gaussian_filter1d", "order"),
    )
    for value, argument in ((reach, "radius"), (derivative, "order")):
        if value < 0:
            raise ArgumentError("gaussian_filter1d", argument, got=str(value), expected="at least 0")
    t = np.arange(-reach, reach + 1.0)
    variance = deviation * deviation
    density = iv.exp(-0.5 * t * t / variance)
    weights = density / density.sum()
    # The derivatives of the density are it times polynomials q: q' - q t / variance is the next.
    coefficients: list[Any] = [1.0]
    for _ in range(derivative):
        raised = [0.0, *(c * (-1 / variance) for c in coefficients)]
        lower_terms = [(k + 1) * c for k, c in enumerate(coefficients[1:])]
        coefficients = [a + b for a, b in zip(raised, [*lower_terms, 0.0, 0.0], strict=False)]
    polynomial: Any = 0.0
    for k, c in enumerate(coefficients):
        polynomial = polynomial + c * t**k
    # Weights of correlation are those of convolution read backwards.
    return correlate1d(input, iv.flip(weights * polynomial), axis, mode=mode, cval=cval)


def gaussian_filter(
    input: ArrayLike,
    sigma: Each[Tensor | Real],
    order: Each[int] = 0,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: Each[int | None] = None,
    axes: Axes = None,
) -> Tensor:
    """`gaussian_filter1d` along one axis after the other; sigma, order, mode and radius may differ.

    >>> image = iv.asarray([[0., 0.], [1., 0.]])
    >>> gaussian_filter(image, 0.3, radius=1).round(decimals=3)
    iverson.Tensor([[0.004, 0.   ],
                    [0.992, 0.004]])
    """

    def one(x: Tensor, axis: int, m: str, s: Tensor | Real, o: int, r: int | None) -> Tensor:
        small = not hasattr(s, "requires_grad") and s <= 1e-15
        return (
            x if small else gaussian_filter1d(x, s, axis, o, mode=m, cval=cval, truncate=truncate, radius=r)
        )

    return _along_axes(
        "gaussian_filter", input, axes, mode, one, ("sigma", sigma), ("order", order), ("radius", radius)
    )


def _slope(
    name: str, weights: list[float], input: ArrayLike, axis: int, mode: Each[str], cval: float
) -> Tensor:
    """Differences along ``axis``, smoothed by ``weights`` along the other axes."""
    x = _image(input, name)
    along = normalize_axis(axis, x.ndim, name)
    modes: list[str] = _per_axis(mode, x.ndim, name, "mode")
    x = correlate1d(x, np.array([-1.0, 0.0, 1.0]), along, mode=modes[along], cval=cval)
    for k in range(x.ndim):
        if k != along:
            x = correlate1d(x, np.array(weights), k, mode=modes[k], cval=cval)
    return x


def sobel(input: ArrayLike, axis: int = -1, *, mode: Each[str] = "reflect", cval: float = 0.0) -> Tensor:
    """Sobel's filter: differences along an axis, weighed 1, 2, 1 along the others.

    >>> sobel(iv.asarray([[0., 1., 3.]]))
    iverson.Tensor([[ 4., 12.,  8.]])
    """
    return _slope("sobel", [1.0, 2.0, 1.0], input, axis, mode, cval)


def prewitt(input: ArrayLike, axis: int = -1, *, mode: Each[str] = "reflect", cval: float = 0.0) -> Tensor:
    """Prewitt's filter: differences along an axis, summed along the others.

    >>> prewitt(iv.asarray([[0., 1., 3.]]))
    iverson.Tensor([[3., 9., 6.]])
    """
    return _slope("prewitt", [1.0, 1.0, 1.0], input, axis, mode, cval)


def laplace(input: ArrayLike, *, mode: Each[str] = "reflect", cval: float = 0.0, axes: Axes = None) -> Tensor:
    """The sum of second differences along axes.

    >>> laplace(iv.asarray([0., 1., 4.]))
    iverson.Tensor([ 1.,  2., -3.])
    """
    x = _image(input, "laplace")
    axis_numbers = normalize_axes(axes, x.ndim, "laplace")
    modes: list[str] = _per_axis(mode, len(axis_numbers), "laplace", "mode")
    parts = [
        correlate1d(x, np.array([1.0, -2.0, 1.0]), axis, mode=m, cval=cval)
        for axis, m in zip(axis_numbers, modes, strict=True)
    ]
    return sum(parts[1:], parts[0]) if parts else x


def gaussian_laplace(
    input: ArrayLike,
    sigma: Each[Tensor | Real],
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    **options: Unpack[_GaussianOptions],
) -> Tensor:
    """The sum of second derivatives of normal densities along axes; options are of `gaussian_filter`.

    >>> gaussian_laplace(iv.asarray([0., 0., 1., 0., 0.]), 1.0, radius=1).round(decimals=3)
    iverson.Tensor([ 0.   ,  0.   , -0.452,  0.   ,  0.   ])
    """
    parts = _gaussian_slopes("gaussian_laplace", input, sigma, 2, mode, cval, options)
    return sum(parts[1:], parts[0])


def gaussian_gradient_magnitude(
    input: ArrayLike,
    sigma: Each[Tensor | Real],
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    **options: Unpack[_GaussianOptions],
) -> Tensor:
    """The length of the gradient by derivatives of normal densities; options are of `gaussian_filter`.

    Its derivative is 0 where the gradient is.

    >>> gaussian_gradient_magnitude(iv.asarray([0., 0., 1., 0., 0.]), 1.0, radius=1).round(decimals=3)
    iverson.Tensor([0.   , 0.274, 0.   , 0.274, 0.   ])
    """
    parts = _gaussian_slopes("gaussian_gradient_magnitude", input, sigma, 1, mode, cval, options)
    return iv.linalg.vector_norm(iv.stack(parts), axis=0)


def _gaussian_slopes(
    name: str,
    input: ArrayLike,
    sigma: Each[Tensor | Real],
    order: int,
    mode: Each[str],
    cval: float,
    options: _GaussianOptions,
) -> list[Tensor]:
    """List with, for each axis, the Gaussian filter whose derivative of ``order`` is along this axis."""
    x = _image(input, name, "f")
    if not x.ndim:
        raise ShapeError(name, "input", got="rank 0", expected="at least one axis")
    return [
        gaussian_filter(
            x, sigma, [order * (k == axis) for k in range(x.ndim)], mode=mode, cval=cval, **options
        )
        for axis in range(x.ndim)
    ]


# --- what is chosen in windows ----------------------------------------------------------------------


def _windows(
    name: str,
    input: ArrayLike,
    size: Each[int] | None,
    footprint: npt.ArrayLike | None,
    mode: Each[str],
    cval: float,
    origin: Each[int],
) -> Tensor:
    """Entries of each window along a new last axis: those for which ``footprint`` is true, or all of
    ``size``.
    """
    x = _image(input, name, "f")
    if (size is None) == (footprint is None):
        raise ArgumentError(name, "size", got="both or none", expected="either size or footprint")
    if footprint is None:
        sizes = [as_int(n, name, "size") for n in _per_axis(size, x.ndim, name, "size")]
        if any(n < 1 for n in sizes):
            raise ArgumentError(name, "size", got=str(size), expected="at least 1")
        window = np.ones(sizes, bool)
    else:
        window = np.asarray(footprint).astype(bool)
        if window.ndim != x.ndim or not window.any():
            raise ShapeError(
                name, "footprint", got=f"shape {window.shape}", expected=f"{x.ndim} axes, and a true entry"
            )
    origins, shape = _per_axis(origin, x.ndim, name, "origin"), x.shape
    if not x.size:
        return iv.reshape(x, (*shape, 1))
    modes: list[str] = _per_axis(mode, x.ndim, name, "mode")
    for k in range(x.ndim):
        x = _around(x, k, *_reach(window.shape[k], origins[k], name), modes[k], cval, name)
    parts: list[Tensor] = [
        F.index_basic(x, key=tuple(slice(a, a + n, 1) for a, n in zip(at, shape, strict=True)))
        for at in np.argwhere(window).tolist()
    ]
    return iv.stack(parts, axis=-1)


def maximum_filter(
    input: ArrayLike,
    size: Each[int] | None = None,
    footprint: npt.ArrayLike | None = None,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
) -> Tensor:
    """The largest entry in a window; equal ones share the derivative.

    >>> maximum_filter(iv.asarray([1., 3., 2., 0.]), 3)
    iverson.Tensor([3., 3., 3., 2.])
    """
    return iv.max(_windows("maximum_filter", input, size, footprint, mode, cval, origin), axis=-1)


def minimum_filter(
    input: ArrayLike,
    size: Each[int] | None = None,
    footprint: npt.ArrayLike | None = None,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
) -> Tensor:
    """The smallest entry in a window; equal ones share the derivative.

    >>> minimum_filter(iv.asarray([1., 3., 2., 0.]), 3)
    iverson.Tensor([1., 1., 0., 0.])
    """
    return iv.min(_windows("minimum_filter", input, size, footprint, mode, cval, origin), axis=-1)


def rank_filter(
    input: ArrayLike,
    rank: int,
    size: Each[int] | None = None,
    footprint: npt.ArrayLike | None = None,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
) -> Tensor:
    """The entry of a rank in the order of each window, counted from the largest where it is negative.

    Raises ArgumentError for a rank that windows do not have.

    >>> rank_filter(iv.asarray([1., 3., 2., 0.]), -1, 3)
    iverson.Tensor([3., 3., 3., 2.])
    """
    windows = _windows("rank_filter", input, size, footprint, mode, cval, origin)
    return _ranked("rank_filter", windows, as_int(rank, "rank_filter", "rank"))


def _ranked(name: str, windows: Tensor, rank: int) -> Tensor:
    count = windows.shape[-1]
    if not windows.size:
        return iv.reshape(windows, windows.shape[:-1])
    if not -count <= rank < count:
        raise ArgumentError(name, "rank", got=str(rank), expected=f"a rank of {count} entries")
    return iv.sort(windows, axis=-1)[..., rank]


def median_filter(
    input: ArrayLike,
    size: Each[int] | None = None,
    footprint: npt.ArrayLike | None = None,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
) -> Tensor:
    """The entry in the middle of the order of each window, the larger one of two.

    >>> median_filter(iv.asarray([1., 9., 2., 3.]), 3)
    iverson.Tensor([1., 2., 3., 3.])
    """
    windows = _windows("median_filter", input, size, footprint, mode, cval, origin)
    return _ranked("median_filter", windows, windows.shape[-1] // 2)


def percentile_filter(
    input: ArrayLike,
    percentile: float,
    size: Each[int] | None = None,
    footprint: npt.ArrayLike | None = None,
    *,
    mode: Each[str] = "reflect",
    cval: float = 0.0,
    origin: Each[int] = 0,
) -> Tensor:
    """The entry at a percentile of the order of each window, from the end where it is negative.

    Raises ArgumentError for a percentile beyond 100.

    >>> percentile_filter(iv.asarray([1., 9., 2., 3.]), 20, 3)
    iverson.Tensor([1., 1., 2., 2.])
    """
    windows = _windows("percentile_filter", input, size, footprint, mode, cval, origin)
    share = percentile + 100 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise ArgumentError("percentile_filter", "percentile", got=str(percentile), expected="-100 to 100")
    count = windows.shape[-1]
    return _ranked("percentile_filter", windows, count - 1 if share == 100 else int(count * share / 100))


def __getattr__(name: str) -> Any:  # a function of this name here would hide Python's
    if name == "sum":
        return image_transforms.sum_labels
    raise AttributeError(f"module 'iverson.interop.scipy.ndimage' has no attribute '{name}'")


def _along(filter_: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    """A filter of windows along one axis."""

    def call(input: ArrayLike, size: int, axis: int = -1, **options: Setting) -> Tensor:
        x = iv.asarray(input)
        sizes = [size if k == normalize_axis(axis, x.ndim, name) else 1 for k in range(x.ndim)]
        return filter_(x, sizes, **options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`scipy.ndimage.{name}`: along one axis."
    return call


maximum_filter1d = _along(maximum_filter, "maximum_filter1d")
minimum_filter1d = _along(minimum_filter, "minimum_filter1d")

# --- morphology of grey images ------------------------------------------------------


def grey_erosion(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The smallest entry of each window."""
    return minimum_filter(input, size, footprint, **options)


def grey_dilation(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The largest entry of each window, that of a mirrored footprint."""
    if footprint is not None:
        footprint = np.flip(np.asarray(footprint))
    return maximum_filter(input, size, footprint, **options)


def grey_opening(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The dilation of the erosion."""
    return grey_dilation(grey_erosion(input, size, footprint, **options), size, footprint, **options)


def grey_closing(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The erosion of the dilation."""
    return grey_erosion(grey_dilation(input, size, footprint, **options), size, footprint, **options)


def white_tophat(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The image less its opening."""
    return iv.asarray(input) - grey_opening(input, size, footprint, **options)


def black_tophat(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The closing of the image less the image."""
    return grey_closing(input, size, footprint, **options) - iv.asarray(input)


def morphological_gradient(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The dilation less the erosion."""
    return grey_dilation(input, size, footprint, **options) - grey_erosion(input, size, footprint, **options)


def morphological_laplace(
    input: ArrayLike, size: Setting = None, footprint: Setting = None, **options: Setting
) -> Tensor:
    """The dilation and the erosion less twice the image."""
    extremes = grey_dilation(input, size, footprint, **options) + grey_erosion(
        input, size, footprint, **options
    )
    return extremes - 2 * iv.asarray(input)


__all__ = [  # noqa: PLE0604
    "grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "white_tophat", "black_tophat",
    "morphological_gradient", "morphological_laplace", "sum", *image_transforms.__all__,
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "maximum_filter",
    "maximum_filter1d", "minimum_filter1d", "median_filter", "minimum_filter", "percentile_filter",
    "prewitt", "rank_filter", "sobel", "uniform_filter", "uniform_filter1d",
]  # fmt: skip
