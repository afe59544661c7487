"""What is said of mutants is said of guards that exist."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.tools.equivalent import EQUIVALENT
from tests.tools.mutate import TESTS, mutants


@pytest.mark.parametrize("module", EQUIVALENT)
def test_every_entry_is_of_a_mutant_that_is_made(module):
    spec = importlib.util.find_spec(module)
    made = [m.named() for m in mutants(Path(spec.origin).read_text())]
    stale = [edit for edit in EQUIVALENT[module] if not any(name.startswith(edit) for name in made)]
    assert not stale, f"no such guard in {module} any more: {stale}"


def test_the_tests_of_a_module_exist():
    assert [(m, path) for m, paths in TESTS.items() for path in paths if not Path(path).exists()] == []
    assert [m for m in TESTS if importlib.util.find_spec(m) is None] == []
