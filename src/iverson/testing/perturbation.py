"""Calls of the user's function: on the user's own inputs, or on perturbed copies of them.

The inputs are never perturbed in place. What the function itself does to them is undone, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from iverson.autograd.mode import enable_grad, no_grad
from iverson.autograd.node import Node, reachable
from iverson.core import dtypes
from iverson.core.dispatch import (
    Handle,
    Operand,
    Wrapper,
    is_tracked,
    make_handle,
    rebind,
    rewrap,
    slot_of,
    unwrap,
    value_of,
)
from iverson.core.errors import ArgumentError, DTypeError
from iverson.core.inputs.arguments import as_function
from iverson.layouts import layout_of
from iverson.testing.directions import Space, Vector, space_of
from iverson.testing.failure_report import Finding, GradcheckError

Path = tuple[Any, ...]

#: A tree, of tensors and of anything else, and a leaf of one: the arguments of a function and its results.
Tree = TypeVar("Tree")
Inputs = TypeVar("Inputs")
Outputs = TypeVar("Outputs")
Leaf = TypeVar("Leaf")
#: What takes the place of a leaf, which may be anything.
Change: TypeAlias = Callable[[object], object]
#: The node that made a tensor, and which of its results the tensor is.
Slot: TypeAlias = tuple[Node, int]


@dataclass(frozen=True)
class Variable:
    """Tensor that the function is differentiated in.

    name : its path in the inputs.
    slot : its node and the number of the result; several inputs with one slot are one variable.
    space : its declared coordinates. point : their values.
    positions : the numbers of the leaves of the inputs that are this tensor.
    """

    name: str
    slot: Slot
    space: Space
    point: Vector
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Output:
    """A tensor among the outputs; ``slot`` is None where no gradient is recorded."""

    name: str
    value: Any
    slot: Slot | None
    space: Space

    @property
    def masked(self) -> bool:
        """True if only some of its entries are declared."""
        return self.space.partial

    @property
    def checked(self) -> bool:
        """True if its dtype can have a derivative."""
        return self.space.dtype.kind in "fcV"


def path_name(root: str, path: Path) -> str:
    """Python expression for a path into nested containers, such as ``inputs[0]['w']``."""
    return root + "".join(f"[{key!r}]" for key in path)


def flatten_outputs(out: Tree) -> tuple[list[tuple[str, Any]], Any]:
    """Pairs of a name and a Tensor among the outputs, and the structure of the outputs (None for a single
    Tensor).
    """
    import optree

    if isinstance(out, Operand):
        return [("output", out)], None
    tree: Any = out
    paths, leaves, spec = optree.tree_flatten_with_path(tree, is_leaf=_is_wrapper)
    tensors = [
        (path_name("outputs", path), leaf)
        for path, leaf in zip(paths, leaves, strict=True)
        if isinstance(leaf, Operand)
    ]
    return tensors, spec


class Problem:
    """A function and the inputs it is checked at.

    fn : called as ``fn(*inputs)``.
    inputs : a tuple or list of arguments (pytrees of Tensors and anything else), or the one argument.
    operation : the public name in messages.
    name : gives the name of an input from its path, and of an output from its plain name.
    project : called as ``project(*inputs)``; the nearest inputs in the set that perturbations stay in.

    Raises ArgumentError if no input requires grad, one was computed from another, or ``project`` moves them.
    """

    def __init__(
        self,
        fn: Callable[..., Outputs],
        inputs: Inputs,
        operation: str,
        name: Callable[[str], str] = str,
        project: Callable[..., Inputs] | None = None,
    ) -> None:
        import optree

        self.fn = as_function(fn, operation, "fn")
        self.operation = operation
        self.name = name
        self.project = None if project is None else as_function(project, operation, "project")
        tree: Any = inputs
        self.args: tuple[Any, ...] = tuple(tree) if type(tree) in (tuple, list) else (tree,)
        tree = self.args
        paths, leaves, self.spec = optree.tree_flatten_with_path(tree, is_leaf=_is_wrapper, none_is_leaf=True)
        self.leaves: list[Any] = list(map(unwrap, leaves))
        self._whole = [rewrap(x, unwrap(x)) for x in leaves]
        self._given = leaves
        self._names = [name(path_name("inputs", p)) for p in paths]
        self._state = [(value_of(x), *slot_of(x)) if _is_handle(x) else x for x in self.leaves]
        self.variables = self._find_variables(self._names)
        if project is not None:
            self._check_in_set()

    def _find_variables(self, names: Sequence[str]) -> tuple[Variable, ...]:
        """Variables among the inputs: the tensors that require grad, each once.

        Raises ArgumentError if there is none or one is computed from another, DTypeError for half precision.
        names : the names of all leaves.
        """
        positions: dict[tuple[Node, int], list[int]] = {}
        for k, leaf in enumerate(self.leaves):
            if _is_handle(leaf) and is_tracked(leaf):
                positions.setdefault(slot_of(leaf), []).append(k)
        if not positions:
            raise ArgumentError(
                self.operation,
                "inputs",
                got="no tensor that requires grad",
                expected="at least one to differentiate in",
                remedy="call x.requires_grad_() on the inputs that matter",
            )
        variables = []
        for slot, where in positions.items():
            leaf = self.leaves[where[0]]
            if dtypes.is_half(leaf.dtype):
                raise DTypeError(
                    self.operation,
                    names[where[0]],
                    got=f"dtype {leaf.dtype}",
                    expected="float64: difference quotients of half precision say nothing",
                    remedy="check the function at the point in float64: x.detach().astype(iverson.float64)",
                )
            space = space_of(self._whole[where[0]])
            point = space.coordinates(value_of(leaf))
            variables.append(Variable(names[where[0]], slot, space, point, tuple(where)))
        self._refuse_ancestors(variables)
        return tuple(variables)

    def _refuse_ancestors(self, variables: Sequence[Variable]) -> None:
        """Raise ArgumentError if a variable was computed from another variable."""
        by_node = {v.slot[0]: v for v in variables}
        floor = min(node.number for node in by_node)
        for v in variables:
            for node in reachable([v.slot[0]], floor):
                if node in by_node and by_node[node] is not v and node is not v.slot[0]:
                    raise ArgumentError(
                        self.operation,
                        v.name,
                        got=f"a tensor computed from {by_node[node].name}",
                        expected="inputs that are independent of each other",
                        remedy="pass x.detach().requires_grad_()",
                    )

    def own(self) -> tuple[Any, tuple[Output, ...]]:
        """Structure and Tensors of ``fn(*inputs)``, recorded, called on the user's own objects.

        Raises GradcheckError for an input that the call has changed; the input is restored.
        """
        with self._restoring() as changes, enable_grad(), np.errstate(all="ignore"):
            tensors, spec = flatten_outputs(self.fn(*self.args))
            outputs = tuple(self._output(name, handle) for name, handle in tensors)
        for name, kind in changes:
            raise GradcheckError.of(
                self.operation,
                Finding(
                    "changed input",
                    name,
                    explanation="work on a copy inside fn: the derivative is that at the inputs as given, "
                    "and whoever calls fn loses them",
                ),
                got=f"{kind} that fn has changed",
                expected="fn to leave its inputs as they are",
            )
        return spec, outputs

    def at(self, variable: Variable | None, point: Vector | None, wide: bool) -> Any:
        """Structure and Tensors of the function (see `own`) on copies of the inputs, with ``variable`` at
        ``point``.

        wide : True if variables of single precision are passed in double precision.
        """
        return self.call(self._args(self.points(variable, point, wide), wide), variable)

    def moved(self, points: Sequence[Vector]) -> Problem:
        """New problem with the variables at other points, after ``project`` has been applied to these."""
        args = self._args(self._within(list(points), wide=False), wide=False)
        return Problem(self.fn, args, self.operation, self.name, self.project)

    def replaced(self, change: Change) -> Any:
        """Copies of the inputs with each leaf replaced by the result of ``change``."""
        import optree

        args = self._args([v.point for v in self.variables], wide=False)
        return optree.tree_map(change, args, is_leaf=_is_wrapper, none_is_leaf=True)

    def call(self, args: tuple[Tree, ...], variable: Variable | None = None) -> Any:
        """Structure and Tensors of ``fn(*args)`` (see `own`); GradcheckError if the function raises an error.

        variable : the variable that was moved, named in the error.
        """
        with enable_grad(), np.errstate(all="ignore"):
            try:
                tensors, spec = flatten_outputs(self.fn(*args))
            except Exception as error:
                finding = Finding(
                    "evaluation",
                    variable.name if variable else "",
                    explanation=f"fn raised {type(error).__name__} near its inputs: {error}",
                )
                raise GradcheckError.of(
                    self.operation,
                    finding,
                    got="an error at a perturbed copy of the inputs",
                    expected="fn to be defined around its inputs",
                ) from error
        return spec, tuple(self._output(name, handle) for name, handle in tensors)

    def points(self, variable: Variable | None, point: Vector | None, wide: bool) -> list[Vector]:
        """Coordinates of all variables with ``variable`` moved to ``point``, after ``project`` has been
        applied.
        """
        coordinates = [point if v is variable and point is not None else v.point for v in self.variables]
        return self._within(coordinates, wide)

    def _within(self, points: list[Vector], wide: bool) -> list[Vector]:
        """Coordinates of all variables after ``project`` has moved ``points`` into the set of valid inputs.

        Without ``project``, the result is ``points``. If ``wide`` is True, variables of single precision are
        passed to ``project`` in double precision.
        """
        if self.project is None:
            return points
        import optree

        args = optree.tree_map(_untracked, self._args(points, wide), is_leaf=_is_wrapper, none_is_leaf=True)
        with no_grad(), np.errstate(all="ignore"):
            projection = self.project(*args)
        single = len(self.args) == 1 and type(projection) not in (tuple, list)
        tree: Any = projection
        tree = (tree,) if single else tuple(tree)
        leaves, spec = optree.tree_flatten(tree, is_leaf=_is_wrapper, none_is_leaf=True)
        fits = spec == self.spec
        for v in self.variables if fits else ():
            leaf = leaves[v.positions[0]]
            fits = fits and isinstance(leaf, Operand) and space_of(leaf).declared() == v.space.declared()
        if not fits:
            raise ArgumentError(
                self.operation,
                "project",
                got="results of another structure, shape or mask",
                expected="those of the inputs",
                remedy="return all inputs, the ones that stay as they are included",
            )
        return [v.space.coordinates(value_of(unwrap(leaves[v.positions[0]]))) for v in self.variables]

    def _args(self, points: Sequence[Vector], wide: bool) -> Any:
        """Copies of the inputs with the variables at ``points``.

        wide : True if variables of single precision are made in double precision.
        """
        import optree

        replaced: dict[int, Any] = {}
        for v, at in zip(self.variables, points, strict=True):
            copy = v.space.leaf(at, self._state[v.positions[0]][0], wide)
            replaced |= dict.fromkeys(v.positions, copy)
        handles = (replaced[k] if k in replaced else _copy(x) for k, x in enumerate(self.leaves))
        return optree.tree_unflatten(self.spec, list(map(rewrap, self._whole, handles)))

    def _check_in_set(self) -> None:
        """Raise ArgumentError if ``project`` moves the inputs by more than rounding."""
        for v, projected_point in zip(self.variables, self.points(None, None, wide=False), strict=True):
            size = float(np.abs(v.point).max(initial=0.0))
            off = float(np.abs(projected_point - v.point).max(initial=0.0))
            unit = np.finfo(dtypes.real_of(v.space.dtype)).eps
            if not off <= 1e4 * unit * size:
                raise ArgumentError(
                    self.operation,
                    v.name,
                    got=f"a point that project moves by up to {off:.3g}",
                    expected="one of the set that project leads to",
                    remedy="pass the projected inputs",
                )

    def _output(self, name: str, output: Operand) -> Output:
        handle = unwrap(output)
        slot = None if not is_tracked(handle) else slot_of(handle)
        return Output(self.name(name), value_of(handle), slot, space_of(output))

    @contextmanager
    def _restoring(self) -> Iterator[list[tuple[str, str]]]:
        """Context that restores the value and the entries of every input at its end, also after an error.

        Its list has then a pair for each change that was undone: the input's name, and "a tensor" or "an
        array".
        """
        before = [[b.copy() for b in _buffers(s)] for s in self._state]
        changes: list[tuple[str, str]] = []
        try:
            yield changes
        finally:
            for name, handle, original in zip(self._names, self._given, self._whole, strict=True):
                if isinstance(handle, Wrapper):
                    if unwrap(handle) is not unwrap(original):
                        changes.append((name, "a tensor"))
                    handle._become(original)
            for name, leaf, state, copies in zip(self._names, self.leaves, self._state, before, strict=True):
                if _is_handle(leaf):
                    now = (value_of(leaf), *slot_of(leaf))
                    if any(a is not b for a, b in zip(now, state, strict=True)):
                        changes.append((name, "a tensor"))
                    rebind(leaf, *state)
                for buffer, copy in zip(_buffers(state), copies, strict=True):
                    if buffer.tobytes() != copy.tobytes():
                        changes.append((name, "an array"))
                        buffer[...] = copy


def _is_wrapper(leaf: Leaf) -> bool:
    return isinstance(leaf, Wrapper)


def _untracked(leaf: Leaf) -> Any:
    return rewrap(leaf, make_handle(value_of(unwrap(leaf)))) if isinstance(leaf, Operand) else leaf


def _is_handle(leaf: Leaf) -> bool:
    return isinstance(leaf, Handle)


def _buffers(state: Leaf) -> tuple[NDArray[Any], ...]:
    """NumPy arrays in which an input has its entries, from its saved state: those of a Tensor, or an array
    itself.
    """
    if isinstance(state, np.ndarray):
        return (state,)
    if isinstance(state, tuple) and len(state) == 3 and hasattr(state[0], "shape"):
        return layout_of(state[0]).buffers(state[0])
    return ()


def _copy(leaf: Leaf) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    if not isinstance(leaf, Handle):
        return leaf
    layout = layout_of(value_of(leaf))
    return make_handle(
        layout.rebuild(value_of(leaf), tuple(b.copy() for b in layout.buffers(value_of(leaf))))
    )
