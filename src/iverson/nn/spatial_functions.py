"""Functions over one, two and three spatial axes, each group from one function."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from typing import Concatenate, ParamSpec, TypeVar

from iverson.array_api.conventions.operands import named

P = ParamSpec("P")
R = TypeVar("R")

#: By the number of spatial axes, what docstrings call an array with them, and the axes.
_WORDS = {
    1: {"sample": "a sequence", "axes": "length"},
    2: {"sample": "an image", "axes": "height, width"},
    3: {"sample": "a volume", "axes": "depth, height, width"},
}


def spatial(
    function: Callable[Concatenate[int, P], R],
) -> tuple[Callable[P, R], Callable[P, R], Callable[P, R]]:
    """The public functions over one, two and three spatial axes: ``pool1d`` and so on, of ``_pool``.

    The first argument of ``function`` is the number of axes, n. Its docstring is a template with the fields

    - ``{n}``: that number;
    - ``{sample}``: a noun with its article for an array with n axes, and ``{axes}``: the names of these axes;
    - ``{window}``: the extents of a window of two entries along the last axis;
    - ``{ones}``: n - 1 times ``1, ``; ``{open}`` and ``{close}``: n - 1 brackets.
    """
    return _over(1, function), _over(2, function), _over(3, function)


def _over(n: int, function: Callable[Concatenate[int, P], R]) -> Callable[P, R]:
    """Public function over ``n`` spatial axes: ``function`` with this first argument, name, signature and
    docstring.
    """

    def of_axes(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(n, *args, **kwargs)

    general = signature(function)
    count, *names = general.parameters
    parameters = [general.parameters[name] for name in names]
    vars(of_axes)["__signature__"] = Signature(parameters, return_annotation=general.return_annotation)
    annotations = function.__annotations__
    of_axes.__annotations__ = {name: annotations[name] for name in annotations if name != count}
    of_axes.__module__ = function.__module__
    single = "1, " * (n - 1)
    fields = {"n": n, "ones": single, "window": f"({single}2)" if single else "2", **_WORDS[n]}
    fields |= {"open": "[" * (n - 1), "close": "]" * (n - 1)}
    return named(of_axes, f"{function.__name__.strip('_')}{n}d", (function.__doc__ or "").format(**fields))
