"""Bad values, and the calls that have one in place of one argument (or of one item of one)."""

from __future__ import annotations

import datetime
import inspect
import os
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import iverson as iv
from iverson.core.errors import IversonError


class Hostile:
    """Converts to nothing."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no array")


def ragged_objects() -> Any:
    array = np.empty(2, object)
    array[:] = [1.0, [2.0]]
    return array


#: What is handed in for an argument, by what it is. Most calls have no use for most of them.
BAD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "string": lambda: "a,b->c",
    "empty string": lambda: "",
    "bytes": lambda: b"abc",
    "True": lambda: True,
    "minus seven": lambda: -7,
    "seven": lambda: 7,
    "2**40": lambda: 2**40,
    "2**62": lambda: 2**62,
    "2**70": lambda: 2**70,
    "-2**70": lambda: -(2**70),
    "a half": lambda: 0.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "complex": lambda: 1j,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "list of strings": lambda: ["a", "b"],
    "list of None": lambda: [None, None],
    "list of ints": lambda: [1, 0],
    "huge extents": lambda: (2**40, 2**40),
    "an extent that overflows": lambda: (2**62, 1),
    "negative extents": lambda: (-3, 2),
    "nested": lambda: ((0,), [1]),
    "empty tuple": lambda: (),
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "generator": lambda: (k for k in range(2)),
    "callable": lambda: len,
    "raising callable": lambda: lambda *args: {}["absent"],
    "class": lambda: int,
    "module": lambda: types,
    "object": object,
    "hostile": Hostile,
    "slice": lambda: slice(0, "a"),
    "ellipsis": lambda: ...,
    "date": lambda: datetime.date(2020, 1, 1),
    "float array": lambda: np.ones((2, 3)),
    "nan array": lambda: np.full(3, np.nan),
    "int array": lambda: np.array([5, -9, 1]),
    "huge ints": lambda: np.array([2**62, 0, 1]),
    "bool array": lambda: np.array([True, False]),
    "empty array": lambda: np.ones((0, 2)),
    "rank 5": lambda: iv.ones((1, 2, 1, 2, 1)),
    "rank 0": lambda: iv.asarray(2.0),
    "int tensor": lambda: iv.asarray([[1, 2]]),
    "complex tensor": lambda: iv.asarray([1j, 2.0]),
    "tracked": lambda: iv.ones(2, requires_grad=True),
    "masked": lambda: iv.masked_tensor(iv.ones(2), [True, False]),
    "sparse": lambda: iv.to_sparse(iv.ones((2, 2))),
    "string array": lambda: np.array(["a", "b"]),
    "object array": ragged_objects,
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "long double": lambda: np.ones(2, np.longdouble),
    "records": lambda: np.zeros(2, [("a", float)]),
    "numpy.ma": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "numpy scalar": lambda: np.float64(0.5),
    "numpy dtype": lambda: np.dtype("S3"),
}


def _required(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments without those that have a default."""
    parameters = inspect.signature(function).parameters
    needed = [name for name, p in parameters.items() if p.default is p.empty]
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        args = args[: len(needed)]
    return args, {name: value for name, value in kwargs.items() if name in needed}


def _held_as(make: Callable[[Any], Any], rank: int = 1) -> Callable[..., Any]:
    """The arguments with the first float tensor of such a rank at least held in another way."""

    def form(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for k, x in enumerate(args):
            if isinstance(x, iv.Tensor) and x.dtype == iv.float64 and x.ndim >= rank:
                return (*args[:k], make(x.detach().to_dense()), *args[k + 1 :]), kwargs
        return None

    return form


#: Ways to bring a call about: with all arguments, with the required ones, on tensors of other kinds.
FORMS: dict[str, Callable[..., Any]] = {
    "": lambda function, args, kwargs: (args, kwargs),
    "with defaults": _required,
    "of a masked tensor": _held_as(lambda x: iv.masked_tensor(x, x.numpy() < 3)),
    "of a sparse tensor": _held_as(iv.to_sparse),
    "of a csr tensor": _held_as(lambda x: iv.to_layout(x, "csr"), 2),
    "of a csc tensor": _held_as(lambda x: iv.to_layout(x, "csc"), 2),
    "of a bsr tensor": _held_as(lambda x: iv.to_layout(x, "bsr", blocksize=x.shape[-2:]), 2),
    "of a tracked tensor": _held_as(lambda x: x.requires_grad_()),
}


def formed(call: Any, form: str) -> Any:
    """The function and arguments of a call in a form; None where it has none."""
    function, args, kwargs = call.make()
    try:
        found = FORMS[form](function, args, kwargs)
    except ValueError:  # no signature
        return None
    if found is None or (form == "with defaults" and (len(found[0]), found[1]) == (len(args), kwargs)):
        return None
    return function, *found


def places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Where a value may be put: an argument, by position or name, or an item of one that is a sequence."""
    for key, value in [*enumerate(args), *kwargs.items()]:
        yield (key,)
        if isinstance(value, (list, tuple)):
            for k, item in enumerate(value):
                yield key, k
                if isinstance(item, (list, tuple)):
                    yield key, k, 0


def put(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The tree with a value at a place."""
    if not place:
        return value
    if isinstance(tree, dict):
        return {**tree, place[0]: put(tree[place[0]], place[1:], value)}
    items = list(tree)
    items[place[0]] = put(items[place[0]], place[1:], value)
    return items if isinstance(tree, list) else tuple(items)


def outcome(call: Any, form: str, place: tuple[Any, ...], bad: Any) -> BaseException | None:
    """What a call with a bad value raises, or None."""
    function, args, kwargs = formed(call, form)
    if isinstance(place[0], str):
        kwargs = put(kwargs, place, bad)
    else:
        args = put(args, place, bad)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            function(*args, **kwargs)
        except Exception as error:
            return error
    return None


def fault(error: BaseException | None) -> str:
    """What is wrong with an error as an answer to a bad argument; "" if nothing is.

    Where memory does not suffice, that is what is said; what a user's function raises, passes through, and
    what the system says of a file that is named.
    """
    of_a_file = isinstance(error, OSError) and error.filename is not None
    if error is None or isinstance(error, MemoryError) or of_a_file or _of_the_user(error):
        return ""
    if not isinstance(error, IversonError):
        return f"a bare {type(error).__name__}"
    if not error.operation or not error.got or not (error.expected or error.remedy):
        return "an error that leaves out what was got or what to do"
    return ""


#: What Python's own functions say of what they are called with.
_BUILTINS = (
    "cubes() ",
    "object of type 'Var' has no len()",
    "object of type 'int' has no len()",
    "len() takes exactly one argument",
)


def _of_the_user(error: BaseException) -> bool:
    """Whether a function that a call was given raised it, or does not take what it is called with."""
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    in_tests = os.path.dirname(innermost.filename) == os.path.dirname(__file__)
    return (in_tests and innermost.name != "outcome") or any(said in str(error) for said in _BUILTINS)
