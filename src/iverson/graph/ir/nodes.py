"""Graph IR on one page: programs over the op table, in single assignment form.

    graph    = graph(input, ...) { constant* equation* return (operand, ...) }
    input    = value: type
    constant = value: type = constant @k            an array that the function closed over
    equation = value: type, ... = op[param=..., ...](operand, ...)
    op       = name | name@k                        @k: the record of an op that is not the library's
    operand  = value | number | undefined
    param    = a Python value | a graph | @k        @k: a pattern or another object that has no text
    type     = dtype[extent, ...] [support]         of unknown shape: dtype[?, ...], of unknown rank: dtype[*]

A value is defined once, before it is read, by an input, a constant or an equation of its own graph: a graph
that is a parameter sees nothing from outside. ``op`` is one of the op table, of `iverson.graph.ir.operations`
or of users; there is no other list of what can be computed. ``undefined`` is a cotangent that nothing gave:
it has no shape.

Nothing here changes once it is made; a pass returns a new graph. Printing, checking and evaluation are in
`print`, `verify` and `interpret`; `parse` reads the text back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from iverson.core.aval import Aval
from iverson.core.dispatch import Handle
from iverson.core.op import Op
from iverson.core.protocols import Params
from iverson.core.table import overrides, rules_in_force


class Undefined:
    """The operand in place of a cotangent that no op computed: a zero without a shape. Its one instance is
    `UNDEFINED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A variable of a graph, defined by an input, a constant or an equation. It is equal only to itself.

    aval : its abstract value: shape, dtype and support.
    """

    aval: Aval

    if TYPE_CHECKING:

        @property
        def shape(self) -> Any:
            """The extents, one per axis."""

        @property
        def dtype(self) -> Any:
            """The dtype of the entries."""

    else:  # read without entering a Python function: passes ask for them all the time
        shape = property(attrgetter("aval.shape"))
        dtype = property(attrgetter("aval.dtype"))


#: A value, a Python number, or UNDEFINED. Which of these an operand of an equation is, its op says.
Operand = Any
#: What is asked which of these it is.
AnyOperand: TypeAlias = Value | complex | Undefined
#: What an op of a graph gets for an operand when it is carried out: a handle in place of a value.
Argument: TypeAlias = Handle | complex | Undefined


@dataclass(frozen=True, slots=True, eq=False)
class Equation:
    """``results = op[params](operands)``.

    where : the code object and instruction of the user's call, if one led to it.
    """

    op: Op
    operands: tuple[Operand, ...]
    params: Params
    results: tuple[Value, ...]
    where: Any = None


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Graph:
    """Equations in order between inputs and outputs; ``constants`` are values with the arrays they stand
    for. ``str(graph)`` is its text (`iverson.graph.ir.print`)."""

    inputs: tuple[Value, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Operand, ...]
    constants: tuple[tuple[Value, Any], ...] = ()
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Result of ``make()``, called once for each ``key`` and cached in this graph.

        While rules of ops are overridden, there is one cached result for each set of rules in force.
        """
        if overrides():
            key = key, rules_in_force()
        result: T | None = self._cache.get(key)
        if result is None:
            result = self._cache.setdefault(key, make())
        return result

    def __repr__(self) -> str:
        sizes = len(self.inputs), len(self.equations), len(self.outputs)
        return "<graph of {} inputs, {} equations, {} outputs>".format(*sizes)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def subgraphs(equation: Equation) -> Iterator[tuple[str, Graph]]:
    """The graphs among an equation's parameters, by name."""
    for name, param in equation.params.items():
        if isinstance(param, Graph):
            yield name, param


def values_of(operands: Iterable[AnyOperand]) -> list[Value]:
    """The operands that are values."""
    return [x for x in operands if type(x) is Value]


def known(operand: Operand) -> Any:
    """Argument of an op's ``abstract`` for an operand: the aval of a value, any other operand as it is."""
    return operand.aval if type(operand) is Value else operand


def is_undefined_on(op: Op, operands: tuple[Operand, ...]) -> bool:
    """True if an op has no defined result: it is linear in a group of operands that are all undefined."""
    return any(g and all(operands[k] is UNDEFINED for k in g) for g in op.groups(len(operands)))
