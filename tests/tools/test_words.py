"""Counts of words in the source: each rises, and the check holds it to its bound from both sides."""

from __future__ import annotations

import json

import pytest

from tools import words

SOURCE = '''
"""A module."""


class Kernel:
    """A kernel."""


def fuse(kernel: Kernel, steps: list[Kernel], *, axis: int | None = None) -> Kernel:
    """Fused kernels."""
    anything: Kernel = kernel
    for step in steps:
        anything = step
    return anything
'''

#: For each count, lines that do not count, and lines of which each counts once.
LINES = {
    "names": (
        ["pattern = 0", "founder = 0", "x.found = 0", "f(found)", "pattern = held"],
        [
            "found = 0",
            "held: int = 0",
            "_given = 0",
            "own_, x = 0, 1",
            "for rest in (): ...",
            "f = lambda left: 0",
            "def f(x, *, kept=None): ...",
            "with open('') as taken: ...",
            "y = [0 for others in ()]",
            "if (some := 1): ...",
            "match x:\n    case [known]: ...",
            "try: ...\nexcept ValueError as made: ...",
        ],
    ),
    "docstrings": (
        ["# What is here.", "def f():\n    'Whatever is here.'", "x = 'What is here.'"],
        [
            "def f():\n    'What is here.'",
            "async def f():\n    '''\n    Whether it is.'''",
            "class C:\n    'Where it is.'",
            "def f():\n    'Which it is.'",
            "def f():\n    'As `g`.'",
            "def f():\n    'How it is.'",
        ],
    ),
    "parameters": (
        [
            "def f(x): ...",
            "def f(x: AnyCount, y: Callable[[objects], None]) -> Any: ...",
            "def f(x: Literal['int']): ...",
            "x: Any = 0",
        ],
        [
            "def f(x: Any): ...",
            "def f(*x: object): ...",
            "def f(*, x: None | object = None): ...",
            "def f(**x: Sequence[typing.Any]): ...",
            "async def f(x: Callable[[Any], int]): ...",
            "def f(x: 'list[Any]'): ...",
            "def f(x: list['Any']): ...",
            "def f(x: 'object'): ...",
        ],
    ),
}


@pytest.fixture
def source(tmp_path):
    """A source of which nothing counts, with its bounds."""
    path = tmp_path / "package"
    path.mkdir()
    (path / "module.py").write_text(SOURCE)
    words.lower(words.count(path).counts, tmp_path / "bounds.json")
    return path


def check(source, *arguments):
    return words.main([str(source), "--bounds", str(source.parent / "bounds.json"), *arguments])


def test_plain_source_counts_nothing(source):
    measure = words.count(source)
    assert measure.counts == {"names": 0, "docstrings": 0, "parameters": 0}
    assert measure.totals == {"names": 6, "docstrings": 3, "parameters": 3}
    assert (measure.files, measure.lines) == (1, len(SOURCE.splitlines()))
    assert check(source, "--check") == 0


@pytest.mark.parametrize("name", LINES)
def test_each_line_counts_once_where_it_should(source, name):
    for added, lines in enumerate(LINES[name]):
        for line in lines:
            (source / "more.py").write_text(line + "\n")
            assert words.count(source).counts == {**dict.fromkeys(LINES, 0), name: added}, line


@pytest.mark.parametrize("name", LINES)
def test_the_check_holds_a_count_to_its_bound(source, name, capsys):
    (source / "more.py").write_text("\n".join(LINES[name][1]))
    number = len(LINES[name][1])
    assert check(source, "--check") == 1
    assert f"{name}: {number} {words.COUNTS[name]}, the bound is 0" in capsys.readouterr().err
    assert check(source, "--list", name) == 0
    places = capsys.readouterr().out.splitlines()
    assert len(places) == number
    assert all(place.startswith(f"{source / 'more.py'}:") for place in places)
    # No bound is raised.
    assert check(source, "--lower") == 1
    assert words.read_bounds(source.parent / "bounds.json")[name] == 0
    # One fewer is not right either, until the bound says so.
    (source.parent / "bounds.json").write_text(json.dumps({**dict.fromkeys(LINES, 0), name: number + 1}))
    capsys.readouterr()
    assert check(source, "--check") == 1
    assert f"lower the bound to {number}, or run" in capsys.readouterr().err
    assert check(source, "--lower") == 0
    assert words.read_bounds(source.parent / "bounds.json")[name] == number
    assert check(source, "--check") == 0


def test_lines_are_printed(source, capsys):
    assert check(source) == 0
    assert f"{len(SOURCE.splitlines())} lines of source, files: 1" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--check"], ["--lower"], ["--list", "names"]])
def test_a_path_without_source_is_an_error(tmp_path, arguments):
    for path in (tmp_path, tmp_path / "absent", tmp_path / "absent.py"):
        with pytest.raises(FileNotFoundError, match="no Python file at"):
            words.main([str(path), *arguments])


def test_bounds_of_other_counts_are_an_error(source):
    (source.parent / "bounds.json").write_text('{"names": 0}')
    with pytest.raises(ValueError, match="bounds"):
        check(source, "--check")
    (source.parent / "bounds.json").unlink()
    with pytest.raises(FileNotFoundError):
        check(source, "--check")


def test_the_list_has_the_words_that_it_had():
    first = """
        found made given held kept known taken asked read written done left own others each again
        some rest seen wanted moved put packed opened lowered chosen planned carried counted tracked
        stored named joined drawn learned told meant
    """
    assert set(first.split()) <= words.WORDS
    assert {"what", "whether", "where", "which", "as", "how"} <= words.QUESTIONS
