"""Product accumulation: a product that is added to a value is added by BLAS as it is computed.

t = a @ b; x = x + t   ->   x = a @ b + 1 * x
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from iverson.codegen.nests.nodes import Buffer, Kernel, Load, Store, statements
from iverson.codegen.programs.nodes import Branch, Nest, Product, Program, Repeat, Step, is_zero, uses, writes
from iverson.expr.nodes import Apply, same


def accumulated(program: Program) -> Program:
    """The program with products that BLAS adds to a value, where nothing else reads the product."""
    if not any(isinstance(s, Product) for s in program.steps) and not any(
        isinstance(s, Repeat | Branch) for s in program.steps
    ):
        return program
    use_counts = uses(program.steps)
    steps = _block(program.steps, use_counts)
    unused = use_counts.keys() - uses(steps).keys()
    return replace(program, buffers=tuple(b for b in program.buffers if b not in unused), steps=steps)


def _block(steps: tuple[Step, ...], use_counts: Counter[Buffer]) -> tuple[Step, ...]:
    new_steps: list[Step] = []
    for s in steps:
        if isinstance(s, Branch):
            s = replace(s, then=_block(s.then, use_counts), other=_block(s.other, use_counts))
        elif isinstance(s, Repeat):
            s = replace(s, body=_block(s.body, use_counts))
        elif isinstance(s, Nest):
            s = _accumulation(s, new_steps, use_counts)
        new_steps.append(s)
    return tuple(new_steps)


def _accumulation(s: Nest, before: list[Step], use_counts: Counter[Buffer]) -> Step:
    """A product that adds to its output, in place of the sum ``s`` and a product in ``before``.

    The product is then removed from ``before``. The result is ``s`` itself if it is no sum of a value and a
    product that nothing else reads.
    """
    if len(s.views) != 2 or not all(v.whole for v in s.views):
        return s
    for x, t in (s.views, s.views[::-1]):
        roles = {v.buffer: b.role for b, v in zip(s.kernel.buffers, s.views, strict=True)}
        if roles[x.buffer] != "inout" or t.buffer.role != "temp" or use_counts[t.buffer] != 2:
            continue
        makers = [k for k, p in enumerate(before) if isinstance(p, Product) and p.out.buffer == t.buffer]
        if not makers or not _is_sum(s.kernel) or x.buffer.shape != t.buffer.shape:
            continue
        p = before[k := makers[0]]
        assert isinstance(p, Product)
        factors = {p.left.buffer, p.right.buffer, t.buffer}
        if (
            not is_zero(p.beta)
            or x.buffer in factors
            or not factors.isdisjoint(_written_buffers(before[k + 1 :]))
        ):
            continue
        del before[k]
        return replace(p, out=replace(p.out, buffer=x.buffer), beta=1)
    return s


def _is_sum(kernel: Kernel) -> bool:
    """True if a kernel of two buffers adds one to the other, entry by entry."""
    stores = [s for phase in kernel.phases for s in statements((phase,)) if isinstance(s, Store)]
    if len(stores) != 1 or stores[0].combine != "assign":
        return False
    value = stores[0].value
    return (
        isinstance(value, Apply)
        and value.name == "add"
        and len({x.buffer.name for x in value.args if isinstance(x, Load)}) == 2
        and all(isinstance(x, Load) and same(x.indices, stores[0].indices) for x in value.args)
    )


def _written_buffers(steps: list[Step]) -> Iterator[Buffer]:
    for s in steps:
        yield from writes(s)


__all__ = ["accumulated"]
