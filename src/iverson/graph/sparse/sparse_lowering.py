"""Sparse lowering: ops on sparse values become ops on entries and index arrays, which programs carry out.

    %2 = matmul(%0, %1)         ->      %2 = stored_product[shape=(n,)](%values, %starts, %columns, %1)

    %0 : stored on a pattern            %values : its entries, in the pattern's order
                                        %starts, %columns : where they are by rows, which the pattern has

This is the one place that says which ops on sparse values are native. All others stay library steps: they
read sparse values packed, and their results are opened where a native step reads them. Values and index
arrays are inputs of the new graph (`OnPatterns.core`), so that programs know no patterns. Index arrays of
patterns that are part of the graph are constants of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import value_of
from iverson.core.entries import NOTHING, Stored
from iverson.core.protocols import NDArray
from iverson.graph.ir.derivative_interface import where_held
from iverson.graph.ir.entry_ops import stored_find, stored_read, stored_rows
from iverson.graph.ir.nodes import UNDEFINED, AnyOperand, Equation, Graph, Operand, Value, subgraphs
from iverson.graph.ir.pattern_binding import bounds
from iverson.graph.native.step_kinds import Kinds
from iverson.graph.sparse import line_reductions, sampled_products
from iverson.graph.sparse.calling_convention import Into, Move, OnPatterns, Places, numbered
from iverson.graph.sparse.lowering_state import Opening, Rule, is_stored, pattern_of
from iverson.graph.sparse.sampled_products import Matrices
from iverson.graph.sparse.sparse_control_flow import names_patterns, opened_block, steps_read
from iverson.kernels import entry_rules
from iverson.kernels.index_keys import key_shape
from iverson.kernels.kernel_registry import run_in_layouts
from iverson.layouts import Pattern, Zero, is_strided, layouts_by_type, to_strided


def _elementwise(o: Opening, e: Equation) -> bool:
    """Rule of ops entry by entry; False where it does not apply.

    If the result is stored, the op is on the entries at its pattern, of sparse and dense operands. A sum of
    sparse and dense operands with a dense result is on every entry.
    """
    (v,) = e.results
    if not any(map(is_stored, e.operands)):
        return False
    if is_stored(v):
        read_entries, op = partial(_read_at, o), partial(o.bind, e.op, **e.params)
        entries = entry_rules.elementwise(read_entries, op, e.operands, pattern_of(v), v.shape)
        return entries is not None and o.is_open(e, entries)
    strided = [x for x in e.operands if type(x) is Value and not is_stored(x) and x.shape == v.shape]
    if not strided or e.op.name not in ("add", "subtract", "add_n"):
        return False
    return o.is_dense(e, o.bind(e.op, *map(o.dense, e.operands), **e.params))


def _read_at(o: Opening, x: Operand, p: Pattern, shape: tuple[int, ...]) -> Operand:
    """Entries of an operand at the pattern ``p`` of a result; numbers as they are.

    None where that takes more than reading them.

    shape : the shape of the result, to which the operand is broadcast.
    """
    if type(x) is not Value:
        return x
    if is_stored(x):
        return o.at(x, p) if x.shape == shape or p.ndim == len(shape) else None
    if x.aval.support is NOTHING:
        return None
    extents = (1,) * (len(shape) - len(x.shape)) + x.shape
    axes = [k for k, n in enumerate(extents[: p.ndim]) if n != 1]
    values = o.reshaped(o.given(x), (*(extents[k] for k in axes), *extents[p.ndim :]))
    if not axes:
        return values
    return o.gathered(values, [o.along(p, k) for k in axes])


def _same(o: Opening, e: Equation) -> bool:
    """Rule of an op that returns its operand, on another pattern at most; False where it does not apply."""
    (x,), (v,) = e.operands, e.results
    if not (is_stored(x) and is_stored(v) and pattern_of(x).ndim == pattern_of(v).ndim):
        return False
    entries = o.at(x, pattern_of(v))
    return entries is not None and o.is_open(e, entries)


def _from_values(o: Opening, e: Equation) -> bool:
    """Rule of `from_values`; entries at a place that ``pattern`` names twice are added up.

    False for results and operands to which it does not apply.
    """
    (x,), (v,), p = e.operands, e.results, e.params["pattern"]
    if not is_stored(v) or type(x) is not Value or x.aval.support is NOTHING:
        return False
    q = pattern_of(v)
    if q is p:
        return o.is_open(e, o.dense(x))
    if p.shape != v.shape or q.shape != v.shape:
        return False
    entries = o.reshaped(o.dense(x), (p.count,))
    if not p.distinct:
        at = o.take(Into(p, q, tuple(range(p.ndim))))
        return o.is_open(e, o.bind("scatter_add", entries, at, axes=(0,), shape=(q.count,)))
    return o.is_open(e, o.bind(stored_read, entries, o.at_places(Places(q, (p,))), flat=False))


def _values_at(o: Opening, e: Equation) -> bool:
    x, p = e.operands[0], e.params["pattern"]
    if is_stored(x):
        pattern = pattern_of(x)
        entries = o.at(x, p) if pattern.ndim == p.ndim else None
        if entries is not None and e.params.get("held", False) and pattern is not p:
            entries = o.left_out(entries, o.at_places(Places(p, (pattern,))))
        return entries is not None and o.is_dense(e, entries)
    if x.aval.support is NOTHING:
        return False
    return o.is_dense(e, o.gathered(o.given(x), o.places(p)))


def _where_held(o: Opening, e: Equation) -> bool:
    """Rule of `where_held` on a sparse value; False for others.

    If its zeros last, the condition holds only where a stored entry is held; if not, also where none is
    stored.
    """
    (x,) = e.operands
    if not is_stored(x):
        return False
    if x in o.lasting:
        return o.is_dense(e, o.spread(o.bind(where_held, o.open(x)), pattern_of(x), x.shape))
    return o.is_dense(e, o.bind("logical_not", o.not_held(x)))


def _stored_on(o: Opening, e: Equation) -> bool:
    (x,), p = e.operands, pattern_of(e.results[0])
    if x in o.whole and is_stored(x) and pattern_of(x) is p:
        o.now[e.results[0]] = x
        return True
    if is_stored(x):
        return _same(o, e)
    if type(x) is not Value or x.aval.support is NOTHING:
        return False
    return o.is_open(e, o.gathered(o.given(x), o.places(p)))


def _to_dense(o: Opening, e: Equation) -> bool:
    """Rule of conversions to another layout; False where it does not apply.

    It is not known which entries of an array are zero: so a dense value is used as it is, and is put into the
    layout only if a call returns it.
    """
    (x,), (v,) = e.operands, e.results
    if is_stored(v):
        return _same(o, e)
    if e.params.get("layout", "strided") == "strided":
        return is_stored(x) and o.is_dense(e, o.dense(x))
    if is_stored(x) or x.aval.support is NOTHING:
        return False
    o.converted[v] = e.params
    return o.is_dense(e, o.given(x))


def _index_array(o: Opening, e: Equation) -> bool:
    (v,) = e.results
    o.now[v] = o.along(**e.params)
    return True


def _permute(o: Opening, e: Equation) -> bool:
    """Rule of `permute_dims`: the same entries in the same order, on the permuted pattern.

    Blocks are transposed. If the result is on another pattern, as `_moved`.
    """
    (x,), (v,) = e.operands, e.results
    if not (is_stored(x) and is_stored(v)):
        return False
    p, axes = pattern_of(x), e.params["axes"]
    if sorted(axes[: p.ndim]) != list(range(p.ndim)) or axes[p.ndim :] != tuple(range(p.ndim, len(axes))):
        return False
    if p.permuted(axes[: p.ndim]) is not pattern_of(v):
        return _moved(o, e)
    if p.blocksize and axes[p.ndim - 2 : p.ndim] != (p.ndim - 1, p.ndim - 2):
        return _moved(o, e)
    return o.is_open(e, o.turned(p, o.open(x)))


def _matmul(o: Opening, e: Equation) -> bool:
    """Rule of products of a sparse matrix, or batch of matrices, and a dense one; False for others."""
    a, b = e.operands
    if is_stored(a) == is_stored(b):
        return False
    if is_stored(e.results[0]):  # of slices, each by itself
        is_product_of_slices = is_stored(a) and len(b.shape) == 2 and b.aval.support is not NOTHING
        alike = is_product_of_slices and pattern_of(a) is pattern_of(e.results[0])
        return alike and o.is_open(e, o.bind("matmul", o.open(a), o.given(b)))
    s, x = (a, b) if is_stored(a) else (b, a)
    p = pattern_of(s)
    if len(s.shape) != p.ndim or len(x.shape) < 2 or x.aval.support is NOTHING:
        return False
    if p.ndim > 2 and s.shape[:-2] != e.results[0].shape[:-2]:
        return False
    x = o.given(x)
    if s is b and p.ndim == 2:
        x = o.reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    return o.is_dense(e, entry_rules.product(Matrices(o), (p, o.open(s)), x, s is a))


def _moved(o: Opening, e: Equation) -> bool:
    """Rule of ops that move entries of stored operands: each entry of the stored result reads its own.

    False for other results, or if it is not known at lowering where entries move.
    """
    (v,) = e.results
    return is_stored(v) and prod(v.shape[pattern_of(v).ndim :]) <= 1 and _read_where(o, e, pattern_of(v))


def _index_put(o: Opening, e: Equation) -> bool:
    """Rule of `index_put`: as `_moved`, for a key without integers and a value of the shape of the places.

    Integers in the key become slices, and the value is broadcast. False where it does not apply.
    """
    x, v = e.operands
    key: Any = e.params["key"]
    shape = key_shape(key, e.results[0].shape)
    key = tuple([slice(i, i + 1, 1) if isinstance(i, int) else i for i in key])
    if not is_stored(v):
        if type(v) is not Value:
            v = o.constant(np.asarray(v, e.results[0].dtype))
        if v.aval.support is NOTHING:
            return False
        v = o.given(v)
        v = v if v.shape == shape else o.bind("broadcast_to", v, shape=shape)
        v = o.reshaped(v, key_shape(key, e.results[0].shape))
    elif v.shape != key_shape(key, e.results[0].shape):
        return _moved(o, e)
    return _moved(o, replace(e, operands=(x, v), params={"key": key}))


def _moved_to_dense(o: Opening, e: Equation) -> bool:
    """Rule of ops that move entries of stored operands into an array: each of its entries reads its own.

    False if the array is much larger than what is stored, or if it is not known at lowering where entries
    move.
    """
    if e.op.multiple or not e.op.entry_map.moves or not any(map(is_stored, e.operands)):
        return False
    (v,) = e.results
    entry_count = sum(pattern_of(x).count for x in e.operands if is_stored(x))
    if is_stored(v) or prod(v.shape) > max(_SMALL, _FACTOR * entry_count):
        return False
    return _read_where(o, e, sampled_products.every(v.shape))


def _read_where(o: Opening, e: Equation, p: Pattern) -> bool:
    """Write a result at the pattern ``p``: each entry reads the operand's entry that ``e`` moves to it.

    False if `_move` gives no move, or nothing but zeros is moved.
    """
    (v,) = e.results
    move = _move(o, e, p.count)
    if move is None or not move.moved:  # nothing but zeros is moved
        return False
    xs = [e.operands[k] for k in move.moved]
    of = tuple(pattern_of(x) if is_stored(x) else sampled_products.every(x.shape) for x in xs)
    parts = [
        o.bind(stored_read, o.entries_of(x), o.at_places(Places(p, of, k, move)), flat=True)
        for k, x in enumerate(xs)
    ]
    result = o.combined(parts, "add" if move.jointly else "multiply", v.dtype)
    return o.is_open(e, result) if is_stored(v) else o.is_dense(e, result)


def _move(o: Opening, e: Equation, count: int) -> Move | None:
    """The `Move` of an equation; None if there is none.

    There is none if other operands are known in a call only, an array is much larger than ``count`` entries,
    or entries are added up at one place.

    count : number of entries of the result.
    """
    groups = e.op.groups(len(e.operands))
    linear, jointly = {k for group in groups for k in group}, len(groups) == 1
    constants: dict[int, Any] = {}
    numbers: list[int] = []
    dense = [x.shape[pattern_of(x).ndim :] if is_stored(x) else () for x in e.operands]
    for k, x in enumerate(e.operands):
        constant = o.constants.get(x) if type(x) is Value else x
        if is_stored(x):
            numbers.append(k)
        elif k in linear and type(x) is Value and x.aval.support is NOTHING:
            constants[k] = Zero(x.shape, np.dtype(np.int64))
        elif k in linear:
            if type(x) is not Value or prod(x.shape) > max(_SMALL, _FACTOR * count):
                return None
            numbers.append(k)
        elif constant is not None and (type(x) is not Value or is_strided(value_of(constant, constant))):
            constants[k] = value_of(constant, constant)
        else:
            return None
    if e.op.name == "scatter_add" and _repeat([constants[k] for k in range(1, len(e.operands))]):
        return None

    def values(number: int, patterns: Sequence[Pattern]) -> Any:
        operands: list[Any] = [constants.get(k) for k in range(len(e.operands))]
        for n, (k, p) in enumerate(zip(numbers, patterns, strict=True)):
            neutral = np.full((p.count, *dense[k]), not jointly, np.int64)
            operands[k] = numbered(p, dense[k]) if n == number else p.value(neutral)
        result = run_in_layouts(e.op, tuple(operands), dict(e.params))
        if result is NotImplemented:
            result = e.op.forward(*map(to_strided, operands), **e.params)
        return result if type(result) in layouts_by_type else np.asarray(result)  # of one entry, a number

    arrays = [(k, id(x) if hasattr(x, "shape") else x) for k, x in constants.items()]
    key = e.op.name, repr(e.params), tuple(arrays), len(e.operands)
    return Move(key, values, tuple(numbers), jointly)


def _repeat(indices: Sequence[NDArray]) -> bool:
    """True if index arrays name a place several times."""
    places = np.stack([a.ravel() for a in np.broadcast_arrays(*indices)])
    return bool(np.unique(places, axis=1).shape[1] < places.shape[1])


def _gather(o: Opening, e: Equation) -> bool:
    """Rule of `gather` of rows, columns or single entries of a large matrix: the result has every entry.

    False for small matrices, whose entries other rules make an array of, and for other operands.
    """
    (x, *at), (v,), axes = e.operands, e.results, e.params["axes"]
    if not is_stored(x) or is_stored(v) or pattern_of(x).ndim != 2 or len(x.shape) != 2 or not at:
        return False
    if prod(x.shape) <= _SMALL or prod(v.shape) > max(_LARGE, _FACTOR * pattern_of(x).count):
        return False
    p = pattern_of(x)
    entries, shape = o.open(x), v.shape[:1] if len(at[0].shape) == 1 else at[0].shape
    if axes == (1,):
        p, entries = p.permuted((1, 0)), o.turned(p, entries)
    blocks = (p.blocksize if p.layout == "bsr" else None) or (1, 1)
    starts, columns, *order = o.rows(p)
    flat = [o.reshaped(o.given(n), (prod(shape),)) for n in at]
    if len(at) == 2:
        flat = flat if axes == (0, 1) else flat[::-1]
        result = o.bind(stored_find, entries, starts, columns, *flat, *order, blocks=blocks)
    else:
        result = o.bind(stored_rows, entries, starts, columns, *flat, *order, count=p.shape[1], blocks=blocks)
    return o.is_dense(e, result)


#: An array of so many entries may be made in place of one that is stored, or of as many as the result has.
_SMALL = 1 << 20
_FACTOR = 8
#: Rows of a sparse matrix with so many entries may be made with all of them.
_LARGE = 1 << 24


def _on_every_entry(o: Opening, e: Equation) -> bool:
    """Rule of ops with dense results: the op is run on arrays of all entries of its operands.

    False if that is a library step, or if the arrays would be much larger than what is there.
    """
    if any(map(is_stored, e.results)) or any(subgraphs(e)):
        return False
    if e.op.name == "matmul":  # of what is stored it takes less
        return False
    stored_operands = [x for x in e.operands if is_stored(x)]
    limit = max(_SMALL, *(prod(v.shape) for v in e.results))
    if not stored_operands or any(
        prod(x.shape) > max(limit, _FACTOR * pattern_of(x).count) for x in stored_operands
    ):
        return False
    if any(type(x) is Value and x.aval.support is NOTHING for x in e.operands) or UNDEFINED in e.operands:
        return False
    alike = [Value(Aval(x.shape, x.dtype)) if type(x) is Value else x for x in e.operands]
    results = tuple(Value(Aval(v.shape, v.dtype)) for v in e.results)
    on_all = replace(e, operands=tuple(alike), results=results)
    if Kinds(Graph((), (on_all,), ())).of(on_all) == "library":
        return False
    o.equations.append(replace(e, operands=tuple(map(o.dense, e.operands))))
    return True


def _on_all_axes(o: Opening, e: Equation) -> bool:
    """Rule of ops on values of which slices are stored: the same op on patterns of their single entries.

    False if no slices are stored, or no rule applies to the op on these patterns.
    """
    pattern = e.params.get("pattern")
    like = e.operands[0] if e.op.name == "values_at" else e.results[0]
    flat = {x: _flat(o, x) for x in (*e.operands, *e.results) if _in_slices(x)}
    params = dict(e.params)
    if isinstance(pattern, Pattern) and type(like) is Value and pattern.ndim < len(like.shape):
        if e.op.name not in ("values_at", "from_values", "stored_on"):
            return False
        params["pattern"] = o.on_all_axes(pattern, like.shape)
    if not flat and params == e.params:
        return False
    for x in e.operands:
        if x in flat:
            o.entries[flat[x]] = o.reshaped(o.open(x), (pattern_of(flat[x]).count,))
    flat_equation = replace(
        e,
        operands=tuple(flat.get(x, x) if type(x) is Value else x for x in e.operands),
        results=tuple(flat.get(v, v) for v in e.results),
        params=params,
    )
    if not any(rule(o, flat_equation) for rule in _rules_of(flat_equation)):
        return False
    for v in e.results:
        if v in flat:
            o.entries[v] = o.reshaped(o.open(flat[v]), (pattern_of(v).count, *v.shape[pattern_of(v).ndim :]))
    return True


def _in_slices(x: AnyOperand) -> bool:
    """True if slices of a value are stored."""
    return is_stored(x) and pattern_of(x).ndim < len(x.shape)


def _flat(o: Opening, x: Value) -> Value:
    """A new value like ``x``, of which slices are stored, on the pattern of their single entries."""
    return Value(Aval(x.shape, x.dtype, Stored(o.on_all_axes(pattern_of(x), x.shape))))


#: By name; ops entry by entry besides, and ops that move entries.
RULES: dict[str, Rule] = {
    "add_n": _elementwise,
    "checkpoint": opened_block,
    "cond": opened_block,
    "from_values": _from_values,
    "gather": _gather,
    "index_array": _index_array,
    "index_basic": steps_read,
    "index_put": _index_put,
    "kron": _moved,
    "kron_sampled": sampled_products.kron_sampled,
    "matmul": _matmul,
    "permute_dims": _permute,
    "product_at": sampled_products.product_at,
    "sampled_product": sampled_products.sampled_product,
    "scan": opened_block,
    "stored_on": _stored_on,
    "to_dense": _to_dense,
    "to_layout": _to_dense,
    "values_at": _values_at,
    "where_held": _where_held,
    "while": opened_block,
    **line_reductions.RULES,
}


def _rules_of(e: Equation) -> list[Rule]:
    """Rules to try for ``e``, in order.

    There are none if nothing in it is sparse, or for dtypes that compiled code does not know.
    """
    op = e.op
    if op.name not in RULES and not any(map(is_stored, (*e.operands, *e.results))):
        return []
    if not all(dtypes.is_compiled(v.dtype) for v in (*e.operands, *e.results) if type(v) is Value):
        return []
    rules = [RULES[op.name]] if op.name in RULES else [_elementwise] if op.elementwise else []
    if op.entry_map.moves:
        rules.append(_moved)
    return [*rules, _on_every_entry, _moved_to_dense, _on_all_axes]


def on_patterns(graph: Graph) -> OnPatterns | None:
    """Lower a graph to one on entries and index arrays; None if nothing in it is sparse."""
    if not names_patterns(graph):
        return None
    bounded = {n: s for s in reversed(bounds(graph)) for n in s.extents}
    return Opening(graph, bounded, _rules_of).run()


__all__ = ["OnPatterns", "on_patterns"]
