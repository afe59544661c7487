"""Pytrees of tensors: flattening, names, and the fresh variables that replace a function's inputs."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from iverson.autograd.api import variable
from iverson.autograd.node import hold_gradient
from iverson.autograd.unrecorded_values import untracked
from iverson.core import dtypes
from iverson.core.dispatch import (
    Handle,
    Operand,
    Wrapper,
    alias,
    bind,
    cells,
    is_tracked,
    levels,
    rewrap,
    unwrap,
    value_of,
)
from iverson.core.errors import ArgumentError, ArgumentTypeError, DTypeError, described, way_in
from iverson.core.protocols import Pytree
from iverson.core.python.exact_keys import exact
from iverson.handles import Tensor, asarray
from iverson.masked import MaskedTensor, masked_tensor
from iverson.masked.traced_masks import any_computed
from iverson.ops import TABLE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance as Dataclass
    from optree import PyTreeSpec
    from typing_extensions import TypeVar

    from iverson.handles.array import Array
    from iverson.handles.typing import ArrayLike

    R = TypeVar("R", default=Tensor)
else:
    from typing import TypeVar

    R = TypeVar("R")

Function = Callable[..., Any]
#: A tree of arrays and numbers, as users pass it and get it.
Tree: TypeAlias = "Array | ArrayLike | Mapping[Any, Tree] | Sequence[Tree] | Dataclass | None"
#: The parameters of a function; ``R`` is its result, a Tensor where nothing else says what it is.
P = ParamSpec("P")

#: What trees are mostly made of.
_PLAIN = frozenset((Tensor, tuple, list, dict, int, float, str))


def flatten(tree: Any, *, none_is_leaf: bool = False, namespace: str = "") -> tuple[list[Any], Any]:
    """Leaves of a pytree and its structure. A wrapper is a leaf; None is a node without leaves, unless
    ``none_is_leaf``.
    """
    import optree

    how: Any = {"none_is_leaf": none_is_leaf, "namespace": namespace}
    leaves, structure = optree.tree_flatten(tree, **how)
    try:
        if structure in _WITHOUT_WRAPPERS:
            return leaves, structure
    except TypeError:  # not hashable
        return optree.tree_flatten(tree, is_leaf=is_wrapper, **how)
    plain = structure
    leaves, structure = optree.tree_flatten(tree, is_leaf=is_wrapper, **how)
    if plain == structure and len(_WITHOUT_WRAPPERS) < _KEPT:
        _WITHOUT_WRAPPERS.add(structure)
    return leaves, structure


def flatten_exactly(tree: Any) -> tuple[list[Any], Any, Any]:
    """Leaves of a pytree, its structure, and a hashable key that equals only the key of exactly the same
    structure.

    Leaves are in the order in which dictionaries have their items, which optree would sort. Structures are
    equal for optree if their keys are equal, such as those of ``{1: x}`` and ``{True: x}``; their keys here
    differ.
    """
    import optree

    _keep_order()
    leaves, structure = optree.tree_flatten(tree, namespace=_IN_ORDER)
    try:
        if structure in _OF_NAMES:
            return leaves, structure, structure
    except TypeError:  # not hashable
        pass
    leaves, structure = flatten(tree, namespace=_IN_ORDER)
    nodes = structure.__getstate__()[0]
    if not all(_is_of_names(node[2]) for node in nodes):
        return leaves, structure, (structure, exact(nodes))
    if structure in _WITHOUT_WRAPPERS and len(_OF_NAMES) < _KEPT:
        _OF_NAMES.add(structure)
    return leaves, structure, structure


def _is_of_names(data: Any) -> bool:
    """Return True if the data of a node (its keys or fields) are names or types.

    Such data are equal only if they are the same, so that the structure itself can serve as a key.
    """
    if type(data) is list:
        return all(map(_is_of_names, data))
    return data is None or type(data) is str or isinstance(data, type)


#: The namespace in which dictionaries have the order of their items.
_IN_ORDER = "iverson, in order"


@functools.cache
def _keep_order() -> None:
    """Make optree keep the order of dictionaries in the namespace `_IN_ORDER`, until the process ends."""
    import optree

    block = optree.dict_insertion_ordered(True, namespace=_IN_ORDER)
    block.__enter__()
    atexit.register(block.__exit__, None, None, None)


#: Structures without wrappers whose equality is exact.
_OF_NAMES: set[Any] = set()


def opened(tree: Any, *, masks: bool = False) -> tuple[list[Any], Any]:
    """Leaves and structure of a tree that enters or leaves a trace; see `flatten`.

    A masked tensor gives two leaves, its entries and its mask, if the mask is computed in a trace or if
    ``masks`` is True.
    """
    leaves, structure = flatten(tree)
    if any_computed(leaves) or (masks and any(map(is_wrapper, leaves))):
        import optree

        _register()
        opens = is_wrapper if masks else lambda x: any_computed((x,))
        return flatten(optree.tree_map(lambda x: _Opened(x) if opens(x) else x, tree, is_leaf=is_wrapper))
    return leaves, structure


class _Opened:
    """Node of a tree that stands for a masked tensor and has two leaves, the entries and the mask."""

    def __init__(self, masked: MaskedTensor) -> None:
        self.masked = masked


def _entries_and_mask(x: Any) -> tuple[tuple[Any, Any], None, tuple[str, str]]:
    return (x.masked.get_data(), x.masked.get_mask()), None, ("data", "mask")


@functools.cache
def _register() -> None:
    import optree
    from optree.registry import __GLOBAL_NAMESPACE as everywhere

    optree.register_pytree_node(
        _Opened,  # type: ignore[arg-type]
        _entries_and_mask,
        lambda _, leaves: masked_tensor(*leaves),
        namespace=everywhere,
    )


#: Structures of trees that have no wrapper: whether a node is one need not be asked of each again.
_WITHOUT_WRAPPERS: set[Any] = set()
_KEPT = 1024


def is_wrapper(x: Any) -> bool:
    return type(x) not in _PLAIN and isinstance(x, Wrapper)


def wrapped(operands: Sequence[Operand], handles: Sequence[Handle]) -> list[Any]:
    """Tensors with the values of ``handles``, each with the wrapper that the operand at its position has."""
    return list(map(rewrap, operands, handles))


def unflatten(structure: PyTreeSpec, leaves: Iterable[object]) -> Any:
    """The pytree of this structure with the given leaves."""
    import optree

    return optree.tree_unflatten(structure, leaves)


def as_node(leaf: Pytree) -> str:
    """Remedy for a leaf that is no tensor: of a class with attributes, how it becomes a node."""
    name = type(leaf).__name__
    if type(leaf).__module__ == "builtins" or not getattr(leaf, "__dict__", None):
        return "convert it with iverson.asarray"
    return (
        f"make {name} a node of trees: decorate it with iverson.dataclasses.dataclass, or call "
        f"iverson.tree.register({name})"
    )


def tensors(leaves: Sequence[Any], operation: str, argument: str) -> list[Any]:
    """The leaves as Tensors; raises ArgumentTypeError for what is no number or array."""
    result = []
    for k, leaf in enumerate(leaves):
        if (
            not isinstance(leaf, Operand)
            and not hasattr(leaf, "__array__")
            and not isinstance(leaf, (int, float, complex))
        ):
            raise ArgumentTypeError(
                operation,
                argument,
                got=f"leaf {k} that is {described(leaf)}",
                expected="a tensor or a number",
                remedy=way_in(leaf, as_node(leaf)),
            )
        result.append(leaf if isinstance(leaf, Operand) else asarray(leaf, copy=True))
    return result


def fresh(leaves: list[Handle], operation: str, argument: str) -> list[Any]:
    """New variables with the leaves' values, which still depend on what the leaves depend on.

    Raises DTypeError for integers and booleans: they have no derivative.
    """
    for k, leaf in enumerate(leaves):
        if not dtypes.is_inexact(leaf.dtype):
            raise DTypeError(
                operation,
                argument,
                got=f"leaf {k} of dtype {leaf.dtype}",
                expected="floating tensors",
                remedy="convert it with astype, or leave it out of argnums",
            )
    level_stack = levels()
    if (level_cells := cells()) is not None:
        leaves = list(map(level_cells.inside, leaves))
    handles = [level_stack[-1].variable_of(x) for x in leaves] if level_stack else leaves
    return [variable(value_of(x)) if not is_tracked(x) else bind(TABLE["identity"], (x,)) for x in handles]


def arguments(variables: list[Handle]) -> list[Any]:
    """Handles of the variables to pass to the user's function, which may rebind them or read their
    ``.grad``.
    """
    handles = list(map(alias, variables))
    for x in handles:
        hold_gradient(x)
    return handles


def match(
    leaves: list[Tree],
    structure: PyTreeSpec,
    like: Sequence[Operand],
    like_structure: PyTreeSpec,
    operation: str,
    argument: str,
) -> list[Any]:
    """Plain handles of ``leaves``, after a check that they have the structure and shapes of another tree.

    like, like_structure : leaves and structure of that tree. operation, argument : names for messages.
    """
    if structure != like_structure:
        raise ArgumentError(
            operation, argument, got=f"a tree {structure}", expected=f"a tree {like_structure}"
        )
    from iverson.autograd.engine import check_seed

    return [
        check_seed(
            unwrap(x),
            x._seed(t, operation, argument) if isinstance(x, Wrapper) else unwrap(t),
            operation,
            argument,
            "the output" if argument == "cotangent" else "the primal",
        )
        for x, t in zip(like, tensors(leaves, operation, argument), strict=True)
    ]


def handed_out(leaves: Sequence[Tree], recorded: bool) -> list[Any]:
    """Leaves as new handles for the caller; without their history if ``recorded`` is False."""
    handle_for = alias if recorded else untracked
    return [rewrap(x, handle_for(unwrap(x))) if isinstance(x, Operand) else x for x in leaves]


def as_named(function: Function) -> Callable[[Function], Function]:
    """Decorator that gives a function made from ``function`` its name, module and signature.

    So the new function can be pickled if it decorates the old one. Through ``__wrapped__`` a trace sees which
    variables the old one reads.
    """
    return functools.wraps(function, updated=())
