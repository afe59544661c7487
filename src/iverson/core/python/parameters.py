"""Parameter names of a function, read from its code. Imports nothing of the package.

Records and public functions are inspected while the package is imported: there are hundreds, and
`inspect.signature` takes some 50 µs for each, the code of a function less than one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType

_VARARGS = inspect.CO_VARARGS
_ELSEWHERE = frozenset(("__wrapped__", "__signature__"))


def positional(function: Callable[..., object]) -> tuple[tuple[str, ...], str]:
    """Names of the positional parameters of a function, and the name of its ``*args`` ("" if it has none).

    For a wrapped function, these are the names of the function inside.

    >>> positional(lambda F, g, *xs, axis: g)
    (('F', 'g'), 'xs')
    """
    if type(function) is FunctionType and function.__dict__.keys().isdisjoint(_ELSEWHERE):
        code = function.__code__
        count = code.co_argcount
        starred = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & _VARARGS else ""
        return code.co_varnames[:count], starred
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return tuple(names), next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")


def takes_keywords(function: Callable[..., object]) -> bool:
    """True if a function has parameters that keywords name, and no ``**kwargs``.

    >>> takes_keywords(lambda x, /, axis=0: x), takes_keywords(lambda x, /: x)
    (True, False)
    """
    if type(function) is FunctionType and function.__dict__.keys().isdisjoint(_ELSEWHERE):
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount - code.co_posonlyargcount
        return count > 0 and not code.co_flags & inspect.CO_VARKEYWORDS
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    keywords = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return bool(keywords & kinds) and inspect.Parameter.VAR_KEYWORD not in kinds
