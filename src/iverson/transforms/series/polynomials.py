"""Coefficients that are polynomials in the direction: of a mixed operator, all directions at once.

Coefficient k of a value has one number for each element of the basis of degree k of the operator's apolar
algebra (`iverson.transforms.series.apolar`), along axis 0; that of the highest order is one number, the
operator's value. A product of two coefficients is a sum of products of such numbers, which are gathered for
one call of the op.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from iverson.core.dispatch import make_handle, value_of
from iverson.core.protocols import NDArray
from iverson.core.table import F
from iverson.transforms.batching.batch_level import Batch, Batched
from iverson.transforms.series.apolar import ApolarAlgebra
from iverson.transforms.series.curves import ByLines, Curves, Factor, Linear, UncollapsibleError

#: An operand of a call.
Operand: TypeAlias = Any


class Polynomials:
    """Coefficients in an algebra: what a series level takes in the place of `Directions`.

    batches : of each degree from 1 to the order less 1.
    """

    __slots__ = ("algebra", "batches")

    def __init__(self, algebra: ApolarAlgebra) -> None:
        self.algebra = algebra
        self.batches = [Curves(algebra.size(k)) for k in range(1, algebra.order)]

    @contextmanager
    def entered(self) -> Iterator[Polynomials]:
        """A block within the levels of the coefficients of all degrees."""
        with ExitStack() as blocks:
            for batch in self.batches:
                blocks.enter_context(batch)
            yield self

    @property
    def key(self) -> Hashable:
        """Key of the coefficients: the operator."""
        return self.algebra.terms

    def anew(self) -> Polynomials:
        """The same, with levels of their own."""
        return Polynomials(self.algebra)

    def batch(self, degree: int) -> Batch | None:
        """The batch of the coefficients of a degree; None if these are one number."""
        return self.batches[degree - 1] if 0 < degree < self.algebra.order else None

    def batch_of(self, c: Operand) -> Batch | None:
        """The batch of a coefficient; None for one that is one number."""
        value = value_of(c, None)
        if not isinstance(value, Batched) or not value.lead:
            return None
        level: Any = value._level
        return level if level in self.batches else None

    def summed(self, c: Operand) -> Any:
        """Raises `UncollapsibleError`: a coefficient of one degree does not become one of another."""
        raise UncollapsibleError("series", got="a derivative in the place of a value", expected="a value")

    def product(self, order: int, call: Linear, args: Sequence[Operand], factors: Sequence[Factor]) -> Any:
        """The result of a call that is linear in each factor; a tuple if the call gives one."""
        present = [(positions, degree) for positions, degree in factors if degree]
        if len(present) < 2:
            return call(*args)
        degrees = tuple([degree for _, degree in present])
        members = [[id(args[i]) for i in positions] for positions, _ in present]
        square = all(m == members[0] for m in members)
        index, weights = self.algebra.table(degrees, square)
        operands = list(args)
        with Curves(weights.size) as batch:
            for (positions, degree), places in zip(present, index, strict=True):
                for i in positions:
                    lead = self._held(args[i], degree)
                    numbers = make_handle(places.reshape(-1))
                    operands[i] = batch.of_examples(F.gather(lead, numbers, axes=(0,)))
            out = call(*operands)
            parts = [batch.outside(x) for x in (out if isinstance(out, tuple) else (out,))]
        results = tuple([self._summed(*part, weights, sum(degrees)) for part in parts])
        return results if isinstance(out, tuple) else results[0]

    def by_lines(self, call: ByLines, operands: Sequence[Sequence[Operand]]) -> list[list[Operand]]:
        """The coefficients of results of a call that is made along lines, each by itself."""
        lines = self.algebra.lines
        count = len(lines.values[0])
        with Curves(count) as batch:

            def on_lines(c: Operand, degree: int) -> Operand:
                if c is None or degree == 0:
                    return c
                return batch.of_examples(_along_lead(lines.values[degree], self._held(c, degree)))

            results = call([[on_lines(c, k) for k, c in enumerate(cs)] for cs in operands])
            parts = [[batch.outside(c) for c in cs] for cs in results]

        def coordinates(x: Operand, lead: int, degree: int) -> Operand:
            if x is None or degree == 0:
                return x
            x = x if lead else F.broadcast_to(x, shape=(count, *x.shape))
            y = _along_lead(lines.coordinates[degree - 1], x)
            of = self.batch(degree)
            return F.reshape(y, shape=y.shape[1:]) if of is None else of.of_examples(y)

        return [[coordinates(*part, k) for k, part in enumerate(cs)] for cs in parts]

    def _held(self, c: Operand, degree: int) -> Any:
        """The handle with all numbers of a coefficient along axis 0."""
        if self.batch_of(c) is not None:
            return value_of(c).held
        return F.broadcast_to(c, shape=(self.algebra.size(degree), *c.shape))

    def _summed(self, x: Operand, lead: int, weights: NDArray, degree: int) -> Any:
        """The sums of products that make a coefficient."""
        if not lead:
            return x
        size, length = weights.shape
        if (weights != 1).any():
            x = F.multiply(x, make_handle(weights.reshape(-1, *(1,) * (x.ndim - 1)).astype(x.dtype)))
        if length > 1:
            x = F.sum(F.reshape(x, shape=(size, length, *x.shape[1:])), axis=(1,), keepdims=False)
        batch = self.batch(degree)
        return F.reshape(x, shape=x.shape[1:]) if batch is None else batch.of_examples(x)


def _along_lead(matrix: NDArray, x: Operand) -> Any:
    """A product of a matrix with an array along axis 0."""
    rows = F.reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))
    return F.reshape(F.matmul(matrix.astype(x.dtype), rows), shape=(len(matrix), *x.shape[1:]))
