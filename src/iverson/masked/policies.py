"""Policy for operands with different masks: a context variable, one per thread and task."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from iverson.core.shapes import check_choice

if TYPE_CHECKING:
    from types import TracebackType

POLICIES = ("intersect", "strict")
USUAL = POLICIES[0]

_policy: ContextVar[str] = ContextVar("iverson_masked_policy", default=USUAL)
current = _policy.get


class policy:
    """A context within which operands with different masks are intersected, or an error.

    ``name`` is "intersect" (the default: a result is specified where both operands are) or "strict"
    (ArgumentError). Raises ArgumentError for another name.

    >>> import iverson as iv
    >>> a = iv.masked_tensor(iv.asarray([1., 2.]), [True, False])
    >>> b = iv.masked_tensor(iv.asarray([3., 4.]), [True, True])
    >>> a + b
    iverson.MaskedTensor([4., --])
    >>> with policy("strict"):
    ...     a + b
    Traceback (most recent call last):
    iverson.core.errors.ArgumentError: add: argument 'mask': got operands with different masks; ...
    """

    def __init__(self, name: str) -> None:
        check_choice(name, POLICIES, "masked.policy", "name")
        self._name = name
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> None:
        self._tokens.append(_policy.set(self._name))

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _policy.reset(self._tokens.pop())
