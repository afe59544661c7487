"""In-place kernels: those that may write over what they read, and those that do nothing then."""

from __future__ import annotations

from dataclasses import replace

from iverson.codegen.nests.loop_facts import constant_extent
from iverson.codegen.nests.nodes import (
    Buffer,
    Kernel,
    Load,
    Loop,
    Stmt,
    Store,
    Var,
    expressions,
    statements,
    with_buffers,
)
from iverson.expr.nodes import Const, same, subexpressions


def over(kernel: Kernel, source: Buffer, out: Buffer) -> Kernel:
    """The kernel with one inout buffer, of the name of ``out``, in place of ``source`` and ``out``."""
    key = f"over {source.name} {out.name}"
    if key not in kernel.once:
        kernel.once[key] = _madeover(kernel, source, out)
    result: Kernel = kernel.once[key]
    return result


def _madeover(kernel: Kernel, source: Buffer, out: Buffer) -> Kernel:
    buffer = replace(out, role="inout")
    buffers = tuple(buffer if b is out else b for b in kernel.buffers if b is not source)
    by_name = {b.name: b for b in kernel.buffers} | {source.name: buffer, out.name: buffer}
    return replace(kernel, buffers=buffers, phases=tuple(with_buffers(p, by_name) for p in kernel.phases))


def is_pointwise(kernel: Kernel, read: str, written: str) -> bool:
    """True if each entry of ``read`` is read only to make the entry of ``written`` at the same place, once,
    before it.

    Then both may be one buffer.
    """
    key = f"pointwise {read} {written}"
    if key not in kernel.once:
        kernel.once[key] = _is_pointwise(kernel, read, written)
    return bool(kernel.once[key])


def _is_pointwise(kernel: Kernel, read: str, written: str) -> bool:
    """Find out what `is_pointwise` returns, which stores it."""
    stores = [
        (k, s)
        for k, phase in enumerate(kernel.phases)
        for s in statements((phase,))
        if isinstance(s, Store) and s.buffer.name == written
    ]
    if len(stores) != 1:
        return False
    where, store = stores[0]
    names = {i.name for i in store.indices if isinstance(i, Var)}
    fixed = sum(isinstance(i, Const) for i in store.indices)
    plain = store.combine == "assign" and not store.shared and len(names) + fixed == len(store.indices)
    if not plain or not _once(kernel.phases[where], store, names):
        return False
    after_store = False
    for k, phase in enumerate(kernel.phases):
        for s in statements((phase,)):
            loads = [x for e in expressions(s) for x in subexpressions(e) if isinstance(x, Load)]
            if any(x.buffer.name == written for x in loads):
                return False
            reads = [x for x in loads if x.buffer.name == read]
            if k == where and not all(same(x.indices, store.indices) for x in reads):
                return False
            if reads and (after_store or k > where):
                return False
            after_store = after_store or s is store
    return True


def _once(s: Stmt, store: Store, names: set[str]) -> bool:
    """True if no two iterations of the loops in ``s`` around ``store`` write one entry.

    names : the loop variables that are indices of the store.
    """
    if s is store:
        return True
    inner = [x for x in getattr(s, "body", ()) if any(y is store for y in statements((x,)))]
    if len(inner) != 1:
        return False
    if isinstance(s, Loop):
        injective = s.mark in ("parallel", "vector", "tile") or s.var in names
        if not injective and constant_extent(s) != 1:
            return False
    return _once(inner[0], store, names)


def is_nothing(kernel: Kernel) -> bool:
    """True if a kernel only writes the entries of its one buffer to their own places."""
    if len(kernel.buffers) != 1:
        return False
    stores = [s for phase in kernel.phases for s in statements((phase,)) if isinstance(s, Store)]
    return all(
        s.combine == "assign" and isinstance(s.value, Load) and same(s.value.indices, s.indices)
        for s in stores
    )


__all__ = ["is_nothing", "is_pointwise", "over"]
