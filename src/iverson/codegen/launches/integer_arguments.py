"""Integers as arguments: one machine code for programs that differ in extents, strides, offsets and numbers.

    for i in range(347): y[i] = x[i] * 0.5      ->      for i in range(w0): y[i] = x[i] * w1
    for i in range(212): y[i] = x[i] * 0.25

Which integers are words is said by symbolic numbers where a program is planned with them
(`SymbolicSharing`): those that are functions of what changes. Other programs are planned at their own sizes,
with every decision and every check (`CodeSharing`). Two programs of one function whose launches are the same
but for integers and for floats in kernels are compared. Those that differ become words that a call passes;
numbers in kernels that are equal in both stay in the code. A later program that differs from these in words
only runs the same code, and compiles nothing. As it was planned and verified itself, nothing is assumed of
its integers.

What decides which code is made stays in the text: 0 and 1, widths of rows on the stack, exponents. A loop
that is written out is one of a known extent.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

from iverson.codegen.launches.nodes import (
    Integer,
    Launches,
    Phases,
    Substitution,
    Word,
    with_integers,
)
from iverson.codegen.launches.print import launches_text
from iverson.codegen.nests.access_checks import Plan
from iverson.codegen.nests.loop_facts import constant_extent
from iverson.codegen.nests.nodes import (
    INT64,
    Buffer,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Size,
    Stmt,
    Store,
    Var,
    block_of,
    expressions,
    loads_and_stores,
    mapped,
    replaced,
    rewritten,
)
from iverson.codegen.schedule.row_tiling import parts
from iverson.core.protocols import DType
from iverson.core.python import locks
from iverson.core.python.recent_items import RecentItems
from iverson.expr.nodes import Apply, Const, Expr, is_number, postorder, same
from iverson.expr.symbolic_numbers import is_symbolic, lifted, plain

#: The most general codes for launches of one text.
MOST = 3
#: Texts of launches that a function remembers.
KEPT = 256
_FLOATS = {"float32": ("<f", "<i"), "float64": ("<d", "<q")}


def bits(value: float, dtype: DType) -> int:
    """The bits of a float, as an integer.

    >>> import numpy as np
    >>> hex(bits(1.0, np.dtype("float32")))
    '0x3f800000'
    """
    return lifted(_bits)(value, *_FLOATS[dtype.name])


def _bits(value: float, as_float: str, as_int: str) -> int:
    return int(struct.unpack(as_int, struct.pack(as_float, value))[0])


# --- kernels ----------------------------------------------------------------------------------------


def kernel_with(s: Phases, f: Substitution) -> Phases:
    """Phases with ``f(n)`` in place of each integer n of the kernel that may be a word, in their order.

    Each operand of a node is a position of its own, and each extent and stride of a buffer.
    """
    change = _Kernel(f)
    kernel, plan = change.kernel(s.kernel, s.plan)
    return replace(s, kernel=kernel, plan=plan, sizes=tuple(change.words.values()))


class _Kernel:
    """The change of one kernel. words : those in it, by the names of their sizes."""

    def __init__(self, f: Substitution) -> None:
        self.f = f
        self.words: dict[str, Word] = {}

    def kernel(self, kernel: Kernel, plan: Plan) -> tuple[Kernel, Plan]:
        buffers = {b: self.buffer(b) for b in kernel.buffers}
        by_name = {b.name: new for b, new in buffers.items()}
        phases = tuple([self.statement(in_blocks(p), by_name) for p in kernel.phases])
        new = Kernel(kernel.name, tuple(buffers.values()), phases, tuple(self.words))
        return new, _moved(plan, kernel, new)

    def integer(self, n: int) -> int | str:
        """An extent or a stride: a number, or the name of a size."""
        new = self.f(n) if abs(n) > 1 else n
        return self.name(new) if isinstance(new, Word) else new

    def name(self, word: Word) -> str:
        name = f"word{word.number}"
        self.words[name] = word
        return name

    def buffer(self, b: Buffer) -> Buffer:
        # Of rows on the stack the width says how much stack.
        shape = [n if b.role == "row" and k else self._of(n) for k, n in enumerate(b.shape)]
        strides = None if b.strides is None else tuple(map(self._of, b.strides))
        return replace(b, shape=tuple(shape), strides=strides)

    def _of(self, n: int | str) -> int | str:
        return n if isinstance(n, str) else self.integer(n)

    def statement(self, s: Stmt, buffers: Mapping[str, Buffer]) -> Stmt:
        body: Any = tuple([self.statement(x, buffers) for x in getattr(s, "body", ())])
        roots = expressions(s)
        new = iter(self.expressions(roots, buffers))
        if isinstance(s, (Loop, If)):
            outer = replace(mapped(replace(s, body=()), lambda _: next(new)), body=body)
            if isinstance(outer, Loop) and outer.mark == "unroll" and constant_extent(outer) is None:
                return replace(outer, mark="")
            return outer
        s = mapped(s, lambda _: next(new))
        if isinstance(s, Store):
            s = replace(s, buffer=replace(buffers[s.buffer.name], label=s.buffer.label))
        return s

    def expressions(self, roots: Sequence[Expr], buffers: Mapping[str, Buffer]) -> list[Expr]:
        """Expressions with words in place of numbers: an operand of a node is a position of its own."""
        new: dict[Expr, Expr] = {}

        def operand(e: Expr) -> Expr:
            return self.constant(e) if isinstance(e, Const) else new[e]

        for e in postorder(roots):
            is_power = isinstance(e, Apply) and e.name == "pow"  # of an exponent code may be made
            fixed = [is_power and k and isinstance(x, Const) for k, x in enumerate(e.operands)]
            operands = [x if f else operand(x) for f, x in zip(fixed, e.operands, strict=True)]
            if isinstance(e, Load):
                buffer = replace(buffers[e.buffer.name], label=e.buffer.label)
                new[e] = Load(buffer, tuple(operands))
            else:
                new[e] = e.rebuilt(operands)
        return list(map(operand, roots))

    def constant(self, e: Const) -> Expr:
        if e.dtype == INT64:
            new = self.f(e.value) if abs(e.value) > 1 else e.value
            return Size(self.name(new)) if isinstance(new, Word) else e
        if e.dtype.name not in _FLOATS:
            return e
        new = self.f(bits(e.value, e.dtype))
        return Size(self.name(new), e.dtype) if isinstance(new, Word) else e


def in_blocks(phase: Stmt) -> Stmt:
    """A phase over blocks of iterations in one form for all extents.

    So programs are alike that differ in the size of blocks, in whether the last block is full, and in whether
    there is one block or several.

    for i_0 in range(0, n, 64): for i in range(i_0, i_0 + 64): ...
    ->  for b in range(0, (n + 63) // 64): let i_0 = b * 64; for i in range(i_0, min(i_0 + 64, n)): ...
    """
    if not isinstance(phase, Loop) or phase.mark != "parallel" or phase.step == 1:
        return phase
    lower, upper, step = phase.lower, phase.upper, Const(phase.step)
    full = Apply("add", (Var(phase.var), step), INT64)
    end = Apply("minimum", (full, upper), INT64)

    def bounded(s: Stmt) -> Stmt:
        if not isinstance(s, Loop):
            return s
        if block_of(s.var) == phase.var and same((s.lower, s.upper), (lower, upper)):  # of the only block
            return replace(s, lower=Var(phase.var), upper=end)
        return replace(s, upper=end) if s.upper is full else s

    body = tuple([rewritten(inner, bounded) for inner in phase.body])
    if parts(phase):
        return replace(phase, body=body)
    number = f"{phase.var}_number"
    first = Apply("multiply", (Var(number), step), INT64)
    start = Let(phase.var, first if is_number(lower, 0) else Apply("add", (lower, first), INT64))
    body = (start, *(_with_local(s, phase.var) for s in body))
    room = Apply("add", (Apply("subtract", (upper, lower), INT64), Const(phase.step - 1)), INT64)
    count = Apply("floor_divide", (room, step), INT64)
    return replace(phase, var=number, lower=Const(0), upper=count, step=1, body=body)


def _with_local(s: Stmt, name: str) -> Stmt:
    """A statement that reads a let in place of the variable of a loop."""
    return mapped(s, lambda e: replaced(e, {name: Local(name, INT64)}))


def _moved(plan: Plan, kernel: Kernel, new: Kernel) -> Plan:
    """The access checks of a kernel, for a kernel of the same statements that gets its integers as words."""
    clamped: set[tuple[int, int]] = set()
    tested: dict[tuple[int, int], int] = {}
    for phase, other in zip(kernel.phases, new.phases, strict=True):
        for x, y in zip(loads_and_stores(phase), loads_and_stores(other), strict=True):
            for axis in range(len(x.indices)):
                if (id(x), axis) in plan.clamped:
                    clamped.add((id(y), axis))
                if (id(x), axis) in plan.tested:
                    tested[id(y), axis] = plan.tested[id(x), axis]
    return Plan(frozenset(clamped), tested, plan.reported)


# --- launches ---------------------------------------------------------------------------------------


def with_words(of: Launches, f: Substitution, inside: Substitution) -> Launches:
    """Launches with other integers in place of each that may be a word, in their order; a kernel once.

    f : gives those of steps and places. inside : gives those in kernels.
    """
    kernels: dict[int, Phases] = {}

    def kernel(s: Phases) -> Phases:
        if s.kernel.sizes:  # its integers are those of all sizes
            return replace(s, sizes=tuple([f(n) if isinstance(n, int) else n for n in s.sizes]))
        new = kernels.get(id(s.kernel))
        if new is None:
            new = kernels[id(s.kernel)] = kernel_with(s, inside)
        return replace(s, kernel=new.kernel, plan=new.plan, sizes=new.sizes)

    return with_integers(of, f, kernel)


@dataclass(frozen=True)
class Skeleton:
    """Launches without the integers that may be words: their ``text``, and these ``values`` in its order.

    inside : positions of those in kernels.
    """

    text: str
    values: list[int]
    inside: frozenset[int]


def skeleton(of: Launches, buffers: tuple[Buffer, ...]) -> Skeleton:
    """The skeleton of launches, which are of a program with these buffers."""
    values: list[int] = []
    inside: set[int] = set()

    def word(n: int) -> Word:
        values.append(n)
        return Word(len(values))

    def word_inside(n: int) -> Word:
        inside.add(len(values))
        return word(n)

    text = launches_text(with_words(of, word, word_inside), buffers)
    return Skeleton(text, values, frozenset(inside))


@dataclass(frozen=True)
class General:
    """Machine code that takes some integers of launches as words.

    key : of the code. values : the integers of the program that it was made from. words : for each position
    that is one, the position that names it: positions that are always equal are one word.
    """

    key: str
    values: list[int]
    words: Mapping[int, int]

    def serves(self, values: Sequence[int]) -> bool:
        """True if a program differs from that of this code in words only."""
        words = self.words
        return all(
            v == (values[words[k]] if k in words else fixed)
            for k, (v, fixed) in enumerate(zip(values, self.values, strict=True))
        )

    def arguments(self, values: Sequence[int]) -> tuple[int, ...]:
        """The words of a program that has these integers."""
        return tuple([values[k] for k, first in self.words.items() if k == first])


class _Family:
    """Programs whose launches have one text: the integers of the first special one, and general codes."""

    def __init__(self) -> None:
        self.special: list[int] = []
        self.general: tuple[General, ...] = ()


#: Gives the words of new general code for the form of a program; None if it gets none.
WordsOf: TypeAlias = Callable[[_Family, Skeleton], Mapping[int, int] | None]


class CodeSharing:
    """Codes of a function's programs, which programs of other sizes and numbers may share.

    always : make general code from the first program on, with all integers as words of their own.
    keys : of all codes.
    is_full : True if a program had to have code of its own as there were already `MOST` general ones;
    has_warned : whether the user was told.
    """

    def __init__(self, *, always: bool = False) -> None:
        self.always = always
        self.keys: set[str] = set()
        self.is_full = self.has_warned = False
        self._families: RecentItems[str, _Family] = RecentItems(KEPT)
        self._lock = locks.lock()

    def code(
        self, of: Launches, buffers: tuple[Buffer, ...], key_of: Callable[[str], str]
    ) -> tuple[str, tuple[int, ...], Launches]:
        """Key of the code for a program, the words that a call passes, and the launches that the code is of.

        buffers : of the program. key_of : gives the key of a text.
        """
        form = skeleton(of, buffers)
        general = self.general(of, buffers, form, key_of, self._words)
        if general is None:
            self.keys.add(key := key_of(launches_text(of, buffers)))
            return key, (), of
        return general.key, general.arguments(form.values), _general(of, general.words)

    def general(
        self,
        of: Launches,
        buffers: tuple[Buffer, ...],
        form: Skeleton,
        key_of: Callable[[str], str],
        words_of: WordsOf,
    ) -> General | None:
        """General code for launches, which may have symbolic numbers: known, or new; None if it gets none."""
        name, values = key_of(form.text), list(map(plain, form.values))
        with self._lock:
            family = self._families.find(name) or self._families.keep(name, _Family())
            general = next((g for g in family.general if g.serves(values)), None)
            if general is None and (words := words_of(family, form)) is not None:
                general = General(key_of(launches_text(_general(of, words), buffers)), values, words)
                family.general = (*family.general, general)
                self.keys.add(general.key)
            return general

    def has_most(self, family: _Family) -> bool:
        """True if a family gets no more general codes; a program has to have code of its own then."""
        has_most = len(family.general) >= MOST
        self.is_full |= has_most
        return has_most

    def _words(self, family: _Family, form: Skeleton) -> Mapping[int, int] | None:
        """Words as two programs differ: None of the first one.

        Integers of steps and places are words of their own: that costs nothing. In kernels, those are words
        that differ.
        """
        values = form.values
        if self.always:
            return {k: k for k in range(len(values))}
        if not family.special:
            family.special = values
        if values == family.special or self.has_most(family):
            return None
        last = family.general[-1] if family.general else None
        other = last.values if last else family.special
        apart: Mapping[int, int] = last.words if last else {}
        equal: defaultdict[Any, list[int]] = defaultdict(list)
        for k, (a, b) in enumerate(zip(values, other, strict=True)):
            if k not in form.inside:
                equal[k].append(k)
            elif a != b or k in apart:
                equal[a, b, apart.get(k)].append(k)
        return {k: group[0] for group in equal.values() for k in group}


class NoGeneralCode(Exception):
    """No code for launches with symbolic numbers: a function has enough general codes."""


class SymbolicSharing:
    """Codes of a function's programs, for launches with symbolic numbers."""

    def __init__(self, sharing: CodeSharing) -> None:
        self._sharing = sharing

    def code(
        self, of: Launches, buffers: tuple[Buffer, ...], key_of: Callable[[str], str]
    ) -> tuple[str, tuple[int, ...], Launches]:
        """Key, words and launches as of `CodeSharing`; new code has the symbolic ones as words.

        That other numbers in the code are those of the launches becomes a path condition. Raises
        NoGeneralCode where there are `MOST` codes and none fits.
        """
        form = skeleton(of, buffers)
        general = self._sharing.general(of, buffers, form, key_of, self._words)
        if general is None:
            raise NoGeneralCode
        launches = _general(of, general.words)
        assert general.serves(form.values)
        return general.key, general.arguments(form.values), launches

    def _words(self, family: _Family, form: Skeleton) -> Mapping[int, int] | None:
        """Integers of steps and places, and symbolic ones in kernels: equal formulas are one word."""
        if self._sharing.has_most(family):
            return None
        first: dict[Any, int] = {}
        return {
            k: first.setdefault(repr(n) if k in form.inside else k, k)
            for k, n in enumerate(form.values)
            if is_symbolic(n) or k not in form.inside
        }


def _general(of: Launches, words: Mapping[int, int]) -> Launches:
    """Launches with words at some positions; positions of one name are one word."""
    numbers = {first: n for n, first in enumerate(k for k, first in words.items() if k == first)}
    at = count()

    def integer(n: int) -> Integer:
        k = next(at)
        return Word(numbers[words[k]]) if k in words else n

    return with_words(of, integer, integer)


__all__ = [
    "CodeSharing",
    "General",
    "NoGeneralCode",
    "Skeleton",
    "SymbolicSharing",
    "bits",
    "skeleton",
    "with_words",
]
