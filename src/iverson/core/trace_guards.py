"""Guards of a trace: what a function reads besides its arguments, and whether that has changed since.

A trace holds for the globals, closure cells, attributes and items of containers of its time. They are
found in the code: names that the function reads, and the functions of the user's that it reaches by them,
also those that a function of a library wraps (``grad(f)``) and those that a class of Iverson calls
(``Function``). Where a name is computed (``getattr(x, name)``), all attributes of the objects reached may be
meant. Reads by libraries themselves are not looked into.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import sysconfig
import threading
import weakref
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextvars import ContextVar
from functools import cache, partial
from importlib.util import resolve_name
from operator import attrgetter, is_, methodcaller
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, TypeVar

import numpy as np

from iverson.core.dispatch import Handle, Operand, Wrapper, is_tracked, unwrap, value_of
from iverson.core.python.caller import PACKAGE_FOLDER

T = TypeVar("T")
_MISSING = object()
_OURS = __name__.partition(".")[0] + "."
_CONTAINERS: tuple[type, ...] = (
    tuple,
    list,
    dict,
    set,
    frozenset,
    deque,
    bytearray,
    array,
    UserDict,
    UserList,
    ChainMap,
)
_CONTAINERS += (MappingProxyType, type(os.environ))
_METHODS = (MethodType, BuiltinMethodType, MethodWrapperType)
_FUNCTIONS = (FunctionType, MethodType, functools.partial)
_NUMBERS = (str, bytes, bool, int, float, complex)
#: Functions by which attributes, or globals, are read whose names are computed.
_BY_NAME = {"vars", "__dict__", "attrgetter", "methodcaller", "__getattribute__", "__getattr__", "dir"}
_OF_ENVIRONMENT = {"environ", "getenv"}
_OF_GLOBALS = {"globals", "eval", "exec"}
#: What has no parts that could change but its own value, or is seen elsewhere.
_PLAIN = (Operand, np.ndarray, np.generic, np.dtype, str, bytes, bool, int, float, complex, type(None))


class Guard:
    """A place that a function reads, and the object that was there while the function was traced (``held``).

    inner : the handle inside ``held``; a wrapper that was written to has another one.
    value : for a constant tensor, its value during the trace, as constants of the trace may depend on it.
        None if the entries may change.
    """

    __slots__ = ("_read", "held", "inner", "value")

    def __init__(self, reader: Callable[[], Any]) -> None:
        self._read = reader
        self.held = reader()
        self.inner = unwrap(self.held)
        is_constant = isinstance(self.inner, Handle) and not is_tracked(self.inner)
        self.value = value_of(self.inner) if is_constant else None

    def settle(self, inputs: Set[int]) -> None:
        """Finish after the trace: allow other entries in a tensor that is an input of the graph.

        inputs : the identities of the handles that are inputs.
        """
        if id(self.inner) in inputs:
            self.value = None

    @property
    def is_certain(self) -> bool:
        """True if the guard can never fail."""
        return False

    def holds(self) -> bool:
        """True if the place still contains the same object, a constant with the same entries."""
        before = self.held
        now = self._read()
        if now is not before and not _is_same(now, before):
            return False
        inner = self.inner
        if unwrap(before) is not inner:
            return False
        return self.value is None or (value_of(inner) is self.value and not is_tracked(inner))


class Itself(Guard):
    """Guard of a tensor in a container: only its entries, and the handle inside a wrapper, can change."""

    __slots__ = ()

    @property
    def is_certain(self) -> bool:
        return self.value is None and self.inner is self.held


class Items(Guard):
    """Guard of the items of a container."""

    __slots__ = ()

    def settle(self, inputs: Set[int]) -> None:
        """Finish after the trace: take the present items, as the function may have put some there."""
        self.held = self._read()

    def holds(self) -> bool:
        """True if the container still has those very objects."""
        now = self._read()
        before = self.held
        return len(now) == len(before) and (all(map(is_, now, before)) or all(map(_is_same, now, before)))


class Parts(Guard):
    """Guard of the parts of a function that can be replaced: its code and its defaults."""

    __slots__ = ()

    def holds(self) -> bool:
        """True if the function still has these parts."""
        return all(map(is_, self._read(), self.held))


_PARTS = attrgetter("__code__", "__defaults__", "__kwdefaults__")


def _is_same(a: Any, b: Any) -> bool:
    """True if two reads gave the same object, or equal numbers or texts of one type.

    Some containers create their numbers anew at each read.
    """
    return a is b or (type(a) is type(b) and type(a) in _NUMBERS and repr(a) == repr(b))


def guards_of(function: Callable[..., object], arguments: Iterable[object] = ()) -> list[Guard]:
    """Guards of all places that ``function`` may read, besides tensors among ``arguments``."""
    search = _Reached()
    for x in (function, *arguments):
        search.reach(x)
    search.close()
    return list(search.guards.values())


class _Reached:
    """Search for all objects that a function reaches, the names that it reads, and the guards of both."""

    def __init__(self) -> None:
        self.guards: dict[Any, Guard] = {}
        self._names: set[str] = set()
        self._by_name = False  # whether any name may be meant
        self._objects: dict[int, Any] = {}
        self._waiting: list[Any] = []

    def reach(self, x: Any) -> None:
        """Add ``x``, its ``__self__`` if it is a method, and the function it wraps, to the objects to visit.

        Objects that cannot change, and arrays, are left out.
        """
        if isinstance(x, _METHODS) and not isinstance(x.__self__, ModuleType):  # of which functions are
            self.reach(x.__self__)
        if isinstance(x, MethodType | staticmethod | classmethod):
            x = x.__func__
        # Its own attribute: some objects answer to any name.
        wrapped = getattr(x, "__dict__", {}).get("__wrapped__") if callable(x) else None
        if wrapped is not None:
            self.reach(wrapped)
            if not isinstance(x, FunctionType):
                return
        if not isinstance(x, _PLAIN) and id(x) not in self._objects:
            self._objects[id(x)] = x
            self._waiting.append(x)

    def close(self) -> None:
        """Follow all that is reached by names, until there are no new ones."""
        while self._waiting:
            while self._waiting:
                self._enter(self._waiting.pop())
            for x in list(self._objects.values()):
                if not isinstance(x, FunctionType) and type(x) not in _CONTAINERS:
                    self._attributes(x)

    def _guard(self, key: Hashable, reader: Callable[[], Any], kind: type[Guard] = Guard) -> None:
        """Add a guard under ``key``, unless there is one, and reach the object that it reads."""
        if key not in self.guards:
            guard = self.guards[key] = kind(reader)
            self.reach(guard.held)

    def _enter(self, x: Any) -> None:
        """Examine one object: add guards of its contents, or note the names that its code reads."""
        if isinstance(x, FunctionType):
            if _is_of_users(x.__code__.co_filename):
                self._function(x)
            else:
                for cell in x.__closure__ or ():
                    if isinstance(content := _contents(cell), _FUNCTIONS):
                        self.reach(content)
        elif isinstance(x, _CONTAINERS):
            if not isinstance(x, tuple | frozenset):
                self.guards[id(x), "items"] = Items(partial(_items, x))
            for item in _items(x):
                self.reach(item)
                if isinstance(item, Handle | Wrapper):
                    self._guard(id(item), partial(_itself, item), Itself)
        elif isinstance(x, functools.partial):
            for part in (x.func, x.args, x.keywords):
                self.reach(part)
        elif isinstance(x, property):
            self.reach(x.fget)
        elif isinstance(x, ContextVar):
            self._guard(id(x), partial(x.get, _MISSING))
        elif isinstance(x, weakref.ref):
            self._guard(id(x), x)
        elif isinstance(x, attrgetter | methodcaller) or x is getattr or x is vars:  # under another name
            self._by_name = True

    def _function(self, f: FunctionType) -> None:
        """Add guards of what a function's code reads: globals, closure cells, imports, environment."""
        self._guard((id(f), "parts"), partial(_PARTS, f), Parts)
        names = _names(f.__code__)
        self._names |= names
        self._by_name = self._by_name or not _BY_NAME.isdisjoint(names) or _computes_names(f.__code__)
        for name in names:
            if name in f.__globals__:
                self._guard((id(f.__globals__), name), partial(f.__globals__.get, name, _MISSING))
        if not _OF_GLOBALS.isdisjoint(names):  # any of them may be meant, as it is: not what it holds
            for name in list(f.__globals__):
                key = id(f.__globals__), name
                if key not in self.guards and name[:2] != "__":
                    self.guards[key] = Guard(partial(f.__globals__.get, name, _MISSING))
        if not names.isdisjoint(_OF_ENVIRONMENT):
            self.reach(os.environ)
        for name in _imports(f.__code__, f.__globals__.get("__package__")):
            self._guard(("module", name), partial(sys.modules.get, name))
        for cell in f.__closure__ or ():
            self._guard(id(cell), partial(_contents, cell))

    def _attributes(self, x: Any) -> None:
        """Add guards of the attributes of ``x`` that the names read so far may mean.

        These are its own attributes, and those of its classes that are no library's.
        """
        if isinstance(x, ModuleType) and not _is_of_users(getattr(x, "__file__", None)):
            return
        attributes: Any = {} if isinstance(x, type) else getattr(x, "__dict__", {})
        names = self._names
        if self._by_name:
            of_users = any(_users_classes(x)) or type(x) in (SimpleNamespace, threading.local)
            if of_users or (type(x) is ModuleType and _is_users_module(x.__name__)):
                classes = _users_classes(x)
                names = names.union(n for n in set(attributes).union(*map(vars, classes)) if n[:2] != "__")
        if isinstance(x, threading.local):  # whose dictionary is another in each thread
            for name in names:
                self._guard((id(x), name), partial(getattr, x, name, _MISSING))
            return
        for name in names.intersection(attributes):
            self._guard((id(attributes), name), partial(attributes.get, name, _MISSING))
        for cls in _users_classes(x):
            for name in _read_of(cls, names):
                self._guard((id(cls), name), partial(vars(cls).get, name, _MISSING))
                if isinstance(attributes, dict):  # which may get one of its own
                    self._guard((id(attributes), name), partial(attributes.get, name, _MISSING))
                if isinstance(vars(cls)[name], MemberDescriptorType) and not isinstance(x, type):
                    self._guard((id(x), name), partial(getattr, x, name, _MISSING))


def _users_classes(x: Any) -> Iterator[type]:
    """Classes in the method resolution order of ``x`` (a class, or an object) that belong to no library."""
    for cls in (x if isinstance(x, type) else type(x)).__mro__:
        if _is_users_module(_module(cls)):
            yield cls


def _is_users_module(name: str) -> bool:
    """True if the module called ``name`` belongs to no library; built-in modules, which have no file, do."""
    built_in = name in sys.builtin_module_names
    return not built_in and _is_of_users(getattr(sys.modules.get(name), "__file__", None))


def _module(cls: type) -> str:
    return str(getattr(cls, "__module__", ""))


def _read_of(cls: type, names: set[str]) -> Iterator[str]:
    """Names of the attributes of ``cls`` that code may read that contains these ``names``.

    Special methods count, and all methods of a subclass of a class of Iverson, because they are called
    without their name in the code.
    """
    of_ours = any(_module(base).startswith(_OURS) for base in cls.__mro__)
    for name, attribute in vars(cls).items():
        is_called = of_ours or name[:2] == "__"
        if name in names or (is_called and isinstance(attribute, FunctionType | staticmethod)):
            yield name


def _items(x: Any) -> tuple[Any, ...]:
    return (*x, *x.values()) if isinstance(x, dict | Mapping) else tuple(x)


def _itself(x: T) -> T:
    return x


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _names(code: CodeType) -> set[str]:
    """Names of globals and attributes that a code object, or one nested in it, may read.

    String constants count too, as ``getattr`` takes them.
    """
    names = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, CodeType):
            names |= _names(c)
        elif isinstance(c, str) and c.isidentifier():
            names.add(c)
    return names


@cache
def _computes_names(code: CodeType) -> bool:
    """True if the code calls ``getattr`` with a name that is not a constant."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    if any(map(_computes_names, inside)):
        return True
    if "getattr" not in code.co_names:
        return False
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "PRECALL", "EXTENDED_ARG")]
    for k, step in enumerate(steps):
        if step.argval != "getattr" or not step.opname.startswith("LOAD_"):
            continue
        start = step.positions and (step.positions.lineno, step.positions.col_offset)
        for n in range(k + 1, len(steps)):
            at = steps[n].positions
            if steps[n].opname.startswith("CALL") and at and (at.lineno, at.col_offset) == start:
                break
        else:
            return True
        name = steps[n - (steps[n].arg or 0) + 1]  # if what comes after it is one step
        if name.opname != "LOAD_CONST" or not isinstance(name.argval, str):
            return True
    return False


@cache
def _imports(code: CodeType, package: str | None) -> tuple[str, ...]:
    """The modules that a code object imports when it runs, each with its parent packages."""
    modules: list[str] = []
    steps = dis.get_instructions(code) if dis.opmap["IMPORT_NAME"] in code.co_code[::2] else ()
    level = [s for s in steps if s.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "IMPORT_NAME")]
    for k, step in enumerate(level):
        if step.opname == "IMPORT_NAME":
            up = level[k - 2].argval
            name = resolve_name("." * up + step.argval, package) if up and package else step.argval
            modules += [name[:end] for end in (*(k for k, c in enumerate(name) if c == "."), len(name))]
    for c in code.co_consts:
        if isinstance(c, CodeType):
            modules += _imports(c, package)
    return tuple(modules)


@cache
def _is_of_users(file: str | None) -> bool:
    """True if the file belongs neither to this package, nor to Python, nor to an installed package."""
    if file is None:
        return True
    return not file.startswith("<frozen ") and not os.path.abspath(file).startswith(_libraries())


@cache
def _libraries() -> tuple[str, ...]:
    installed = (sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple({os.path.join(os.path.abspath(p), "") for p in (PACKAGE_FOLDER, *installed)})
