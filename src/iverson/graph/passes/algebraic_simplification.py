"""Algebraic simplification: equations become one of their operands, or simpler equations.

Each rule keeps shape, dtype and every entry, nan and the sign of zero included; so there is no rule for
``x + 0`` or ``x * 0`` of numbers, nor for ``x * 1`` of complex ones. ``zero`` is a structural zero: its sum
with x is x itself, in eager code too.
"""

from __future__ import annotations

from dataclasses import replace

from iverson.core.entries import FULL, Bracket
from iverson.core.region import Region
from iverson.graph.ir.nodes import Value
from iverson.graph.passes.rewriting import After, Match, Rewriting, rule
from iverson.kernels import index_keys
from iverson.ops.moves.shape_ops import Joined


def _unselected(m: Match) -> After:
    return m["x"] if type(m["x"]) is Value and not isinstance(m["x"].aval.support, Bracket) else None


def _all_stored(m: Match) -> After:
    return m["x"] if type(m["x"]) is Value and m["x"].aval.support is FULL else None


def _real(m: Match) -> After:
    """The operand, unless it is complex: NumPy's products and powers by 1 make nan of an infinite part."""
    return m["x"] if m.is_like_result(m["x"]) and m["x"].dtype.kind != "c" else None


def _in_own_order(m: Match) -> After:
    axes = m.equation.params["axes"]
    return m["x"] if tuple(axes) == tuple(range(len(axes))) and m.is_like_result(m["x"]) else None


def _in_one_order(m: Match) -> After:
    (inner,) = m.inner
    axes = tuple(inner.params["axes"][k] for k in m.equation.params["axes"])
    return replace(m.equation, operands=inner.operands, params={"axes": axes})


def _without_zeros(m: Match) -> After:
    """A sum without terms that are structurally zero."""
    e = m.equation
    terms = tuple(x for x in e.operands if not m.writer.is_zero(x))
    if len(terms) == 1 and m.is_like_result(terms[0]):
        return terms[0]
    fewer = terms and len(terms) < len(e.operands) and all(map(m.is_like_result, terms))
    return replace(e, operands=terms) if fewer else None


def _read_whole(m: Match) -> After:
    x = m["x"]
    is_whole = type(x) is not Value or index_keys.reads_everything(m.equation.params["key"], x.shape)
    return x if is_whole and m.is_like_result(x) else None


def _read_of_one(m: Match) -> After:
    """Read a part of a stack or concat from the one operand that it lies in."""
    (inner,), e = m.inner, m.equation
    places, (result,), key = inner.op.entry_map, inner.results, e.params["key"]
    assert isinstance(places, Joined)
    region = index_keys.key_region(key, result.shape)
    for k, x in enumerate(inner.operands):
        if type(x) is not Value or x.dtype != e.results[0].dtype or not region.size:
            continue
        image = places.image_of(Region.full(x.shape), k, inner.params)
        if image.intersect(region) == region:
            within = list(index_keys.key_within(image, key, result.shape))
            if inner.op.name == "stack":  # the operand lacks the axis, along which one entry is read
                at = [n for n, item in enumerate(within) if item is not None][inner.params["axis"]]
                within[at : at + 1] = [None] if isinstance(within[at], slice) else []
            return replace(e, operands=(x,), params={"key": tuple(within)})
    return None


algebra = Rewriting(
    "algebra",
    rule("identity(x) -> x"),
    rule("copy(x) -> x"),
    rule("positive(x) -> x"),
    rule("astype(x) -> x"),
    rule("broadcast_to(x) -> x"),
    rule("reshape(x) -> x"),
    rule("reshape(reshape(x)) -> reshape(x)"),
    rule("permute_dims(x) -> x", _in_own_order),
    rule("permute_dims(permute_dims(x)) -> permute_dims(x)", _in_one_order),
    rule("selected(x) -> x", _unselected),
    rule("to_dense(x) -> x", _all_stored),
    rule("multiply(1, x) -> x", _real),
    rule("multiply(x, 1) -> x", _real),
    rule("divide(x, 1) -> x", _real),
    rule("pow(x, 1) -> x", _real),
    rule("negative(negative(x)) -> x"),
    rule("add(*terms) -> add(*terms)", _without_zeros),
    rule("add_n(*terms) -> add_n(*terms)", _without_zeros),
    rule("subtract(x, zero) -> x"),
    rule("index_basic(x) -> x", _read_whole),
    rule("index_basic(stack(*xs)) -> index_basic(x)", _read_of_one),
    rule("index_basic(concat(*xs)) -> index_basic(x)", _read_of_one),
)


__all__ = ["algebra"]
