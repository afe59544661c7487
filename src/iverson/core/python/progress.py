"""Progress of long work on the terminal: a line on standard error that is erased when the work is done.

Nothing is written in the first second, nor where standard error is not a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

Item = TypeVar("Item")

#: Seconds before the first line, and between two; how many characters a full bar has.
PATIENCE, INTERVAL, WIDTH = 1.0, 0.1, 24
_ERASE = "\r\x1b[K"


def on_terminal() -> bool:
    """True if standard error is a terminal, which somebody may read."""
    return sys.stderr is not None and sys.stderr.isatty()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def shown(
    items: Iterable[Item], label: str, total: int, status: Callable[[], str] | None = None
) -> Iterator[Item]:
    """Iterate over ``items``, with a progress bar on the terminal; ``total`` is their number.

    status : a function whose result follows the bar.
    """
    if not on_terminal():
        yield from items
        return
    due = monotonic() + PATIENCE
    has_bar = False
    try:
        for count, item in enumerate(items, 1):
            if monotonic() >= due:
                bar = "#" * (WIDTH * count // max(total, 1))
                _write(
                    f"{_ERASE}{label} [{bar:.<{WIDTH}}] {count}/{total}{f'  {status()}' if status else ''}"
                )
                due, has_bar = monotonic() + INTERVAL, True
            yield item
    finally:
        if has_bar:
            _write(_ERASE)


class Pieces:
    """Line with a counter on the terminal, for pieces of work of unknown number.

    A piece is a block ``with pieces: ...``. The counter starts again after more than a second without a
    piece.
    """

    def __init__(self, label: str) -> None:
        self.label, self.count, self.start, self.last, self.drawn = label, 0, 0.0, 0.0, False

    def __enter__(self) -> None:
        now = monotonic()
        if now - self.last > PATIENCE:
            self.count, self.start = 0, now
        self.count += 1
        if now - self.start >= PATIENCE and on_terminal():
            _write(f"{_ERASE}{self.label}: {self.count}")
            self.drawn = True

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.last = monotonic()
        if self.drawn:
            _write(_ERASE)
            self.drawn = False
