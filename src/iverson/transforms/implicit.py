"""Implicit differentiation: the solution of an equation as a function of what the equation depends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from iverson.array_api.entries.manipulation import matrix_transpose
from iverson.array_api.linear_algebra.decompositions import solve as by_factors
from iverson.array_api.sparse_arrays.sparse_construction import spsolve
from iverson.autograd.functions.function import Function
from iverson.autograd.mode import enable_grad
from iverson.core import dtypes
from iverson.core.aval import Aval
from iverson.core.dispatch import Handle, bind, is_tracked
from iverson.core.protocols import NDArray
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.control.bodies import lifted
from iverson.graph.ir.interpret import interpret
from iverson.handles import asarray
from iverson.ops import F
from iverson.transforms.derivatives import jacobian, vjp
from iverson.transforms.jit import jit
from iverson.transforms.python_callbacks import External, external
from iverson.transforms.pytree_tracing import TracedFunction

if TYPE_CHECKING:
    from iverson.autograd.functions.context import Context
    from iverson.handles.tensor import Tensor

Condition = Callable[[Any], Any]


def implicit(
    condition: Condition,
    find: Callable[[], Tensor],
    like: Tensor,
    solve_transposed: Callable[[Condition, Tensor], Tensor] | None = None,
    layout: Literal["strided", "csr"] = "strided",
) -> Any:
    """Solution of ``condition(x) = 0``; it depends on the tracked tensors that the condition depends on.

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

    def of(x: Handle, *constants: Handle) -> Any:
        return interpret(graph, [x, *constants])[0]

    def by_matrix(of_x: Condition, y: Tensor, g: Tensor) -> Any:
        if layout == "csr":
            return spsolve(matrix_transpose(jacobian(of_x, layout="csr")(y)), g)
        return by_factors(matrix_transpose(jacobian(of_x)(y)), g)

    def by_products(of_x: Condition, y: Tensor, g: Tensor) -> Any:
        assert solve_transposed is not None
        return solve_transposed(lambda w: vjp(of_x, y)[1](w)[0], g)

    solved = by_matrix if solve_transposed is None else by_products

    class Solution(Function):
        @staticmethod
        def forward(ctx: Context, *constants: Tensor) -> Any:
            y = find()
            ctx.save_for_backward(*constants, y)
            return y

        @staticmethod
        def backward(ctx: Context, g: Tensor) -> Any:
            *constants, y = ctx.saved_tensors
            weights = solved(lambda y: of(y, *constants), y, -g)
            return vjp(lambda *constants: of(y, *constants), *constants)[1](weights)

    return Solution.apply(*captured)


def implicit_in_trace(
    function: Condition,
    condition_of: Callable[[Condition], Condition],
    solve: Callable[[Condition, NDArray], tuple[NDArray, bool | NDArray, NDArray]],
    start: Tensor,
    name: str,
    refused: Callable[[], None] | None = None,
) -> tuple[Any, Any]:
    """Solution of a condition on a function of traced or batched values, and True if the solver succeeded.

    function : of a vector; it is traced. condition_of : makes of it, or of one like it, the condition
        ``c(x) = 0``, a function of a vector that gives one of its length.
    solve : ``solve(function, start)`` finds the solution of a function of entries from a NumPy array: x,
        whether it was found, and which entries are free to move, as NumPy arrays. It is called when a graph
        runs, or for each example of a batch.
    start : a vector, traced itself or not. refused : raises where such a solution has no derivative.

    The derivative is as of `implicit`.
    """
    aval = Aval(start.shape, start.dtype)
    traced = TracedFunction(function, name, [aval], lambda h: ((h[0],), {}))
    body, consts = lifted(traced.graph, traced.captured)
    compiled = Compiled(body, name)

    def found(start: NDArray, *arrays: NDArray) -> Sequence[Any]:
        constants = list(map(asarray, arrays))
        return solve(lambda x: compiled([*constants, x])[0], start)

    of = External(found, (aval, Aval((), dtypes.bool), Aval(start.shape, dtypes.bool)))

    class Solution(Function):
        @staticmethod
        def forward(ctx: Context, start: Tensor, *consts: Tensor) -> Any:
            y, success, free = bind(external, (start, *consts), {"of": of})
            ctx.mark_non_differentiable(success, free)
            ctx.save_for_backward(*consts, y, free)
            return y, success, free

        @staticmethod
        def backward(ctx: Context, g: Tensor, *_: Tensor) -> Any:
            if refused is not None:
                refused()
            *constants, y, free = ctx.saved_tensors
            smooth = [k for k, x in enumerate(constants) if dtypes.is_inexact(x.dtype)]

            def restricted(x: Tensor, *values: Tensor) -> Any:
                inputs = list(constants)
                for k, c in zip(smooth, values, strict=True):
                    inputs[k] = c
                condition = condition_of(lambda x: interpret(body, [*inputs, x])[0])
                return F.where(free, condition(x), x - y)

            smooth_values = [constants[k] for k in smooth]
            weights = by_factors(matrix_transpose(jacobian(restricted)(y, *smooth_values)), -g)
            grads: list[Any] = [None] * (1 + len(constants))
            for k, ct in zip(
                smooth, vjp(lambda *c: restricted(y, *c), *smooth_values)[1](weights), strict=True
            ):
                grads[1 + k] = ct
            return tuple(grads)

    y, success, _ = Solution.apply(start, *consts)
    return y, success


__all__ = ["implicit", "implicit_in_trace"]
