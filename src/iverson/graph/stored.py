"""What a new process needs to call a graph that was lowered before: found by the graph's text, before any of
it is lowered.

The key is the text of the simplified graph, with shapes, dtypes and supports, and all versions that matter
(`iverson.codegen.cache`). Constants are not in it but for their types: their entries are arguments of the
code. A graph with parameters that have no text, or with ops that are not the library's own, has no key: it is
lowered by each process, and only its machine code is kept.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from iverson.codegen import cache
from iverson.codegen.target import host
from iverson.core import locks
from iverson.core.dispatch import value_of
from iverson.graph.nodes import Graph, Value, subgraphs, values_of
from iverson.graph.operations import OPERATIONS
from iverson.graph.print import text_and_objects
from iverson.ops import TABLE

#: The family of ops that users define.
_USERS = ("te",)
_KEPT = 1024
_facts: OrderedDict[str, Any] = OrderedDict()
_lock = locks.lock()


def key_of(graph: Graph, *how: Any) -> str | None:
    """What graphs that are lowered alike have in common; None for one that only this process knows.

    how : what lowering depends on besides; equal where their texts are.
    """
    if not _is_own(graph):
        return None
    text, objects = text_and_objects(graph)
    if len(objects) > len({id(x) for _, x in graph.constants}):
        return None
    held = [value_of(x, x) for _, x in graph.constants]
    numbers = {id(x): n for n, x in reversed(list(enumerate(held)))}
    kinds = [(type(x).__name__, numbers[id(x)]) for x in held]
    return cache.digest(f"graph {kinds} {how}\n{text}", host())


def _is_own(graph: Graph) -> bool:
    """Whether the ops of a graph, and of graphs inside, are the library's own."""
    return all(
        (OPERATIONS.get(e.op.name) or TABLE.get(e.op.name)) is e.op
        and e.op.family not in _USERS
        and all(_is_own(body) for _, body in subgraphs(e))
        for e in graph.equations
    )


def read(key: str) -> Any:
    """The facts that were written under a key; None where there are none."""
    with _lock:
        found = _facts.get(key)
        if found is not None:
            _facts.move_to_end(key)
            return found
    data = cache.read(key)
    return None if data is None else _keep(key, json.loads(data))


def write(key: str, facts: Any) -> None:
    """Keep facts, which JSON can say."""
    data = json.dumps(facts)
    _keep(key, json.loads(data))
    cache.write(key, data.encode())


def _keep(key: str, facts: Any) -> Any:
    with _lock:
        _facts[key] = facts
        while len(_facts) > _KEPT:
            _facts.popitem(last=False)
    return facts


def forget() -> None:
    """Drop what is held in memory."""
    with _lock:
        _facts.clear()


def numbered(graph: Graph) -> list[Value]:
    """All values of a graph in the order of its text."""
    found = [*graph.inputs, *(v for v, _ in graph.constants)]
    return [*found, *(v for e in graph.equations for v in values_of(e.results))]


__all__ = ["forget", "key_of", "numbered", "read", "write"]
