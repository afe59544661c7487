"""The op table, which `iverson.ops` fills: ops of users, the namespace ``F`` of rules, and replaced rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from iverson.core.dispatch import _default
from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.op import Op, Rule
from iverson.core.protocols import Shaped

if TYPE_CHECKING:
    from types import TracebackType

#: Every op by name: the library's, and those that extensions define.
TABLE: dict[str, Op] = {}
#: Those that are defined in the package itself, of which a name says all as long as its source is the same.
LIBRARY: dict[str, Op] = {}
#: The ops that users defined last, by qualified name: ``te.blur``. No name of the table has a dot: whatever
#: the library gains, users keep their names, and what asks for an op by name never meets one of these.
USERS: dict[str, Op] = {}

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Rules = tuple[Rule | None, ...] | Rule
_overrides: ContextVar[Mapping[str, Rules]] = ContextVar("iverson_overrides", default={})  # noqa: B039
_before: ContextVar[tuple[Mapping[str, Rules], ...]] = ContextVar("iverson_overrides_before", default=())
#: Rules that stand in for the table's in this context, by op name (see `override_vjp`).
overrides = _overrides.get


class _Same:
    """Wrapper of an object in a key: equal only for the same object, which the key keeps alive."""

    __slots__ = ("_of",)

    def __init__(self, of: Rules) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._of is self._of

    def __hash__(self) -> int:
        return id(self._of)


def rules_in_force() -> frozenset[tuple[str, _Same]]:
    """Replaced rules of this context (`overrides`) as a part of a trace's key; mostly empty."""
    return frozenset((name, _Same(rules)) for name, rules in overrides().items())


#: What completes a record as it enters the table (an op with a ``te`` and no vjp gets the derived one).
definition_hooks: list[Callable[[Op], Op]] = []


class OpNamespace:
    """``F``: every op of the table as a function on handles, and the few compositions rules share."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the op table has no '{name}'")


F: Any = OpNamespace()


def define(op: Op) -> Op:
    """Enter an op into the table and into ``F``, after the ``definition_hooks`` have completed it; return it.

    Raises ArgumentError if the name is taken.
    """
    for complete in definition_hooks:
        op = complete(op)
    if op.name in TABLE:
        raise ArgumentError("define", "op", got=f"a second op '{op.name}'", expected="a new name")
    TABLE[op.name] = op

    def call(*args: Shaped | complex, **params: Any) -> Any:
        return _default[0].bind(op, args, params)

    call.__name__ = op.name
    setattr(F, op.name, call)
    return op


def op_of(name: str) -> Op | None:
    """The op called ``name`` in the table or among the ops of users; None if there is none."""
    return TABLE.get(name) or USERS.get(name)


def remove(name: str) -> None:
    """Take an op out of the table again (for ops that live as long as a test or a plug-in)."""
    del TABLE[name]
    delattr(F, name)


def derived(function: AnyFunction) -> AnyFunction:
    """Decorator that enters a function made of ops into ``F`` under its own name, for rules to share."""
    setattr(F, function.__name__, function)
    return function


class replaced_rules:
    """A ``with`` block that replaces the rules of some ops, in this thread or task alone.

    Blocks nest, and one object serves any number of them.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: Mapping[str, Rules]) -> None:
        self._rules = dict(rules)

    def __enter__(self) -> None:
        _before.set((*_before.get(), overrides()))
        _overrides.set({**overrides(), **self._rules})

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        *outer, before = _before.get()
        _before.set(tuple(outer))
        _overrides.set(before)


class pinned_rules(replaced_rules):
    """A ``with`` block with exactly the rules that were in force where this object was created."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(overrides())

    def __enter__(self) -> None:
        _before.set((*_before.get(), overrides()))
        _overrides.set(self._rules)


def pushforward_of(name: str) -> str:
    """Key under which `overrides` has the forward-mode rules of an op: a function of the number of inputs."""
    return f"{name}, forward"


class override_vjp(replaced_rules):
    """Replace an op's vjp until the end of a ``with`` block, in this thread or task alone.

    Parameters
    ----------
    name : an op of the table, or of `te.op` by its qualified name (``te.blur``).
    rule : per input, ``rule(F, g, y, *inputs, **params)`` or None for "not differentiable"; a single
        callable does for an op of one input; for a variadic op it is the one rule of all inputs (`Op.vjp`).

    What is recorded in the block keeps every value that the rule may read; what is differentiated in it uses
    the rule. Raises ArgumentError for a name that no op has, and for rules that do not fit its inputs.

    >>> import iverson as iv
    >>> with iv.autograd.override_vjp("sin", lambda F, g, y, x: 10 * g):
    ...     x = iv.asarray(0.0, requires_grad=True)
    ...     print(iv.autograd.grad(iv.sin(x), x))
    iverson.Tensor(10.)
    """

    __slots__ = ()

    def __init__(self, name: str, rule: Rule | Sequence[Rule | None]) -> None:
        op = op_of(name) if isinstance(name, str) else None
        if op is None:
            raise ArgumentError("override_vjp", "name", got=repr(name), expected="the name of an op")
        if callable(rule):
            rules: Any = rule if op.arity is None else (rule,)
        elif isinstance(rule, Sequence) and all(r is None or callable(r) for r in rule):
            rules = tuple(rule)
        else:
            raise ArgumentTypeError(
                "override_vjp",
                "rule",
                got=described(rule),
                expected="a function, or one or None for each input",
            )
        if not callable(rules) and len(rules) != max(op.arity or 1, 1):
            raise ArgumentError(
                "override_vjp",
                "rule",
                got=f"{len(rules)} rules",
                expected=f"one for each input of '{name}'",
            )
        super().__init__({name: rules})


@contextmanager
def defined(op: Op) -> Iterator[Op]:
    """An op that is in the table until the block ends."""
    define(op)
    try:
        yield op
    finally:
        remove(op.name)
