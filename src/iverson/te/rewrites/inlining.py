"""Inlining: stages are computed where they are read instead of stored, if that saves memory and costs little.

A stage that is 0 outside of a few pieces is inlined piece by piece (`pieces`). Two rewrites go the other way:
a scatter into a stage that is then added to a tensor goes straight into the sum, and a stage that is copied
into an output is made in the output.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from iverson.codegen.schedule.blas_contraction import WORTH_BLAS
from iverson.expr.build import const, simplified_with
from iverson.expr.function_facts import FEW, LIGHT
from iverson.expr.nodes import Apply, Expr, Select, postorder, same
from iverson.te.ir.expressions import Read, Tensor, Var, extent, substitute, typical, variables
from iverson.te.ir.index_arithmetic import is_range, same_extent
from iverson.te.ir.nodes import Compute, Program, Statement, recurrence_of
from iverson.te.rewrites.pieces import MOST_PIECES, is_piece, piece_at

#: A stage that costs at most this much may be computed several times.
CHEAP = 4
#: What storing an entry and reading it back costs, in the same units.
KEPT = 12
#: Work of a stage times its readers, at most.
MOST = 40


def inline(program: Program) -> tuple[Statement, ...]:
    """Statements with stages inlined into their readers where that saves memory and costs little.

    A function of tens of instructions is computed once: reading it from a cache takes less time.

    ``T[i] = f(i); U[i] = g(T[h(i)])  ->  U[i] = g(f(h(i)))`` for a temporary T with one statement
    over its whole box, if T is read in one place at as many points as it has, or if it is cheap, and
    computing it for each entry that is read costs no more than computing, storing and reading it.

    ``D[i, j] = f(i) where i == j; U[i] += D[i, k] * x[k] where i == k  ->  U[i] += f(i) * x[k] where i == k``
    """
    return choices(program)[0]


def choices(program: Program) -> tuple[tuple[Statement, ...], dict[Tensor, Choice]]:
    """Result of `inline`, and the choice for each temporary."""
    statements = dict(enumerate(program.statements))
    definition_numbers: defaultdict[Tensor, list[int]] = defaultdict(list)
    # Also of statements that no longer read the tensor, or are no longer there.
    reader_numbers: defaultdict[Tensor, set[int]] = defaultdict(set)
    for k, s in statements.items():
        definition_numbers[s.tensor].append(k)
        for r in s.reads:
            reader_numbers[r.tensor].add(k)
    choice_of: dict[Tensor, Choice] = {}
    for tensor in program.temporaries:
        definitions = [statements[k] for k in definition_numbers[tensor]]
        places = (k for k in sorted(reader_numbers[tensor]) if k in statements)
        readers = {k: statements[k] for k in places if _reads(statements[k], tensor)}
        choice = choice_of[tensor] = _choice(tensor, definitions, tuple(readers.values()))
        if choice.inlined:
            for k, s in readers.items():
                statements[k] = _put(definitions, s)
                for r in statements[k].reads:
                    reader_numbers[r.tensor].add(k)
            for k in definition_numbers[tensor]:
                del statements[k]
    return tuple(statements.values()), choice_of


@dataclass(frozen=True)
class Choice:
    """Decision on a stage: computed in its readers (``inlined``) or stored, and why."""

    inlined: bool
    why: str


def _choice(tensor: Compute, definitions: Sequence[Statement], readers: Sequence[Statement]) -> Choice:
    """Choice for a temporary: by its lever if it has one, else by counting; many cannot be inlined at all.

    definitions, readers : the statements that write it, and those that read it.
    """
    if recurrence_of(tensor) is not None:
        return Choice(False, "the steps of a scan read it")
    parts = not any(map(is_whole, definitions)) and 0 < len(definitions) <= MOST_PIECES
    if readers and parts and all(map(is_piece, definitions)):
        return _of_pieces(tensor, definitions, readers)
    if len(definitions) != 1:
        return Choice(False, f"{len(definitions)} statements add to it")
    output_axes = set(variables(definitions[0].write))
    reduced = [v.name for v in definitions[0].domain.axes if v not in output_axes]
    if not readers or not is_whole(definitions[0]):
        return Choice(
            False, f"{definitions[0].combine} over {', '.join(reduced)}" if reduced else "made in parts"
        )
    if any(s.walk and recurrence_of(s.tensor) is None for s in readers):
        return Choice(False, "what reads it has loops of its own")
    if tensor.lever:
        return Choice(tensor.lever == "recompute", f"te.{tensor.lever}")
    return _counted(definitions[0], readers)


def accumulated(statements: tuple[Statement, ...], outputs: Sequence[Tensor]) -> tuple[Statement, ...]:
    """Statements in which a scatter into a stage goes into the sum that alone reads the stage.

    ``T[f(p)] += g(p); U[i] = h(i) + T[i]  ->  U[i] += h(i); U[f(p)] += g(p)``: no pass over T.
    """
    result = list(statements)
    for reader in statements:
        parts = _addends(reader)
        for term, other_term in zip(parts, reversed(parts), strict=True):
            if not isinstance(term, Read) or term.tensor in outputs or not same(term.indices, reader.write):
                continue
            scatters = [s for s in result if s.tensor is term.tensor]
            users = [s for s in result if _reads(s, term.tensor)]
            once = (
                len(users) == 1
                and users[0] is reader
                and not _reads(replace(reader, body=other_term), term.tensor)
            )
            is_kept = isinstance(term.tensor, Compute) and term.tensor.lever == "keep"
            alike = _of_one_shape(term.tensor, reader.tensor)  # else some of what is scattered has no place
            if once and scatters and not is_kept and alike and all(_scatters(s) for s in scatters):
                place = next(k for k, s in enumerate(result) if s is reader)
                new_scatters = [replace(s, out=reader.tensor) for s in scatters]
                result[place : place + 1] = [replace(reader, body=other_term, combine="sum"), *new_scatters]
                result = [s for s in result if s.tensor is not term.tensor]
                break
    return tuple(result)


def made_in_place(
    statements: Sequence[Statement], outputs: Sequence[Tensor]
) -> tuple[tuple[Statement, ...], dict[Tensor, Tensor]]:
    """Statements without copies of a stage into an output, and a map from each such stage to the output.

    ``T[...] += f; O[i] = T[i]  ->  T[...] += f`` in the memory of O. So are stages that steps of a recurrence
    add to a total: ``T[...] += f; for t: S[t] += T[t]; S[p[t]] += g``, as all terms of an entry are added
    before its step.
    """
    output_of: dict[Tensor, Tensor] = {}
    counts = Counter(s.tensor for s in statements)
    result = []
    for s in statements:
        stage = s.body.tensor if isinstance(s.body, Read) and same(s.body.indices, s.write) else None
        fits = stage in counts and stage not in outputs and stage not in output_of
        if stage is not None and fits and _of_one_shape(stage, s.tensor):
            alone = counts[s.tensor] == 1 and s.tensor in outputs and is_whole(s)
            if alone or (_adds_whole(s) and [s] == [r for r in statements if _reads(r, stage)]):
                output_of[stage] = s.tensor
                continue
        result.append(s)
    return tuple(result), output_of


def _of_one_shape(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.ndim == b.ndim and all(map(same_extent, a.shape, b.shape))


def _scatters(s: Statement) -> bool:
    return s.combine == "sum" and s.strategy == "scatter" and recurrence_of(s.tensor) is None


def _addends(s: Statement) -> tuple[Expr, ...]:
    """The two sides of a sum that a statement assigns to each entry of its tensor; () if it assigns none."""
    sums = is_whole(s) and isinstance(s.body, Apply) and s.body.name == "add" and s.body.dtype.kind in "iufc"
    return s.body.operands if sums else ()


def _reads(s: Statement, tensor: Tensor) -> list[Read]:
    return [r for r in s.reads if r.tensor is tensor]


def is_whole(s: Statement) -> bool:
    """True if a statement defines each entry of its tensor, as a function of the entry's indices."""
    axes = s.domain.axes
    full = len(s.write) == len(axes) and all(w is v for w, v in zip(s.write, axes, strict=True))
    box = full and all(is_range(v, n) for v, n in zip(axes, s.tensor.shape, strict=True))
    plain = s.combine in ("assign", "sum") and not s.domain.where and s.walk is None
    return plain and s.body.dtype == s.tensor.dtype and full and box and recurrence_of(s.tensor) is None


def _adds_whole(s: Statement) -> bool:
    """True if a recurrence's statement adds a function of its indices to each entry of a tensor of sums."""
    axes = s.domain.axes
    full = len(s.write) == len(axes) and all(w is v for w, v in zip(s.write, axes, strict=True))
    box = full and all(is_range(v, n) for v, n in zip(axes, s.tensor.shape, strict=True))
    return box and s.combine == "sum" and not s.domain.where and recurrence_of(s.tensor) is not None


def makes_all(s: Statement) -> bool:
    """True if a statement adds up a full box, without conditions, for each entry of its tensor."""
    output_axes = s.domain.axes[: len(s.write)]
    box = len(output_axes) == len(s.write) and all(w is v for w, v in zip(s.write, output_axes, strict=True))
    plain = s.combine == "sum" and not s.domain.where and s.walk is None
    is_full = box and all(is_range(v, n) for v, n in zip(output_axes, s.tensor.shape, strict=True))
    return plain and is_full and s.body.dtype == s.tensor.dtype and recurrence_of(s.tensor) is None


def _counted(stage: Statement, readers: Sequence[Statement]) -> Choice:
    """Choice for a stage from the counts of its work and its reads."""
    work = _work(stage.body)
    if isinstance(stage.body, Read):
        return Choice(True, "a copy")
    if any(map(is_product, readers)):
        return Choice(False, "a factor of a product of matrices")
    is_shared = len(readers) > 1
    if work * len(readers) > MOST or (is_shared and is_dear(stage.body)):
        return Choice(False, f"{work} operations, read by {len(readers)}")
    if work <= CHEAP:
        read_count = sum(_entries(r, s) for s in readers for r in _reads(s, stage.tensor))
        here, once = read_count * work, _points(stage) * (work + KEPT)
        return Choice(here <= once, f"costs {here} for all that read it, {once} computed once and stored")
    if any(s.domain.where for s in readers):
        return Choice(False, f"{work} operations, read under conditions")
    once = all(len(_reads(s, stage.tensor)) == 1 and _points(s) <= _points(stage) for s in readers)
    return Choice(once, f"{work} operations, each entry read {'once' if once else 'several times'}")


def _entries(read: Read, reader: Statement) -> int:
    """Number of entries of a stage that a read reads; those read again in other loops count once."""
    index_variables = set(variables(read.indices))
    return prod(typical(extent(v)) for v in reader.domain.axes if v in index_variables)


def is_product(s: Statement) -> bool:
    """True if a statement is a large product of stored matrices, for which there is faster code."""
    if s.combine != "sum" or s.domain.where or not isinstance(s.body, Apply) or s.body.name != "multiply":
        return False
    reads = s.body.operands
    plain = all(isinstance(r, Read) and all(isinstance(i, Var) for i in r.indices) for r in reads)
    return plain and _points(s) >= WORTH_BLAS


def _points(s: Statement) -> int:
    return prod(typical(n) for n in s.domain.extents)


def _work(e: Expr) -> int:
    """Cost of computing ``e`` at a point: elementary functions count ten, reads and arithmetic one."""
    total = 0
    for x in postorder([e]):
        if isinstance(x, Apply):
            total += 1 if x.name in LIGHT else 10
        elif isinstance(x, (Read, Select)):
            total += 1
    return total


def is_dear(e: Expr) -> bool:
    return any(map(is_dear_function, postorder([e])))


def is_dear_function(e: Expr) -> bool:
    """True if an expression itself, without its operands, takes tens of instructions."""
    return isinstance(e, Apply) and e.name not in LIGHT | FEW


def _of_pieces(tensor: Compute, pieces: Sequence[Statement], readers: Sequence[Statement]) -> Choice:
    """The choice for a stage that is 0 outside of a few pieces, each a function of an entry's indices."""
    if tensor.lever:
        return Choice(tensor.lever == "recompute", f"te.{tensor.lever}")
    work = max(0 if isinstance(s.body, Read) else _work(s.body) for s in pieces)
    if work * len(readers) > MOST or work > CHEAP or any(is_dear(s.body) for s in pieces):
        return Choice(False, f"{work} operations, in {len(pieces)} pieces")
    read_count = sum(_entries(r, s) for s in readers for r in _reads(s, tensor))
    here, once = read_count * work, sum(map(_points, pieces)) * (work + KEPT)
    return Choice(here <= once, f"costs {here} for all that read it, {once} computed once and stored")


def _put(definitions: Sequence[Statement], reader: Statement) -> Statement:
    """The reader with the stage's body, or the sum of those of its pieces, in place of its reads."""
    (tensor,) = {s.tensor for s in definitions}

    def at(entry: Read) -> Expr:
        if all(map(is_whole, definitions)):
            (stage,) = definitions
            axes: dict[Expr, Expr] = dict(zip(stage.domain.axes, entry.indices, strict=True))
            return substitute((stage.body,), axes)[0]
        terms = (piece_at(s, entry.indices, reader.domain) for s in definitions)
        return sum(terms, start=const(0, tensor.dtype))

    def changed(root: Expr) -> Expr:
        results: dict[Expr, Expr] = {}
        for x in postorder([root]):
            new = simplified_with(x, [results[o] for o in x.operands])
            results[x] = at(new) if isinstance(new, Read) and new.tensor is tensor else new
        return results[root]

    return reader.mapped(changed)
