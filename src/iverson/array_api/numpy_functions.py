"""NumPy's functions called on our arrays: ``numpy.sin(x)``, ``numpy.mean(x, axis=0)``.

They are ours of the same name (NEP 13 and NEP 18), so their results differentiate; arguments that only
NumPy has are refused. A function that Iverson lacks is left to NumPy, on the entries of a tensor that
tracks no gradient. ``numpy.asarray`` and methods of NumPy's arrays are not handed over: these convert
or raise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature, signature
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from iverson.array_api.conventions.operands import SCALARS, as_operand, as_tuple, cast
from iverson.core import dtypes
from iverson.core.dispatch import Operand, Wrapper, is_tracked, slot_of, unwrap
from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError, described
from iverson.core.protocols import NDArray
from iverson.core.python.foreign_names import NAMES
from iverson.core.python.scipy_calls import counterpart_function, running_call, way_out
from iverson.core.shapes import check_choice
from iverson.handles.array import Array
from iverson.layouts.pattern_symbols import handed_out
from iverson.ops import F

if TYPE_CHECKING:
    from iverson.handles.typing import ArrayLike, Axes

#: A function of NumPy, or ours for it.
NumPyFunction: TypeAlias = Callable[..., Any]
#: An argument of a function of NumPy, of whatever type NumPy takes there.
Argument: TypeAlias = Any
#: Ours for a method of a binary ufunc.
_REDUCED = {
    "add": "sum", "logical_and": "all", "logical_or": "any", "maximum": "max", "minimum": "min",
    "multiply": "prod",
}  # fmt: skip
_ACCUMULATED = {"add": "cumulative_sum", "multiply": "cumulative_prod"}
#: Arguments that are called otherwise in NumPy.
_RENAMED = {"a_min": "min", "a_max": "max", "ddof": "correction", "newshape": "shape"}
#: What is a function of both, and not the same: ours writes files of its own, and into no argument. SciPy
#: takes `numpy.atleast_1d` on the way into its compiled code, which hides our errors: it is refused by name.
_UNLIKE = {"atleast_1d", "fill_diagonal", "save"}
_SPACES = {"numpy.linalg": "linalg", "numpy.fft": "fft"}
#: What our functions call a parameter that is one array: NumPy takes a sequence of numbers there.
_ARRAYS = {"a", "b", "fp", "indices", "p", "q", "values", "x", "x1", "x2", "xp"}
#: What has no derivative: comparisons and texts.
_CONSTANT = {
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "isclose",
}  # fmt: skip
#: The standard's functions of one name that mean something else for more than two axes.
_OF_MATRICES = {"diagonal", "trace"}


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Result of a ufunc of NumPy on our arrays, by our function of the same name; for ``numpy.sin(x)``,
    ``array + x``.

    method : "__call__", "reduce", "accumulate" or "outer". The result is NotImplemented for operands of other
        types.
    """
    if not all(isinstance(x, (Operand, np.ndarray, np.generic, list, tuple, *SCALARS)) for x in inputs):
        return NotImplemented
    library = "numpy" if hasattr(np, ufunc.__name__) else "scipy.special"
    name = f"{library}.{ufunc.__name__}" + f".{method}" * (method != "__call__")
    outputs = [x for x in as_tuple(options.get("out")) if x is not None]
    if all(isinstance(x, np.ndarray) for x in outputs) and outputs and not any(map(_is_tracked, inputs)):
        return _by_numpy(name, getattr(ufunc, method), inputs, options)  # array += x
    _refuse_output(name, options)
    if options.get("where", True) is not True:
        _refuse(name, "where", options["where"])
    options.pop("where", None)
    function = _of_ufunc(ufunc.__name__, method)
    if function is None:
        return _by_numpy(name, getattr(ufunc, method), inputs, options)
    dtype = options.pop("dtype", None)
    operands = [x if type(x) in SCALARS else _operand(x, name) for x in inputs]
    if dtype is not None:
        if any(isinstance(x, Wrapper) for x in inputs[1:]):  # as Dask's matmul adds what chunks contribute
            raise ArgumentError(
                name,
                "dtype",
                got=described(dtype),
                expected="none, of masked operands",
                remedy="use astype; for Dask's products of masked chunks, iverson.interop.dask.matmul",
            )
        operands = [cast(as_operand(x, name), dtypes.as_dtype(dtype, name)) for x in operands]
    allowed = {"axis", "keepdims"} if method in ("reduce", "accumulate") else set()
    if ufunc.__name__ == "vecdot":
        allowed = {"axis"}
    ignored = {"order": "K", "subok": True, "casting": "same_kind", "keepdims": False}
    for key, value in options.items():
        if key not in allowed and (key not in ignored or value != ignored[key]):
            _refuse(name, key, value)
    return function(*operands, **{k: v for k, v in options.items() if k in allowed})


def _is_tracked(x: Argument) -> bool:
    return isinstance(x, Operand) and is_tracked(unwrap(x))


def _operand(x: Any, name: str) -> Any:
    from iverson.handles import asarray

    return asarray(x) if isinstance(x, (list, tuple)) else as_operand(x, name)


def _divmod(a: Argument, b: Argument) -> Any:
    return a // b, a % b


def _modf(x: Argument) -> Any:
    trunc: Any = _ours("", "trunc")
    integer = trunc(x)
    return x - integer, integer


#: Ufuncs of several results.
_SEVERAL: dict[str, Callable[..., Any]] = {"divmod": _divmod, "modf": _modf}


def _of_ufunc(name: str, method: str) -> Callable[..., Any] | None:
    """Our function for a method of a ufunc; None if there is none."""
    if method == "__call__":
        if name in _SEVERAL:
            return _SEVERAL[name]
        ours = _ours("", NAMES.get(name, name)) or _ours("special", name)  # SciPy's have no module
        return ours or counterpart_function(f"scipy.special.{name}")
    if method == "reduce" and name in _REDUCED:
        fold: Any = _ours("", _REDUCED[name])
        return lambda x, axis=0, keepdims=False: fold(x, axis=axis, keepdims=keepdims)
    if method == "accumulate" and name in _ACCUMULATED:
        scan: Any = _ours("", _ACCUMULATED[name])
        return lambda x, axis=0: scan(x, axis=axis)
    if method == "outer" and (binary := _ours("", NAMES.get(name, name))) is not None:
        return lambda a, b: _outer(binary, a, b)
    return None


def _outer(binary: NumPyFunction, a: Array | ArrayLike, b: Array | ArrayLike) -> Any:
    a, b = as_operand(a, "outer", "a"), as_operand(b, "outer", "b")
    if b.ndim:
        a = F.expand_dims(a, axis=tuple(range(a.ndim, a.ndim + b.ndim)))
    return binary(a, b)


def array_function(
    self: Array, function: NumPyFunction, types: Iterable[type], args: Sequence[Any], kwargs: Any
) -> Any:
    """Result of a function of NumPy on our arrays, by our function of the same name; for ``numpy.mean(x,
    axis=0)``.

    Arguments are translated to ours. The result is NotImplemented if arrays of other types are involved.
    """
    if not all(issubclass(t, (Array, np.ndarray)) for t in types):
        return NotImplemented
    module = getattr(function, "__module__", "numpy")
    plain_name = function.__name__
    name = f"{module}.{plain_name}"
    if module in ("numpy", "numpy.lib.stride_tricks") and plain_name in _OWN:
        return _OWN[plain_name](*args, **kwargs)
    ours = _ours(_SPACES.get(module, ""), NAMES.get(plain_name, plain_name))
    if plain_name in _UNLIKE:
        return _by_numpy(name, function, args, kwargs)
    if ours is None and module == "numpy":
        ours = _ours("linalg", plain_name)
    if ours is None or not (module in _SPACES or module == "numpy"):
        return _by_numpy(name, function, args, kwargs)
    _refuse_output(name, kwargs)
    if plain_name in _OF_MATRICES and as_operand(args[0], name).ndim != 2:
        raise ShapeError(
            name,
            "a",
            got=f"shape {args[0].shape}",
            expected="a matrix",
            remedy="use iverson.linalg",
        )
    positional, options = _translated(name, function, ours, args, kwargs)
    return ours(*positional, **options)


#: NumPy's functions that are written in C: before NumPy 2.4 they say nothing of their parameters.
_IN_C: dict[str, Callable[..., Any]] = {
    "bincount": lambda x, /, weights=None, minlength=0: None,
    "can_cast": lambda from_, to, casting="safe": None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "result_type": lambda *arrays_and_dtypes: None,
    "where": lambda condition, x=None, y=None, /: None,
}


def _signature_of(function: NumPyFunction) -> Signature:
    try:
        return signature(function)
    except ValueError:
        return signature(_IN_C[function.__name__])


def _translated(
    name: str,
    function: NumPyFunction,
    ours: NumPyFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments of our function, from those of a call of NumPy's.

    Raises ArgumentError for arguments that only NumPy has, unless they have their default.
    """
    their_signature = _signature_of(function)
    theirs = their_signature.parameters
    accepted = signature(ours).parameters
    lead = [p for p, _ in zip(theirs, _positional(accepted), strict=False)]
    positional: list[Any] = []
    options: dict[str, Any] = {}
    for key, value in their_signature.bind(*args, **kwargs).arguments.items():
        parameter, renamed = theirs[key], _RENAMED.get(key, key)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            options.update(value)
        elif key in lead:
            array = isinstance(value, (list, tuple)) and _positional(accepted)[lead.index(key)] in _ARRAYS
            positional.append(_operand(value, name) if array else value)
        elif _is_default(value, parameter) or (key == "where" and value is True):
            continue
        elif renamed in accepted:
            array = isinstance(value, (list, tuple)) and renamed in _ARRAYS
            options[renamed] = _operand(value, name) if array else value
        else:
            _refuse(name, key, value)
    for key, value in options.items():
        if key not in accepted:
            _refuse(name, key, value)
    for key, parameter in list(accepted.items())[len(positional) :]:  # what only NumPy has a default for
        if parameter.default is Parameter.empty and key in theirs and key not in options:
            default = theirs[key].default
            if default is not Parameter.empty and parameter.kind is not Parameter.VAR_POSITIONAL:
                options[key] = default
    return positional, options


def _positional(parameters: Mapping[str, Parameter]) -> list[str]:
    return [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]


def _is_default(value: Any, parameter: Parameter) -> bool:
    default = parameter.default
    plain = type(value) is type(default) and type(value) in (str, bool, int, float)
    return value is default or (plain and value == default)


@cache
def _ours(space: str, name: str) -> Callable[..., Any] | None:
    """Public function ``name`` of Iverson, in the namespace ``space`` ("" for the main one); None if there is
    none.
    """
    namespace = sys.modules["iverson"]
    namespace = getattr(namespace, space) if space else namespace
    candidate = getattr(namespace, name, None) if name in namespace.__all__ else None
    return candidate if callable(candidate) and not isinstance(candidate, type) else None


def _several(*names: str) -> Any:
    """Public functions of the main namespace."""
    return tuple(_ours("", name) for name in names)


def _refuse_output(name: str, options: dict[str, object]) -> None:
    """Remove ``out`` from ``options``; raises ArgumentTypeError if it is an array."""
    out = options.pop("out", None)
    outputs = [o for o in (out if isinstance(out, tuple) else (out,)) if o is not None]
    if outputs:
        raise ArgumentTypeError(
            name,
            "out",
            got=described(outputs[0]),
            expected="None: results are new tensors, and an array of NumPy carries no gradient",
            remedy="use what the function returns (a = a + x in place of a += x), or call x.detach().numpy()",
        )


def _refuse(name: str, argument: str, value: Any) -> None:
    """Raise ArgumentError for an argument of NumPy's function that ours does not have."""
    remedies = {
        "where": "use iverson.where on the result, or a masked tensor",
        "dtype": "convert the result with astype",
        "initial": "combine the result with it",
    }
    raise ArgumentError(
        name,
        argument,
        got=described(value),
        expected="none: Iverson's function has no such argument",
        remedy=remedies.get(argument, "leave it out, or call x.detach().numpy() first"),
    )


def _by_numpy(name: str, function: NumPyFunction, args: Any, options: Any) -> Any:
    """Result of NumPy's own function on the entries of the tensors; raises GradientError if one is tracked.

    A function whose result has no derivative may be called on tracked tensors.
    """
    constant = name.rpartition(".")[2] in _CONSTANT
    return function(*_entries(name, args, constant), **_entries(name, options, constant))


def _entries(name: str, tree: Any, constant: bool) -> Any:
    """Arguments, in nested containers, with tensors replaced by NumPy arrays.

    constant : True if tracked tensors are allowed, since the result has no derivative.
    """
    if type(tree) in (list, tuple):
        return type(tree)(_entries(name, item, constant) for item in tree)
    if type(tree) is dict:
        return {key: _entries(name, value, constant) for key, value in tree.items()}
    if not isinstance(tree, Array):
        return tree
    tensor = unwrap(tree)
    if constant:
        tree = tree.detach()
    elif is_tracked(tensor):
        theirs = running_call()
        raise GradientError(
            theirs or name,
            "" if theirs else "x",
            got=f"a tensor that tracks gradients ({slot_of(tensor)[0].describe()})",
            expected=f"a function that Iverson has: {name if theirs else 'this one'} is NumPy's alone",
            remedy=way_out(theirs)
            if theirs
            else "write it with functions of iverson, or call x.detach() first",
        )
    return np.asarray(tree)


def _dot(a: Array | ArrayLike, b: Array | ArrayLike, out: Argument = None) -> Any:
    """Result of ``numpy.dot``: a product with a number, or a matrix product if ``b`` has at most two axes."""
    _refuse_output("numpy.dot", {"out": out})
    a, b = as_operand(a, "numpy.dot", "a"), as_operand(b, "numpy.dot", "b")
    if not a.ndim or not b.ndim:
        return a * b
    if b.ndim > 2:
        raise ShapeError(
            "numpy.dot",
            "b",
            got=f"shape {b.shape}",
            expected="at most two axes",
            remedy="use tensordot or matmul",
        )
    return a @ b


def _where(condition: Any, *branches: Array | ArrayLike) -> Any:
    if not branches:
        return as_operand(condition, "numpy.where").nonzero()
    ours: Any = _ours("", "where")
    condition = _operand(condition, "numpy.where")
    return ours(condition if condition.dtype.kind == "b" else condition != 0, *branches)


def _flat(a: Array | ArrayLike, order: str = "C") -> Any:
    if order != "C":
        _refuse("numpy.ravel", "order", order)
    return as_operand(a, "numpy.ravel").reshape(-1)


def _swapped(a: Array | ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Any:
    a = as_operand(a, "numpy.swapaxes")
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return a.permute_dims(tuple(order))


def _joined(axis: int, rank: int) -> Callable[..., Any]:
    """Function for ``vstack`` or ``hstack``: arrays of at least ``rank`` axes concatenated along ``axis``."""

    def join(tup: Sequence[Array | ArrayLike]) -> Any:
        arrays = [as_operand(x, "numpy.stack", f"tup[{k}]") for k, x in enumerate(tup)]
        arrays = [x if x.ndim >= rank else x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]
        concat: Any = _ours("", "concat")
        return concat(arrays, axis=axis if arrays[0].ndim > 1 else 0)

    return join


def _along_flat(name: str) -> Callable[..., Any]:
    """A function along an axis that NumPy runs along the flattened array where the axis is None."""

    def call(
        a: Array | ArrayLike, axis: int | None = None, dtype: Argument = None, out: Argument = None
    ) -> Any:
        _refuse_output(f"numpy.{name}", {"out": out})
        x, ours = _operand(a, f"numpy.{name}"), _ours("", NAMES.get(name, name))
        assert ours is not None
        x = x.reshape(-1) if axis is None else x
        result = ours(x, axis=0 if axis is None else axis)
        return result if dtype is None else result.astype(dtype)

    return call


#: What NumPy calls its algorithms for sorting. Ours is stable, which is within what each of them promises.
_ALGORITHMS = ("quicksort", "heapsort", "mergesort", "stable")


def _sorted(name: str) -> Callable[..., Any]:
    def call(
        a: Array | ArrayLike,
        axis: int | None = -1,
        kind: Argument = None,
        order: Argument = None,
        *,
        stable: bool | None = None,
    ) -> Any:
        if order is not None:
            _refuse(f"numpy.{name}", "order", order)
        if kind is not None:
            check_choice(kind, _ALGORITHMS, f"numpy.{name}", "kind")
        x, ours = _operand(a, f"numpy.{name}"), _ours("", name)
        assert ours is not None
        return ours(x.reshape(-1), axis=0) if axis is None else ours(x, axis=axis)

    return call


def _take(
    a: Array | ArrayLike,
    indices: Argument,
    axis: int | None = None,
    out: Argument = None,
    mode: str = "raise",
) -> Any:
    """``numpy.take``: of the flattened array without an axis; indices beyond are refused, clipped or
    wrapped."""
    _refuse_output("numpy.take", {"out": out})
    x, at = _operand(a, "numpy.take"), _operand(indices, "numpy.take")
    x = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else axis
    ours: Any = _ours("", "clip")
    if mode != "raise":
        at = ours(at, 0, x.shape[axis] - 1) if mode == "clip" else at % x.shape[axis]
    if at.ndim == 1:
        take: Any = _ours("", "take")
        return take(x, at, axis=axis)
    return x[(slice(None),) * (axis % x.ndim) + (at,)]


def _compress(
    condition: Argument, a: Array | ArrayLike, axis: int | None = None, out: Argument = None
) -> Any:
    at = np.flatnonzero(np.asarray(condition))
    return _take(a, at, axis, out)


def _interp(
    x: Argument,
    xp: Argument,
    fp: Argument,
    below: Argument = None,
    above: Argument = None,
    period: float | None = None,
    **ends: Argument,
) -> Any:
    """``numpy.interp``, with its values beyond the points, or a period."""
    x, xp, fp = (_operand(v, "numpy.interp") for v in (x, xp, fp))
    below, above = ends.get("left", below), ends.get("right", above)
    ours, where, concat = _several("interp", "where", "concat")
    if period is not None:
        span = abs(period)
        x, xp = x % span, xp % span
        order = xp.argsort()
        xp, fp = xp[order], fp[order]
        xp = concat([xp[-1:] - span, xp, xp[:1] + span])
        return ours(x, xp, concat([fp[-1:], fp, fp[:1]]))
    y = ours(x, xp, fp)
    y = y if below is None else where(x < xp[0], below, y)
    return y if above is None else where(x > xp[-1], above, y)


def _diff(a: Argument, n: int = 1, axis: int = -1, prepend: Argument = None, append: Argument = None) -> Any:
    """``numpy.diff``, whose values before and after may be numbers."""
    x = _operand(a, "numpy.diff")
    broadcast, ours = _several("broadcast_to", "diff")
    edge = list(x.shape)
    edge[axis] = 1

    def side(value: Argument) -> Any:
        if value is None or value is np._NoValue:
            return None
        v = _operand(value, "numpy.diff")
        return broadcast(v, tuple(edge)) if v.ndim == 0 else v

    return ours(x, n=n, axis=axis, prepend=side(prepend), append=side(append))


def _round(a: Array | ArrayLike, decimals: int = 0, out: Argument = None) -> Any:
    _refuse_output("numpy.round", {"out": out})
    ours: Any = _ours("", "round")
    return ours(_operand(a, "numpy.round"), decimals=decimals)


def _each(name: str) -> Callable[..., Any]:
    """``atleast_1d`` and its like, of one array or several."""

    def call(*arrays: NDArray) -> Any:
        ours: Any = _ours("", name)
        results = tuple(ours(x) for x in arrays)
        return results[0] if len(results) == 1 else results

    return call


def _gradient(f: Argument, *spacing: Argument, axis: Axes = None, edge_order: int = 1) -> Any:
    """``numpy.gradient``, whose places may be sequences."""
    ours: Any = _ours("", "gradient")
    steps = [step if isinstance(step, SCALARS) else _operand(step, "numpy.gradient") for step in spacing]
    return ours(f, *steps, axis=axis, edge_order=edge_order)


def sliding_window_view(
    x: Array | ArrayLike, window_shape: Argument, axis: Axes = None, **_: Argument
) -> Any:
    """The windows of an array along axes, each along a further last axis: a copy, where NumPy gives a
    view."""
    view = _operand(x, "sliding_window_view")
    sizes = as_tuple(window_shape)
    axes = tuple(range(view.ndim)) if axis is None else tuple(k % view.ndim for k in as_tuple(axis))
    moveaxis: Any = _ours("", "moveaxis")
    for size, k in zip(sizes, axes, strict=True):
        at = np.arange(view.shape[k] - size + 1)[:, None] + np.arange(size)
        view = moveaxis(view[(slice(None),) * k + (at,)], k + 1, -1)
    return view


#: NumPy's `lib`, of which xarray reads one function.
LIB = SimpleNamespace(stride_tricks=SimpleNamespace(sliding_window_view=sliding_window_view))


#: What is said here: facts, and functions whose meaning in NumPy is more than that of ours.
_OWN: dict[str, Callable[..., Any]] = {
    **{name: _each(name) for name in ("atleast_2d", "atleast_3d")},
    **{name: _along_flat(name) for name in ("cumprod", "cumsum")},
    **{name: _sorted(name) for name in ("argsort", "sort")},
    **dict.fromkeys(("around", "round"), _round),
    "compress": _compress,
    "diff": _diff,
    "interp": _interp,
    "take": _take,
    "copy": lambda a, order="K", subok=False: F.copy(a),
    "dot": _dot,
    "gradient": _gradient,
    "hstack": _joined(1, 1),
    "iscomplexobj": lambda x: x.dtype.kind == "c",
    "isrealobj": lambda x: x.dtype.kind != "c",
    "ndim": lambda a: a.ndim,
    "ravel": _flat,
    "sliding_window_view": sliding_window_view,
    "shape": lambda a: handed_out(a.shape, 2),
    "size": lambda a, axis=None: handed_out(
        prod(a.shape if axis is None else [a.shape[k] for k in as_tuple(axis)]), 2
    ),
    "swapaxes": _swapped,
    "vstack": _joined(0, 2),
    "where": _where,
}


def bind_numpy() -> None:
    """Set the methods of `Array` by which NumPy's functions are replaced by ours."""
    Array.__array_ufunc__ = array_ufunc
    Array.__array_function__ = array_function


bind_numpy()
