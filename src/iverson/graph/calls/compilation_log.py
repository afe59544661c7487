"""Log of compilations: which graphs were compiled in this process, when, and for what reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

#: The number of compilations that are kept, the last ones.
LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Compilation:
    """One graph that was compiled.

    Attributes
    ----------
    name : of the function, and of its derivative.
    reason : why no program compiled before could be used.
    equations : of the graph.
    seconds : of wall time. Kernels that are on disk already take less.

    >>> import iverson as iv
    >>> compilation = iv.explain.Compilation("f", "it was not compiled before", 3, 0.01)
    >>> compilation.name, compilation.equations
    ('f', 3)
    """

    name: str
    reason: str
    equations: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {self.reason} ({self.equations} equations, {self.seconds:.3f} s)"


#: The last compilations of this process, in order.
LOG: deque[Compilation] = deque(maxlen=LENGTH)


def note(name: str, reason: str, equations: int, seconds: float) -> None:
    """Note a compilation."""
    LOG.append(Compilation(name, reason, equations, seconds))


__all__ = ["LOG", "Compilation", "note"]
