"""Dataclasses as nodes of pytrees: parameters, states and settings with names.

`optree.dataclasses` makes them nodes; here they are registered where Iverson looks for nodes, and known by
name to `iverson.load`. optree is imported when the first one is made.
"""

from __future__ import annotations

import dataclasses as _dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard, TypeVar, Unpack, dataclass_transform, overload

from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.protocols import Pytree

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Class = TypeVar("Class", bound=type[Any])
#: What a field holds, of any type.
T = TypeVar("T")


class _FieldOptions(TypedDict, total=False):
    """The other options of a field, as in the standard library."""

    default: Any
    default_factory: Callable[[], Any]
    init: bool
    repr: bool
    hash: bool | None
    compare: bool
    kw_only: bool


class _Options(TypedDict, total=False):
    """The options of `dataclasses.dataclass`."""

    init: bool
    repr: bool
    eq: bool
    order: bool
    unsafe_hash: bool
    frozen: bool
    match_args: bool
    kw_only: bool
    slots: bool
    weakref_slot: bool


#: The classes that `dataclass` made nodes, by their name in files.
_registered: dict[str, type[Any]] = {}
#: Those that have an ``__init__`` of their own.
_own_init: set[type[Any]] = set()


def field(
    *, pytree_node: bool = True, metadata: Mapping[str, T] | None = None, **options: Unpack[_FieldOptions]
) -> Any:
    """A field of a `dataclass`, as `dataclasses.field` of the standard library.

    Parameters
    ----------
    pytree_node : False for what is part of the structure and no tensor: a size, the name of a function. It
        must be hashable where a function of it is compiled.
    metadata, options : as in the standard library.

    >>> import iverson as iv
    >>> @dataclass
    ... class Layer:
    ...     weight: iv.Tensor
    ...     activation: str = field(default="tanh", pytree_node=False)
    """
    if type(pytree_node) is not bool:
        raise ArgumentTypeError("field", "pytree_node", got=described(pytree_node), expected="a bool")
    return _dataclasses.field(metadata={**(metadata or {}), "pytree_node": pytree_node}, **options)


@overload
def dataclass(cls: Class, /) -> Class: ...
@overload
def dataclass(cls: None = None, /, **options: Unpack[_Options]) -> Callable[[Class], Class]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(cls: Class | None = None, /, **options: Unpack[_Options]) -> Any:
    """A class as a dataclass that is a node of trees: its fields are the node's children.

    Every function that takes trees takes its instances: `grad`, `jit`, `vmap`, `ravel_pytree`, optimizers,
    `save` and `load`. Cotangents of an instance are an instance.

    Parameters
    ----------
    cls : the class, where this decorates it without arguments.
    options : of `dataclasses.dataclass`: ``frozen``, ``eq``, ``kw_only``, ...

    Raises
    ------
    ArgumentTypeError : for what is no class.
    ArgumentError : for fields that are not arguments of ``__init__``, but for those of the structure.

    Notes
    -----
    Instances are made again by ``cls(**fields)``, also of what a trace holds in place of tensors, so
    ``__post_init__`` must take any leaves. A class with an ``__init__`` of its own keeps it, as a layer that
    is made from sizes does; its instances are made again from their fields, without it. `load` makes
    instances of classes that have been decorated by then, found by module and name; it imports nothing.

    >>> import iverson as iv
    >>> @dataclass
    ... class Line:
    ...     slope: iv.Tensor
    ...     offset: iv.Tensor
    >>> loss = lambda line: (line.slope * 2.0 + line.offset) ** 2
    >>> iv.grad(loss)(Line(iv.asarray(1.0), iv.asarray(-1.0)))
    Line(slope=iverson.Tensor(4.), offset=iverson.Tensor(2.))
    """
    if cls is None:
        return lambda cls: dataclass(cls, **options)
    if not isinstance(cls, type):
        raise ArgumentTypeError("dataclass", "cls", got=described(cls), expected="a class")
    import optree.dataclasses
    from optree.registry import __GLOBAL_NAMESPACE as everywhere

    if "__init__" in vars(cls):
        return _with_own_init(cls, options)
    make: Any = optree.dataclasses.dataclass
    try:
        node: Any = make(cls, namespace=everywhere, **options)
    except TypeError as error:
        raise ArgumentError(
            "dataclass", "cls", got=str(error), expected="fields that make it again"
        ) from None
    _registered[name_of(node)] = node
    return node


def _with_own_init(cls: Class, options: _Options) -> Class:
    """A dataclass with the class's own ``__init__``, as a node whose children are its fields."""
    import optree
    from optree.registry import __GLOBAL_NAMESPACE as everywhere

    make: Any = _dataclasses.dataclass
    node: Class = make(cls, **{**options, "init": False})
    fields = _dataclasses.fields(node)
    children = tuple(f.name for f in fields if f.metadata.get("pytree_node", True))
    settings = tuple(f.name for f in fields if not f.metadata.get("pytree_node", True))
    _own_init.add(node)

    def apart(x: Pytree) -> tuple[tuple[Pytree, ...], Pytree, tuple[str, ...]]:
        return tuple(getattr(x, n) for n in children), tuple(getattr(x, n) for n in settings), children

    def together(metadata: Pytree, parts: Iterable[Pytree]) -> Pytree:
        return _of_fields(node, dict(zip((*children, *settings), (*parts, *metadata), strict=True)))

    optree.register_pytree_node(node, apart, together, namespace=everywhere)
    _registered[name_of(node)] = node
    return node


def _of_fields(cls: Callable[..., Pytree], fields: Mapping[str, Pytree]) -> Pytree:
    """An instance with these fields."""
    if cls not in _own_init:
        return cls(**fields)
    x: Pytree = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(x, name, value)
    return x


def name_of(cls: type) -> str:
    """The name of the class in files: its module and its qualified name."""
    return f"{cls.__module__}.{cls.__qualname__}"


def is_known(x: T) -> TypeGuard[DataclassInstance]:
    """True if x is an instance of a class that `dataclass` made a node."""
    return type(x) in _registered.values()


def made(name: str, fields: Mapping[str, T]) -> Any:
    """An instance of the class that a file names.

    Raises ValueError for one that has not been made in this process.
    """
    if name not in _registered:
        raise ValueError(f"the dataclass {name} is not known; import its module first")
    return _of_fields(_registered[name], fields)


def fields_of(x: DataclassInstance) -> dict[str, Any]:
    """The fields of an instance that make it again."""
    is_made_of_all = type(x) in _own_init
    return {f.name: getattr(x, f.name) for f in _dataclasses.fields(x) if f.init or is_made_of_all}


__all__ = ["dataclass", "field"]


def __dir__() -> list[str]:
    return sorted(__all__)
