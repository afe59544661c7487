"""Kernel registry: the zero rule, then kernels by layout, then the documented conversion to strided.

Bodies and kernels see float16 or bfloat16 only where they move entries: an op on operands of half precision
is the op on them in float32, and its result is rounded once, when it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.errors import ArgumentError
from iverson.core.op import Op
from iverson.core.protocols import DType, LayoutValue, NDArray, Params
from iverson.core.table import TABLE
from iverson.layouts import Sparse, Zero, is_strided, layouts_by_type, to_strided

#: The operands of a call: values of layouts, and numbers.
Values = tuple[Any, ...]
Kernel = Callable[[Op, Values, Params], Any]

_kernels: dict[tuple[str, type], Kernel] = {}
#: Results of `_kernels_for`, by the name and family of an op and the types of its operands.
_kernels_by_types: dict[tuple[str, str, frozenset[type]], tuple[Kernel, ...]] = {}
#: In place of a name or family: a layout's kernel for every op that it has no other for.
ANY_OP = "*"
_plain = frozenset((np.ndarray, int, float, complex, bool))
_FLOAT64 = np.dtype("float64")


def register(family: str, kind: type) -> Callable[[Kernel], Kernel]:
    """Register a kernel for an op's name or family and a layout's value type, or a base of such types
    (``object``: of all).

    The kernel is called as ``kernel(op, values, params)`` when at least one value is of that type, and may
    return NotImplemented for calls it does not cover. A kernel for the type itself goes before its bases'.

    It returns an operand itself only where the op, with the other operands and the parameters given, is the
    identity in that operand: it is recorded as that. Where this value merely stays as it is (an entry that a
    reversed slice reads at its own place), it returns another object.
    """

    def add(kernel: Kernel) -> Kernel:
        if kind is np.ndarray and family != ANY_OP:
            raise ArgumentError(
                "register",
                "kind",
                got=f"the strided layout for '{family}'",
                expected="another layout",
                remedy="the body on strided operands is `forward` of the op's record",
            )
        _kernels[family, kind] = kernel
        _kernels_by_types.clear()
        return kernel

    return add


@register(ANY_OP, np.ndarray)
def strided(op: Op, values: Values, params: Params) -> Any:
    """The kernel of every op for the strided layout: the body that its record registers.

    `Op.trapping` is the same body, found beforehand for calls on strided operands alone.
    """
    return op.forward(*values, **params)


def registered() -> dict[tuple[str, type], Kernel]:
    """All kernels, by family or name and by type."""
    return dict(_kernels)


def replace_kernels(kernels: dict[tuple[str, type], Kernel]) -> None:
    """Replace all registered kernels by ``kernels``: for tests, which watch or remove some of them."""
    _kernels.clear()
    _kernels.update(kernels)
    _kernels_by_types.clear()


def annihilated(op: Op, values: Values) -> tuple[int, ...] | None:
    """Positions of a group of inputs that are all zero and in which the op is linear: the result is zero.

    The result is None if there is no such group.
    """
    if Zero not in map(type, values):
        return None
    for group in op.groups(len(values)):
        if group and all(type(values[k]) is Zero for k in group):
            return group
    return None


def zeros_like_result(op: Op, values: Values, params: Params) -> Any:
    """The op's result in the zero layout (a tuple of such values if the op has several results).

    Shapes and dtypes come from ``op.abstract``, which is called with Avals; Python scalars stay themselves,
    because their dtype is weak.
    """
    facts = _facts(op, values, params)
    if op.multiple:
        return tuple(Zero(a.shape, a.dtype) for a in facts)
    return Zero(facts.shape, facts.dtype)


def _facts(op: Op, values: Values, params: Params) -> Any:
    operands = [Aval(v.shape, v.dtype) if hasattr(v, "shape") else v for v in values]
    return op.abstract(*operands, **params)


def _by_priority(kind: type) -> int:
    return -layouts_by_type[kind].priority


def run(op: Op, values: Values, params: Params) -> Any:
    """Result of the op on ``values`` of any layouts: by the first kernel that covers them, else by its body.

    For the strided body, values of other layouts are converted. Operands of half precision are computed in
    float32.
    """
    kinds = frozenset(map(type, values))
    for v in values:
        if getattr(v, "dtype", _FLOAT64).itemsize == 2 and not op.as_stored:
            if (wide := _widened(op, values, kinds)) is not None:
                return _narrowed(op, values, params, wide)
            break
    kernels = None if Zero in kinds else _kernels_by_types.get((op.name, op.family, kinds))
    if not kernels:
        if kinds <= _plain:
            return strided(op, values, params)
        result = run_in_layouts(op, values, params, kinds)
        if result is not NotImplemented:
            return result
    else:
        for kernel in kernels:
            result = kernel(op, values, params)
            if result is not NotImplemented:
                return result
    largest = max(prod(v.shape) for v in values if type(v) not in _plain)
    quiet = any(is_strided(v) and v.ndim and entries_in_memory(v) >= largest for v in values)
    dense = tuple(v if type(v) in _plain else to_strided(v, op.name, quiet=quiet) for v in values)
    return strided(op, dense, params)


def _widened(op: Op, values: Values, kinds: frozenset[type]) -> tuple[Any, ...] | None:
    """Operands with those of half precision in float32; None if the op takes all operands unchanged.

    A body on strided operands that only moves entries takes half precision, if there is one dtype to move.
    Kernels of other layouts have compiled loops, which are for other dtypes.

    kinds : the types of ``values``.
    """
    if not any(getattr(v, "dtype", _FLOAT64).char in "eE" for v in values):
        return None
    inexact_dtypes = {v.dtype for v in values if hasattr(v, "dtype") and dtypes.is_inexact(v.dtype)}
    if op.entry_map.moves and not op.signals and kinds <= _plain and len(inexact_dtypes) == 1:
        return None
    return tuple([in_dtype(v, dtypes.widened(v.dtype)) if hasattr(v, "dtype") else v for v in values])


def _narrowed(op: Op, values: Values, params: Params, wide: Values) -> Any:
    """Result of the op on the operands ``wide`` (in float32), rounded to the dtype that ``values`` give it.

    If the result is one of the operands in float32, the operand in ``values`` itself is returned: the op is
    still the identity in this operand.
    """
    facts = _facts(op, values, params)
    out = run(op, wide, params)
    if op.multiple:
        return tuple([in_dtype(o, a.dtype) for o, a in zip(out, facts, strict=True)])
    for operand, v in zip(values, wide, strict=True):
        if out is v and operand is not v and operand.dtype == facts.dtype:
            return operand
    return in_dtype(np.asarray(out) if isinstance(out, np.generic) else out, facts.dtype)


def in_dtype(value: LayoutValue, dtype: DType) -> Any:
    """A value of any layout in a dtype; the value itself where that is its own."""
    return value if value.dtype == dtype else run(TABLE["astype"], (value,), {"dtype": dtype})


def entries_in_memory(array: NDArray) -> int:
    """The number of entries of an array in memory: entries repeated by a stride of 0 count once."""
    return prod(n for n, step in zip(array.shape, array.strides, strict=True) if step)


def run_in_layouts(op: Op, values: Values, params: Params, kinds: frozenset[type] | None = None) -> Any:
    """The result of `run`, but NotImplemented where no kernel fits the layouts: nothing is made strided.

    kinds : the types of the values, where the caller knows them.
    """
    if kinds is None:
        kinds = frozenset(map(type, values))
    if Zero in kinds and op.linear_in:
        if annihilated(op, values) is not None:
            return zeros_like_result(op, values, params)
        if op.name == "add_n":
            return _of_other_terms(op, values, params)
    kernels = _kernels_by_types.get((op.name, op.family, kinds))
    for kernel in _kernels_for(op, kinds) if kernels is None else kernels:
        result = kernel(op, values, params)
        if result is not NotImplemented:
            return result
    return NotImplemented


def _of_other_terms(op: Op, values: Values, params: Params) -> Any:
    """Sum (``add_n``) without the values of the zero layout, whose dtypes count nevertheless."""
    terms = tuple([v for v in values if type(v) is not Zero])
    return in_dtype(run(op, terms, params), _facts(op, values, params).dtype)


def _kernels_for(op: Op, kinds: frozenset[type]) -> tuple[Kernel, ...]:
    """The kernels to try for operands of these types, those of a layout of higher priority first."""
    kernels = _kernels_by_types.get((op.name, op.family, kinds))
    if kernels is not None:
        return kernels
    kernels_by_kind = [kernels_of(op, kind) for kind in sorted(kinds - _plain, key=_by_priority)]
    return _kernels_by_types.setdefault(
        (op.name, op.family, kinds), tuple(chain.from_iterable(kernels_by_kind))
    )


def may_store(op: Op) -> bool:
    """True if a sparse layout has a kernel for an op, so that its result may be sparse."""
    kinds = (frozenset((kind,)) for kind in layouts_by_type if issubclass(kind, Sparse))
    return any(_kernels_for(op, kind) for kind in kinds)


def kernels_of(op: Op, kind: type) -> list[Kernel]:
    """The kernels of an op for a layout's type, those of the type itself and of the op's name first."""
    families = (op.name, op.family, ANY_OP)
    keys = [(family, base) for base in kind.__mro__ for family in families]
    return [_kernels[k] for k in dict.fromkeys(keys) if k in _kernels]
