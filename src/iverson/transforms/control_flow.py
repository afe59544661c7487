"""Control flow over pytrees: `cond`, `scan`, `while_loop`, `fori_loop`, and `checkpoint`.

A function that is given is run once, on tensors without entries, and becomes a graph that an op runs
(`iverson.graph.control.cond_checkpoint`, `scan_loop`, `while_loop`); eagerly, too, so that a call leaves one
node behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import (
    Handle,
    Operand,
    Wrapper,
    has_entries,
    rewrap,
    rewrap_stacked,
    semantics_of,
    unwrap,
    value_of,
)
from iverson.core.entries import FULL, Stored
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    ShapeError,
    described,
    speaking_as,
)
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import Pytree, Shaped
from iverson.core.shapes import as_int, check_storable
from iverson.core.table import F
from iverson.graph.control.bodies import interned, lifted
from iverson.graph.control.cond_checkpoint import checkpointed, chosen
from iverson.graph.control.scan_loop import scanned, scanned_in_blocks
from iverson.graph.control.while_loop import repeated
from iverson.graph.ir.nodes import Graph, Value
from iverson.handles import Tensor, asarray
from iverson.kernels.deferred_patterns import (
    UNKNOWN,
    Either,
    Unclear,
    note_stored,
    origin_of,
    resolved,
    same,
    stacked,
)
from iverson.layouts import support_of
from iverson.transforms import disabled_compilation
from iverson.transforms.batching import control_batches  # noqa: F401  (the rules of `vmap`)
from iverson.transforms.disabled_compilation import as_python, is_disabled
from iverson.transforms.pytree_tracing import TracedFunction
from iverson.transforms.trees import Function, P, R, Tree, as_named, flatten, opened, tensors, unflatten

if TYPE_CHECKING:
    from optree import PyTreeSpec

    from iverson.graph.tracing.captured_state import TensorCell
    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike

#: Arrays and numbers that are no tensors yet.
Number: TypeAlias = np.ndarray[Any, Any] | np.generic | complex
#: Of a scan: its carry, a slice, and the result of a step.
C = TypeVar("C")
X = TypeVar("X")
Y = TypeVar("Y")


class _Leaves:
    """Pytree of tensors: its structure, its leaves as tensors, and these as plain handles.

    masks : True if a masked tensor gives two leaves, its entries and its mask.
    """

    def __init__(self, tree: Tree, operation: str, argument: str, *, masks: bool = False) -> None:
        leaves, self.structure = opened(tree, masks=masks)
        self.operation, self.argument = operation, argument
        self.leaves = tensors(leaves, operation, argument)
        self.handles = list(map(unwrap, self.leaves))

    def tree(self, handles: Sequence[Handle]) -> Any:
        """Tree of this structure with ``handles`` in place of the plain handles of its leaves."""
        return unflatten(self.structure, list(map(rewrap, self.leaves, handles)))

    def avals(self) -> list[Aval]:
        """Facts of the leaves that a body relies on: shapes, dtypes, and patterns."""
        return [_aval(x) for x in self.handles]

    def origins(self) -> list[Any]:
        """Origins of the entries that eager code would store, one for each leaf."""
        return list(map(origin_of, self.handles))


class _Carry(_Leaves):
    """Initial value of the carry of a loop, and what was learned about it from traces of the loop's body.

    changing : numbers of the leaves that a step may return on a pattern that differs from the pattern it got.
    unknown : numbers of the leaves of which eager code would store other entries after another step, if this
        matters to the body.
    cells_change : True if a step changes the pattern of a tensor outside of the body that it writes.
    """

    def __init__(self, tree: Tree, operation: str, *, masks: bool = False) -> None:
        super().__init__(tree, operation, "init", masks=masks)
        self.changing: set[int] = set()
        self.unknown: set[int] = set()
        self.cells_change = False

    def avals(self) -> list[Aval]:
        """Facts of the leaves that a body relies on; leaves in ``changing`` are described without a
        pattern.
        """
        avals = super().avals()
        return [Aval(a.shape, a.dtype) if k in self.changing else a for k, a in enumerate(avals)]

    def origins(self) -> list[Any]:
        """Origins of the stored entries of the leaves; UNKNOWN for leaves in ``unknown``."""
        return [UNKNOWN if k in self.unknown else origin for k, origin in enumerate(super().origins())]

    def stored(self, body: _Body) -> list[Any]:
        """Origin of the stored entries of each leaf after the loop: that before it, or that after a step."""
        return list(map(Either, self.origins(), body.traced.stored[: len(self.handles)]))

    def _learn_unknown(self, body: _Body) -> bool:
        """Add to ``unknown`` the leaves whose stored entries differ between input and output of a step.

        Dense leaves count only if the body reads patterns. Returns True if leaves were added.
        """
        before, after = self.origins(), body.traced.stored[: len(self.handles)]
        reads_patterns = body.traced.reads_patterns
        new_unknown = [
            k
            for k, (a, b) in enumerate(zip(before, after, strict=True))
            if a is not UNKNOWN and (a is not None or (reads_patterns and b is not None))
            if not same(resolved(a), resolved(b))
        ]
        self.unknown.update(new_unknown)
        return bool(new_unknown)

    def learn(self, body: _Body) -> bool:
        """Update ``changing``, ``unknown`` and ``cells_change`` from a trace of the body; return True if one
        grew.
        """
        first, count = len(body.consts), len(self.handles)
        inputs, outputs = body.graph.inputs, body.graph.outputs
        changing = {k for k in range(count) if _changes_pattern(inputs[first + k], outputs[k])}
        captured = {id(x): v for x, v in zip(body.traced.captured, inputs, strict=False)}
        cells = zip(body.cells, outputs[body.traced.own :], strict=True)
        cells_change = any(id(c) in captured and _changes_pattern(captured[id(c)], y) for c, y in cells)
        has_new = not changing <= self.changing or cells_change > self.cells_change
        has_new = self._learn_unknown(body) or has_new
        self.changing |= changing
        self.cells_change |= cells_change
        return has_new


def _changes_pattern(before: Value, after: Operand | Value) -> bool:
    """Return True if ``before`` is stored on a pattern and ``after``, its new value, is not stored on the
    same one.
    """
    support = before.aval.support
    if not isinstance(support, Stored):
        return False
    then = after.aval.support if isinstance(after, Value) else None
    return not isinstance(then, Stored) or then.pattern is not support.pattern


def _aval(x: Handle) -> Aval:
    support = support_of(value_of(x))
    return Aval(x.shape, x.dtype, support if isinstance(support, Stored) else FULL)


def _path(structure: PyTreeSpec, k: int, name: str) -> str:
    """Python expression for leaf ``k`` of a tree that is called ``name``, such as ``carry['a'][0]``."""
    return str(structure.accessors()[k].codify(name))


def _traced(function: Function, name: str, *how: Any, **options: Any) -> TracedFunction:
    """Trace of ``function`` (a `TracedFunction`); raises GraphError if the function writes into an argument.

    Tensors from outside that the function writes become cells: inputs and outputs of the graph.
    """
    traced = TracedFunction(function, name, *how, stateful=True, once=True, **options)
    if traced.written:
        raise GraphError(
            name,
            got="an argument that is written in place",
            expected="a function that returns what it computes",
            remedy="return the new value, or write into a copy: iverson.asarray(x, copy=True)",
        )
    return traced


class _Body:
    """Traced function that an op of control flow runs: a graph with its first inputs in ``consts``.

    consts : handles of the tensors that the function reads from outside.
    cells : the tensors from outside that it writes; their new values are the last outputs of the graph.
    """

    def __init__(
        self,
        function: Function,
        name: str,
        avals: Sequence[Aval],
        arguments: Callable[[Sequence[Handle]], Tree],
        origins: Sequence[Stored],
        handles: Sequence[Handle],
        cells_change: bool = False,
    ) -> None:
        self.name = name
        how: tuple[Any, ...] = (function, name, avals, lambda h: (arguments(h), {}), self._tensors)
        self.traced = _traced(*how, cells_change=cells_change, origins=origins, given=handles)
        self.graph, self.consts = lifted(self.traced.graph, self.traced.inputs())
        self.cells = _written(self.traced, name)

    def _tensors(self, leaves: list[Tree]) -> list[Any]:
        return tensors(leaves, self.name, "the function's result")

    def with_cells(self, cells: Sequence[TensorCell]) -> _Body:
        """Body whose last outputs are the values of all ``cells``, for two branches that must have the same
        outputs.

        A cell that this body does not write is passed through: it becomes a first input, and an output.
        """
        result_count, values, missing = self.traced.own, [], []
        for cell in cells:
            at = [k for k, c in enumerate(self.cells) if c.same_as(cell)]
            if not at:
                missing.append((x := cell.now(), Value(Aval(x.shape, x.dtype))))
            values.append(self.graph.outputs[result_count + at[0]] if at else missing[-1][1])
        body = copy(self)
        g = self.graph
        inputs = (*(v for _, v in missing), *g.inputs)
        body.graph = Graph(inputs, g.equations, (*g.outputs[:result_count], *values), g.constants)
        body.consts = [*(x for x, _ in missing), *self.consts]
        body.cells = list(cells)
        return body

    def carrying(self, first: int) -> tuple[_Body, list[Any]]:
        """Body of a loop with the cells as the last carries, and the values of the cells before the loop.

        Cells are inputs and outputs behind the ``first`` carries, and are not in ``consts`` any more. Without
        cells, the result is the body itself and an empty list.
        first : the number of carries, which are the first inputs after ``consts`` and the first outputs.
        """
        if not self.cells:
            return self, []
        result_count, consts, g = self.traced.own, len(self.consts), self.graph
        at = [k for k, x in enumerate(self.traced.captured) if any(x is c for c in self.cells)]
        order = [next(k for k in at if self.traced.captured[k] is c) for c in self.cells]
        stays = [k for k in range(consts) if k not in at]
        inputs = [*(g.inputs[k] for k in stays), *g.inputs[consts : consts + first]]
        inputs += [*(g.inputs[k] for k in order), *g.inputs[consts + first :]]
        outputs = (*g.outputs[:first], *g.outputs[result_count:], *g.outputs[first:result_count])
        body = copy(self)
        body.graph = interned(Graph(tuple(inputs), g.equations, outputs, g.constants))
        body.consts = [self.consts[k] for k in stays]
        return body, [self.consts[k] for k in order]

    def put(self, values: Sequence[Handle]) -> None:
        """Give each cell its new value, from ``values``."""
        for cell, value in zip(self.cells, values, strict=True):
            cell.put(value)

    def with_others(self, before: Sequence[Shaped], after: Sequence[Shaped]) -> Graph:
        """Graph with inputs added that it does not read, so that two bodies can take the same operands.

        before, after : operands of the other body that stand before and after the constants of this one.
        """
        const_count = len(self.consts)
        fresh = [tuple(Value(Aval(x.shape, x.dtype)) for x in handles) for handles in (before, after)]
        inputs = (*fresh[0], *self.graph.inputs[:const_count], *fresh[1], *self.graph.inputs[const_count:])
        return Graph(inputs, self.graph.equations, self.graph.outputs, self.graph.constants)


def _written(traced: TracedFunction, name: str) -> list[Any]:
    """List of the cells that a body writes; raises GraphError if one of them is a gradient cleared or created
    there.
    """
    for cell, is_tensor in traced.put:
        if not is_tensor or cell.now() is None:
            raise GraphError(
                name,
                got="a gradient that is cleared, or is there after the call alone",
                expected="a gradient of a tensor around the function before and after it",
                remedy="clear gradients, and call backward first, outside of it",
            )
    return [cell for cell, _ in traced.put]


def _check_same(
    operation: str,
    argument: str,
    name: str,
    actual: PyTreeSpec,
    got_leaves: Sequence[tuple[Shaped, Wrapper | None]],
    expected: PyTreeSpec,
    expected_leaves: Sequence[tuple[Shaped, Wrapper | None]],
    remedy: str,
) -> None:
    """Raise unless two trees have the same structure, and their leaves the same shapes, dtypes and masks.

    got_leaves, expected_leaves : for each leaf, a plain handle or value, and its wrapper (None for a Tensor).
    name : the name of the tree in messages. remedy : the advice at the end of messages.
    """
    if actual != expected:
        raise ArgumentError(
            operation, argument, got=f"a tree {actual}", expected=f"a tree {expected}", remedy=remedy
        )
    for k, ((a, like), (b, other)) in enumerate(zip(got_leaves, expected_leaves, strict=True)):
        path = _path(expected, k, name)
        if _semantics(like) != _semantics(other):
            raise ArgumentTypeError(
                operation,
                argument,
                got=f"{path} as a {_kind(like)}",
                expected=f"a {_kind(other)}" + (" with the same mask" if type(like) is type(other) else ""),
                remedy=remedy,
            )
        if a.shape != b.shape:
            raise ShapeError(
                operation,
                argument,
                got=f"{path} of shape {a.shape}",
                expected=f"shape {b.shape}",
                remedy=remedy,
            )
        if a.dtype != b.dtype:
            raise DTypeError(
                operation,
                argument,
                got=f"{path} of dtype {a.dtype}",
                expected=f"dtype {b.dtype}",
                remedy=remedy,
            )


def _semantics(like: Wrapper | None) -> Any:
    return None if like is None else (type(like), getattr(like, "_mask", like))


def _kind(like: Wrapper | None) -> str:
    return "Tensor" if like is None else type(like).__name__


def _with_semantics(leaves: Sequence[Operand]) -> list[tuple[Any, Any]]:
    return [(unwrap(x), semantics_of(x)) for x in leaves]


def _results(body: _Body, start: int = 0) -> list[tuple[Any, Any]]:
    """Pairs of an output of the body's graph and the wrapper of its leaf (or None), from ``start`` on.

    Only outputs that are leaves of the function's result are listed.
    """
    semantics = [like for like, _ in body.traced.leaves]
    return list(zip(body.traced.graph.outputs[: len(semantics)], semantics, strict=True))[start:]


# --- cond ---------------------------------------------------------------------------------------------


@checked
def cond(
    pred: Array | ArrayLike, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Tree
) -> R:
    """``true_fun(*operands)`` where a predicate is True, else ``false_fun(*operands)``: one of them is run.

    Parameters
    ----------
    pred : a boolean of rank 0. A Python bool picks at once: only that function is called.
    true_fun, false_fun : take the operands and return pytrees of tensors, of the same structure, shapes and
        dtypes. They may close over tensors, and write into them: what the one that is run writes is written.
    operands : pytrees of tensors.

    Differentiable in both modes, to any order, also in tensors that the functions close over: what was not
    run is not differentiated. In `vmap`, where the predicate differs from example to example, each function
    that some example takes is run, with the arguments of examples that take it: what it would raise for
    others does not happen.

    Raises DTypeError or ShapeError for a predicate that is not one boolean, and ArgumentError,
    ArgumentTypeError, ShapeError or DTypeError for results that do not fit each other.

    >>> import iverson as iv
    >>> f = lambda x: cond(x > 0, lambda x: x**2, lambda x: -x, x)
    >>> f(iv.asarray(3.0)), iv.grad(f)(iv.asarray(-3.0))
    (iverson.Tensor(9.), iverson.Tensor(-1.))
    """
    as_function(true_fun, "cond", "true_fun")
    as_function(false_fun, "cond", "false_fun")
    if isinstance(pred, bool | np.bool_):
        return (true_fun if pred else false_fun)(*operands)
    flag = unwrap(tensors([pred], "cond", "pred")[0])
    if flag.dtype != np.dtype(bool):
        raise DTypeError(
            "cond", "pred", got=f"dtype {flag.dtype}", expected="dtype bool", remedy="compare it: pred != 0"
        )
    if flag.shape != ():
        raise ShapeError(
            "cond",
            "pred",
            got=f"shape {flag.shape}",
            expected="shape (), one flag",
            remedy="use iverson.where to choose entry by entry",
        )
    if is_disabled() and has_entries(flag):
        return (true_fun if value_of(flag) else false_fun)(*operands)
    leaves = _Leaves(operands, "cond", "operands")
    of = leaves.avals(), leaves.tree, leaves.origins(), leaves.handles
    sides = [_Body(f, "cond", *of) for f in (true_fun, false_fun)]
    on_true, on_false = sides
    _check_same(
        "cond",
        "false_fun",
        "result",
        on_false.traced.structure,
        _results(on_false),
        on_true.traced.structure,
        _results(on_true),
        "let both functions return the same structure, shapes and dtypes",
    )
    cells = on_true.cells + [c for c in on_false.cells if not any(map(c.same_as, on_true.cells))]
    on_true, on_false = (side.with_cells(cells) for side in sides) if cells else sides
    args = [flag, *on_true.consts, *on_false.consts, *leaves.handles]
    out = chosen(
        args,
        on_true=interned(on_true.with_others((), on_false.consts)),
        on_false=interned(on_false.with_others(on_true.consts, ())),
    )
    for x, *origins in zip(out, on_true.traced.stored, on_false.traced.stored, strict=False):
        note_stored(x, Either(*origins))
    on_true.put(out[on_true.traced.own :])
    return on_true.traced.packed(out[: on_true.traced.own])  # type: ignore[no-any-return]


# --- loops --------------------------------------------------------------------------------------------


def _check_carry(
    operation: str, function: str, body: _Body, carry: _Leaves, structure: PyTreeSpec, count: int
) -> None:
    """Raise unless the body returns a carry with the structure, shapes, dtypes and masks of ``carry``.

    structure : that of the returned carry, whose leaves are the first ``count`` results of the body.
    """
    _check_same(
        operation,
        function,
        "carry",
        structure,
        _results(body)[:count],
        carry.structure,
        _with_semantics(carry.leaves),
        "a carry keeps its structure, shapes and dtypes: convert what is passed first, or what is returned",
    )


@overload
def scan(
    f: Callable[[Tensor, Tensor], tuple[Tensor, Y]],
    init: Number,
    xs: Number,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Tensor, Y]: ...
@overload
def scan(
    f: Callable[[Tensor, X], tuple[Tensor, Y]],
    init: Number,
    xs: X,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Tensor, Y]: ...
@overload
def scan(
    f: Callable[[Tensor, None], tuple[Tensor, Y]],
    init: Number,
    xs: None = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Tensor, Y]: ...
@overload
def scan(
    f: Callable[[C, Tensor], tuple[C, Y]],
    init: C,
    xs: Number,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Callable[[C, X], tuple[C, Y]],
    init: C,
    xs: X,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Callable[[C, None], tuple[C, Y]],
    init: C,
    xs: None = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[C, Y]: ...
@checked
def scan(
    f: Callable[[Pytree, Pytree], tuple[Pytree, Pytree]],
    init: Pytree,
    xs: Pytree = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Pytree, Pytree]:
    """A loop with a carry over slices: ``carry, y = f(carry, x)`` for each x along the first axis of ``xs``.

    Parameters
    ----------
    f : ``f(carry, x) -> (carry, y)``, all pytrees of tensors. The carry keeps its structure, shapes and
        dtypes. f may close over tensors, and write into them in each step.
    init : the carry of the first step.
    xs : a pytree of tensors with the steps along their first axes, or None; x is then None.
    length : the number of steps; optional if ``xs`` determines it.
    reverse : from the last slice to the first. Results stand where their slices do.
    checkpoint : what is kept for the derivative. False: of each step, what its derivative reads. True: of
        each step the carry, from which it is run again. An integer k: the carry of every k-th step, from
        which k steps are run again; with the square root of the number of steps, memory and time balance
        (Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
        differentiation", 1992).

    Returns
    -------
    The last carry, and y of all steps, stacked along a new first axis. Masked tensors keep their masks, which
    are the same in all steps unless a step computes them.

    Differentiable in both modes, to any order, also in tensors that f closes over. The derivative is a loop
    too, over the steps that something is asked of: of a loss on ``ys[3]``, four.

    In eager code its steps run op by op, until they have run as long as compiling takes; then the loop is
    compiled, which may change the last bits of results. `disable_jit` forbids it.

    Raises ShapeError for lengths that do not fit, and ArgumentError, ArgumentTypeError, ShapeError or
    DTypeError for a carry that changes.

    >>> import iverson as iv
    >>> total, sums = scan(lambda c, x: (c + x, c + x), iv.asarray(0.0), iv.asarray([1.0, 2.0, 3.0]))
    >>> total, sums
    (iverson.Tensor(6.), iverson.Tensor([1., 3., 6.]))
    >>> iv.grad(lambda x: scan(lambda c, x: (c * x, None), iv.asarray(1.0), x)[0])(iv.asarray([2.0, 3.0]))
    iverson.Tensor([3., 2.])
    """
    as_function(f, "scan", "f")
    every = _every(checkpoint)
    slices = _Leaves(xs, "scan", "xs")
    steps = _length(slices, length)
    slice_avals = [Aval(x.shape[1:], x.dtype) for x in slices.handles]
    returned: list[Any] = []

    def step(carry: Tree, x: Tree) -> Any:
        out = f(carry, x)
        if not isinstance(out, tuple) or len(out) != 2:
            raise ArgumentError(
                "scan",
                "f",
                got=f"a result that is {described(out)}"
                + (f" of {len(out)}" if isinstance(out, tuple) else ""),
                expected="a pair (carry, y)",
                remedy="return (carry, None) where a step has no result",
            )
        returned[:] = [opened(part)[1] for part in out]
        return out

    if is_disabled() and steps:
        return _scan_in_python(step, init, slices, range(steps)[:: -1 if reverse else 1])

    def trace(carry: _Carry) -> tuple[_Body, Any]:
        n, avals = len(carry.handles), [*carry.avals(), *slice_avals]
        arguments = lambda h: (carry.tree(h[:n]), slices.tree(h[n:]))
        origins = [*carry.origins(), *map(Unclear, slices.origins())]
        handles = [*carry.handles, *slices.handles]
        return _Body(step, "scan", avals, arguments, origins, handles, carry.cells_change), returned[0]

    carry, body = _stepping(init, "scan", trace)
    count = len(carry.handles)
    _check_carry("scan", "f", body, carry, returned[0], returned[0].num_leaves)
    body, state = body.carrying(count)
    call: dict[str, Any] = {
        "consts": len(body.consts),
        "carry": count + len(state),
        "length": steps,
        "reverse": bool(reverse),
    }
    args = [*body.consts, *carry.handles, *state, *slices.handles]
    if every:
        out = scanned_in_blocks(args, body=body.graph, every=min(every, max(steps, 1)), **call)
    else:
        out = scanned(args, body=body.graph, **call)
    for x, origin in zip(out[:count], carry.stored(body), strict=True):
        note_stored(x, origin)
    steps_of = zip(body.graph.outputs[count + len(state) :], body.traced.stored[count:], strict=False)
    for x, (y, origin) in zip(out[count + len(state) :], steps_of, strict=False):
        note_stored(x, stacked(origin, y, steps))
    body.put(out[count : count + len(state)])
    last = list(map(rewrap, carry.leaves, out[:count]))
    rows = out[count + len(state) :]
    ys = [rewrap_stacked(like, y) for (_, like), y in zip(_results(body, count), rows, strict=True)]
    return unflatten(body.traced.structure, [*last, *ys])  # type: ignore[no-any-return]


def _scan_in_python(
    step: Callable[[C, X], tuple[C, Y]], init: C, slices: _Leaves, order: range
) -> tuple[C, Y]:
    """A scan as a loop in Python; see `disable_jit`."""
    tree: Any = init
    first = _Carry(tree, "scan")
    carry: C = first.tree(first.handles)
    rows: dict[int, list[Any]] = {}
    structure: Any = None
    for k in order:
        carry, y = step(carry, slices.tree([x[k] for x in slices.handles]))
        leaves, structure = flatten(y)
        rows[k] = tensors(leaves, "scan", "f")
    columns = zip(*(rows[k] for k in sorted(rows)), strict=True)
    ys = [rewrap_stacked(column[0], F.stack(*map(unwrap, column), axis=0)) for column in columns]
    return carry, unflatten(structure, ys)


def _stepping(
    init: Any, operation: str, trace: Callable[[_Carry], tuple[_Body, PyTreeSpec]]
) -> tuple[_Carry, _Body]:
    """Initial carry of a loop, and the traced body.

    If the body computes a mask, masks are leaves of the carry. The body is traced again while it changes
    patterns of the carry: these are then not known in the body.
    trace : returns for a carry the body, and the structure of the next carry that it returns.
    """
    carry = _Carry(init, operation)
    body, structure = trace(carry)
    if structure != carry.structure:
        masks = _Carry(init, operation, masks=True)
        if structure != masks.structure:
            return carry, body
        carry = masks
        body, structure = trace(carry)
    while structure == carry.structure and carry.learn(body):
        body, structure = trace(carry)
    return carry, body


def _every(checkpoint: bool | SupportsIndex) -> int:
    if isinstance(checkpoint, bool):
        return int(checkpoint)
    every = as_int(checkpoint, "scan", "checkpoint")
    if every < 0:
        raise ArgumentError(
            "scan", "checkpoint", got=str(every), expected="True, False, or a number of steps"
        )
    return every


def _length(slices: _Leaves, length: SupportsIndex | None) -> int:
    """Number of steps of a scan, from ``length`` and the first axes of ``slices``; raises if they differ."""
    leaf_by_length: dict[int, int] = {}
    if length is not None:
        steps = as_int(length, "scan", "length")
        if steps < 0:
            raise ArgumentError("scan", "length", got=str(steps), expected="a number of steps")
        leaf_by_length[steps] = -1
    for k, (x, leaf) in enumerate(zip(slices.handles, slices.leaves, strict=True)):
        path = _path(slices.structure, k, "xs")
        if isinstance(leaf, Wrapper):
            raise ArgumentTypeError(
                "scan",
                "xs",
                got=f"{path} as a {type(leaf).__name__}",
                expected="a Tensor",
                remedy="pass its data and its mask: what is specified may differ from step to step",
            )
        if not x.ndim:
            raise ShapeError("scan", "xs", got=f"{path} of rank 0", expected="steps along a first axis")
        leaf_by_length.setdefault(x.shape[0], k)
    if not leaf_by_length:
        raise ArgumentError("scan", "length", got="None, and no xs", expected="a number of steps")
    if len(leaf_by_length) > 1:
        lengths = ", ".join(
            f"length {n}" if k < 0 else f"{n} steps in {_path(slices.structure, k, 'xs')}"
            for n, k in leaf_by_length.items()
        )
        raise ShapeError("scan", "xs", got=lengths, expected="as many steps in all of them")
    return next(iter(leaf_by_length))


@checked
def while_loop(
    cond_fun: Callable[[R], Array | bool], body_fun: Callable[[R], R], init: R, max_steps: int | None = None
) -> R:
    """``carry = body_fun(carry)`` while ``cond_fun(carry)`` is True, from ``carry = init``.

    Parameters
    ----------
    cond_fun : takes the carry and returns a boolean of rank 0.
    body_fun : takes and returns the carry: a pytree of tensors that keeps its structure, shapes and dtypes.
        It may write into tensors that it closes over; ``cond_fun`` may not.
    init : the first carry.
    max_steps : the number of steps after which it ends in any case; None: there is no bound.

    Differentiable in forward mode (`jvp`), to any order, and with ``max_steps`` in reverse mode too: it keeps
    room for so many steps, of which those after the end do nothing. Without a bound reverse mode raises
    GradientError: how many steps to keep something of is not known before. In `vmap` it runs until the loops
    of all examples have ended. In eager code it is compiled after many steps, as `scan` is.

    Raises ArgumentError, ArgumentTypeError, ShapeError or DTypeError for a carry that changes, or for a
    condition that is not one boolean.

    >>> import iverson as iv
    >>> while_loop(lambda x: x < 100, lambda x: x * x, iv.asarray(3.0))
    iverson.Tensor(6561.)
    >>> iv.grad(lambda x: while_loop(lambda x: x < 100, lambda x: x * x, x, max_steps=5))(iv.asarray(3.0))
    iverson.Tensor(17496.)
    """
    as_function(cond_fun, "while_loop", "cond_fun")
    as_function(body_fun, "while_loop", "body_fun")
    if max_steps is not None:
        return _bounded(cond_fun, body_fun, init, max_steps)

    if is_disabled():
        tree: Any = init
        first = _Carry(tree, "while_loop")
        state = first.tree(first.handles)
        (flag,) = tensors([cond_fun(state)], "while_loop", "cond_fun")
        if has_entries(unwrap(flag)):
            while cond_fun(state):
                state = body_fun(state)
            return state  # type: ignore[no-any-return]

    def trace(carry: _Carry) -> tuple[_Body, Any]:
        arguments = lambda h: (carry.tree(h),)
        of = carry.avals(), arguments, carry.origins(), carry.handles
        body = _Body(body_fun, "while_loop", *of, carry.cells_change)
        return body, body.traced.structure

    carry, body = _stepping(init, "while_loop", trace)
    of = carry.avals(), lambda h: (carry.tree(h),), carry.origins(), carry.handles
    condition = _Body(cond_fun, "while_loop", *of)
    _check_flag(condition)
    _check_carry("while_loop", "body_fun", body, carry, body.traced.structure, len(carry.handles))
    count = len(carry.handles)
    body, state = body.carrying(count)
    condition_graph = condition.with_others((), body.consts)
    condition_graph = replace(
        condition_graph, inputs=(*condition_graph.inputs, *(Value(Aval(x.shape, x.dtype)) for x in state))
    )
    out = repeated(
        [*condition.consts, *body.consts, *carry.handles, *state],
        condition=interned(condition_graph),
        body=interned(body.with_others(condition.consts, ())),
        consts=len(condition.consts) + len(body.consts),
    )
    for x, origin in zip(out[:count], carry.stored(body), strict=True):
        note_stored(x, origin)
    body.put(out[count:])
    return carry.tree(out[:count])  # type: ignore[no-any-return]


def _bounded(cond_fun: Callable[[R], Pytree], body_fun: Callable[[R], R], init: R, max_steps: int) -> R:
    """The loop as a scan, whose steps after the end leave the carry as it is."""
    steps = as_int(max_steps, "while_loop", "max_steps")
    if not 0 <= steps < 2**31:
        expected = "at least 0, and below 2**31: there is room for each step"
        raise ArgumentError("while_loop", "max_steps", got=str(steps), expected=expected)

    def step(carry: R, _: None) -> tuple[R, None]:
        (flag,) = tensors([cond_fun(carry)], "while_loop", "cond_fun")
        operand: Any = carry
        return cond(flag, body_fun, lambda carry: carry, operand), None

    with speaking_as("while_loop", pred="cond_fun", false_fun="body_fun", f="body_fun", length="max_steps"):
        return scan(step, init, None, steps)[0]


def _check_flag(condition: _Body) -> None:
    """Raise unless the condition of a loop returns one boolean of rank 0 and writes into no tensor."""
    if condition.cells:
        raise GraphError(
            "while_loop",
            "cond_fun",
            got="a function that writes into a tensor around it",
            expected="one that only computes a boolean",
            remedy="write in body_fun",
        )
    results = _results(condition)
    if len(results) != 1 or results[0][1] is not None or condition.traced.structure != flatten(0)[1]:
        raise ArgumentError(
            "while_loop",
            "cond_fun",
            got=f"a tree {condition.traced.structure}",
            expected="one boolean of shape ()",
        )
    ((flag, _),) = results
    if flag.dtype != np.dtype(bool):
        raise DTypeError(
            "while_loop",
            "cond_fun",
            got=f"dtype {flag.dtype}",
            expected="dtype bool",
            remedy="compare: x != 0",
        )
    if flag.shape != ():
        raise ShapeError(
            "while_loop", "cond_fun", got=f"shape {flag.shape}", expected="shape ()", remedy="use all or any"
        )


@checked
def fori_loop(
    lower: Array | ArrayLike, upper: Array | ArrayLike, body_fun: Callable[[Tensor, R], R], init: R
) -> R:
    """``carry = body_fun(i, carry)`` for i from ``lower`` to ``upper``, which is left out.

    Parameters
    ----------
    lower, upper : Python integers, or integer tensors of rank 0. Between Python integers the loop is a
        `scan`, and differentiable in both modes; else a `while_loop`, differentiable in forward mode.
    body_fun : takes the number of the step, an int64 tensor of rank 0, and the carry, which it returns: a
        pytree of tensors that keeps its structure, shapes and dtypes.
    init : the first carry.

    Raises ArgumentError, ArgumentTypeError, ShapeError or DTypeError for bounds that are no integers, and for
    a carry that changes.

    >>> import iverson as iv
    >>> fori_loop(0, 4, lambda i, x: x + i, iv.asarray(0))
    iverson.Tensor(6)
    """
    as_function(body_fun, "fori_loop", "body_fun")
    bounds = [_bound(x, name) for x, name in ((lower, "lower"), (upper, "upper"))]

    def once(state: R, i: Tensor) -> tuple[Any, None]:
        return body_fun(i, state), None

    if all(isinstance(b, int) for b in bounds):
        steps = max(bounds[1] - bounds[0], 0)
        check_storable((steps,), np.dtype(np.int64), "fori_loop", "upper")
        with speaking_as("fori_loop", f="body_fun"):
            return scan(once, init, asarray(np.arange(*bounds, dtype=np.int64)))[0]
    start, stop = (asarray(np.asarray(b, np.int64)) if isinstance(b, int) else b for b in bounds)
    with speaking_as("fori_loop"):
        return while_loop(
            lambda state: state[0] < stop, lambda state: (state[0] + 1, body_fun(*state)), (start, init)
        )[1]


def _bound(x: Any, argument: str) -> Any:
    """Bound of a loop as a Python integer or a tensor of dtype int64; raises if it is no integer of
    rank 0.
    """
    if not isinstance(x, Operand | np.ndarray):
        bound = as_int(x, "fori_loop", argument)
        if abs(bound) >= 2**63:
            raise ArgumentError("fori_loop", argument, got=str(bound), expected="an integer of 64 bits")
        return bound
    (x,) = map(unwrap, tensors([x], "fori_loop", argument))
    if x.dtype.kind not in "iu":
        raise DTypeError("fori_loop", argument, got=f"dtype {x.dtype}", expected="an integer dtype")
    if x.shape != ():
        raise ShapeError("fori_loop", argument, got=f"shape {x.shape}", expected="shape ()")
    return x.astype(np.dtype(np.int64))


# --- checkpoint ---------------------------------------------------------------------------------------


@checked
def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """A function of which only the arguments are kept for its derivative, which computes the rest again.

    Parameters
    ----------
    function : takes and returns pytrees of tensors; other leaves are passed on as they are. It is traced, as
        by `jit`: it must not depend on entries, nor have other effects than writes into tensors that it
        closes over.

    The values between are then in memory only while they are used, at the price of a second run. Derivatives
    of any order keep arguments alone, and what was drawn at random.

    Raises GraphError where a while_loop inside draws.

    >>> import iverson as iv
    >>> f = checkpoint(lambda x: iv.sin(iv.sin(x)))
    >>> iv.grad(f)(iv.asarray(0.0))
    iverson.Tensor(1.)
    """
    as_function(function, "checkpoint", "function")
    name = f"checkpoint({getattr(function, '__name__', type(function).__name__)})"

    @as_named(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if disabled_compilation.is_disabled():  # by its module, which is pickled by name
            return as_python(function, args, kwargs)
        leaves, structure = flatten((args, kwargs))
        leaves = [asarray(x) if isinstance(x, np.ndarray | np.generic) else x for x in leaves]
        operands = [x for x in leaves if isinstance(x, Operand)]
        handles = list(map(unwrap, operands))

        def arguments(inputs: Sequence[Handle]) -> Any:
            replacements = iter(inputs)
            return unflatten(
                structure, [rewrap(x, next(replacements)) if isinstance(x, Operand) else x for x in leaves]
            )

        origins = list(map(origin_of, handles))
        avals = list(map(_aval, handles))
        traced = _traced(function, name, avals, arguments, origins=origins, given=handles)
        cells = _written(traced, name)
        body, consts = lifted(traced.graph, traced.inputs())
        out = checkpointed([*consts, *handles], body=body)
        for x, origin in zip(out, traced.stored, strict=True):
            note_stored(x, origin)
        for cell, value in zip(cells, out[traced.own :], strict=True):
            cell.put(value)
        return traced.packed(out[: traced.own])  # type: ignore[no-any-return]

    return call


__all__ = ["checkpoint", "cond", "fori_loop", "scan", "while_loop"]
