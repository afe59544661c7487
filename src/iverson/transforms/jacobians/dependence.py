"""Sparsity detection for Jacobians: the entries of inputs that each entry of a recorded value may depend on.

A walk over the nodes that a function left behind. What an op says of itself decides: elementwise, a move of
entries, a reduction, lines along an axis, a product. Of any other op, an entry of a result may depend on all.
The places are found for shapes, parameters and index arrays, never for entries of what is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iverson.autograd.node import Node, reachable
from iverson.core.dispatch import is_tracked, slot_of
from iverson.core.op import frozen
from iverson.core.shapes import Shape
from iverson.core.table import TABLE
from iverson.layouts import to_strided
from iverson.ops.linear_algebra.product_ops import Contracted
from iverson.ops.moves.indexing_ops import Assigned, AssignedByIndex
from iverson.ops.moves.shape_ops import Added
from iverson.ops.rules.entry_maps import Along, Reduced, Same

Places = NDArray[np.int64]
#: How many places an entry may depend on to have them told apart, and how many places are listed in all.
WIDEST, MOST = 128, 1 << 22


@dataclass(frozen=True, slots=True)
class Dependence:
    """For each entry of an array, in row-major order, a row of the places that it may depend on.

    at : ascending; a row with fewer begins with -1.
    wide : the rows that may depend on any place; ``at`` lists none for them.
    """

    at: Places
    wide: NDArray[np.bool_]

    def rows(self, which: Any) -> Dependence:
        """Some rows."""
        return Dependence(self.at[which], self.wide[which])

    @property
    def everywhere(self) -> bool:
        """Whether all rows are wide."""
        return bool(self.wide.all())


def anything(size: int) -> Dependence:
    """All entries may depend on all places."""
    return Dependence(np.empty((size, 0), np.int64), np.ones(size, bool))


def _nothing(size: int) -> Dependence:
    return Dependence(np.empty((size, 0), np.int64), np.zeros(size, bool))


def dependences(variables: Sequence[Any], outputs: Sequence[Any]) -> list[Dependence]:
    """What the entries of each output depend on; places count through the variables' entries in order."""
    known: dict[tuple[Node | None, int], Dependence] = {}
    start = 0
    for x in variables:
        size = prod(x.shape)
        places = np.arange(start, start + size)[:, None]
        known[slot_of(x)] = Dependence(places, np.zeros(size, bool))
        start += size
    floor = min(slot_of(x)[0].number for x in variables)
    for node in reachable([slot_of(y)[0] for y in outputs if is_tracked(y)], floor):
        if (node, 0) in known or node.op is None:
            continue
        incoming = [known.get((p, k)) for p, k in zip(node.parents, node.indices, strict=True)]
        if any(d is not None for d in incoming):
            for k in range(len(node.out) if node.multiple else 1):
                known[node, k] = _of_node(node, incoming, k)
    return [known.get(slot_of(y)) or _nothing(prod(y.shape)) for y in outputs]


def structure(variables: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """All that `dependences` looks at, as something to keep results by; None where it is large, or of objects
    that pass: the ops, their parameters and positions, shapes, and which result is an operand of what."""
    known: dict[tuple[Node | None, int], Any] = {slot_of(x): k for k, x in enumerate(variables)}
    found: list[Any] = []
    floor = min(slot_of(x)[0].number for x in variables)
    for node in reachable([slot_of(y)[0] for y in outputs if is_tracked(y)], floor):
        if (node, 0) in known or node.op is None:
            continue
        params = frozen(node.params) if node.params else ()
        args = _positions(node) if node.op.entry_map.moves else tuple(map(_shape, node.args))
        if TABLE.get(node.op.name) is not node.op or ... in args or not _is_constant(params):
            return None
        parents = tuple(map(known.get, zip(node.parents, node.indices, strict=True)))
        shapes = [held.shape for held in (node.out if node.multiple else (node.out,))]
        for k in range(len(shapes)):
            known[node, k] = len(found), k
        found.append((node.op, params, args, parents, *shapes))
    ends = [(known.get(slot_of(y)), y.shape) for y in outputs]
    return *map(_shape, variables), *found, *ends


def _shape(x: Any) -> Any:
    return getattr(x, "shape", ())


#: Index arrays of so many entries are part of a structure.
FEW = 1 << 12


def _positions(node: Node) -> tuple[Any, ...]:
    """Shapes of the operands of an op that moves entries; of index arrays, the entries, if they are few."""
    assert node.op is not None
    linear = {i for group in node.op.groups(len(node.args)) for i in group}
    return tuple([_shape(x) if i in linear else _entries(x) for i, x in enumerate(node.args)])


def _entries(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return _shape(x)
    return (x.shape, x.dtype.char, x.tobytes()) if x.size <= FEW else ...


def _is_constant(x: Any) -> bool:
    """Whether something is made of numbers and names: to keep it keeps no object of the user's."""
    try:
        if x in _KNOWN:
            return True
    except TypeError:  # not hashable
        return False
    found = all(map(_is_constant, x)) if type(x) is tuple else isinstance(x, _CONSTANTS)
    if found and type(x) is tuple and len(_KNOWN) < _KEPT:
        _KNOWN.add(x)
    return found


#: Tuples that are, so many at most: the parameters of ops are few.
_KNOWN: set[Any] = set()
_KEPT = 1024
_CONSTANTS = (bool, int, float, complex, str, bytes, type, np.dtype, NoneType)


def _of_node(node: Node, incoming: Sequence[Dependence | None], k: int) -> Dependence:
    op, shape = node.op, node.result(k).shape
    assert op is not None
    size, held = prod(shape), [d for d in incoming if d is not None]
    rule = next((rule for kinds, rule in _RULES if isinstance(op.entry_map, kinds)), None)
    if op.elementwise:
        rule = _entrywise
    elif op.entry_map.moves:
        rule = _moved
    if node.multiple or rule is None or all(d.everywhere for d in held):
        return anything(size)
    found = rule(node, incoming, shape)
    return anything(size) if found is None or found.at.size > MOST else found


def _entrywise(node: Node, incoming: Sequence[Dependence | None], shape: Shape) -> Dependence | None:
    """What the same entries of the operands depend on, which are broadcast."""
    parts = []
    for d, x in zip(incoming, node.args, strict=True):
        if d is not None:
            parts.append(d if x.shape == shape else d.rows(np.broadcast_to(_numbers(x.shape), shape).ravel()))
    return _union(parts)


def _moved(node: Node, incoming: Sequence[Dependence | None], shape: Shape) -> Dependence | None:
    """Where the op moves the numbers of rows. What comes from nowhere has the number 0."""
    assert node.op is not None
    args: list[Any] = []
    rows, first = [_nothing(1)], 1
    linear = {i for group in node.op.groups(len(node.args)) for i in group}
    for i, (d, x) in enumerate(zip(incoming, node.args, strict=True)):
        if d is not None:
            args.append(_numbers(x.shape) + first)
            rows.append(d)
            first += len(d.wide)
        elif i in linear:
            args.append(np.zeros(np.shape(x), np.int64))
        elif isinstance(x, np.ndarray):
            args.append(x)
        else:  # positions that are not known here
            return None
    numbers = to_strided(node.op.forward(*args, **node.params))
    if len(linear) < len(args):  # at index arrays, which may add several entries up
        ones = [np.minimum(a, 1) if i in linear else a for i, a in enumerate(args)]
        if to_strided(node.op.forward(*ones, **node.params)).max(initial=0) > 1:
            return None
    return _stacked(rows).rows(numbers.ravel())


def _reduced(node: Node, incoming: Sequence[Dependence | None], shape: Shape) -> Dependence | None:
    """What the entries of the line depend on that is reduced."""
    return _lines(incoming[0], node.args[0].shape, node.params["axis"])


def _along(node: Node, incoming: Sequence[Dependence | None], shape: Shape) -> Dependence | None:
    """As that, for each entry of the line."""
    given = node.params.get("axes", node.params.get("axis"))
    axes = given if isinstance(given, tuple) else (given,)
    x = node.args[0]
    if len([d for d in incoming if d is not None]) > 1 or x.shape != shape or incoming[0] is None:
        return None
    found = _lines(incoming[0], x.shape, axes)
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    return found and found.rows(np.broadcast_to(_numbers(kept), shape).ravel())


def _product(node: Node, incoming: Sequence[Dependence | None], shape: Shape) -> Dependence | None:
    """Of entry (i, j) of a product, what row i of the first factor and column j of the other depend on."""
    if any(len(x.shape) != 2 for x in node.args):
        return None
    parts = []
    for k, (d, x) in enumerate(zip(incoming, node.args, strict=True)):
        if d is not None:
            found = _lines(d, x.shape, (1 - k,))
            if found is None:
                return None
            numbers = _numbers((x.shape[k],))
            parts.append(found.rows(np.broadcast_to(numbers[:, None] if k == 0 else numbers, shape).ravel()))
    return _union(parts)


#: By the entry map of an op.
_RULES: tuple[tuple[Any, Callable[..., Dependence | None]], ...] = (
    ((Added, Same), _entrywise),
    ((Assigned, AssignedByIndex), _moved),
    (Reduced, _reduced),
    (Along, _along),
    (Contracted, _product),
)


def _numbers(shape: Shape) -> NDArray[np.int64]:
    return np.arange(prod(shape)).reshape(shape)


def _lines(d: Dependence | None, shape: Shape, axes: Sequence[int]) -> Dependence | None:
    """What all entries along axes depend on, for each entry of the other axes."""
    if d is None:
        return None
    order = [k for k in range(len(shape)) if k not in axes]
    numbers = _numbers(shape).transpose((*order, *axes)).reshape(prod(shape[k] for k in order), -1)
    at = d.at[numbers].reshape(len(numbers), -1)
    return _tidy(at, np.asarray(d.wide[numbers].any(axis=1)))


def _union(parts: Sequence[Dependence]) -> Dependence | None:
    if all(d is parts[0] for d in parts):
        return parts[0]
    wide = np.logical_or.reduce([d.wide for d in parts])
    if all(d.at is parts[0].at for d in parts):
        return Dependence(parts[0].at, wide)
    return _tidy(np.concatenate([d.at for d in parts], axis=1), wide)


def _tidy(at: Places, wide: NDArray[np.bool_]) -> Dependence | None:
    """Each place once, in order, in as few columns as hold them; rows with too many are wide."""
    if wide.any():
        at = np.where(wide[:, None], -1, at)
    if at.shape[1] > 1:
        at = np.sort(at, axis=1)
        same = at[:, 1:] == at[:, :-1]
        if same.any():
            at[:, 1:][same] = -1
            at.sort(axis=1)
    counts = (at >= 0).sum(axis=1)
    if counts.max(initial=0) > WIDEST:
        many = counts > WIDEST
        wide = wide | many
        at = np.where(many[:, None], -1, at)
        counts = np.where(many, 0, counts)
    return Dependence(at[:, at.shape[1] - counts.max(initial=0) :], wide)


def _stacked(parts: Sequence[Dependence]) -> Dependence:
    """The rows of all of them."""
    wide = np.concatenate([d.wide for d in parts])
    at = np.full((wide.size, max(d.at.shape[1] for d in parts)), -1)
    first = 0
    for d in parts:
        at[first : first + len(d.at), at.shape[1] - d.at.shape[1] :] = d.at
        first += len(d.at)
    return Dependence(at, wide)


__all__ = ["Dependence", "anything", "dependences", "structure"]
