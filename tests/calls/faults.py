"""Faults, derived mechanically: each public function with each of them, and whether the calls notice.

A fault that changes nothing by what a function is does not count: one of axes where there is no axis, a
conjugate of a function of real numbers. That is decided by signatures, and by whether the fault changes any
of the calls that the error sweep makes of the function, on entries in general position.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import IversonError
from tests.calls.cases import Case, arrays, every, some
from tests.calls.modes import Difference, outcome, right, same
from tests.calls.operands import X, drawn, each
from tests.calls.oracles import oracle_of
from tests.calls.table import SPACES, Call, seeds

AXES = ("axis", "axes")
Function = Callable[..., Any]


def _axis_of(function: Function) -> str | None:
    parameters = inspect.signature(function).parameters
    return next((name for name in AXES if name in parameters), None)


def _with_axis(function: Function, change: Callable[[Any, int, Any], Any]) -> Function:
    """A function whose axis is changed: ``change(axis, rank, default)``."""
    signature = inspect.signature(function)
    name = _axis_of(function)

    @wraps(function)
    def faulty(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if name in given.arguments:
            first = next((a for a in each_array(args)), None)
            default = signature.parameters[name].default
            given.arguments[name] = change(given.arguments[name], getattr(first, "ndim", 0), default)
        return function(*given.args, **given.kwargs)

    return faulty


def each_array(tree: Any) -> Iterator[Any]:
    found: list[Any] = []
    each(found.append, tree, (iv.Tensor, np.ndarray))
    return iter(found)


def _moved(axis: Any, rank: int, _default: Any) -> Any:
    if isinstance(axis, tuple):
        return tuple(_moved(a, rank, None) for a in axis)
    return (axis + 1) % rank if isinstance(axis, int) and rank else axis


def _ignored(axis: Any, _rank: int, default: Any) -> Any:
    return axis if default is inspect.Parameter.empty else default


def _of_operands(change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """A fault in what is read: of each array among the arguments."""

    def fault(function: Function) -> Function:
        @wraps(function)
        def faulty(*args: Any, **kwargs: Any) -> Any:
            kinds = (iv.Tensor, np.ndarray)
            return function(*each(change, args, kinds), **each(change, kwargs, kinds))

        return faulty

    return fault


def _of_results(change: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[Function], Function]:
    """A fault in what is given back: ``change(result, operands)`` of each tensor among the results."""

    def fault(function: Function) -> Function:
        @wraps(function)
        def faulty(*args: Any, **kwargs: Any) -> Any:
            operands = tuple(each_array([args, kwargs]))
            return each(lambda y: change(y, operands), function(*args, **kwargs), iv.Tensor)

        return faulty

    return fault


def _conjugated(x: Any) -> Any:
    return iv.conj(x) if isinstance(x, iv.Tensor) and x.dtype.kind == "c" else x


def _widened(y: Any, _operands: Any) -> Any:
    wide = {"b": "int64", "c": "complex128"}.get(y.dtype.kind, "float64")
    return iv.astype(y, wide)


def _zeros_of_nothing(y: Any, operands: Any) -> Any:
    """Where an operand is empty: zeros, and at least one."""
    if all(x.size for x in operands):
        return y
    return iv.zeros(tuple(max(n, 1) for n in y.shape), dtype=y.dtype)


def _at_least_a_vector(y: Any, operands: Any) -> Any:
    return y if y.ndim and all(x.ndim for x in operands) else iv.reshape(y, (1, *y.shape))


def _without_last(y: Any, _operands: Any) -> Any:
    if not y.size:
        return y
    entries = y.to_dense().numpy().copy()
    entries.reshape(-1)[-1] = 0
    return iv.asarray(entries)


def _last_not_read(x: Any) -> Any:
    if (
        not isinstance(x, iv.Tensor)
        or x.layout != "strided"
        or x.ndim == 0
        or not x.size
        or x.dtype.kind not in "fc"
    ):
        return x
    return _without_last(x, ())


@dataclass(frozen=True)
class Fault:
    """A way to be wrong, which functions can be, and whether it changes all of those."""

    name: str
    spoil: Callable[[Function], Function]
    applies: Callable[[Function], bool] = lambda _: True
    always: bool = False


FAULTS = (
    Fault("axis ignored", lambda f: _with_axis(f, _ignored), lambda f: _axis_of(f) is not None, always=True),
    Fault("axis off by one", lambda f: _with_axis(f, _moved), lambda f: _axis_of(f) is not None, always=True),
    Fault("conjugate dropped", _of_operands(_conjugated)),
    Fault("dtype lost", _of_results(_widened)),
    Fault("empty returned as zeros", _of_results(_zeros_of_nothing)),
    Fault("0-d broadcast", _of_results(_at_least_a_vector)),
    Fault("last entry dropped", _of_results(_without_last)),
    Fault("last entry not read", _of_operands(_last_not_read)),
)


def changes(space: str, name: str, fault: Fault) -> bool:
    """Whether a fault changes a function at all: by its signature, or on calls that are not of the table."""
    if not fault.applies(getattr(SPACES[space], name)):
        return False
    return fault.always or any(_differs(call, fault) for call in _probes(space, name))


def _probes(space: str, name: str) -> Iterator[Call]:
    """The calls of the error sweep on entries in general position, on operands that are empty, or numbers."""
    for call in seeds(space, name):
        for shape in (lambda x: x.shape, lambda x: (0, *x.shape[1:]), lambda _x: ()):
            redrawn = lambda x, shape=shape: x if x.lasting else X(shape(x), 0.5, 2.5)
            yield Call(space, name, each(redrawn, call.args), each(redrawn, call.kwargs))
        yield call


def _differs(call: Call, fault: Fault) -> bool:
    spoiled = fault.spoil(call.function)
    for dtype in ("complex128", "float32"):
        args, kwargs = drawn((call.args, dict(call.kwargs)), (dtype,), 7)
        args, kwargs = each(iv.asarray, args, np.ndarray), each(iv.asarray, kwargs, np.ndarray)
        plain = outcome(partial(call.function, *args, **kwargs))
        if isinstance(plain, IversonError):
            continue
        try:
            same(outcome(partial(spoiled, *args, **kwargs)), plain)
        except (Difference, ValueError):
            return True
    return False


def caught(cases: list[Case], fault: Fault) -> bool:
    """Whether one of the calls of a function notices a fault."""
    for case in cases:
        call, dtypes, _ = case
        args, kwargs = arrays(case)
        try:
            right(call, args, kwargs, dtypes, fault.spoil(call.function))
        except (Difference, ValueError, TypeError, IndexError):
            return True
    return False


def survey(
    functions: list[tuple[str, str]], count: int = 0
) -> tuple[dict[str, list[int]], list[str], list[str]]:
    """Of each fault how many functions it changes and of how many it is noticed; those of which it is not;
    the functions that have no oracle."""
    table = {fault.name: [0, 0] for fault in FAULTS}
    survivors, unknown = [], []
    for space, name in functions:
        if oracle_of(space, name) is None:
            unknown.append(f"{space}.{name}")
            continue
        cases = some(space, name, count) if count else list(every(space, name))
        for fault in FAULTS:
            if changes(space, name, fault):
                table[fault.name][0] += 1
                if caught(cases, fault):
                    table[fault.name][1] += 1
                else:
                    survivors.append(f"{space}.{name}: {fault.name}")
    return table, survivors, unknown


def report(functions: list[tuple[str, str]], count: int = 0) -> float:
    """Print the table; the share that is noticed."""
    table, survivors, unknown = survey(functions, count)
    for name, (number, noticed) in table.items():
        sys.stdout.write(f"{name:26} {noticed:4} of {number:4}\n")
    total, noticed = (sum(row[k] for row in table.values()) for k in (0, 1))
    sys.stdout.write(f"{'all':26} {noticed:4} of {total:4} ({100 * noticed / max(total, 1):.1f}%)\n")
    sys.stdout.write("".join(f"survives: {one}\n" for one in survivors))
    sys.stdout.write(f"without an oracle: {' '.join(unknown)}\n")
    return noticed / max(total, 1)
