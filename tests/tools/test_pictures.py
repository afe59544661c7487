"""Pictures of imports in docs/design: those of the code, and drawn right."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import iverson
from tools import pictures

PACKAGES = sorted(path.parent for path in Path(iverson.__file__).parent.glob("*/__init__.py"))


def test_the_pictures_of_the_chapters_are_those_of_the_code():
    assert [path.name for path in pictures.stale()] == []
    assert pictures.main(["--check"]) == 0


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_of_many_modules_has_a_picture(package):
    chapters = "".join(path.read_text() for path in pictures.CHAPTERS.glob("*.md"))
    if len(list(package.rglob("*.py"))) > 10:
        assert f"<!-- picture: {package.name} -->" in chapters


def test_every_picture_is_read():
    """None is left out because of how its markers are written."""
    for path in pictures.CHAPTERS.glob("*.md"):
        text = path.read_text()
        assert text.count("<!-- picture:") == text.count("<!-- /picture -->") == text.count("```text\n"), path


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "iverson" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


PACKAGE = {
    "some/__init__.py": "from iverson.some.a import f",
    "some/a.py": "import os\nf = 1",
    "some/b.py": "from iverson.some import a",
    "some/c/__init__.py": "",
    "some/c/inner.py": "from iverson.some.b import g\nfrom iverson.some.a import f",
    "some/d.py": "def f():\n    from . import a\n    import iverson.some.c.inner",
    "some/e.py": "from iverson.other import a",
}


def test_imports_are_those_of_the_source(tmp_path):
    """Of all files of a child, inside of functions, relative ones, and none of other packages."""
    found = pictures.imports("iverson.some", written(tmp_path, PACKAGE))
    assert found == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "c"}, "e": set()}


def test_a_picture_leaves_out_what_follows(tmp_path):
    found = pictures.picture(pictures.imports("iverson.some", written(tmp_path, PACKAGE)))
    expected = """\
        a ──┐
        b ◄─┘─┐
        c ◄─┐─┘
        d ◄─┘

        without imports of the others: e"""
    assert found == textwrap.dedent(expected)


def test_a_line_passes_who_does_not_import():
    found = pictures.picture(
        {"a": set(), "b": {"a"}, "long": {"b"}, "d": {"a", "b"}, "e": {"d", "a"}, "f": {"a"}}
    )
    expected = """\
        a ─────┐
        b ◄────┤─┐
        d ◄────│─┤─┐
        e ◄────│─│─┘
        long ◄─│─┘
        f ◄────┘"""
    assert found == textwrap.dedent(expected)


def test_a_cycle_is_an_error():
    with pytest.raises(ValueError, match=r"cycle among \['a', 'b'\]"):
        pictures.picture({"a": {"b"}, "b": {"a"}, "c": set()})


def test_a_package_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no package 'iverson.none'"):
        pictures.drawn("<!-- picture: none -->\n<!-- /picture -->", written(tmp_path, PACKAGE))


def test_a_picture_without_an_end_is_an_error():
    with pytest.raises(ValueError, match="does not end"):
        pictures.drawn("<!-- picture: core -->\n")


def test_a_picture_that_is_not_that_of_the_code_is_drawn_anew(tmp_path):
    source = written(tmp_path, PACKAGE)
    chapter = tmp_path / "some.md"
    chapter.write_text("# Some\n\n<!-- picture: some -->\nold\n<!-- /picture -->\n\nText.\n")
    texts = pictures.stale(tmp_path, source)
    assert list(texts) == [chapter]
    assert "old" not in texts[chapter]
    assert texts[chapter].endswith("\n```\n<!-- /picture -->\n\nText.\n")
    chapter.write_text(texts[chapter])
    assert pictures.stale(tmp_path, source) == {}
