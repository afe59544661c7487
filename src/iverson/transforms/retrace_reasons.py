"""Reasons why a compiled function is traced again: what differs between the arguments of two calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iverson.core.aval import Aval
from iverson.core.dispatch import Operand, unwrap, value_of
from iverson.graph.ir.print import type_text
from iverson.layouts import is_strided, layout_of
from iverson.transforms.trees import flatten

#: A tensor, an array or another Python value.
Leaf = Any
#: By argument, a text for each of its leaves.
ArgumentTexts = dict[str, tuple[str, ...]]


def argument_texts(
    function: Callable[..., Leaf], args: Sequence[Leaf], kwargs: Mapping[str, Leaf]
) -> ArgumentTexts:
    """Map from the name of each argument to texts of its leaves, with the facts that a trace relies on."""
    try:
        declared = inspect.signature(function).parameters.values()
        names = [p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    names += [f"argument {k}" for k in range(len(names), len(args))]
    every = {**dict(zip(names, args, strict=False)), **kwargs}
    at: dict[int, str] = {}
    return {name: tuple([_text(leaf, name, at) for leaf in flatten(x)[0]]) for name, x in every.items()}


def _text(leaf: Leaf, name: str, at: dict[int, str]) -> str:
    """Text of a leaf of the argument ``name``: layout, dtype and shape of a tensor, or a Python value.

    at : the name of the argument in which each tensor occurred first, by its identity; tensors are added to
        it.
    """
    if isinstance(leaf, Operand):
        if at.setdefault(id(leaf), name) != name:
            return f"the tensor in {at[id(leaf)]}"
        value = value_of(unwrap(leaf))
        layout = "" if is_strided(value) else f"{layout_of(value).name} "
        return layout + type_text(Aval(leaf.shape, leaf.dtype))
    if isinstance(leaf, np.ndarray):
        return type_text(Aval(leaf.shape, leaf.dtype))
    return repr(leaf) if isinstance(leaf, bool | int | float | complex | str) else type(leaf).__name__


def difference(before: ArgumentTexts, now: ArgumentTexts) -> str:
    """Text that names the first argument whose leaves differ between two calls, and the difference."""
    different = [name for name in now if before.get(name) != now[name]]
    if not different:
        return "something that it reads from outside has changed"
    first, *further = different
    old, new = before.get(first, ()), now[first]
    at = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if at is None or len(old) != len(new):
        text = f"{first}: {len(old)} leaves before, {len(new)} now"
    else:
        leaf = f", leaf {at}" if len(new) > 1 else ""
        text = f"{first}{leaf}: {old[at]} before, {new[at]} now"
    return text + (f" (and {', '.join(further)})" if further else "")


__all__ = ["ArgumentTexts", "argument_texts", "difference"]
