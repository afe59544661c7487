"""Eager interpreter: carries out an op now and, where a gradient may be asked for, records it.

This is the hot path of every eager call, so it is one function with the common case first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import is_not
from typing import Any

import numpy as np

from iverson.autograd import unrecorded_values
from iverson.autograd.mode import is_grad_enabled
from iverson.autograd.node import UNKNOWN, WHOLE, Node, differentiated, make_node, user_call
from iverson.core import dispatch
from iverson.core import entries as entries_of
from iverson.core.aval import Aval, aval_of, has_shape
from iverson.core.counting import checks, cost, work
from iverson.core.counting.factorisations import FACTORISATIONS, multiply_adds
from iverson.core.dispatch import Handle, Interpreter, Level, LevelValue, make_handle, register_interpreter
from iverson.core.entries import FULL, Entries, Full, Stored
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    IversonError,
    OutOfMemoryError,
    described,
    way_in,
)
from iverson.core.float_warnings import (
    UNSET,
    UNSET_RELAYED,
    _relayed,
    again,
    error_state,
    is_of_user,
    is_trapped,
    relayed,
    reset_error_state,
    set_error_state,
)
from iverson.core.inputs.arrays import plain
from iverson.core.op import Op
from iverson.core.protocols import LayoutValue, NDArray, Params, Shaped
from iverson.core.python.caller import user_frame
from iverson.core.table import F, overrides
from iverson.kernels.deferred_patterns import with_origin
from iverson.kernels.kernel_registry import annihilated, run, zeros_like_result
from iverson.layouts import Bracket, Pattern, Sparse, Zero, entries, layouts_by_type, new_bytes, select

_SCALARS = frozenset((int, float, complex, bool))
_ndarray = np.ndarray
_new, _asarray = object.__new__, np.asarray
_handle_type = dispatch._handle
_NODE, _NONES = repeat("_node"), repeat(None)


def bind(op: Op, args: tuple[Any, ...], params: Params) -> Any:
    """Carry out an op and record it if an argument is tracked; returns a handle, or a tuple of them."""
    handle = _handle_type[0]
    values: list[Any] = []
    parents: list[Node | None] = []
    any_tracked = mixed = False
    level: Any = None
    plain = True
    for a in args:
        if type(a) is handle:
            v = a._value
            if (node := a._node) is not None:
                any_tracked = True
            parents.append(node)
            if type(v) is not _ndarray:
                plain = False
                if isinstance(v, LevelValue):
                    mixed = mixed or (level is not None and level is not v._level)
                    level = v._level
            elif v.itemsize == 2:  # of half precision, perhaps, which `run` knows
                plain = False
        elif type(a) in _SCALARS or type(a) is _ndarray:
            v = a
            parents.append(None)
            if type(a) is _ndarray and v.itemsize == 2:
                plain = False
        elif (other := dispatch.foreign(args)) is not None:
            if dispatch.with_cells.count and (cells := dispatch.cells()) is not None:
                cells.reading(args)
            return other.bind(op, args, params)
        else:
            v = _value_of(op, a)
            parents.append(getattr(a, "_node", None))
            plain = plain and type(v) is _ndarray and v.itemsize != 2
            if isinstance(v, LevelValue):
                mixed = mixed or (level is not None and level is not v._level)
                level = v._level
        values.append(v)
    if level is None and dispatch.with_cells.count and (cells := dispatch.cells()) is not None:
        cells.reading(args)
    token = None
    if level is None and (op.signals or not plain):  # in a level, each op that it is carried out by does so
        state = error_state()
        relaying = UNSET_RELAYED if state is UNSET else _relayed.get(state) or relayed(state)
        if relaying is not state:
            token = set_error_state(relaying)
    try:
        if any_tracked and level is None and dispatch.levels() and (cells := dispatch.cells()) is not None:
            plain = False
            out = cells.bind(op, args, params)
        elif plain:
            out = op.trapping(*values, **params) if params else op.trapping(*values)
        elif level is not None:
            if mixed or level not in dispatch.levels():
                level = dispatch.level_of(values)
            if Zero in map(type, values) and op.linear_in:
                out = _run_in(level, op, args, values, params)
            else:
                out = level.bind(op, dispatch.seen_from(level, args, values), params)
        else:
            out = run(op, tuple(values), params)
    except (IversonError, Warning, FloatingPointError):
        raise  # a warning that the user made an error stays what it is
    except MemoryError as error:
        raise OutOfMemoryError(op.name, got=", ".join(map(_described, values)), remedy=str(error)) from error
    except Exception as error:
        if is_of_user(error):
            raise
        if not is_trapped(error):
            raise _explained(op, values, params, error) from error
        out = again(op.forward, values, params)
    finally:
        if token is not None:
            reset_error_state(token)
    if type(out) is not _ndarray and (op.multiple or type(out) not in layouts_by_type):
        out = _normalized(out) if op.multiple else _asarray(out)
    if not plain and Zero in map(type, out if op.multiple else (out,)):
        out = with_origin(op, args, params, out)
    if work.active.count:
        _report(op, out, values, params)
    if not any_tracked or not is_grad_enabled():
        if op.multiple:
            result: Any = tuple(map(handle, out))
        else:  # `make_handle`, without a call
            result = _new(handle)
            result._value, result._node, result._index = out, None, 0
        if unrecorded_values.calls.count:
            unrecorded_values.mark(result if op.multiple else (result,), args)
        return result
    if unrecorded_values.calls.count:
        parents = unrecorded_values.barred(parents, args)
    return _record(op, args, params, values, parents, plain, out)


def _run_in(
    level: Level, op: Op, args: tuple[Any, ...], values: Sequence[Shaped | complex], params: Params
) -> Any:
    """Op's result as a value of ``level``; a constant zero, without a call, if zero operands make it zero."""
    if annihilated(op, tuple(values)) is not None:
        if work.active.count:
            from iverson.core.counting.notes import Annihilated

            where = differentiated.get() or user_call()
            work.note(Annihilated(op, tuple(map(_avals, values)), params, where))
        return zeros_like_result(op, tuple(values), params)
    return level.bind(op, dispatch.seen_from(level, args, values), params)


def _record(
    op: Op,
    args: tuple[Any, ...],
    params: Params,
    values: list[Any],
    parents: list[Node | None],
    plain: bool,
    out: Any,
) -> Any:
    """Handles of the result(s) ``out`` with a new node, or without one if no derivative can flow.

    values : the value of each argument; changed in place to what the node keeps of it.
    parents : the node of each argument, or None.
    plain : True if all values are strided.
    """
    handle = _handle_type[0]
    if not op.differentiable or (not op.multiple and out.dtype.kind not in "fcV"):
        return tuple(map(handle, out)) if op.multiple else handle(out)
    if op.constant_in:
        parents = [None if k in op.constant_in else p for k, p in enumerate(parents)]
        if all(p is None for p in parents):
            return tuple(map(handle, out)) if op.multiple else handle(out)
    may_simplify = not plain and (type(out) is Zero or id(out) in map(id, values))
    if may_simplify and (operand_position := _simplified(op, values, parents, out)) is not None:
        # The result is a constant zero, or one of the operands as it was.
        k = operand_position[0]
        return handle(out) if k < 0 else handle(out, parents[k], max(args[k]._index, 0))
    if not plain and Zero in map(type, out if op.multiple else (out,)):
        out = _recorded_zeros(op, values, out)
    tracked_mask = tuple(map(is_not, parents, _NONES)) if None in parents else (True,) * len(parents)
    saved, result_saved = op.plans.get(tracked_mask) or op.saves(tracked_mask)
    if op.name in overrides():
        saved, result_saved = (True,) * len(saved), True
    indices = (0,) * len(parents)
    out_is_dense = getattr(out, "dense", False)
    all_dense = plain or out_is_dense
    for k, keep in enumerate(saved):
        parent_out = None
        if (parent := parents[k]) is not None:
            parent_out = parent.out
            if parent.multiple:
                indices = (*indices[:k], max(args[k]._index, 0), *indices[k + 1 :])
        v = values[k]
        dense = type(v) is _ndarray or getattr(v, "dense", False)
        all_dense = all_dense and (dense or type(v) in _SCALARS)
        if not keep:
            if dense:  # what its own node knows of it serves this one too
                if type(parent_out) is Aval and parent_out.support is FULL:
                    values[k] = parent_out
                else:
                    values[k] = Aval(v.shape, v.dtype)
            elif type(v) not in _SCALARS:
                values[k] = (
                    parent_out
                    if type(parent_out) is Aval and _is_on_pattern(parent_out.support, v)
                    else _known(v)
                )
    reads = WHOLE if all_dense and not op.entry_map.partial else UNKNOWN
    if type(out) is _ndarray:
        kept_out: Any = out if result_saved else Aval(out.shape, out.dtype)
        if not plain and op.entry_map.by_moving:
            reads = _moved(op, values, FULL)
    elif op.multiple:
        saves_result = result_saved if type(result_saved) is tuple else (result_saved,) * len(out)
        kept_out = tuple([o if keep else _known(o) for o, keep in zip(out, saves_result, strict=True)])
    elif out_is_dense:
        kept_out = out if result_saved else Aval(out.shape, out.dtype)
    else:
        pattern = _on_one_pattern(op, values, parents, out)
        if pattern is not None:
            reads = pattern, pattern
            kept_out = out if result_saved else Aval(out.shape, out.dtype, pattern)
        else:
            kept_out = out if result_saved else _known(out)
            if type(kept_out) is Aval:
                if plain and op.entry_map.stored:
                    reads = FULL, kept_out.support
                elif op.entry_map.by_moving and isinstance(out, Sparse):
                    reads = _moved(op, values, kept_out.support)
    where = None if plain else differentiated.get()
    if where is None:
        frame = user_frame(2)
        where = None if frame is None else (frame.f_code, frame.f_lasti)
    node = make_node(op, tuple(values), params, tuple(parents), indices, kept_out, where, reads)
    if op.multiple:
        return tuple(handle(o, node, k) if o.dtype.kind in "fcV" else handle(o) for k, o in enumerate(out))
    result = _new(handle)
    result._value, result._node, result._index = out, node, 0
    return result


def _recorded_zeros(op: Op, values: list[Shaped | complex], out: Any) -> Any:
    """Results in which each zero becomes a value of the level that the call is recorded in, if there is one.

    A zero is a value of no level: ops outside of the level would take a node from inside as their own.
    """
    level = dispatch.level_of(values)
    if level is None:
        return out
    results = [
        dispatch.value_of(level.variable_of(make_handle(v))) if type(v) is Zero else v
        for v in (out if op.multiple else (out,))
    ]
    return tuple(results) if op.multiple else results[0]


def _on_one_pattern(
    op: Op, values: Sequence[Any], parents: list[Node | None], out: Shaped | tuple[Shaped, ...]
) -> Stored | None:
    """The pattern of the sparse result of an elementwise op, if all operands except numbers have its shape
    and are on that pattern; else None.
    """
    if not (op.entry_map.elementwise and isinstance(out, Sparse) and op.vjp_at is not None):
        return None
    pattern, shape = out.pattern, out.shape
    for v in values:
        if type(v) is Aval:
            if type(v.support) is not Stored or v.support.pattern is not pattern or v.shape != shape:
                return None
        elif type(v) not in _SCALARS and (getattr(v, "pattern", None) is not pattern or v.shape != shape):
            return None
    for parent in parents:  # the demands of a chain of such calls are one object
        if parent is not None and type(need := parent.reads[1]) is Stored and need.pattern is pattern:
            return need
    return Stored(pattern)


_OF_FIRST = ((0,),)


def _moved(op: Op, values: Sequence[Shaped | complex], support: Entries) -> Any:
    """The pair `Node.reads` for an op that only moves all entries of its first operand to other places.

    It is the support of the operand and that of the result; `UNKNOWN` for other ops.
    """
    of = values[0].support if type(values[0]) is Aval else None
    is_alone = len(values) == 1 or op.linear_in == _OF_FIRST
    return (of, support) if is_alone and type(of) is Stored and type(support) in _EVERYTHING else UNKNOWN


_EVERYTHING = (Stored, Full)


def _is_on_pattern(support: Entries, value: Shaped) -> bool:
    """True if ``support`` is the pattern of ``value``, whose handle may have got another value since."""
    return type(support) is Stored and support.pattern is getattr(value, "pattern", None)


def _avals(value: Any) -> Any:
    """Aval of a value; a number is returned unchanged."""
    return value if type(value) in _SCALARS else _known(value)


def _known(value: Shaped) -> Any:
    """Facts that a node keeps of a value that no rule reads: an Aval, or a value of unknown shape."""
    if type(value) is _ndarray:
        return Aval(value.shape, value.dtype)
    if not has_shape(value):
        return value  # a rule that waits for shapes may ask for this one
    support = layouts_by_type[type(value)].support(value)
    # A condition is as large as the values: it is not worth keeping.
    return Aval(value.shape, value.dtype, FULL if type(support) is entries_of.Bracket else support)


def record_assignment(op: Op, x: Handle, value: Handle | NDArray | complex, params: Params) -> Any:
    """Handle of the result of ``op(x, value)``, already written into the buffer of ``x``."""
    args = (x, value)
    if work.active.count and type(x._value) in layouts_by_type:
        checks.run(op, (x._value,), (dispatch.value_of(value, value),))
    parents: list[Node | None] = list(map(getattr, args, _NODE, _NONES))
    if not is_grad_enabled() or all(p is None for p in parents):
        result = make_handle(x._value)
        if unrecorded_values.calls.count:
            unrecorded_values.mark((result,), args)
        return result
    if unrecorded_values.calls.count:
        parents = unrecorded_values.barred(parents, args)
    values = [a._value if isinstance(a, Handle) else a for a in args]
    return _record(op, args, params, values, parents, True, x._value)


def _simplified(
    op: Op, values: Sequence[Shaped | complex], parents: list[Node | None], out: Shaped | tuple[Shaped, ...]
) -> tuple[int] | None:
    """Tuple of the position of the operand that is the result itself; (-1,) for a constant zero.

    A constant zero is one that no tracked input can change. If neither holds, the result is None.
    """
    group = annihilated(op, tuple(values))
    if group is not None and all(parents[k] is None for k in group):
        return (-1,)
    if op.linear_in:
        for k, v in enumerate(values):
            if v is out and all(p is None for j, p in enumerate(parents) if j != k):
                return (k,) if parents[k] is not None else None
    return None


def _value_of(op: Op, a: Handle | Shaped) -> Any:
    """The value of an argument of another type than a plain handle, NumPy array or Python scalar.

    Raises ArgumentTypeError if it has none.
    """
    if isinstance(a, Handle):
        return a._value
    if isinstance(a, np.ndarray | np.generic):
        return plain(a, op.name, "")
    if type(a) in layouts_by_type:
        return a
    raise ArgumentTypeError(
        op.name,
        got=f"an operand that is {described(a)}",
        expected="a Tensor, a NumPy array or a Python scalar",
        remedy=way_in(a),
    )


def _normalized(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results in which NumPy's scalars are arrays of rank 0."""
    return tuple([o if type(o) in layouts_by_type else _asarray(o) for o in results])


def _explained(op: Op, values: Sequence[Shaped | complex], params: Params, error: Exception) -> IversonError:
    """The Iverson error for an exception of a kernel: that of the op's ``abstract``, if it raises one."""
    avals = [v if type(v) in _SCALARS else aval_of(v) for v in values]
    try:
        op.abstract(*avals, **params)
    except IversonError as explanation:
        return explanation
    except Exception:  # the account itself failed: fall back to the kernel's words
        pass
    kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
    return kind(op.name, got=", ".join(map(_described, avals)), remedy=str(error))


def _described(operand: Any) -> str:
    return f"{operand.dtype} of shape {operand.shape}" if hasattr(operand, "shape") else repr(operand)


def _report(op: Op, out: Any, values: Sequence[LayoutValue | complex], params: Params) -> None:
    """Report a call to the work counters: entries of results, and bytes that no operand or pattern shares.

    What a level carries out is counted where it is.
    """
    outs = out if op.multiple else (out,)
    if any(isinstance(o, dispatch.LevelValue) for o in outs):
        return
    checks.run(op, outs, values)
    structures = [array for p in params.values() if isinstance(p, Pattern) for array in p.arrays]
    new_byte_count = sum(new_bytes(o, values, structures) for o in outs)
    entry_count = sum(map(entries, outs))
    steps = multiply_adds(op.name, list(map(_avals, values))) if op.name in FACTORISATIONS else 0
    if steps:
        work.factorisation(op.name, steps)
    # What makes nothing new computes nothing: a view, a selection that is deferred.
    entrywise = cost.entrywise(op, map(_entries, values), entry_count) if new_byte_count and not steps else 0
    work.op(op.name, op.elementwise, new_byte_count, entry_count, entrywise)


def _entries(value: LayoutValue | complex) -> int:
    """Number of stored entries of a value; 1 for a number."""
    return 1 if isinstance(value, (int, float, complex)) else entries(value)


def selected(handle: Handle) -> Any:
    """A cotangent or tangent in the form in which it leaves a pass, with its selections computed.

    A pattern that is part of another one is replaced by an independent pattern.
    """
    value = handle._value
    if type(value) is Bracket:
        return make_handle(select(value), handle._node, handle._index)
    if isinstance(value, Sparse) and value.pattern.part_of:
        return make_handle(value.pattern.whole().value(value.entries), handle._node, handle._index)
    if isinstance(value, Sparse) and value.there is not None:
        return make_handle(value.made(), handle._node, handle._index)
    if isinstance(value, dispatch.LevelValue) and value.may_select:
        return F.selected(handle)
    return handle


def is_undefined(handle: Handle) -> bool:
    """True if a cotangent or tangent is a constant zero: no derivative will flow from it."""
    return type(handle._value) is Zero and handle._node is None


EAGER = Interpreter("eager", bind)
register_interpreter(EAGER, default=True)
