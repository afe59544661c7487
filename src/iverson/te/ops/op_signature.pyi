"""The signature of `iverson.te.op` for type checkers, in types of layers above this one."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, overload

from iverson.handles import Tensor
from iverson.handles.typing import A, ArrayLike

class Operator(Protocol):
    """An op of one result, on tensors, arrays and numbers; keyword arguments are constants."""

    @overload
    def __call__(self, *args: ArrayLike, **params: Any) -> Tensor: ...
    @overload
    def __call__(self, *args: A | ArrayLike, **params: Any) -> A: ...

class OperatorOfSeveral(Protocol):
    """An op of several results."""

    @overload
    def __call__(self, *args: ArrayLike, **params: Any) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(self, *args: A | ArrayLike, **params: Any) -> tuple[A, ...]: ...

@overload
def op(  # type: ignore[overload-overlap]
    fn: Callable[..., object], *, name: str | None = None, results: Literal[1] = 1
) -> Operator: ...
@overload
def op(fn: Callable[..., object], *, name: str | None = None, results: int) -> OperatorOfSeveral: ...
@overload
def op(  # type: ignore[overload-overlap]
    *, name: str | None = None, results: Literal[1] = 1
) -> Callable[[Callable[..., object]], Operator]: ...
@overload
def op(*, name: str | None = None, results: int) -> Callable[[Callable[..., object]], OperatorOfSeveral]: ...
