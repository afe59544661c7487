"""Parser of graph text: reads back what `iverson.graph.ir.print` wrote.

A text may name the ops of control flow, which are known once `scan_loop` and `while_loop` are imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from iverson.core.aval import Aval, UnknownShape, has_shape
from iverson.core.entries import FULL, NOTHING, Box, Bracket, Entries, Stored
from iverson.core.errors import ArgumentError
from iverson.core.op import Op
from iverson.core.region import Region
from iverson.graph.ir.nodes import UNDEFINED, Equation, Graph, Value
from iverson.graph.ir.operations import op_named

T = TypeVar("T")

_TOKEN = re.compile(
    r"""\s*(?:(?P<value>%\d+)|(?P<object>@\d+)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)j?)(?!\w)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)|(?P<sign>\.\.\.|[^\s\w]))""",
    re.VERBOSE,
)
_NAMED = {"True": True, "False": False, "None": None, "undefined": UNDEFINED}


def parse(text: str, objects: Sequence[Any] = ()) -> Graph:
    """The graph of a text; ``@k`` in it stands for ``objects[k]``.

    Raises ArgumentError, with the line, where the text is not one.

    >>> from iverson.graph.ir.print import show
    >>> text = "graph(%0: float64[2]) {\\n  %1: float64[2] = sin(%0)\\n  return (%1)\\n}"
    >>> show(parse(text)) == text
    True
    """
    parser = _Parser(text, objects)
    try:
        graph = parser.graph()
    except ArgumentError as error:  # of an op or a number: without the line
        if error.operation == "parse":
            raise
        parser.fail(error.expected or str(error), error)
    except Exception as error:  # of a dtype, a slice or a box that has other parts
        parser.fail(f"what makes sense before it ({type(error).__name__}: {error})", error)
    if parser.kind or text[parser.position :].strip():
        parser.fail("the end")
    return graph


class _Parser:
    """Recursive descent over tokens; ``kind`` and ``token`` are the current one."""

    def __init__(self, text: str, objects: Sequence[Any]) -> None:
        self.text, self.objects, self.position = text, objects, 0
        self.values: dict[str, Value] = {}
        self.kind: str | None = None
        self.token = ""
        self.next()

    def next(self) -> str:
        """Go on to the next token, and return the text of the one before."""
        previous = self.token
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.kind, self.token = None, ""
        else:
            self.position = match.end()
            self.kind, self.token = match.lastgroup, match[match.lastgroup or 0]
        return previous

    def fail(self, expected: str, cause: Exception | None = None) -> NoReturn:
        line = self.text.count("\n", 0, self.position) + 1
        raise ArgumentError(
            "parse", "text", got=f"'{self.token or 'the end'}' in line {line}", expected=expected
        ) from cause

    def take(self, token: str) -> None:
        """Go past ``token``; raises ArgumentError if the current token is another."""
        if self.token != token:
            self.fail(f"'{token}'")
        self.next()

    def taken(self, token: str) -> bool:
        """Go past ``token`` if it is the current one; returns whether it was."""
        if self.token != token or self.kind == "string":
            return False
        self.next()
        return True

    def listed(self, item: Callable[[], T], end: str) -> tuple[T, ...]:
        """Items between commas, each read by ``item()``, up to and including the token ``end``."""
        items = []
        while not self.taken(end):
            if self.kind is None:
                self.fail(f"'{end}'")
            items.append(item())
            if self.token != end:
                self.take(",")
        return tuple(items)

    def graph(self) -> Graph:
        """Read a graph."""
        self.take("graph")
        self.take("(")
        inputs = self.listed(self.defined, ")")
        self.take("{")
        constants, equations = [], []
        while not self.taken("return"):
            results = [self.defined()]
            while self.taken(","):
                results.append(self.defined())
            self.take("=")
            if self.taken("constant"):
                constants.append((results[0], self.object()))
            else:
                equations.append(self.equation(tuple(results)))
        self.take("(")
        outputs = self.listed(self.param, ")")
        self.take("}")
        return Graph(inputs, tuple(equations), outputs, tuple(constants))

    def equation(self, results: tuple[Value, ...]) -> Equation:
        op = self.op()
        params = {}
        if self.taken("["):
            params = dict(self.listed(self.named_param, "]"))
        self.take("(")
        return Equation(op, self.listed(self.param, ")"), params, results)

    def op(self) -> Op:
        """Read the name of an op, and ``@k`` if it follows: then the op is object k, else the op of that
        name.
        """
        if self.kind not in ("name", "string"):
            self.fail("the name of an op")
        name = self.text_of_string() if self.kind == "string" else self.next()
        return self.object() if self.kind == "object" else op_named(name)

    def text_of_string(self) -> str:
        return self.next()[1:-1].encode().decode("unicode_escape")

    def named_param(self) -> tuple[str, Any]:
        if self.kind != "name":
            self.fail("the name of a parameter")
        name = self.next()
        self.take("=")
        return name, self.param()

    def defined(self) -> Value:
        """Read a value with its type, where it is defined."""
        if self.kind != "value":
            self.fail("a value")
        name = self.next()
        self.take(":")
        aval = self.type()
        if name not in self.values:  # an operand outside may be an input inside, by the same name
            self.values[name] = Value(aval)
        elif self.values[name].aval != aval and has_shape(aval) and has_shape(self.values[name]):
            self.fail(f"{name} with one type: {self.values[name].aval!r}")
        return self.values[name]

    def type(self) -> Aval:
        """Read a type: dtype, extents and support."""
        if self.kind != "name":
            self.fail("a dtype")
        dtype = np.dtype(self.next())
        self.take("[")
        if self.taken("*"):
            self.take("]")
            shape: Any = UnknownShape()
        elif self.token == "?":
            shape = UnknownShape(len(self.listed(self.next, "]")))
        else:
            shape = self.listed(self.param, "]")
            if not all(type(n) is int and n >= 0 for n in shape):
                self.fail("extents: integers that are not negative")
        return Aval(shape, dtype, self.support())

    def support(self) -> Entries:
        if self.taken("nothing"):
            return NOTHING
        if self.taken("box"):
            return Box(Region(self.param(), self.param()))
        if self.taken("stored"):
            return Stored(self.object())
        return Bracket(None) if self.taken("bracket") else FULL

    def object(self) -> Any:
        if self.kind != "object" or int(self.token[1:]) >= len(self.objects):
            self.fail("'@k' of an object that was given")
        return self.objects[int(self.next()[1:])]

    def param(self) -> Any:
        """Read an operand or a parameter: a value, an object, a graph or a Python expression."""
        if self.kind == "value":
            if self.token not in self.values:
                self.fail("a value defined before")
            return self.values[self.next()]
        if self.kind == "object":
            return self.object()
        if self.kind == "string":
            return self.text_of_string()
        if self.kind == "number":
            return self.number(self.next())
        if self.taken("-"):
            return -self.param()
        if self.taken("("):
            return self.parenthesized()
        if self.taken("["):
            return list(self.listed(self.param, "]"))
        if self.taken("..."):
            return ...
        if self.token == "graph":
            return self.graph()
        if self.token in ("slice", "dtype"):
            make: Any = {"slice": slice, "dtype": np.dtype}[self.next()]
            self.take("(")
            return make(*self.listed(self.param, ")"))
        if self.token not in _NAMED:
            self.fail("an operand or a parameter")
        return _NAMED[self.next()]

    def parenthesized(self) -> Any:
        """A tuple, or a complex number as Python writes it: ``(1+2j)``."""
        if self.taken(")"):
            return ()
        first = self.param()
        if self.token in ("+", "-") and isinstance(first, int | float):
            sign = -1 if self.next() == "-" else 1
            first = complex(first, sign * self.param().imag)
            self.take(")")
            return first
        if self.taken(")"):
            return first
        self.take(",")
        return (first, *self.listed(self.param, ")"))

    def number(self, token: str) -> Any:
        if token.endswith("j"):
            return complex(0.0, float(token[:-1]))
        return int(token) if token.isdigit() else float(token)
