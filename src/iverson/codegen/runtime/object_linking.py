"""Object linking without LLVM: object code is put into memory and its addresses are filled in.

LLVM's library takes longer to load than all else at a first call, and a process that finds its kernels on
disk needs no more of it than this. Generated objects are simple: code and constants, no data that is written,
and three kinds of places to fill in. An object with anything else, or for another machine or system, is left
to LLVM (`codegen.execution.object_code`).

Formats: System V Application Binary Interface, AMD64 Architecture Processor Supplement, chapter 4.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from iverson.core.python.cached import cached_property

_SECTION, _SYMBOL, _PLACE = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
#: An object (type 1) of 64 bits, little-endian, for x86-64 (machine 62).
_HEAD, _KIND = b"\x7fELF\x02\x01\x01", struct.pack("<HH", 1, 62)
_RELOCATIONS, _UNWINDING = 4, 0x70000001  # types of sections
_WRITTEN, _IN_MEMORY, _OF_THREADS = 0x1, 0x2, 0x400  # flags of sections
_RELATIVE, _CALL, _SLOTS = 2, 4, (9, 41, 42)  # places: PC32, PLT32, and GOTPCREL with what it relaxes to
_LARGEST_INDEX = 0xFF00


class Memory:
    """Pages that hold machine code; they are given back with this object, but not as the process ends.

    Threads may be in the code then.
    """

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = _libc().mmap(None, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        self.address: int | None = None if address in (None, ctypes.c_void_p(-1).value) else address

    def hold(self, code: bytes) -> bool:
        """Put code there, which from then on can be run and not be written; False if the system refuses."""
        assert self.address is not None
        ctypes.memmove(self.address, code, len(code))
        return not _libc().mprotect(self.address, self.size, mmap.PROT_READ | mmap.PROT_EXEC)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.address is not None and not is_finalizing():  # the module's names may be gone by then
            _libc().munmap(self.address, self.size)


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    numbers = ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    library.mmap.argtypes = (ctypes.c_void_p, *numbers)
    library.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
    return library


class _Unknown(Exception):
    """Something that is left to LLVM."""


def link(
    code: bytes, names: Iterable[str], resolve: Callable[[str], int | None]
) -> tuple[Memory, dict[str, int]] | None:
    """Memory with an object's code, and the addresses of the functions with these names.

    None if the object is to be left to LLVM.

    resolve : gives the addresses of symbols that are not in the object.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return None
    try:
        return _Object(code).linked(names, resolve)
    except (_Unknown, struct.error, IndexError, ValueError):
        return None


@dataclass(frozen=True)
class _Section:
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


@dataclass
class _Object:
    """An object that is being laid out: its sections, then slots that hold addresses, then jumps to these."""

    code: bytes
    sections: list[_Section] = field(init=False)
    at: dict[int, int] = field(default_factory=dict)  # a section's place
    slots: dict[int, int] = field(default_factory=dict)  # a symbol's slot, by number

    def __post_init__(self) -> None:
        if not self.code.startswith(_HEAD) or self.code[16:20] != _KIND:
            raise _Unknown
        (start,) = struct.unpack_from("<Q", self.code, 40)
        entry_size, count = struct.unpack_from("<HH", self.code, 58)
        self.sections = [
            _Section(*_SECTION.unpack_from(self.code, start + k * entry_size)) for k in range(count)
        ]

    def linked(
        self, names: Iterable[str], resolve: Callable[[str], int | None]
    ) -> tuple[Memory, dict[str, int]]:
        """Memory with the object's code, its places filled in, and the addresses of these functions.

        Raises _Unknown for an object that is to be left to LLVM.
        """
        end = 0
        for k, s in enumerate(self.sections):
            if s.flags & _IN_MEMORY and s.type != _UNWINDING:
                if s.flags & (_WRITTEN | _OF_THREADS) or s.type != 1:
                    raise _Unknown
                end = self.at[k] = -(-end // max(s.align, 1)) * max(s.align, 1)
                end += s.size
        places = list(self._places())
        for _, kind, symbol, _ in places:
            if kind in _SLOTS or self._symbol(symbol)[3] == 0:
                self.slots.setdefault(symbol, len(self.slots))
        first = -(-end // 8) * 8
        jumps = first + 8 * len(self.slots)
        memory = Memory(jumps + 8 * len(self.slots))
        if memory.address is None:
            raise _Unknown
        image = bytearray(jumps + 8 * len(self.slots))
        for k, at in self.at.items():
            s = self.sections[k]
            image[at : at + s.size] = self.code[s.offset : s.offset + s.size]
        for symbol, k in self.slots.items():
            struct.pack_into("<Q", image, first + 8 * k, self._address(symbol, memory.address, resolve))
            # jmp *slot(%rip)
            struct.pack_into("<HiH", image, jumps + 8 * k, 0x25FF, first - jumps - 6, 0)
        for at, kind, symbol, addend in places:
            if kind in _SLOTS:
                target = first + 8 * self.slots[symbol]
            elif self._symbol(symbol)[3]:
                target = self._inside(symbol)
            elif kind == _CALL:
                target = jumps + 8 * self.slots[symbol]
            else:
                raise _Unknown
            struct.pack_into("<i", image, at, target + addend - at)
        if not memory.hold(bytes(image)):
            raise _Unknown
        return memory, self._addresses_of(names, memory.address)

    def _places(self) -> Iterable[tuple[int, int, int, int]]:
        """Relocations to carry out: (place, kind, symbol's number, addend) of each."""
        for s in self.sections:
            if s.type == _RELOCATIONS and s.info in self.at:
                for k in range(s.size // _PLACE.size):
                    offset, info, addend = _PLACE.unpack_from(self.code, s.offset + k * _PLACE.size)
                    kind = info & 0xFFFFFFFF
                    if kind not in (_RELATIVE, _CALL, *_SLOTS):
                        raise _Unknown
                    yield self.at[s.info] + offset, kind, info >> 32, addend

    @cached_property
    def _table(self) -> _Section:
        """The section of the symbols."""
        tables = [s for s in self.sections if s.type == 2]
        if len(tables) != 1:
            raise _Unknown
        return tables[0]

    def _symbol(self, k: int) -> tuple[int, int, int, int, int, int]:
        """Fields of a symbol: name, kind, visibility, section, place in the section, size."""
        name, kind, other, section, value, size = _SYMBOL.unpack_from(
            self.code, self._table.offset + k * _SYMBOL.size
        )
        return name, kind, other, section, value, size

    def _name(self, k: int) -> str:
        start = self.sections[self._table.link].offset + self._symbol(k)[0]
        return self.code[start : self.code.index(b"\0", start)].decode()

    def _inside(self, k: int) -> int:
        """Place of a symbol that the object defines."""
        _, _, _, section, value, _ = self._symbol(k)
        if section >= _LARGEST_INDEX or section not in self.at:
            raise _Unknown
        return self.at[section] + value

    def _address(self, k: int, base: int, resolve: Callable[[str], int | None]) -> int:
        if self._symbol(k)[3]:
            return base + self._inside(k)
        address = resolve(self._name(k))
        if address is None:
            raise _Unknown
        return address

    def _addresses_of(self, names: Iterable[str], base: int) -> dict[str, int]:
        count = self._table.size // _SYMBOL.size
        numbers = {self._name(k): k for k in range(count) if self._symbol(k)[3]}
        if not numbers.keys() >= (requested := set(names)):
            raise _Unknown
        return {name: base + self._inside(numbers[name]) for name in requested}
