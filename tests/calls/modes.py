"""A call in every mode: eager, compiled, mapped, in each layout, masked without a mask."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import iverson as iv
from iverson.array_api.entries import rearrangement
from iverson.array_api.signals import numerics
from iverson.core.errors import DTypeError, GraphError, IversonError
from iverson.layouts import sparse_layouts
from tests.calls.operands import VIEWS, Array, each, leaves
from tests.calls.oracles import KEEP_DTYPE, UNIQUE, Unknown, expected
from tests.calls.table import Call

#: By bytes of a real number: to what a result is right, in parts of its largest entry.
RTOL = {2: 2e-3, 4: 3e-5, 8: 1e-11}
BFLOAT16 = 1.6e-2
#: Functions whose operands meet each other in pairs.
COMPOSED = {"interp", "trapezoid"}
#: What no message of an error may hold: ops of loops, buffers of programs, values of graphs.
INTERNAL = re.compile(r"\bte[.:]|\bk\d+\b|\bb\d+\b|%\d|\bt\d+\b|\bi\d+\b")
#: Functions that need to know entries: of these the shape of the result depends, or they are checked.
READS = {
    "flatnonzero",
    "intersect1d",
    "setdiff1d",
    "union1d",
    "argwhere",
    "nonzero",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "bincount",
    "repeat",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "bicgstab",
    "cg",
    "gmres",
    "minres",
    "to_sparse",
    "to_layout",
    "to_scipy",
    "factorized",
    "eigsh",
    "lobpcg",
    "from_scipy",
}
#: Functions that take no masked tensors, even those that have all entries, or to which a mask says more.
NOT_MASKED = {
    "ffill": "what is missing is what the mask says",
    "bfill": "what is missing is what the mask says",
    **dict.fromkeys(("asarray", "tensor"), "make plain tensors"),
    **dict.fromkeys((*rearrangement.__all__, *numerics.__all__), "are of entries that all exist"),
    **dict.fromkeys(
        ("bincount", "convolve", "histogram", "index_add", "interp", "scatter", "scatter_add"),
        "of plain ones",
    ),
    **dict.fromkeys(("bicgstab", "cg", "gmres", "minres"), "of plain ones"),
    "batch_norm": "running moments are plain",
}
#: Functions that refuse more than dtypes: what they refuse, NumPy gives a meaning.
REFUSED = {
    "argwhere": "of rank 0",
    "embedding_bag": "a last offset that is not where the indices end",
    "full_like": "a number that the dtype does not hold",
    "logm": "a singular matrix",
    "median": "no entries",
    "nanmedian": "no entries",
}


class Difference(AssertionError):
    """A result that is not as it should be."""


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, or the error that it raises."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return plain(function(*args))
    except IversonError as error:
        return error


def plain(result: Any) -> Any:
    """Results as arrays, in lists; numbers and other objects as arrays of rank 0."""
    if isinstance(result, iv.MaskedTensor):
        if not result.get_mask().to_dense().numpy().all():
            raise Difference("an entry is unspecified, of operands that have all")
        result = result.get_data()
    if isinstance(result, iv.Tensor):
        return result.detach().to_dense().numpy()
    if isinstance(result, tuple | list):
        return [plain(part) for part in result]
    if hasattr(result, "toarray"):  # a matrix of SciPy
        return result.toarray()
    if type(result).__name__ == "Factorized":  # is what it solves to
        return plain(result(np.ones(result.shape[0], result.dtype)))
    return result if isinstance(result, np.ndarray) else np.asarray(result)


def bound(
    call: Call, args: Any, kwargs: Any, function: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The call as a function of its arrays."""
    function = function or call.function
    count = len(leaves(args, np.ndarray))

    def of(*arrays: Any) -> Any:
        first, rest = iter(arrays[:count]), iter(arrays[count:])
        return function(
            *each(lambda _: next(first), args, np.ndarray), **each(lambda _: next(rest), kwargs, np.ndarray)
        )

    return of


def arrays_in(args: Any, kwargs: Any) -> list[Array]:
    return leaves([args, kwargs], np.ndarray)


def right(
    call: Call,
    args: Any,
    kwargs: Any,
    dtypes: tuple[str, ...],
    function: Any = None,
    oracle: Callable[[Call, Any, Any, tuple[str, ...]], Any] = expected,
) -> str:
    """Hold an eager call against the oracle: "compared", "refused" or "unknown" (by the oracle)."""
    xs = arrays_in(args, kwargs)
    try:
        wanted = oracle(call, args, kwargs, dtypes)
    except Unknown:
        wanted = None
    result = outcome(bound(call, args, kwargs, function), *map(iv.asarray, xs))
    if isinstance(result, IversonError):
        _in_words(result, call)
        if wanted is None:
            return "neither"
        if not isinstance(result, DTypeError) and call.name not in REFUSED:
            raise Difference(f"{result}, wanted {wanted}")
        return "refused"
    if wanted is None:
        return "unknown"
    single = RTOL[4] if call.name in KEEP_DTYPE and {"float32", "complex64"} & set(dtypes) else 0.0
    # Several ops, each rounded once: those of halves before they meet others.
    rounded = (
        len(set(dtypes)) > 1 and call.name in COMPOSED and not {"float16", "bfloat16"}.isdisjoint(dtypes)
    )
    same(result, wanted, UNIQUE.get(f"{call.space}.{call.name}"), BFLOAT16 if rounded else single)
    return "compared"


def same(result: Any, wanted: Any, unique: Callable[[Any], Any] | None = None, rtol: float = 0.0) -> None:
    """Raise Difference unless results have the structure, shapes, dtypes and entries that are wanted."""
    if isinstance(wanted, IversonError) or isinstance(result, IversonError):
        if type(result) is not type(wanted):
            raise Difference(f"got {_shown(result)}, wanted {_shown(wanted)}")
        return
    if isinstance(wanted, list) and unique is None:
        if not isinstance(result, list) or len(result) != len(wanted):
            raise Difference(f"got {_shown(result)}, wanted {len(wanted)} results")
        for a, b in zip(result, wanted, strict=True):
            same(a, b, None, rtol)
        return
    if unique is not None:
        if len(_list(result)) == len(_list(wanted)):
            for a, b in zip(_list(result), _list(wanted), strict=True):
                if a.ndim:
                    _alike(a, b)
        with np.errstate(all="ignore"):
            result, wanted = unique(result), unique(wanted)
        for a, b in zip(_list(result), _list(wanted), strict=True):
            close(a, b, None, rtol)
        return
    _alike(result, wanted)
    close(result, wanted, None, rtol)


def _list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


def _shown(x: Any) -> str:
    return f"{type(x).__name__}: {x}"


def _alike(a: Any, b: Any) -> None:
    if isinstance(a, list):
        raise Difference("several results where one is wanted")
    if a.shape != b.shape:
        raise Difference(f"shape {a.shape}, wanted {b.shape}")
    if a.dtype != b.dtype:
        raise Difference(f"dtype {a.dtype}, wanted {b.dtype}")


def close(a: Array, b: Array, mask: Any = None, rtol: float = 0.0) -> None:
    """Raise Difference unless entries are equal to rounding."""
    if a.dtype.kind in "biu" or a.dtype.kind not in "fcV":
        if not np.array_equal(a, b):
            raise Difference(f"entries {a}, wanted {b}")
        return
    size = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
    rtol = max(rtol, BFLOAT16 if a.dtype.kind == "V" else RTOL[size])
    a, b = (x.astype("complex128") for x in (a, b))
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
        equal = (np.abs(a - b) <= rtol * largest) | (a == b) | (np.isnan(a) & np.isnan(b))
    if mask is not None:
        equal |= mask
    if not equal.all():
        raise Difference(f"entries {a[~equal][:3]}, wanted {b[~equal][:3]}")


# --- modes ------------------------------------------------------------------------------------------


def compiled(call: Call, args: Any, kwargs: Any, function: Any = None) -> None:
    """jit gives what the eager call gives, or the error of the same kind."""
    of, xs = bound(call, args, kwargs, function), arrays_in(args, kwargs)
    found = outcome(iv.jit(of), *map(iv.asarray, xs))
    if not (isinstance(found, GraphError) and call.name in READS):
        _held(call, found, outcome(of, *map(iv.asarray, xs)))


def _held(call: Call, result: Any, wanted: Any) -> None:
    if isinstance(result, IversonError):
        _in_words(result, call)
    same(result, wanted)


def _in_words(error: IversonError, call: Call) -> None:
    if INTERNAL.search(str(error).replace(call.name, "")):
        raise Difference(f"the error names what is internal: {error}")


def viewed(call: Call, args: Any, kwargs: Any, view: str) -> None:
    """jit of a function that makes views of its operands gives what the function gives."""
    of, xs = bound(call, args, kwargs), arrays_in(args, kwargs)
    lasting = [x.lasting for x in leaves([call.args, call.kwargs])]

    def seen(*arrays: Any) -> Any:
        return of(*(a if own else VIEWS[view](iv, a) for a, own in zip(arrays, lasting, strict=True)))

    found = outcome(iv.jit(seen), *map(iv.asarray, xs))
    if not (isinstance(found, GraphError) and call.name in READS):
        _held(call, found, outcome(seen, *map(iv.asarray, xs)))


def mapped(call: Call, args: Any, kwargs: Any) -> None:
    """vmap over two examples gives what the call gives of each."""
    of, xs = bound(call, args, kwargs), arrays_in(args, kwargs)
    if not xs:
        return
    others = [
        x[::-1].copy() if x.ndim and x.dtype.kind in "fcV" and call.name not in SORTED else x for x in xs
    ]
    each_one = [outcome(of, *map(iv.asarray, some)) for some in (xs, others)]
    if any(isinstance(one, IversonError) for one in each_one):
        return
    found = outcome(iv.vmap(of), *(iv.asarray(np.stack(pair)) for pair in zip(xs, others, strict=True)))
    if isinstance(found, IversonError):
        if call.name in READS:
            return
        raise Difference(f"vmap refuses: {found}")
    for k, wanted in enumerate(each_one):
        same(_example(found, k), wanted)


#: Functions whose operands are in order.
SORTED = {
    "searchsorted",
    "interp",
    "solve_triangular",
    "cholesky_solve",
    "cholesky",
    "eigh",
    "eigvalsh",
    "logdet",
}


def _example(result: Any, k: int) -> Any:
    if isinstance(result, list):
        return [_example(part, k) for part in result]
    return result[k]


def layouts_of(x: Array) -> Iterator[str]:
    for layout in sparse_layouts():
        if x.ndim == 2 or (layout.dense_axes and x.ndim > 2) or layout.name == "coo":
            yield layout.name


def in_layouts(call: Call, args: Any, kwargs: Any, layout: str) -> str:
    """With operands in a layout a call gives the entries that it gives of arrays; where these are finite, as
    zeros are strong there. "refused" where it does not take the layout."""
    of = bound(call, args, kwargs)
    xs = [_thinned(x) if x.dtype.kind != "b" else x for x in arrays_in(args, kwargs)]
    wanted = outcome(of, *map(iv.asarray, xs))
    if isinstance(wanted, IversonError):
        return "neither"
    held = [_in_layout(x, layout) if x.ndim >= 1 and x.dtype.kind in "fciu" else iv.asarray(x) for x in xs]
    if not any(h.layout == layout for h in held):
        return "neither"
    found = outcome(of, *held)
    if isinstance(found, IversonError):
        _in_words(found, call)
        return "refused"
    for a, b in zip(_list(_flattened(found)), _list(_flattened(wanted)), strict=True):
        _alike(a, b)
        close(a, b, None if b.dtype.kind not in "fcV" else ~np.isfinite(b.astype("complex128")))
    return "compared"


def _flattened(x: Any) -> list[Any]:
    return [z for y in x for z in _flattened(y)] if isinstance(x, list) else [x]


def _thinned(x: Array) -> Array:
    """Every third entry 0."""
    thin = x.copy()
    if thin.ndim and thin.size > 1:
        thin.reshape(-1)[1::3] = 0
    return thin


def _in_layout(x: Array, layout: str) -> Any:
    try:
        return iv.to_layout(iv.asarray(x), layout)
    except IversonError:
        return iv.asarray(x)


def masked(call: Call, args: Any, kwargs: Any) -> str:
    """A masked tensor with all entries is a tensor."""
    of, xs = bound(call, args, kwargs), arrays_in(args, kwargs)
    wanted = outcome(of, *map(iv.asarray, xs))
    if isinstance(wanted, IversonError) or call.name in NOT_MASKED or any(x.size == 0 for x in xs):
        return "neither"  # a sum of nothing is unspecified
    held = [
        iv.masked_tensor(x, np.ones(x.shape, bool)) if x.dtype.kind in "fcV" else iv.asarray(x) for x in xs
    ]
    if not any(isinstance(h, iv.MaskedTensor) for h in held):
        return "neither"
    found = outcome(of, *held)
    if isinstance(found, IversonError):
        raise Difference(f"masked: {found}")
    same(found, wanted)
    return "compared"
