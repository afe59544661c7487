"""`compilations`: the graphs that were compiled, each with its reason."""

from __future__ import annotations

from iverson.graph.calls.compilation_log import LOG, Compilation


def compilations() -> list[Compilation]:
    """The compilations of this process, the last thousand of them, in order, each with its reason.

    Returns a list of `Compilation`. A function that is compiled again and again says here what changes
    between calls: an extent, a dtype, a number that is part of what is computed, or what it reads from
    outside.

    >>> import iverson as iv
    >>> scaled = iv.jit(lambda x, c: x * c)
    >>> for n, c in [(3, 0.5), (3, 0.25), (3, 0.125), (4, 0.125)]:
    ...     y = scaled(iv.ones(n), c)
    >>> for c in iv.explain.compilations()[-3:]:
    ...     print(c.name, "|", c.reason)
    jit(<lambda>) | the first call
    jit(<lambda>) | numbers differ from those of another call: they are inputs now
    jit(<lambda>) | x: float64[3] before, float64[4] now
    """
    return list(LOG)


__all__ = ["Compilation", "compilations"]
