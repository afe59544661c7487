"""`custom_vjp` and `custom_jvp`: functions of pytrees whose derivative the user says, under JAX's names.

Each is a `Function` (`iverson.autograd`) whose arguments and results are the leaves of trees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias

from iverson.array_api.entries.creation import zeros_like
from iverson.autograd import Function
from iverson.core.dispatch import Operand
from iverson.core.errors import ArgumentError, MissingRuleError
from iverson.core.inputs.arguments import as_function
from iverson.core.protocols import Pytree
from iverson.core.shapes import as_int
from iverson.handles import Tensor, asarray
from iverson.transforms.derivatives import vjp
from iverson.transforms.trees import P, R, flatten, tensors, unflatten

#: Arguments that are not differentiated, with their positions.
Fixed: TypeAlias = Sequence[tuple[int, Pytree]]
#: Context of a call, on which rules set attributes.
Ctx: TypeAlias = Any
#: A rule that a user gives.
Rule: TypeAlias = Callable[..., Pytree]


class _Call:
    """The arguments of a call without their tensors, and the structure of its result, once it is known."""

    def __init__(self, args: Sequence[Pytree]) -> None:
        leaves, self.structure = flatten(tuple(args))
        leaves = [asarray(x) if hasattr(x, "__array__") and not isinstance(x, Operand) else x for x in leaves]
        self.places = [k for k, x in enumerate(leaves) if isinstance(x, Operand)]
        self.handles = [leaves[k] for k in self.places]
        self.leaves = [None if k in self.places else x for k, x in enumerate(leaves)]
        self.result: Pytree = None

    def arguments(self, handles: Sequence[Tensor]) -> tuple[Pytree, ...]:
        """The arguments with these tensors."""
        leaves = list(self.leaves)
        for k, x in zip(self.places, handles, strict=True):
            leaves[k] = x
        return unflatten(self.structure, leaves)  # type: ignore[no-any-return]

    def taken_apart(self, result: Pytree, name: str) -> tuple[Tensor, ...]:
        """Leaves of a result, whose structure is kept."""
        leaves, self.result = flatten(result)
        return tuple(tensors(leaves, name, "the function's result"))

    def of_arguments(self, trees: Sequence[Pytree], name: str) -> list[Pytree]:
        """Cotangents for the tensors, from a tree or None for each argument."""
        shapes = self.structure.children()
        if not isinstance(trees, tuple | list) or len(trees) != len(shapes):
            count = len(trees) if isinstance(trees, tuple | list) else "no tuple"
            raise ArgumentError(
                name, "bwd", got=f"{count} cotangents", expected=f"{len(shapes)}, one for each argument"
            )
        leaves: list[Pytree] = []
        for k, (tree, shape) in enumerate(zip(trees, shapes, strict=True)):
            parts, structure = flatten(tree)
            if tree is None:
                parts = [None] * shape.num_leaves
            elif structure != shape:
                raise ArgumentError(
                    name,
                    "bwd",
                    got=f"a tree {structure} for argument {k}",
                    expected=f"a tree {shape}, or None",
                )
            leaves += parts
        return [leaves[k] for k in self.places]


class _Custom(Generic[P, R]):
    """A function with a derivative of its own: what both decorators share."""

    def __init__(self, function: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        name = type(self).__name__
        as_function(function, name, "function")
        functools.update_wrapper(self, function)
        self._function = function
        self._fixed = tuple(as_int(n, name, "nondiff_argnums") for n in nondiff_argnums)
        self._rule: type[Function] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._rule is None:
            raise MissingRuleError(
                getattr(self, "__name__", type(self).__name__),
                got="a call before its derivative is said",
                expected=f"{'defvjp' if isinstance(self, custom_vjp) else 'defjvp'} before the first call",
            )
        if kwargs:
            raise ArgumentError(
                getattr(self, "__name__", type(self).__name__),
                "kwargs",
                got="arguments by name",
                expected="all of them by position, as the rules get them",
            )
        fixed = [k for k in range(len(args)) if k in self._fixed]
        call = _Call([x for k, x in enumerate(args) if k not in fixed])
        out = self._rule.apply(call, tuple((k, args[k]) for k in fixed), *call.handles)
        return unflatten(call.result, out if isinstance(out, tuple) else (out,))  # type: ignore[no-any-return]


def _placed(args: Sequence[Pytree], fixed: Fixed) -> list[Pytree]:
    """All arguments in order, from those that are differentiated and the others with their positions."""
    full = list(args)
    for k, x in fixed:
        full.insert(k, x)
    return full


class custom_vjp(_Custom[P, R]):
    """A function whose derivative in reverse mode the user says, as JAX's ``custom_vjp``.

    Parameters
    ----------
    function : takes and returns pytrees of tensors. Arguments are passed by position.
    nondiff_argnums : positions of arguments that are not differentiated: functions, say. ``bwd`` gets them
        first.

    ``f.defvjp(fwd, bwd)`` says the derivative: ``fwd(*args)`` returns the result and residuals, any tree;
    ``bwd(residuals, cotangent)`` returns a tuple with a cotangent for each argument, None for zero. It works
    in every transform, in forward mode too (`bwd` is transposed), to any order if ``bwd`` is differentiable.

    Raises MissingRuleError for a call before `defvjp`.

    >>> import iverson as iv
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x * x
    >>> clipped.defvjp(lambda x: (x * x, x), lambda x, g: (g * iv.clip(2 * x, -1.0, 1.0),))
    >>> iv.grad(clipped)(iv.asarray(3.0))
    iverson.Tensor(1.)
    """

    def defvjp(self, fwd: Rule, bwd: Rule) -> None:
        """Say the derivative.

        Parameters
        ----------
        fwd : from the arguments to a pair of the result and residuals.
        bwd : from the residuals and the cotangent of the result to a tuple of cotangents of the arguments.
        """
        as_function(fwd, "defvjp", "fwd")
        as_function(bwd, "defvjp", "bwd")
        name = getattr(self, "__name__", "custom_vjp")

        class Call(Function):
            @staticmethod
            def forward(ctx: Ctx, call: _Call, fixed: Fixed, *handles: Tensor) -> Any:
                pair = fwd(*_placed(call.arguments(handles), fixed))
                if not isinstance(pair, tuple) or len(pair) != 2:
                    raise ArgumentError(
                        name, "fwd", got="a result that is no pair", expected="the result and residuals"
                    )
                leaves, ctx.structure = flatten(pair[1])
                places = [k for k, x in enumerate(leaves) if isinstance(x, Operand)]
                ctx.save_for_backward(*(leaves[k] for k in places))
                constants = [None if k in places else x for k, x in enumerate(leaves)]
                ctx.places, ctx.constants, ctx.call, ctx.nondiff = places, constants, call, fixed
                out = call.taken_apart(pair[0], name)
                return out[0] if len(out) == 1 else out

            @staticmethod
            def backward(ctx: Ctx, *cotangents: Tensor) -> Any:
                leaves = list(ctx.constants)
                for k, x in zip(ctx.places, ctx.saved_tensors, strict=True):
                    leaves[k] = x
                residuals = unflatten(ctx.structure, leaves)
                slopes = bwd(*(x for _, x in ctx.nondiff), residuals, unflatten(ctx.call.result, cotangents))
                return (None, None, *ctx.call.of_arguments(slopes, name))

        Call.__name__ = Call.__qualname__ = name
        self._rule = Call


class custom_jvp(_Custom[P, R]):
    """A function whose derivative in forward mode the user says, as JAX's ``custom_jvp``.

    Parameters
    ----------
    function : takes and returns pytrees of tensors. Arguments are passed by position.
    nondiff_argnums : positions of arguments that are not differentiated; the rule gets them first.

    ``f.defjvp(rule)``, which also decorates, says the derivative: ``rule(primals, tangents)`` takes tuples
    and returns the result and its tangent, which is linear in the tangents. In reverse mode it is transposed.

    Raises MissingRuleError for a call before `defjvp`.

    >>> import iverson as iv
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return iv.log(1.0 + iv.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * iv.sigmoid(x)
    >>> iv.grad(log1pexp)(iv.asarray(0.0)), iv.jvp(log1pexp, (iv.asarray(0.0),), (iv.asarray(1.0),))[1]
    (iverson.Tensor(0.5), iverson.Tensor(0.5))
    """

    def defjvp(self, rule: Rule) -> Rule:
        """Say the derivative; the rule is returned.

        Parameters
        ----------
        rule : from tuples of the arguments and of their tangents to the result and its tangent.
        """
        as_function(rule, "defjvp", "rule")
        name = getattr(self, "__name__", "custom_jvp")
        function: Rule = self._function

        def tangent(fixed: Fixed, primals: Sequence[Pytree], tangents: Sequence[Pytree]) -> Any:
            pair = rule(*(x for _, x in fixed), tuple(primals), tuple(tangents))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ArgumentError(
                    name, "rule", got="a result that is no pair", expected="the result and its tangent"
                )
            return pair[1]

        class Call(Function):
            @staticmethod
            def forward(ctx: Ctx, call: _Call, fixed: Fixed, *handles: Tensor) -> Any:
                out = call.taken_apart(function(*_placed(call.arguments(handles), fixed)), name)
                ctx.save_for_backward(*handles)
                ctx.call, ctx.nondiff = call, fixed
                return out[0] if len(out) == 1 else out

            @staticmethod
            def jvp(ctx: Ctx, _call: _Call, _fixed: Fixed, *tangents: Tensor) -> Any:
                call, handles = ctx.call, ctx.saved_tensors
                full = [zeros_like(x) if t is None else t for x, t in zip(handles, tangents, strict=True)]
                out = tangent(ctx.nondiff, call.arguments(handles), call.arguments(full))
                leaves = tensors(flatten(out)[0], name, "the tangent")
                return leaves[0] if len(leaves) == 1 else tuple(leaves)

            @staticmethod
            def backward(ctx: Ctx, *cotangents: Tensor) -> Any:
                call, handles = ctx.call, ctx.saved_tensors
                at = [k for k, x in enumerate(handles) if x.dtype.kind in "fcV"]

                def pushed(*parts: Tensor) -> Any:
                    full = [zeros_like(x) for x in handles]
                    for k, t in zip(at, parts, strict=True):
                        full[k] = t
                    return tangent(ctx.nondiff, call.arguments(handles), call.arguments(full))

                pull = vjp(pushed, *(zeros_like(handles[k]) for k in at))[1]
                slopes: list[Any] = [None] * len(handles)
                for k, g in zip(at, pull(unflatten(call.result, cotangents)), strict=True):
                    slopes[k] = g
                return (None, None, *slopes)

        Call.__name__ = Call.__qualname__ = name
        self._rule = Call
        return rule

    def defjvps(self, *rules: Rule | None) -> None:
        """Say the derivative in each argument alone, as in JAX.

        Parameters
        ----------
        rules : for each argument ``rule(tangent, result, *args)``, the tangent of the result; None for zero.
        """

        of_all: Callable[..., Any] = self

        def together(primals: tuple[Pytree, ...], tangents: tuple[Pytree, ...]) -> tuple[Pytree, Pytree]:
            out: Any = of_all(*primals)
            parts = [
                rule(t, out, *primals) for rule, t in zip(rules, tangents, strict=True) if rule is not None
            ]
            return out, functools.reduce(lambda a, b: a + b, parts) if parts else zeros_like(out)

        self.defjvp(together)


__all__ = ["custom_jvp", "custom_vjp"]
