"""Loop nests as readable pseudo-code, complete enough that equal text means equal kernels.

The text is also what caches key on: as it is in memory, and with its names numbered on disk.
"""

from __future__ import annotations

import re

from iverson.codegen.nodes import Buffer, Declare, If, Kernel, Let, Loop, Point, Stmt, Update, UpdateArg
from iverson.expr.functions import ASSIGN
from iverson.expr.nodes import Expr
from iverson.expr.print import exact_text as text


def kernel_text(kernel: Kernel) -> str:
    """The whole kernel."""
    sizes = f"; sizes {', '.join(kernel.sizes)}" if kernel.sizes else ""
    lines = [f"kernel {kernel.name}({', '.join(b.name for b in kernel.arguments)}{sizes})"]
    lines += [f"  {_buffer(b)}" for b in kernel.buffers]
    for phase in kernel.phases:
        lines += _statement(phase, 1)
    return "\n".join(lines)


#: Names that a lowering makes of a user's (or automatic) name and a number; no word of the text is like them.
_MADE_NAME = re.compile(r"\b[A-Za-z]\w*_\d+\b")


def nameless_text(kernel: Kernel) -> str:
    """The whole kernel with names numbered in their order: equal for kernels that differ in names only.

    Automatic names count what the process has defined so far, so that another process has other ones.
    """
    found: str | None = kernel.once.get("nameless_text")
    if found is None:
        found = kernel.once["nameless_text"] = _nameless_text(kernel)
    return found


def _nameless_text(kernel: Kernel) -> str:
    numbers: dict[str, int] = {name: -1 - k for k, name in enumerate(kernel.sizes)}
    _, _, rest = kernel_text(kernel).partition(kernel.name)
    return _MADE_NAME.sub(lambda m: f"%{numbers.setdefault(m.group(), len(numbers))}", rest)


def _list(items: tuple[Expr, ...]) -> str:
    return ", ".join(map(text, items))


def _buffer(b: Buffer) -> str:
    shape = ", ".join(map(str, b.shape))
    strides = "" if b.strides is None else f" strides ({', '.join(map(str, b.strides))})"
    return f"{b.role} {b.name}: {b.dtype.name}({shape}){strides}"


def _statement(s: Stmt, depth: int) -> list[str]:
    pad = "  " * depth
    if isinstance(s, (Loop, If)):
        inner = [line for item in s.body for line in _statement(item, depth + 1)]
        return [pad + (_loop(s) if isinstance(s, Loop) else f"if {text(s.condition)}:"), *inner]
    if isinstance(s, Let):
        return [f"{pad}let {s.name} = {text(s.value)}"]
    if isinstance(s, Declare):
        return [f"{pad}var {s.name}: {s.dtype.name} = {text(s.value)}"]
    if isinstance(s, Update):
        return [f"{pad}{s.name} {ASSIGN[s.combine]} {text(s.value)}"]
    if isinstance(s, UpdateArg):
        return [f"{pad}{s.best}, {s.at} {s.combine}= {text(s.value)}, {text(s.position)}"]
    if isinstance(s, Point):
        return [f"{pad}point {', '.join(f'{name} = {text(e)}' for name, e in s.at.items())}"]
    return [
        f"{pad}{s.buffer.name}[{_list(s.indices)}] {ASSIGN[s.combine]} {text(s.value)}"
        + ("  # atomic" if s.atomic else "  # shared" if s.shared else "")
    ]


def _loop(s: Loop) -> str:
    bounds = f"{text(s.lower)}, {text(s.upper)}" + (f", {s.step}" if s.step != 1 else "")
    factor = f" x{s.factor}" if s.factor != 1 else ""
    mark = f"  # {s.mark}{factor}" if s.mark else ""
    return f"for {s.var} in range({bounds}):{mark}"
