"""The programs of the gallery run, and each draws."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

import matplotlib as mpl
from matplotlib import pyplot as plt

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
PROGRAMS = sorted(GALLERY.glob("plot_*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_draws(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks what it finds; its figures have data in each of their axes."""
    assert re.search(r"^ *assert ", program.read_text(), re.MULTILINE)
    monkeypatch.setattr(plt, "show", lambda: None)
    with mpl.rc_context({"backend": "agg"}):
        runpy.run_path(str(program))
        axes = [axis for number in plt.get_fignums() for axis in plt.figure(number).axes]
        plt.close("all")
    assert axes
    assert all(axis.has_data() for axis in axes)
