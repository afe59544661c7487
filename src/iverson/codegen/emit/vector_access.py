"""Vector loads and stores: contiguous, strided and scattered lanes, each under an optional mask.

An address here is a scalar offset in entries, and how far each lane stands from it. Bools are bytes in
memory and bits in registers; complex numbers are two in a row in memory, and pairs of vectors in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iverson.codegen.emit.llvm_builder import I8, Builder, Pair, Type, Value

#: Elements of vectors that may have been cut from wider ones.
_NARROW = ("i8", "i16", "i32")


@dataclass(frozen=True)
class Address:
    """``base + offset``, in entries of ``type`` (the scalar in memory).

    coefficient : entries between lanes, 0 for one entry for all; None where ``lanes`` holds each lane's.
    mask : the lanes (or, for one entry, the bit) that may be touched, None for all.
    """

    base: Value
    type: Type
    offset: Value
    coefficient: int | None
    lanes: Value | None
    mask: Value | None

    @property
    def pointer(self) -> Value:
        return self.base.b.element(self.base, self.type, self.offset)


def in_memory(type: Type) -> Type:
    """The scalar type that an entry has in memory: a byte for a bool."""
    return I8 if type.elem == "i1" else type.wide(1)


def read(b: Builder, at: Address, type: Type) -> Value:
    """The entries as a value of ``type`` (its lanes say how many; 1 entry stays a scalar)."""
    if type.is_complex:
        lanes = 1 if at.coefficient == 0 else type.lanes
        re, im = _parts(at)
        if _together(at, lanes):
            return b.parted(b.load(re.pointer, re.type.wide(2 * lanes), re.type.bits // 8))
        return b.pair(_read(b, re, type.part), _read(b, im, type.part))
    raw = _read(b, at, at.type.wide(type.lanes))
    return raw.ne(0) if type.elem == "i1" else raw


def write(b: Builder, at: Address, value: Value) -> None:
    """Store a value; a scalar goes to one entry, a vector to one entry per lane."""
    if isinstance(value, Pair):
        re, im = _parts(at)
        if _together(at, value.type.lanes):
            b.wrote()
            b.store(re.pointer, b.interleaved(value), re.type.bits // 8)
        else:
            write(b, re, value.re)
            write(b, im, value.im)
        return
    b.wrote()
    if value.type.elem == "i1":
        value = b.cast("zext", value, value.type.of("i8"))
    align = at.type.bits // 8
    if value.type.lanes == 1 or (at.coefficient == 1 and at.mask is None):
        b.store(at.pointer, value, align)
    elif at.coefficient == 1:
        _masked_store(b, value, at.pointer, _mask(b, at, value.type.lanes), align)
    elif at.coefficient in (2, 3, 4):
        _strided_store(b, at, value, align)
    else:
        pointers = _pointers(b, at, value.type.lanes)
        mask = _mask(b, at, value.type.lanes)
        name = f"llvm.masked.scatter.{value.type.suffix}.{pointers.type.suffix}"
        b.declarations[name] = f"declare void @{name}({value.type}, {pointers.type}, i32, {mask.type})"
        b.do(
            f"call void @{name}({value.type} {value.ref}, {pointers.type} {pointers.ref}, "
            f"i32 {align}, {mask.type} {mask.ref})"
        )


def _parts(at: Address) -> tuple[Address, Address]:
    """Addresses of the real and of the imaginary parts of complex entries."""
    real = replace(
        at,
        type=at.type.part,
        offset=at.offset * 2,
        coefficient=None if at.coefficient is None else at.coefficient * 2,
        lanes=None if at.lanes is None else at.lanes * 2,
    )
    return real, replace(real, offset=real.offset + 1)


def _together(at: Address, lanes: int) -> bool:
    """True if complex entries are one contiguous piece of memory."""
    return lanes == 1 or (at.coefficient == 1 and at.mask is None)


def _read(b: Builder, at: Address, type: Type) -> Value:
    """Read entries that are not complex, by contiguous, reversed, strided or scattered access."""
    align = at.type.bits // 8
    if at.coefficient == 0 or type.lanes == 1:
        return b.load(at.pointer, at.type, align)
    if at.coefficient == 1:
        if at.mask is None:
            return b.load(at.pointer, type, align)
        return _masked_load(b, at.pointer, _mask(b, at, type.lanes), type, align)
    if at.coefficient == -1 and at.mask is None:
        start = b.element(at.pointer, at.type, 1 - type.lanes)
        return _reverse(b, b.load(start, type, align))
    if at.coefficient in (2, 3, 4):
        return _strided(b, at, type, align)
    return _gather(b, at, type, align)


def _strided(b: Builder, at: Address, type: Type, align: int) -> Value:
    """Every c-th entry for small c: c loads and shuffles, much faster than a gather.

    The last load ends at the last entry wanted, not beyond; under a mask each load reads only entries of
    lanes that exist.
    """
    n, c = type.lanes, at.coefficient or 0
    result: Value | None = None
    for t in range(c):
        start = min(t * n, (c - 1) * (n - 1))
        mine = [k for k in range(n) if t * n <= c * k < (t + 1) * n]
        if not mine:
            continue
        where = {c * k - start: k for k in mine}
        offset = b.element(at.pointer, at.type, start)
        if at.mask is None:
            part = b.load(offset, type, align)
        else:
            part = _masked_load(b, offset, _picked(b, _mask(b, at, n), where), type, align)
        place = {k: place for place, k in where.items()}
        if result is None:
            result = _shuffle(b, part, part, [place.get(k, 0) for k in range(n)])
        else:
            result = _shuffle(b, result, part, [n + place[k] if k in place else k for k in range(n)])
    assert result is not None
    return result


def _strided_store(b: Builder, at: Address, value: Value, align: int) -> None:
    """Every c-th entry for small c: c masked stores, much faster than a scatter."""
    n, c = value.type.lanes, at.coefficient or 0
    for t in range(c):
        where = {c * k - t * n: k for k in range(n) if t * n <= c * k < (t + 1) * n}
        if not where:
            continue
        offset = b.element(at.pointer, at.type, t * n)
        part = _shuffle(b, value, value, [where.get(place, 0) for place in range(n)])
        _masked_store(b, part, offset, _picked(b, _mask(b, at, n), where), align)


def _picked(b: Builder, mask: Value, where: dict[int, int]) -> Value:
    """A mask whose lane ``place`` is lane ``where[place]`` of the given one, and False for other places."""
    n = mask.type.lanes
    none = b.const(False, mask.type)
    return _shuffle(b, mask, none, [where.get(place, n) for place in range(n)])


def _reverse(b: Builder, x: Value) -> Value:
    return _shuffle(b, x, x, list(range(x.type.lanes))[::-1])


def _shuffle(b: Builder, x: Value, y: Value, picks: list[int]) -> Value:
    mask = ", ".join(f"i32 {k}" for k in picks)
    return b.emit(
        f"shufflevector {x.type} {x.ref}, {y.type} {y.ref}, <{len(picks)} x i32> <{mask}>",
        x.type.wide(len(picks)),
    )


def _masked_load(b: Builder, pointer: Value, mask: Value, type: Type, align: int) -> Value:
    name = f"llvm.masked.load.{type.suffix}.p0"
    b.declarations[name] = f"declare {type} @{name}(ptr, i32, {mask.type}, {type})"
    return b.emit(
        f"call {type} @{name}(ptr {pointer.ref}, i32 {align}, {mask.type} {mask.ref}, "
        f"{type} zeroinitializer)",
        type,
        reads=True,
    )


def _masked_store(b: Builder, value: Value, pointer: Value, mask: Value, align: int) -> None:
    name = f"llvm.masked.store.{value.type.suffix}.p0"
    b.declarations[name] = f"declare void @{name}({value.type}, ptr, i32, {mask.type})"
    b.do(
        f"call void @{name}({value.type} {value.ref}, ptr {pointer.ref}, i32 {align}, {mask.type} {mask.ref})"
    )
    if value.type.elem in _NARROW:
        # LLVM stores a lane that is alone in a mask before it is cut to fewer bits, and so over what lies
        # behind it (llvm/llvm-project 179489). Where the lanes have a further use they are cut before.
        b.declarations["llvm.fake.use"] = "declare void @llvm.fake.use(...)"
        b.do(f"call void (...) @llvm.fake.use({value.type} {value.ref})")


def _gather(b: Builder, at: Address, type: Type, align: int) -> Value:
    pointers, mask = _pointers(b, at, type.lanes), _mask(b, at, type.lanes)
    name = f"llvm.masked.gather.{type.suffix}.{pointers.type.suffix}"
    b.declarations[name] = f"declare {type} @{name}({pointers.type}, i32, {mask.type}, {type})"
    return b.emit(
        f"call {type} @{name}({pointers.type} {pointers.ref}, i32 {align}, {mask.type} {mask.ref}, "
        f"{type} zeroinitializer)",
        type,
        reads=True,
    )


def _pointers(b: Builder, at: Address, lanes: int) -> Value:
    spread = at.lanes
    if at.coefficient is not None:
        steps = b.iota(lanes) * at.coefficient
        spread = steps if spread is None else spread + steps
    assert spread is not None
    return b.element(at.pointer, at.type, spread)


def _mask(b: Builder, at: Address, lanes: int) -> Value:
    return b.const(True, Type("i1", lanes)) if at.mask is None else b.splat(at.mask, lanes)


def across(b: Builder, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """All lanes combined into a scalar, in a tree: ``combine(a, b)`` of two vectors of one width."""
    while x.type.lanes > 1:
        x = combine(*halves(b, x))
    return x


def halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """The first and the second half of the lanes."""
    if isinstance(x, Pair):
        (re0, re1), (im0, im1) = halves(b, x.re), halves(b, x.im)
        return b.pair(re0, im0), b.pair(re1, im1)
    half = x.type.lanes // 2
    if half == 1:
        return b.lane(x, 0), b.lane(x, 1)
    return _shuffle(b, x, x, list(range(half))), _shuffle(b, x, x, list(range(half, 2 * half)))
