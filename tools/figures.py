"""Figures of the site: those that the blocks of a page leave open, in colours for light and for dark pages.

A page stays ordinary Markdown: its blocks run as one session when the site is built, as in the tests, and
each figure stands above the block that draws it, which is folded.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

#: Readable on white and on black.
_INK = "#7d8590"
_COLOURED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
_STYLE: dict[str, Any] = {
    **dict.fromkeys(_COLOURED, _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "legend.framealpha": 0.0,
    "savefig.dpi": 160,
}
_FOLD = "```{raw} html\n<details class=drawing><summary>Code of this figure</summary>\n```"
_UNFOLD = "```{raw} html\n</details>\n```"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def style(*_: object) -> None:
    """Set the colours; the gallery calls it before each script."""
    mpl.rcParams.update(_STYLE)


def with_figures(text: str, folder: Path, page: str) -> str:
    """A page, with a link to each figure in place of the block that draws it, which is folded below.

    folder : where figures are written. page : its path, of which they are named.
    """
    if "matplotlib" not in text:
        return text
    mpl.use("agg")
    with mpl.rc_context(_STYLE):
        session: dict[str, Any] = {}
        name = page.replace("/", "-")
        files = (folder / f"{name}-{k}.png" for k in range(1, 100))
        folder.mkdir(exist_ok=True)
        return _BLOCK.sub(lambda block: _run(block, session, name, files), text)


def _run(block: re.Match[str], session: dict[str, Any], name: str, files: Iterator[Path]) -> str:
    """The figures of the block, followed by its code. RuntimeError: an example fails."""
    test = doctest.DocTestParser().get_doctest(block[1], {}, f"{name}-{block.start()}", name, 0)
    test.globs = session  # the same for all blocks, as functions read it
    if doctest.DocTestRunner().run(test, clear_globs=False).failed:
        raise RuntimeError(f"{name}: an example fails; the output above says which")
    links = []
    for number in plt.get_fignums():
        figure, file = plt.figure(number), next(files)
        figure.savefig(file)
        links.append(f"```{{image}} /{file.parent.name}/{file.name}\n:alt: {_titles(figure)}\n```")
        plt.close(figure)
    folded = [_FOLD, block[0], _UNFOLD] if links else [block[0]]
    return "\n\n".join([*links, *folded])


def _titles(figure: Figure) -> str:
    """What the figure shows, in words: the titles in it."""
    return "; ".join(t for t in (figure.get_suptitle(), *(a.get_title() for a in figure.axes)) if t)
