"""Writes the stubs of what follows from tables: ``python -m tools.stubs`` (or ``make stubs``).

Elementwise functions are made from their records, methods and operators from marks and tables, when Iverson
is imported. Type checkers and editors read them in stubs beside the modules that make them; a test holds the
stubs against what this program would write.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from inspect import Parameter
from pathlib import Path
from textwrap import indent
from typing import Any, get_overloads

import iverson
from iverson.core.scalars import SCALARS
from iverson.handles.array import OPERATORS, Array
from iverson.masked import MaskedTensor
from iverson.optim import functional_forms

PACKAGE = Path(__file__).parents[1] / "src" / "iverson"
WRITTEN = "Written by tools/stubs.py from the tables: do not edit."
#: The kinds of arrays that a Tensor becomes by meeting them.
KINDS = (MaskedTensor,)


def elementwise() -> str:
    """The functions of `iverson.array_api.elementwise` that follow from records."""
    return _of_records("The elementwise functions of records", iverson, "")


def special() -> str:
    """The functions of `iverson.special` that follow from records."""
    return _of_records("The special functions of records", iverson.special, "special")


def _of_records(title: str, space: Any, name: str) -> str:
    head = ["from iverson.handles.typing import A, ArrayLike", ""]
    functions = (getattr(space, s.name) for s in SCALARS.values() if s.example and s.space == name)
    return _stub(title, head, map(_function, functions))


def _function(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = ", ".join(_written(signature.parameters.values()))
    return _definition(function.__name__, parameters, signature.return_annotation, function.__doc__)


def expressions() -> str:
    """The elementwise functions on tensor expressions: ``te.exp``."""
    head = ["from iverson.expr.nodes import Expr", ""]
    functions = (
        _definition(s.name, ", ".join(f"{p}: Expr | complex" for p in s.arguments) + ", /", "Expr", s.summary)
        for s in SCALARS.values()
    )
    return _stub("Elementwise functions on tensor expressions", head, functions)


def optimizers() -> str:
    """The functional forms of the optimizers."""
    head = ["from iverson.optim.functional import Functional, LearningRate", ""]
    forms = (getattr(functional_forms, name) for name in functional_forms.__all__)
    return _stub("The functional forms of optimizers", head, map(_function, forms))


def methods() -> str:
    """The methods and operators of every kind of array, and the methods of `iverson.Tensor` alone."""
    head = [
        "from collections.abc import Sequence",
        "from typing import Any, Literal, Self, SupportsIndex, overload",
        "",
        *(f"from {kind.__module__} import {kind.__name__}" for kind in KINDS),
        "from iverson.handles.array import Array",
        "from iverson.handles.tensor import Tensor",
        "from iverson.handles.typing import *",
        "",
    ]
    head[2:2] = [f"from {result.__module__} import {result.__name__}" for result in _results()]
    body = ["class Methods:", *_methods(Array), *_operators(), "", "class TensorMethods:"]
    return _stub("The methods of arrays", head, [*body, *_methods(iverson.Tensor)])


def _stub(title: str, head: list[str], body: Iterable[str]) -> str:
    return "\n".join([f'"""{title}. {WRITTEN}"""', "", *head, *body]) + "\n"


def _definition(name: str, parameters: str, result: str, text: str | None) -> str:
    body = f'"""{text}"""' if text else "..."
    return f"def {name}({parameters}) -> {result}:\n{indent(body, '    ').rstrip()}\n"


def _written(parameters: Iterable[Parameter]) -> Iterable[str]:
    """Parameters as in a definition."""
    before = None
    for p in parameters:
        if before is Parameter.POSITIONAL_ONLY and p.kind is not before:
            yield "/"
        if p.kind is Parameter.KEYWORD_ONLY and before not in (p.kind, Parameter.VAR_POSITIONAL):
            yield "*"
        star = "*" * (p.kind is Parameter.VAR_POSITIONAL)
        default = "" if p.default is Parameter.empty else f" = {p.default!r}"
        yield f"{star}{p.name}: {p.annotation}{default}"
        before = p.kind
    if before is Parameter.POSITIONAL_ONLY:
        yield "/"


def _bound(kind: type) -> Iterable[tuple[str, Any, Callable[..., Any]]]:
    """What functions of the chapters are methods (or properties) of a kind of array."""
    for name, value in sorted(vars(kind).items()):
        function = value.fget if isinstance(value, property) else value
        public = not name.startswith("_") and inspect.isfunction(function)
        if public and function.__module__.startswith("iverson.array_api."):
            yield name, value, function


def _results() -> list[type]:
    """The classes of the chapters that methods return."""
    functions = [f for kind in (Array, iverson.Tensor) for _, _, f in _bound(kind)]
    words = ((f, name) for f in functions for name in re.findall(r"\w+", f.__annotations__["return"]))
    found = {inspect.unwrap(f).__globals__.get(name) for f, name in words}
    named = [r for r in found if inspect.isclass(r) and r.__module__.startswith("iverson.array_api.")]
    return sorted(named, key=lambda result: result.__name__)


def _methods(kind: type) -> Iterable[str]:
    for name, value, function in _bound(kind):
        yield from _defined(name, function, "@property\n" * isinstance(value, property))


def _defined(name: str, function: Callable[..., Any], mark: str = "", note: str = "") -> Iterable[str]:
    """The definitions of a method."""
    forms = list(_forms(function))
    about = (function.__doc__ or "").strip().splitlines()[0]
    for k, (parameters, result) in enumerate(forms):
        text = _definition(name, parameters, result, about).rstrip()
        overload = f"@overload{note * (k == 0)}\n" * (len(forms) > 1)
        yield indent(mark + overload + text, "    ")


def _forms(function: Callable[..., Any]) -> Iterable[tuple[str, str]]:
    """Parameters and results of a method: of its own kind, or of that of its only other operand.

    A kind that a Tensor becomes by meeting it stands first.
    """
    for each in get_overloads(inspect.unwrap(function)) or (function,):
        yield from _forms_of(each)


def _forms_of(function: Callable[..., Any]) -> Iterable[tuple[str, str]]:
    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    own = first.replace(name="self", annotation="Self")
    others = [p for p in rest if _in("A", p.annotation) and p.default is Parameter.empty]
    if len(others) == 1 and _in("A", signature.return_annotation):
        for kind in KINDS:
            met = [p.replace(annotation=kind.__name__) if p in others else p for p in rest]
            yield _form([own, *met], signature.return_annotation, kind.__name__)
    if hasattr(function, "spelled_out"):
        items = rest[0].replace(kind=Parameter.VAR_POSITIONAL, annotation="SupportsIndex")
        yield _form([own, items, *rest[1:]], signature.return_annotation, "Self")
    yield _form([own, *rest], signature.return_annotation, "Self")


def _form(parameters: list[Parameter], result: str, kind: str) -> tuple[str, str]:
    def of(annotation: str) -> str:
        return re.sub(r"\bA\b", kind, annotation)

    given = [p.replace(annotation=of(p.annotation)) for p in parameters]
    return ", ".join(_written(given)).replace("self: Self", "self", 1), of(result)


def _in(name: str, annotation: str) -> bool:
    return re.search(rf"\b{name}\b", annotation) is not None


def _operators() -> Iterable[str]:
    for op, names in OPERATORS.items():
        for name in names:
            if op in SCALARS and SCALARS[op].arity == 1:  # checkers ask abs() for a plain method
                yield f"    def {name}(self) -> Self: ..."
            elif name in ("__eq__", "__ne__"):  # every object has it, for any other
                yield from _defined(name, getattr(iverson, op), note="  # type: ignore[override]")
            else:
                yield f"    {name} = {op}"


#: The stubs by path, and what writes each.
STUBS: dict[Path, Callable[[], str]] = {
    PACKAGE / "array_api" / "_elementwise.pyi": elementwise,
    PACKAGE / "array_api" / "_special.pyi": special,
    PACKAGE / "te" / "_elementwise.pyi": expressions,
    PACKAGE / "handles" / "_methods.pyi": methods,
    PACKAGE / "optim" / "functional_forms.pyi": optimizers,
}


def main() -> None:
    for path, write in STUBS.items():
        path.write_text(write())


if __name__ == "__main__":
    main()
