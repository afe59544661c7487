"""Operands of calls: which entries, which dtype, which memory."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTS, *FLOATS, *COMPLEX)
#: One of a kind: what calls with many options are made for.
FEW = ("float64", "complex64", "int32", "bool", "float32", "float16")


def dtype_named(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@dataclass(frozen=True)
class X:
    """An operand of numbers, whose dtype is that of the case.

    low, high : the interval of its entries. matrix : "" or what its matrices are: "regular", "positive" (and
    Hermitian), "lower". fixed : its entries, where they are not drawn. lasting : whether the dtype stays.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    matrix: str = ""
    fixed: Any = None
    lasting: bool = False

    def draw(self, dtype: str, seed: int) -> Array:
        if self.fixed is not None:
            entries = np.asarray(self.fixed)
            if dtype in COMPLEX and np.isnan(entries).any():
                entries = entries * (1 + 0.5j)
            return entries if self.lasting else _cast(entries, dtype, self.low)
        rng = np.random.default_rng([seed, len(self.shape), *self.shape])
        entries = rng.uniform(self.low, self.high, self.shape)
        if dtype in COMPLEX:
            entries = entries + 1j * rng.uniform(-1.0, 1.0, self.shape)
        if self.matrix:
            entries = _matrix(entries, self.matrix)
        return _cast(entries, dtype, self.low)


def _matrix(x: Array, kind: str) -> Array:
    n = min(x.shape[-2:])
    eye = np.eye(*x.shape[-2:])
    if kind == "positive":
        return x @ x.conj().swapaxes(-1, -2) + eye
    return np.tril(x) * 0.5 + 2 * eye if kind == "lower" else x + (2 + n) * eye


def _cast(entries: Array, dtype: str, low: float) -> Array:
    if dtype == "bool":
        return np.asarray(entries.real > (0.0 if low < 0 else low + 0.3))
    if dtype in INTS:
        whole = np.round(entries.real * (1.0 if abs(low) >= 1 else 1.5))
        return np.asarray(np.abs(whole) if dtype[0] == "u" else whole).astype(dtype)
    if dtype in COMPLEX:
        return np.asarray(entries, dtype)
    return np.asarray(entries.real).astype(dtype_named(dtype))


def lasting(entries: Any, dtype: str | None = None) -> X:
    """An operand that is the same in all cases: indices, a condition."""
    fixed = np.asarray(entries, dtype)
    return X(fixed.shape, fixed=fixed, lasting=True)


def each(function: Callable[[Any], Any], tree: Any, kind: Any = X) -> Any:
    """Arguments with a function applied to those of a kind, within tuples, lists and dicts too."""
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(each(function, part, kind) for part in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(each(function, part, kind) for part in tree)
    if isinstance(tree, Mapping):
        return {name: each(function, part, kind) for name, part in tree.items()}
    return tree


def leaves(tree: Any, kind: Any = X) -> list[Any]:
    """Those of a kind, in order."""
    found: list[Any] = []
    each(found.append, tree, kind)
    return found


def drawn(tree: Any, dtypes: tuple[str, ...], seed: int = 0) -> Any:
    """Arguments with arrays for operands: the first of the first dtype, and so on; all others of the last."""
    count = itertools.count()

    def draw(x: X) -> Array:
        if x.lasting:
            return x.draw("", seed)
        k = next(count)
        return x.draw(dtypes[min(k, len(dtypes) - 1)], seed + k)

    return each(draw, tree)


# --- memory -----------------------------------------------------------------------------------------


def _backwards(x: Array) -> Array:
    turned = tuple([slice(None, None, -1)] * x.ndim)
    return x[turned].copy()[turned]


def _spaced(x: Array) -> Array:
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    steps = tuple([slice(None, None, 2)] * x.ndim)
    wide[steps] = x
    return wide[steps]


def _unaligned(x: Array) -> Array:
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:]
    memory[:] = np.frombuffer(x.tobytes(), np.uint8)
    return memory.view(x.dtype).reshape(x.shape)


def _repeated(x: Array) -> Array:
    """All rows the first one, in its memory."""
    return np.broadcast_to(x[:1], x.shape)


def _read_only(x: Array) -> Array:
    x = x.copy()
    x.setflags(write=False)
    return x


def _mapped(x: Array) -> Array:
    if not x.size or x.dtype.kind == "V":
        return x
    with tempfile.TemporaryDirectory() as folder:
        mapped = np.memmap(os.path.join(folder, "entries"), x.dtype, "w+", shape=x.shape or (1,))
        mapped[...] = x
        return mapped.reshape(x.shape)


def _big_endian(x: Array) -> Array:
    return x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder(">"))


#: Ways in which entries lie in memory; all but "repeated" keep them.
MEMORY: dict[str, Callable[[Array], Array]] = {
    "Fortran": lambda x: np.asarray(x, order="F"),
    "backwards": _backwards,
    "spaced": _spaced,
    "unaligned": _unaligned,
    "repeated": lambda x: _repeated(x) if x.ndim and x.size else x,
    "read-only": _read_only,
    "mapped": _mapped,
    "big-endian": _big_endian,
}

#: Views that a function makes of its operands, in the syntax of NumPy and of Iverson.
VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "flipped": lambda space, x: x[::-1] if x.ndim else x,
    "steps": lambda space, x: space.concat([x, x], axis=-1)[..., ::2] if x.ndim else x,
    "transposed": lambda space, x: space.permute_dims(x, tuple(range(x.ndim))[::-1]),
    "broadcast": lambda space, x: space.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x,
    "part": lambda space, x: space.concat([x, x], axis=0)[x.shape[0] :] if x.ndim else x,
    "diagonal": lambda space, x: space.expand_dims(x, axis=0)[0] if x.ndim else x,
}


def promotions(count: int) -> Iterator[tuple[str, ...]]:
    """Pairs of dtypes, for calls of two operands or more; single ones for calls of one."""
    yield from itertools.product(DTYPES, repeat=min(count, 2))
