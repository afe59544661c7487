"""Reverse mode over statements: the gradients of a tensor, one statement per read and per linear term.

Out[w(p)] += body(p) with a read A[f(p)] in body turns around into

    dA[b, f(p)] += g * d body / d A[f(p)]    with g = dOut[b, w(p)], for p in the same domain,

restricted to where the guards of that read hold; b runs over the batch axes of the heads. With head=None
the cotangent is a Kronecker delta: b is w(p) itself, so that a Jacobian costs what its entries cost. No
Jacobian is formed on the way. Results are ordinary tensors; `eliminate` chooses the walk of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, overload

from iverson.core.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError, described
from iverson.core.inputs.arguments import as_function
from iverson.expr.build import const, index, select
from iverson.expr.nodes import Apply, Expr, producers_first
from iverson.te.derivatives.expression_derivatives import is_inexact
from iverson.te.derivatives.recurrence_derivatives import adjoint_recurrence
from iverson.te.derivatives.reduction_derivatives import shares_of_reads
from iverson.te.ir.evaluation_guards import Guards, conjunction
from iverson.te.ir.expressions import Extent, Read, Tensor, Var, reads_of, substitute, variables
from iverson.te.ir.index_arithmetic import depends_on_data, same_extent
from iverson.te.ir.nodes import Compute, Domain, Recurrence, Statement, tensors_in, unit_of
from iverson.te.ir.source_site import operation
from iverson.te.ir.supports import met, strong
from iverson.te.ir.verify import inside
from iverson.te.language.nonlinear_reductions import linear_statements
from iverson.te.rewrites.inlining import is_dear, is_whole, makes_all
from iverson.te.rewrites.lookup_tables import with_tables

OverrideRule = Callable[[Tensor, list[Tensor], Tensor], Sequence[Tensor | None]]
Override = Mapping[Any, tuple[Sequence[Tensor], OverrideRule]]
Step = Callable[[Tensor, Tensor, Tensor], Tensor]
Unit = Tensor | Recurrence


class DifferentiationResult(Sequence[Tensor]):
    """The gradients, one per input; also the cotangents of all tensors on the way.

    adjoints : by tensor, its cotangent (its Jacobian where head was None).
    adjoint_summands : by consumer and then by producer, the consumer's contribution to the producer's
        cotangent.

    >>> from iverson import te
    >>> x = te.placeholder((3,), name="x")
    >>> y = te.compute((3,), lambda i: x[i] * x[i], "y")
    >>> result = te.differentiate(y, [x])
    >>> len(result.gradients)
    1
    """

    def __init__(
        self,
        gradients: Sequence[Tensor],
        adjoints: dict[Tensor, Tensor],
        adjoint_summands: dict[Tensor, dict[Tensor, Tensor]],
    ) -> None:
        self.gradients = tuple(gradients)
        self.adjoints = adjoints
        self.adjoint_summands = adjoint_summands

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        return self.gradients[index]

    def __len__(self) -> int:
        return len(self.gradients)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.gradients)

    def __repr__(self) -> str:
        return f"DifferentiationResult({list(self.gradients)})"


def differentiate(
    output: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None,
    head: Tensor | Sequence[Tensor | None] | None = None,
    override: Override | None = None,
    fdiff: Step | None = None,
) -> DifferentiationResult:
    """The gradients of ``output`` (one tensor or several) with respect to ``inputs``.

    Parameters
    ----------
    output : a tensor, or several.
    inputs : tensors; None stands for every floating tensor the output depends on, producers first.
    head : the cotangent of the output (one per output, None for none), of shape batch + output.shape
        with one batch for all; each gradient then has shape batch + input.shape. head=None gives the
        full Jacobian, of shape output.shape + input.shape.
    override : ``{tensor: ([deps], fn)}``: the cotangents of a tensor's dependencies by
        ``fn(tensor, deps, head)``, one of shape batch + dep.shape per dependency, or None for zero.
    fdiff : ``fdiff(out, inp, head)`` replaces the single step from a tensor to one of its direct
        dependencies; of shape batch + inp.shape.

    Raises ShapeError for a head, override or fdiff of the wrong shape, GradientError for an output that
    is not floating. Where there is no derivative: `iverson.te.language.nonlinear_reductions.CONVENTIONS`.
    Method: Automatic differentiation for tensor expressions, as proposed to TVM (RFC 2498), with the
    Jacobians left implicit.

    >>> from iverson.te.language import definitions as te
    >>> A = te.placeholder((3,), name="A")
    >>> B = te.compute((3,), lambda i: A[i] * A[i], "B")
    >>> differentiate(B, A)[0]
    Compute(dB/dA: float64[3, 3])
    """
    outputs = _as_tensors(output, "output")
    if override is not None:
        _check_override(override)
    if fdiff is not None:
        as_function(fdiff, operation("differentiate"), "fdiff")
    reverse = _Reverse(outputs, _heads(outputs, head), override or {}, fdiff)
    if inputs is None:
        targets = [t for t in reverse.order if t not in outputs]
    else:
        targets = _as_tensors(inputs, "inputs")
    reverse.run(targets)
    return DifferentiationResult(
        [reverse.adjoint(t) for t in targets],
        {t: reverse.adjoint(t) for t in reverse.order if t in reverse.parts},
        reverse.summands,
    )


def _check_override(override: Override) -> None:
    """Raise ArgumentTypeError unless ``override`` is ``{tensor: ([tensors], function)}``."""
    entries = override.items() if isinstance(override, Mapping) else [(None, override)]
    for tensor, pair in entries:
        fits = isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], (tuple, list))
        if not (fits and callable(pair[1]) and all(isinstance(t, Tensor) for t in (tensor, *pair[0]))):
            raise ArgumentTypeError(
                operation("differentiate"),
                "override",
                got=described(override),
                expected="a dict {tensor: ([tensors it depends on], function)}",
            )


class _Reverse:
    """One reverse pass: adds up contributions to each tensor's cotangent, consumers first.

    heads : the cotangent of each output; None for the Jacobian of a single output.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        heads: Sequence[Tensor | None] | None,
        override: Override,
        fdiff: Step | None,
    ) -> None:
        self.override, self.fdiff = override, fdiff
        self.delta = outputs[0] if heads is None else None
        self.batch: tuple[Extent, ...] = outputs[0].shape
        if heads is not None:
            first = next(k for k, h in enumerate(heads) if h is not None)
            rank = heads[first].ndim - outputs[first].ndim  # type: ignore[union-attr]
            self.batch = heads[first].shape[:rank]  # type: ignore[union-attr]
        self.label = "/".join(o.name for o in outputs[:1])
        self.units = _units_below(outputs, self.dependencies)
        self.order = tensors_in(self.units)
        self.parts: dict[Tensor, list[Statement | Tensor]] = {}
        self.made: dict[Tensor, Tensor] = {}
        self.summands: dict[Tensor, dict[Tensor, Tensor]] = {}
        for o, h in zip(outputs, heads or [None] * len(outputs), strict=True):
            if h is not None:
                self.parts.setdefault(o, []).append(h)
        if self.delta is not None:
            self.parts[self.delta] = [_identity(self.delta)]

    def dependencies(self, tensor: Tensor) -> list[Tensor]:
        """Floating tensors to which the single step from ``tensor`` contributes."""
        return list(self.override[tensor][0]) if tensor in self.override else _dependencies(tensor)

    def run(self, targets: Sequence[Tensor]) -> None:
        """Carry cotangents from the outputs to the targets, through every tensor on the way."""
        relevant = set(targets)
        for unit in self.units:
            tensors = tensors_in([unit])
            if any(d in relevant for t in tensors for d in self.dependencies(t)):
                relevant.update(tensors)
        for unit in reversed(self.units):
            active = [t for t in tensors_in([unit]) if t in self.parts and t in relevant]
            if active and isinstance(unit, Recurrence):
                if unit.axis.hi is not None and same_extent(unit.axis.hi, 0):
                    continue  # no step, so nothing that depends on anything
                self.steps(unit, active, relevant)
            elif active:
                self.step(active[0], [d for d in self.dependencies(active[0]) if d in relevant])

    def steps(self, recurrence: Recurrence, active: Sequence[Tensor], relevant: set[Tensor]) -> None:
        """Step back through a recurrence: from its members with cotangents to the tensors that it reads.

        active : the members that have a cotangent and on which a target depends.
        relevant : the tensors whose cotangents are needed.
        """
        if self.fdiff is not None or any(t in self.override for t in recurrence.members):
            raise ArgumentError(
                operation("differentiate"),
                "fdiff" if self.fdiff is not None else "override",
                got=f"{active[0].name}, which te.scan defines",
                expected="a tensor of te.compute or te.scatter",
            )
        heads = {t: self.adjoint(t) for t in recurrence.members if t in self.parts}
        cotangents, contributions = adjoint_recurrence(
            recurrence,
            self.batch,
            heads,
            relevant - set(recurrence.members),
            lambda s, head, targets: adjoint_statements(s, head, self.batch, targets),
            self.label,
        )
        for t, cotangent in cotangents.items():
            self.made[t] = cotangent
            self.parts[t] = [cotangent]
        summands: dict[tuple[Tensor, Tensor], list[Statement | Tensor]] = {}
        for d, statement, by in contributions:
            summands.setdefault((by, d), []).append(statement)
        for (consumer, d), statements in summands.items():
            self.summand(consumer, d, statements)

    def step(self, tensor: Tensor, deps: list[Tensor]) -> None:
        """Step back from a tensor: add its contributions to the cotangents of ``deps``, which it reads."""
        contributions: dict[Tensor, list[Statement | Tensor]] = {}
        if tensor in self.override:
            all_deps, rule = self.override[tensor]
            results = rule(tensor, list(all_deps), self.adjoint(tensor))
            if len(results) != len(all_deps):
                raise ShapeError(
                    operation("differentiate"),
                    "override",
                    got=f"{len(results)} adjoints for {tensor.name}",
                    expected=f"{len(all_deps)}, one per dependency (None for zero)",
                )
            for d, result in zip(all_deps, results, strict=True):
                if result is not None and d in deps:
                    contributions[d] = [self.checked(result, d, "override")]
        elif self.fdiff is not None:
            for d in deps:
                contributions[d] = [self.checked(self.fdiff(tensor, d, self.adjoint(tensor)), d, "fdiff")]
        elif isinstance(tensor, Compute) and deps:
            head = None if tensor is self.delta else self.adjoint(tensor)
            for s in linear_statements(tensor):
                for d, statement in adjoint_statements(
                    with_tables(s, tensor)[0], head, self.batch, set(deps)
                ):
                    contributions.setdefault(d, []).append(_by_value(statement, tensor, s))
        for d, parts in contributions.items():
            self.summand(tensor, d, parts)

    def summand(self, consumer: Tensor, d: Tensor, parts: Sequence[Statement | Tensor]) -> None:
        """Add ``parts``, the contributions of ``consumer``, to the cotangent of ``d``.

        Their sum is noted as a tensor in `summands`, and each of the statements refers to that tensor.
        """
        total = self.total(d, parts, f"d{self.label}/d{d.name} by {consumer.name}")
        self.summands.setdefault(consumer, {})[d] = total
        total_stage = total if isinstance(total, Compute) else None
        linked_parts = [replace(p, summand=total_stage) if isinstance(p, Statement) else p for p in parts]
        self.parts.setdefault(d, []).extend(linked_parts)

    def checked(self, result: Tensor, dep: Tensor, argument: str) -> Tensor:
        """Return ``result``, a cotangent of ``dep`` from a user's function; an error if its shape is wrong.

        argument : the name of the argument with that function, for errors.
        """
        if not isinstance(result, Tensor):
            raise ArgumentTypeError(
                operation("differentiate"), argument, got=repr(result), expected="a tensor or None"
            )
        expected = (*self.batch, *dep.shape)
        if not _same_shape(result.shape, expected):
            raise ShapeError(
                operation("differentiate"),
                argument,
                got=f"an adjoint of {dep.name} of shape {result.shape}",
                expected=f"shape {expected}, batch + {dep.name}.shape",
            )
        return result

    def adjoint(self, tensor: Tensor) -> Tensor:
        """Cotangent of a tensor, after the steps back from all of its consumers."""
        if tensor not in self.made:
            parts = self.parts.get(tensor, [])
            self.made[tensor] = self.total(tensor, parts, f"d{self.label}/d{tensor.name}")
        return self.made[tensor]

    def total(self, tensor: Tensor, parts: Sequence[Statement | Tensor], name: str) -> Tensor:
        """Sum of contributions to the cotangent of ``tensor``, as one tensor with the name ``name``."""
        if len(parts) == 1 and isinstance(parts[0], Tensor):
            return parts[0]
        shape = (*self.batch, *tensor.shape)
        statements = [p if isinstance(p, Statement) else _copy(p) for p in parts]
        return Compute(shape, tensor.dtype, name, statements)


def differentiable_below(outputs: Sequence[Tensor]) -> frozenset[Tensor]:
    """Set of the tensors through which derivatives of the outputs pass, the outputs included."""
    return frozenset(tensors_in(_units_below(outputs, _dependencies)))


def _dependencies(tensor: Tensor) -> list[Tensor]:
    if not isinstance(tensor, Compute):
        return []
    tensors = (r.tensor for s in linear_statements(tensor) for r in reads_of([s.body]) if is_inexact(r))
    return list(dict.fromkeys(tensors))


def _units_below(outputs: Sequence[Tensor], dependencies: Callable[[Tensor], list[Tensor]]) -> list[Unit]:
    """Tensors and recurrences on which the outputs depend, producers first.

    dependencies : gives the tensors to which a tensor passes a derivative.
    """

    def below(unit: Unit) -> list[Unit]:
        units = (unit_of(d) for t in tensors_in([unit]) for d in dependencies(t))
        return [u for u in dict.fromkeys(units) if u is not unit]

    return producers_first(map(unit_of, outputs), below)


def adjoint_statements(
    statement: Statement, head: Tensor | None, batch: Sequence[Extent], targets: Iterable[Tensor]
) -> Iterator[tuple[Tensor, Statement]]:
    """Pairs (tensor, statement that adds to its cotangent), for each read of a target.

    There is one for each set of guards on indices of the read. Guards on data exclude no points: they become
    selects, which one pass over the domain adds up.

    head : the cotangent of the tensor that the statement writes, of shape batch + out.shape; None for the
        Kronecker delta.
    """
    body = statement.body
    if head is None:
        axes: tuple[Var, ...] = ()
        leading: tuple[Expr, ...] = statement.write
        g: Expr = const(1, body.dtype)
    else:
        axes = tuple(Var(f"b{k}", 0, n) for k, n in enumerate(batch))
        leading = axes
        g = head[(*axes, *statement.write)]
    contributions: dict[tuple[Tensor, tuple[Var, ...], Guards, tuple[Expr, ...]], Expr] = {}
    for share in shares_of_reads(body, g):
        entry, guards, value = share.entry, share.guards, share.value
        if entry.tensor not in targets or any(same_extent(n, 0) for n in entry.tensor.shape):
            continue
        plain = (c for c in guards if not depends_on_data([c]))
        where = Guards((*statement.domain.where, *share.where, *plain))
        indices = entry.indices
        on_data = [c for c in guards if depends_on_data([c])]
        if on_data:
            condition = conjunction(on_data)
            value = select(condition, value, const(0, value.dtype))
            indices = _in_range(entry, condition, where)
        key = entry.tensor, share.axes, where, indices
        contributions[key] = contributions[key] + value if key in contributions else value
    for (tensor, inner, where, indices), total in contributions.items():
        value = strong(total)
        domain = Domain((*axes, *statement.domain.axes, *inner), met(tuple(where), value, "sum"))
        yield tensor, Statement(None, (*leading, *indices), value, domain, "sum")


def _by_value(adjoint: Statement, tensor: Compute, s: Statement) -> Statement:
    """Let the statement ``adjoint`` read the value that ``s`` computes, if computing it again is expensive.

    ``Y = exp(x)  ->  dx = g Y``, and ``T[i] = sum_k exp(x[i, k] - m[i])  ->  dm[i] = -g[i] T[i]``.

    tensor : the tensor that ``s`` writes.
    """
    if tensor.statements != (s,) or not is_dear(s.body):
        return adjoint
    value = Read(tensor, s.write)
    if is_whole(s):
        return replace(adjoint, body=substitute((adjoint.body,), {s.body: value})[0])
    reduced = {v for v in s.domain.axes if all(v is not w for w in s.write)}
    factors = _factors(adjoint.body)
    other_factors = [e for e in factors if e is not s.body]
    independent = not reduced & set(variables((*other_factors, *adjoint.write, *adjoint.domain.where)))
    if not (makes_all(s) and independent and len(other_factors) == len(factors) - 1):
        return adjoint
    axes = tuple(v for v in adjoint.domain.axes if v not in reduced)
    body = prod(other_factors, start=value)
    return replace(adjoint, body=body, domain=replace(adjoint.domain, axes=axes))


def _factors(e: Expr) -> list[Expr]:
    """Factors of a product; of any other expression, itself."""
    product = isinstance(e, Apply) and e.name == "multiply"
    return [f for o in e.operands for f in _factors(o)] if product else [e]


def _in_range(read: Read, condition: Expr, where: Iterable[Expr]) -> tuple[Expr, ...]:
    """Indices of a read, with 0 in place of an index that may be out of range where ``condition`` fails.

    The term that is added there is 0.

    where : conditions that hold at all points.
    """
    where = tuple(where)
    return tuple(
        e if inside(e, n, where) else select(condition, e, index(0))
        for e, n in zip(read.indices, read.tensor.shape, strict=True)
    )


def _identity(tensor: Tensor) -> Statement:
    axes = tuple(Var(f"o{k}", 0, n) for k, n in enumerate(tensor.shape))
    return Statement(None, (*axes, *axes), const(1, tensor.dtype), Domain(axes), "sum")


def _copy(tensor: Tensor) -> Statement:
    axes = tuple(Var(f"a{k}", 0, n) for k, n in enumerate(tensor.shape))
    return Statement(None, axes, tensor[axes], Domain(axes), "sum")


def _as_tensors(value: Tensor | Sequence[Tensor], argument: str) -> list[Tensor]:
    """List of the tensors in ``value``, one or several; an error if they are not floating tensors."""
    tensors: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    for t in tensors:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(operation("differentiate"), argument, got=repr(t), expected="te tensors")
        if t.dtype.kind not in "fcV":
            raise GradientError(
                operation("differentiate"),
                argument,
                got=f"{t.name} of dtype {t.dtype}",
                expected="floating tensors",
            )
    if not tensors:
        raise ArgumentError(operation("differentiate"), argument, got="none", expected="a tensor")
    return tensors


def _heads(
    outputs: list[Tensor], head: Tensor | Sequence[Tensor | None] | None
) -> list[Tensor | None] | None:
    """List with the cotangent (or None) of each output; None if ``head`` is None.

    Raises an error unless there is one cotangent per output, each of shape batch + output.shape with one
    batch.
    """
    if head is None:
        if len(outputs) > 1:
            raise ArgumentError(
                operation("differentiate"),
                "head",
                got=f"None for {len(outputs)} outputs",
                expected="a head per output",
                remedy="take the Jacobian of one output at a time",
            )
        return None
    heads: list[Any] = list(head) if isinstance(head, (list, tuple)) else [head]
    present = [h for h in heads if h is not None]
    if len(heads) != len(outputs) or not present:
        raise ArgumentError(
            operation("differentiate"),
            "head",
            got=f"{len(present)} heads",
            expected=f"{len(outputs)}, one per output, not all None",
        )
    batches = set()
    for h, o in zip(heads, outputs, strict=True):
        if h is None:
            continue
        if not isinstance(h, Tensor):
            raise ArgumentTypeError(
                operation("differentiate"), "head", got=described(h), expected="a tensor expression"
            )
        rank = h.ndim - o.ndim
        if rank < 0 or not _same_shape(h.shape[rank:], o.shape):
            raise ShapeError(
                operation("differentiate"),
                "head",
                got=f"shape {h.shape}",
                expected=f"batch + {o.shape}, the shape of {o.name}",
            )
        batches.add(tuple(map(repr, h.shape[:rank])))
    if len(batches) > 1:
        raise ShapeError(operation("differentiate"), "head", got=f"batches {batches}", expected="one batch")
    return heads


def _same_shape(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    return len(a) == len(b) and all(map(same_extent, a, b))
