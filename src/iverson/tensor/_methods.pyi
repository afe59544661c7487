"""The methods of arrays. Written by tools/stubs.py from the tables: do not edit."""

from typing import Self, SupportsIndex, overload

from iverson.array_api import contraction as _contraction
from iverson.array_api import creation as _creation
from iverson.array_api import data_types as _data_types
from iverson.array_api import elementwise as _elementwise
from iverson.array_api import indexing as _indexing
from iverson.array_api import joining as _joining
from iverson.array_api import manipulation as _manipulation
from iverson.array_api import nn as _nn
from iverson.array_api import reductions as _reductions
from iverson.array_api import scipy as _scipy
from iverson.array_api import searching as _searching
from iverson.array_api import segments as _segments
from iverson.array_api import sparse as _sparse
from iverson.tensor.typing import ShapeLike

class Methods:
    abs = _elementwise.abs
    acos = _elementwise.acos
    acosh = _elementwise.acosh
    add = _elementwise.add
    all = _reductions.all
    angle = _elementwise.angle
    any = _reductions.any
    argmax = _reductions.argmax
    argmin = _reductions.argmin
    argsort = _searching.argsort
    asin = _elementwise.asin
    asinh = _elementwise.asinh
    astype = _data_types.astype
    atan = _elementwise.atan
    atan2 = _elementwise.atan2
    atanh = _elementwise.atanh
    bitwise_and = _elementwise.bitwise_and
    bitwise_invert = _elementwise.bitwise_invert
    bitwise_left_shift = _elementwise.bitwise_left_shift
    bitwise_or = _elementwise.bitwise_or
    bitwise_right_shift = _elementwise.bitwise_right_shift
    bitwise_xor = _elementwise.bitwise_xor
    @overload
    def broadcast_to(self, /, shape: ShapeLike) -> Self: ...
    @overload
    def broadcast_to(self, /, *shape: SupportsIndex) -> Self: ...
    ceil = _elementwise.ceil
    clip = _elementwise.clip
    conj = _elementwise.conj
    copysign = _elementwise.copysign
    cos = _elementwise.cos
    cosh = _elementwise.cosh
    count_nonzero = _reductions.count_nonzero
    cross_entropy = _nn.cross_entropy
    cumulative_prod = _reductions.cumulative_prod
    cumulative_sum = _reductions.cumulative_sum
    diagonal = _manipulation.diagonal
    diff = _joining.diff
    digamma = _elementwise.digamma
    divide = _elementwise.divide
    equal = _elementwise.equal
    erf = _elementwise.erf
    erfc = _elementwise.erfc
    exp = _elementwise.exp
    exp2 = _elementwise.exp2
    expand_dims = _manipulation.expand_dims
    expm1 = _elementwise.expm1
    flip = _manipulation.flip
    floor = _elementwise.floor
    floor_divide = _elementwise.floor_divide
    gelu = _elementwise.gelu
    greater = _elementwise.greater
    greater_equal = _elementwise.greater_equal
    hypot = _elementwise.hypot
    isfinite = _elementwise.isfinite
    isin = _searching.isin
    isinf = _elementwise.isinf
    isnan = _elementwise.isnan
    less = _elementwise.less
    less_equal = _elementwise.less_equal
    lgamma = _elementwise.lgamma
    log = _elementwise.log
    log10 = _elementwise.log10
    log1p = _elementwise.log1p
    log2 = _elementwise.log2
    log_softmax = _nn.log_softmax
    logaddexp = _elementwise.logaddexp
    logical_and = _elementwise.logical_and
    logical_not = _elementwise.logical_not
    logical_or = _elementwise.logical_or
    logical_xor = _elementwise.logical_xor
    logsumexp = _reductions.logsumexp
    matmul = _contraction.matmul
    matrix_transpose = _manipulation.matrix_transpose
    max = _reductions.max
    maximum = _elementwise.maximum
    mean = _reductions.mean
    min = _reductions.min
    minimum = _elementwise.minimum
    moveaxis = _manipulation.moveaxis
    multiply = _elementwise.multiply
    negative = _elementwise.negative
    nextafter = _elementwise.nextafter
    nonzero = _indexing.nonzero
    not_equal = _elementwise.not_equal
    outer = _contraction.outer
    pad = _joining.pad
    @overload
    def permute_dims(self, /, axes: ShapeLike) -> Self: ...
    @overload
    def permute_dims(self, /, *axes: SupportsIndex) -> Self: ...
    positive = _elementwise.positive
    pow = _elementwise.pow
    prod = _reductions.prod
    reciprocal = _elementwise.reciprocal
    relu = _elementwise.relu
    remainder = _elementwise.remainder
    repeat = _joining.repeat
    @overload
    def reshape(self, /, shape: ShapeLike, *, copy: bool | None = None) -> Self: ...
    @overload
    def reshape(self, /, *shape: SupportsIndex, copy: bool | None = None) -> Self: ...
    roll = _manipulation.roll
    round = _elementwise.round
    searchsorted = _searching.searchsorted
    sigmoid = _elementwise.sigmoid
    sign = _elementwise.sign
    signbit = _elementwise.signbit
    silu = _elementwise.silu
    sin = _elementwise.sin
    sinh = _elementwise.sinh
    softmax = _nn.softmax
    softplus = _elementwise.softplus
    sort = _searching.sort
    split = _joining.split
    sqrt = _elementwise.sqrt
    square = _elementwise.square
    squeeze = _manipulation.squeeze
    std = _reductions.std
    subtract = _elementwise.subtract
    sum = _reductions.sum
    take = _indexing.take
    take_along_axis = _indexing.take_along_axis
    tan = _elementwise.tan
    tanh = _elementwise.tanh
    tensordot = _contraction.tensordot
    @overload
    def tile(self, /, repetitions: ShapeLike) -> Self: ...
    @overload
    def tile(self, /, *repetitions: SupportsIndex) -> Self: ...
    to_layout = _sparse.to_layout
    to_sparse = _sparse.to_sparse
    tril = _creation.tril
    triu = _creation.triu
    trunc = _elementwise.trunc
    unique_all = _searching.unique_all
    unique_counts = _searching.unique_counts
    unique_inverse = _searching.unique_inverse
    unique_values = _searching.unique_values
    unstack = _joining.unstack
    var = _reductions.var
    vecdot = _contraction.vecdot
    __add__ = _elementwise.add
    __radd__ = _elementwise.add
    __sub__ = _elementwise.subtract
    __rsub__ = _elementwise.subtract
    __mul__ = _elementwise.multiply
    __rmul__ = _elementwise.multiply
    __truediv__ = _elementwise.divide
    __rtruediv__ = _elementwise.divide
    __floordiv__ = _elementwise.floor_divide
    __rfloordiv__ = _elementwise.floor_divide
    __mod__ = _elementwise.remainder
    __rmod__ = _elementwise.remainder
    __matmul__ = _contraction.matmul
    __rmatmul__ = _contraction.matmul
    __pow__ = _elementwise.pow
    __rpow__ = _elementwise.pow
    __and__ = _elementwise.bitwise_and
    __rand__ = _elementwise.bitwise_and
    __or__ = _elementwise.bitwise_or
    __ror__ = _elementwise.bitwise_or
    __xor__ = _elementwise.bitwise_xor
    __rxor__ = _elementwise.bitwise_xor
    __lshift__ = _elementwise.bitwise_left_shift
    __rlshift__ = _elementwise.bitwise_left_shift
    __rshift__ = _elementwise.bitwise_right_shift
    __rrshift__ = _elementwise.bitwise_right_shift
    __lt__ = _elementwise.less
    __le__ = _elementwise.less_equal
    __gt__ = _elementwise.greater
    __ge__ = _elementwise.greater_equal
    __eq__ = _elementwise.equal  # type: ignore[assignment]
    __ne__ = _elementwise.not_equal  # type: ignore[assignment]
    __neg__ = _elementwise.negative
    __pos__ = _elementwise.positive
    __abs__ = _elementwise.abs
    __invert__ = _elementwise.bitwise_invert

class TensorMethods:
    coalesce = _sparse.coalesce
    indices = _sparse.indices
    indptr = _sparse.indptr
    @property
    def nnz(self) -> int: ...
    segment_max = _segments.segment_max
    segment_softmax = _segments.segment_softmax
    segment_sum = _segments.segment_sum
    sparse_mask = _sparse.sparse_mask
    to_scipy = _scipy.to_scipy
    values = _sparse.values
    with_values = _sparse.with_values
