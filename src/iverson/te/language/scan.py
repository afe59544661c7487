"""`scan`: recurrences, i.e. tensors whose entries at one step are computed from earlier steps.

The definition is that of any tensor, a `compute`, which may read the state it defines at earlier steps. A
tensor that depends on a state, and on which a state depends (a stage of a reduction, a tensor that several
states share), is computed step by step with it: together they are the members of one
`iverson.te.ir.nodes.Recurrence`.

As in TVM's scan (tvm.te.scan), of which this is a form without separate placeholders and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, described
from iverson.core.inputs.arguments import as_flag, as_function
from iverson.core.protocols import DType
from iverson.core.python.caller import assigned_name
from iverson.expr.build import as_expr, cast, select
from iverson.expr.nodes import Expr, ExprLike, producers_first
from iverson.expr.print import text
from iverson.te.ir.expressions import Extent, Read, Tensor, Var, substitute
from iverson.te.ir.index_arithmetic import affine_of, is_range, same_extent
from iverson.te.ir.nodes import Compute, Recurrence, Statement, recurrence_of
from iverson.te.ir.source_site import operation
from iverson.te.language.definitions import ShapeLike, shape_of
from iverson.te.language.nonlinear_reductions import linear_statements

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

T = TypeVar("T")


class State(Tensor):
    """Placeholder for a tensor within the definition of its scan.

    before : the value of a step that is read before the first one.
    label : the name that the user gave, or "".
    """

    __slots__ = ("before", "label", "reverse")

    def __init__(
        self, shape: tuple[Extent, ...], dtype: DType, name: str, before: Tensor | Expr, reverse: bool
    ) -> None:
        super().__init__(shape, dtype, name or "state")
        self.before, self.reverse, self.label = before, reverse, name

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        read = super().__getitem__(indices)
        assert isinstance(read, Read)
        step, entry_indices = read.indices[0], read.indices[1:]
        lag = affine_of(step).const
        if lag < 0 if self.reverse else lag > 0:
            raise _not_earlier(operation("scan", self.label), read, self.reverse)
        inside = step < as_expr(self.shape[0]) if self.reverse else step >= 0
        before = self.before[entry_indices] if isinstance(self.before, Tensor) else self.before
        return select(inside, read, before)


@overload
def scan(
    shape: Extent | tuple[Extent, ...],
    fscan: Callable[[Tensor], Compute],
    name: str = "",
    init: ExprLike = 0,
    dtype: DTypeLike | None = None,
    reverse: bool = False,
) -> Compute: ...


@overload
def scan(
    shape: list[tuple[Extent, ...]],
    fscan: Callable[..., tuple[Compute, ...]],
    name: str = "",
    init: ExprLike | Sequence[ExprLike] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
    reverse: bool = False,
) -> tuple[Compute, ...]: ...


def scan(
    shape: ShapeLike | Sequence[ShapeLike],
    fscan: Callable[..., Compute | tuple[Compute, ...]],
    name: str = "",
    init: ExprLike | Sequence[ExprLike] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
    reverse: bool = False,
) -> Compute | tuple[Compute, ...]:
    """Tensors defined step by step along their first axis.

    Parameters
    ----------
    shape : of the state, steps first: ``(steps, ...)``; for several states, a list of shapes.
    fscan : takes the state, or the states, and returns for each the `compute` that defines it, of its shape.
        That may read a state at earlier steps: ``s[t - 1, ...]``, ``s[t - 2, ...]`` (later steps if
        ``reverse``), at any other index; also through other tensors of the same steps.
    name : of the tensor; for several states, a number is added.
    init : what a state is before its first step: a number, or a tensor of its shape without the steps; for
        several states, one or a list of them.
    dtype : of the states; by default that of ``init`` where it is a tensor, else float32 where all that is
        read beside the states is of float32, else float64. For several states, one or a list of them.
    reverse : from the last step to the first.

    Returns
    -------
    The state after each step: a tensor of ``shape``, or a tuple of them. The work is that of the definition,
    once for each step. Gradients are scans in the other direction, tangents in the same one.

    Raises
    ------
    ArgumentError
        Where a state is read at its own or a later step, or along another axis than that of the steps.
    ShapeError, DTypeError
        Where what fscan returns is not of the state's shape and dtype.

    Notes
    -----
    Every step is kept, also of the tensors between the states, as the gradient needs them; in an op that runs
    in blocks (`op`) those of a block alone. A scan over the axis of a reduction, of which the last step is
    read, is a reduction of several values by any rule.

    Examples
    --------
    Sums of what comes before, and an average that forgets:

    >>> import numpy as np
    >>> from iverson import te
    >>> @te.op
    ... def running(x):
    ...     n = x.shape
    ...     return te.scan(n, lambda s: te.compute(n, lambda t: s[t - 1] + x[t]))
    >>> running(np.asarray([1.0, 2.0, 3.0]))
    iverson.Tensor([1., 3., 6.])
    >>> @te.op
    ... def smooth(x, first):
    ...     n, m = x.shape
    ...     return te.scan((n, m), lambda s: te.compute(
    ...         (n, m), lambda t, i: 0.5 * s[t - 1, i] + 0.5 * x[t, i]), init=first)
    >>> smooth(np.asarray([[1.0], [3.0]]), np.asarray([1.0]))
    iverson.Tensor([[1.],
                    [2.]])
    """
    operation("scan", name)
    name = name or assigned_name()
    site = operation("scan", name)
    as_function(fscan, site, "fscan")
    reverse = as_flag(reverse, site, "reverse")
    is_multiple = isinstance(shape, (list, tuple)) and any(isinstance(n, (list, tuple)) for n in shape)
    state_shapes: Any = shape if is_multiple else (shape,)
    shapes = [shape_of(s, site) for s in state_shapes]
    _check_steps(shapes, site)
    inits, state_dtypes = (
        _of_each(x, len(shapes) if is_multiple else 0, argument, site)
        for argument, x in (("init", init), ("dtype", dtype))
    )

    def defined(dtypes_of: Sequence[DTypeLike | None]) -> tuple[tuple[State, ...], tuple[Any, ...]]:
        """States of these dtypes, and the results of fscan for them."""
        states = tuple(
            _state(s, before, state_dtype, f"{name}{k}" if name and is_multiple else name, reverse, site)
            for k, (s, before, state_dtype) in enumerate(zip(shapes, inits, dtypes_of, strict=True))
        )
        result = fscan(*states)
        return states, tuple(result) if is_multiple and isinstance(result, (list, tuple)) else (result,)

    states, definitions = defined(state_dtypes)
    _check_results(states, definitions, site)
    if (read_dtype := _read_dtype(states, definitions, site)) is not None:
        new_dtypes = [
            read_dtype if d is None and not isinstance(t, Tensor) else d
            for t, d in zip(inits, state_dtypes, strict=True)
        ]
        narrow = defined(new_dtypes) if new_dtypes != state_dtypes else (states, definitions)
        if all(t.dtype == s.dtype for s, t in zip(*narrow, strict=True)):
            states, definitions = narrow
    results = _recurrence(dict(zip(states, definitions, strict=True)), reverse, site)
    return results if is_multiple else results[0]


def _read_dtype(states: Sequence[State], definitions: Sequence[Compute], site: str) -> Any:
    """Float32 if all floating tensors that the definitions read, besides the states, are float32; else None.

    It is None too if there are no such tensors.
    """
    defined_tensors = {*states, *(members := _members(dict(zip(states, definitions, strict=True)), site))}
    operands = [
        t for m in members for t in _direct(m) if t not in defined_tensors and dtypes.is_inexact(t.dtype)
    ]
    return dtypes.float32 if operands and all(t.dtype == dtypes.float32 for t in operands) else None


def _of_each(value: T | Sequence[T], count: int, argument: str, site: str) -> list[Any]:
    """List with a value for each state, from one value or a list of them.

    count : the number of states in a list; 0 for a single state that is not in a list.
    """
    if not count or not isinstance(value, (list, tuple)):
        return [value] * max(count, 1)
    if len(value) != count:
        raise ArgumentError(site, argument, got=f"{len(value)} values", expected=f"{count}, one per state")
    return list(value)


def _check_steps(shapes: Sequence[tuple[Extent, ...]], site: str) -> None:
    for s in shapes:
        if not s or not same_extent(s[0], shapes[0][0]):
            raise ShapeError(
                site,
                "shape",
                got=" and ".join(map(str, shapes)),
                expected="the steps as first axis, as many for every state",
            )


def _state(
    shape: tuple[Extent, ...], init: ExprLike, dtype: DTypeLike | None, name: str, reverse: bool, site: str
) -> State:
    """State with the given shape and dtype, after checks of ``init``, its value before the first step."""
    default_dtype = init.dtype if isinstance(init, Tensor) else dtypes.default_float
    state_dtype = default_dtype if dtype is None else dtypes.as_dtype(dtype, site)
    if not isinstance(init, Tensor):
        return State(shape, state_dtype, name, cast(as_expr(init, site), state_dtype), reverse)
    entry_shape = shape[1:]
    if init.ndim != len(entry_shape) or not all(map(same_extent, init.shape, entry_shape)):
        raise ShapeError(
            site,
            "init",
            got=f"{init.name} of shape {init.shape}",
            expected=f"shape {entry_shape}, that of a state without its steps",
        )
    if init.dtype != state_dtype:
        raise DTypeError(site, "init", got=f"{init.name} of {init.dtype}", expected=f"{state_dtype}")
    return State(shape, state_dtype, name, init, reverse)


def _check_results(states: Sequence[State], definitions: Sequence[Compute], site: str) -> None:
    """Raise an error unless ``definitions`` are distinct Computes of the states' shapes and dtypes."""
    if len(definitions) != len(states) or not all(isinstance(t, Compute) for t in definitions):
        raise ArgumentTypeError(
            site,
            "fscan",
            got="a function that returns " + (", ".join(map(described, definitions)) or "nothing"),
            expected=f"a te.compute for each of the {len(states)} states",
        )
    for state, t in zip(states, definitions, strict=True):
        if t.ndim != state.ndim or not all(map(same_extent, t.shape, state.shape)):
            raise ShapeError(
                site, "fscan", got=f"{t.name} of shape {t.shape}", expected=f"shape {state.shape}"
            )
        if t.dtype != state.dtype:
            raise DTypeError(
                site,
                "fscan",
                got=f"{t.name} of {t.dtype}",
                expected=f"{state.dtype}, that of the state",
                remedy="pass dtype= to te.scan, or to the te.compute",
            )
    if len(set(definitions)) != len(definitions):
        raise ArgumentError(site, "fscan", got="one tensor for two states", expected="one for each")


# --- from definitions to a recurrence ----------------------------------------------------------------


def _recurrence(definitions: Mapping[State, Compute], reverse: bool, site: str) -> tuple[Compute, ...]:
    """Tensors of the states, as members of a new recurrence that also has all tensors between them.

    definitions : for each state the Compute that fscan returned.
    """
    order = _members(definitions, site)
    steps = next(iter(definitions)).shape[0]
    axis = Var("t", 0, steps)
    recurrence = Recurrence(axis, reverse)
    names = {t: state.label or t.name for state, t in definitions.items()}
    members = {t: t.again(t.shape, (), recurrence, names.get(t, "")) for t in order}
    new = dict[Tensor, Tensor](members.items())
    new |= {state: members[t] for state, t in definitions.items()}
    places: dict[Tensor, int] = dict.fromkeys(definitions, 0)
    defined: dict[Compute, list[Statement]] = {}
    for t in order:
        statements = [_at_step(s, axis, places, site) for s in _statements(t)]
        places[t] = _place(statements[0], axis, t, site)
        for s in statements:
            _check_earlier(s, axis, places, reverse, set(definitions), site)
        defined[members[t]] = [s.mapped(lambda e: substitute([e], {}, new)[0]) for s in statements]
    for t in definitions.values():
        if places[t] != 0:
            raise ArgumentError(
                site,
                "fscan",
                got=f"{t.name}, whose steps are axis {places[t]}",
                expected="them as first axis",
            )
    recurrence.define(defined)
    return tuple(members[t] for t in definitions.values())


def _members(definitions: Mapping[State, Compute], site: str) -> list[Compute]:
    """Definitions of the states, and the tensors below them that depend on a state; producers first."""
    depends: set[Tensor] = set(definitions)
    results: tuple[Tensor, ...] = tuple(definitions.values())
    members: list[Compute] = []
    for t in producers_first(results, _direct):
        if not isinstance(t, Compute) or not (t in results or any(d in depends for d in _direct(t))):
            continue
        if recurrence_of(t) is not None:
            raise ArgumentError(
                site,
                "fscan",
                got=f"{t.name}, made by another scan{'' if t in results else ' of the state'}",
                expected="a te.compute",
                remedy="have the states of both in one scan: te.scan([shape, shape], lambda s, q: ...)",
            )
        depends.add(t)
        members.append(t)
    return members


def _direct(t: Tensor) -> list[Tensor]:
    if not isinstance(t, Compute):
        return []
    if t.recurrence is None:
        return [r.tensor for s in _statements(t) for r in s.reads]
    members = t.recurrence.members
    tensors = (r.tensor for m in members for s in m.statements for r in s.reads)
    return [d for d in tensors if d not in members]


def _statements(t: Compute) -> tuple[Statement, ...]:
    """Statements of a definition; a product is in the form that differentiates, if it has derivatives."""
    products = any(s.combine == "prod" for s in t.statements)
    return linear_statements(t) or t.statements if products else t.statements


def _at_step(s: Statement, axis: Var, places: Mapping[Tensor, int], site: str) -> Statement:
    """The statement with the axis of the recurrence in place of its own axis of steps.

    The axis of steps is the one in the index of steps of its reads. An error is raised if it is not unique.

    places : for each state and member, the position of the index of steps.
    """
    step_axes: set[Var] = set()
    for r in s.reads:
        if r.tensor in places:
            form = affine_of(r.indices[places[r.tensor]])
            moving = [v for v, _ in form.terms if isinstance(v, Var) and v.kind != "size"]
            if len(moving) != 1 or form.coefficient(moving[0]) != 1 or moving[0].kind == "reduce":
                raise ArgumentError(
                    site,
                    r.tensor.name,
                    got=text(r),
                    expected="an earlier step of the tensor that reads it: its index of steps minus a number",
                )
            step_axes.add(moving[0])
    first = s.write[0] if s.write else None
    if not step_axes and isinstance(first, Var):
        step_axes = {first}  # a definition that reads no state
    if len(step_axes) != 1 or axis.hi is None or not is_range(next(iter(step_axes)), axis.hi):
        raise ArgumentError(
            site,
            s.tensor.name,
            got=f"reads along {', '.join(sorted(v.name for v in step_axes))}",
            expected="one index of steps, over all of them",
        )
    (step,) = step_axes
    axes = tuple(axis if v is step else v for v in s.domain.axes)
    return s.mapped(lambda e: substitute([e], {step: axis})[0], axes)


def _place(s: Statement, axis: Var, t: Compute, site: str) -> int:
    """Position of the step among the indices that a statement writes; an error unless it occurs once."""
    places = [k for k, w in enumerate(s.write) if w is axis]
    if len(places) != 1:
        raise ArgumentError(
            site, t.name, got=f"a write to {list(s.write)}", expected="the step as one of the indices"
        )
    return places[0]


def _check_earlier(
    s: Statement, axis: Var, places: Mapping[Tensor, int], reverse: bool, states: set[State], site: str
) -> None:
    for r in s.reads:
        if r.tensor not in places:
            continue
        lag = affine_of(axis) - affine_of(r.indices[places[r.tensor]])
        ago = -lag.const if reverse else lag.const
        if lag.terms or ago < (1 if r.tensor in states else 0):
            raise _not_earlier(site, r, reverse)


def _not_earlier(site: str, read: Read, reverse: bool) -> ArgumentError:
    order, sign = ("a later", "+") if reverse else ("an earlier", "-")
    return ArgumentError(
        site,
        read.tensor.name,
        got=f"a read of {text(read)} at step t",
        expected=f"{order} step, such as t {sign} 1",
    )
