"""Errors and warnings: all that Iverson raises, in one form of message.

An error names the operation, the argument, what was got, what was expected and what to do. Each class
is also the built-in kind a Python programmer would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager


class IversonError(Exception):
    """Base of all Iverson errors: ``operation: argument: got ...; expected ...; remedy``.

    Parameters
    ----------
    operation : the function or op the user called.
    argument : the argument at fault, or "" where no single one is.
    got, expected : what was found and what would have been right.
    remedy : what to do about it.

    >>> str(ShapeError("matmul", "b", got="shape (3, 4)", expected="4 rows", remedy="transpose b"))
    "matmul: argument 'b': got shape (3, 4); expected 4 rows; transpose b"
    """

    def __init__(
        self,
        operation: str,
        argument: str = "",
        *,
        got: str = "",
        expected: str = "",
        remedy: str = "",
    ) -> None:
        self.operation = operation
        self.argument = argument
        self.got = got
        self.expected = expected
        self.remedy = remedy
        parts = [
            f"got {got}" if got else "",
            f"expected {expected}" if expected else "",
            remedy,
        ]
        where = f"{operation}: argument '{argument}': " if argument else f"{operation}: "
        super().__init__(where + "; ".join(p for p in parts if p))

    def __reduce__(self) -> tuple[object, ...]:
        facts = {"got": self.got, "expected": self.expected, "remedy": self.remedy}
        return (_rebuild, (type(self), self.operation, self.argument, facts))


def _rebuild(kind: type[IversonError], operation: str, argument: str, facts: dict[str, str]) -> IversonError:
    return kind(operation, argument, **facts)


#: What makes a tensor of an object of another library, by its package, where `iverson.asarray` does not.
_WAYS_IN = {"scipy": "iverson.from_scipy", "torch": "iverson.interop.torch.from_torch"}


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def way_in(value: object, otherwise: str = "convert it with iverson.asarray") -> str:
    """Remedy, for an error message, that says which function converts ``value``, which is no tensor.

    otherwise : the remedy if no function converts values of its library.

    A class that has a remedy of its own says it as ``usage``.

    >>> import scipy.sparse
    >>> way_in(scipy.sparse.eye_array(3))
    'convert it with iverson.from_scipy'
    """
    function = _WAYS_IN.get(_package(value))
    return f"convert it with {function}" if function else getattr(type(value), "usage", "") or otherwise


def described(value: object) -> str:
    """Description of a value in a message: its type and, where short, its value; never an array's entries."""
    kind = type(value).__name__
    if _package(value) in _WAYS_IN:
        kind += f" of {_package(value)}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"a {kind} of shape {shape} and dtype {dtype}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return f"{reprlib.repr(value)} (a {kind})" if value is not None else "None"
    return f"a {kind}"


@contextmanager
def speaking_as(operation: str, **arguments: str) -> Iterator[None]:
    """Context that makes errors name the function that the user called, and its arguments.

    operation : the name of that function.
    arguments : the name that the user knows, by the argument's name in the error.

    >>> with speaking_as("solve", a="x1"):
    ...     raise ShapeError("inv", "a", got="shape (2, 3)", expected="square matrices")
    Traceback (most recent call last):
    iverson.core.errors.ShapeError: solve: argument 'x1': got shape (2, 3); expected square matrices
    """
    try:
        yield
    except IversonError as error:
        argument = arguments.get(error.argument, error.argument)
        facts = {"got": error.got, "expected": error.expected, "remedy": error.remedy}
        raise type(error)(operation, argument, **facts) from error.__cause__


class ShapeError(IversonError, ValueError):
    """Shapes that do not fit each other or the operation."""


class ArgumentError(IversonError, ValueError):
    """An argument of the right kind with a value that cannot be used."""


class NameMissingError(ArgumentError, AttributeError):
    """An attribute that a namespace does not have: ``hasattr`` says so."""


class DTypeError(IversonError, TypeError):
    """A dtype the operation is not defined for, or that Iverson does not have."""


class ForeignDTypeError(DTypeError, BufferError):
    """A dtype that the exchange with other libraries is not defined for; DLPack wants a BufferError."""


class BufferExportError(ArgumentError, BufferError):
    """Entries that cannot be passed on to another library as asked for; DLPack wants a BufferError."""


class ArgumentTypeError(IversonError, TypeError):
    """An argument of the wrong Python type."""


class UnsizedError(ShapeError, TypeError):
    """The length or the items of an array of rank 0: Python's protocols want a TypeError."""


class AxisError(IversonError, ValueError, IndexError):
    """An axis outside the array's dimensions, or named twice."""


class IndexingError(IversonError, IndexError):
    """An index outside its array, or of a kind that does not index."""


class GradientError(IversonError, RuntimeError):
    """A gradient that cannot be formed, or a rule that broke its contract."""


class GraphError(IversonError, RuntimeError):
    """An operation that a traced or compiled function cannot do: a choice by entries, which do not exist
    yet.
    """


class OutOfMemoryError(IversonError, MemoryError):
    """An operation whose result, or what it needs on the way, does not fit into memory."""


class MissingRuleError(GradientError, NotImplementedError):
    """A custom op without the method that was needed of it."""


class NonFiniteError(IversonError, FloatingPointError):
    """A nan or an infinity that `iverson.debug.nans` found.

    line : the file and line of the user's call that it arose in, ``"train.py:12"``; "" if no call led to it.
    """

    line: str = ""
    #: Whether ``line`` is that of the call itself, and not of what asked for a derivative of it.
    is_exact: bool = False

    def of_derivative(self, name: str, call: str, line: str) -> NonFiniteError:
        """The error for the derivative of the call that gave a nan; this error itself if ``is_exact``.

        name : the name of the derivative.
        call, line : description of the call, and its file and line.
        """
        if self.is_exact:
            return self
        error = type(self)(
            f"{name} of {call}",
            got=f"{self.got} in '{self.operation}'",
            expected=self.expected,
            remedy=self.remedy,
        )
        error.line, error.is_exact = line, True
        return error


class TimedOutError(IversonError, TimeoutError):
    """An answer of other processes did not arrive within its time limit."""


class LostRowsError(IversonError, RuntimeError):
    """Rows of a partitioned table are those of its last checkpoint again: what held them died.

    rows : the rows that steps since that checkpoint had changed.
    steps : the numbers of these steps.
    """

    rows: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class LinearAlgebraError(IversonError, ValueError):
    """A matrix without the decomposition asked for (singular, not positive definite, ...)."""


class DetachWarning(UserWarning):
    """A tracked tensor was converted to a Python number implicitly: no gradient flows through that number."""


class ViewWarning(UserWarning):
    """A write into a tensor of its own that nothing refers to: it changes nothing that anybody can read."""


class BatchWarning(UserWarning):
    """An operation, or a custom `Function`, was carried out example by example in `vmap`: it has no rule."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it met its tolerances: derivatives are those of a solution where it stopped."""


class CompilationWarning(UserWarning):
    """A compiled function is compiled again and again, for a number that changes from call to call."""


class DensifyWarning(UserWarning):
    """An operation had no kernel for a layout and made every entry explicit."""


__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "AxisError",
    "BatchWarning",
    "BufferExportError",
    "CompilationWarning",
    "ConvergenceWarning",
    "DTypeError",
    "DensifyWarning",
    "DetachWarning",
    "ForeignDTypeError",
    "GradientError",
    "GraphError",
    "IndexingError",
    "IversonError",
    "LinearAlgebraError",
    "LostRowsError",
    "MissingRuleError",
    "NameMissingError",
    "NonFiniteError",
    "OutOfMemoryError",
    "ShapeError",
    "TimedOutError",
    "UnsizedError",
    "ViewWarning",
]

#: The page that says of each class what raises it and what to do.
INDEX = "docs/reference/errors.md"


def _name_the_index() -> None:
    """Add, to the docstring of each error and warning, the place in the reference that describes it."""
    for name in __all__:
        kind = globals()[name]
        if kind.__doc__:  # there is none under -OO
            kind.__doc__ += f"\n\n    What raises it and what to do: {INDEX}#{name.lower()}\n    "


_name_the_index()


def __dir__() -> list[str]:
    return sorted(__all__)
