"""The functions that are also methods of a Tensor: ``x.sum(axis=0)`` is ``iverson.sum(x, axis=0)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from iverson.array_api import (
    contraction,
    data_types,
    elementwise,
    indexing,
    joining,
    manipulation,
    nn,
    reductions,
    searching,
    segments,
    sparse,
)
from iverson.array_api.creation import tril, triu
from iverson.array_api.scipy import to_scipy
from iverson.tensor import Tensor
from iverson.tensor.array import Array

#: By module, the functions that take an array first and become methods of the same name.
METHODS: dict[ModuleType, tuple[str, ...]] = {
    elementwise: (
        "abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
        "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
        "clip", "conj", "copysign", "cos", "cosh", "digamma", "divide", "equal", "erf", "erfc", "exp", "exp2",
        "expm1", "floor", "floor_divide", "gelu", "greater", "greater_equal", "hypot", "isfinite", "isinf",
        "isnan", "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
        "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter",
        "not_equal", "positive", "pow", "reciprocal", "relu", "remainder", "round", "sigmoid", "sign",
        "signbit", "silu", "sin", "sinh", "softplus", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
    ),
    reductions: (
        "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "logsumexp",
        "max", "mean", "min", "prod", "std", "sum", "var",
    ),
    manipulation: (
        "diagonal", "expand_dims", "flip", "matrix_transpose", "moveaxis", "roll", "squeeze",
    ),
    joining: ("diff", "pad", "repeat", "split", "unstack"),
    indexing: ("nonzero", "take", "take_along_axis"),
    searching: (
        "argsort", "isin", "searchsorted", "sort", "unique_all", "unique_counts", "unique_inverse",
        "unique_values",
    ),
    contraction: ("matmul", "outer", "tensordot", "vecdot"),
    nn: ("cross_entropy", "log_softmax", "softmax"),
    data_types: ("astype",),
    sparse: ("to_layout", "to_sparse"),
}  # fmt: skip

#: Functions of a shape or of axes, whose methods also take it spelled out: ``x.reshape(2, 3)``.
VARIADIC = (
    manipulation.reshape,
    manipulation.permute_dims,
    manipulation.broadcast_to,
    joining.tile,
)


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any, *given: Any, **options: Any) -> Any:
        return function(self, *((given,) if len(given) > 1 else given), **options)

    return method


def bind_methods() -> None:
    """Make the functions methods of every kind of array."""
    for module, names in METHODS.items():
        for name in names:
            setattr(Array, name, getattr(module, name))
    for function in VARIADIC:
        setattr(Array, function.__name__, _variadic(function))
    for function in (tril, triu):
        setattr(Array, function.__name__, function)


#: What only a tensor in a sparse layout has, or what gives one.
SPARSE: dict[ModuleType, tuple[str, ...]] = {
    sparse: (
        "coalesce",
        "indices",
        "indptr",
        "sparse_mask",
        "values",
        "with_values",
    ),
    segments: ("segment_max", "segment_softmax", "segment_sum"),
}


def bind_sparse_methods() -> None:
    """Make the functions of sparse layouts methods of Tensor, and ``nnz`` a property."""
    for module, names in SPARSE.items():
        for name in names:
            setattr(Tensor, name, getattr(module, name))
    setattr(Tensor, "nnz", property(sparse.nnz))  # noqa: B010
    setattr(Tensor, "to_scipy", to_scipy)  # noqa: B010


bind_methods()
bind_sparse_methods()
