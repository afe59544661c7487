"""Work counters: counts of the work in a ``with`` block, and their table."""

from __future__ import annotations

from contextlib import AbstractContextManager

from iverson.core.counting.work import Work, counting
from iverson.core.inputs.arguments import checked


def count() -> AbstractContextManager[Work]:
    """Count matrix products, elementwise ops, bytes and skipped cotangents in a ``with`` block.

    Gives a `Work`: ``work.products`` (their number; a batch counts its size), ``work.product_shapes``,
    ``work.elementwise``, ``work.bytes`` (new memory per op, in any layout, with places of stored entries),
    ``work.entries`` (how many entries the results hold), ``work.undefined`` and ``work.unneeded`` (cotangents
    not computed because none arrived, or because nobody asked). Counts what this thread does.

    >>> import iverson as iv
    >>> with count() as work:
    ...     _ = iv.ones((2, 3)) @ iv.ones((3, 4))
    >>> work.products, dict(work.product_shapes)
    (1, {(2, 3, 4): 1})
    """
    return counting()


@checked
def table(work: Work) -> str:
    """A count as text: products by shape, then ops with their calls and memory, then what was skipped.

    >>> import iverson as iv
    >>> with count() as work:
    ...     _ = iv.ones((2, 3)) @ iv.ones((3, 4))
    >>> print(table(work))
    products                      1
      2 x 3 @ 3 x 4               1
    op                        calls     entries        bytes
      matmul                      1           8           64
    cotangents skipped: 0 undefined, 0 unneeded
    """
    lines = [f"{'products':<24}{work.products:>7}"]
    for (rows, inner, columns), times in sorted(work.product_shapes.items()):
        lines.append(f"  {f'{rows} x {inner} @ {inner} x {columns}':<22}{times:>7}")
    lines.append(f"{'op':<24}{'calls':>7}{'entries':>12}{'bytes':>13}")
    lines += [
        f"  {name:<22}{work.calls[name]:>7}{work.entries[name]:>12,}{work.bytes[name]:>13,}"
        for name in sorted(work.calls)
    ]
    lines.append(f"cotangents skipped: {work.undefined} undefined, {work.unneeded} unneeded")
    return "\n".join(lines)
