"""Builder of LLVM IR text: typed SSA values with Python operators, over vectors of any width.

It builds text, since that costs a few microseconds an instruction where an object model costs tens, and users
wait for compiles. Equal pure instructions of a block are emitted once. Loops and kernels are not known here.
Every module of `codegen.emit` may import it.
"""

from __future__ import annotations

import operator
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_float
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iverson.core import dtypes
from iverson.core.protocols import DType
from iverson.expr.nodes import Number

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64, "ptr": 64}
#: What a complex number, which LLVM does not have, is two of.
_PARTS = {"complex64": "float", "complex128": "double"}


@dataclass(frozen=True, slots=True)
class Type:
    """An LLVM type: an element and a number of lanes (1 is a scalar, not a vector of one).

    >>> str(Type("float", 8)), Type("float", 8).suffix
    ('<8 x float>', 'v8f32')
    """

    elem: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.elem if self.lanes == 1 else f"<{self.lanes} x {self.elem}>"

    @property
    def bits(self) -> int:
        if self.is_complex:
            return 2 * self.part.bits
        return _BITS.get(self.elem) or int(self.elem[1:])

    @property
    def is_float(self) -> bool:
        return self.elem in ("float", "double")

    @property
    def is_complex(self) -> bool:
        return self.elem in _PARTS

    @property
    def part(self) -> Type:
        """The type of the real and the imaginary parts."""
        return self.of(_PARTS[self.elem])

    @property
    def suffix(self) -> str:
        """Suffix for this type in the names of intrinsics."""
        short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(self.elem, self.elem)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def of(self, elem: str) -> Type:
        """The same lanes of another element."""
        return Type(elem, self.lanes)

    def wide(self, lanes: int) -> Type:
        """The same element in other lanes."""
        return Type(self.elem, lanes)

    @property
    def as_int(self) -> Type:
        """The integer type of the same width."""
        return Type(f"i{self.bits}", self.lanes)


I1, I8, I32, I64, F32, F64, PTR = (Type(e) for e in ("i1", "i8", "i32", "i64", "float", "double", "ptr"))


def literal(value: float, type: Type) -> str:
    """A constant's text (a splat for vectors). Floats are rounded to the type first."""
    if type.is_float:
        rounded = c_float(value).value if type.elem == "float" else float(value)
        text = f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    elif type.elem == "i1":
        text = "true" if value else "false"
    else:
        bits = int(value) & ((1 << type.bits) - 1)
        text = str(bits - (1 << type.bits) if bits >> (type.bits - 1) else bits)
    return text if type.lanes == 1 else f"splat ({type.elem} {text})"


#: What an instruction takes beside a value: another one, or a number that becomes a constant of its type.
Operand: TypeAlias = "Value | complex"


class Value:
    """An SSA value or a constant: its text, its type and the builder that made it.

    ``+ - * /`` and unary minus follow the type (signed for integers); a Python number on the other side
    becomes a constant of the same type. ``< <= > >=`` are ordered, signed comparisons.
    """

    __slots__ = ("b", "const", "ref", "type")

    def __init__(self, b: Builder, ref: str, type: Type, const: Number | None = None) -> None:
        self.b, self.ref, self.type = b, ref, type
        self.const: Any = const

    def _like(self, other: Operand) -> Value:
        if not isinstance(other, Value):
            return self.b.const(other, self.type)
        return other

    def _op(self, other: Operand, name: str, *, swap: bool = False) -> Value:
        o = self._like(other)
        a, c = (o, self) if swap else (self, o)
        if not self.type.is_float:
            return a._bit(name, c)
        if a.const is not None and c.const is not None and name in _ARITHMETIC:
            return self.b.const(_rounded(_ARITHMETIC[name], a, c), self.type)
        return self.b.emit(f"f{name} {self.b.flags}{self.type} {a.ref}, {c.ref}", self.type)

    def __add__(self, other: Operand) -> Value:
        return self._op(other, "add")

    def __radd__(self, other: Operand) -> Value:
        return self.__add__(other)

    def __sub__(self, other: Operand) -> Value:
        return self._op(other, "sub")

    def __rsub__(self, other: Operand) -> Value:
        return self._op(other, "sub", swap=True)

    def __mul__(self, other: Operand) -> Value:
        return self._op(other, "mul")

    def __rmul__(self, other: Operand) -> Value:
        return self.__mul__(other)

    def __truediv__(self, other: Operand) -> Value:
        return self._op(other, "div")

    def __rtruediv__(self, other: Operand) -> Value:
        return self._op(other, "div", swap=True)

    def __neg__(self) -> Value:
        if self.type.is_float:
            return self.b.emit(f"fneg {self.type} {self.ref}", self.type)
        return self.b.const(0, self.type) - self

    def _bit(self, name: str, other: Operand) -> Value:
        o = self._like(other)
        value = _simplified(name, self, o)
        return self.b.emit(f"{name} {self.type} {self.ref}, {o.ref}", self.type) if value is None else value

    def __and__(self, other: Operand) -> Value:
        return self._bit("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._bit("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._bit("xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self._bit("shl", other)

    def lshr(self, other: Operand) -> Value:
        """Logical shift right."""
        return self._bit("lshr", other)

    def ashr(self, other: Operand) -> Value:
        """Arithmetic shift right."""
        return self._bit("ashr", other)

    def compare(self, how: str, other: Operand, *, unsigned: bool = False) -> Value:
        """``eq ne lt le gt ge``: ordered for floats (but ``ne`` holds for nan), signed unless told.

        ``ult ule ugt uge`` on floats hold for nan too.
        """
        o = self._like(other)
        if self.type.is_float:
            if self.const is not None and o.const is not None and len(how) == 2:
                return self.b.const(getattr(operator, how)(_number(self), _number(o)), self.type.of("i1"))
            name = "fcmp " + ("une" if how == "ne" else how if len(how) > 2 else f"o{how}")
        else:
            if self.const is not None and o.const is not None:
                return self.b.const(_compared(how, self, o, unsigned), self.type.of("i1"))
            sign = "" if how in ("eq", "ne") else ("u" if unsigned else "s")
            name = f"icmp {sign}{how}"
        return self.b.emit(f"{name} {self.type} {self.ref}, {o.ref}", self.type.of("i1"))

    def __lt__(self, other: Operand) -> Value:
        return self.compare("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self.compare("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self.compare("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self.compare("ge", other)

    def eq(self, other: Operand) -> Value:
        return self.compare("eq", other)

    def ne(self, other: Operand) -> Value:
        return self.compare("ne", other)

    def bitcast(self, elem: str) -> Value:
        """The same bits as another element type of the same width."""
        if self.const is not None and self.type.elem == "double" and elem == "i64":
            return self.b.const(struct.unpack("<q", struct.pack("<d", self.const))[0], self.type.of(elem))
        if self.const is not None and self.type.elem == "float" and elem == "i32":
            return self.b.const(struct.unpack("<i", struct.pack("<f", self.const))[0], self.type.of(elem))
        return self.b.cast("bitcast", self, self.type.of(elem))


#: Instructions that are carried out where both operands are numbers (of floats, the first three).
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
#: Those that leave their first operand as it is where the second is this number (-1: all bits are set).
_UNITS = {"add": 0, "sub": 0, "mul": 1, "and": -1, "or": 0, "xor": 0, "shl": 0, "lshr": 0, "ashr": 0}


def _simplified(name: str, a: Value, c: Value) -> Value | None:
    """An instruction on integers that is a number, or one of its operands; None for all others.

    ``1 + 2 -> 3``; ``x + 0, 0 + x, x * 1, x & -1 -> x``; ``x * 0, x & 0 -> 0``.
    """
    x, y = (None if v.const is None else _signed(v) for v in (a, c))
    if x is not None and y is not None and name in _ARITHMETIC:
        return a.b.const(_ARITHMETIC[name](x, y), a.type)
    unit = _UNITS.get(name)
    if y is not None and y == unit:
        return a
    if x is not None and x == unit and name in ("add", "mul", "and", "or", "xor"):
        return c
    if name in ("mul", "and") and 0 in (x, y):
        return a if x == 0 else c
    return None


def _number(v: Value) -> Any:
    """Value of a float constant, as a NumPy number of its precision."""
    return np.float32(c_float(v.const).value) if v.type.elem == "float" else np.float64(v.const)


def _rounded(f: Callable[..., float], a: Value, c: Value) -> float:
    """Result of an instruction on two float constants, rounded as the machine rounds it."""
    with np.errstate(all="ignore"):
        return float(f(_number(a), _number(c)))


def _signed(v: Value) -> int:
    """Value of an integer constant with its bits read as a signed number: -1 if all are set, as for True."""
    bits = v.type.bits
    number = int(v.const) & ((1 << bits) - 1)
    return number - (1 << bits) if number >> (bits - 1) else number


def _compared(how: str, a: Value, c: Value, unsigned: bool) -> bool:
    x, y = (_signed(v) & ((1 << v.type.bits) - 1) if unsigned else _signed(v) for v in (a, c))
    return bool(getattr(operator, how)(x, y))


class Pair(Value):
    """A complex value: its real and imaginary parts. Functions on them are in `scalar_code`."""

    __slots__ = ("im", "re")

    def __init__(self, b: Builder, re: Value, im: Value, type: Type, const: Number | None = None) -> None:
        super().__init__(b, f"{re.ref}, {im.ref}", type, const)
        self.re, self.im = re, im

    def map(self, f: Callable[[Value], Value]) -> Pair:
        """The complex value with ``f`` applied to each part."""
        return self.b.pair(f(self.re), f(self.im))


class Builder:
    """Collects the instructions of one function.

    flags : fast-math flags put on float ``+ - * /`` (with a trailing blank), "" for none.
    sparing : call elementary functions, as what follows runs seldom, and is to be compiled in little time.
    inlined : number of places in the module at which an elementary function is inlined, by its symbol.
    has_fma : whether `fma` is one instruction; else it is a product and a sum, rounded twice.
    has_half : whether float16 is converted to and from float by an instruction.
    """

    def __init__(self, *, has_fma: bool = True, has_half: bool = False) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.results: dict[str, Type] = {}
        self.inlined: Counter[str] = Counter()
        self.has_fma, self.has_half = has_fma, has_half
        self.flags = ""
        self.sparing = False
        self.block = "body"
        self._seen: dict[str, Value] = {}
        self._read: dict[str, Value] = {}
        self._slots: dict[str, Type] = {}
        self._variables: set[str] = set()
        #: Values of variables that this block has written or read, and the line of its last write to each.
        self._content: dict[str, Value] = {}
        self._writes: dict[str, int] = {}
        self._count = 0

    def nested(self) -> Builder:
        """A builder for another function of the same module: declarations and helper functions are shared."""
        other = Builder(has_fma=self.has_fma, has_half=self.has_half)
        other.declarations, other.functions = self.declarations, self.functions
        other.results, other.inlined = self.results, self.inlined
        return other

    # --- instructions -----------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        """A name used by nothing else in the function."""
        self._count += 1
        return f"{hint}{self._count}"

    def emit(self, rhs: str, type: Type, *, pure: bool = True, reads: bool = False) -> Value:
        """``%new = rhs``; a pure instruction that the block already has is not repeated.

        One that ``reads`` the kernel's memory is repeated only after a write to it (`wrote`).
        """
        if reads:
            earlier = self._read.get(rhs)
            if earlier is None:
                earlier = self._read[rhs] = self.emit(rhs, type, pure=False)
            return earlier
        if pure and (earlier := self._seen.get(rhs)) is not None:
            return earlier
        value = Value(self, f"%{self.fresh()}", type)
        self.lines.append(f"  {value.ref} = {rhs}")
        if pure:
            self._seen[rhs] = value
        return value

    def wrote(self) -> None:
        """Note that the kernel's memory has changed, so that `load` reads again what it had read before."""
        self._read = {}

    def do(self, text: str) -> None:
        """Append an instruction that has no result."""
        self.lines.append(f"  {text}")

    def pair(self, re: Value, im: Value) -> Pair:
        """A complex value of its parts."""
        elem = next((c for c, part in _PARTS.items() if part == re.type.elem), re.type.elem)
        return Pair(self, re, im, re.type.of(elem))

    def const(self, value: Any, type: Type) -> Value:
        if type.elem == "i1":
            value = bool(value)
        if type.is_complex:
            number = complex(value)
            re, im = (self.const(x, type.part) for x in (number.real, number.imag))
            return Pair(self, re, im, type, value)
        return Value(self, literal(value, type), type, value)

    def select(self, cond: Value, a: Value, c: Value) -> Value:
        if a.ref == c.ref:
            return a
        if cond.const is not None:
            return a if cond.const else c
        if isinstance(a, Pair) and isinstance(c, Pair):
            return self.pair(self.select(cond, a.re, c.re), self.select(cond, a.im, c.im))
        return self.emit(f"select {cond.type} {cond.ref}, {a.type} {a.ref}, {c.type} {c.ref}", a.type)

    def cast(self, name: str, x: Value, type: Type) -> Value:
        if name == "sitofp" and x.const is not None and abs(_signed(x)) < 2**53:
            return self.const(float(_signed(x)), type)
        return x if x.type == type else self.emit(f"{name} {x.type} {x.ref} to {type}", type)

    def call(self, name: str, type: Type, args: Iterable[Value], *, pure: bool = True) -> Value:
        """Emit a call of the function ``name`` and return its result, of ``type``.

        The module gets a declaration of the function.
        """
        items = tuple(args)
        self.declarations[name] = f"declare {type} @{name}({', '.join(str(a.type) for a in items)})"
        text = ", ".join(f"{a.type} {a.ref}" for a in items)
        return self.emit(f"call {type} @{name}({text})", type, pure=pure)

    def intrinsic(self, name: str, *args: Value) -> Value:
        """``llvm.name`` overloaded on the first argument's type, with a result of that type."""
        if name == "fabs" and args[0].const is not None:
            return self.const(float(abs(_number(args[0]))), args[0].type)
        return self.call(f"llvm.{name}.{args[0].type.suffix}", args[0].type, args)

    def smaller(self, a: Value, c: Value) -> Value:
        """The smaller one of two signed integers."""
        return self._one_of("smin", a, c, min)

    def larger(self, a: Value, c: Value) -> Value:
        """The larger one of two signed integers."""
        return self._one_of("smax", a, c, max)

    def _one_of(self, name: str, a: Value, c: Value, choose: Callable[[int, int], int]) -> Value:
        if a.const is not None and c.const is not None:
            return self.const(choose(_signed(a), _signed(c)), a.type)
        return self.intrinsic(name, a, c)

    def element(self, pointer: Value, type: Type, number: int | Value) -> Value:
        """Address ``number`` entries of ``type`` behind ``pointer``; a vector if ``number`` is one."""
        at = self.const(number, I64) if isinstance(number, int) else number
        if at.const == 0 and at.type.lanes == 1:
            return pointer
        address = PTR.wide(at.type.lanes)
        return self.emit(f"getelementptr {type}, ptr {pointer.ref}, {at.type} {at.ref}", address)

    def fma(self, a: Value, c: Operand, d: Operand) -> Value:
        """a * c + d, rounded once where the machine can."""
        factor, term = a._like(c), a._like(d)
        return self.intrinsic("fma", a, factor, term) if self.has_fma else a * factor + term

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane; vectors stay as they are."""
        if lanes in (1, x.type.lanes):
            return x
        wide = x.type.wide(lanes)
        if x.const is not None:
            return self.const(x.const, wide)
        if isinstance(x, Pair):
            return x.map(lambda part: self.splat(part, lanes))
        first_lane = self.emit(f"insertelement {wide} poison, {x.type} {x.ref}, i64 0", wide)
        return self.emit(
            f"shufflevector {wide} {first_lane.ref}, {wide} poison, <{lanes} x i32> zeroinitializer", wide
        )

    def lane(self, x: Value, k: int) -> Value:
        if x.type.lanes == 1:
            return x
        if isinstance(x, Pair):
            return x.map(lambda part: self.lane(part, k))
        return self.emit(f"extractelement {x.type} {x.ref}, i64 {k}", x.type.wide(1))

    def with_lane(self, x: Value, k: int, item: Value) -> Value:
        return self.emit(f"insertelement {x.type} {x.ref}, {item.type} {item.ref}, i64 {k}", x.type)

    def iota(self, lanes: int, elem: str = "i64") -> Value:
        """0, 1, 2, ... in the lanes."""
        items = ", ".join(f"{elem} {k}" for k in range(lanes))
        return Value(self, f"<{items}>" if lanes > 1 else "0", Type(elem, lanes))

    def any(self, mask: Value) -> Value:
        """A Boolean value: true if any lane of a mask is true."""
        if mask.type.lanes == 1:
            return mask
        return self.call(f"llvm.vector.reduce.or.{mask.type.suffix}", I1, (mask,))

    @contextmanager
    def leaving(self, cond: Value, result: str = "void") -> Iterator[None]:
        """Context for instructions that run only if ``cond`` holds, which is seldom, and end with a return.

        result : text of the value that the function returns there.
        """
        yes, after = self.fresh("leave"), self.fresh("after")
        before = self._seen, self._read, self._content, self._writes
        self.br_if_rarely(cond, yes, after)
        self.start(yes)
        yield
        self.do(f"ret {result}")
        self.start(after)
        self._seen, self._read, self._content, self._writes = before  # what was known before stays known

    @contextmanager
    def saving(self, now: bool = True) -> Iterator[None]:
        """Context for code that runs seldom (if ``now``): elementary functions are called, not inlined."""
        before, self.sparing = self.sparing, self.sparing or now
        yield
        self.sparing = before

    def outlined(self, name: str, body: Callable[..., Value], args: Sequence[Value]) -> Value:
        """Emit a call of the module's function ``name``, and return its result.

        The first call for a name makes this function: ``body`` gets a builder and the parameters, and returns
        the result. The function must not touch memory of others, as LLVM is told that it does not: values
        that were read before the call are not read again after it.
        """
        formal = [f"{a.type} %x{n}" for n, a in enumerate(args)]
        if name not in self.functions:
            inner = self.nested()
            value = body(inner, *(Value(inner, f"%x{n}", a.type) for n, a in enumerate(args)))
            inner.do(f"ret {value.type} {value.ref}")
            text = function_text(inner, name, value.type, ", ".join(formal))
            self.functions[name] = text.replace("define", "define internal", 1).replace(
                "#0 {", "#0 noinline willreturn memory(none) {", 1
            )
            self.results[name] = value.type
        arguments = ", ".join(f"{a.type} {a.ref}" for a in args)
        result = self.results[name]
        return self.emit(f"call {result} @{name}({arguments})", result)

    # --- blocks and stack slots -------------------------------------------------------------------

    def start(self, label: str, known: Mapping[str, Value] | None = None) -> None:
        """Open the block ``label``.

        known : pure instructions to reuse, which were `known` in a block that every way to this block goes
            through.
        """
        self.lines.append(f"{label}:")
        self.block = label
        self._seen = dict(known or {})
        self._read, self._content, self._writes = {}, {}, {}

    @property
    def known(self) -> Mapping[str, Value]:
        """The pure instructions of this block, and of those around it, for `start`."""
        return dict(self._seen)

    def br(self, label: str) -> None:
        self.do(f"br label %{label}")

    def br_if(self, cond: Value, yes: str, no: str) -> None:
        self.do(f"br i1 {cond.ref}, label %{yes}, label %{no}")

    def br_if_rarely(self, cond: Value, yes: str, no: str) -> None:
        self.do(f"br i1 {cond.ref}, label %{yes}, label %{no}, !prof !0")

    def interleaved(self, x: Pair) -> Value:
        """Vector of the parts of a complex value in the order of memory: real and imaginary by turns."""
        n = x.type.lanes
        wide = x.type.part.wide(2 * n)
        if n == 1:
            return self.with_lane(self.with_lane(Value(self, "poison", wide), 0, x.re), 1, x.im)
        picks = ", ".join(f"i32 {k}, i32 {n + k}" for k in range(n))
        return self.emit(
            f"shufflevector {x.re.type} {x.re.ref}, {x.im.type} {x.im.ref}, <{2 * n} x i32> <{picks}>", wide
        )

    def parted(self, x: Value) -> Pair:
        """Complex value of a vector in which real and imaginary parts stand by turns, as in memory."""
        n = x.type.lanes // 2
        if n == 1:
            return self.pair(self.lane(x, 0), self.lane(x, 1))

        def every_second(first: int) -> Value:
            picks = ", ".join(f"i32 {2 * k + first}" for k in range(n))
            return self.emit(
                f"shufflevector {x.type} {x.ref}, {x.type} poison, <{n} x i32> <{picks}>", x.type.wide(n)
            )

        return self.pair(every_second(0), every_second(1))

    def slot(self, type: Type, count: int = 1) -> Value:
        """Address of new stack memory for ``count`` values, reserved once at function entry.

        For a complex type it is a pair of addresses, one for each part.
        """
        if type.is_complex:
            return Pair(self, self.slot(type.part, count), self.slot(type.part, count), PTR)
        name = f"%{self.fresh('s')}"
        self._slots[name] = type
        array_size = f", i64 {count}" if count > 1 else ""
        self.entry.append(f"  {name} = alloca {type}{array_size}, align 64")
        return Value(self, name, PTR)

    def variable(self, type: Type) -> Value:
        """A new slot whose address no instruction gets but those of `get` and `put`.

        A block reads it once at most, and writes it once at most, as LLVM would see to it at a cost.
        """
        slot = self.slot(type)
        self._variables |= {x.ref for x in ((slot.re, slot.im) if isinstance(slot, Pair) else (slot,))}
        return slot

    def slot_at(self, address: Value, type: Type) -> Value:
        """Make the address of a slot of the calling function usable as a slot here, and return it."""
        self._slots[address.ref] = type
        return address

    def load(self, pointer: Value, type: Type, align: int) -> Value:
        """Value read from the kernel's memory; what the block has read since the last write is reused."""
        return self.emit(f"load {type}, ptr {pointer.ref}, align {align}", type, reads=True)

    def store(self, pointer: Value, value: Value, align: int) -> None:
        self.do(f"store {value.type} {value.ref}, ptr {pointer.ref}, align {align}")

    def get(self, slot: Value, type: Type) -> Value:
        """Read a slot."""
        if isinstance(slot, Pair):
            return slot.map(lambda part: self.get(part, type.part))
        value = self._content.get(slot.ref)
        if value is None:
            value = self.emit(f"load {type}, ptr {slot.ref}, align 64", type, pure=False)
            if slot.ref in self._variables:
                self._content[slot.ref] = value
        return value

    def put(self, slot: Value, value: Value) -> None:
        """Write a slot, all of it: a scalar in a vector's slot would leave the other lanes unwritten."""
        if isinstance(slot, Pair):
            assert isinstance(value, Pair)
            self.put(slot.re, value.re)
            self.put(slot.im, value.im)
            return
        assert value.type == self._slots[slot.ref], f"{value.type} into a slot of {self._slots[slot.ref]}"
        if slot.ref in self._variables:
            if slot.ref in self._writes:
                self.lines[self._writes[slot.ref]] = ""
            self._content[slot.ref], self._writes[slot.ref] = value, len(self.lines)
        self.store(slot, value, 64)


def function_text(b: Builder, name: str, result: Type | None, args: str) -> str:
    """The text of a finished function; the builder's lines must end in a terminator."""
    head = f"define {result or 'void'} @{name}({args}) #0 {{"
    return "\n".join((head, "entry:", *b.entry, "  br label %body", "body:", *filter(None, b.lines), "}"))


def module_text(b: Builder, functions: Iterable[str], attributes: str) -> str:
    """A whole module: functions, the helpers they asked for, and declarations."""
    return "\n".join(
        (
            *functions,
            *b.functions.values(),
            *b.declarations.values(),
            f"attributes #0 = {{ {attributes} }}",
            '!0 = !{!"branch_weights", i32 1, i32 1000000}',
        )
    )


def as_type(dtype: DType, lanes: int = 1) -> Type:
    """The type of a value of this dtype in a register: bool is a bit, half precision is its 16 bits."""
    if dtypes.is_half(dtype):
        return Type("i16", lanes)
    if dtype.kind == "f":
        return Type("float" if dtype.itemsize == 4 else "double", lanes)
    if dtype.kind == "b":
        return Type("i1", lanes)
    if dtype.kind == "c":
        return Type(dtype.name, lanes)
    return Type(f"i{8 * dtype.itemsize}", lanes)


__all__ = [
    "F32", "F64", "I1", "I8", "I32", "I64", "PTR",
    "Builder", "Pair", "Type", "Value", "as_type", "function_text", "literal", "module_text",
]  # fmt: skip
