"""`while_`: loops that end when data say so, after a given number of steps at most.

Such a loop is a scan whose steps are taken as long as a condition holds. Where one condition ends the loop
for all entries, everything that a step computes is under it, so that compiled code passes over the steps
that are not taken; a condition for each entry chooses between the new value and the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from iverson.core import dtypes
from iverson.core.errors import ArgumentTypeError, DTypeError, ShapeError, described
from iverson.core.inputs.arguments import as_function
from iverson.core.python.caller import assigned_name
from iverson.expr.build import as_expr, const, select
from iverson.expr.nodes import Expr, ExprLike, same
from iverson.te.ir.expressions import Extent, Tensor, Var, substitute
from iverson.te.ir.index_arithmetic import same_extent
from iverson.te.ir.nodes import Compute
from iverson.te.ir.source_site import operation
from iverson.te.language.definitions import ShapeLike, compute, shape_of
from iverson.te.language.recurrence_members import State, recurrence
from iverson.te.language.scan import Init, defined, is_list_of_shapes, of_each, state_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: The condition of a step that is never taken.
NEVER: Expr = const(False, dtypes.bool)


@overload
def while_(
    shape: Extent | tuple[Extent, ...],
    condition: Callable[[Tensor], Compute],
    body: Callable[[Tensor], Compute],
    name: str = "",
    init: Init = 0,
    dtype: DTypeLike | None = None,
) -> Compute: ...


@overload
def while_(
    shape: list[tuple[Extent, ...]],
    condition: Callable[..., Compute],
    body: Callable[..., tuple[Compute, ...]],
    name: str = "",
    init: Init | Sequence[Init] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
) -> tuple[Compute, ...]: ...


def while_(
    shape: ShapeLike | Sequence[ShapeLike],
    condition: Callable[..., Compute],
    body: Callable[..., Compute | tuple[Compute, ...]],
    name: str = "",
    init: Init | Sequence[Init] = 0,
    dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
) -> Compute | tuple[Compute, ...]:
    """Tensors after a loop that runs while a condition holds, for a given number of steps at most.

    Parameters
    ----------
    shape : of the state with the largest number of steps first: ``(steps, ...)``; for several states, a list.
    condition : takes the state, or the states, and returns a `compute` of bools: whether step t is taken, by
        what is read at ``t - 1``. Of shape ``(steps,)`` it is for all entries; with more of the first axes of
        the states, each entry there has its own.
    body : takes the state, or the states, and returns for each the `compute` that defines it, as of `scan`.
    name : of the tensor; for several states, a number is added.
    init : what a state is before its first step, as of `scan`.
    dtype : of the states, as of `scan`.

    Returns
    -------
    The state after the last step that is taken: a tensor of ``shape`` without the steps, or a tuple of them.
    An entry that a condition has ended stays as it is. The work is that of the steps that are taken, where
    one condition is for all entries; gradients are those of these steps.

    Raises
    ------
    ArgumentError
        Where a state is read at its own or a later step.
    ArgumentTypeError, DTypeError, ShapeError
        Where condition returns no `compute` of bools over the steps; else as `scan`.

    Notes
    -----
    The number of steps that are taken is no function that has derivatives: gradients are those of the steps,
    as if their number were given. A gradient keeps the states of all ``steps``, taken or not.

    Examples
    --------
    Heron's square roots, each until it is one:

    >>> import numpy as np
    >>> from iverson import te
    >>> @te.op
    ... def root(a):
    ...     n = (50, a.shape[0])
    ...     return te.while_(
    ...         n,
    ...         lambda s: te.compute(n, lambda t, i: te.abs(s[t - 1, i] ** 2 - a[i]) > 1e-12 * a[i]),
    ...         lambda s: te.compute(n, lambda t, i: 0.5 * (s[t - 1, i] + a[i] / s[t - 1, i])),
    ...         init=a,
    ...     )
    >>> root(np.asarray([1.0, 4.0, 1e6]))
    iverson.Tensor([1.e+00, 2.e+00, 1.e+03])
    """
    operation("while_", name)
    name = name or assigned_name()
    site = operation("while_", name)
    as_function(condition, site, "condition")
    as_function(body, site, "body")
    is_list = is_list_of_shapes(shape)
    state_shapes: Any = shape if is_list else (shape,)
    shapes = [shape_of(s, site) for s in state_shapes]
    inits, state_dtypes = (
        of_each(x, len(shapes) if is_list else 0, argument, site)
        for argument, x in (("init", init), ("dtype", dtype))
    )
    names = [f"{name}{k}" if name and is_list else name for k in range(len(shapes))]

    def old_states(dtypes_of: Sequence[DTypeLike | None]) -> list[State]:
        arguments = zip(shapes, inits, dtypes_of, names, strict=True)
        return [state_of(s, before, d, n, False, (0,), site) for s, before, d, n in arguments]

    first = old_states(state_dtypes)
    extents = _checked(condition(*first), shapes, site).shape
    if same_extent(extents[0], 0):  # the state as it begins
        last = [
            compute(s.shape[1:], lambda *i, s=s: s[(-1, *i)], n) for s, n in zip(first, names, strict=True)
        ]
        return tuple(last) if is_list else last[0]

    def new_states(dtypes_of: Sequence[DTypeLike | None]) -> list[State]:
        ran = state_of(extents, True, dtypes.bool, f"{name}.ran" if name else "", False, (0,), site)
        return [*old_states(dtypes_of[:-1]), ran]

    def definitions(*states: State) -> tuple[Any, ...]:
        *old, ran = states
        holds = _checked(condition(*old), shapes, site)
        runs = compute(extents, lambda t, *i: select(ran[(t - 1, *i)], holds[(t, *i)], NEVER), ran.name)
        result: Any = body(*old)
        new = tuple(result) if is_list and isinstance(result, (list, tuple)) else (result,)
        if len(new) != len(old) or not all(isinstance(y, Compute) for y in new):
            return new
        return (*(_chosen(y, s, runs) for y, s in zip(new, old, strict=True)), runs)

    states, results = defined(new_states, definitions, [*inits, True], [*state_dtypes, dtypes.bool], site)
    guard = results[-1] if len(extents) == 1 else None
    members = recurrence(dict(zip(states, results, strict=True)), False, (0,), site, guard)
    last = [_last(t, n) for t, n in zip(members[:-1], names, strict=True)]
    return tuple(last) if is_list else last[0]


def _checked(condition: Tensor | ExprLike | None, shapes: Sequence[tuple[Extent, ...]], site: str) -> Compute:
    """The condition of a loop; an error unless it is one for each step, or also for each entry."""
    if not isinstance(condition, Compute):
        raise ArgumentTypeError(
            site,
            "condition",
            got=f"a function that returns {described(condition)}",
            expected="a function that returns a te.compute of bools",
            remedy="te.compute((steps,), lambda t: s[t - 1] > 0)",
        )
    if condition.dtype.kind != "b":
        raise DTypeError(site, "condition", got=f"{condition.name} of {condition.dtype}", expected="bools")
    rank = condition.ndim
    fits = 0 < rank <= min(map(len, shapes)) and all(
        same_extent(n, m) for s in shapes for n, m in zip(condition.shape, s, strict=False)
    )
    if not fits:
        raise ShapeError(
            site,
            "condition",
            got=f"{condition.name} of shape {condition.shape}",
            expected=f"{shapes[0][:1]}, one for each step, or more of the first axes of the states",
        )
    return condition


def _chosen(new: Compute, state: State, runs: Compute) -> Compute:
    """Definition of a state: what a step makes where it is taken, else what was there before."""
    if new.ndim != state.ndim or new.dtype != state.dtype:
        return new  # which is refused
    rank = runs.ndim

    def entry(t: Var, *i: Var) -> Expr:
        return select(runs[(t, *i[: rank - 1])], _value(new, (t, *i)), state[(t - 1, *i)])

    return compute(state.shape, entry, state.name)


def _value(t: Compute, indices: tuple[Var, ...]) -> Expr:
    """Value of an entry: what defines it, if that is an expression in its indices."""
    (s,) = t.statements if len(t.statements) == 1 else (None,)
    if s is None or t.recurrence is not None or s.combine != "assign" or s.domain.where:
        return t[indices]
    if not same(s.write, s.domain.axes):
        return t[indices]
    return substitute([s.body], dict[Expr, Expr](zip(s.domain.axes, indices, strict=True)))[0]


def _last(t: Compute, name: str) -> Compute:
    """The tensor after the last step."""
    return compute(t.shape[1:], lambda *i: t[(as_expr(t.shape[0]) - 1, *i)], name)
