"""Forward mode: a walk over the recorded graph from the inputs, which pushes tangents by each op's JVP.

One graph serves both modes, so forward and reverse nest in any mixture and no perturbations can be confused;
the price is that the graph stays in memory while tangents run (docs/decisions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import is_not
from typing import Any

import numpy as np

from iverson.autograd.accumulate import added
from iverson.autograd.engine import reverse
from iverson.autograd.mode import recording
from iverson.autograd.node import Node, differentiated, leaf, line_of, oldest, reachable
from iverson.autograd.plan import Kind, pushforward
from iverson.autograd.record import is_undefined, selected
from iverson.core import dtypes
from iverson.core.dispatch import Handle, bind, levels, make_handle
from iverson.core.entries import FULL
from iverson.core.errors import GradientError, NonFiniteError
from iverson.core.float_warnings import silent
from iverson.core.op import Op
from iverson.core.protocols import Shaped
from iverson.core.table import F
from iverson.layouts import Zero

Slot = tuple[Node, int]


@silent
def push(
    outputs: Sequence[Slot], tangents: Mapping[Slot, Handle], *, create_graph: bool, select: bool = True
) -> dict[Slot, Any]:
    """The tangents of the outputs, by slot (node, result number), from the ``tangents`` of some slots.

    If an output is missing from the result, its tangent is zero.

    create_graph : True if the pass itself is recorded.
    select : True if selections in the result are computed.
    """
    all_tangents: dict[Slot, Any] = dict(tangents)
    tangent_of: Any = all_tangents.get
    in_level, before = bool(levels()), differentiated.get()
    with recording(create_graph):
        for node in reachable([node for node, _ in outputs], oldest(tangents)):
            if node.op is None:
                continue
            incoming = list(map(tangent_of, zip(node.parents, node.indices, strict=True)))
            defined = tuple(map(is_not, incoming, _NONES))
            if True not in defined:
                continue
            try:
                if in_level:
                    differentiated.set(node.where or before)
                results = _tangents(node, node.op, incoming, defined)
            except NonFiniteError as error:
                where = "" if node.where is None else line_of(node.where)
                raise error.of_derivative("forward derivative", node.describe(), where) from None
            except Exception as error:
                error.add_note(f"in the forward derivative of {node.describe()}")
                raise
            finally:
                if in_level:
                    differentiated.set(before)
            for index, t in enumerate(results):
                # A result that is itself a starting point keeps the tangent it was given.
                if t is not None and (node, index) not in tangents:
                    all_tangents[node, index] = t
    output_tangents = {slot: all_tangents[slot] for slot in outputs if slot in all_tangents}
    return {slot: selected(t) for slot, t in output_tangents.items()} if select else output_tangents


_NONES = repeat(None)


def _tangents(node: Node, op: Op, incoming: list[Handle | None], defined: tuple[bool, ...]) -> Sequence[Any]:
    """The tangents of a node's results, each a sum over the arguments; None for one that is zero.

    incoming : the tangent of each argument, or None.
    defined : for each argument, True if it has a tangent.
    """
    inputs, y, params = node.inputs(), node.results(), node.params
    terms: list[Any] = []
    for kind, positions, rule in pushforward(op, defined):
        if kind is Kind.JOINT:
            if op.selects:  # type: ignore[attr-defined]
                incoming = [None if t is None else selected(t) for t in incoming]
            results = rule(tuple(incoming), node)
            return [
                None if t is None else _total([_checked(t, node, j)], node, j) for j, t in enumerate(results)
            ]
        if kind is Kind.EACH:
            terms.append(rule(F, incoming[positions[0]], y, *inputs, **params))
        elif kind is Kind.LINEAR:
            args = list(inputs)
            for j in positions:
                args[j] = incoming[j] if defined[j] else _zero_like(inputs[j])
            terms.append(bind(op, tuple(args), params))
        else:
            terms.append(_transposed_twice(node, op, incoming, positions))
    if not op.multiple:
        return [_total(terms, node, 0)]
    summands = [t for t in terms if t is not None]
    return [_total([t[j] for t in summands], node, j) for j in range(len(node.out))]


def _checked(t: Handle, node: Node, index: int) -> Any:
    """A tangent from a user's rule; raises GradientError unless it has its result's shape."""
    expected = node.result(index).shape
    if not isinstance(t, Handle) or t.shape != expected:
        raise GradientError(
            "jvp",
            got=f"a tangent of {f'shape {t.shape}' if isinstance(t, Handle) else f'type {type(t).__name__}'}"
            f" from {node.describe()}",
            expected=f"a Tensor of shape {expected}, that of result {index}",
            remedy="correct the rule",
        )
    return t


def _total(terms: Sequence[Handle | None], node: Node, index: int) -> Any:
    """Sum of the terms of the tangent of result ``index``, in its shape and dtype; None without terms."""
    of = node.out[index] if node.multiple else node.out
    shape, dtype = of.shape, of.dtype
    # Terms of operands that were broadcast are smaller, and a sum takes its terms in one shape.
    defined = [
        t if t.shape == shape else F.broadcast_to(t, shape=shape)
        for t in terms
        if t is not None and not is_undefined(t)
    ]
    if not defined:
        return None
    total = defined[0] if len(defined) == 1 else added(defined)
    if total.dtype != dtype:
        if total.dtype.kind == "c" and dtype.kind != "c":
            total = F.real(total)
        total = F.astype(total, dtype=dtype)
    return total


def _zero_like(x: Shaped | complex) -> Any:
    """A constant zero in the shape of ``x``, with a floating dtype."""
    shape = getattr(x, "shape", ())
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return make_handle(Zero(shape, dtypes.to_inexact(dtype)))


def _transposed_twice(node: Node, op: Op, incoming: list[Handle | None], positions: Sequence[int]) -> Any:
    """The tangent J t of an op's result(s) from the vjp alone: g -> J^T g is linear, and its transpose is J.

    The cotangent g is a variable at 0; differentiating <J^T g, t> in g gives J t.

    positions : the arguments whose tangents are pushed.
    """
    from iverson.autograd.engine import _cotangents
    from iverson.core.entries import NOTHING

    metas = [node.result(j) for j in range(len(node.out) if op.multiple else 1)]
    variables = [
        make_handle(np.zeros(m.shape, dtypes.to_inexact(m.dtype)), leaf(m.shape, m.dtype)) for m in metas
    ]
    demands = tuple(FULL if k in positions else NOTHING for k in range(len(incoming)))
    with recording(True):
        pulled = _cotangents(node, tuple(variables) if op.multiple else variables[0], demands, True)
    seeds = [
        ((ct._node, ct._index), F.astype(incoming[k], dtype=ct.dtype))
        for k, ct in pulled
        if ct._node is not None
    ]
    slots = [(v._node, 0) for v in variables]
    from iverson.autograd.mode import is_grad_enabled

    gradients = reverse(seeds, dict.fromkeys(slots, FULL), create_graph=is_grad_enabled())
    results = tuple(gradients.get(slot) for slot in slots)
    return results if op.multiple else results[0]
