"""Rewriting: rules ``before -> after``, and the writer of a graph in which some equations are replaced.

A rule is a line of text and, where the text does not say all, a function that makes what stands after the
arrow. The text before it is a pattern of an equation in Python's syntax of calls:

    multiply(x, 1)              a number stands for an operand that has this value everywhere
    add(x, zero)                zero stands for an operand that is structurally zero
    negative(negative(x))       a call stands for the equation that made an operand
    add_n(*terms)               a star, for all operands
    op(x), op(*xs)              op stands for any op

A pass is a table of rules, tried at each equation from the first to the last, again on what they make.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iverson.autograd.node import Where
from iverson.core.aval import Aval
from iverson.core.protocols import LayoutValue
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value, known
from iverson.graph.ir.operations import op_named
from iverson.graph.ir.regions import rewritten, substituted
from iverson.layouts import Zero, is_strided


class Writer:
    """Writer of the equations and constants of a new graph.

    made : the equation that computes each value.
    reads : how often each value is read in the graph before.
    renamed : replacements of the values that are not made any more.
    """

    def __init__(self, graph: Graph) -> None:
        self.equations: list[Equation] = []
        self.constants: dict[Value, Any] = dict(graph.constants)
        self.made: dict[Value, Equation] = {}
        self.renamed: dict[Value, Operand] = {}
        self._graph = graph
        self._reads: Counter[Value] | None = None
        self._readers: dict[Value, Equation] | None = None
        self._shared: dict[Any, Value] = {}

    @property
    def reads(self) -> Counter[Value]:
        if self._reads is None:
            reads = self._reads = Counter()
            for operands in (*[e.operands for e in self._graph.equations], self._graph.outputs):
                for x in operands:  # no function is entered for an operand
                    if type(x) is Value:
                        reads[x] = reads.get(x, 0) + 1
        return self._reads

    def reader(self, x: Value) -> Equation | None:
        """The equation that alone reads a value, and once, in the graph before; None if there is none."""
        if self._readers is None:
            self._readers = {v: e for e in self._graph.equations for v in e.operands if type(v) is Value}
        return self._readers.get(x) if self.reads[x] == 1 else None

    def keep(self, equation: Equation) -> None:
        """Write an equation as it is."""
        self.equations.append(equation)
        self.made.update(dict.fromkeys(equation.results, equation))

    def constant(self, array: LayoutValue) -> Value:
        """A new constant."""
        value = Value(Aval(array.shape, array.dtype))
        self.constants[value] = array
        return value

    def graph(self, before: Graph) -> Graph:
        """The graph with these equations and constants."""
        outputs = substituted(before.outputs, self.renamed) if self.renamed else before.outputs
        return Graph(before.inputs, tuple(self.equations), outputs, tuple(self.constants.items()))

    def write(
        self,
        name: str,
        *operands: Operand,
        where: Where | None = None,
        result: Value | None = None,
        **params: Any,
    ) -> Value:
        """Write a new equation; its result is a new value unless one is given."""
        op = op_named(name)
        if result is None:
            result = Value(op.infer(*map(known, operands), **params))
        self.keep(Equation(op, operands, params, (result,), where))
        return result

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """A value that several rules read, made for the first of them."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def by(self, x: Operand, name: str, *, alone: bool = False) -> Equation | None:
        """The equation of a value, if it is of that op (and the value is read once, if ``alone``)."""
        equation = self.made.get(x) if type(x) is Value else None
        if equation is None or equation.op.name != name or (alone and self.reads[x] != 1):
            return None
        return equation

    def is_all(self, x: Operand, number: int) -> bool:
        """True if an operand is that number everywhere."""
        if type(x) is not Value:
            return isinstance(x, int | float) and x == number
        array: Any = self.constants.get(x)
        return (
            is_strided(array) and array.dtype.kind != "c" and array.size > 0 and bool((array == number).all())
        )

    def is_zero(self, x: Operand) -> bool:
        """True if an operand is structurally zero."""
        return type(x) is Value and type(self.constants.get(x)) is Zero


class Written:
    """Answer of a rule that has itself written the equation, or several with the same results."""


WRITTEN = Written()


@dataclass(frozen=True, slots=True)
class Match:
    """Match of a pattern: the equation, its operands by the pattern's names, and the equations inside."""

    writer: Writer
    equation: Equation
    names: dict[str, Operand]
    inner: tuple[Equation, ...]

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def is_like_result(self, x: Operand) -> bool:
        """True if an operand may stand for the result: a value of its shape and dtype."""
        (result,) = self.equation.results
        return type(x) is Value and x.shape == result.shape and x.dtype == result.dtype


#: What an equation becomes: an operand, an equation with its results, or WRITTEN; None where it stays.
After = Operand | Equation | Written | None
Make = Callable[[Match], After]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a table. ``text`` is "before -> after"; ``make`` gives what stands after the arrow."""

    text: str
    pattern: ast.Call
    make: Make

    @property
    def name(self) -> str:
        """The op of the equation that it looks at; "op" for any."""
        return _name(self.pattern)


def rule(text: str, make: Make | None = None) -> Rule:
    """A rule. Without a function, its text says what stands after the arrow: an operand, if it has the shape
    and dtype of the result, or the same op on other operands."""
    before, after = text.split("->")
    pattern = ast.parse(before.strip(), mode="eval").body
    assert isinstance(pattern, ast.Call)
    return Rule(" ".join(text.split()), pattern, make or _said(ast.parse(after.strip(), mode="eval").body))


def _said(after: ast.expr) -> Make:
    """The function of a rule whose text alone says what stands after the arrow."""
    if isinstance(after, ast.Name):
        name = after.id
        return lambda m: m[name] if m.is_like_result(m[name]) else None
    assert isinstance(after, ast.Call)
    operands = [x.id for x in after.args if isinstance(x, ast.Name)]
    return lambda m: replace(m.equation, operands=tuple([m[name] for name in operands]))


def _name(pattern: ast.Call) -> str:
    assert isinstance(pattern.func, ast.Name)
    return pattern.func.id


def _matches(
    pattern: ast.Call, e: Equation, writer: Writer, names: dict[str, Operand], inner: list[Equation]
) -> bool:
    """True if ``e`` matches ``pattern``.

    If so, ``names`` gets its operands by the pattern's names, and ``inner`` the equations that made operands.
    """
    parts, operands = pattern.args, e.operands
    if type(parts[0]) is ast.Starred:
        names[parts[0].value.id] = operands  # type: ignore[attr-defined]
        return True
    if len(parts) != len(operands):
        return False
    for part, x in zip(parts, operands, strict=True):
        if type(part) is ast.Name:
            if part.id == "zero" and not writer.is_zero(x):
                return False
            names[part.id] = x
        elif type(part) is ast.Constant:
            if not writer.is_all(x, part.value):  # type: ignore[arg-type]
                return False
        else:
            assert isinstance(part, ast.Call)
            maker = writer.by(x, _name(part))
            if maker is None or not _matches(part, maker, writer, names, inner):
                return False
            inner.append(maker)
    return True


class Rewriting:
    """A pass that is a table of rules, in the order in which they are tried.

    drops : whether equations that nobody reads are dropped where a rule applied.
    where : returns False for graphs that no rule changes; by default, those without the ops of the rules.
    """

    def __init__(
        self, name: str, *rules: Rule, drops: bool = False, where: Callable[[Graph], bool] | None = None
    ) -> None:
        self.__name__ = name
        self.rules = rules
        self._drops = drops
        self._where = where
        self._of_any = tuple([r for r in rules if r.name == "op"])
        self._by_op = {r.name: tuple([q for q in rules if q.name in (r.name, "op")]) for r in rules}

    def __call__(self, graph: Graph) -> Graph:
        """The graph after the rules of the table."""
        if self._where is not None and not self._where(graph):
            return graph
        if not self._of_any and self._by_op.keys().isdisjoint([e.op.name for e in graph.equations]):
            return graph
        writer = Writer(graph)
        equations, makers, renamed = writer.equations, writer.made, writer.renamed
        rules_of, of_any = self._by_op.get, self._of_any
        drops = False
        for e in graph.equations:  # no function is entered for an equation without a rule
            if renamed:
                e = rewritten(e, renamed)
            rules = rules_of(e.op.name, of_any)
            after: After = None if not rules else _rewritten_by(rules, writer, e)
            while isinstance(after, Equation):
                e = after
                after = _rewritten_by(rules_of(e.op.name, of_any), writer, e)
            if after is None:
                equations.append(e)
                makers.update(dict.fromkeys(e.results, e))
                continue
            drops = self._drops
            if after is not WRITTEN:
                renamed[e.results[0]] = after
        result = writer.graph(graph)
        return dead_code(result) if drops else result


def _rewritten_by(rules: Sequence[Rule], writer: Writer, e: Equation) -> After:
    """The result of the first rule that applies to an equation."""
    for r in rules:
        names: dict[str, Operand] = {}
        inner: list[Equation] = []
        if _matches(r.pattern, e, writer, names, inner):
            after = r.make(Match(writer, e, names, tuple(inner)))
            if after is not None:
                return after
    return None


__all__ = ["WRITTEN", "After", "Match", "Rewriting", "Rule", "Writer", "rule"]
