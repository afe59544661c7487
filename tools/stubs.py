"""Writes the stubs of what follows from tables: ``python -m tools.stubs`` (or ``make stubs``).

Elementwise functions are made from their records, methods and operators from marks and tables, when Iverson
is imported. Type checkers and editors read them in stubs beside the modules that make them; a test holds the
stubs against what this program would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import indent
from typing import Any

import iverson
from iverson.array_api.elementwise import documented
from iverson.core.scalars import SCALARS, Scalar
from iverson.tensor.array import OPERATORS, Array

PACKAGE = Path(iverson.__file__).parent
WRITTEN = "Written by tools/stubs.py from the tables: do not edit."


def elementwise() -> str:
    """The functions of `iverson.array_api.elementwise` that follow from records."""
    lines = [
        f'"""The elementwise functions of records. {WRITTEN}"""',
        "",
        "from iverson.tensor.typing import A, ArrayLike",
        "",
    ]
    for scalar in (s for s in SCALARS.values() if s.summary):
        parameters = [f"{p}: A | ArrayLike" for p in scalar.arguments] + ["/"]
        if scalar.scaled:
            parameters += ["*", "alpha: A | ArrayLike | None = None"]
        lines.append(_function(scalar.name, parameters, "A", documented(scalar)))
    return "\n".join(lines)


def expressions() -> str:
    """The elementwise functions on tensor expressions, ``te.exp``."""
    lines = [
        f'"""Elementwise functions on tensor expressions. {WRITTEN}"""',
        "",
        "from iverson.expr.nodes import Expr",
        "",
    ]
    for scalar in SCALARS.values():
        parameters = [f"{p}: Expr | complex" for p in scalar.arguments] + ["/"]
        lines.append(_function(scalar.name, parameters, "Expr", _sentence(scalar)))
    return "\n".join(lines)


def _sentence(scalar: Scalar) -> str:
    return scalar.summary or f"The function '{scalar.name}' of the table of ops."


def _function(name: str, parameters: Iterable[str], result: str, text: str) -> str:
    body = indent(f'"""{text}"""', "    ").rstrip()
    return f"def {name}({', '.join(parameters)}) -> {result}:\n{body}\n"


def methods() -> str:
    """The methods of every kind of array, and those of `iverson.Tensor` alone."""
    bound = {kind: dict(_bound(kind)) for kind in (Array, iverson.Tensor)}
    modules = sorted({_module(f) for found in bound.values() for f in found.values()} | {"elementwise"})
    lines = [
        f'"""The methods of arrays. {WRITTEN}"""',
        "",
        "from typing import Self, SupportsIndex, overload",
        "",
        *(f"from iverson.array_api import {m} as _{m}" for m in modules),
        "from iverson.tensor.typing import ShapeLike",
        "",
        "class Methods:",
        *(indent(_attribute(name, f), "    ") for name, f in bound[Array].items()),
        *(f"    {python} = _{_module(f)}.{f.__name__}{note}" for python, f, note in _operators()),
        "",
        "class TensorMethods:",
        *(indent(_attribute(name, f), "    ") for name, f in bound[iverson.Tensor].items()),
    ]
    return "\n".join(lines) + "\n"


def _bound(kind: type) -> Iterable[tuple[str, Any]]:
    """What functions of the chapters are methods (or properties) of a kind of array, by name."""
    for name, value in sorted(vars(kind).items()):
        function = value.fget if isinstance(value, property) else value
        public = not name.startswith("_") and inspect.isfunction(function)
        if public and function.__module__.startswith("iverson.array_api."):
            yield name, value


def _module(value: Any) -> str:
    function = value.fget if isinstance(value, property) else value
    name: str = function.__module__.rpartition(".")[2]
    return name


def _attribute(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"@property\ndef {name}(self) -> {value.fget.__annotations__['return']}: ..."
    if hasattr(value, "spelled_out"):
        return _spelled_out(name, value)
    return f"{name} = _{_module(value)}.{name}"


def _spelled_out(name: str, function: Callable[..., Any]) -> str:
    """A method that takes a tuple, or its items."""
    _, items, *options = inspect.signature(function).parameters.values()
    rest = "".join(f", {p.name}: {p.annotation} = {p.default}" for p in options)
    whole = f"{items.name}: {items.annotation}{', *' * bool(rest)}{rest}"
    return "\n".join(
        f"@overload\ndef {name}(self, /, {parameters}) -> Self: ..."
        for parameters in (whole, f"*{items.name}: SupportsIndex{rest}")
    )


def _operators() -> Iterable[tuple[str, Any, str]]:
    """Python's names of operators, the functions they are, and what a checker must not mind."""
    for op, names in OPERATORS.items():
        for name in names:
            own = name in ("__eq__", "__ne__")  # of every object, for any other
            yield name, getattr(iverson, op), "  # type: ignore[assignment]" * own


#: The stubs by path, and what writes each.
STUBS: dict[Path, Callable[[], str]] = {
    PACKAGE / "array_api" / "_elementwise.pyi": elementwise,
    PACKAGE / "te" / "_elementwise.pyi": expressions,
    PACKAGE / "tensor" / "_methods.pyi": methods,
}


def main() -> None:
    for path, write in STUBS.items():
        path.write_text(write())


if __name__ == "__main__":
    main()
