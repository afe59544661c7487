"""Disk cache of lowered graphs, keyed by the text of the graph.

With it a new process calls a graph that was lowered before without lowering any of it. The key is the text of
the simplified graph, with shapes, dtypes and supports, and all versions that matter
(`iverson.codegen.runtime.kernel_cache`). Of constants only the types are in it: their entries are arguments
of the code. Of an op that a user defined, what it computes is in the key, not its name. A graph with
parameters that have no text has no key: each process lowers it, and only its machine code is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from iverson.codegen.runtime import kernel_cache
from iverson.codegen.runtime.target import host
from iverson.core import dtypes
from iverson.core.dispatch import value_of
from iverson.core.op import Op
from iverson.core.protocols import NDArray
from iverson.core.python.recent_items import RecentItems
from iverson.graph.ir.nodes import Equation, Graph, Value, subgraphs, values_of
from iverson.graph.ir.operations import is_of_the_library
from iverson.graph.ir.print import text_and_objects
from iverson.graph.native.equation_expressions import expression, is_expression, placeholder
from iverson.te import program_of

#: What JSON can represent.
Json: TypeAlias = "float | str | Sequence[Json] | Mapping[str, Json] | None"

_KEPT = 1024
_facts: RecentItems[str, Any] = RecentItems(_KEPT)


def key_of(graph: Graph, *how: Any) -> str | None:
    """Key that graphs which are lowered alike share; None for one that only this process knows.

    how : what lowering depends on besides; equal where their texts are.
    """
    text, objects = text_and_objects(graph)
    if sum(not isinstance(x, Op) for x in objects) > len({id(x) for _, x in graph.constants}):
        return None
    constants = [value_of(x, x) for _, x in graph.constants]
    numbers = {id(x): n for n, x in reversed(list(enumerate(constants)))}
    kinds = [(type(x).__name__, numbers[id(x)]) for x in constants]
    return kernel_cache.digest(f"graph {kinds} {how} {list(_users(graph))}\n{text}", host())


def _users(graph: Graph) -> Iterator[str]:
    """Texts of what the user-defined ops of a graph, and of the graphs inside it, compute."""
    for e in graph.equations:
        if not is_of_the_library(e.op):
            yield _program_key(e) if is_expression(e) else "a library step"
        for _, body in subgraphs(e):
            yield from _users(body)


def _program_key(e: Equation) -> str:
    operands = [placeholder(x) if type(x) is Value else x for x in e.operands]
    return program_of([expression(e, operands)]).key()


def read(key: str) -> Any:
    """The facts that were written under a key; None where there are none."""
    facts = _facts.find(key)
    if facts is not None:
        return facts
    data = kernel_cache.read(key)
    return None if data is None else _facts.keep(key, json.loads(data))


def write(key: str, facts: Json) -> None:
    """Keep facts, which JSON can represent."""
    data = json.dumps(facts)
    _facts.keep(key, json.loads(data))
    kernel_cache.write(key, data.encode())


def as_json(array: NDArray) -> list[Any]:
    """A small array in types of JSON."""
    return [array.dtype.name, array.shape, array.tobytes().hex()]


def from_json(held: Sequence[Any]) -> Any:
    """The array from the form of `as_json`."""
    dtype, shape, data = held
    return np.frombuffer(bytes.fromhex(data), dtypes.as_dtype(dtype)).reshape(shape).copy()


def forget() -> None:
    """Drop what is held in memory."""
    _facts.clear()


def numbered(graph: Graph) -> list[Value]:
    """All values of a graph in the order of its text; facts refer to values by their place in this list."""
    values = [*graph.inputs, *(v for v, _ in graph.constants)]
    return [*values, *(v for e in graph.equations for v in values_of(e.results))]


__all__ = ["as_json", "forget", "from_json", "key_of", "numbered", "read", "write"]
