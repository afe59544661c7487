"""Donation: a tensor whose memory was given to a compiled function holds nothing; reading it is an error."""

from __future__ import annotations

from typing import NoReturn

from iverson.core.dispatch import Handle, Level, LevelValue, rebind
from iverson.core.errors import ArgumentError
from iverson.core.op import Op
from iverson.core.protocols import DType, LayoutValue, Params
from iverson.layouts import Layout, register


class _Donation(Level):
    """A level that is never entered: its values belong to a call that is over."""

    __slots__ = ()
    gone = (
        "a tensor whose memory was donated to it",
        "tensors that nobody gave away",
        "use the result of the call, or donate a copy: iverson.asarray(x, copy=True)",
    )

    def bind(self, op: Op, args: tuple[LayoutValue | complex, ...], params: Params) -> NoReturn:
        """Never called: the level is not entered."""
        raise AssertionError(op.name)


class Donated(LevelValue):
    """Value of a donated tensor: only its shape and dtype remain."""

    __slots__ = ("dtype", "shape")

    def __init__(self, level: Level, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(level)
        self.shape, self.dtype = shape, dtype  # type: ignore[misc]


def _no_entries(value: Donated) -> NoReturn:
    actual, expected, remedy = value._level.gone
    raise ArgumentError(value._level.name, got=actual, expected=expected, remedy=remedy)


register(
    Layout(
        name="donated",
        kind=Donated,
        to_strided=_no_entries,
        check=lambda value: None,
        buffers=lambda value: (),
        rebuild=lambda value, buffers: value,
        densify_warns=False,
    )
)


def give_away(handles: list[Handle], name: str) -> None:
    """Let handles hold nothing any more; ``name`` is that of the function that got their memory."""
    level = _Donation(name)
    for x in handles:
        rebind(x, Donated(level, x.shape, x.dtype), None, 0)


__all__ = ["give_away"]
