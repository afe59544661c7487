"""Trees of tensors: maps over their leaves, their structure, and classes of one's own as nodes.

A tree is a tensor, a number, or a dict, list, tuple, named tuple, `iverson.dataclasses` or registered class
of trees; None is one without leaves. optree does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from iverson.core.errors import ArgumentError, ArgumentTypeError, described
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import Pytree
from iverson.transforms.trees import flatten as _flatten
from iverson.transforms.trees import unflatten as _unflatten

if TYPE_CHECKING:
    from optree import PyTreeSpec

    #: The containers of a tree without its leaves.
    Structure: TypeAlias = PyTreeSpec

Class = TypeVar("Class", bound=type)
#: Children and metadata of a node.
Parts: TypeAlias = tuple[Iterable[Pytree], Pytree]


def map(function: Callable[..., Pytree], tree: Pytree, /, *trees: Pytree) -> Pytree:
    """The tree of what a function gives of each leaf, and of the leaves of other trees at its place.

    Parameters
    ----------
    function : takes one leaf of each tree.
    tree, trees : trees of one structure. A masked tensor is a leaf.

    Raises ArgumentError for trees that differ in structure.

    >>> import iverson as iv
    >>> map(lambda x, y: x + y, {"a": iv.asarray(1.0)}, {"a": iv.asarray(2.0)})
    {'a': iverson.Tensor(3.)}
    """
    as_function(function, "map", "function")
    first, shape = _flatten(tree)
    columns = [first]
    for k, other in enumerate(trees):
        column, other_shape = _flatten(other)
        if other_shape != shape:
            raise ArgumentError("map", f"trees[{k}]", got=f"a tree {other_shape}", expected=f"a tree {shape}")
        columns.append(column)
    return _unflatten(shape, [function(*row) for row in zip(*columns, strict=True)])


def leaves(tree: Pytree, /) -> list[Pytree]:
    """The leaves of a tree, in order; of dicts, in the order of their keys.

    >>> leaves({"b": [1, 2], "a": 3})
    [3, 1, 2]
    """
    return _flatten(tree)[0]


def structure(tree: Pytree, /) -> Structure:
    """The containers of a tree without its leaves: equal for trees that a function takes for one another.

    >>> structure((1, 2)) == structure((3, 4)), structure((1, 2)) == structure([1, 2])
    (True, False)
    """
    return _flatten(tree)[1]  # type: ignore[no-any-return]


def flatten(tree: Pytree, /) -> tuple[list[Pytree], Structure]:
    """The leaves of a tree, and its structure.

    >>> parts, shape = flatten({"a": 1, "b": 2})
    >>> unflatten(shape, [x * 10 for x in parts])
    {'a': 10, 'b': 20}
    """
    return _flatten(tree)


def unflatten(structure: Structure, leaves: Sequence[Pytree], /) -> Pytree:
    """The tree of a structure with these leaves.

    Raises ArgumentError for another number of leaves.

    >>> unflatten(structure((1, [2])), [3, 4])
    (3, [4])
    """
    try:
        return _unflatten(structure, leaves)
    except ValueError as error:
        raise ArgumentError(
            "unflatten", "leaves", got=f"{len(leaves)} leaves", expected=f"{structure.num_leaves}"
        ) from error


@checked
def register(
    cls: Class,
    flatten: Callable[[Pytree], Parts] | None = None,
    unflatten: Callable[[Pytree, Iterable[Pytree]], Pytree] | None = None,
    /,
    *,
    static: Sequence[str] = (),
) -> Class:
    """A class as a node of trees, for every function that takes them: derivatives, `jit`, `vmap`, optimizers.

    Parameters
    ----------
    cls : the class; it is returned, so that ``register`` decorates it.
    flatten : gives the children of an instance and what else makes it again, which must be hashable where a
        function of it is compiled. Default: its attributes.
    unflatten : makes an instance of these: ``unflatten(metadata, children)``. Default: the attributes are set
        on a new object, without ``__init__``.
    static : names of attributes that are metadata and no children, without ``flatten``.

    Raises
    ------
    ArgumentTypeError : for what is no class.
    ArgumentError : for a class that is a node already, and for one of the two functions without the other.

    >>> import iverson as iv
    >>> @register
    ... class Line:
    ...     def __init__(self, slope, offset):
    ...         self.slope, self.offset = iv.asarray(slope), iv.asarray(offset)
    >>> gradient = iv.grad(lambda line: line.slope * 2.0 + line.offset)(Line(1.0, 3.0))
    >>> gradient.slope, gradient.offset
    (iverson.Tensor(2.), iverson.Tensor(1.))
    """
    if not isinstance(cls, type):
        raise ArgumentTypeError("register", "cls", got=described(cls), expected="a class")
    if (flatten is None) is not (unflatten is None):
        raise ArgumentError("register", "unflatten", got="one function", expected="both, or neither")
    import optree
    from optree.registry import __GLOBAL_NAMESPACE as everywhere

    if flatten is None or unflatten is None:
        flatten, unflatten = _of_attributes(cls, frozenset(static))
    try:
        optree.register_pytree_node(cls, flatten, unflatten, namespace=everywhere)
    except ValueError as error:
        raise ArgumentError(
            "register", "cls", got=f"{cls.__name__}, a node already", expected="a class that is none"
        ) from error
    return cls


def _of_attributes(
    cls: type, static: frozenset[str]
) -> tuple[Callable[[Pytree], Parts], Callable[[Pytree, Iterable[Pytree]], Pytree]]:
    """Functions that take instances of a class apart into their attributes, and make them again."""

    def apart(x: Pytree) -> Parts:
        attributes = vars(x)
        names = tuple(name for name in attributes if name not in static)
        fixed = tuple((name, attributes[name]) for name in attributes if name in static)
        return tuple(attributes[name] for name in names), (names, fixed)

    def together(metadata: Pytree, children: Iterable[Pytree]) -> Pytree:
        names, fixed = metadata
        x: Pytree = object.__new__(cls)
        for name, value in (*zip(names, children, strict=True), *fixed):
            object.__setattr__(x, name, value)
        return x

    return apart, together


__all__ = ["flatten", "leaves", "map", "register", "structure", "unflatten"]


def __dir__() -> list[str]:
    return sorted(__all__)
