"""Index notation of ops (`te` of a record), and the vjp and jvp that follow from it.

A record says ``te=lazy_te(lambda T, x, *, axis: T.compute(...))``; T is the tensor-expression language,
imported when the op is first compiled. The derived vjp and jvp are given to an op that has none
(`complete`), or stand in place of the hand-written ones (`iverson.te.ops.preferred_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from iverson.core import table
from iverson.core.op import Body, Op, Rule, Sampler, reading
from iverson.core.protocols import DType, Namespace, Shaped
from iverson.core.shapes import Shape, broadcast_shapes, reduced_shape

if TYPE_CHECKING:
    from iverson.expr.nodes import Expr
    from iverson.te.ir.expressions import Var

Notation = Callable[..., Any]


class Indexed(Shaped, Protocol):
    """A tensor of the language: an index of it is an expression of an entry."""

    def __getitem__(self, index: Expr | Index, /) -> Expr: ...


class Language(Protocol):
    """``T``: the language of tensor expressions, `iverson.te`, and the functions of entries in it."""

    @property
    def F(self) -> Namespace:
        """Functions of entries, by name."""

    def compute(
        self,
        shape: Shape,
        fcompute: Callable[..., Expr | complex],
        name: str = "",
        dtype: DType | None = None,
    ) -> Any: ...
    def scatter(
        self,
        shape: Shape,
        domain: Shape,
        fscatter: Callable[..., tuple[Expr | Index, Expr]],
        name: str = "",
        combine: str = "sum",
    ) -> Any: ...
    def reduce_axis(self, bounds: tuple[int, int]) -> Var: ...
    def sum(self, body: Expr, axis: Var | Sequence[Var], dtype: DType | None = None) -> Expr: ...
    def select(self, condition: Expr, then: Expr | complex, other: Expr | complex) -> Expr: ...
    def clamp(self, index: Expr, lo: int, hi: int) -> Expr: ...


#: An index in a tensor, and an operand: a tensor, or a number as it is.
Index: TypeAlias = "tuple[Expr | int, ...]"
TensorOperand: TypeAlias = Indexed | complex


def lazy_te(build: Notation) -> Notation:
    """The ``te`` of an op from ``build(T, *placeholders, **params)``; T, the language, is imported late."""

    def te(*xs: Indexed, **params: Any) -> Any:
        from iverson import te as language

        return build(language, *xs, **params)

    return te


def elementwise(name: str) -> Notation:
    """The ``te`` of the elementwise function ``name``; operands broadcast."""

    def build(T: Language, *xs: Indexed) -> Any:
        shape = broadcast_shapes(name, *(x.shape for x in xs))
        function = getattr(T.F, name)
        return T.compute(shape, lambda *i: function(*(read(x, i) for x in xs)))

    return lazy_te(build)


def over(T: Language, like: Shaped, function: Callable[..., Expr | complex], *operands: TensorOperand) -> Any:
    """Tensor with the shape and dtype of ``like``: ``function`` of entries of operands, which broadcast."""
    return T.compute(like.shape, lambda *i: function(*(read(x, i) for x in operands)), dtype=like.dtype)


def read(x: Any, i: Index) -> Any:
    """Entry of an operand for entry i of a result to which it is broadcast; a number is returned itself."""
    return x[stretched_index(x.shape, i)] if hasattr(x, "shape") else x


def stretched_index(shape: Shape, i: Index) -> tuple[Any, ...]:
    """The index in an operand of this shape, for entry i of the result that the operand is broadcast to."""
    index = i[len(i) - len(shape) :]
    return tuple(0 if n == 1 else k for n, k in zip(shape, index, strict=True))


def reduction(kind: str) -> Notation:
    """The ``te`` of a reduction of the given kind ("sum", "max") over a normalised tuple of axes."""

    def build(T: Language, x: Indexed, *, axis: Shape, keepdims: bool) -> Any:
        outer_axes = [k for k in range(len(x.shape)) if k not in axis]
        shape = reduced_shape(x.shape, axis, keepdims)

        def entry(*i: Expr) -> Any:
            reduced = {k: T.reduce_axis((0, x.shape[k])) for k in axis}
            outer_index = [i[k] for k in outer_axes] if keepdims else list(i)
            index = reduced | dict(zip(outer_axes, outer_index, strict=True))
            body = x[tuple(index[k] for k in range(len(x.shape)))]
            return getattr(T, kind)(body, axis=list(reduced.values())) if axis else body

        return T.compute(shape, entry)

    return lazy_te(build)


@dataclass(frozen=True, eq=False)
class Moves:
    """The ``te`` of an op that only moves entries.

    shape_of : ``shape_of(x.shape, **params)``, the shape of the result.
    source : ``source(x.shape, i, **params)``, the index in x of entry i of the result.
    """

    shape_of: Callable[..., Shape]
    source: Callable[..., Index]

    def __call__(self, x: Indexed, **params: Any) -> Any:
        from iverson import te

        shape = self.shape_of(x.shape, **params)
        return te.compute(shape, lambda *i: x[self.source(x.shape, i, **params)])


def complete(op: Op) -> Op:
    """The op with a vjp and jvp derived from its index notation.

    It is unchanged if it has a vjp, is linear or has no notation.
    """
    if op.te is None or op.vjp or op.linear_in:
        return op

    calls = () if op.samples is None else op.samples(Sampler())
    count = max((len(s.args) for s in calls), default=0) or len(_positional(op.te))

    def late(choose: Callable[..., Rule]) -> Rule:
        @reading(range(count))
        def rule(*args: Any, **params: Any) -> Any:
            from iverson.te.ops.preferred_rules import derived_rules

            return choose(*derived_rules(op.name, count))(*args, **params)

        return rule

    return replace(
        op,
        forward=Body(op.forward, op.trapping, op.signals),
        vjp=late(lambda vjp, _: vjp),
        jvp=tuple(late(lambda _, jvp, i=i: jvp[i]) for i in range(count)),
    )


def _positional(function: Notation) -> list[str]:
    """Names of the positional parameters of a ``te``."""
    import inspect

    return [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


table.definition_hooks.append(complete)

__all__ = ["complete", "lazy_te"]
