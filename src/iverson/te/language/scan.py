"""`scan`: recurrences, i.e. tensors whose entries at one step are computed from earlier steps.

The definition is that of any tensor, a `compute`, which may read the state it defines at earlier steps. A
tensor that depends on a state, and on which a state depends (a stage of a reduction, a tensor that several
states share), is computed step by step with it: together they are the members of one
`iverson.te.ir.nodes.Recurrence`.

As in TVM's scan (tvm.te.scan), of which this is a form without separate placeholders and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from iverson.core import dtypes
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, described
from iverson.core.inputs.arguments import as_flag, as_function
from iverson.core.python.caller import assigned_name
from iverson.core.shapes import as_int
from iverson.expr.build import as_expr, cast
from iverson.expr.nodes import ExprLike
from iverson.te.ir.expressions import Extent, Tensor
from iverson.te.ir.index_arithmetic import same_extent
from iverson.te.ir.nodes import Compute
from iverson.te.ir.source_site import operation
from iverson.te.language.definitions import ShapeLike, shape_of
from iverson.te.language.recurrence_members import State, members_of, recurrence

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

T = TypeVar("T")
#: What a state is before its first step: one value, a tensor, or a function of the indices that are read.
Init: TypeAlias = "ExprLike | Callable[..., ExprLike]"


@overload
def scan(
    shape: Extent | tuple[Extent, ...],
    fscan: Callable[[Tensor], Compute],
    name: str = "",
    init: Init = 0,
    dtype: DTypeLike | None = None,
    reverse: bool = False,
    axis: int | Sequence[int] = 0,
) -> Compute: ...


@overload
def scan(
    shape: list[tuple[Extent, ...]],
    fscan: Callable[..., tuple[Compute, ...]],
    name: str = "",
    init: Init | Sequence[Init] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
    reverse: bool = False,
    axis: int | Sequence[int] = 0,
) -> tuple[Compute, ...]: ...


def scan(
    shape: ShapeLike | Sequence[ShapeLike],
    fscan: Callable[..., Compute | tuple[Compute, ...]],
    name: str = "",
    init: Init | Sequence[Init] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
    reverse: bool = False,
    axis: int | Sequence[int] = 0,
) -> Compute | tuple[Compute, ...]:
    """Tensors defined step by step along their first axis, or along others.

    Parameters
    ----------
    shape : of the state, steps first: ``(steps, ...)``; for several states, a list of shapes.
    fscan : takes the state, or the states, and returns for each the `compute` that defines it, of its shape.
        That may read a state at earlier steps: ``s[t - 1, ...]``, ``s[t - 2, ...]`` (later steps if
        ``reverse``), at any other index; also through other tensors of the same steps.
    name : of the tensor; for several states, a number is added.
    init : what a state is before its first step: a number, a tensor of its shape without the steps, or a
        function of the indices that are read, which returns a value; for several states, one or a list.
    dtype : of the states; by default that of ``init`` where it is a tensor, else float32 where all that is
        read beside the states is of float32, else float64. For several states, one or a list of them.
    reverse : from the last step to the first.
    axis : the axis of the steps, or several, outermost first: then a step is earlier if it is so along the
        first of these axes, or at the same place there and earlier along the next, as in nested loops.

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
    A scan may be part of the step of another, over an axis of its own, and read the other's state. What reads
    only rows before, in a recurrence along rows and columns, is computed for the row at once.

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

    The edit distance of two words (Wagner and Fischer, 1974), along both:

    >>> @te.op
    ... def distance(a, b):
    ...     n, m = a.shape[0], b.shape[0]
    ...     def step(d):
    ...         def entry(i, j):
    ...             near = te.minimum(d[i - 1, j], d[i, j - 1]) + 1
    ...             return te.minimum(near, d[i - 1, j - 1] + te.select(a[i] == b[j], 0, 1))
    ...         return te.compute((n, m), entry)
    ...     d = te.scan((n, m), step, init=lambda i, j: te.maximum(i, j) + 1, dtype="int64", axis=(0, 1))
    ...     return te.compute((), lambda: d[n - 1, m - 1])
    >>> distance(*(np.frombuffer(word, "uint8") for word in (b"kitten", b"sitting")))
    iverson.Tensor(3)
    """
    operation("scan", name)
    name = name or assigned_name()
    site = operation("scan", name)
    as_function(fscan, site, "fscan")
    reverse = as_flag(reverse, site, "reverse")
    is_list = is_list_of_shapes(shape)
    state_shapes: Any = shape if is_list else (shape,)
    shapes = [shape_of(s, site) for s in state_shapes]
    steps = _steps(axis, shapes, site)
    inits, state_dtypes = (
        of_each(x, len(shapes) if is_list else 0, argument, site)
        for argument, x in (("init", init), ("dtype", dtype))
    )
    names = [f"{name}{k}" if name and is_list else name for k in range(len(shapes))]

    def definitions(*states: State) -> tuple[Any, ...]:
        result: Any = fscan(*states)
        return tuple(result) if is_list and isinstance(result, (list, tuple)) else (result,)

    def new_states(dtypes_of: Sequence[DTypeLike | None]) -> list[State]:
        arguments = zip(shapes, inits, dtypes_of, names, strict=True)
        return [state_of(s, before, d, n, reverse, steps, site) for s, before, d, n in arguments]

    states, results = defined(new_states, definitions, inits, state_dtypes, site)
    members = recurrence(dict(zip(states, results, strict=True)), reverse, steps, site)
    return members if is_list else members[0]


def is_list_of_shapes(shape: ShapeLike | Sequence[ShapeLike]) -> bool:
    """True for the shapes of several states."""
    return isinstance(shape, (list, tuple)) and any(isinstance(n, (list, tuple)) for n in shape)


def defined(
    new_states: Callable[[Sequence[DTypeLike | None]], list[State]],
    definitions: Callable[..., tuple[Compute, ...]],
    inits: Sequence[Init],
    state_dtypes: Sequence[DTypeLike | None],
    site: str,
) -> tuple[list[State], tuple[Compute, ...]]:
    """States, and the definitions that a function gives for them, after checks.

    They are of float32 where all that is read beside the states is, and no dtype is asked for.

    new_states : makes states of given dtypes.
    inits, state_dtypes : of the states, as they were given.
    """
    states = new_states(state_dtypes)
    results = definitions(*states)
    _check_results(states, results, site)
    if (read_dtype := _read_dtype(states, results, site)) is not None:
        new_dtypes = [
            read_dtype if d is None and not isinstance(t, Tensor) else d
            for t, d in zip(inits, state_dtypes, strict=True)
        ]
        if new_dtypes != state_dtypes:
            narrow_states = new_states(new_dtypes)
            narrow = definitions(*narrow_states)
            if all(t.dtype == s.dtype for s, t in zip(narrow_states, narrow, strict=True)):
                return narrow_states, narrow
    return states, results


def _read_dtype(states: Sequence[State], definitions: Sequence[Compute], site: str) -> Any:
    """Float32 if all floating tensors that the definitions read, besides the states, are float32; else None.

    It is None too if there are no such tensors.
    """
    defined_tensors = {*states, *(members := members_of(dict(zip(states, definitions, strict=True))))}
    reads = [r.tensor for m in members for s in m.statements for r in s.reads]
    operands = [t for t in reads if t not in defined_tensors and dtypes.is_inexact(t.dtype)]
    return dtypes.float32 if operands and all(t.dtype == dtypes.float32 for t in operands) else None


def of_each(value: T | Sequence[T], count: int, argument: str, site: str) -> list[Any]:
    """List with a value for each state, from one value or a list of them.

    count : the number of states in a list; 0 for a single state that is not in a list.
    """
    if not count or not isinstance(value, (list, tuple)):
        return [value] * max(count, 1)
    if len(value) != count:
        raise ArgumentError(site, argument, got=f"{len(value)} values", expected=f"{count}, one per state")
    return list(value)


def _steps(axis: int | Sequence[int], shapes: Sequence[tuple[Extent, ...]], site: str) -> tuple[int, ...]:
    """Positions of the steps in the shapes, outermost first, after checks."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    steps = tuple(as_int(k, site, "axis") for k in axes)
    rank = min(map(len, shapes))
    if not steps or len(set(steps)) != len(steps) or any(k < 0 for k in steps):
        raise ArgumentError(site, "axis", got=described(axis), expected="one axis, or several different ones")
    if any(k >= rank for k in steps) or not all(
        same_extent(s[k], shapes[0][k]) for s in shapes for k in steps
    ):
        raise ShapeError(
            site,
            "shape",
            got=" and ".join(map(str, shapes)),
            expected=f"the steps as {'first axis' if steps == (0,) else f'axis {axis}'}, as many for all",
        )
    return steps


def state_of(
    shape: tuple[Extent, ...],
    init: Init,
    dtype: DTypeLike | None,
    name: str,
    reverse: bool,
    steps: tuple[int, ...],
    site: str,
) -> State:
    """State with the given shape and dtype, after checks of ``init``, its value before the first step."""
    default_dtype = init.dtype if isinstance(init, Tensor) else dtypes.default_float
    state_dtype = default_dtype if dtype is None else dtypes.as_dtype(dtype, site)
    if not isinstance(init, Tensor):
        before = init if callable(init) else cast(as_expr(init, site), state_dtype)
        return State(shape, state_dtype, name, before, reverse, steps)
    entry_shape = tuple(n for k, n in enumerate(shape) if k not in steps)
    if init.ndim != len(entry_shape) or not all(map(same_extent, init.shape, entry_shape)):
        raise ShapeError(
            site,
            "init",
            got=f"{init.name} of shape {init.shape}",
            expected=f"shape {entry_shape}, that of a state without its steps",
        )
    if init.dtype != state_dtype:
        raise DTypeError(site, "init", got=f"{init.name} of {init.dtype}", expected=f"{state_dtype}")
    return State(shape, state_dtype, name, init, reverse, steps)


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
