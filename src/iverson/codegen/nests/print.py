"""Printer of loop nests: readable pseudo-code, complete enough that equal text means equal kernels.

The text is also what caches key on: as it is in memory, and with its names numbered on disk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from iverson.codegen.nests.nodes import (
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Loop,
    Point,
    Stmt,
    Update,
    UpdateArg,
    bound,
    buffers_of,
    expressions,
)
from iverson.expr.function_facts import ASSIGN
from iverson.expr.print import exact_texts


def kernel_text(kernel: Kernel) -> str:
    """Text of a kernel."""
    return "\n".join((f"kernel {kernel.name}", *_lines(kernel)))


def _lines(kernel: Kernel) -> tuple[str, ...]:
    """Lines of a kernel's text without its name."""
    sizes = (f"  sizes {', '.join(kernel.sizes)}",) if kernel.sizes else ()
    return (*sizes, *(f"  {b.role} {_buffer(b)}" for b in kernel.buffers), *_phases(kernel))


def _phases(kernel: Kernel) -> tuple[str, ...]:
    """The text of each phase."""
    texts: tuple[str, ...] | None = kernel.once.get("phases")
    if texts is None:
        phase_texts = tuple("\n".join(_statement(phase, 1)) for phase in kernel.phases)
        texts = kernel.once["phases"] = phase_texts
    return texts


def phase_text(kernel: Kernel, k: int) -> str:
    """Text of phase ``k`` and of the buffers that it uses, with numbers in place of names.

    It is equal for phases that do the same to other buffers.
    """
    buffers = buffers_of(kernel, k)
    text = "\n".join((*map(_buffer, buffers), _phases(kernel)[k]))
    return _numbered(text, kernel.sizes, {*(b.name for b in buffers), *bound(kernel.phases[k])})


def nameless_text(kernel: Kernel) -> str:
    """The whole kernel with names numbered in their order: equal for kernels that differ in names only."""
    text: str | None = kernel.once.get("nameless_text")
    if text is None:
        text = kernel.once["nameless_text"] = _nameless_text(kernel)
    return text


def _nameless_text(kernel: Kernel) -> str:
    names = {b.name for b in kernel.buffers}
    names.update(name for phase in kernel.phases for name in bound(phase))
    return _numbered("\n".join(_lines(kernel)), kernel.sizes, names)


_WORD = re.compile(r"\b[A-Za-z_]\w*")


def _numbered(text: str, sizes: Sequence[str], names: Set[str]) -> str:
    """``text`` with ``%n`` in place of each word that is in ``names`` or ``sizes``.

    Words of ``names`` are numbered in the order in which they occur; those of ``sizes`` have negative
    numbers, by their place there.
    """
    numbers: dict[str, int] = {name: -1 - k for k, name in enumerate(sizes)}

    def number(match: re.Match[str]) -> str:
        word = match[0]
        if word not in numbers and word not in names:
            return word
        return f"%{numbers.setdefault(word, len(numbers))}"

    return _WORD.sub(number, text)


def _buffer(b: Buffer) -> str:
    shape = ", ".join(map(str, b.shape))
    strides = "" if b.strides is None else f" strides ({', '.join(map(str, b.strides))})"
    return f"{b.name}: {b.dtype.name}({shape}){strides}"


def _statement(s: Stmt, depth: int) -> list[str]:
    pad = "  " * depth
    parts, texts = exact_texts(tuple(expressions(s)))
    body = s.body if isinstance(s, (Loop, If)) else ()
    inner = [line for item in body for line in _statement(item, depth + 1)]
    return [*(pad + p for p in parts), pad + _head(s, texts), *inner]


def _head(s: Stmt, texts: list[str]) -> str:
    """A statement without its body, given the texts of its expressions."""
    if isinstance(s, Loop):
        return _loop(s, *texts)
    if isinstance(s, If):
        return f"if {texts[0]}:"
    if isinstance(s, Let):
        return f"let {s.name} = {texts[0]}"
    if isinstance(s, Declare):
        return f"var {s.name}: {s.dtype.name} = {texts[0]}"
    if isinstance(s, Update):
        return f"{s.name} {ASSIGN[s.combine]} {texts[0]}"
    if isinstance(s, UpdateArg):
        return f"{s.best}, {s.at} {s.combine}= {texts[0]}, {texts[1]}"
    if isinstance(s, Point):
        return f"point {', '.join(f'{name} = {e}' for name, e in zip(s.at, texts, strict=True))}"
    *indices, value = texts
    how = "  # shared" if s.shared else ""
    return f"{s.buffer.name}[{', '.join(indices)}] {ASSIGN[s.combine]} {value}{how}"


def _loop(s: Loop, lower: str, upper: str) -> str:
    bounds = f"{lower}, {upper}" + (f", {s.step}" if s.step != 1 else "")
    factor = f" x{s.factor}" if s.factor != 1 else ""
    mark = f"  # {s.mark}{factor}" if s.mark else ""
    return f"for {s.var} in range({bounds}):{mark}"
