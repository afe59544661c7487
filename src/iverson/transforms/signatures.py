"""Types of the functions that derivatives return, for type checkers; nothing imports them at run time.

A gradient has the type of the argument that it is in. A type checker finds that type in the parameters ``P``
of the function only at the call of a method whose ``self`` names the first of them. So each type here is a
protocol with such a call. Its first form is for trees of tensors; NumPy arrays and numbers give tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from iverson.handles import Tensor
from iverson.handles.array import Array
from iverson.handles.typing import A, ArrayLike

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class _Unknown:
    """Type that no function returns: only a result of type Any, of a function without annotations, matches
    it.
    """


_Tree: TypeAlias = Array | Mapping[Any, Any] | list[Any] | tuple[Any, ...] | _Dataclass
#: Two arguments that are trees, a tensor of any kind, a result, and an argument of any type.
T = TypeVar("T", bound=_Tree)
S = TypeVar("S", bound=_Tree)
B = TypeVar("B", bound=Array)
Y = TypeVar("Y")
X = TypeVar("X")


class Gradient(Protocol[P]):
    """The gradient in the first argument."""

    @overload
    def __call__(self: Gradient[Concatenate[T, Q]], x: T, /, *args: Q.args, **kwargs: Q.kwargs) -> T: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(
        self: Gradient[Concatenate[X, Q]], x: A | ArrayLike, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> A: ...
    @overload
    def __call__(self: Gradient[Concatenate[X, Q]], x: X, /, *args: Q.args, **kwargs: Q.kwargs) -> X: ...


class GradientAndAux(Protocol[P, R_co]):
    """The gradient in the first argument, and the second result of the function."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self: GradientAndAux[Concatenate[T, Q], R_co], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[T, R_co]: ...
    @overload
    def __call__(
        self: GradientAndAux[Concatenate[X, Q], R_co],
        x: A | ArrayLike,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> tuple[A, R_co]: ...
    @overload
    def __call__(
        self: GradientAndAux[Concatenate[X, Q], R_co], x: X, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[X, R_co]: ...


class ValueAndGradient(Protocol[P, R_co]):
    """The value of the function, and its gradient in the first argument."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self: ValueAndGradient[Concatenate[T, Q], R_co], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, T]: ...
    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[X, Q], R_co],
        x: A | ArrayLike,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> tuple[R_co, A]: ...
    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[X, Q], R_co], x: X, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[R_co, X]: ...


class SecondGradient(Protocol[P]):
    """The gradient in the second argument."""

    @overload
    def __call__(
        self: SecondGradient[Concatenate[S, T, Q]], x: S, y: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class GradientPair(Protocol[P]):
    """The gradients in the first two arguments."""

    @overload
    def __call__(
        self: GradientPair[Concatenate[S, T, Q]], x: S, y: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[S, T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, Any]: ...


class ValueAndGradientPair(Protocol[P, R_co]):
    """The value of the function, and its gradients in the first two arguments."""

    @overload
    def __call__(
        self: ValueAndGradientPair[Concatenate[S, T, Q], R_co],
        x: S,
        y: T,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> tuple[R_co, tuple[S, T]]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R_co, tuple[Any, Any]]: ...


class Jacobian(Protocol[P, R_co]):
    """The Jacobian in the first argument: a tree like that or like the result, the other being a tensor."""

    @overload
    def __call__(self: Jacobian[P, _Unknown], *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(
        self: Jacobian[Concatenate[T, Q], Tensor], x: T, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> T: ...
    @overload
    def __call__(self: Jacobian[Concatenate[B, Q], Y], x: B, /, *args: Q.args, **kwargs: Q.kwargs) -> Y: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class Hessian(Protocol[P]):
    """The Hessian in the first argument, if that is a tensor."""

    @overload
    def __call__(self: Hessian[Concatenate[B, Q]], x: B, /, *args: Q.args, **kwargs: Q.kwargs) -> B: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
