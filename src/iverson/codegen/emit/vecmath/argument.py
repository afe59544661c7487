"""Argument reduction: large arguments modulo pi/2, exact for every double, in scalar integer arithmetic.

Method: M. Payne and R. Hanek, "Radian reduction for trigonometric functions", SIGNUM 18 (1983), here with
one 320-bit product: x = M 2^e with a 53-bit M; the bits of 2/pi above weight 2^(2-e) only add multiples of
4 to x 2/pi, so a window of 256 bits below them times M holds the quadrant and the fraction to 2^-194,
and no double comes closer than 2^-62 to a multiple of pi/2.
"""

from __future__ import annotations

from iverson.codegen.emit.llvm_builder import F64, I1, I64, PTR, Builder, Type, Value
from iverson.codegen.emit.vecmath.common import two_product

# The first 1280 bits of 2/pi, as a hexadecimal fraction.
TWO_OVER_PI_BITS = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_WIDE = Type("i320")
_NAME = "iverson_reduce_large"


def reduce_large(b: Builder, x: Value, mask: Value, r: Value, n: Value) -> tuple[Value, Value]:
    """r and n with x = n pi/2 + r (n modulo 4) in the lanes of ``mask``; the given ones in the others.

    ``x`` and ``r`` are doubles, ``n`` is of type i64; inf and nan give nan. One call; lanes in a loop.
    """
    _define(b)
    slots = []
    for value in (x, b.cast("zext", mask, mask.type.of("i8")), r, n):
        slots.append(b.slot(value.type))
        b.put(slots[-1], value)
    pointers = ", ".join(f"ptr {s.ref}" for s in slots)
    b.do(f"call void @{_NAME}(i64 {x.type.lanes}, {pointers})")
    return b.get(slots[2], r.type), b.get(slots[3], n.type)


def _define(b: Builder) -> None:
    """Add the function that reduces lanes by `_reduce_one`, and its table, to the module, if it has none."""
    if _NAME in b.functions:
        return
    data = bytes.fromhex(TWO_OVER_PI_BITS)[::-1]
    escaped = "".join(f"\\{byte:02X}" for byte in data)
    table = f'@iverson_two_over_pi = private constant [{len(data)} x i8] c"{escaped}", align 64'
    c = b.nested()
    c.do("br label %loop")
    c.start("loop")
    lane = c.emit("phi i64 [0, %body], [%following, %next]", I64, pure=False)

    def item(array: str, type: Type) -> Value:
        return c.emit(f"getelementptr {type}, ptr %{array}, i64 {lane.ref}", PTR)

    lane_mask = c.load(item("mask", Type("i8")), Type("i8"), 1)
    c.br_if(lane_mask.ne(0), "large", "next")
    c.start("large")
    r, n = _reduce_one(c, c.load(item("x", F64), F64, 8))
    c.store(item("r", F64), r, 8)
    c.store(item("n", I64), n, 8)
    c.br("next")
    c.start("next")
    c.do(f"%following = add i64 {lane.ref}, 1")
    c.br_if(c.emit("icmp slt i64 %following, %lanes", I1), "loop", "done")
    c.start("done")
    c.do("ret void")
    body = "\n".join(("entry:", *c.entry, "  br label %body", "body:", *c.lines, "}"))
    head = f"define internal void @{_NAME}(i64 %lanes, ptr %x, ptr %mask, ptr %r, ptr %n) noinline cold {{"
    b.functions[_NAME] = "\n".join((table, head, body))


def _reduce_one(c: Builder, x: Value) -> tuple[Value, Value]:
    """r and n of one double with |x| >= 2^-20 (so that the shifts below are in range)."""
    bits = x.bitcast("i64")
    exponent = bits.lshr(52) & 0x7FF
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    e = exponent - (1023 + 52)
    # The window starts at a whole byte, at least two bits of integer above it.
    skip = c.select(e < 2, c.const(0, I64), e - 2)
    first = c.select(skip > 968, c.const(968, I64), skip & -8)
    offset = c.const((1280 - 256) // 8, I64) - first.lshr(3)
    window = c.load(
        c.emit(f"getelementptr i8, ptr @iverson_two_over_pi, i64 {offset.ref}", PTR), Type("i256"), 1
    )
    product = c.cast("zext", m, _WIDE) * c.cast("zext", window, _WIDE)
    # The bit of weight 2 goes to the top.
    shifted = product << c.cast("zext", e - first + 62, _WIDE)
    fraction = shifted << 2
    negative = fraction < 0
    n = c.cast("trunc", shifted.lshr(318), I64) + c.cast("zext", negative, I64)
    size = c.select(negative, c.const(0, _WIDE) - fraction, fraction)
    zeros = c.emit(f"call i320 @llvm.ctlz.i320(i320 {size.ref}, i1 false)", _WIDE)
    c.declarations["llvm.ctlz.i320"] = "declare i320 @llvm.ctlz.i320(i320, i1)"
    zeros = c.select(zeros > 100, c.const(100, _WIDE), zeros)
    top = c.cast("trunc", (size << zeros).lshr(320 - 63), I64)
    # size / 2^320 = top / 2^63 / 2^zeros
    unit = ((c.const(1023 - 63, I64) - c.cast("trunc", zeros, I64)) << 52).bitcast("double")
    # The 63 bits as two doubles, times pi/2 as two, rounded once.
    low_bits = top & 0x3FF
    t = c.cast("sitofp", top ^ low_bits, F64)
    p, error = two_product(c, t, c.const(HALF_PI[0], F64))
    tail = error + (t * HALF_PI[1] + c.cast("sitofp", low_bits, F64) * HALF_PI[0])
    r = (p + tail) * unit
    sign = c.cast("zext", negative, I64) ^ bits.lshr(63)
    n = c.select(bits < 0, c.const(0, I64) - n, n)
    r = (r.bitcast("i64") | (sign << 63)).bitcast("double")
    special = exponent.eq(0x7FF)
    return c.select(special, x - x, r), n
