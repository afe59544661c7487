"""Placement sinking: terms of a sum that stand at the same place are added before they are placed.

    add_n(embed[key=k](a), embed[key=k](b), c)  ->  add_n(embed[key=k](add_n(a, b)), c)
    add_n(embed[key=k](a), embed[key=k](b))     ->  embed[key=k](add_n(a, b))

A part of an array that is read several times then gets its cotangent as one value, which can be computed in
place (`graph.lowering.copy_elision`), and parts that do not overlap need no sum.
"""

from __future__ import annotations

from iverson.graph.ir.nodes import Equation, Value
from iverson.graph.passes.rewriting import WRITTEN, After, Match, Rewriting, Writer, rule


def _placed_once(m: Match) -> After:
    """Write a sum in which terms that are embedded at one place are added first; None if no two terms are."""
    writer, e = m.writer, m.equation
    at: dict[str, list[Equation]] = {}
    terms: list[Value | list[Equation]] = []
    for x in e.operands:
        embedding = writer.by(x, "embed", alone=True)
        if embedding is None or not m.is_like_result(x) or type(embedding.operands[0]) is not Value:
            terms.append(x)
            continue
        part = embedding.operands[0]
        key = f"{sorted(embedding.params.items())} of {part.shape} {part.dtype}"
        if key not in at:
            terms.append(at.setdefault(key, []))
        at[key].append(embedding)
    if len(terms) == len(e.operands):
        return None
    alone = len(terms) == 1
    operands = [
        x if not isinstance(x, list) else _placed(writer, x, e.results[0] if alone else None) for x in terms
    ]
    if not alone:
        writer.write("add_n", *operands, where=e.where, result=e.results[0])
    return WRITTEN


def _placed(writer: Writer, parts: list[Equation], result: Value | None) -> Value:
    """One term of a sum in place of the equations ``parts``, which all embed at one place.

    It embeds the sum of their operands there.
    """
    first = parts[0]
    if len(parts) == 1:
        return first.results[0]
    total = writer.write("add_n", *(p.operands[0] for p in parts), where=first.where)
    return writer.write("embed", total, where=first.where, result=result, **first.params)


placing = Rewriting(
    "placing",
    rule("add(*terms) -> embed(add_n(*parts))", _placed_once),
    rule("add_n(*terms) -> add_n(*terms, embed(add_n(*parts)))", _placed_once),
    drops=True,
)


__all__ = ["placing"]
