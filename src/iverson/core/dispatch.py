"""Dispatch: `bind` finds the interpreter of a call of an op; the protocols of handles, wrappers and levels.

`bind(op, args, params)` is the entry of every call of an op on handles. The interpreter depends on the
arguments. A call goes to a `Wrapper` among them (masked). Otherwise it is carried out eagerly and recorded:
by kernels, or, where a handle holds a value of a `Level` (a trace, a batch), by the innermost such level.
Levels nest in any order, with each other and with gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import singledispatch
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar
from weakref import ref

from iverson.core.errors import ArgumentError, ArgumentTypeError, GraphError, described
from iverson.core.op import Op
from iverson.core.protocols import DType, LayoutValue, Params, Shaped
from iverson.core.python import locks
from iverson.core.python.exact_keys import is_same_function

#: The arguments of a call of an op: handles, values of a level, arrays and Python numbers.
Arguments: TypeAlias = tuple[Any, ...]
#: An operand, or anything else that is among the arguments of a function.
Anything = TypeVar("Anything")
Otherwise = TypeVar("Otherwise")
W = TypeVar("W", bound="Wrapper")
NO_PARAMS: dict[str, Any] = {}


class Operand:
    """Base of all handles, which functions take as arrays, with ``shape``, ``dtype`` and ``ndim``."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]:
            """The extents, one per axis."""

        @property
        def dtype(self) -> DType:
            """The dtype of the entries."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


class Recorded(Protocol):
    """Node of a handle, from which gradients go back: a recorded call, or a leaf, whose ``op`` is None."""

    @property
    def op(self) -> Op | None:
        """The op of the call."""


class Handle(Operand):
    """Protocol of an eager handle: a value in some layout, the node that made it, and its result number.

    ``_node`` is None where no gradient is tracked. A handle may be rebound to another value and node; nodes
    therefore keep values and nodes, never handles. ``_place`` is set only where the handle keeps the place of
    a gradient alive (`iverson.autograd.node.GradSlot`), or a leaf that it was and may become again
    (`iverson.autograd.node.PausedLeaf`). ``_link`` is set only where the handle is a part of another, or has
    parts (`iverson.handles.views`).
    """

    __slots__ = ("__weakref__", "_index", "_link", "_node", "_place", "_value")

    _value: Any
    _node: Any
    _index: int
    _place: Any

    def __init__(self, value: LayoutValue, node: Recorded | None = None, index: int = 0) -> None:
        self._value = value
        self._node = node
        self._index = index

    if not TYPE_CHECKING:  # read without entering a Python function: they are read in every call
        shape = property(attrgetter("_value.shape"), doc="The extents, one per axis.")
        dtype = property(attrgetter("_value.dtype"), doc="The dtype of the entries.")


def value_of(x: Anything, *otherwise: Otherwise) -> Any:
    """The value (in some layout, or of a level) of an eager handle.

    For anything else the result is ``otherwise``, if that is given; else ArgumentTypeError is raised.
    """
    if isinstance(x, Handle):
        return x._value
    if otherwise:
        return otherwise[0]
    raise ArgumentTypeError(
        "value_of", got=described(x), expected="a Tensor", remedy="its entries are not known here"
    )


@dataclass(slots=True)
class Plain:
    """Values and facts of the operands of a call that are all handles with values of one type.

    facts : shape, dtype of the first operand, shape, dtype of the second, and so on.
    tracked : True if one of the operands is tracked (`is_tracked`).
    """

    values: list[Any]
    facts: tuple[Any, ...]
    tracked: bool


def plain(args: Iterable[object], kind: type[LayoutValue]) -> Plain | None:
    """Values and facts of operands that are all handles with values of the type ``kind``; None if one is not.

    One loop: these checks are most of the cost of a compiled function of many small tensors.
    """
    handle = _handle[0]
    values: list[Any] = []
    facts: list[Any] = []
    any_tracked = False
    for x in args:
        if type(x) is not handle or type(value := x._value) is not kind:
            return None
        values.append(value)
        facts += (value.shape, value.dtype)
        if x._node is not None:
            any_tracked = True
    return Plain(values, tuple(facts), any_tracked)


def is_tracked(x: Anything) -> bool:
    """True if ops on ``x`` may be recorded: it is an eager handle with a node."""
    return getattr(x, "_node", None) is not None


def is_variable(x: Anything) -> bool:
    """True if ``x`` is an eager handle that is a leaf: its node has no op."""
    node = getattr(x, "_node", None)
    return node is not None and node.op is None


def slot_of(x: Any) -> tuple[Any, int]:
    """Node that made an eager handle, and the number of its result that the handle is."""
    return x._node, x._index


def rebind(x: Handle, value: LayoutValue, *slot: Any) -> None:
    """Give an eager handle another value of its shape and dtype.

    slot : a new node and number of the result; without these, the handle keeps its own.
    """
    x._value = value
    if slot:
        x._node, x._index = slot


class Wrapper(Operand, ABC):
    """Protocol of an operand that is one plain handle (``_inner``) with its own meaning, as masked tensors.

    Code that differentiates (the engine, transforms, gradcheck) works on the inner handle and wraps its
    results, by `unwrap` and `rewrap`; ops are carried out by an interpreter registered for the kind.
    """

    __slots__ = ()

    _inner: Any

    @abstractmethod
    def _rewrap(self, handle: Any) -> Any:
        """A wrapper with the meaning of this one for another handle of that shape, plain or a wrapper."""

    @abstractmethod
    def _rewrap_stacked(self, handle: Any) -> Any:
        """Wrapper with the meaning of this one for a stack of several such handles along a new first axis."""

    @abstractmethod
    def _seed(self, value: Any, operation: str, argument: str) -> Any:
        """Plain handle of the inner handle's cotangent or tangent, from the user's for the operand.

        Raises ShapeError unless ``value`` has this operand's shape.

        operation, argument : names for the error.
        """

    @abstractmethod
    def _become(self, result: Self) -> None:
        """Take over the value of ``result``, a wrapper of this kind, shape and dtype."""


def unwrap(x: Anything) -> Any:
    """The plain handle in a `Wrapper`; anything else is returned unchanged."""
    return x if type(x) is _handle[0] or not isinstance(x, Wrapper) else x._inner


def semantics_of(x: Anything) -> Any:
    """A wrapper like ``x`` without a handle, as an argument of `rewrap`; None if ``x`` is no wrapper."""
    return x._rewrap(None) if isinstance(x, Wrapper) else None


def rewrap(operand: Any, handle: Shaped) -> Any:
    """Wrap ``handle`` as ``operand`` is wrapped; ``handle`` itself if ``operand`` is no wrapper.

    handle : a plain handle, for example the gradient of the operand.
    """
    is_plain = type(operand) is _handle[0] or not isinstance(operand, Wrapper)
    return handle if is_plain else operand._rewrap(handle)


def rewrap_stacked(operand: Anything, handle: Operand) -> Any:
    """Wrap ``handle``, a stack of several such handles along a new first axis, as ``operand`` is wrapped."""
    return operand._rewrap_stacked(handle) if isinstance(operand, Wrapper) else handle


@singledispatch
def zero_filled(x: Any) -> Any:
    """A plain handle in which missing entries are 0; values that are no wrapper are returned unchanged.

    Each type of wrapper registers its own function.
    """
    return x


class Level(ABC):
    """Context in which handles have another meaning, as a trace or a batch, until its block ends.

    Handles contain its values (`LevelValue`) as they contain values in some layout, so that functions,
    gradients and wrappers work on them as on any other value. Ops on them are carried out by the level's
    `bind`, which calls ops on the handles that its values stand for: handles of outer levels, or eager ones.

    Attributes
    ----------
    name : its name in errors.
    depth : the number of levels around it; None while it is not entered.
    drawn : ``drawn(draw)`` returns a value for the numbers that will be drawn when the recorded program runs;
        None if numbers are drawn at once.
    origin : the level whose examples or values these are: itself, or another one that it stands for.
    cells : the handler of outside tensors that are tracked or written in the level (see `Cells`); None if
        they are the same in the level as outside.
    reads_patterns : True if code within it asked which entries a value stores.
    is_differentiated : True if its recorded program is differentiated later, also with respect to entries
        that a sparse value does not store: a derivative in it relies on no pattern.
    """

    __slots__ = ("_wrappers", "depth", "is_differentiated", "name", "origin", "reads_patterns")
    drawn: Any = None
    cells: Cells | None = None
    #: What is wrong with a value of it while it is not entered, what is expected instead, and what to do.
    gone = (
        "a value of it after its end, or in another thread",
        "values that are used while it runs",
        "return the value from the function that is transformed",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = self
        self.reads_patterns = False
        self.is_differentiated = False
        #: By identity, wrappers from outside that are written in it, and how to let them be what they were.
        self._wrappers: dict[int, tuple[Any, Callable[[Any], None]]] = {}
        self.depth: int | None = None

    @abstractmethod
    def bind(self, op: Op, args: Arguments, params: Params) -> Any:
        """Carry out an op on arguments of which at least one is a value of this level.

        All others are handles of levels outside or eager ones, arrays or Python scalars. The result is a
        value of this level or in some layout, or a tuple of them if the op has several results.
        """

    def index_array(self, pattern: Any, axis: int) -> Any:
        """A handle of the index of each entry along an axis of a pattern that is known only when the level's
        program runs; None if the level has no such pattern."""
        return None

    def function(self, function: type, args: Arguments) -> Any:
        """The result of a custom `Function` on arguments of this level, if the level carries it out itself;
        None if its ``forward`` is to run as it is."""
        return None

    def one_by_one(self, function: type) -> Any:
        """A `Function` that runs ``function`` once entries are known; None if they never are."""
        return None

    @contextmanager
    def knowing(self, x: Any, operand: Any) -> Iterator[None]:
        """Context where reads of an outside tensor (``x``, or one with the value ``x``) return ``operand``.

        If ``x`` is a value of a level, nobody can read it anew: reads then return ``operand`` after the
        block, too.
        """
        yield

    def created(self, handle: Handle) -> Any:
        """The form in which this level takes a new array that does not depend on an operand.

        By default, this is ``handle`` itself, a constant.
        """
        return handle

    def examples(self) -> int | None:
        """Number of runs of a function that one run of this level stands for; None if it is run once."""
        return None

    def writing(self, x: Handle) -> None:
        """Prepare for ``x`` to get a value of this level; by default nothing is done."""
        return

    def of_examples(self, handle: Handle) -> Any:
        """Value of this level for a ``handle`` that has one array for each example, along axis 0."""
        return handle

    def variable_of(self, x: Any) -> Any:
        """Handle that stands in this level for one that is differentiated in it; by default x itself."""
        return x

    def __enter__(self) -> Self:
        if self.depth is not None:
            raise ArgumentError(
                self.name, got="a level that is entered already", expected="a new one for each block"
            )
        self.depth = len(_levels.get())
        _levels.set((*_levels.get(), self))
        return self

    def __exit__(self, *how: object) -> None:
        _levels.set(_levels.get()[: self.depth])
        self.depth = None
        if self._wrappers:
            self._restore_wrappers(refuse=how[0] is None)

    def _restore_wrappers(self, refuse: bool) -> None:
        """Give wrappers from outside their earlier value, if they were given a value of this level.

        Raises GraphError if there are any and ``refuse`` is True.
        """

        def changed() -> list[tuple[Any, Callable[[Any], None]]]:
            wrappers = [(where(), restore) for where, restore in self._wrappers.values()]
            return [(x, restore) for x, restore in wrappers if x is not None and _level_of(x) is self]

        if refuse and changed():
            import gc

            gc.collect()  # a cycle may keep a temporary alive
        wrappers = changed()
        for x, restore in wrappers:
            restore(x)
        if refuse and wrappers:
            wrapper, _ = wrappers[0]
            raise GraphError(
                self.name,
                got=f"a write into a {type(wrapper).__name__} from outside, of shape {wrapper.shape}",
                expected="writes into plain tensors, or a function that returns what it computes",
                remedy="return the new value, and write it after the call",
            )

    @contextmanager
    def innermost(self) -> Iterator[None]:
        """Context in which the levels inside of this one are not entered: this one is innermost."""
        before = _levels.set(_levels.get()[: None if self.depth is None else self.depth + 1])
        try:
            yield
        finally:
            _levels.reset(before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Context in which this level, and all levels inside of it, are not entered."""
        before = _levels.set(_levels.get()[: self.depth])
        try:
            yield
        finally:
            _levels.reset(before)


class Cells(Protocol):
    """Handler of a level for outside tensors that change from one run of the level to the next."""

    level: Level

    def bind(self, op: Op, args: Arguments, params: Params) -> Any:
        """Carry out an op on tracked tensors from outside; see `Level.bind`."""

    def reading(self, args: Arguments) -> None:
        """Prepare for an op on outside arrays alone; `Level.bind` is not called for such an op."""

    def inside(self, x: Handle) -> Any:
        """A handle of this level's value for the value of the eager handle ``x``."""

    def rebinding(self, x: Handle) -> None:
        """Prepare for ``x`` to get another value."""

    def gradient(self, place: Any, *, read: bool) -> None:
        """Prepare for the gradient in ``place`` to be read (``read`` is True) or replaced."""


class _Entered:
    """Number of entered levels with cells, over all threads; while it is 0, no call looks for cells."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = locks.lock()

    def add(self, change: int) -> None:
        with self.lock:
            self.count += change


with_cells = _Entered()
_levels: ContextVar[tuple[Level, ...]] = ContextVar("iverson_levels", default=())
#: The levels that are entered in this context, the innermost last.
levels = _levels.get


def cells() -> Cells | None:
    """The cells of the innermost level that has cells; None if no level has."""
    for level in reversed(levels()):
        if level.cells is not None:
            return level.cells
    return None


def _level_of(x: Anything) -> Level | None:
    """The level that an operand's value belongs to; None for an eager value."""
    return getattr(value_of(unwrap(x), None), "_level", None)


def rewrapping(x: W, restore: Callable[[W], None]) -> None:
    """Note the wrapper ``x``, before it gets another value, in the entered levels inside of its own.

    restore : function that gives the wrapper its present value again when such a level ends.
    """
    value_level = _level_of(x)
    for level in reversed(levels()):
        if level is value_level:
            return
        entry = level._wrappers.get(id(x))
        if entry is None or entry[0]() is not x:
            level._wrappers[id(x)] = ref(x), restore


def may_select(x: Anything) -> bool:
    """True if the value of a handle may be a selection (`Bracket`) that is not computed yet."""
    return getattr(value_of(x, x), "may_select", False)


class LevelValue(Operand):
    """The protocol of a value that belongs to a level; its type is registered like a layout.

    may_select : True if the eager value may be a selection that is not computed yet (a bracket).
    is_sparse : True if the eager value is sparse.
    pattern : the entries that the eager value stores; None if they are not known, or differ.
    stored : the origin of the entries that eager code would store (`iverson.kernels.deferred_patterns`); None
        if each entry would be stored.
    dense : True if the eager value is known to be strided: the other attributes then need not be read.
    """

    __slots__ = ("_level",)

    may_select = False
    is_sparse = False
    dense = False
    pattern: Any = None
    stored: Any = None

    def __init__(self, level: Level) -> None:
        self._level = level

    def note_stored(self, stored: Any) -> None:
        """Note the origin of the entries that eager code would store; by default nothing is noted."""


def has_entries(x: Anything) -> bool:
    """True if the entries of an operand are known here: it is no value of a level."""
    return not isinstance(getattr(x, "_value", x), LevelValue)


def level_of(values: Iterable[Shaped | complex | None]) -> Level | None:
    """The innermost level that one of ``values`` belongs to; None if all are eager values.

    Raises ArgumentError for a value of a level that is not entered in this context.
    """
    innermost: Level | None = None
    level_stack = levels()
    for v in values:
        if isinstance(v, LevelValue) and (level := v._level) is not innermost:
            if level not in level_stack:
                problem, expected, remedy = level.gone
                raise ArgumentError(level.name, got=problem, expected=expected, remedy=remedy)
            if innermost is None or level_stack.index(level) > level_stack.index(innermost):
                innermost = level
    return innermost


def seen_from(
    level: Level, args: Iterable[Shaped | complex], values: Iterable[Shaped | complex | None]
) -> tuple[Any, ...]:
    """The arguments of a call as `Level.bind` of ``level`` takes them.

    Handles of values of this level are replaced by the values; all other arguments stay.

    values : the value of each argument.
    """
    operands = []
    for a, v in zip(args, values, strict=True):  # a loop: this is asked for each call in a level
        operands.append(v if isinstance(v, LevelValue) and v._level is level else a)
    return tuple(operands)


class Bits(Protocol):
    """A source of random numbers whose state can be read and set."""

    state: Any


class Draw:
    """A draw of random numbers that is repeated at each call: the form in which a trace keeps a draw.

    ``draw(lead)`` returns a handle with axes of the extents ``lead`` in front.

    lead : extents of the axes in front of each draw.
    known : the levels whose examples share the numbers, because their source was created there, or whose
        examples are along the axes ``lead``.
    """

    __slots__ = ("_bits", "_draw", "_known", "_lead", "dtype", "shape")

    def __init__(
        self,
        bits: Bits,
        draw: Callable[[tuple[int, ...]], Handle],
        lead: tuple[int, ...],
        known: tuple[Level, ...],
    ) -> None:
        self._bits, self._draw, self._lead, self._known = bits, draw, lead, known
        state = bits.state
        example = draw(lead)  # as an example, after which the bits are as before
        self.shape, self.dtype = example.shape, example.dtype
        bits.state = state

    def __call__(self) -> Any:
        """Draw new numbers, in the form of the levels that are entered (see `drawn`)."""
        return drawn(lambda lead: self._draw((*lead, *self._lead)), self._known, self._bits)

    def is_like(self, other: Draw) -> bool:
        """True if both draw equal numbers from one source, if they start in one state of it."""
        a, b = ((d.shape, d.dtype, d._lead, d._known) for d in (self, other))
        return self._bits is other._bits and a == b and is_same_function(self._draw, other._draw)

    def several(self, count: int) -> Draw:
        """Draw that gives ``count`` of these draws at once, along a new first axis."""
        return Draw(self._bits, self._draw, (count, *self._lead), self._known)

    def differs_in(self, level: Level) -> bool:
        """True if each example of ``level`` has numbers of its own."""
        return level.examples() is not None and level.origin not in self._known


def created(handle: Handle) -> Any:
    """New array in the form of the innermost level (see `Level.created`); ``handle`` if there is none.

    Creation and random functions return it.
    """
    level_stack = levels()
    return level_stack[-1].created(handle) if level_stack else handle


def drawn(draw: Callable[[tuple[int, ...]], Handle], known: tuple[Level, ...], bits: Bits) -> Any:
    """New random numbers, in the form of the levels that are entered; ``draw(lead)`` draws them.

    The numbers differ from example to example in the levels that were entered after those in ``known``.
    Within a level that records a program, they are drawn when the program runs.

    draw : function that returns a handle with further axes of the extents ``lead`` in front.
    known : the levels in which the source of the numbers was created.
    bits : the source of the numbers, with a ``state`` that can be read and set.
    """
    traces = (k for k, level in enumerate(levels(), 1) if level.drawn is not None)
    first = max(traces, default=0)
    counts = ((level, level.examples()) for level in levels()[first:] if level.origin not in known)
    inside = [(level, n) for level, n in counts if n is not None]
    lead = tuple([n for _, n in inside])
    known = (*known, *(level.origin for level, _ in inside))
    result = levels()[first - 1].drawn(Draw(bits, draw, lead, known)) if first else created(draw(lead))
    for level, _ in inside:
        result = level.of_examples(result)
    return result


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One way to carry out a bound op: ``bind(op, args, params)`` for operands of some kind."""

    name: str
    bind: Callable[[Op, tuple[Any, ...], Params], Any]


_by_type: dict[type, Interpreter] = {}
_default: list[Interpreter] = []
_handle: list[type[Handle]] = [Handle]
_new = object.__new__


def register_interpreter(
    interpreter: Interpreter, kinds: tuple[type, ...] = (), *, default: bool = False
) -> None:
    """Use ``interpreter`` for wrappers of the types ``kinds``; with ``default``, for all other calls too."""
    for kind in kinds:
        _by_type[kind] = interpreter
    if default:
        _default[:] = [interpreter]


def register_handle(kind: type[Handle]) -> None:
    """Set the class of the handles in which eager results are returned."""
    _handle[0] = kind


def make_handle(value: LayoutValue, node: Recorded | None = None, index: int = 0) -> Any:
    """A new eager handle, in half the time that a call of its class takes.

    index : the number of the result, among several of ``node``, that it is.
    """
    handle = _new(_handle[0])
    handle._value = value
    handle._node = node
    handle._index = index
    return handle


def make_handles(values: Iterable[LayoutValue]) -> list[Any]:
    """A new eager handle of each value."""
    return list(map(_handle[0], values))


def alias(x: Any) -> Any:
    """Another handle on the same value and node.

    Rebinding one of them (in place, by assignment) leaves the other as it was. So handles that the library
    still needs are given to the user's code as aliases, and handles from the user that must last are stored
    as aliases.
    """
    return make_handle(x._value, x._node, x._index)


def bind(op: Op, args: Arguments, params: Params = NO_PARAMS) -> Any:
    """Carry out ``op`` on handles, arrays and Python scalars; returns what its interpreter returns."""
    return _default[0].bind(op, args, params)


def foreign(args: Arguments) -> Interpreter | None:
    """The interpreter of the first wrapper among ``args``; None if there is no wrapper.

    The default interpreter asks only if it meets an argument that it does not know, so that calls on plain
    handles never look it up.
    """
    for arg in args:
        if type(arg) in _by_type:
            return _by_type[type(arg)]
    return None
