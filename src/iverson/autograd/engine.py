"""The reverse pass: one walk back over the needed part of the graph.

A rule runs only if its input's cotangent is needed in this call and a cotangent has arrived; an undefined
cotangent (a constant in the zero layout) is never handed on. No recursion, no state on nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from iverson.autograd.accumulate import Sum
from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.needs import Needs, Slot, find_needs
from iverson.autograd.node import Node, line_of, reachable
from iverson.autograd.record import is_undefined, selected
from iverson.autograd.watch import watch
from iverson.core import work
from iverson.core.dispatch import Handle, alias, make_handle
from iverson.core.entries import (
    FULL,
    NOTHING,
    Box,
    Entries,
    Factors,
    Stored,
    covers,
    in_products,
    meet,
    plain,
)
from iverson.core.errors import DTypeError, GradientError, ShapeError
from iverson.core.op import Op
from iverson.core.shapes import Shape
from iverson.core.table import OVERRIDES, F
from iverson.layouts import Zero, support_of

#: What has arrived for a node: a cotangent or a Sum, or these by result where it has several.
Arrived = dict[Node, Any]


def reverse(
    seeds: Sequence[tuple[Slot, Any]],
    targets: Mapping[Slot, Entries],
    *,
    create_graph: bool,
    order: list[Node] | None = None,
) -> dict[Slot, Any]:
    """The cotangents of the targets, from cotangents of the outputs.

    seeds : pairs of a result and the handle of its cotangent.
    targets : what is demanded of each result asked for. A target missing from the result is undefined.
    create_graph : whether the pass itself is recorded, so that its results can be differentiated.
    order : the nodes the seeds were made from, oldest first, where the caller knows them already.
    """
    if order is None:
        floor = min((node.number for node, _ in targets), default=0)
        order = reachable([node for (node, _), _ in seeds], floor)
    needs = find_needs(order, targets, create_graph)
    with recording(create_graph), np.errstate(all="ignore"):
        return _walk(order, needs, seeds, targets, create_graph)


def _walk(
    order: list[Node],
    needs: Needs,
    seeds: Sequence[tuple[Slot, Any]],
    targets: Mapping[Slot, Entries],
    recording: bool,
) -> dict[Slot, Any]:
    arrived: Arrived = {}
    for slot, handle in seeds:
        if needs.result(*slot) is not NOTHING:
            _arrive(arrived, *slot, handle, recording)
    found: dict[Slot, Any] = {}
    of_args = needs.of_args
    for node in reversed(order):
        at_node = arrived.pop(node, None)
        if at_node is None:
            if work.active.count:
                _report_skipped(node, needs)
            continue
        g = _collect(node, at_node, found, targets)
        if node in of_args:
            for position, ct in _cotangents(node, g, of_args[node]):
                _arrive(arrived, node.parents[position], node.indices[position], ct, recording)
    return found


def _is_unneeded(parent: Node | None, need: Entries) -> bool:
    return parent is not None and need is NOTHING


def _report_skipped(node: Node, needs: Needs) -> None:
    """Count the cotangents of a node's inputs that this pass does not compute."""
    if node.op is not None:
        of_args = needs.of_args.get(node, [NOTHING] * len(node.parents))
        unneeded = sum(map(_is_unneeded, node.parents, of_args))
        needed = sum(p is not None for p in node.parents) - unneeded
        work.skipped(node.op.name, unneeded=unneeded, undefined=needed)


def _arrive(arrived: Arrived, node: Node | None, index: int, ct: Any, recording: bool) -> None:
    """Add a cotangent to what has arrived for one result of a node."""
    assert node is not None
    if node.multiple:
        by_result = arrived.setdefault(node, {})
        by_result[index] = _added(by_result.get(index), ct, recording)
    else:
        arrived[node] = _added(arrived.get(node), ct, recording)


def _added(before: Any, ct: Any, recording: bool) -> Any:
    if before is None:
        return ct
    before, ct = _multiplied(before), _multiplied(ct)
    if type(before) is not Sum:
        before = Sum(before, recording or before._node is not None)
    before.add(ct)
    return before


def _multiplied(ct: Any) -> Any:
    """A cotangent as one handle: `Factors` are multiplied at the pattern needed of it, or everywhere."""
    if type(ct) is not Factors:
        return ct
    if isinstance(ct.need, Stored):
        return F.matmul_on(ct.left, ct.right, ct.need.pattern)
    return F.matmul(ct.left, ct.right)


def _exported(ct: Any) -> Any:
    """A cotangent as what is not a rule may see it: multiplied out, its selections made."""
    return selected(_multiplied(ct))


def _collect(node: Node, at_node: Any, found: dict[Slot, Any], targets: Mapping[Slot, Entries]) -> Any:
    """The complete cotangent of a node's results, after its hooks; a tuple where it has several."""
    if not node.multiple:
        return _completed(node, 0, at_node, found, targets)
    complete = {k: _completed(node, k, ct, found, targets) for k, ct in at_node.items()}
    return tuple([complete[k] if k in complete else _undefined(node, k) for k in range(len(node.out))])


def _completed(
    node: Node, index: int, ct: Any, found: dict[Slot, Any], targets: Mapping[Slot, Entries]
) -> Any:
    if type(ct) is Sum:
        ct = ct.total()
    if node.extra is not None:
        ct = _hooked(node, index, _exported(ct))
    if (node, index) in targets:
        ct = found[node, index] = _exported(ct)
    return ct


def _undefined(node: Node, index: int) -> Any:
    meta = node.result_meta(index)
    return make_handle(Zero(meta.shape, meta.dtype))


def _hooked(node: Node, index: int, ct: Any) -> Any:
    assert node.extra is not None
    for hook, where in tuple(node.extra.hooks.get(index, {}).values()):
        at = f"hook on {node.describe()}" + (f", registered at {line_of(where)}" if where else "")
        try:
            replaced = hook(alias(ct))
            if replaced is not None:
                ct = alias(conform(replaced, node.result_meta(index), at))
        except Exception as error:
            error.add_note(f"in the {at}")
            raise
    return ct


def _cotangents(node: Node, g: Any, needs: Sequence[Entries]) -> list[tuple[int, Any]]:
    """The defined cotangents of the arguments that are needed, by position."""
    op = node.op
    assert op is not None
    if work.active.count:
        work.rule(op.name)
        work.skipped(op.name, unneeded=sum(map(_is_unneeded, node.parents, needs)))
    result = []
    try:
        for k, ct in _by_input(node, op, g, needs):
            if ct is not None:
                meta = _input_meta(node, k)
                if type(ct) is Factors:
                    ct.need = needs[k]
                    if ct.dtype == meta[1]:
                        result.append((k, ct))
                        continue
                    ct = _multiplied(ct)
                if work.active.count:
                    _report_cast(node, ct, meta, g)
                ct = conform(ct, meta, node)
                if not is_undefined(ct):
                    result.append((k, ct))
    except Exception as error:
        error.add_note(f"in the backward of {node.describe()}")
        raise
    return result


def _report_cast(node: Node, ct: Any, meta: tuple[Shape, Any], g: Any) -> None:
    given = getattr(ct, "dtype", None)
    if given != meta[1]:
        arrived = tuple(str(x.dtype) for x in (g if node.multiple else (g,)))
        work.cast(node.describe(), str(given), str(meta[1]), arrived)


def _by_input(node: Node, op: Op, g: Any, needs: Sequence[Entries]) -> list[tuple[int, Any]]:
    """What the rules give for the arguments that are needed (None for no derivative)."""
    wanted = [k for k, need in enumerate(needs) if need is not NOTHING]
    if op.joint is not None:
        found = op.joint(tuple(needs), node, tuple(map(selected, g)) if node.multiple else selected(g))
        return _checked(node, needs, [(k, found[k]) for k in wanted])
    vjp = OVERRIDES.get(op.name, op.vjp) if OVERRIDES else op.vjp
    overridden = vjp is not op.vjp
    if overridden:
        g = _exported(g)
    inputs, y, params = node.inputs(), node.results(), node.params
    shared: Any = ()
    if op.shared is not None and not overridden:
        shared = (op.shared(F, g, y, *inputs, **params),)
    if callable(vjp):
        given = vjp(F, wanted, *shared, g, y, *inputs, **params)
        return _checked(node, needs, list(zip(wanted, given, strict=True)))
    result = []
    for k in wanted:
        rule = vjp[k] if k < len(vjp) else None
        if rule is not None:
            if shared:
                rule = partial(_with_shared, rule, shared[0])
            if in_products(needs[k]) and op.factors is not None and not overridden:
                ct = op.factors(F, k, g, y, *inputs, **params)
                if ct is not NotImplemented:
                    result.append((k, ct))
                    continue
            everywhere = overridden or (needs[k] is FULL and type(getattr(g, "_value", None)) is np.ndarray)
            part = FULL if everywhere else _part(op, k, g, needs[k], inputs, y, params)
            if part is NOTHING:
                continue
            watched = watch(node.parents, needs, k)
            if isinstance(part, Box | Stored):
                ct = _compute_part(op, rule, part, k, shared, g, y, inputs, params)
            else:
                ct = rule(F if watched is None else watched, g, y, *inputs, **params)
            if watched is not None:
                watched.check(ct)
            result.append((k, ct))
    return result


def _checked(node: Node, needs: Sequence[Entries], found: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """What rules for all inputs at once gave, after a warning where a large sparse leaf's is dense."""
    for k, ct in found:
        watched = watch(node.parents, needs, k)
        if watched is not None:
            watched.check(ct)
    return found


def _with_shared(rule: Any, shared: Any, F: Any, *args: Any, **params: Any) -> Any:
    return rule(F, shared, *args, **params)


def _part(
    op: Op, k: int, g: Any, demand: Entries, inputs: tuple[Any, ...], y: Any, params: dict[str, Any]
) -> Entries:
    """What is computed of input k's cotangent: where it is both demanded and possibly nonzero."""
    support: Entries = FULL
    # Where a tracked cotangent is zero now, its derivative may not be: only constants may be cut.
    if (
        op.support is not None
        and not op.multiple
        and type(g) is not Factors
        and (g._node is None or not is_grad_enabled())
    ):
        support = op.support(support_of(g._value), k, inputs, y, **params)
    return plain(meet(demand, support), inputs[k].shape)


def _compute_part(
    op: Op,
    rule: Any,
    part: Box | Stored,
    k: int,
    shared: Any,
    g: Any,
    y: Any,
    inputs: Any,
    params: dict[str, Any],
) -> Any:
    """Part of input k's cotangent: computed alone if the op knows how, else cut out of the whole.

    What lies outside a pattern is computed where no rule can avoid it; nobody reads it.
    """
    if op.within is not None:
        ct = op.within(F, rule, part, k, *shared, g, y, *inputs, **params)
        if ct is not NotImplemented:
            return ct
    ct = rule(F, g, y, *inputs, **params)
    if ct is None or isinstance(part, Stored) or ct.shape != inputs[k].shape:
        return ct
    if covers(part, support_of(ct._value), ct.shape) and (ct._node is None or not is_grad_enabled()):
        return ct
    key = part.region.slices
    return F.place(F.index_basic(ct, key=key), key=key, shape=ct.shape)


def _input_meta(node: Node, k: int) -> tuple[Shape, Any]:
    held = node.args[k]
    return held if type(held) is tuple else (held.shape, held.dtype)


def conform(ct: Any, meta: Any, source: Any) -> Any:
    """A cotangent in its input's dtype; raises GradientError if its shape is not the input's.

    A real input takes the real part: the imaginary part is what it cannot follow.
    """
    shape, dtype = meta if type(meta) is tuple else (meta.shape, meta.dtype)
    value = getattr(ct, "_value", None)
    if value is not None and value.shape == shape and value.dtype == dtype:
        return ct
    if not isinstance(ct, Handle):
        name = source.describe() if isinstance(source, Node) else str(source)
        raise GradientError(
            "backward", got=f"a gradient of type {type(ct).__name__} from {name}", expected="a Tensor"
        )
    if ct.shape != shape:
        name = source.describe() if isinstance(source, Node) else str(source)
        raise GradientError(
            "backward",
            got=f"a gradient of shape {ct.shape} from {name}",
            expected=f"shape {shape}, that of the input",
            remedy="correct the rule",
        )
    if ct.dtype != dtype:
        if ct.dtype.kind == "c" and dtype.kind != "c":
            ct = F.real(ct)
        if ct.dtype != dtype:
            ct = F.astype(ct, dtype=dtype)
    return ct


def check_seed(output: Any, ct: Any, operation: str, argument: str, what: str = "the output") -> Any:
    """A cotangent the user gave for an output (a tangent for an input), of its shape, brought to its dtype.

    Raises ShapeError, and DTypeError for a complex one of something real.
    """
    if ct.shape != output.shape:
        raise ShapeError(
            operation,
            argument,
            got=f"shape {ct.shape}",
            expected=f"shape {output.shape}, that of {what}",
            remedy="it is never broadcast; use broadcast_to if that is meant",
        )
    if ct.dtype.kind == "c" and output.dtype.kind == "f":
        raise DTypeError(
            operation,
            argument,
            got=f"dtype {ct.dtype}",
            expected=f"a real dtype: {what} is {output.dtype}",
            remedy="take its real part if that is meant",
        )
    return conform(ct, (output.shape, output.dtype), operation)
