"""Batch level: values that stand for one example, and ops that are carried out on all examples at once.

A `Batched` value holds a handle with the examples along its first axis: eager, tracked, traced, or of a batch
outside. A Tensor holds it like a layout's value, so that functions, gradients and masks inside the mapped
function work as on one example; ops on the held handles are recorded as they would be outside of it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, SupportsIndex
from weakref import ref

import numpy as np

from iverson.autograd.mode import is_constant, is_grad_enabled, recording, reset_recording, set_recording
from iverson.autograd.node import line_of, user_call
from iverson.core.aval import Aval
from iverson.core.dispatch import (
    Handle,
    Level,
    LevelValue,
    Operand,
    Wrapper,
    alias,
    bind,
    is_tracked,
    level_of,
    levels,
    make_handle,
    may_select,
    rebind,
    slot_of,
    value_of,
)
from iverson.core.entries import FULL, NOTHING, Box, Entries, plain
from iverson.core.errors import ArgumentError, BatchWarning, GraphError
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.python.caller import warn
from iverson.core.region import Region
from iverson.core.shapes import as_int, concat_offsets
from iverson.core.table import F
from iverson.graph.control.cond_checkpoint import ControlOp
from iverson.graph.ir.operations import draws_of
from iverson.kernels.deferred_patterns import (
    UNKNOWN,
    Origin,
    Stored,
    Unclear,
    origin_of,
    origins,
    stored_once,
)
from iverson.layouts import Layout, Sparse, Strided, Zero, register, support_of, to_strided
from iverson.layouts.block_diagonal import each
from iverson.layouts.pattern_symbols import StandIn, handed_out
from iverson.ops.rules.batching import Examples, one_by_one, rule_of
from iverson.transforms.batching.function_batching import by_rule, each_example, over_examples

if TYPE_CHECKING:
    from iverson.autograd.functions.function import Function


class Example(Origin):
    """Origin of the entries that one example stores, from the origin of a value that holds all examples.

    The pattern of the batch has the examples along its first axis; the pattern of the example is one part of
    it.
    It is UNKNOWN if the examples of the batch do not share one pattern.
    """

    __slots__ = ()

    def _find(self) -> Stored:
        batch_pattern = stored_once(self._of[0])
        if batch_pattern is None or batch_pattern is UNKNOWN:
            return batch_pattern
        example_pattern = each(batch_pattern)
        return UNKNOWN if example_pattern is None else example_pattern


class Batched(LevelValue):
    """Value that stands for one example: its handle, ``held``, has the arrays of all examples along axis 0.

    lead : 1 if ``held`` has the axis of examples. 0 if the value is the same for all examples and ``held``
        has the shape of one; the batch then still distinguishes it from the same value outside (a variable of
        a gradient inside of the batch, for example).
    may_store : True if eager code may have this value in a sparse layout.
    """

    __slots__ = ("_origin", "_shape", "dense", "dtype", "held", "lead", "may_store", "shape")

    dtype: np.dtype[Any]

    def __init__(self, level: Level, handle: Handle, lead: int = 1) -> None:
        value = value_of(handle)
        self._level = level
        self.held = handle
        self.lead = lead
        self._origin: Any = None
        self._shape = value.shape[lead:]
        # Kept, as several who take an op ask for it, unless it has a number that stands for others.
        if StandIn not in map(type, self._shape):
            self.shape = self._shape  # type: ignore[misc]
        self.dtype = value.dtype
        self.dense = type(value) is Strided or getattr(value, "dense", False)
        self.may_store = not self.dense and isinstance(value, (Sparse, LevelValue))

    def __getattr__(self, name: str) -> Any:
        if name == "shape":
            return handed_out(self._shape)
        raise AttributeError(name)

    @property
    def may_select(self) -> bool:  # type: ignore[override]
        return may_select(self.held)

    @property
    def stored(self) -> Any:
        """Origin of the entries of one example that eager code would store; None if eager code has
        it dense.
        """
        if self._origin is not None:
            return self._origin
        origin = None if self.dense else origin_of(self.held)
        return Example(origin) if self.lead and origin is not None else origin

    def note_stored(self, stored: Stored) -> None:
        """See `LevelValue.note_stored`."""
        self._origin = stored

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        value = value_of(self.held)
        return value.is_sparse if isinstance(value, LevelValue) else isinstance(value, Sparse)

    @property
    def pattern(self) -> Any:
        pattern = getattr(value_of(self.held), "pattern", None)
        return each(pattern) if pattern is not None and self.lead else pattern

    def __repr__(self) -> str:
        return f"Batched({self.shape}, {self.dtype})"


_NUMBERS = frozenset((bool, int, float, complex))


class Batch(Level):
    """Level of a `vmap` call: ops on values of the batch are carried out on all examples at once.

    size : the number of examples.
    origin : the batch of the mapped function, if this batch carries out a body (of a loop or a branch) on the
        same examples.
    """

    __slots__ = ("_constant", "_recorded", "_recording", "_written", "size")

    def __init__(self, size: int, origin: Level | None = None) -> None:
        super().__init__("vmap")
        self.origin = origin or self
        self.size = size
        self._recorded = is_grad_enabled()
        self._recording = recording(self._recorded)
        self._written: list[tuple[Any, Any, Any]] = []
        self._constant = is_constant()  # around it: what is differentiated inside of that is recorded

    def _is_constant(self) -> bool:
        """Return True if the mapped function has declared its computations constant, inside of this batch.

        A declaration that was already in force around the batch does not count.
        """
        return is_constant() and not self._constant

    def writing(self, x: Handle) -> None:
        """Note the value that x had, unless it is a value of the batch; see `Level.writing`."""
        if not (isinstance(value := value_of(x), Batched) and value._level is self):
            self._written.append((ref(x), value, slot_of(x)))

    def put_back(self, results: Sequence[Operand | None]) -> bool:
        """Restore the tensors from outside that the mapped function wrote into.

        Return True if one of them is still alive and is not in ``results``: the function had then a side
        effect.
        results : leaves of the function's result; a tensor that it created and wrote may be one of them.
        """
        if self._wrote(results):
            gc.collect()  # a cycle may keep a temporary alive
        for where, value, slot in reversed(self._written):
            if (x := where()) is not None:
                rebind(x, value, *slot)
        return self._wrote(results)

    def _wrote(self, results: Sequence[Operand | None]) -> bool:
        """Return True if a tensor that the function wrote into is still alive and is not one of
        ``results``.
        """
        handles = (where() for where, *_ in self._written)
        return any(x is not None and all(x is not r for r in results) for x in handles)

    def examples(self) -> int:
        """See `Level.examples`."""
        return self.size

    def of_examples(self, handle: Handle) -> Any:
        """Handle that stands for one example in this batch; ``handle`` has all examples along axis 0."""
        return make_handle(self.value(handle, 1))

    def variable_of(self, x: Operand) -> Any:
        """Handle of ``x`` to differentiate with respect to, inside of this batch.

        It is ``x`` itself if that is a value of the batch; else a new value of the batch that is the same for
        all examples.
        """
        value = value_of(x)
        return (
            x
            if isinstance(value, Batched) and value._level is self
            else make_handle(Batched(self, alias(x), 0))
        )

    @contextmanager
    def knowing(self, x: Handle, operand: Handle) -> Iterator[None]:
        """See `Level.knowing`: a value that is the same for all examples is known outside, too."""
        outside_operand, _ = self.outside(operand)
        with ExitStack() as blocks:
            for level in levels()[: self.depth]:
                blocks.enter_context(level.knowing(x, outside_operand))
            yield

    def function(self, function: type[Function], args: tuple[Any, ...]) -> Any:
        """See `Level.function`: one Function on all examples; its derivative outside is the user's."""
        operands, arg_origins = list(map(self.outside, args)), list(map(origin_of, args))
        if any(isinstance(a, Wrapper) for a in args):
            return None
        with nullcontext() if self._is_constant() else self._recording:
            if not any(lead for _, lead in operands):  # one call for all examples
                out = function.apply(*(x for x, _ in operands))
                is_tuple = isinstance(out, tuple)
                pairs = [(x, 0) for x in (out if is_tuple else (out,))]
            elif hasattr(function, "vmap"):
                pairs, is_tuple = by_rule(function, self.size, operands, arg_origins)
            else:
                over = over_examples(function, self.size, [lead for _, lead in operands], arg_origins, Batch)
                out = over.apply(*(x for x, _ in operands))
                is_tuple = isinstance(out, tuple)
                pairs = [(x, 1) for x in (out if is_tuple else (out,))]
        values = [x if x is None else self.value(x, lead) for x, lead in pairs]
        unclear = Unclear(*arg_origins)
        for x in values:
            if type(x) is Batched and x.lead and not x.is_sparse:
                x.note_stored(unclear)
        results = tuple([x if x is None else make_handle(x) for x in values])
        return results if is_tuple else results[0]

    def one_by_one(self, function: type[Function]) -> Any:
        """See `Level.one_by_one`: example by example."""
        return each_example(function, self)

    def outside(self, x: Any) -> tuple[Any, int]:
        """Handle that ``x`` stands for outside of this batch, and 1 if it has the examples along axis 0, else
        0.

        If ``x`` is no value of this batch, the result is ``(x, 0)``.
        """
        value = value_of(x, None)
        return (value.held, value.lead) if isinstance(value, Batched) and value._level is self else (x, 0)

    def value(self, handle: Handle, lead: int) -> Any:
        """Value of this batch that holds ``handle``; ``lead`` is 1 if ``handle`` has the examples along axis
        0.

        If ``handle`` is a constant zero, the result is a `Zero` of the shape of one example and no `Batched`.
        """
        batched = Batched(self, handle, lead)
        if not batched.dense and type(value_of(handle)) is Zero and not is_tracked(handle):
            return Zero(batched.shape, batched.dtype, batched.stored)
        return batched

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        """Result of ``op`` on all examples at once, as values of this batch.

        The batching rule of the op is used if an operand differs between examples (or the op draws random
        numbers that differ); else the op is run once, outside of the batch.
        """
        if levels()[-1] is not self:  # what it is of is outside of levels within this one
            with self.innermost():
                return self.bind(op, args, params)
        operands, of = [], []
        ranks = set()
        may_store = op.entry_map.converts
        for a in args:
            if type(a) is Batched:
                may_store = may_store or a.may_store or a._origin is not None
                operands.append(a.held)
                of.append(a.lead == 1)
                ranks.add(len(a.shape) if a.lead else None)
            else:
                operands.append(a)
                of.append(False)
                if type(a) not in _NUMBERS:
                    ranks.add(None)
                    may_store = may_store or type(value_of(a, a)) is not Strided
        lead = True in of or (
            isinstance(op, ControlOp) and any(draw.differs_in(self) for draw in draws_of(params))
        )
        recorded = self._recorded and not self._is_constant()
        token = None if is_grad_enabled() is recorded else set_recording(recorded)
        try:
            if lead and len(ranks) == 1 and op.batch is None and op.entry_map.elementwise:
                result = bind(
                    op, tuple(operands), params
                )  # examples of one rank, and numbers: nothing to align
            elif lead:
                rule = rule_of(op, params) or _warned(op)
                result = rule(F, Examples(op, self.size, tuple(of), self.origin), *operands, **params)
            elif hasattr(op, "evaluate"):
                result = op.evaluate(operands, **params)
            else:
                result = bind(op, tuple(operands), params)
        finally:
            if token is not None:
                reset_recording(token)
        if not op.multiple and not may_store:
            return self.value(result, lead)
        values = [self.value(x, lead) for x in (result if op.multiple else (result,))]
        for x, origin in zip(
            values, origins(op, args, params, len(values)) if may_store else (), strict=False
        ):
            if type(x) is Batched:
                x.note_stored(origin)
        return tuple(values) if op.multiple else values[0]


def _warned(op: Op) -> Any:
    """Warn that ``op`` has no batching rule, and return the rule `one_by_one`, a loop over the examples."""
    warn(
        f"vmap: no rule for '{op.name}': it is carried out example by example; say `batch` in its record, or "
        "its definition in index notation (te.op)",
        BatchWarning,
    )
    return one_by_one


def _strided(value: Batched) -> Any:
    """Entries of ``value`` as an array, if it is the same for all examples; otherwise raises GraphError."""
    if not value.lead:
        return to_strided(value_of(value.held))
    level_of((value,))  # raises where it was kept after its end
    where = user_call()
    line = f" at {line_of(where)}" if where else ""
    raise GraphError(
        value._level.name,
        got=f"a read of the entries of one example ({Aval(value.shape, value.dtype)!r}){line}",
        expected="functions of iverson: the examples of a batch are computed together",
        remedy="use iverson.where for a choice, or leave what decides a branch or a shape out of in_axes",
    )


def _support(value: Batched) -> Entries:
    """Support of one example: a region outside of which the entries of every example are zero."""
    if value.dense:
        return FULL
    support = support_of(value_of(value.held))
    if not isinstance(support, Box):
        return support if support is NOTHING else FULL
    region = support.region
    return plain(Box(Region(region.start[value.lead :], region.stop[value.lead :])), value.shape)


register(
    Layout(
        name="batched",
        kind=Batched,
        to_strided=_strided,
        check=lambda value: None,
        support=_support,
        buffers=lambda value: (),
        rebuild=lambda value, buffers: value,
        densify_warns=False,
    )
)


def chunk(chunk_size: SupportsIndex | None, operation: str) -> int | None:
    """Return ``chunk_size`` as an integer, or None; raises ArgumentError if it is not positive.

    The result is the number of examples that are computed together; None stands for all of them.
    """
    step = None if chunk_size is None else as_int(chunk_size, operation, "chunk_size")
    if step is not None and step < 1:
        raise ArgumentError(operation, "chunk_size", got=str(step), expected="a positive number of examples")
    return step


def joined(parts: Sequence[Handle]) -> Any:
    """Results of consecutive chunks of examples, concatenated along axis 0."""
    if len(parts) == 1:
        return parts[0]
    return F.concat(*parts, axis=0, offsets=concat_offsets([p.shape[0] for p in parts]))


__all__ = ["Batch", "Batched", "chunk", "joined"]
