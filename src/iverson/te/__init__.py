"""Tensor expressions: an op in index notation, its derivatives, and the exact points they need.

    >>> from iverson import te
    >>> A, B = te.placeholder((2, 3), name="A"), te.placeholder((3, 4), name="B")
    >>> k = te.reduce_axis((0, 3), "k")
    >>> C = te.compute((2, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    >>> dA, dB = te.differentiate(C, [A, B], head=te.placeholder((2, 4), name="H"))
    >>> for line in te.explain(dA).splitlines()[:10]:
    ...     line
    'dC/dA += ...'
    '  domain    { [i, k, j] : 0 <= i < 2 and 0 <= k < 3 and 0 <= j < 4 }'
    '  points    24 visited, 24 nonzero terms'
    '  strategy  gather: the write is axes themselves'
    '    for i in 0:2:'
    '        for k in 0:3:'
    '            for j in 0:4:'
    '                dC/dA[i, k] += H[i, j] * B[k, j]'
    'kernel 1: dC/dA'
    '  work      24 points, 208 bytes, 48 flops'

Elementwise functions are those of the op table: ``te.exp``, ``te.erf``, ``te.maximum``, ...

    >>> te.compute((2,), lambda i: te.exp(A[i, 0])).shape
    (2,)

Import rule: `te` imports `core`, `expr`, `layouts` and `codegen`; each sub-package imports only those before
it in this list.

- `ir`: the statement IR; its grammar is on one page in `iverson.te.ir.nodes`.
- `language`: the definitions that users write, turned into statements.
- `rewrites`: programs into equal programs: inlining, common tensors, lookup tables, blocks, index digits.
- `derivatives`: reverse and forward mode over statements.
- `elimination`: the points that each statement visits, and its translation to loop nests.
- `lowering`: compiled code of a program, its calls, and reports about both.
- `ops`: tensor expressions as ops, with the entry maps, batching and derivatives of an op.
"""

import typing as _typing

from iverson.core.python.foreign_names import in_notation as _in_notation
from iverson.core.python.foreign_names import nearest as _nearest
from iverson.core.scalars import SCALARS
from iverson.expr.build import select
from iverson.expr.nodes import Expr
from iverson.te.derivatives.forward_mode import jvp
from iverson.te.derivatives.reverse_mode import DifferentiationResult, differentiate
from iverson.te.elimination.zero_elimination import eliminate
from iverson.te.ir.expressions import Placeholder, Tensor
from iverson.te.ir.nodes import Compute, Program, program_of
from iverson.te.ir.print import program_text
from iverson.te.ir.scalar_namespace import F
from iverson.te.language.bounded_loops import while_
from iverson.te.language.definitions import (
    argmax,
    argmin,
    bind,
    bracket,
    clamp,
    compute,
    if_then_else,
    max,
    min,
    placeholder,
    prod,
    reduce_axis,
    scatter,
    sum,
    var,
)
from iverson.te.language.reducers import reducer
from iverson.te.language.scan import scan
from iverson.te.language.schedule_hints import keep, parallel, recompute, unroll
from iverson.te.lowering.explanation import explain
from iverson.te.ops.preferred_rules import prefer_derived, with_notation

__all__ = [
    "Compute",
    "DifferentiationResult",
    "Expr",
    "F",
    "Placeholder",
    "Program",
    "Tensor",
    "argmax",
    "argmin",
    "bind",
    "bracket",
    "clamp",
    "compute",
    "differentiate",
    "eliminate",
    "explain",
    "if_then_else",
    "jvp",
    "keep",
    "max",
    "min",
    "op",
    "parallel",
    "placeholder",
    "prefer_derived",
    "prod",
    "program_of",
    "program_text",
    "recompute",
    "reduce_axis",
    "reducer",
    "scan",
    "scatter",
    "select",
    "sum",
    "unroll",
    "var",
    "while_",
    "with_notation",
]

if _typing.TYPE_CHECKING:
    from iverson.te._elementwise import *
    from iverson.te.ops.op_signature import op as op
else:
    from iverson.te.ops.operator import op as op

    __all__ += list(SCALARS)

    def __getattr__(name: str) -> _typing.Any:
        """Elementwise functions of the table of scalars: ``te.exp`` is ``te.F.exp``."""
        if name in SCALARS:
            return getattr(F, name)
        usage = _in_notation(name, SCALARS) or _nearest(name, __all__, "te")
        raise AttributeError(f"module 'iverson.te' has no attribute {name!r}{usage}")


def __dir__() -> list[str]:
    return sorted(__all__)
