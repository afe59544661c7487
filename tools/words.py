"""Counts in the source that may only fall, and the lines of the source: ``python -m tools.words``.

- ``names``: names that are participles or pronouns (`WORDS`). They say what happened to a value; a pattern, a
  cotangent, an axis or a buffer has a noun of its own.
- ``docstrings``: docstrings that begin with a question word (`QUESTIONS`) instead of a noun phrase or a verb.
- ``parameters``: parameters whose annotation is ``object`` or contains ``Any``.

The bounds are in `words.json`. ``--check``, which `make lint` runs, fails where a count is above its bound,
and where it is below: ``--lower`` then lowers the bound, so that the count does not rise again. ``--list``
prints the places of a count. The lines of the source are printed too; they have no bound.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "iverson"
BOUNDS = Path(__file__).with_suffix(".json")

_PARTICIPLES = """
    added arrived asked attained built called carried changed chosen counted done drawn entered filled found
    given gone got held joined kept known learned left lost lowered made meant mended moved named needed
    opened packed placed planned put reached read said seen sent shared shown stored taken told tracked
    turned used wanted written
"""
_PRONOUNS = """
    again both each few many more most much one ones others own rest same several some such that these this
    those what whatever which whichever whole
"""
#: The list only grows. Whoever adds a word raises the bound of ``names`` by the uses of that word.
WORDS = frozenset(f"{_PARTICIPLES} {_PRONOUNS}".split())

#: First words of docstrings.
QUESTIONS = frozenset(("as", "how", "what", "whether", "where", "which"))


class Place(NamedTuple):
    """A name, docstring or annotated parameter; ``counts`` says that it counts towards the bound."""

    kind: str
    path: Path
    line: int
    text: str
    counts: bool


def places(path: Path) -> Iterator[Place]:
    """Each name, docstring and annotated parameter of one file."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        for line, name in _bound_names(node):
            yield Place("names", path, line, name, name.strip("_") in WORDS)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                word = re.split(r"\W", docstring, maxsplit=1)[0].lower()
                text = docstring.partition("\n")[0]
                yield Place("docstrings", path, node.body[0].lineno, text, word in QUESTIONS)
        if isinstance(node, ast.arg) and node.annotation is not None:
            text = f"{node.arg}: {ast.unparse(node.annotation)}"
            yield Place("parameters", path, node.lineno, text, _is_vague(node.annotation))


def _bound_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a node of the syntax tree binds, each with its line."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield node.lineno, name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name


def _is_vague(annotation: ast.expr) -> bool:
    """True for an annotation that contains ``Any``, or is ``object`` or a union with ``object``."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _is_vague(ast.parse(annotation.value, mode="eval").body)
    if _is_object(annotation):
        return True
    return any(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (node is not annotation and isinstance(node, ast.Constant) and _quotes_any(node.value))
        for node in ast.walk(annotation)
    )


def _is_object(annotation: ast.expr) -> bool:
    match annotation:
        case ast.Name(id="object"):
            return True
        case ast.BinOp(op=ast.BitOr(), left=first, right=second):
            return _is_object(first) or _is_object(second)
    return False


def _quotes_any(value: object) -> bool:
    """True for a constant that is a quoted type with ``Any`` in it."""
    return isinstance(value, str) and re.search(r"\bAny\b", value) is not None


#: Each count, as the report calls it.
COUNTS = {
    "names": "names that are participles or pronouns",
    "docstrings": "docstrings that begin with a question word",
    "parameters": "annotated parameters whose type is Any or object",
}


class Counts(NamedTuple):
    """The counts of a source tree by name, all that they are shares of, and the size of the tree."""

    counts: dict[str, int]
    totals: dict[str, int]
    files: int
    lines: int


def count(source: Path) -> Counts:
    """The counts of a source tree. Raises FileNotFoundError where there is no source."""
    paths = files(source)
    totals: Counter[str] = Counter()
    counting: Counter[str] = Counter()
    for place in chain.from_iterable(map(places, paths)):
        totals[place.kind] += 1
        counting[place.kind] += place.counts
    lines = sum(len(path.read_text().splitlines()) for path in paths)
    return Counts({name: counting[name] for name in COUNTS}, dict(totals), len(paths), lines)


def files(source: Path) -> list[Path]:
    """The Python files of a source tree, or the one file. Raises FileNotFoundError where there is none."""
    paths = [source] if source.is_file() else sorted(source.rglob("*.py"))
    if not paths:
        raise FileNotFoundError(f"no Python file at {source}")
    return paths


def report(measure: Counts) -> str:
    """The counts as text, each with its share."""
    rows = [
        f"{measure.counts[name]:7} of {measure.totals.get(name, 0):6} {words}"
        for name, words in COUNTS.items()
    ]
    return "\n".join([*rows, f"{measure.lines:7} lines of source, files: {measure.files}"])


def faults(counts: Mapping[str, int], bounds: Mapping[str, int]) -> list[str]:
    """One sentence for each count that is not at its bound."""
    sentences = []
    for name, words in COUNTS.items():
        number, bound = counts[name], bounds[name]
        if number > bound:
            sentences.append(
                f"{name}: {number} {words}, the bound is {bound}; "
                f"`python -m tools.words --list {name}` prints each place"
            )
        elif number < bound:
            sentences.append(
                f"{name}: {number} {words}, fewer than the bound {bound}; "
                f"lower the bound to {number}, or run `python -m tools.words --lower`"
            )
    return sentences


def read_bounds(path: Path) -> dict[str, int]:
    """The bounds in a file. Raises ValueError where they are not those of the counts."""
    bounds = json.loads(path.read_text())
    if set(bounds) != set(COUNTS):
        raise ValueError(f"{path} has bounds of {sorted(bounds)}; there are counts of {sorted(COUNTS)}")
    return dict(bounds)


def lower(counts: Mapping[str, int], path: Path) -> None:
    """Write bounds that are no higher than the counts, nor than the bounds before."""
    bounds = read_bounds(path) if path.exists() else dict(counts)
    lowered_bounds = {name: min(bounds[name], counts[name]) for name in COUNTS}
    path.write_text(json.dumps(lowered_bounds, indent=2) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit status is 1 where a count is not at its bound."""
    parser = argparse.ArgumentParser(prog="python -m tools.words", description="Counts that may only fall.")
    parser.add_argument("source", nargs="?", type=Path, default=SOURCE, help="a folder or a file of Python")
    parser.add_argument("--bounds", type=Path, default=BOUNDS, help="the file of bounds")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail where a count is not at its bound")
    action.add_argument("--lower", action="store_true", help="lower the bounds to the counts")
    action.add_argument("--list", choices=COUNTS, help="print each place of one count")
    options = parser.parse_args(arguments)
    if options.list:
        for place in chain.from_iterable(map(places, files(options.source))):
            if place.kind == options.list and place.counts:
                print(f"{place.path}:{place.line}: {place.text}")
        return 0
    measure = count(options.source)
    print(report(measure))
    if options.lower:
        lower(measure.counts, options.bounds)
    sentences = faults(measure.counts, read_bounds(options.bounds)) if options.check or options.lower else []
    print("".join(f"{sentence}\n" for sentence in sentences), end="", file=sys.stderr)
    return bool(sentences)


if __name__ == "__main__":
    sys.exit(main())
