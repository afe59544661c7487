"""Reverse pass: one walk back over the needed part of the recorded graph.

A rule runs only if its input's cotangent is needed in this call and a cotangent has arrived; an undefined
cotangent (a constant in the zero layout) is never passed on. No recursion, no state on nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np

from iverson.autograd import unrecorded_values
from iverson.autograd.accumulate import Sum
from iverson.autograd.demand_propagation import (
    Demands,
    Needs,
    Slot,
    are_differentiated,
    find_needs,
    known_inputs,
)
from iverson.autograd.densify_watch import watch
from iverson.autograd.mode import is_grad_enabled, reset_recording, set_recording
from iverson.autograd.node import (
    _GIVEN,
    WHOLE,
    Node,
    differentiated,
    first,
    line_of,
    make_node,
    oldest,
    reachable,
)
from iverson.autograd.plan import Kind, Plan, on_values, parts_of, pullback
from iverson.autograd.record import selected
from iverson.autograd.stored_entries import entries_at, with_entries
from iverson.core.aval import Aval
from iverson.core.counting import work
from iverson.core.dispatch import Handle, LevelValue, alias, levels, make_handle, slot_of, value_of
from iverson.core.entries import (
    FULL,
    NOTHING,
    Box,
    Entries,
    Full,
    LowRank,
    Stored,
    covers,
    entry_by_entry,
)
from iverson.core.errors import DTypeError, GradientError, NonFiniteError, ShapeError
from iverson.core.float_warnings import silent
from iverson.core.op import Op, Rule
from iverson.core.protocols import Params, Shaped
from iverson.core.table import F, overrides
from iverson.layouts import Bracket, Pattern, Strided, Zero, support_of
from iverson.layouts.block_diagonal import entries_of_slices

#: A cotangent in a pass: a handle, or a matrix that is not multiplied out.
Cotangent: TypeAlias = Handle | LowRank
#: What has arrived for a node: a cotangent or a Sum, or these by result where it has several.
Arrived = dict[Node, Any]


def reverse(
    seeds: list[tuple[Slot, Handle]],
    targets: Mapping[Slot, Entries],
    *,
    create_graph: bool,
    order: list[Node] | None = None,
    select: bool = True,
) -> dict[Slot, Any]:
    """The cotangents of the targets, by slot (node, result number), from the cotangents of the outputs.

    A node that nobody else refers to is freed, with the values that it keeps, as soon as its rules have run.

    seeds : pairs of a slot and the handle of its cotangent; the list is emptied.
    targets : the entries demanded of each target. If a target is missing from the result, its cotangent is
        zero.
    create_graph : True if the pass itself is recorded, so that its results can be differentiated.
    order : the nodes the seeds were made from, oldest first, if the caller knows them already; it is emptied.
    select : True if selections in the results are computed.
    """
    if order is None:
        order = reachable(map(first, map(first, seeds)), oldest(targets))
    needs = find_needs(order, targets, create_graph)
    before = differentiated.get()
    token = set_recording(create_graph)
    try:
        return _walk(order, needs, seeds, targets, create_graph, select)
    finally:
        reset_recording(token)
        differentiated.set(before)


@silent
def _walk(
    order: list[Node],
    needs: Needs,
    seeds: list[tuple[Slot, Handle]],
    targets: Mapping[Slot, Entries],
    recording: bool,
    select: bool,
) -> dict[Slot, Any]:
    """Cotangents of the targets: runs the rules of the nodes in ``order``, from the newest to the oldest.

    needs : the demands on the cotangents of all nodes; emptied, as ``seeds`` and ``order`` are.
    recording : True if the pass is recorded.
    """
    cotangents: Arrived = {}
    g: Any
    for (node, index), g in seeds:  # the walk gives these names to others: they keep no node
        if not node.multiple and node in needs.of_results and node not in cotangents:
            cotangents[node] = g
        elif needs.result(node, index) is not NOTHING:
            _arrive(cotangents, node, index, g, recording)
    seeds.clear()
    results: dict[Slot, Any] = {}
    target_nodes = set(map(first, targets))
    in_level = bool(levels())
    # Without a need nothing arrives; to count what is skipped, all nodes are passed by.
    counting = bool(work.active.count)
    path: dict[Node, Any] = needs.of_args
    if counting:
        path = {node: needs.of_args.get(node) for node in order}
    else:
        needs.of_results.clear()
    order.clear()
    while path:
        node, demands = path.popitem()
        g = cotangents.pop(node, None)
        if g is None:
            if counting:
                from iverson.autograd.skipped_cotangents import report_unreached

                report_unreached(node, needs)
            continue
        if node.multiple or type(g) is Sum or node.meta is not None or node in target_nodes:
            g = _collect(node, g, results, targets, select)
        if demands is not None:
            parents = node.parents
            if in_level:
                differentiated.set(node.where)
            for k, ct in _cotangents(node, g, demands, recording):
                parent: Any = parents[k]
                if parent.op is None and select and type(getattr(ct, "_value", None)) is Bracket:
                    ct = _without_condition(ct)
                if parent in cotangents or parent.multiple:
                    _arrive(cotangents, parent, node.indices[k], ct, recording)
                else:
                    cotangents[parent] = ct
    for node, g in cotangents.items():  # of which no argument is asked for, in the order of arrival
        meta = node.meta
        is_single = type(g) is not Sum and not node.multiple
        if is_single and type(g._value) is Strided and (meta is None or not meta.hooks):
            results[node, 0] = g
        else:
            _collect(node, g, results, targets, select)
    return results


def _without_condition(ct: Handle) -> Any:
    """A selection that is made as its values, without the condition, which may refer to masks."""
    value: Any = ct._value
    if value.is_made and value.is_lazy:
        return make_handle(value.values, ct._node, ct._index)
    return ct


def _arrive(cotangents: Arrived, node: Node | None, index: int, ct: Cotangent, recording: bool) -> None:
    """Add the cotangent ``ct`` to the sum of those for result ``index`` of ``node``, in ``cotangents``."""
    assert node is not None
    if node.multiple:
        by_result = cotangents.setdefault(node, {})
        by_result[index] = _added(by_result.get(index), ct, recording)
    else:
        cotangents[node] = _added(cotangents.get(node), ct, recording)


def _added(before: Any, ct: Cotangent, recording: bool) -> Any:
    """The sum of ``before`` (None, a cotangent or a `Sum`) and ``ct``."""
    if before is None:
        return ct
    before, ct = _multiplied(before), _multiplied(ct)
    if type(before) is not Sum:
        before = Sum(before, recording)
    before.add(ct)
    return before


def _multiplied(ct: Cotangent) -> Any:
    """Cotangent as one handle: the product of a `LowRank`, at the pattern that is read."""
    if type(ct) is not LowRank:
        return ct
    if isinstance(ct.need, Stored):
        return F.matmul_on(ct.left, ct.right, ct.need.pattern)
    return F.matmul(ct.left, ct.right)


def _exported(ct: Cotangent) -> Any:
    """A cotangent for the code of users: factors are multiplied, and selections are computed."""
    return selected(_multiplied(ct))


def _collect(
    node: Node,
    at_node: Any,
    results: dict[Slot, Cotangent],
    targets: Mapping[Slot, Entries],
    select: bool,
) -> Any:
    """The complete cotangent of a node's results, after its hooks; a tuple if it has several results.

    If a result is a target, its cotangent is put into ``results``.

    at_node : a cotangent or a `Sum`; a dictionary of these by result number if there are several results.
    select : True if selections in ``results`` are computed.
    """
    if not node.multiple:
        return _completed(node, 0, at_node, results, targets, select)
    complete = {k: _completed(node, k, ct, results, targets, select) for k, ct in at_node.items()}
    return tuple([complete[k] if k in complete else _undefined(node, k) for k in range(len(node.out))])


def _completed(
    node: Node,
    index: int,
    ct: Any,
    results: dict[Slot, Cotangent],
    targets: Mapping[Slot, Entries],
    select: bool,
) -> Any:
    """Complete cotangent of result ``index`` of a node, after its hooks; a target's goes into ``results``."""
    if type(ct) is Sum:
        ct = ct.total()
    if node.meta is not None and node.meta.hooks.get(index):
        ct = _hooked(node, index, _exported(ct))
    if (node, index) in targets:
        if select and type(ct._value) is not np.ndarray:
            ct = selected(ct)
        results[node, index] = ct
    return ct


def _undefined(node: Node, index: int) -> Any:
    """A constant zero, the cotangent of a result for which none has arrived."""
    of = node.result(index)
    return make_handle(Zero(of.shape, of.dtype))


def _hooked(node: Node, index: int, ct: Handle) -> Any:
    """Cotangent after the hooks of a result: each hook gets it, and may return another one."""
    assert node.meta is not None
    for hook, where in tuple(node.meta.hooks.get(index, {}).values()):
        at = f"hook on {node.describe()}" + (f", registered at {line_of(where)}" if where else "")
        try:
            with nullcontext() if is_grad_enabled() else unrecorded_values.of_user():
                replaced = hook(alias(ct))
            if replaced is not None:
                ct = alias(conform(replaced, node.result(index), at))
        except Exception as error:
            error.add_note(f"in the {at}")
            raise
    return ct


def _cotangents(node: Node, g: Any, demands: Demands, recording: bool) -> list[tuple[int, Any]]:
    """Pairs of a position and the cotangent of that argument, for those that are demanded and not zero.

    g : the cotangent of the node's result; a tuple if it has several.
    demands : the entries that are read of each argument's cotangent.
    """
    op: Any = node.op
    try:
        plan, parts = None, demands
        if node.reads[0] is FULL and (not op.entry_map.bounds or _is_whole(g)) and not overrides():
            plan = op.plans.get(demands)
        if plan is None:
            plan, parts = _planned(node, op, g, demands, recording)
        if work.active.count:
            from iverson.autograd.skipped_cotangents import report_planned

            report_planned(node, demands, plan, parts)
        if plan.on_values:
            return _carried_out_on_values(plan, node, g, demands)
        return _carried_out(plan, node, op, g, demands, parts)
    except NonFiniteError as error:
        where = "" if node.where is None else line_of(node.where)
        raise error.of_derivative("backward", node.describe(), where) from None
    except Exception as error:
        error.add_note(f"in the backward of {node.describe()}")
        raise


def _is_whole(g: Cotangent | tuple[Handle, ...]) -> bool:
    """True if a cotangent has no support smaller than all entries: it is strided or known to be dense."""
    value = getattr(g, "_value", None)
    return type(value) is Strided or getattr(value, "dense", False)


def _conformed(ct: Any, node: Node, k: int, demands: Demands, g: Cotangent | tuple[Handle, ...]) -> Any:
    """Cotangent of argument ``k`` in its shape and dtype, from a rule's ``ct``; None if it is zero.

    g : the cotangents that the rule was given, for a report of a cast.
    """
    if ct is None:
        return None
    of = node.args[k]
    if type(ct) is LowRank:
        ct.need = demands[k]
        if ct.dtype == of.dtype:
            return ct
        ct = _multiplied(ct)
    if work.active.count:
        _report_cast(node, ct, of, g)
    ct = conform(ct, of, node)
    return ct if type(ct._value) is not Zero or ct._node is not None else None


def pulled_back(
    op: Op,
    params: Params,
    inputs: Sequence[Handle | Shaped],
    out: Any,
    g: Sequence[Handle],
    positions: Sequence[int],
) -> list[tuple[int, Any]]:
    """Pairs of a position and the cotangent of that input of a call, in ``positions``, if not zero.

    inputs : handles, or numbers.
    out : the result as a node keeps it, a tuple if there are several.
    g : the cotangents of the results, with zeros for those that are undefined.
    """
    parents, indices = zip(*(slot_of(x) if isinstance(x, Handle) else (None, 0) for x in inputs), strict=True)
    values = tuple([value_of(x, x) for x in inputs])
    node = make_node(op, values, params, parents, indices, out, None)
    demands = tuple([FULL if k in positions else NOTHING for k in range(len(inputs))])
    cotangents = _cotangents(node, tuple(g) if op.multiple else g[0], demands, is_grad_enabled())
    return [(k, _multiplied(ct)) for k, ct in cotangents]


def _report_cast(node: Node, ct: Shaped | LowRank, of: Shaped, g: Any) -> None:
    """Report a cotangent of another dtype than its input ``of`` to the work counters."""
    result_dtype = getattr(ct, "dtype", None)
    if result_dtype != of.dtype:
        cotangent_dtypes = tuple(str(x.dtype) for x in (g if node.multiple else (g,)))
        work.cast(node.describe(), str(result_dtype), str(of.dtype), cotangent_dtypes)


def _planned(node: Node, op: Op, g: Any, demands: Demands, recording: bool) -> tuple[Plan, Demands]:
    """The plan with the rules to run, and the entries of each argument's cotangent to compute.

    The support of a cotangent that is tracked in a recorded pass does not count: its derivative may be
    nonzero elsewhere.
    """
    replacing = overrides()
    if replacing and op.name in replacing:  # a user's rules give all of a cotangent
        return pullback(op, demands), tuple([need if need is NOTHING else FULL for need in demands])
    value = getattr(g, "_value", None)
    if type(value) is Bracket:  # its values are computed wherever they are held, in a box or everywhere
        value = value.values
    of_all = node.multiple or type(g) is LowRank or not op.entry_map.bounds or type(value) is Strided
    of_all = of_all or getattr(value, "dense", False)
    if of_all or (g._node is not None and is_grad_enabled()):
        return pullback(op, demands), demands
    if isinstance(value, LevelValue) and are_differentiated(levels()):
        return pullback(op, demands), demands
    (usual_demand, usual_need), pattern = node.reads, getattr(g._value, "pattern", None)
    if (
        usual_demand is usual_need
        and type(usual_demand) is Stored
        and usual_demand.pattern is pattern
        and not recording
    ):
        for need in demands:
            if (
                need is not usual_demand
                and need is not NOTHING
                and type(need) is not Full
                and need != usual_demand
            ):
                break
        else:
            return on_values(op, demands), demands
    inputs = known_inputs(node, recording)
    parts = parts_of(op, demands, support_of(value), inputs, node.out, node.params)
    return pullback(op, demands, parts), parts


_EACH = Kind.EACH


def _carried_out(
    plan: Plan, node: Node, op: Op, g: Any, demands: Demands, parts: Demands
) -> list[tuple[int, Any]]:
    """Run the rules of ``plan``: pairs of a position and the cotangent of that argument.

    parts : the entries of each cotangent to compute.
    """
    inputs = args = node.args
    y, params, parents = node.out, node.params, node.parents
    is_plain = node.reads is WHOLE  # then no argument is sparse
    if not _GIVEN.issuperset(map(type, args)):
        inputs = node.inputs()
    if type(y) is not Aval:
        y = node.results()
    cotangents: list[tuple[int, Any]] = []
    if plan.replaced:
        g = _exported(g)
    for kind, positions, rule in plan.steps:
        k = positions[0]
        unwatched = is_plain or (parent := parents[k]) is None or parent.meta is None
        watched = None if unwatched else watch(parents, demands, k)
        if kind is _EACH:
            ct = rule(watched or F, g, y, *inputs, **params)
        elif kind is Kind.PART:
            ct = _part(op, rule, parts[k], k, g, y, inputs, params)
        elif kind is Kind.LOW_RANK:
            ct = op.vjp_at(F, rule, demands[k], k, g, y, *inputs, **params)  # type: ignore[misc]
            if ct is NotImplemented:
                ct = _part(op, rule, entry_by_entry(parts[k]), k, g, y, inputs, params)
        else:
            if kind is Kind.TOGETHER:
                part_of = {k: parts[k] for k in positions}
                of_all = rule(F, part_of, g, y, *inputs, **params)
                of_all = [_cut(ct, part_of[k], inputs[k]) for k, ct in zip(positions, of_all, strict=True)]
            else:
                if op.selects:  # type: ignore[attr-defined]
                    g = tuple(map(selected, g)) if node.multiple else selected(g)
                of_all = rule(demands, node, g)
                of_all = [of_all[k] for k in positions]
            cotangents += _several(of_all, positions, node, demands, g)
            continue
        if watched is not None:
            watched.check(ct)
        value, of = getattr(ct, "_value", None), args[k]
        if (
            value is not None
            and type(value) is not Zero
            and value.dtype is of.dtype
            and value.shape == of.shape
        ) or (ct := _conformed(ct, node, k, demands, g)) is not None:
            cotangents.append((k, ct))
    return cotangents


def _several(
    of_all: Sequence[Cotangent | None],
    positions: Sequence[int],
    node: Node,
    demands: Demands,
    g: Handle | tuple[Handle, ...],
) -> list[tuple[int, Any]]:
    """Pairs of a position and a cotangent, from the result ``of_all`` of a rule for several inputs.

    Warns if the cotangent of a large sparse leaf is dense.
    """
    cotangents = []
    for k, ct in zip(positions, of_all, strict=True):
        watched = watch(node.parents, demands, k)
        if watched is not None:
            watched.check(ct)
        ct = _conformed(ct, node, k, demands, g)
        if ct is not None:
            cotangents.append((k, ct))
    return cotangents


def _carried_out_on_values(plan: Plan, node: Node, g: Handle, demands: Demands) -> list[tuple[int, Any]]:
    """Same as `_carried_out`, for operands on one pattern: rules run on stored entries alone."""
    pattern, entries = g._value.pattern, g._value.values
    g, shape, params = make_handle(entries), entries.shape, node.params
    operands: list[Any] = []
    for x in (node.out, *node.args):
        if type(x) is Aval:
            x = Aval(shape, x.dtype)
        elif type(x) not in _GIVEN:
            x = make_handle(x.values)
        operands.append(x)
    cotangents: list[tuple[int, Any]] = []
    for _, (k,), rule in plan.steps:
        ct = rule(F, g, *operands, **params)
        if ct is None:
            continue
        ct = with_entries(ct, pattern)
        if ct._value.dtype == node.args[k].dtype or (ct := _conformed(ct, node, k, demands, g)) is not None:
            cotangents.append((k, ct))
    return cotangents


def _part(
    op: Op,
    rule: Rule,
    part: Entries,
    k: int,
    g: Cotangent,
    y: Shaped,
    inputs: Sequence[Shaped],
    params: Params,
) -> Any:
    """The entries ``part`` of the cotangent of input ``k``.

    They are computed alone if the op has a rule for that (``vjp_at``). Else the whole cotangent is computed,
    and a box is cut out of it; for a pattern it stays whole, because nothing reads the other entries.
    """
    if op.vjp_at is not None and isinstance(part, Box | Stored):
        ct = op.vjp_at(F, rule, part, k, g, y, *inputs, **params)
        if ct is NotImplemented and type(part) is Stored and not op.entry_map.moves:
            ct = _part_of_slices(op, rule, part.pattern, k, g, y, inputs, params)
        if ct is not NotImplemented:
            return ct
    return _cut(rule(F, g, y, *inputs, **params), part, inputs[k])


def _part_of_slices(
    op: Op,
    rule: Rule,
    pattern: Pattern,
    k: int,
    g: Cotangent,
    y: Shaped,
    inputs: Sequence[Shaped],
    params: Params,
) -> Any:
    """The part of a cotangent on a pattern of slices, from an op that can compute single entries of it.

    The result is NotImplemented if the pattern has no dense axes, or the op cannot compute them either.
    """
    dense = inputs[k].shape[pattern.ndim :]
    if not dense:
        return NotImplemented
    full_pattern = entries_of_slices(pattern, dense)
    ct = op.vjp_at(F, rule, Stored(full_pattern), k, g, y, *inputs, **params)  # type: ignore[misc]
    if ct is NotImplemented:
        return ct
    entries = F.reshape(entries_at(ct, full_pattern, held=True), shape=pattern.stored_shape + dense)
    return with_entries(entries, pattern)


def _cut(ct: Handle | None, part: Entries, of: Shaped) -> Any:
    """Cotangent of the input ``of`` with zeros outside of a box ``part``; else ``ct`` unchanged."""
    if ct is None or type(part) is not Box or ct.shape != of.shape:
        return ct
    if covers(part, support_of(ct._value), ct.shape) and (ct._node is None or not is_grad_enabled()):
        return ct
    key = part.region.slices
    return F.embed(F.index_basic(ct, key=key), key=key, shape=ct.shape)


def conform(ct: Any, of: Shaped, source: Node | str) -> Any:
    """A cotangent in the dtype of its input ``of``; raises GradientError if the shapes differ.

    A real input takes the real part: it cannot move along the imaginary part.

    source : the node, or the name, of the code that made ``ct``, for the error.
    """
    shape, dtype = of.shape, of.dtype
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


def check_seed(output: Shaped, ct: Handle, operation: str, argument: str, subject: str = "the output") -> Any:
    """Cotangent the user gave for an output (or a tangent for an input), cast to the dtype of ``output``.

    Raises ShapeError if its shape differs, and DTypeError if it is complex and ``output`` is real.

    subject : the name of ``output`` in errors.
    """
    value, shape = getattr(ct, "_value", None), output.shape
    if value is not None and value.shape == shape and value.dtype == output.dtype:
        return ct
    if ct.shape != shape:
        raise ShapeError(
            operation,
            argument,
            got=f"shape {ct.shape}",
            expected=f"shape {shape}, that of {subject}",
            remedy="it is never broadcast; use broadcast_to if that is meant",
        )
    if ct.dtype.kind == "c" and output.dtype.kind != "c":
        raise DTypeError(
            operation,
            argument,
            got=f"dtype {ct.dtype}",
            expected=f"a real dtype: {subject} is {output.dtype}",
            remedy="take its real part if that is meant",
        )
    return conform(ct, output, operation)
