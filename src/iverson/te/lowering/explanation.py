"""`explain`: the domain, points, strategy and loops that elimination chose, and then the kernels, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from iverson.codegen.schedule.parallel_scatter import sharing
from iverson.core.dispatch import Handle
from iverson.core.errors import ArgumentTypeError, described
from iverson.core.protocols import Value
from iverson.te.elimination.guarded_boxes import as_box
from iverson.te.elimination.nest_translation import buffer_for, compiles, phases_of, task_of
from iverson.te.elimination.point_counts import domain_size, walk_size
from iverson.te.elimination.step_walks import over_steps
from iverson.te.elimination.zero_elimination import eliminate, is_symbolic, owned
from iverson.te.ir.expressions import Tensor, extent
from iverson.te.ir.fresh_names import meaning
from iverson.te.ir.nodes import Program, Statement, step_axes
from iverson.te.ir.print import domain_text, statement_text
from iverson.te.ir.ragged_axes import is_ragged
from iverson.te.ir.source_site import Constant
from iverson.te.lowering.kernel_report import kernels_text


@dataclass(frozen=True)
class Count:
    """Number of points that a walk visits and of nonzero terms in the domain; None if not counted.

    visited : times the innermost level is reached, failed guards included (but not those that only
        say which outputs of a gather stay 0).
    terms : points of the domain (each is a nonzero term, but for guards that depend on data).
    """

    visited: int | None
    terms: int | None


def explain(
    result: Program | Tensor | Iterable[Tensor] | Callable[..., Handle | tuple[Handle, ...]],
    *args: Value | complex,
    **params: Constant,
) -> str:
    """Per statement: domain, points visited, nonzero terms, the strategy and why, and the loops. Then the
    kernels that these are compiled to. Names are those of the definition; of a tensor that nobody named, a
    line ``what`` says what it holds.

    ``result`` is a DifferentiationResult, a tensor, several, or a program. Or it is a function that `op`
    made, and ``args`` and ``params`` are the arguments of a call: that call is carried out and explained,
    and then the gradients in those arguments that require gradients, as one program.

    A statement that nearly fills its box is run as this box, with guards, as measured to be faster; the line
    ``points`` has both numbers, and the line ``program`` those of all statements and of all kernels.

    Of each kernel: points, bytes and floating-point operations (an elementary function counts ten); the time
    that is expected, and that at this machine's peak, which is measured once per process; threads. A line
    warns of what is expected to reach less than a quarter of peak, and why. Of each stage: whether it
    is kept or recomputed where it is read, and why. Then levers that nothing came of, and where a program was
    too big for the best walk. Sizes that are not bound are taken to be 64.

    >>> from iverson import te
    >>> A = te.placeholder((3, 3), name="A")
    >>> print(explain(te.compute((3, 3), lambda i, j: te.bracket(j <= i) * A[i, j], "B")))
    B = ...
      domain    { [i, j] : 0 <= i < 3 and 0 <= j < 3 and i >= j }
      points    6 visited, 6 nonzero terms
      strategy  gather: the write is axes themselves
        for i in 0:3:
            for j in 0:i + 1:
                B[i, j] = A[i, j]
    kernel 1: B, filled
    ...
    kernel 2: B
      work      6 points, 144 bytes, 0 flops
      expected  ... us, at peak ... us (... GFLOP/s, ... GB/s)
      threads   1: more would not pay over i...

    An op is explained at a call of it:

    >>> import iverson as iv
    >>> @te.op
    ... def total(x):
    ...     k = te.reduce_axis(x.shape[0])
    ...     return te.compute((), lambda: te.sum(x[k] * x[k], axis=k))
    >>> [line for line in explain(total, iv.ones(3, requires_grad=True)).splitlines() if "te." in line]
    ['te.total', 'gradients of te.total in x']

    Raises
    ------
    ArgumentTypeError
        If there are arguments beside what is not an op; and as the op does.
    """
    expression = getattr(result, "expression", None)
    if expression is not None:
        programs = expression.programs(args, params)
        return "\n".join(f"{title}\n{_explained(eliminate(p))}" for title, p in programs.items())
    if args or params or callable(result):
        raise ArgumentTypeError(
            "te.explain",
            "result",
            got=described(result) + (", and arguments beside it" if args or params else ""),
            expected="a function that te.op made and the arguments of a call, or tensors alone",
        )
    return _explained(result if isinstance(result, Program) else eliminate(result))


def _explained(program: Program) -> str:
    """Text for each statement of a program, then for its kernels."""
    lines = []
    for s in program.statements:
        count = counts(s)
        loops = [f"    {line}" for line in statement_text(s).splitlines()]
        lines += [
            f"{s.tensor.name} {'+=' if s.combine == 'sum' else '='} ...",
            *([f"  what      {description}"] if (description := meaning(s.tensor.name)) else []),
            f"  domain    {domain_text(s)}",
            f"  points    {_points(s, count)}",
            f"  strategy  {s.strategy or 'none'}: {s.reason or 'not chosen yet'}{_sharing(s)}",
            *loops,
        ]
    visited = [counts(s).visited for s in program.statements]
    return "\n".join(
        [*lines, *kernels_text(program, None if None in visited else sum(n or 0 for n in visited))]
    )


def _sharing(s: Statement) -> str:
    """Text that says how a compiled scatter protects entries that several threads write; "" if it need not.

    See `codegen.schedule.parallel_scatter`.
    """
    if s.strategy != "scatter" or is_symbolic(s) or not compiles(s):
        return ""
    tensors = dict.fromkeys((s.tensor, *(r.tensor for r in s.reads)))
    buffers = {t: buffer_for(t, k) for k, t in enumerate(tensors)}
    ways = dict.fromkeys(sharing(p) for p in phases_of(s, task_of(s, buffers, False), buffers))
    return "".join(f"; {way}" for way in ways)


def _points(s: Statement, count: Count) -> str:
    if is_ragged(s):
        return "those between the bounds, which are read when run"
    box = counts(as_box(s)).visited
    run = f"; run as a box of {box}, whose loops are faster" if s.walk and box != count.visited else ""
    return f"{_shown(count.visited)} visited, {_shown(count.terms)} nonzero terms{run}"


def _shown(n: int | None) -> str:
    return "many" if n is None else str(n)


def counts(statement: Statement) -> Count:
    """The points a statement visits and the points of its domain, each counted on its own."""
    if is_ragged(statement):
        return Count(None, None)
    total = domain_size(statement.domain)
    if statement.walk is not None:
        steps = step_axes(statement.tensor)  # which are taken anyway, also those that guards leave out
        outputs = (*owned(statement, statement.strategy), *steps)
        return Count(walk_size(over_steps(statement.walk, steps), outputs), total)
    box = [n for v in statement.domain.axes if isinstance(n := extent(v), int)]
    return Count(prod(box) if len(box) == len(statement.domain.axes) else None, total)
