"""The fenced blocks of a document: those of Python are run as one session."""

from __future__ import annotations

import doctest
import re


def blocks(text: str) -> list[tuple[str, str]]:
    """The language, or the directive of MyST in braces, and the text of each fenced block."""
    return re.findall(r"^```([\w{}-]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    return [block for language, block in blocks(text) if language == "python"]


#: What follows the blocks of a page that draws.
DRAWN = """
>>> import matplotlib.pyplot as plt
>>> for number in plt.get_fignums():
...     plt.figure(number).canvas.draw()
>>> plt.close("all")
"""


def run_examples(examples: list[str], name: str) -> doctest.TestResults:
    """The blocks one after another, as somebody who types them all into one session; figures are drawn."""
    if "matplotlib" in "".join(examples):
        import matplotlib as mpl

        mpl.use("agg")
        examples = [*examples, DRAWN]
    test = doctest.DocTestParser().get_doctest("\n".join(examples), {}, name, name, 0)
    return doctest.DocTestRunner().run(test)
