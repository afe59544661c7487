"""The methods of arrays. Written by tools/stubs.py from the tables: do not edit."""

from collections.abc import Sequence
from typing import Any, Literal, Self, SupportsIndex, overload
from iverson.array_api.entries.updates import At
from iverson.array_api.reduction.order_statistics import Extrema
from iverson.array_api.signals.sample_statistics import HistogramResult
from iverson.array_api.reduction.order_statistics import TopK
from iverson.array_api.entries.searching import UniqueAll
from iverson.array_api.entries.searching import UniqueCounts
from iverson.array_api.entries.searching import UniqueInverse

from iverson.masked.tensor import MaskedTensor
from iverson.handles.array import Array
from iverson.handles.tensor import Tensor
from iverson.handles.typing import *

class Methods:
    def abs(self, /) -> Self:
        """The absolute value."""
    def acos(self, /) -> Self:
        """The angle in [0, pi] whose cosine is x."""
    def acosh(self, /) -> Self:
        """The inverse of cosh."""
    @overload
    def add(self, x2: MaskedTensor, /, *, alpha: MaskedTensor | ArrayLike | None = None) -> MaskedTensor:
        """x1 + alpha * x2 (alpha is 1 unless given)."""
    @overload
    def add(self, x2: Self | ArrayLike, /, *, alpha: Self | ArrayLike | None = None) -> Self:
        """x1 + alpha * x2 (alpha is 1 unless given)."""
    def all(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """True where all entries over axes are nonzero, or where there are none."""
    @overload
    def allclose(self, x2: MaskedTensor, /, *, rtol: NonNegative = 1e-05, atol: NonNegative = 1e-08, equal_nan: bool = False) -> MaskedTensor:
        """True if all entries are close, as `isclose` defines it: a bool of rank 0."""
    @overload
    def allclose(self, x2: Self | ArrayLike, /, *, rtol: NonNegative = 1e-05, atol: NonNegative = 1e-08, equal_nan: bool = False) -> Self:
        """True if all entries are close, as `isclose` defines it: a bool of rank 0."""
    def angle(self, /) -> Self:
        """The argument, in (-pi, pi]."""
    def any(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """True where any entry over axes is nonzero; False where there are no entries."""
    def argmax(self, /, axis: Axis | None = None, *, keepdims: bool = False) -> Self:
        """The position of the largest entry (the first of equal ones)."""
    def argmin(self, /, axis: Axis | None = None, *, keepdims: bool = False) -> Self:
        """The position of the smallest entry (the first of equal ones)."""
    def argsort(self, /, *, axis: Axis = -1, descending: bool = False, stable: bool = True) -> Self:
        """The positions that sort x along an axis, as int64; equal entries keep their order if ``stable``."""
    def argwhere(self, /) -> Tensor:
        """The positions of the nonzero entries in row-major order, a row of an int64 matrix for each."""
    def array_split(self, sections: SupportsIndex, /, *, axis: Axis = 0) -> tuple[Self, ...]:
        """x cut along an axis into a number of parts, the first of them one longer where they cannot be equal."""
    def asin(self, /) -> Self:
        """The angle in [-pi/2, pi/2] whose sine is x."""
    def asinh(self, /) -> Self:
        """The inverse of sinh."""
    def astype(self, /, dtype: DTypeLike, *, copy: bool = True, device: Device = None) -> Self:
        """x with its entries converted to ``dtype``; a new tensor unless ``copy=False`` and nothing changes."""
    def atan(self, /) -> Self:
        """The angle in (-pi/2, pi/2) of tangent x."""
    @overload
    def atan2(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The angle of the point (x2, x1), in (-pi, pi]."""
    @overload
    def atan2(self, x2: Self | ArrayLike, /) -> Self:
        """The angle of the point (x2, x1), in (-pi, pi]."""
    def atanh(self, /) -> Self:
        """The inverse of tanh."""
    def atleast_1d(self, /) -> Self:
        """x, with an axis of extent 1 if it has none."""
    def atleast_2d(self, /) -> Self:
        """x, with axes of extent 1 in front until there are two."""
    def atleast_3d(self, /) -> Self:
        """x with at least three axes: a vector is the second of them, and a matrix the first two, as in NumPy."""
    def average(self, /, axis: Axes = None, weights: Self | ArrayLike | None = None) -> Self:
        """The mean with weights, which need not add up to 1."""
    def bfill(self, /, axis: Axis = -1, *, limit: int | None = None) -> Self:
        """The entries with those that are missing taken from the next one after them along an axis."""
    @overload
    def bitwise_and(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The bits set in both."""
    @overload
    def bitwise_and(self, x2: Self | ArrayLike, /) -> Self:
        """The bits set in both."""
    def bitwise_invert(self, /) -> Self:
        """All bits turned over."""
    @overload
    def bitwise_left_shift(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 * 2**x2."""
    @overload
    def bitwise_left_shift(self, x2: Self | ArrayLike, /) -> Self:
        """x1 * 2**x2."""
    @overload
    def bitwise_or(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The bits set in either."""
    @overload
    def bitwise_or(self, x2: Self | ArrayLike, /) -> Self:
        """The bits set in either."""
    @overload
    def bitwise_right_shift(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 / 2**x2, rounded down."""
    @overload
    def bitwise_right_shift(self, x2: Self | ArrayLike, /) -> Self:
        """x1 / 2**x2, rounded down."""
    @overload
    def bitwise_xor(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The bits set in just one."""
    @overload
    def bitwise_xor(self, x2: Self | ArrayLike, /) -> Self:
        """The bits set in just one."""
    @overload
    def broadcast_to(self, /, *shape: SupportsIndex) -> Self:
        """x repeated along new axes and axes of extent 1; an extent of -1 is that of x."""
    @overload
    def broadcast_to(self, /, shape: ShapeLike) -> Self:
        """x repeated along new axes and axes of extent 1; an extent of -1 is that of x."""
    @overload
    def cdist(self, x2: MaskedTensor, /, p: float = 2.0) -> MaskedTensor:
        """The distance of each row of one matrix from each row of another."""
    @overload
    def cdist(self, x2: Self | ArrayLike, /, p: float = 2.0) -> Self:
        """The distance of each row of one matrix from each row of another."""
    def ceil(self, /) -> Self:
        """The smallest integer not below x."""
    def clip(self, /, min: Self | ArrayLike | None = None, max: Self | ArrayLike | None = None) -> Self:
        """x where it lies between ``min`` and ``max``, else the bound it crosses; None is no bound."""
    def clone(self, /) -> Self:
        """A copy of x. Gradients pass through it."""
    def conj(self, /) -> Self:
        """The complex conjugate; real x as it is."""
    @overload
    def copysign(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 with the sign of x2."""
    @overload
    def copysign(self, x2: Self | ArrayLike, /) -> Self:
        """x1 with the sign of x2."""
    def corrcoef(self, y: Self | ArrayLike | None = None, /, *, rowvar: bool = True) -> Self:
        """The correlation coefficients of variables, the rows of x, over observations, its columns."""
    def cos(self, /) -> Self:
        """The cosine of an angle in radians."""
    def cosh(self, /) -> Self:
        """The hyperbolic cosine."""
    def count_nonzero(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Number of nonzero entries over axes, as int64. Raises AxisError for an axis outside x."""
    def cov(self, y: Self | ArrayLike | None = None, /, *, rowvar: bool = True, bias: bool = False, ddof: float | None = None, correction: float = 1.0, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None) -> Self:
        """The covariance matrix of variables, the rows of x, over observations, its columns."""
    @overload
    def cross_entropy(self, labels: MaskedTensor, /, weight: MaskedTensor | ArrayLike | None = None, *, axis: Axis | None = None, ignore_index: SupportsIndex | None = None, reduction: Literal['mean', 'sum', 'none'] = 'mean', label_smoothing: Share = 0.0) -> MaskedTensor:
        """The cross entropy -sum(p * log_softmax(logits)) over the classes, averaged over the examples."""
    @overload
    def cross_entropy(self, labels: Self | ArrayLike, /, weight: Self | ArrayLike | None = None, *, axis: Axis | None = None, ignore_index: SupportsIndex | None = None, reduction: Literal['mean', 'sum', 'none'] = 'mean', label_smoothing: Share = 0.0) -> Self:
        """The cross entropy -sum(p * log_softmax(logits)) over the classes, averaged over the examples."""
    @overload
    def cummax(self, /, axis: Axis = -1, *, return_indices: Literal[False] = False) -> Self:
        """The largest entry so far along an axis; nan from the first nan on."""
    @overload
    def cummax(self, /, axis: Axis = -1, *, return_indices: Literal[True]) -> Extrema:
        """The largest entry so far along an axis; nan from the first nan on."""
    @overload
    def cummin(self, /, axis: Axis = -1, *, return_indices: Literal[False] = False) -> Self:
        """The smallest entry so far along an axis; nan from the first nan on."""
    @overload
    def cummin(self, /, axis: Axis = -1, *, return_indices: Literal[True]) -> Extrema:
        """The smallest entry so far along an axis; nan from the first nan on."""
    def cumulative_prod(self, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """Products of the entries so far along an axis."""
    def cumulative_sum(self, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False) -> Self:
        """Sums of the entries so far along an axis."""
    def deg2rad(self, /) -> Self:
        """An angle in degrees, in radians."""
    def diag_embed(self, /, offset: SupportsIndex = 0) -> Self:
        """Matrices with the last axis of x on diagonal ``offset``, and zeros elsewhere."""
    def diagonal(self, /, *, offset: SupportsIndex = 0) -> Self:
        """The ``offset``-th diagonals of the matrices in the last two axes, as the last axis."""
    def diff(self, /, n: SupportsIndex = 1, *, axis: Axis = -1, prepend: Self | ArrayLike | None = None, append: Self | ArrayLike | None = None) -> Self:
        """The differences of neighbours along an axis, taken ``n`` times."""
    def digamma(self, /) -> Self:
        """The derivative of lgamma; next to its zeros at negative x within 1e-15."""
    @overload
    def dist(self, x2: MaskedTensor, /, p: float = 2.0) -> MaskedTensor:
        """The norm of a difference of two arrays that broadcast, of order p. Raises ShapeError."""
    @overload
    def dist(self, x2: Self | ArrayLike, /, p: float = 2.0) -> Self:
        """The norm of a difference of two arrays that broadcast, of order p. Raises ShapeError."""
    @overload
    def divide(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0."""
    @overload
    def divide(self, x2: Self | ArrayLike, /) -> Self:
        """x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0."""
    @overload
    def equal(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 and x2 are equal."""
    @overload
    def equal(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 and x2 are equal."""
    def erf(self, /) -> Self:
        """The error function."""
    def erfc(self, /) -> Self:
        """1 - erf(x), exact for large x."""
    def exp(self, /) -> Self:
        """e to the power x."""
    def exp2(self, /) -> Self:
        """2 to the power x."""
    def expand_dims(self, /, axis: ShapeLike = 0) -> Self:
        """x with new axes of extent 1 at the given positions of the result (an integer or a tuple)."""
    def expm1(self, /) -> Self:
        """exp(x) - 1, exact near 0."""
    def ffill(self, /, axis: Axis = -1, *, limit: int | None = None) -> Self:
        """The entries with those that are missing taken from the last one before them along an axis."""
    @overload
    def fill_diagonal(self, value: MaskedTensor, /) -> MaskedTensor:
        """A copy of matrices (the last two axes) with a value on their diagonals; x itself stays as it is."""
    @overload
    def fill_diagonal(self, value: Self | ArrayLike, /) -> Self:
        """A copy of matrices (the last two axes) with a value on their diagonals; x itself stays as it is."""
    def flatnonzero(self, /) -> Tensor:
        """The numbers, in row-major order, of the entries that are not zero. Raises GraphError in a trace."""
    def flatten(self, /) -> Self:
        """The entries in row-major order, as a vector of its own: a write into it is none into x, as in NumPy."""
    def flip(self, /, *, axis: Axes = None) -> Self:
        """x with the order of entries reversed along axes (None: all). Raises AxisError."""
    def floor(self, /) -> Self:
        """The largest integer not above x."""
    @overload
    def floor_divide(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 / x2 rounded towards -inf."""
    @overload
    def floor_divide(self, x2: Self | ArrayLike, /) -> Self:
        """x1 / x2 rounded towards -inf."""
    @overload
    def fmax(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The larger of two entries, or the one that is not nan."""
    @overload
    def fmax(self, x2: Self | ArrayLike, /) -> Self:
        """The larger of two entries, or the one that is not nan."""
    @overload
    def fmin(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The smaller of two entries, or the one that is not nan."""
    @overload
    def fmin(self, x2: Self | ArrayLike, /) -> Self:
        """The smaller of two entries, or the one that is not nan."""
    @overload
    def fmod(self, x2: MaskedTensor, /) -> MaskedTensor:
        """What is left of x1 / x2, with the sign of x1, as in C."""
    @overload
    def fmod(self, x2: Self | ArrayLike, /) -> Self:
        """What is left of x1 / x2, with the sign of x1, as in C."""
    def frac(self, /) -> Self:
        """x less its whole part, with the sign of x."""
    @overload
    def gather(self, indices: MaskedTensor, /, *, axis: Axis = -1) -> MaskedTensor:
        """x at positions along an axis given for each of the other axes' entries, as in PyTorch."""
    @overload
    def gather(self, indices: Self | ArrayLike, /, *, axis: Axis = -1) -> Self:
        """x at positions along an axis given for each of the other axes' entries, as in PyTorch."""
    def gelu(self, /, *, approximate: Literal['none', 'tanh'] = 'none') -> Self:
        """x times the standard normal distribution function of x (Hendrycks and Gimpel, 2016)."""
    @overload
    def gradient(self, /, *spacing: MaskedTensor, axis: Axes = None, edge_order: Literal[1, 2] = 1) -> MaskedTensor | tuple[MaskedTensor, ...]:
        """Slopes of samples along an axis: central differences, and one-sided ones at both ends."""
    @overload
    def gradient(self, /, *spacing: Self | ArrayLike, axis: Axes = None, edge_order: Literal[1, 2] = 1) -> Self | tuple[Self, ...]:
        """Slopes of samples along an axis: central differences, and one-sided ones at both ends."""
    @overload
    def greater(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 > x2."""
    @overload
    def greater(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 > x2."""
    @overload
    def greater_equal(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 >= x2."""
    @overload
    def greater_equal(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 >= x2."""
    @overload
    def heaviside(self, x2: MaskedTensor, /) -> MaskedTensor:
        """0 below zero, 1 above, and x2 at zero. The derivative in x1 is 0."""
    @overload
    def heaviside(self, x2: Self | ArrayLike, /) -> Self:
        """0 below zero, 1 above, and x2 at zero. The derivative in x1 is 0."""
    @overload
    def hypot(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The length of (x1, x2), without overflow."""
    @overload
    def hypot(self, x2: Self | ArrayLike, /) -> Self:
        """The length of (x1, x2), without overflow."""
    @overload
    def intersect1d(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The values that are in both of two arrays, each once and in order. Raises GraphError in a trace."""
    @overload
    def intersect1d(self, x2: Self | ArrayLike, /) -> Self:
        """The values that are in both of two arrays, each once and in order. Raises GraphError in a trace."""
    @overload
    def isclose(self, x2: MaskedTensor, /, *, rtol: NonNegative = 1e-05, atol: NonNegative = 1e-08, equal_nan: bool = False) -> MaskedTensor:
        """True where abs(x1 - x2) <= atol + rtol * abs(x2), entry by entry; infinities are close if equal."""
    @overload
    def isclose(self, x2: Self | ArrayLike, /, *, rtol: NonNegative = 1e-05, atol: NonNegative = 1e-08, equal_nan: bool = False) -> Self:
        """True where abs(x1 - x2) <= atol + rtol * abs(x2), entry by entry; infinities are close if equal."""
    def isfinite(self, /) -> Self:
        """Whether x is not inf or nan."""
    @overload
    def isin(self, x2: MaskedTensor, /, *, invert: bool = False) -> MaskedTensor:
        """Mask of the entries of x1 that equal some entry of x2 (or, with ``invert``, none), as bool."""
    @overload
    def isin(self, x2: Self | ArrayLike, /, *, invert: bool = False) -> Self:
        """Mask of the entries of x1 that equal some entry of x2 (or, with ``invert``, none), as bool."""
    def isinf(self, /) -> Self:
        """Whether x is infinite."""
    def isnan(self, /) -> Self:
        """Whether x is not a number."""
    def isneginf(self, /) -> Self:
        """True where an entry is the negative infinity."""
    def isposinf(self, /) -> Self:
        """True where an entry is the positive infinity."""
    def kthvalue(self, k: SupportsIndex, /, *, axis: Axis = -1, keepdims: bool = False) -> TopK:
        """The k-th smallest entry along an axis, counted from 1, and its position."""
    def lerp(self, end: Self | ArrayLike, weight: Self | ArrayLike, /) -> Self:
        """x + weight * (end - x): the way from x to end."""
    @overload
    def less(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 < x2."""
    @overload
    def less(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 < x2."""
    @overload
    def less_equal(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 <= x2."""
    @overload
    def less_equal(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 <= x2."""
    def lgamma(self, /) -> Self:
        """The logarithm of abs(gamma(x)); next to its zeros at negative x within 1e-15."""
    def log(self, /) -> Self:
        """The natural logarithm."""
    def log10(self, /) -> Self:
        """The logarithm to base 10."""
    def log1p(self, /) -> Self:
        """log(1 + x), exact near 0."""
    def log2(self, /) -> Self:
        """The logarithm to base 2."""
    def log_softmax(self, /, axis: Axis = -1) -> Self:
        """x - log(sum(exp(x))) along an axis."""
    @overload
    def logaddexp(self, x2: MaskedTensor, /) -> MaskedTensor:
        """log(exp(x1) + exp(x2)), without overflow."""
    @overload
    def logaddexp(self, x2: Self | ArrayLike, /) -> Self:
        """log(exp(x1) + exp(x2)), without overflow."""
    def logcumsumexp(self, /, axis: Axis = -1) -> Self:
        """The logarithm of the sum of exp(x) so far along an axis, without overflow."""
    @overload
    def logical_and(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether both are nonzero."""
    @overload
    def logical_and(self, x2: Self | ArrayLike, /) -> Self:
        """Whether both are nonzero."""
    def logical_not(self, /) -> Self:
        """Whether x is zero."""
    @overload
    def logical_or(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether either is nonzero."""
    @overload
    def logical_or(self, x2: Self | ArrayLike, /) -> Self:
        """Whether either is nonzero."""
    @overload
    def logical_xor(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether just one is nonzero."""
    @overload
    def logical_xor(self, x2: Self | ArrayLike, /) -> Self:
        """Whether just one is nonzero."""
    def logsumexp(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """log(sum(exp(x))) over axes, without overflow; -inf where there is no entry."""
    @overload
    def masked_fill(self, mask: Array | ArrayLike, value: MaskedTensor, /) -> MaskedTensor:
        """``value`` where the mask is True, else x. The three broadcast."""
    @overload
    def masked_fill(self, mask: Array | ArrayLike, value: Self | ArrayLike, /) -> Self:
        """``value`` where the mask is True, else x. The three broadcast."""
    @overload
    def matmul(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The product of matrices, of vectors, or of batches of them in the leading axes."""
    @overload
    def matmul(self, x2: Self | ArrayLike, /) -> Self:
        """The product of matrices, of vectors, or of batches of them in the leading axes."""
    def matrix_transpose(self, /) -> Self:
        """The last two axes exchanged. Raises ShapeError for fewer than two axes."""
    def max(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest entry over axes; nan if there is one."""
    @overload
    def maximum(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The larger of x1 and x2; nan if either is."""
    @overload
    def maximum(self, x2: Self | ArrayLike, /) -> Self:
        """The larger of x1 and x2; nan if either is."""
    def mean(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The mean over axes; nan where there is no entry. Integers become float64."""
    def median(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The middle entry in order over axes (None: all), or the mean of the two in the middle."""
    def min(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest entry over axes; nan if there is one."""
    @overload
    def minimum(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The smaller of x1 and x2; nan if either is."""
    @overload
    def minimum(self, x2: Self | ArrayLike, /) -> Self:
        """The smaller of x1 and x2; nan if either is."""
    def moveaxis(self, source: ShapeLike, destination: ShapeLike, /) -> Self:
        """x with the ``source`` axes at the ``destination`` positions, the others in their order."""
    @overload
    def multiply(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 * x2."""
    @overload
    def multiply(self, x2: Self | ArrayLike, /) -> Self:
        """x1 * x2."""
    def nan_to_num(self, /, *, nan: complex = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """x with nan, inf and -inf replaced by numbers; None stands for the largest of x's dtype, or the lowest."""
    def nanargmax(self, /, axis: Axis | None = None, *, keepdims: bool = False) -> Self:
        """The position along an axis (None: in the flattened array) of the first largest that is not nan."""
    def nanargmin(self, /, axis: Axis | None = None, *, keepdims: bool = False) -> Self:
        """The position along an axis (None: in the flattened array) of the first smallest that is not nan."""
    def nancumprod(self, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The products of the entries so far along an axis (None: of x with one axis), of those that are not nan."""
    def nancumsum(self, /, axis: Axis | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The sums of the entries so far along an axis (None: of x with one axis), of those that are not nan."""
    def nanmax(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest over axes (None: all) of the entries that are not nan, nan without one."""
    def nanmean(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The mean over axes (None: all) of the entries that are not nan, nan without one."""
    def nanmedian(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The middle entry in order of those that are not nan over axes (None: all), or the mean of two."""
    def nanmin(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest over axes (None: all) of the entries that are not nan, nan without one."""
    def nanpercentile(self, /, q: Array | ArrayLike, axis: Axes = None, *, method: QuantileMethod = 'linear', weights: Array | ArrayLike | None = None, keepdims: bool = False) -> Self:
        """The percentiles of the entries that are not nan over axes (None: all), nan without one."""
    def nanprod(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The product over axes (None: all) of the entries that are not nan, 1 without one."""
    def nanquantile(self, /, q: Array | ArrayLike, axis: Axes = None, *, method: QuantileMethod = 'linear', weights: Array | ArrayLike | None = None, keepdims: bool = False) -> Self:
        """The quantiles of the entries that are not nan over axes (None: all), nan without one."""
    def nanstd(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, correction: float = 0.0, ddof: float | None = None, keepdims: bool = False) -> Self:
        """The standard deviation over axes (None: all) of the entries that are not nan: the root of `nanvar`."""
    def nansum(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The sum over axes (None: all) of the entries that are not nan, 0 without one."""
    def nanvar(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, correction: float = 0.0, ddof: float | None = None, keepdims: bool = False) -> Self:
        """The variance over axes (None: all) of the n entries that are not nan: sums over n - correction."""
    def negative(self, /) -> Self:
        """-x."""
    @overload
    def nextafter(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The next number after x1 towards x2."""
    @overload
    def nextafter(self, x2: Self | ArrayLike, /) -> Self:
        """The next number after x1 towards x2."""
    def nonzero(self, /) -> tuple[Tensor, ...]:
        """The positions of the nonzero entries in row-major order, one int64 tensor per axis."""
    @overload
    def not_equal(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 and x2 differ."""
    @overload
    def not_equal(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 and x2 differ."""
    @overload
    def outer(self, x2: MaskedTensor, /) -> MaskedTensor:
        """All products of an entry of x1 and one of x2, as a matrix. Raises ShapeError unless both are vectors."""
    @overload
    def outer(self, x2: Self | ArrayLike, /) -> Self:
        """All products of an entry of x1 and one of x2, as a matrix. Raises ShapeError unless both are vectors."""
    def pad(self, pad_width: Widths, /, mode: PadMode = 'constant', *, constant_values: complex = 0, end_values: complex = 0, stat_length: SupportsIndex | None = None) -> Self:
        """x with entries added before and after each axis."""
    def percentile(self, /, q: Array | ArrayLike, axis: Axes = None, *, method: QuantileMethod = 'linear', weights: Array | ArrayLike | None = None, keepdims: bool = False) -> Self:
        """The percentiles of the entries over axes (None: all): `quantile` with q in percent, from 0 to 100."""
    @overload
    def permute_dims(self, /, *axes: SupportsIndex) -> Self:
        """x with its axes in the given order. Raises AxisError unless ``axes`` names each axis once."""
    @overload
    def permute_dims(self, /, axes: ShapeLike) -> Self:
        """x with its axes in the given order. Raises AxisError unless ``axes`` names each axis once."""
    def positive(self, /) -> Self:
        """x itself."""
    @overload
    def pow(self, x2: MaskedTensor, /) -> MaskedTensor:
        """x1 to the power x2."""
    @overload
    def pow(self, x2: Self | ArrayLike, /) -> Self:
        """x1 to the power x2."""
    def prod(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The product over axes."""
    def ptp(self, /, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest entry minus the smallest, along axes. Raises ShapeError for none, AxisError."""
    def quantile(self, /, q: Array | ArrayLike, axis: Axes = None, *, method: QuantileMethod = 'linear', weights: Array | ArrayLike | None = None, keepdims: bool = False) -> Self:
        """The quantiles of the entries over axes (None: all), by default interpolated between two entries."""
    def rad2deg(self, /) -> Self:
        """An angle in radians, in degrees."""
    def ravel(self, /) -> Self:
        """The entries in row-major order, as a vector. As with `reshape`, a write into it is one into x."""
    def reciprocal(self, /) -> Self:
        """1 / x."""
    def relu(self, /) -> Self:
        """x where it is positive, else 0."""
    @overload
    def remainder(self, x2: MaskedTensor, /) -> MaskedTensor:
        """What is left of x1 / x2, with the sign of x2."""
    @overload
    def remainder(self, x2: Self | ArrayLike, /) -> Self:
        """What is left of x1 / x2, with the sign of x2."""
    def repeat(self, repeats: ArrayLike | Sequence[int], /, *, axis: Axis | None = None) -> Self:
        """Each entry along an axis ``repeats`` times (an integer, or one per entry); None flattens x first."""
    @overload
    def reshape(self, /, *shape: SupportsIndex, copy: bool | None = None) -> Self:
        """The same entries in another shape, in row-major order; one extent may be -1."""
    @overload
    def reshape(self, /, shape: ShapeLike, *, copy: bool | None = None) -> Self:
        """The same entries in another shape, in row-major order; one extent may be -1."""
    def roll(self, /, shift: ShapeLike, *, axis: Axes = None) -> Self:
        """x with entries moved round by ``shift`` places along axes (None: along the flattened array)."""
    def rot90(self, /, k: SupportsIndex = 1, *, axes: tuple[int, int] = (0, 1)) -> Self:
        """x turned by k quarters in the plane of two axes, from the first towards the second."""
    def round(self, /, decimals: SupportsIndex = 0) -> Self:
        """The nearest number with so many decimals, 0 for integers; halves go to the even one."""
    def rsqrt(self, /) -> Self:
        """1 / sqrt(x)."""
    @overload
    def searchsorted(self, x2: MaskedTensor, /, *, side: Literal['left', 'right'] = 'left', sorter: ArrayLike | None = None) -> MaskedTensor:
        """Positions at which the entries of x2 go into the sorted vector x1 so that it stays sorted, as int64."""
    @overload
    def searchsorted(self, x2: Self | ArrayLike, /, *, side: Literal['left', 'right'] = 'left', sorter: ArrayLike | None = None) -> Self:
        """Positions at which the entries of x2 go into the sorted vector x1 so that it stays sorted, as int64."""
    @overload
    def setdiff1d(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The values of an array that are not in another, each once and in order. Raises GraphError in a trace."""
    @overload
    def setdiff1d(self, x2: Self | ArrayLike, /) -> Self:
        """The values of an array that are not in another, each once and in order. Raises GraphError in a trace."""
    def sigmoid(self, /) -> Self:
        """1 / (1 + exp(-x))."""
    def sign(self, /) -> Self:
        """-1, 0 or 1; x / abs(x) for complex x, 0 at 0."""
    def signbit(self, /) -> Self:
        """Whether the sign bit is set, as it is in -0.0."""
    def silu(self, /) -> Self:
        """x * sigmoid(x)."""
    def sin(self, /) -> Self:
        """The sine of an angle in radians."""
    def sinh(self, /) -> Self:
        """The hyperbolic sine."""
    def softmax(self, /, axis: Axis = -1) -> Self:
        """exp(x) / sum(exp(x)) along an axis."""
    def softplus(self, /, beta: float = 1.0, threshold: float | None = None) -> Self:
        """log(1 + exp(beta * x)) / beta, without overflow."""
    def sort(self, /, *, axis: Axis = -1, descending: bool = False, stable: bool = True) -> Self:
        """The entries in increasing (or decreasing) order along an axis; nan counts as the largest."""
    def split(self, indices_or_sections: ShapeLike, /, *, axis: Axis = 0) -> tuple[Self, ...]:
        """x cut along an axis: into a number of equal parts, or before each of a sequence of positions."""
    def sqrt(self, /) -> Self:
        """The square root."""
    def square(self, /) -> Self:
        """x * x."""
    def squeeze(self, /, axis: Axes = None) -> Self:
        """x without the given axes of extent 1 (None: without all of them)."""
    def std(self, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The square root of `var`; where that is 0, so is the derivative."""
    @overload
    def subtract(self, x2: MaskedTensor, /, *, alpha: MaskedTensor | ArrayLike | None = None) -> MaskedTensor:
        """x1 - alpha * x2 (alpha is 1 unless given)."""
    @overload
    def subtract(self, x2: Self | ArrayLike, /, *, alpha: Self | ArrayLike | None = None) -> Self:
        """x1 - alpha * x2 (alpha is 1 unless given)."""
    def sum(self, /, axis: Axes = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Self:
        """The sum over axes."""
    def swapaxes(self, axis1: Axis, axis2: Axis, /) -> Self:
        """x with two axes exchanged. Raises AxisError for axes outside x."""
    def take(self, indices: Array | ArrayLike, /, *, axis: Axis | None = None) -> Self:
        """x at integer positions along an axis; the axes of ``indices`` take that axis's place."""
    @overload
    def take_along_axis(self, indices: MaskedTensor, /, *, axis: Axis = -1) -> MaskedTensor:
        """x at positions along an axis given for each of the other axes' entries, as `argsort` gives them."""
    @overload
    def take_along_axis(self, indices: Self | ArrayLike, /, *, axis: Axis = -1) -> Self:
        """x at positions along an axis given for each of the other axes' entries, as `argsort` gives them."""
    def tan(self, /) -> Self:
        """The tangent of an angle in radians."""
    def tanh(self, /) -> Self:
        """The hyperbolic tangent."""
    @overload
    def tensordot(self, x2: MaskedTensor, /, *, axes: Paired = 2) -> MaskedTensor:
        """The sum of products over axes of x1 paired with axes of x2, as one matrix product."""
    @overload
    def tensordot(self, x2: Self | ArrayLike, /, *, axes: Paired = 2) -> Self:
        """The sum of products over axes of x1 paired with axes of x2, as one matrix product."""
    @overload
    def tile(self, /, *repetitions: SupportsIndex) -> Self:
        """x laid side by side with itself, ``repetitions[k]`` times along axis k."""
    @overload
    def tile(self, repetitions: ShapeLike, /) -> Self:
        """x laid side by side with itself, ``repetitions[k]`` times along axis k."""
    def to_layout(self, layout: str, /, *, blocksize: Sequence[SupportsIndex] | None = None, dense_dim: SupportsIndex | None = None) -> Self:
        """x in another layout: "strided", "coo", "csr", "csc", or with ``blocksize`` "bsr" and "bsc"."""
    def to_sparse(self, /) -> Self:
        """x in the COO layout; a tensor in a sparse layout as it is."""
    def topk(self, k: SupportsIndex, /, *, axis: Axis = -1, largest: bool = True) -> TopK:
        """The k largest (or smallest) entries along an axis in order, and their positions."""
    def transpose(self, /, axes: ShapeLike | None = None) -> Self:
        """x with its axes in the order ``axes``, by default reversed, as in NumPy."""
    def tril(self, /, *, k: SupportsIndex = 0) -> Self:
        """The lower triangles of matrices, zeros elsewhere; ``k`` moves the last diagonal."""
    def triu(self, /, *, k: SupportsIndex = 0) -> Self:
        """The upper triangles of matrices, zeros elsewhere; ``k`` moves the last diagonal."""
    def trunc(self, /) -> Self:
        """x without its fraction."""
    @overload
    def union1d(self, x2: MaskedTensor, /) -> MaskedTensor:
        """The values of two arrays, each once and in order. Raises GraphError in a trace."""
    @overload
    def union1d(self, x2: Self | ArrayLike, /) -> Self:
        """The values of two arrays, each once and in order. Raises GraphError in a trace."""
    def unique(self, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Axis | None = None, *, equal_nan: bool = True) -> Tensor | tuple[Any, ...]:
        """The distinct (specified) entries in increasing order, or slices along ``axis``, under NumPy's name."""
    def unique_all(self, /, *, axis: Axis | None = None) -> UniqueAll:
        """The distinct (specified) entries of the flattened array in increasing order, and all about them."""
    def unique_counts(self, /, *, axis: Axis | None = None) -> UniqueCounts:
        """The distinct entries of the flattened array in increasing order, and how often each occurs."""
    def unique_inverse(self, /, *, axis: Axis | None = None) -> UniqueInverse:
        """The distinct entries of the flattened array in increasing order, and where each entry of x is there."""
    def unique_values(self, /, *, axis: Axis | None = None) -> Tensor:
        """The distinct entries of the flattened array in increasing order; each nan is distinct."""
    def unstack(self, /, *, axis: Axis = 0) -> tuple[Self, ...]:
        """The slices of x along an axis, which they lose. Raises AxisError."""
    def unwrap(self, /, discont: float | None = None, axis: Axis = -1, *, period: float = 6.283185307179586) -> Self:
        """Phases whose jumps by more than half a period along an axis are taken out, a period at a time."""
    def vander(self, /, N: SupportsIndex | None = None, *, increasing: bool = False) -> Self:
        """The powers 0 to N - 1 (N: the length of x) of a vector as columns, the highest first or last."""
    def var(self, /, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The variance over axes: the sum of squared distances from the mean over (count - correction)."""
    @overload
    def vecdot(self, x2: MaskedTensor, /, *, axis: Axis = -1) -> MaskedTensor:
        """The sum over an axis of conj(x1) * x2; the other axes broadcast."""
    @overload
    def vecdot(self, x2: Self | ArrayLike, /, *, axis: Axis = -1) -> Self:
        """The sum over an axis of conj(x1) * x2; the other axes broadcast."""
    def view_as_complex(self, /) -> Self:
        """Pairs of real entries along the last axis as complex ones: a copy."""
    def view_as_real(self, /) -> Self:
        """Complex entries as pairs of real ones along a new last axis: a copy. Raises DTypeError for others."""
    __add__ = add
    __radd__ = add
    __sub__ = subtract
    __rsub__ = subtract
    __mul__ = multiply
    __rmul__ = multiply
    __truediv__ = divide
    __rtruediv__ = divide
    __floordiv__ = floor_divide
    __rfloordiv__ = floor_divide
    __mod__ = remainder
    __rmod__ = remainder
    __matmul__ = matmul
    __rmatmul__ = matmul
    __pow__ = pow
    __rpow__ = pow
    __and__ = bitwise_and
    __rand__ = bitwise_and
    __or__ = bitwise_or
    __ror__ = bitwise_or
    __xor__ = bitwise_xor
    __rxor__ = bitwise_xor
    __lshift__ = bitwise_left_shift
    __rlshift__ = bitwise_left_shift
    __rshift__ = bitwise_right_shift
    __rrshift__ = bitwise_right_shift
    __lt__ = less
    __le__ = less_equal
    __gt__ = greater
    __ge__ = greater_equal
    @overload  # type: ignore[override]
    def __eq__(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 and x2 are equal."""
    @overload
    def __eq__(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 and x2 are equal."""
    @overload  # type: ignore[override]
    def __ne__(self, x2: MaskedTensor, /) -> MaskedTensor:
        """Whether x1 and x2 differ."""
    @overload
    def __ne__(self, x2: Self | ArrayLike, /) -> Self:
        """Whether x1 and x2 differ."""
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
    def __abs__(self) -> Self: ...
    def __invert__(self) -> Self: ...

class TensorMethods:
    @property
    def at(self) -> At:
        """Entries by key, for a new array in which they are changed: ``x.at[key].add(values)``, ``set``, ``get``."""
    def bincount(self, /, *, weights: Self | ArrayLike | None = None, minlength: SupportsIndex = 0) -> Self:
        """Number of times that each number occurs in a vector of integers >= 0, or the sum of its weights."""
    def coalesce(self, /) -> Self:
        """A sparse tensor with each entry stored once, in row-major order."""
    @overload
    def convolve(self, v: MaskedTensor, /, *, mode: Literal['full', 'same', 'valid'] = 'full') -> MaskedTensor:
        """The convolution of two vectors, the sum of a[i - k] * v[k] over k."""
    @overload
    def convolve(self, v: Self | ArrayLike, /, *, mode: Literal['full', 'same', 'valid'] = 'full') -> Self:
        """The convolution of two vectors, the sum of a[i - k] * v[k] over k."""
    def dense_dim(self, /) -> int:
        """Number of axes of a sparse tensor that are not indexed: the last ones, along which slices are stored."""
    def histogram(self, /, bins: SupportsIndex | Array | ArrayLike = 10, *, range: tuple[float, float] | None = None, weights: Self | ArrayLike | None = None, density: bool = False) -> HistogramResult:
        """Number of entries in each bin, or the sum of their weights."""
    @overload
    def index_add(self, indices: Array | ArrayLike, values: MaskedTensor, /, *, axis: Axis = 0) -> MaskedTensor:
        """x with slices added at positions on an axis, as x[indices] += values would if it counted repeats."""
    @overload
    def index_add(self, indices: Array | ArrayLike, values: Self | ArrayLike, /, *, axis: Axis = 0) -> Self:
        """x with slices added at positions on an axis, as x[indices] += values would if it counted repeats."""
    def indices(self, /) -> Tensor:
        """Indices of the stored entries: (sparse axes, nnz) for COO, otherwise positions within lines, (nnz,)."""
    def indptr(self, /) -> Tensor:
        """Start of each row (or column) of a compressed layout among the stored entries; then their number."""
    def interp(self, xp: Self | ArrayLike, fp: Self | ArrayLike, /) -> Self:
        """The function that is linear between its values ``fp`` at the points ``xp``, at x; constant beyond them."""
    @property
    def nnz(self, /) -> int:
        """Number of entries that a sparse tensor stores, with explicit zeros, repeats and all of each block."""
    @overload
    def scatter(self, indices: Array | ArrayLike, values: MaskedTensor, /, *, axis: Axis = -1) -> MaskedTensor:
        """x with values in place of the entries at positions along an axis: what `gather` reads, written."""
    @overload
    def scatter(self, indices: Array | ArrayLike, values: Self | ArrayLike, /, *, axis: Axis = -1) -> Self:
        """x with values in place of the entries at positions along an axis: what `gather` reads, written."""
    @overload
    def scatter_add(self, indices: Array | ArrayLike, values: MaskedTensor, /, *, axis: Axis = -1) -> MaskedTensor:
        """x with values added at positions along an axis, given for each of the other axes' entries."""
    @overload
    def scatter_add(self, indices: Array | ArrayLike, values: Self | ArrayLike, /, *, axis: Axis = -1) -> Self:
        """x with values added at positions along an axis, given for each of the other axes' entries."""
    def segment_max(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """The largest of the slices of x with each number; -inf for a segment without any. As `segment_sum`."""
    def segment_mean(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """The mean of the slices of x with each number; 0 for a segment without any. As `segment_sum`."""
    def segment_min(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """The smallest of the slices of x with each number; inf for a segment without any. As `segment_sum`."""
    def segment_prod(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """The product of the slices of x with each number; 1 for a segment without any. As `segment_sum`."""
    def segment_softmax(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """exp(x) over the sum of exp(x) of its segment. As `segment_sum`."""
    def segment_sum(self, segment_ids: Segmented, /, num_segments: SupportsIndex | None = None) -> Self:
        """The sum of the slices of x (along its first axis) with each number; 0 for a segment without any."""
    def sparse_dim(self, /) -> int:
        """Number of axes of a sparse tensor that are indexed: the first ones."""
    def sparse_mask(self, mask: Array, /) -> Self:
        """x where a sparse tensor stores an entry, 0 elsewhere; in that tensor's layout, on the same indices."""
    def to_scipy(self, /) -> Any:
        """A matrix in a sparse layout as a SciPy sparse array (in CSC where SciPy has no such layout)."""
    def trapezoid(self, /, x: Self | ArrayLike | None = None, *, dx: float = 1.0, axis: Axis = -1) -> Self:
        """The integral along an axis by the trapezoidal rule."""
    def values(self, /) -> Tensor:
        """The stored entries of a sparse tensor: shape (nnz, *dense axes), or (blocks, rows, columns)."""
    def with_values(self, values: Values, /) -> Tensor:
        """The tensor with other values on the stored entries of a sparse tensor x, whose own are not read."""
