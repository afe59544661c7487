"""Closure conversion: values that a `Function` reads from its closure in a trace or a batch become arguments.

    class F(Function):                                   class F(Function):
        forward(ctx, x): return x * s             ->         forward(ctx, x, s): return x * s
        backward(ctx, g): return g * s                       backward(ctx, g): return g * s, None

A Function in a level is one call, which is carried out elsewhere and later: on all examples, by a compiled
graph, in a pass. There a value of the level that its methods close over has no meaning, but an argument has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from inspect import getattr_static
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from iverson.core.dispatch import Handle, has_entries, levels, value_of
from iverson.core.errors import GradientError
from iverson.core.protocols import Shaped

if TYPE_CHECKING:
    from iverson.autograd.functions.context import Context

_METHODS = ("forward", "backward", "jvp", "setup_context")


def read_around(cls: type) -> list[CellType]:
    """Closure cells of the methods of a Function that contain a handle of a value of a level.

    Cells of functions that the methods close over count too.
    """
    cells = (cell for method in _methods(cls).values() for cell in _cells(method, set()))
    return list({id(cell): cell for cell in cells}.values())


def _methods(cls: type) -> dict[str, FunctionType]:
    """The methods of a Function that are Python functions, by name."""
    attributes = {name: getattr_static(cls, name, None) for name in _METHODS}
    plain = {name: getattr(x, "__func__", x) for name, x in attributes.items()}
    return {name: x for name, x in plain.items() if isinstance(x, FunctionType)}


def _cells(function: FunctionType, visited: set[int]) -> Iterator[CellType]:
    """Closure cells of ``function``, and of functions inside these, with a handle of a level's value."""
    visited.add(id(function))
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        if isinstance(content, Handle) and not has_entries(content):
            yield cell
        elif isinstance(content, FunctionType) and id(content) not in visited:
            yield from _cells(content, visited)


def _with(function: FunctionType, contents: Mapping[int, object]) -> FunctionType:
    """A copy of ``function`` in which some closure cells have other contents.

    contents : the new content by the identity of the cell; cells of functions in the closure are replaced
        too.
    """
    cells = []
    for cell in function.__closure__ or ():
        if id(cell) in contents:
            cell = CellType(contents[id(cell)])
        elif (inner := _inner(cell)) is not None and any(id(c) in contents for c in _cells_of(inner, set())):
            cell = CellType(_with(inner, contents))
        cells.append(cell)
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _inner(cell: CellType) -> FunctionType | None:
    """The function in a closure cell; None if the cell is empty or contains something else."""
    try:
        return cell.cell_contents if isinstance(cell.cell_contents, FunctionType) else None
    except ValueError:
        return None


def _cells_of(function: FunctionType, visited: set[int]) -> Iterator[CellType]:
    """All cells of a function and of the functions in them."""
    visited.add(id(function))
    for cell in function.__closure__ or ():
        yield cell
        if (inner := _inner(cell)) is not None and id(inner) not in visited:
            yield from _cells_of(inner, visited)


def lifted(cls: type, cells: list[CellType], base: Any) -> Any:
    """A Function like ``cls`` that takes the contents of ``cells`` as additional last arguments.

    These arguments get no gradients.

    base : the class `Function`.
    """
    count, plain = len(cells), _methods(cls)
    names = [f"around {k}" for k in range(count)]  # which no user's attribute has
    at_call = [value_of(cell.cell_contents) for cell in cells]

    def in_rule(ctx: Context) -> Any:
        """Function whose rule reads, as eager code does, the contents of the cells when it runs."""
        arguments = [getattr(ctx, n) for n in names]
        return variant([_now(cls, *cell_state) for cell_state in zip(cells, at_call, arguments, strict=True)])

    def variant(around: Iterable[object]) -> Any:
        contents = dict(zip(map(id, cells), around, strict=True))
        return type(cls.__name__, (cls,), {n: staticmethod(_with(f, contents)) for n, f in plain.items()})

    class Lifted(base):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Context, *args: Any) -> Any:
            forward_args, around = args[:-count], args[-count:]
            vars(ctx).update(zip(names, around, strict=True))
            ctx.needs_input_grad = ctx.needs_input_grad[:-count]
            of, setup = variant(around), getattr(cls, "setup_context", None)
            if setup is None:
                return of.forward(ctx, *forward_args)
            out = of.forward(*forward_args)
            of.setup_context(ctx, forward_args, out)
            return out

        @staticmethod
        def backward(ctx: Context, *grads: Handle) -> Any:
            ctx.needs_input_grad = ctx.needs_input_grad[:-count]
            gradients = in_rule(ctx).backward(ctx, *grads)
            gradients = tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)
            return (*gradients, *(None,) * count)

    if "jvp" in plain:

        def jvp(ctx: Context, *tangents: Handle) -> Any:
            return in_rule(ctx).jvp(ctx, *tangents[:-count])

        Lifted.jvp = staticmethod(jvp)
    Lifted.__name__, Lifted.__qualname__ = cls.__name__, cls.__qualname__
    return Lifted


def _now(cls: type, cell: CellType, at_call: Shaped, argument: Any) -> Any:
    """Content of a closure cell at the time when a rule runs.

    It is ``argument``, which stands for the content, unless the cell's handle was written since the call.
    Then it is the present content, or GradientError is raised if that is not available here.

    at_call : the value of the content at the call.
    """
    x = cell.cell_contents
    if not isinstance(x, Handle) or has_entries(x):
        return x
    value = value_of(x)
    if value is at_call:
        return argument
    if value._level in levels() and value._level.examples() is None:
        return x
    raise GradientError(
        cls.__name__,
        got=f"a derivative after a write into a tensor of shape {x.shape} that the methods close over",
        expected="one that is as it was at the call",
        remedy="make it an argument of the Function, or let the methods close over a copy: "
        "iverson.asarray(x, copy=True)",
    )
