"""All caches of the package, found in its source: what is kept from one call to the next.

    python -m tests.tools.caches

prints one a line: functions that `functools.cache`, `lru_cache` or `cached_property` keep results of, objects
of modules that functions write to, and classes whose methods look in an attribute for what they put there.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iverson

ROOT = Path(iverson.__file__).parent
_KEEPING = {"cache", "lru_cache", "cached_property"}
_CONTAINERS = {
    "Counter",
    "OrderedDict",
    "RecentItems",
    "WeakKeyDictionary",
    "WeakSet",
    "WeakValueDictionary",
    "defaultdict",
    "deque",
    "dict",
    "list",
    "set",
}
_DISPLAYS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_WRITING = {"add", "append", "appendleft", "extend", "insert", "keep", "setdefault", "update"}


def caches() -> list[str]:
    """The names of all, sorted."""
    found: set[str] = set()
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.update(f"{module}.{name}" for name in caches_in(path.read_text()))
    return sorted(found)


def clear_functions() -> None:
    """Drop the results that `functools` keeps of functions of imported modules."""
    gc.unfreeze()  # else the collector does not list them
    for found in gc.get_objects():
        if type(found) is functools._lru_cache_wrapper and found.__module__.startswith("iverson"):
            found.cache_clear()


def caches_in(source: str) -> Iterator[str]:
    """The names of those of a module.

    >>> sorted(caches_in('''
    ... _known = {}
    ... _names = {}
    ... def find(key):
    ...     return _known.setdefault(key, _names[key])
    ... class Table:
    ...     def at(self, k):
    ...         if k not in self.rows:
    ...             self.rows[k] = make(k)
    ...         return self.rows[k]
    ...     def put(self, k):
    ...         self.last = k
    ...     @cache
    ...     def size(self):
    ...         return lru_cache(4)(self.at)
    ... '''))
    ['Table', 'Table.size', 'Table.size: lru_cache(4)(self.at)', '_known']
    """
    tree = ast.parse(source)
    if names := _containers(tree):
        yield from names.intersection(n for s in tree.body for n in _written(s))
    yield from _inside(tree, "", "cache(" in source)


def _inside(node: Any, prefix: str, calls: bool) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef):
            if any(_name(d) in _KEEPING for d in child.decorator_list):
                yield prefix + child.name
            if calls:
                yield from (f"{prefix}{child.name}: {text}" for text in _calls(child))
        if isinstance(child, ast.ClassDef) and any(map(_remembers, child.body)):
            yield prefix + child.name
        if hasattr(child, "body"):
            own = isinstance(child, ast.FunctionDef | ast.ClassDef)
            yield from _inside(child, f"{prefix}{child.name}." if own else prefix, calls)


def _calls(f: ast.FunctionDef) -> Iterator[str]:
    """What is kept of functions that have no decorator: ``cache(f)``, ``lru_cache(4)(f)``."""
    for node in _own(f):
        if isinstance(node, ast.Call) and node.args:
            maker = node.func.func if isinstance(node.func, ast.Call) else node.func
            sized = isinstance(node.func, ast.Call) or _name(maker) == "cache"
            if sized and isinstance(maker, ast.Name) and maker.id in _KEEPING:
                yield ast.unparse(node)


def _own(f: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(f):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from _own(child)


def _containers(tree: ast.Module) -> set[str]:
    """The names of a module that are containers."""
    found = set()
    for s in tree.body:
        if isinstance(s, ast.Assign | ast.AnnAssign) and s.value is not None:
            is_one = isinstance(s.value, _DISPLAYS) or (
                isinstance(s.value, ast.Call) and _name(s.value) in _CONTAINERS
            )
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            found |= {t.id for t in targets if is_one and isinstance(t, ast.Name)}
    return found


def _written(s: ast.stmt) -> Iterator[str]:
    """The names that a function, or those of a class, write to as containers, or bind in the module."""
    for node in ast.walk(s) if isinstance(s, ast.FunctionDef | ast.ClassDef) else ():
        if isinstance(node, ast.Global):
            yield from node.names
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from (node.value.id for _ in "1" if isinstance(node.value, ast.Name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITING:
            yield from (node.func.value.id for _ in "1" if isinstance(node.func.value, ast.Name))


def _remembers(method: ast.stmt) -> bool:
    """Whether a method, not the one that makes the instance, looks in an attribute before it writes there."""
    if not isinstance(method, ast.FunctionDef) or method.name == "__init__":
        return False
    seen, written = set(), set()
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            written.add(ast.unparse(node))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            written.add(ast.unparse(node.value))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            seen.add(ast.unparse(node.left))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            seen.add(ast.unparse(node.comparators[0]))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("find", "get", "setdefault"):
                seen.add(ast.unparse(node.func.value))
            if node.func.attr in ("keep", "setdefault"):
                written.add(ast.unparse(node.func.value))
    return any("." in name for name in seen & written)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call | ast.Subscript):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


if __name__ == "__main__":
    print(*caches(), sep="\n")
