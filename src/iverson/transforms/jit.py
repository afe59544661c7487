"""`jit`: functions of tensors, traced once for each kind of arguments and then run as one program."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Generic, Literal

import numpy as np

from iverson.autograd.mode import is_grad_enabled, recording
from iverson.autograd.tracked_guards import check_in_place
from iverson.core.aval import Aval
from iverson.core.counting import work
from iverson.core.counting.notes import Called
from iverson.core.dispatch import (
    Handle,
    LevelValue,
    Operand,
    Plain,
    Wrapper,
    is_tracked,
    levels,
    make_handle,
    make_handles,
    rewrap,
    semantics_of,
    unwrap,
    value_of,
)
from iverson.core.entries import Box, Stored
from iverson.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    CompilationWarning,
    IversonError,
    described,
    way_in,
)
from iverson.core.inputs.arguments import as_function, checked
from iverson.core.protocols import Shaped
from iverson.core.python.caller import warn
from iverson.core.python.exact_keys import exact
from iverson.core.table import overrides, rules_in_force
from iverson.core.trace_guards import guards_of
from iverson.graph.calls.compiled_ops import Compiled
from iverson.graph.ir.nodes import Graph
from iverson.graph.ir.pattern_binding import bounds
from iverson.graph.lowering.lowering_formulas import LoweringFormulas
from iverson.graph.tracing.captured_state import aval_of
from iverson.graph.tracing.donation import give_away
from iverson.handles import Tensor, asarray, views
from iverson.kernels.deferred_patterns import Repeated, origin_of
from iverson.layouts import (
    Pattern,
    Sparse,
    Strided,
    layout_of,
    strided_operands,
    support_of,
    support_pattern,
)
from iverson.layouts.pattern_symbols import (
    Counts,
    PatternRead,
    PatternSymbol,
    examples,
    has_symbols,
    kind_key,
    symbol_for,
)
from iverson.masked.policies import USUAL, current
from iverson.transforms.disabled_compilation import as_python, is_disabled
from iverson.transforms.entry_count_polymorphism import AnyCount, Symbols, stand_ins
from iverson.transforms.in_place_calls import CHANGED, InPlaceCall
from iverson.transforms.number_polymorphism import MOST, AnyNumber
from iverson.transforms.pytree_tracing import TracedFunction, differentiates
from iverson.transforms.retrace_reasons import ArgumentTexts, argument_texts, difference
from iverson.transforms.trees import Function, P, R, flatten, flatten_exactly, handed_out, unflatten

_ARRAYS = (np.ndarray, np.generic)
_NUMBERS = (int, float)
NO_SYMBOLS: Symbols = {}
#: What a trace counts on: hashable.
Key = Any
#: How many traces of a kind are followed by one for any number of entries.
_TRIES = 3
#: The number of traces that are kept that share their programs, and of all.
_SERVED, _ENTRIES = 64, 512


class _Entry:
    """One trace of a function with its compiled program: it is called with the handles of a call.

    native : False to interpret the graph. sharing : codes that traces share. symbols : symbols that stand for
    patterns of the arguments.
    """

    def __init__(
        self,
        function: Function,
        name: str,
        call: _Given,
        native: bool,
        sharing: LoweringFormulas,
        symbols: Symbols = NO_SYMBOLS,
    ) -> None:
        guards = guards_of(function, (*call.leaves, *call.fixed.values()))
        self._name = name
        avals = call.avals(symbols)
        origins = call.origins(symbols)
        self.traced = TracedFunction(
            function,
            name,
            avals,
            call.rebuilt,
            stateful=True,
            as_stored=True,
            origins=origins,
            given=call.handles,
        )
        donated = dict.fromkeys(call.donated, -1) | self.traced.donated()
        self.graph = self.traced.graph
        self.compiled = Compiled(self.graph, name, native=native, donated=donated, sharing=sharing)
        inputs = set(map(id, self.traced.inputs()))
        for guard in guards:
            guard.settle(inputs)
        self.guards = [guard for guard in guards if not guard.is_certain]
        self._steps = self.traced.steps
        #: Numbers and arrays of the trace that are inputs of the program, behind the arguments.
        self._inside: Sequence[Any] = ()
        #: Calls on state as the last call left it.
        self.in_place: InPlaceCall | None = None
        #: Whether it maps values to values, and nothing else.
        self._is_closed = self.traced.is_pure and not self.traced.captured

    def on(self, graph: Graph) -> _Entry:
        """Copy of this entry that runs ``graph`` in place of its own graph."""
        other = copy.copy(self)
        other.graph = graph
        other.compiled = self.compiled.of(graph)
        return other

    def served(self, handles: Sequence[Handle], general: AnyNumber) -> _Entry:
        """Copy of this entry that is run by a program in ``general``; the entry itself if no such program
        fits.

        handles : the handles of a call, for the values of its inputs.
        """
        program = general.serving(self.compiled, [value_of(x, x) for x in (*handles, *self.traced.inputs())])
        if program is None:
            return self
        other = copy.copy(self)
        other.compiled, other._inside = program
        return other

    def holds(self) -> bool:
        """True if all that the function read from outside while it was traced is unchanged."""
        for guard in self.guards:
            if not guard.holds():
                return False
        traced = self.traced
        return traced.holds() if traced.cells else traced.surroundings_hold()

    def on_settled(self, call: InPlaceCall, handles: Sequence[Tensor], plain: Plain) -> Any:
        """Result of a call on strided tensors, as `on_plain`; `CHANGED` if the last call says too little."""
        for guard in self.guards:
            if not guard.holds():
                return CHANGED
        result = call(handles, plain)
        if result is CHANGED:
            self.in_place = None
        return result

    def on_plain(self, handles: Sequence[Tensor], plain: Plain) -> Any:
        """Result of a call on strided tensors whose values and facts are known, in ``plain``.

        A function that reads, writes and records nothing outside is then run on the values directly.
        """
        if self._is_closed and not (plain.tracked and is_grad_enabled()):
            values = [*plain.values, *map(value_of, self._inside)] if self._inside else plain.values
            return self.traced.packed(make_handles(self.compiled.run(values)))
        return self(handles)

    def __call__(self, handles: Sequence[Tensor]) -> Any:
        traced = self.traced
        if traced.is_pure:
            return traced.packed(self.compiled([*handles, *traced.inputs(), *self._inside]))
        for k in traced.written:
            check_in_place(handles[k], self._name)
        bases = [views.base_of(handles[k]) for k in traced.written]
        outside_writes = [
            (x, views.base_of(x)) for x in (cell.now() for cell, is_tensor in traced.put if is_tensor)
        ]
        self._check_apart(handles, bases, outside_writes)
        inputs = [*handles, *traced.inputs(), *self._inside]
        if self._steps:
            with recording(False):
                results = self.compiled(inputs)
        else:
            results = self.compiled(inputs)
        updates = iter(results[traced.own :])
        for k, base in zip(traced.written, bases, strict=True):
            handles[k]._become(next(updates))
            views.write_back(handles[k], base)
        for cell, is_tensor in traced.put:
            cell.put(next(updates) if is_tensor else None)
        del inputs, updates
        outputs = results[: traced.own]
        del results
        self.in_place = None if self._inside else InPlaceCall.of(traced, self.compiled, len(handles))
        return traced.packed(outputs)

    def _check_apart(
        self,
        handles: Sequence[Tensor],
        bases: Sequence[views.Base | None],
        outside_writes: Sequence[tuple[Handle, views.Base | None]],
    ) -> None:
        """Raise ArgumentError if a tensor that is written reaches the traced function in a second way, too.

        bases : for each written argument, the tensor that it is a part of, or None.
        outside_writes : tensors from outside that are written, each with the tensor that it is a part of, or
            None.
        """
        arguments, outside = set(map(id, handles)), set(map(id, self.traced.outside()))
        outside.update(id(guard.held) for guard in self.guards)
        written_ids = {id(handles[k]) for k in self.traced.written}
        wholes = {id(base[0]) for base in bases if base is not None}
        # A part from outside is written in the trace with what it is a part of, if the trace has that too.
        wholes |= {id(base[0]) for _, base in outside_writes if base is not None} - {
            id(x) for x, _ in outside_writes
        }
        if not (
            written_ids.isdisjoint(outside)
            and arguments.isdisjoint(id(x) for x, _ in outside_writes)
            and wholes.isdisjoint(arguments | outside)
        ):
            raise ArgumentError(
                self._name,
                "args",
                got="a tensor that is written to and reaches the function in two ways: as arguments, as a "
                "part of one, or from outside",
                expected="one way to each tensor that it writes to",
                remedy="pass it alone, or a copy: iverson.asarray(x, copy=True)",
            )


def _any_count(
    entry: _Entry, symbols: Symbols, trace: Callable[[Symbols], _Entry]
) -> tuple[_Entry, AnyCount] | None:
    """Entry like ``entry`` for any number of stored entries, and its `AnyCount`; None if the result depends
    on the number.

    symbols : the symbols that ``entry`` was traced with. trace : makes an entry with other symbols.
    """
    general_symbols = stand_ins(list(symbols), entry.traced)
    try:
        with examples({s: p for p, s in general_symbols.items()}):
            general = trace(general_symbols)
        any_count = AnyCount(general.traced, list(general_symbols.values()))
        return (general, any_count) if any_count.agrees(entry.traced, list(symbols.values())) else None
    except Exception:  # shapes that fit, or a function that works, for these numbers of entries alone
        return None


class _Given:
    """Arguments of one call of a compiled function.

    handles : plain handles of all arguments that are tensors or arrays. leaves : all leaves, static ones left
        out.
    key : hashable; a trace serves all calls with an equal key (for sparse arguments see `patterns`).
    patterns : the patterns of sparse arguments, numbered in the order in which they occur.
    donated : numbers of the handles that the call may overwrite. fixed : the static arguments.
    is_traced : True if an argument is a value of an outer trace or batch.
    """

    def __init__(
        self, args: tuple[object, ...], kwargs: dict[str, object], static: Static, donate: Chosen, name: str
    ) -> None:
        fixed: dict[Any, Any] = {}
        self.arguments = args, kwargs
        donated = donate.leaves(args, kwargs) if donate.any else ()
        if static.any:
            args, kwargs, fixed = static.taken(args, kwargs, name)
        leaves, self.structure, structure = flatten_exactly((args, kwargs))
        self.fixed = fixed
        self.handles: list[Any] = []
        self.leaves: list[Any] = []
        self.donated: list[int] = []
        key: list[Any] = [structure, *((k, _constant(v)) for k, v in fixed.items())]
        #: Where numbers are in the key.
        self._numbers = [k for k, v in enumerate(fixed.values(), 1) if type(v) in _NUMBERS]
        self.patterns: dict[Pattern, int] = {}
        places: dict[int, int] = {}
        plain = True
        for leaf in leaves:
            if isinstance(leaf, Operand):
                if id(leaf) in donated:
                    self.donated.append(len(self.handles))
                if (first := places.setdefault(id(leaf), len(self.handles))) < len(self.handles):
                    key.append(first)  # what is written to one is written to both
            x = leaf if type(leaf) is Tensor or not isinstance(leaf, _ARRAYS) else asarray(leaf)
            if type(x) is Tensor and type(value := value_of(x)) is Strided:
                self.handles.append(x)
                key.append((value.shape, value.dtype))
            elif isinstance(x, Operand):
                handle = unwrap(x)
                plain = False
                self.handles.append(handle)
                if type(x) is Tensor and (pattern := _symbolic(value)) is not None:
                    number = self.patterns.setdefault(pattern, len(self.patterns))
                    key.append((layout_of(value).name, value.shape, value.dtype, number, kind_key(pattern)))
                else:
                    key.append((_wrapper_key(x), _key(value_of(handle))))
            else:
                if type(x) in _NUMBERS:
                    self._numbers.append(len(key))
                key.append(_constant(x))
            self.leaves.append(x)
        if not plain:
            key.append(differentiates(self.handles))
        self.is_traced = not plain and any(isinstance(value_of(h), LevelValue) for h in self.handles)
        self.key = tuple(key)
        try:
            hash(self.key)
        except TypeError:
            refused = next(x for x in (*self.leaves, *fixed.values()) if not _is_hashable(x))
            raise ArgumentTypeError(
                name,
                "args",
                got=described(refused),
                expected="tensors, arrays, and Python values that can be hashed, in containers",
                remedy=way_in(refused, "pass it as an array, or give it a hash"),
            ) from None

    @property
    def with_any_numbers(self) -> tuple[Any, ...]:
        """Copy of ``key`` in which Python numbers are replaced by their types."""
        key = list(self.key)
        for k in self._numbers:
            key[k] = key[k][0], "number"
        return tuple(key)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of entries, or blocks, that each pattern stores."""
        return tuple([p.stored_shape[0] for p in self.patterns])

    def symbols(self) -> dict[Pattern, PatternSymbol]:
        """Symbol for each pattern of the arguments, with the number of entries that the pattern has."""
        extents = {n for h in self.handles for n in h.shape}
        counts = Counts(extents.union(*(p.stored_shape for p in self.patterns)))
        return {p: symbol_for(p, counts=counts) for p in self.patterns}  # type: ignore[misc]

    def avals(self, symbols: Symbols) -> list[Aval]:
        """Shapes, dtypes and supports (`Aval`) of the handles, with ``symbols`` in place of patterns."""
        avals = list(map(aval_of, self.handles))
        for k, a in enumerate(avals):
            if isinstance(a.support, Stored) and (symbol := symbols.get(a.support.pattern)) is not None:
                avals[k] = Aval(a.shape, a.dtype, Stored(symbol))
        return avals

    def origins(self, symbols: Symbols) -> list[Any]:
        """Origin of the entries that eager code stores, for each handle, with ``symbols`` in place of
        patterns.

        Supports do not tell if entries are repeated; origins do.
        """
        origins = list(map(origin_of, self.handles))
        for k, p in enumerate(origins):
            symbol = symbols.get(support_pattern(value_of(self.handles[k])))
            if isinstance(p, Pattern) and symbol is not None:
                origins[k] = None if p.distinct else Repeated(symbol)
        return origins

    def rebuilt(self, handles: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the call with ``handles`` in place of its own.

        A tensor that occurs twice is replaced by one handle.
        """
        iterator = iter(handles)
        operand_of: dict[int, Any] = {}
        leaves = [
            operand_of.setdefault(id(x), rewrap(x, next(iterator))) if isinstance(x, Operand) else x
            for x in self.leaves
        ]
        args, kwargs = unflatten(self.structure, leaves)
        return Static.put_back(args, kwargs, self.fixed)


def _plain_key(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Any, Sequence[Any], Any]:
    """Key of a call on strided tensors that are all different, the leaves, and facts that are known of these.

    The key has the structure, shapes and dtypes. Key and facts are None if the arguments are not of this
    kind.
    """
    structure = None
    if kwargs or (plain_args := strided_operands(args)) is None:
        args, _, structure = flatten_exactly((args, kwargs))
        plain_args = strided_operands(args)
    if plain_args is None or (len(args) > 1 and len(set(map(id, args))) < len(args)):
        return None, args, None
    return (structure, plain_args.facts), args, plain_args


def _constant(x: Any) -> Any:
    """Hashable form of a Python value in a key; a value without a hash is returned as it is, and refused
    later.
    """
    return exact(x) if _is_hashable(x) else x


def _is_hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _key(value: Shaped) -> Any:
    """Facts of a value that a trace relies on: shape, dtype and, unless it is strided, layout and pattern or
    box.
    """
    if type(value) is Strided:
        return value.shape, value.dtype
    support = support_of(value)
    box_or_pattern = support if isinstance(support, Box) else getattr(value, "pattern", None)
    return layout_of(value).name, value.shape, value.dtype, box_or_pattern


def _zeros_like(value: Shaped) -> Any:
    """Value of the same shape, dtype and pattern as ``value``, whose entries are zero."""
    pattern = value.pattern if isinstance(value, Sparse | LevelValue) else None
    if pattern is None:
        return np.zeros(value.shape, value.dtype)
    return pattern.value(np.zeros((pattern.count, *value.shape[pattern.ndim :]), value.dtype))


def _symbolic(value: Shaped) -> Any:
    """Pattern of a sparse value, if a trace may have a symbol in its place; else None."""
    pattern = support_pattern(value) if isinstance(value, Sparse) else None
    return pattern if has_symbols(pattern) else None


def _wrapper_key(x: Operand) -> Any:
    """Type and mask of a wrapper, both part of the key of a call; None for a Tensor. Equal masks give equal
    keys.
    """
    return None if not isinstance(x, Wrapper) else (type(x), semantics_of(x)._mask)


class Chosen:
    """Choice of some arguments of a function, kept as ``positions`` and ``names``.

    parameter : the parameter of `jit` that the choice was passed for, in messages.
    any : True if at least one argument is chosen.
    """

    def __init__(self, choice: int | str | Iterable[int | str], parameter: str, function: Function) -> None:
        items: Any = (choice,) if isinstance(choice, int | str) else choice
        if isinstance(items, Operand) or not isinstance(items, Iterable):
            items = (items,)
        for k in (items := tuple(items)):
            if isinstance(k, bool) or not isinstance(k, int | str):
                raise ArgumentTypeError(
                    "jit", parameter, got=described(k), expected="positions and names of arguments"
                )
        self.positions = {k for k in items if isinstance(k, int)}
        self.names = {k for k in items if isinstance(k, str)}
        self.any = bool(items)
        if self.any:
            self._complete(parameter, function)

    def _complete(self, parameter: str, function: Function) -> None:
        """Add to ``positions`` and ``names`` the other way in which a call may pass each chosen argument.

        Raises ArgumentError for positions and names that the function does not have.
        """
        try:
            declared = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # of a function that is compiled itself
            return
        kinds = {p.kind for p in declared}
        positional = [p for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        by_name = {p.name for p in declared if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if inspect.Parameter.VAR_KEYWORD not in kinds and (unknown := sorted(self.names - by_name)):
            raise ArgumentError(
                "jit", parameter, got=f"'{unknown[0]}'", expected=f"names of parameters: {sorted(by_name)}"
            )
        if inspect.Parameter.VAR_POSITIONAL not in kinds:
            if beyond := [k for k in self.positions if not -len(positional) <= k < len(positional)]:
                raise ArgumentError(
                    "jit",
                    parameter,
                    got=f"{beyond[0]}",
                    expected=f"positions of {len(positional)} parameters",
                )
            self.positions = {k % len(positional) for k in self.positions}
        self.positions |= {k for k, p in enumerate(positional) if p.name in self.names & by_name}
        self.names |= {p.name for k, p in enumerate(positional) if k in self.positions and p.name in by_name}

    def at(self, args: Sequence[object]) -> set[int]:
        """Positions of the chosen arguments in ``args``; negative positions are converted."""
        return {k % len(args) for k in self.positions if -len(args) <= k < len(args)}

    def leaves(self, args: Sequence[object], kwargs: Mapping[str, object]) -> set[int]:
        """Identities (``id``) of all leaves of the chosen arguments of a call."""
        arguments = [args[k] for k in self.at(args)]
        arguments += [kwargs[k] for k in self.names if k in kwargs]
        return {id(leaf) for leaf in flatten(arguments)[0]}


class Static(Chosen):
    """Choice of the static arguments: Python values for each of which the function is traced anew."""

    def __init__(self, static: int | str | Iterable[int | str], function: Function) -> None:
        super().__init__(static, "static", function)

    def taken(
        self, args: tuple[object, ...], kwargs: dict[str, object], name: str
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[Any, Any]]:
        """Split a call's arguments: positional ones (None in place of a static one), named ones, and the
        static ones.

        The third result maps the position or the name of each static argument to its value.
        """
        fixed: dict[Any, Any] = {k: args[k] for k in sorted(self.at(args))}
        fixed.update((k, kwargs[k]) for k in sorted(self.names) if k in kwargs)
        for x in fixed.values():
            if isinstance(x, Operand):
                raise ArgumentTypeError(
                    name, "static", got="a tensor", expected="a Python value", remedy="leave it out of static"
                )
        traced_args = tuple(None if k in fixed else a for k, a in enumerate(args))
        return traced_args, {k: v for k, v in kwargs.items() if k not in fixed}, fixed

    @staticmethod
    def put_back(
        args: Sequence[object], kwargs: dict[str, object], fixed: Mapping[int | str, object]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(fixed.get(k, a) for k, a in enumerate(args))
        return args, {**kwargs, **{k: v for k, v in fixed.items() if isinstance(k, str)}}


class Jitted(Generic[P, R]):
    """A compiled function: what `jit` returns. It is called as the function is."""

    def __init__(
        self, function: Callable[P, R], static: Static, donate: Chosen, interpret: bool, general: bool
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._static, self._donate = static, donate
        self._chosen = static.any or donate.any
        self._native = not interpret
        self._sharing = LoweringFormulas(always=general)
        self._entries: dict[Any, _Entry] = {}
        #: The same by the structure, shapes and dtypes of arguments that are all strided tensors.
        self._plain: dict[Any, _Entry] = {}
        self._has_warned = False
        #: The arguments of the last call that was traced.
        self._texts: ArgumentTexts | None = None
        #: By kinds of arguments, programs for any Python numbers, and keys of the traces that they serve.
        self._any_number: dict[Any, AnyNumber] = {}
        self._served: dict[Any, None] = {}
        #: By kinds of arguments, traces for any number of entries.
        self._any_count: dict[Any, tuple[_Entry, AnyCount]] = {}
        self._tries: dict[Any, int] = {}
        #: Kinds of arguments for which the function depends on where entries of patterns are.
        self._by_pattern: set[Any] = set()
        self._name = f"jit({getattr(function, '__name__', type(function).__name__)})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_disabled():
            return as_python(self._function, args, kwargs)
        key = None
        if not self._chosen:
            key, leaves, plain = _plain_key(args, kwargs)
            plain_entry = self._plain.get(key)
            if plain_entry is not None and not overrides() and current() == USUAL:
                if plain_entry.in_place is not None:
                    result = plain_entry.on_settled(plain_entry.in_place, leaves, plain)
                    if result is not CHANGED:
                        return result  # type: ignore[no-any-return]
                if plain_entry.holds():
                    return plain_entry.on_plain(leaves, plain)  # type: ignore[no-any-return]
        call = _Given(args, kwargs, self._static, self._donate, self._name)
        if call.is_traced:  # inside of a trace or a batch it is a part of that
            if work.active.count and not any(level.examples() for level in levels()):
                work.note(self._called(call))
            leaves, structure = flatten(self._function(*args, **kwargs))
            return unflatten(structure, handed_out(leaves, recorded=True))  # type: ignore[no-any-return]
        entry = self._entry(call)
        if key is not None and not overrides() and current() == USUAL:
            self._plain[key] = entry
        result = entry(call.handles)
        if call.donated:
            written_positions = entry.traced.written
            give_away([call.handles[k] for k in call.donated if k not in written_positions], self._name)
        return result  # type: ignore[no-any-return]

    def _called(self, call: _Given) -> Called:
        """`Called`: a note of this call for reports of work, with arguments whose entries are zeros."""
        args, kwargs = call.rebuilt([make_handle(_zeros_like(value_of(h))) for h in call.handles])
        return Called(self, args, kwargs, tuple(map(is_tracked, call.handles)))

    def graph(self, *args: P.args, **kwargs: P.kwargs) -> Graph:
        """The graph for such arguments; tracked tensors that the function closes over are its last inputs."""
        return self._entry(_Given(args, kwargs, self._static, self._donate, self._name)).graph

    def traced(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Graph, list[Any]]:
        """A new graph for these arguments, with the patterns of sparse ones, and handles for its inputs."""
        call = _Given(args, kwargs, self._static, self._donate, self._name)
        entry = _Entry(self._function, self._name, call, self._native, self._sharing)
        return entry.compiled.graph, [*call.handles, *entry.traced.inputs()]

    def traced_for_kind(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Graph, list[Any]]:
        """Graph that calls with arguments of this kind share, and handles for its inputs; see `traced`."""
        call = _Given(args, kwargs, self._static, self._donate, self._name)
        entry = self._traced(call, call.key, self._key(call, call.key))[0]
        return entry.compiled.graph, [*call.handles, *entry.traced.inputs()]

    def clear_cache(self) -> None:
        """Forget all that was traced."""
        self._entries.clear()
        self._plain.clear()
        self._by_pattern.clear()
        self._texts = None
        self._any_number.clear()
        self._served.clear()
        self._any_count.clear()
        self._tries.clear()
        self._sharing = LoweringFormulas(always=self._sharing.always)

    @property
    def cache_size(self) -> int:
        """The number of programs that are kept."""
        return len({entry.compiled.code for entry in self._entries.values()})

    def _entry(self, call: _Given) -> _Entry:
        """The kept entry for a call, or a new one if there is none or something that it read from outside has
        changed.
        """
        around = (rules_in_force(), current()) if overrides() or current() != USUAL else None
        kind = call.key if around is None else (call.key, *around)
        key = self._key(call, kind)
        entry = self._entries.get(key)
        if entry is None or not entry.holds():
            # The function runs under no lock: it may call itself, or what another thread traces. Threads that
            # meet here may each trace it; the traces are the same.
            now = argument_texts(self._function, *call.arguments)
            reason = "the first call" if self._texts is None else difference(self._texts, now)
            self._texts = now
            entry, key = self._traced(call, kind, key)
            entry.compiled.reason = reason
            if self._native:
                alike = call.with_any_numbers, around, key[1:] if call.patterns else ()
                general = self._any_number.setdefault(alike, AnyNumber())
                entry = self._serve(entry, call.handles, key, general, reason)
            self._entries[key] = entry
            while len(self._entries) > _ENTRIES:
                self._entries.pop(next(iter(self._entries)), None)
                self._plain.clear()
        return entry

    def _serve(
        self, entry: _Entry, handles: Sequence[Handle], key: Key, general: AnyNumber, reason: str
    ) -> _Entry:
        """Entry that runs a general program of ``general``, or ``entry`` itself if none fits.

        At most `_SERVED` of the former are kept, since each has a key of its own. Warns once if all general
        programs of this kind are used up.
        """
        served = entry.served(handles, general)
        if general.is_full and not self._has_warned:
            self._has_warned = True
            warn(
                f"{self._name}: compiled again, after {MOST} programs for any numbers ({reason}); pass a "
                "number that changes as an array",
                CompilationWarning,
            )
        if served is not entry:
            self._served[key] = None
            while len(self._served) > _SERVED:
                self._entries.pop(oldest := next(iter(self._served)), None)
                self._served.pop(oldest, None)
        return served

    def _key(self, call: _Given, kind: Key) -> Any:
        """Key of the entry that serves a call whose arguments have the key ``kind``.

        For sparse arguments it also has their patterns if the function depends on these, or else their
        numbers of entries, or the capacities of a program for any number of entries.
        """
        if not call.patterns:
            return kind
        if kind in self._by_pattern:
            return kind, "patterns", tuple(call.patterns)
        exact = kind, "counts", call.counts
        general = None if exact in self._entries else self._any_count.get(kind)
        return exact if general is None else (kind, "capacities", general[1].capacities(call.counts))

    def _traced(self, call: _Given, kind: Key, key: Key) -> tuple[_Entry, Any]:
        """New entry for a call, and its key.

        The entry is for any patterns with these numbers of entries, unless the function depends on positions
        of entries. Side effects: notes kinds of arguments that need exact patterns, and traces for any number
        of entries.
        """
        trace = functools.partial(_Entry, self._function, self._name, call, self._native, self._sharing)
        if call.patterns and kind not in self._by_pattern:
            general = self._any_count.pop(kind, None)
            if general is not None and key[1] == "capacities" and general[0].holds():
                self._any_count[kind] = general
                return general[0].on(general[1].graph(list(call.patterns), key[2])), key
            symbols = call.symbols()
            self._tries[kind] = tries = self._tries.get(kind, 0) + 1
            general = None
            # It may read a pattern, and extents that it computes may fit no capacity.
            with suppress(IversonError):
                with examples({s: p for p, s in symbols.items()}):
                    entry = trace(symbols)
                    if tries <= _TRIES:
                        general = _any_count(entry, symbols, trace)
                if bounds(entry.traced.graph):
                    if general is None:  # numbers of entries that follow from patterns are in the trace
                        raise PatternRead
                    entry = general[0].on(general[1].graph(list(call.patterns)))
                if general is not None:
                    self._any_count[kind] = general
                return entry, (kind, "counts", call.counts)
            entry = trace()
            self._by_pattern.add(kind)
            return entry, (kind, "patterns", tuple(call.patterns))
        return trace(), key

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{self._name}: {self.cache_size} traces>"

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickle: the name in its module under which the function is found, if there is one, else the
        function and the options.

        The main program of another process is another one: cloudpickle, which pickles its functions by value,
        gets the function of one that is named there, too.
        """
        module = sys.modules.get(self.__module__)
        names = (name for name, value in vars(module).items() if value is self) if module else ()
        qualified = getattr(self, "__qualname__", self._name)
        try:
            is_found = attrgetter(qualified)(module) is self  # in a class, say
        except AttributeError:
            is_found = False
        name = next(iter(names), qualified if is_found else None)
        by_value = str(sys._getframe(1).f_globals.get("__name__")).startswith("cloudpickle")
        if name is not None and not (by_value and self.__module__ == "__main__"):
            return name
        return Jitted, (self._function, self._static, self._donate, not self._native, self._sharing.always)

    def __copy__(self) -> Jitted[P, R]:
        return self

    def __deepcopy__(self, memo: dict[int, R]) -> Jitted[P, R]:
        return self


@checked
def jit(
    function: Callable[P, R],
    static: int | str | Sequence[int | str] = (),
    donate: int | str | Sequence[int | str] = (),
    *,
    sizes: Literal["special", "general"] = "special",
    interpret: bool = False,
) -> Jitted[P, R]:
    """A compiled version of a function of tensors.

    The function is run once for each structure of arguments, with shapes, dtypes and layouts but no entries,
    and what it computes is written down, simplified and run as one program from then on. Of sparse operands,
    where entries are stored is read at each call: a new pattern of the same layout and shape is not a new
    structure, also where others follow from it (the union of two patterns, rows of a sparse matrix), unless
    what the function computes depends on it otherwise: then it is traced for each pattern, or for each number
    of entries, where it reads that. Whether it does is found by a second trace, the first time.

    Parameters
    ----------
    function : takes and returns pytrees of tensors. It must not depend on entries (use `where`, or return
        what decides) nor have effects other than these: it may write into tensors, also ones that it closes
        over, call ``backward()``, and step an optimizer. Each call does the same, in memory that nobody else
        holds in place. Tensors that it closes over are constants, unless they track gradients or are
        written. It is traced again where a global, a closure variable, an attribute or an item of a
        container that it reads is bound to something else; so it is for a default, a context variable,
        what it imports, and attributes whose names are computed. Not seen are entries of a NumPy array that
        it closes over, files, clocks, random numbers that are not of iverson, iterators, caches of its own
        (``functools.cache``), and what installed packages read: what was there when it was traced is part
        of the program. Pass what changes as an argument.
    static : positions or names of arguments that are part of what is traced: any hashable values. Python
        numbers, strings and other leaves that are no arrays are so always. Where calls differ in numbers
        alone, or in arrays that the function closes over, and what it computes is the same but for these, one
        program takes them as inputs: its results may differ from those of the first call in the last bits.
    donate : positions or names of arguments that the caller does not need any more. Results of their shape
        and dtype may be made in their memory, where nobody else holds it. They cannot be used afterwards:
        an error says so.
    sizes : which machine code is made. "special": the first shapes get code of their own; where other shapes
        need the same steps, one code that takes extents as arguments serves these and all later ones, so that
        results of one shape may differ in the last bits, by which shapes were called before. "general": the
        latter code is made from the first call on, for results that do not depend on the calls before.
    interpret : run the graph equation by equation, without compiling: an oracle.

    Returns
    -------
    A `Jitted` to call like the function, differentiable to any order; results of one that changes leaves, as
    a step of an optimizer does, are not recorded. Inside of another trace, or of a batch, it is a part of
    that. Results are in the layouts that the function gives, and store the same entries. Where values of
    the call say which these are (rows at indices that are arguments, branches that store different entries,
    steps of a loop over a sparse tensor), no trace knows them, and the result is strided.

    Raises GraphError where the function reads entries of its arguments, GradientError where it calls
    ``requires_grad_()`` on one: a leaf in it is its own (``x.detach().requires_grad_()``).

    >>> import iverson as iv
    >>> @jit
    ... def f(x):
    ...     return (x.sin() * x).sum()
    >>> f(iv.asarray([0.0, 1.0])), iv.grad(f)(iv.asarray([0.0, 1.0]))
    (iverson.Tensor(0.84147098), iverson.Tensor([0.        , 1.38177329]))
    """
    as_function(function, "jit", "function")
    if sizes not in ("special", "general"):
        raise ArgumentError("jit", "sizes", got=repr(sizes), expected="'special' or 'general'")
    chosen = Static(static, function), Chosen(donate, "donate", function)
    return Jitted(function, *chosen, interpret, sizes == "general")
