"""What solves an equation, as a function of what the equation depends on: the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from iverson.array_api.linalg import solve
from iverson.array_api.manipulation import matrix_transpose
from iverson.array_api.sparse import spsolve
from iverson.autograd.function import Function
from iverson.autograd.mode import enable_grad
from iverson.core.dispatch import is_tracked
from iverson.graph.interpret import interpret
from iverson.transforms.derivatives import jacobian, vjp
from iverson.transforms.jit import jit

Condition = Callable[[Any], Any]


def implicit(
    condition: Condition,
    find: Callable[[], Any],
    like: Any,
    solve_transposed: Callable[[Condition, Any], Any] | None = None,
    layout: Literal["strided", "csr"] = "strided",
) -> Any:
    """What solves ``condition(x) = 0``: it depends on the tracked tensors that the condition does.

    condition : of a vector, gives one of its length; it is traced where it depends on such tensors.
    find : finds the solution, once, as a tensor that tracks nothing. It may read entries, in rules too.
    like : a vector of the solution's shape and dtype.
    solve_transposed : ``solve_transposed(product, g)`` gives w with product(w) = g, where ``product``
        multiplies with the transpose of the Jacobian; default: by the Jacobian, in the layout ``layout``.

    With J the Jacobian of the condition in x, and dc its differential in all else, dx = -J^-1 dc. The
    pullback solves with the transpose of J at the solution; so derivatives are exact to any order.
    """
    with enable_grad():
        if not is_tracked(condition(like)):
            return find()
    graph, (_, *captured) = jit(condition).traced(like)

    def of(x: Any, *others: Any) -> Any:
        return interpret(graph, [x, *others])[0]

    def by_matrix(of_x: Condition, y: Any, g: Any) -> Any:
        if layout == "csr":
            return spsolve(matrix_transpose(jacobian(of_x, layout="csr")(y)), g)
        return solve(matrix_transpose(jacobian(of_x)(y)), g)

    def by_products(of_x: Condition, y: Any, g: Any) -> Any:
        assert solve_transposed is not None
        return solve_transposed(lambda w: vjp(of_x, y)[1](w)[0], g)

    solved = by_matrix if solve_transposed is None else by_products

    class Solution(Function):
        @staticmethod
        def forward(ctx: Any, *others: Any) -> Any:
            y = find()
            ctx.save_for_backward(*others, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            *others, y = ctx.saved_tensors
            weights = solved(lambda y: of(y, *others), y, -g)
            return vjp(lambda *others: of(y, *others), *others)[1](weights)

    return Solution.apply(*captured)


__all__ = ["implicit"]
