"""Matrix-chain ordering: chains of products are multiplied in the order with the fewest multiply-adds.

    %3 = matmul(%0, %1)     of (512, 512) and (512, 512)    %3 = matmul(%1, %2)
    %4 = matmul(%3, %2)     of (512, 512) and (512, 1)  ->  %4 = matmul(%0, %3)

A chain is products of matrices, each of which is read by the next product alone, also transposed. The order
is found by dynamic programming over the parts of the chain (Cormen et al., Introduction to Algorithms,
section 15.2), and taken if it is better than the present one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iverson.core.entries import FULL
from iverson.graph.ir.dead_code import dead_code
from iverson.graph.ir.nodes import Equation, Graph, Operand, Value
from iverson.graph.passes.rewriting import Writer

#: How a chain is multiplied: the number of a factor, or two chains.
Order = Any
#: A factor, and whether it is transposed.
Factor = tuple[Value, bool]


def contraction(graph: Graph) -> Graph:
    """The graph with chains of products in the best order."""
    if sum(e.op.name == "matmul" for e in graph.equations) < 2:
        return graph
    writer = Writer(graph)
    inner = _inner(graph, writer)
    for e in graph.equations:
        better, factors = None, list[Factor]()
        if _is_product(e) and e.results[0] not in inner:
            factors, now = _chain(writer, e, False)
            shapes = [x.shape[::-1] if transposed else x.shape for x, transposed in factors]
            best, cost = cheapest(shapes)
            better = best if cost < multiply_adds(now, shapes) else None
        if better is None:
            writer.keep(e)
        else:
            _write(writer, better, factors, e)
    return dead_code(writer.graph(graph))


def _inner(graph: Graph, writer: Writer) -> set[Value]:
    """Results of products that are factors of another product: they are ordered as part of its chain."""
    results: set[Value] = set()
    for e in graph.equations:
        writer.made.update(dict.fromkeys(e.results, e))
    for e in graph.equations:
        if _is_product(e):
            for x in e.operands:
                product = _product_of(writer, x)
                if product is not None:
                    results.update(product[0].results)
    return results


def _is_product(e: Equation) -> bool:
    """True if an equation is a product of two dense matrices."""
    return e.op.name == "matmul" and all(
        type(x) is Value and len(x.shape) == 2 and x.aval.support is FULL and x.dtype == e.results[0].dtype
        for x in e.operands
    )


def _product_of(writer: Writer, x: Operand) -> tuple[Equation, bool] | None:
    """The product that a factor is, and whether it is transposed.

    None if it is no product, or if something else reads it too.
    """
    transpose = writer.by(x, "permute_dims", alone=True)
    transposed = transpose is not None and transpose.params["axes"] == (1, 0)
    source = transpose.operands[0] if transpose is not None and transposed else x
    product = writer.by(source, "matmul", alone=True)
    return None if product is None or not _is_product(product) else (product, transposed)


def _chain(writer: Writer, e: Equation, transposed: bool) -> tuple[list[Factor], Order]:
    """The factors of a product from left to right, and the order in which they are multiplied now.

    transposed : whether the factors are of the transposed product.
    """
    factors: list[Factor] = []
    orders: list[Order] = []
    for x in e.operands[::-1] if transposed else e.operands:
        product = _product_of(writer, x)
        operand_factors, order = (
            ([(x, transposed)], 0)
            if product is None
            else _chain(writer, product[0], transposed != product[1])
        )
        orders.append(_shifted(order, len(factors)))
        factors += operand_factors
    return factors, tuple(orders)


def _shifted(order: Order, by: int) -> Order:
    return order + by if isinstance(order, int) else tuple(_shifted(x, by) for x in order)


def multiply_adds(order: Order, shapes: Sequence[tuple[int, ...]]) -> int:
    """Number of multiply-adds of an order.

    >>> multiply_adds(((0, 1), 2), [(2, 3), (3, 4), (4, 5)])
    64
    """

    def of(order: Order) -> tuple[int, int, int]:
        if isinstance(order, int):
            return (*shapes[order], 0)  # type: ignore[return-value]
        (m, k, first), (_, n, second) = map(of, order)
        return m, n, first + second + m * k * n

    return of(order)[2]


def cheapest(shapes: Sequence[tuple[int, ...]]) -> tuple[Order, int]:
    """The order with the fewest multiply-adds, and these.

    >>> cheapest([(9, 9), (9, 9), (9, 1)])
    ((0, (1, 2)), 162)
    """
    count = len(shapes)
    best: dict[tuple[int, int], tuple[int, Order]] = {(k, k + 1): (0, k) for k in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            best[i, j] = min(
                (
                    (
                        best[i, k][0] + best[k, j][0] + shapes[i][0] * shapes[k][0] * shapes[j - 1][1],
                        (best[i, k][1], best[k, j][1]),
                    )
                    for k in range(i + 1, j)
                ),
                key=lambda candidate: candidate[0],
            )
    cost, order = best[0, count]
    return order, cost


def _write(writer: Writer, order: Order, factors: Sequence[Factor], e: Equation) -> None:
    def made(order: Order, result: Value | None) -> Value:
        if isinstance(order, int):
            x, transposed = factors[order]
            return writer.write("permute_dims", x, where=e.where, axes=(1, 0)) if transposed else x
        lhs, rhs = (made(x, None) for x in order)
        return writer.write("matmul", lhs, rhs, where=e.where, result=result)

    made(order, e.results[0])
