"""Half-precision rewrite: functions of float16 and bfloat16 are computed in float32; a total is rounded once.

    B[i] = f(x, y)          ->   B[i] = half(f(single(x), single(y)))
    S[i] += half(i, k)      ->   T[i] += single(half(i, k));  S[i] = half(T[i])

So compiled code and the interpreter only move numbers of half precision and cast them. In an op (`te.op`),
inputs and results are in float32 already, and there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from iverson.core import dtypes
from iverson.expr.build import apply, cast, simplified_with
from iverson.expr.nodes import Apply, Expr, postorder
from iverson.te.ir.expressions import Var
from iverson.te.ir.nodes import Compute, Domain, Program, Statement, recurrence_of


def in_single(program: Program) -> Program:
    """The program with computations on numbers of half precision done in float32."""
    tensors = [*program.inputs, *program.outputs, *program.temporaries]
    if not any(dtypes.is_half(t.dtype) for t in tensors):
        return program
    return replace(program, statements=tuple(_widened(program)), _key=[])


def _widened(program: Program) -> Iterator[Statement]:
    """Statements in float32; sums into a tensor of half precision get a float32 tensor for their total."""
    for tensor, group in groupby(program.statements, key=lambda s: s.tensor):
        statements = [_computed(s) for s in group]
        if not dtypes.is_half(tensor.dtype) or all(s.combine == "assign" for s in statements):
            yield from statements
            continue
        if recurrence_of(tensor) is not None:
            yield from statements  # totals of a step: left to the interpreter
            continue
        total = Compute(tensor.shape, dtypes.float32, tensor.name, ())
        total.define(replace(s, body=cast(s.body, dtypes.float32)) for s in statements)
        yield from total.statements
        yield _rounded(total, tensor)


def _rounded(total: Compute, tensor: Compute) -> Statement:
    """Statement that writes the entries of ``total`` to ``tensor``, cast to its dtype."""
    axes = tuple(Var(f"a{k}", 0, n) for k, n in enumerate(tensor.shape))
    return Statement(tensor, axes, cast(total[axes], tensor.dtype), Domain(axes), strategy="gather")


def _computed(s: Statement) -> Statement:
    new = s.mapped(_in_single)
    if s.position is not None and dtypes.is_half(new.body.dtype):
        new = replace(new, body=cast(new.body, dtypes.float32))
    return new


def _in_single(root: Expr) -> Expr:
    """The same expression, with functions of half-precision numbers computed in float32 and cast back."""
    results: dict[Expr, Expr] = {}
    for e in postorder([root]):
        operands = [results[o] for o in e.operands]
        if isinstance(e, Apply) and any(dtypes.is_half(o.dtype) for o in operands):
            wide = [cast(o, dtypes.float32) if dtypes.is_half(o.dtype) else o for o in operands]
            results[e] = cast(apply(e.name, *wide), e.dtype)
        else:
            results[e] = simplified_with(e, operands)
    return results[root]
