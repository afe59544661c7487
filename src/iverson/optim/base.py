"""`Optimizer`, the base class: parameters as a pytree, one update per parameter, and the state of updates.

An optimizer is a final class with two methods: ``_start(value)`` makes the state of a parameter, of NumPy
arrays, and ``_update(value, gradient, state, lr)`` writes a step into ``value`` and ``state``: NumPy arrays
too, or tensors of a trace (`iverson.optim.traced`). It gets the part of a parameter that a gradient has
(`iverson.optim.touched_parts`) and knows nothing of the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np

from iverson.autograd.tracked_guards import check_leaves
from iverson.core import dtypes
from iverson.core.dispatch import (
    Operand,
    Wrapper,
    cells,
    is_variable,
    make_handle,
    rebind,
    unwrap,
    value_of,
)
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    NameMissingError,
    ShapeError,
)
from iverson.core.inputs.arguments import as_real, checked
from iverson.core.protocols import DType, NDArray, Shaped
from iverson.core.shapes import Shape
from iverson.core.table import F
from iverson.layouts import Sparse, Zero, to_strided
from iverson.masked import MaskedTensor
from iverson.optim.fused_steps import FusedStep
from iverson.optim.touched_parts import (
    Part,
    State,
    part_of,
    part_of_masked,
    part_of_stored,
    spread_state,
    writable,
)
from iverson.transforms.trees import as_node

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from iverson.handles import Tensor
    from iverson.handles.array import Array

    #: A pytree of parameters, an iterator over them, or a list of groups.
    Parameters: TypeAlias = Array | Iterable[Any] | Mapping[Any, Any] | DataclassInstance
    #: A pytree of gradients, None where there is none.
    Gradients: TypeAlias = Array | list[Any] | tuple[Any, ...] | Mapping[Any, Any] | DataclassInstance | None
    #: Groups of parameters with hyperparameters of their own.
    Groups: TypeAlias = Sequence[Mapping[str, Any]]
    #: What a step computes with: arrays, or tensors of a trace. The rate of a step.
    Numbers: TypeAlias = NDArray | Tensor
    Rate: TypeAlias = float | Tensor

#: A hyperparameter, or a node of a tree, of any type.
T = TypeVar("T")
#: What `Optimizer.state_dict` gives.
StateDict = dict[str, Any]


class Optimizer(ABC):
    """Base of the optimizers.

    params : a pytree of leaf tensors that require grad, plain or masked, an iterator over them, or a list of
        groups: dicts with parameters under "params" and hyperparameters of their own. ``step()`` updates
        them in place, reading ``.grad``, or the pytree of gradients it is given. Complex parameters are
        updated as pairs of real ones.

    **The support of a gradient decides what a step touches**: all entries for a strided gradient, a box for
    that of ``x[2:5]``, rows for that of an embedding (`iverson.embedding`), a pattern for a sparse one, the
    specified entries for a masked one, nothing for None and the zero layout. Repeats of an entry are summed
    first. What is not touched keeps its value and its state: its moments do not fade, no momentum carries
    it on, no weight decays, and it counts no step. So each entry moves as a parameter of its own would that
    sees only the steps which touch it; Adam corrects its bias by the number of *these* steps. To touch
    everything, hand over ``gradient.to_dense()``.

    A sparse parameter takes gradients within the entries it stores. A step on a parameter whose memory nobody
    else holds writes into that memory, and its work and further memory are those of the part it touches.

    A step inside `iverson.jit` is a part of the compiled function: each call of that makes it, in place,
    with the ``lr`` of then. Other hyperparameters that change have it traced again.

    >>> import iverson as iv
    >>> w = iv.asarray([3.0, 4.0], requires_grad=True)
    >>> optimizer = iv.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [2.4, 3.2]
    """

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):
            cls.__init__ = _with_groups(cls, checked(cls.__init__, cls.__name__))  # type: ignore[method-assign]

    def __init__(self, params: Parameters, lr: float, weight_decay: float = 0.0) -> None:
        import optree

        name = type(self).__name__
        tree: Any = list(params) if isinstance(params, (Iterator, ValuesView)) else params
        self.params: list[Any] = list(optree.tree_flatten(tree, is_leaf=_is_wrapper)[0])
        if not self.params:
            raise ArgumentError(name, "params", got="no parameters", expected="at least one")
        ids: set[int] = set()
        for k, p in enumerate(self.params):
            if id(p) in ids:
                raise ArgumentError(
                    name, "params", got=f"leaf {k} a second time", expected="each parameter once"
                )
            ids.add(id(p))
            if not isinstance(p, Operand):
                raise ArgumentTypeError(
                    name,
                    "params",
                    got=f"leaf {k} of type {type(p).__name__}",
                    expected="Tensors",
                    remedy=as_node(p) if hasattr(p, "__dict__") else "",
                )
            if not is_variable(unwrap(p)):
                raise GradientError(
                    name,
                    "params",
                    got=f"leaf {k}, which is no leaf that requires grad",
                    remedy="call requires_grad_() on the parameters",
                )
            self._check_parameter(k, p)
        self._check("lr", lr)
        self._check("weight_decay", weight_decay)
        self.lr = lr
        self.weight_decay = weight_decay
        self._count = make_handle(np.array(0))
        self._states: list[State | None] = [None] * len(self.params)
        self._groups: list[Optimizer] = [self]
        self._first_lr: float | None = None
        self._fused = FusedStep()

    def __setattr__(self, name: str, value: T) -> None:
        if "_closed" in vars(self) and name not in vars(self) and not hasattr(type(self), name):
            raise NameMissingError(
                type(self).__name__,
                name,
                got="a name that it does not have",
                expected=f"one of {', '.join(sorted(self._hyperparameters()))}",
            )
        object.__setattr__(self, name, value)
        if name not in ("lr", "steps"):
            object.__setattr__(self, "_facts", object())  # what was traced before may not hold

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_fused"}

    def __setstate__(self, state: StateDict) -> None:
        vars(self).update(state, _fused=FusedStep())  # a copy counts its own steps

    def __repr__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self._hyperparameters().items()]
        groups = f" in {len(self._groups)} groups" if len(self._groups) > 1 else ""
        count = len(self.params)
        of = f"{count} parameter{'s' * (count != 1)}{groups}, {self.steps} steps"
        return f"{type(self).__name__}({', '.join([of, *settings])})"

    @property
    def param_groups(self) -> list[ParamGroup]:
        """The groups of parameters, as mappings from names to hyperparameters, which can be set.

        Where no groups were given there is one: ``opt.param_groups[0]["lr"]`` is ``opt.lr``.
        """
        return [ParamGroup(group) for group in self._groups]

    def initial_lrs(self) -> list[float]:
        """Learning rate that each group had when this method was first called; schedules start from it."""
        for group in self._groups:
            if group._first_lr is None:
                group._first_lr = float(group.lr)
        return [float(group._first_lr or 0.0) for group in self._groups]

    def _own(self, k: int) -> Optimizer:
        """Optimizer that has the hyperparameters of parameter ``k``: that of its group, or this one."""
        for group in self._groups:
            if k < len(group.params):
                return group
            k -= len(group.params)
        raise IndexError(k)

    @property
    def steps(self) -> int:
        """Number of completed steps."""
        return int(value_of(self._count))

    @steps.setter
    def steps(self, count: int) -> None:
        rebind(self._count, np.array(count))

    def _state(self, k: int, shape: Shape, dtype: DType) -> State:
        """State of parameter ``k``: handles by name. If there is none yet, it is made for a value of
        ``shape`` and ``dtype``.
        """
        state = self._states[k]
        if state is None:
            start = self._own(k)._start(np.empty(shape, dtype))
            state = self._states[k] = {name: make_handle(array) for name, array in start.items()}
            self._facts = object()
        return state

    def _check(self, argument: str, value: float, below: float = float("inf")) -> None:
        """Raise ArgumentError unless the hyperparameter ``value`` is at least 0 and below ``below``."""
        as_real(value, type(self).__name__, argument)
        if not 0 <= value < below:
            bound = "" if below == float("inf") else f" and below {below}"
            raise ArgumentError(
                type(self).__name__,
                argument,
                got=str(value),
                expected=f"a number of at least 0{bound}",
            )

    def _decayed(self, value: Numbers, gradient: Numbers) -> Numbers:
        """The gradient with L2 decay: g + weight_decay p."""
        return gradient + self.weight_decay * value if self.weight_decay else gradient

    def _check_parameter(self, k: int, p: Shaped) -> None:
        """Raise ArgumentError for parameter k if the optimizer is not defined for such arrays."""
        return

    @abstractmethod
    def _start(self, value: NDArray) -> State:
        """State of a parameter before its first step: arrays by name.

        An array has the shape of ``value``, or rank 0 if it is the same for all entries so far (a count of
        steps).
        """

    @abstractmethod
    def _update(self, value: Numbers, gradient: Numbers, state: State, lr: Rate) -> None:
        """Write one step at the rate ``lr`` into ``value`` and ``state``, in place.

        value, gradient : the entries of a parameter that the step touches, and their gradient. state : the
            state of these entries.
        """

    def zero_grad(self) -> None:
        """Forget the gradients: ``.grad`` becomes None."""
        for p in self.params:
            p.grad = None

    def step(self, gradients: Gradients = None) -> None:
        """Update every parameter that has a gradient and requires one (``requires_grad_(False)`` freezes it).

        gradients : a pytree like the parameters (None where there is none), or None to read ``.grad``.
        Raises ArgumentError, ShapeError or DTypeError where they do not fit the parameters, GradientError for
        a parameter that was rebound to a recorded result, and where a transform differentiates a parameter
        or a gradient: a step is not recorded.
        """
        if gradients is None:
            leaves = [p.grad if p.requires_grad else None for p in self.params]
        else:
            leaves = self._flatten(gradients)
        self._check_constant("params", self.params)
        self._check_constant("gradients", leaves)
        if (trace_cells := cells()) is not None:
            from iverson.optim.traced import step

            step(self, leaves, trace_cells)
            return
        if self._fused(self, leaves):
            return
        parts = [
            None if g is None else self._part(k, p, g)
            for k, (p, g) in enumerate(zip(self.params, leaves, strict=True))
        ]
        self.steps = self.steps + 1
        for group in self._groups:
            group.lr = float(group.lr)  # a NumPy scalar would not be weak: float32 steps in float64
        for k, plan in enumerate(parts):
            if plan is not None:
                self._step(k, *plan)

    def _check_constant(self, argument: str, tensors: Sequence[Array | None]) -> None:
        """Raise GradientError if a transform differentiates one of ``tensors``: a step is not recorded."""
        for x in tensors:
            check_leaves(
                unwrap(x), f"{type(self).__name__}.step", argument, "detach it, or write it as an expression"
            )

    def _part(self, k: int, p: Array, g: Array) -> tuple[Part, NDArray] | None:
        """`Part` of parameter ``k`` that its gradient ``g`` covers, and the gradient's entries there; None if
        it is empty.
        """
        plain, argument = unwrap(p), f"gradients[{k}]"
        g = self._checked(k, p, g)
        value = value_of(unwrap(g))
        if type(value) is Zero:
            return None
        if isinstance(g, MaskedTensor):
            return part_of_masked(g._mask.keys, g.shape, to_strided(value))
        if isinstance(value_of(plain), Sparse):
            return part_of_stored(value_of(plain), value, argument)
        return part_of(value)

    def _checked(self, k: int, p: Array, g: Array) -> Array:
        """The gradient ``g`` of parameter ``k``, checked to fit the parameter ``p``.

        For a masked parameter, the result is the vector of the gradient at the parameter's specified entries.
        Raises GradientError if the parameter is no leaf any more.
        """
        argument = f"gradients[{k}]"
        if not is_variable(unwrap(p)):
            raise GradientError(
                "step",
                f"params[{k}]",
                got="a tensor that is no leaf any more",
                remedy="change parameters in place under no_grad()",
            )
        _check_gradient(p, g, argument)
        return p._seed(g, "step", argument) if isinstance(p, Wrapper) else g

    def _step(self, k: int, part: Part, gradient: NDArray) -> None:
        """Write a step into parameter ``k`` and its state, at the entries of ``part``; ``gradient`` has these
        entries.
        """
        value = writable(unwrap(self.params[k]))
        gradient = gradient.astype(value.dtype, copy=False)
        if value.dtype.kind == "c":
            value, gradient = _pairs(value), _pairs(gradient)
        handles = self._state(k, value.shape, value.dtype)
        if not part.whole:
            spread_state(handles, part.axes, value.shape)
        state = {name: value_of(x) for name, x in handles.items()}
        group = self._own(k)
        if part.whole:
            _in_single(group._update, value, gradient, state, group.lr)
            return
        for piece, entries in part.pieces(gradient):
            piece_state = {name: piece.of(array) for name, array in state.items()}
            piece_value = piece.of(value)
            _in_single(group._update, piece_value, entries, piece_state, group.lr)
            piece.write(value, piece_value)
            for name, array in state.items():
                piece.write(array, piece_state[name])

    def _flatten(self, gradients: Gradients) -> list[Array | None]:
        """List of the gradients, one for each parameter, or None; raises ArgumentError for another number of
        them.
        """
        import optree

        tree: Any = gradients
        if isinstance(gradients, Operand):
            tree = [gradients] if len(self.params) == 1 else gradients
        leaves, _ = optree.tree_flatten(tree, is_leaf=_is_wrapper, none_is_leaf=True)
        if len(leaves) != len(self.params):
            raise ArgumentError(
                "step",
                "gradients",
                got=f"{len(leaves)} of them",
                expected=f"{len(self.params)}, one per parameter",
            )
        return list(leaves)

    def state_dict(self) -> StateDict:
        """Everything a later run needs to go on: hyperparameters and a copy of each parameter's state."""
        states = [
            None if s is None else {k: np.copy(value_of(v)) for k, v in s.items()} for s in self._states
        ]
        groups = [group._hyperparameters() for group in self._groups]
        return {"hyperparameters": groups, "steps": self.steps, "states": states}

    def _hyperparameters(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if not k.startswith("_") and k not in ("params", "steps")}

    def load_state_dict(self, state: StateDict) -> None:
        """Take over what `state_dict` of an optimizer of the same class and parameters returned."""
        name = type(self).__name__
        keys = {"hyperparameters", "steps", "states"}
        if not isinstance(state, dict) or set(state) != keys or len(state["states"]) != len(self.params):
            raise ArgumentError(
                name, "state", got="a state of other parameters", expected="one from state_dict()"
            )
        groups = state["hyperparameters"]
        if len(groups) != len(self._groups) or any(set(g) != set(self._hyperparameters()) for g in groups):
            raise ArgumentError(name, "state", got="a state of another optimizer", expected=f"one of {name}")
        for optimizer, group in zip(self._groups, groups, strict=True):
            for k, v in group.items():
                setattr(optimizer, k, v)
        self.steps = state["steps"]
        self._states = [
            None if s is None else {k: make_handle(np.array(v)) for k, v in s.items()}
            for s in state["states"]
        ]


class ParamGroup(MutableMapping[str, Any]):
    """The hyperparameters of a group of parameters by name, and the parameters as ``"params"``.

    >>> import iverson as iv
    >>> iv.optim.SGD([iv.ones(3, requires_grad=True)], lr=0.1).param_groups[0]
    ParamGroup(params of shapes [(3,)], lr=0.1, weight_decay=0.0, momentum=0.0, nesterov=False)
    """

    def __init__(self, own: Optimizer) -> None:
        self._own = own

    def __getitem__(self, name: str) -> Any:
        return self._own.params if name == "params" else self._own._hyperparameters()[name]

    def __setitem__(self, name: str, value: T) -> None:
        if name not in self._own._hyperparameters():
            raise NameMissingError(
                type(self._own).__name__,
                str(name),
                got="a name that a group does not have",
                expected=f"one of {', '.join(sorted(self._own._hyperparameters()))}",
            )
        setattr(self._own, name, value)

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(
            type(self._own).__name__, str(name), got="a hyperparameter to remove", expected="one to set"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(("params", *self._own._hyperparameters()))

    def __len__(self) -> int:
        return 1 + len(self._own._hyperparameters())

    def __repr__(self) -> str:
        settings = [f"{name}={value}" for name, value in self._own._hyperparameters().items()]
        return (
            f"ParamGroup({', '.join([f'params of shapes {[p.shape for p in self._own.params]}', *settings])})"
        )


def _with_groups(cls: type[Optimizer], init: Callable[..., None]) -> Callable[..., None]:
    """Constructor of ``cls`` that also takes groups of parameters; each group becomes an optimizer of the
    same class.

    The optimizer of all groups has the hyperparameters of the call and, where none are given, those of the
    first group.
    """
    names = signature(init)

    @wraps(init)
    def build(self: Optimizer, params: Parameters, *args: Any, **kwargs: Any) -> None:
        if isinstance(params, Iterator):
            params = list(params)
        if not _are_groups(params):
            init(self, params, *args, **kwargs)
        else:
            arguments = dict(names.bind_partial(self, params, *args, **kwargs).arguments)
            defaults = dict(list(arguments.items())[2:])
            owns = []
            for k, group in enumerate(params):
                hyperparameters = {
                    **defaults,
                    **{name: value for name, value in group.items() if name != "params"},
                }
                if unknown := hyperparameters.keys() - names.parameters.keys():
                    raise ArgumentError(
                        cls.__name__,
                        f"params[{k}]",
                        got=f"hyperparameters {sorted(unknown)}",
                        expected=f"those of {cls.__name__}: {', '.join(list(names.parameters)[2:])}",
                    )
                owns.append(type(self).__new__(type(self)))
                owns[-1].__init__(group["params"], **hyperparameters)  # type: ignore[misc]
            init(
                self,
                [p for optimizer in owns for p in optimizer.params],
                **{**_common(owns, names), **defaults},
            )
            self._groups = owns
        if type(self) is cls:
            object.__setattr__(self, "_closed", True)

    return build


def _common(owns: list[Optimizer], names: Signature) -> dict[str, Any]:
    """Hyperparameters of the first group, as arguments of the constructor."""
    return {name: value for name, value in owns[0]._hyperparameters().items() if name in names.parameters}


def _are_groups(params: Parameters) -> TypeGuard[Groups]:
    """Return True if ``params`` is a list or tuple of groups: dicts with a key "params"."""
    if not isinstance(params, (list, tuple)) or not params:
        return False
    return all(isinstance(g, dict) and "params" in g for g in params)


def _check_gradient(p: Array, g: Array, argument: str) -> None:
    if not isinstance(g, Operand):
        raise ArgumentTypeError("step", argument, got=f"a {type(g).__name__}", expected="a Tensor or None")
    if g.shape != p.shape:
        raise ShapeError(
            "step", argument, got=f"shape {g.shape}", expected=f"shape {p.shape} of the parameter"
        )
    if g.dtype.kind == "c" and p.dtype.kind != "c":
        raise DTypeError("step", argument, got=f"dtype {g.dtype}", expected=f"one that fits {p.dtype}")


def number(x: Rate | NDArray, value: Shaped) -> Any:
    """Factor ``x`` in a form that computes with ``value`` without changing its dtype, as a Python number
    does.

    A handle is cast to the dtype of the value; other numbers are returned as they are.
    """
    return F.astype(x, dtype=value.dtype) if isinstance(x, Operand) else x


def _in_single(
    update: Callable[..., None], value: NDArray, gradient: NDArray, state: State, lr: float
) -> None:
    """Make one step with ``update``, in float32 if the parameter is of half precision.

    In that case the parameter and its state are rounded once, at the end.
    """
    if not dtypes.is_half(value.dtype):
        update(value, gradient, state, lr)
        return
    wide = value.astype(np.float32)
    wide_state = {name: a.astype(dtypes.widened(a.dtype)) for name, a in state.items()}
    update(wide, gradient.astype(np.float32), wide_state, lr)
    value[...] = wide
    for name, a in state.items():
        a[...] = wide_state[name]


def _pairs(x: NDArray) -> NDArray:
    """Real array with complex entries as pairs along a new last axis; a view if the entries are
    contiguous.
    """
    return np.ascontiguousarray(x).reshape(-1).view(x.real.dtype).reshape((*x.shape, 2))


def _is_wrapper(x: T) -> bool:
    return isinstance(x, Wrapper)
