"""Docstrings of all that is public: their sections, and parameters that are those of the signature."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import iverson as iv
from iverson import te
from tests.conformance.product import each

#: In the order of numpydoc; an example may stand at the end without a heading.
SECTIONS = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "Notes",
    "References",
    "Examples",
)
SPACES = (
    iv,
    te,
    iv.autograd,
    iv.data,
    iv.dataclasses,
    iv.debug,
    iv.explain,
    iv.fft,
    iv.linalg,
    iv.masked,
    iv.nn,
    iv.nn.init,
    iv.optim,
    iv.random,
    iv.special,
    iv.testing,
    iv.tree,
)
#: What callers leave out: names of types, and of what stands for the rest.
_UNNAMED = {"self", "cls", "args", "kwargs"}


def public() -> Iterator[tuple[str, Any]]:
    """By full names: each object once, where it is found first."""
    seen: dict[
        int, Any
    ] = {}  # with the objects: some are made when they are asked for, and an id is used again
    for space in SPACES:
        names = getattr(space, "__all__", None) or [n for n in dir(space) if n[0] != "_"]
        for name in names:
            x = getattr(space, name)
            ours = callable(x) and (getattr(x, "__module__", None) or "").startswith("iverson")
            if ours and id(x) not in seen and not inspect.ismodule(x):
                seen[id(x)] = x
                yield f"{space.__name__}.{name}", x


def sections(doc: str) -> dict[str, str]:
    """The text of each section; of what is before them under \"\"."""
    parts = re.split(r"^(\w[\w ]*)\n(-{3,})$", doc, flags=re.MULTILINE)
    found = {"": parts[0]}
    for heading, line, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        assert len(line) == len(heading), heading
        assert heading not in found, heading
        found[heading] = text
    return found


def described(text: str) -> list[str]:
    """The names that a section of parameters describes."""
    names = re.findall(r"^([\w*]+(?:, [\w*]+)*) :", text, flags=re.MULTILINE)
    return [n.strip("*") for group in names for n in group.split(", ")]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.__name__)
def test_docstrings_are_what_the_signatures_say(space: Any) -> None:
    names = [x for x in public() if x[0].rpartition(".")[0] == space.__name__]
    assert names
    each(docstring_is_what_the_signature_says, names)


def docstring_is_what_the_signature_says(named: tuple[str, Any]) -> None:
    _, x = named
    doc = inspect.getdoc(x)
    assert doc
    summary = doc.split("\n\n")[0]
    assert summary.endswith((".", ":")), summary
    found = sections(doc)
    assert [s for s in SECTIONS if s in found] == [s for s in found if s]
    if "Parameters" not in found:
        return
    parameters = [n for n in inspect.signature(x).parameters if n not in _UNNAMED]
    names = [n for n in described(found["Parameters"]) if n not in _UNNAMED]
    assert names == parameters


def test_all_that_is_public_shows_an_example() -> None:
    assert not [name for name, x in public() if ">>>" not in (inspect.getdoc(x) or "")]


def test_examples_of_functions_made_from_the_table_run() -> None:
    """Those that stand in a file are found by ``pytest --doctest-modules``."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name in te.F.__dir__():
        x = getattr(te, name, None)
        if x is not None and x.__module__ == "iverson.te.ir.scalar_namespace":
            for example in doctest.DocTestFinder(recurse=False).find(x, name, globs={}):
                runner.run(example)
    assert runner.summarize().failed == 0
    assert runner.tries > 400
