"""What holds for all tests of code generation."""

from __future__ import annotations

import pytest

from iverson.codegen.runtime import target


@pytest.fixture(scope="session", autouse=True)
def processor() -> target.Machine:
    """Described before a test counts what is in a folder of its own: the description is kept there too."""
    return target.host()
