"""The page of a report: well-formed, whole, without anything from elsewhere; and layered drawings."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iverson as iv
from iverson.explain import report
from iverson.explain.layered import GAP, drawing

VOID = {"meta", "input", "br"}


class Checked(HTMLParser):
    """What a page holds; every element that is opened is closed, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, kind: str) -> int:
        return sum(kind in (attrs.get("class") or "").split() for _, attrs in self.found)


def example():
    """A function with work that is avoided for most of the reasons, and its report's page."""
    rng = np.random.default_rng(0)
    a, b = (iv.asarray(rng.standard_normal((4, 4))) for _ in "ab")
    s = iv.asarray(np.where(rng.random((4, 4)) < 0.4, 1.0, 0.0)).to_layout("csr")

    def f(x):
        h = iv.relu(s @ iv.sin(x))
        return iv.sin(iv.stack([h @ a, (h @ b) @ b]))[0, 1:3].sum() + (x < 3).astype("float64").sum()

    return report(iv.jit(iv.grad(f)), time=True)(iv.asarray(rng.standard_normal((4, 4))))


@pytest.fixture(scope="module")
def made():
    return example()


def test_the_page_is_whole(made):
    found = made._found
    page = Checked(made.html())
    text = "\n".join(page.text)
    steps, gone = len(found.steps), len(found.gone)
    assert steps > 8
    assert gone > 3
    for s in found.steps:
        assert s.text in text
        assert s.equation.op.name in text
        assert s.types[0] in text
    assert {p.reason for p in found.pieces} >= {"dead", "undefined", "not needed", "pattern"}
    for p in found.pieces:
        assert p.what in text
    assert all(s.line.text in text for s in found.steps if s.line)
    # The drawing: a box for each step, in grey those that are not carried out and cotangents of them.
    assert page.all("product") + page.all("step") + page.all("moved") == steps
    assert sum(page.all(reason) for reason in ("dead", "common", "constant")) >= gone
    assert page.all("ghost") > 0
    assert page.all("part") >= sum(bool(s.avoided) for s in found.steps)
    assert page.all("output") == 1


def test_the_page_needs_nothing_else(made):
    page = Checked(made.html())
    assert not re.search(r"https?:|//[a-z]", made.html())
    tags = {tag for tag, _ in page.found}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "image", "use"}
    assert not any({"src", "href", "xlink:href"} & set(attrs) for _, attrs in page.found)
    assert "@import" not in made.html()
    assert made.html().count("url(") == made.html().count("url(#tip)")


def test_ids_are_unique_and_what_refers_to_one_finds_it(made):
    found = [attrs for _, attrs in Checked(made.html()).found]
    ids = [attrs["id"] for attrs in found if "id" in attrs]
    assert len(ids) == len(set(ids))
    referred = {attrs["for"] for attrs in found if "for" in attrs}
    referred |= set(re.findall(r"url\(#([\w-]+)\)", made.html()))
    referred |= set(re.findall(r"^#([\w-]+):", made.html(), flags=re.MULTILINE))
    assert referred == {"plain", "large", "tip"}
    assert referred <= set(ids)


def test_what_is_shown_is_escaped():
    page = Checked(report(lambda x: iv.where(x < 0, x, 2 * x))(iv.ones(3)).html())
    assert "&lt;lambda&gt;" in report(lambda x: x + x)(iv.ones(3)).html()
    assert any("lambda x: iv.where(x < 0" in t for t in page.text)


def test_saved_and_in_a_notebook(made, tmp_path):
    path = made.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == made.html()
    shown = Checked(made._repr_html_()).found
    assert [tag for tag, _ in shown] == ["iframe"]
    assert shown[0][1]["srcdoc"] == made.html()


def test_a_function_that_does_nothing():
    Checked(report(lambda x: x)(iv.ones(3)).html())
    Checked(report(iv.grad(lambda x: x.sum()))(iv.ones(3)).html())


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    sizes = [(draw(st.floats(10, 300)), draw(st.floats(10, 80))) for _ in range(count)]
    return sizes, edges


@given(graphs())
def test_drawings_are_layered(graph):
    """Nodes do not overlap and keep their distance, edges go down from one node to the other, all within."""
    sizes, edges = graph
    made = drawing(sizes, edges)
    rows: dict[float, list[tuple[float, float]]] = {}
    for (x, y), (w, h) in zip(made.centres, sizes, strict=True):
        assert x - w / 2 >= GAP / 2
        assert x + w / 2 <= made.width
        assert y - h / 2 >= 0
        assert y + h / 2 <= made.height
        rows.setdefault(round(y, 6), []).append((x - w / 2, x + w / 2))
    for row in rows.values():
        assert all(a[1] + GAP <= b[0] + 1e-6 for a, b in pairwise(sorted(row)))
    assert set(made.routes) == set(edges)
    for (a, b), route in made.routes.items():
        assert route[0] == pytest.approx((made.centres[a][0], made.centres[a][1] + sizes[a][1] / 2))
        assert route[-1] == pytest.approx((made.centres[b][0], made.centres[b][1] - sizes[b][1] / 2))
        assert all(p[1] <= q[1] + 1e-9 for p, q in pairwise(route))


def test_a_tree_is_drawn_without_crossings():
    """Two chains whose nodes are given in turn end up beside each other."""
    edges = [(0, 2), (2, 4), (1, 3), (3, 5), (0, 6), (1, 7), (6, 8), (7, 9)]
    made = drawing([(50, 20)] * 10, [*edges[::-1]])
    ends = [(made.routes[e][0][0], made.routes[e][-1][0]) for e in ((0, 2), (0, 6), (1, 3), (1, 7))]
    assert all((a[0] <= b[0]) == (a[1] <= b[1]) or a[0] == b[0] for a in ends for b in ends)


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="circle"):
        drawing([(1, 1), (1, 1)], [(0, 1), (1, 0)])


def test_inputs_are_called_as_the_user_calls_them():
    def loss(weights, x):
        return (x @ weights["w"]).sum() + weights["b"][0]

    weights = {"w": iv.ones((3, 2)), "b": [iv.ones(())]}
    text = "\n".join(Checked(report(iv.grad(loss))(weights, iv.ones((4, 3))).html()).text)
    assert all(f" input {name}" in text for name in ("weights['w']", "weights['b'][0]", "x"))


def test_a_wide_graph_stays_readable(made):
    """What is drawn in 11 pixels is never shown in fewer than 8: the frame scrolls."""
    (svg,) = (attrs for tag, attrs in Checked(made.html()).found if tag == "svg")
    assert (
        float(svg["style"].removeprefix("min-width:").removesuffix("px")) >= 8 / 11 * float(svg["width"]) - 1
    )


def luminance(colour):
    """WCAG 2.2, "relative luminance"."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(made, scheme):
    """WCAG 2.2, 1.4.3: a contrast of at least 4.5."""
    block = re.findall(r":root \{(.*?)\}", made.html(), flags=re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", block))
    behind = {"ink": ("paper", "ground", "product", "step", "moved", "input"), "grey-ink": ("grey",)}
    behind["soft"] = behind["ink"]
    for text, grounds in behind.items():
        for ground in grounds:
            a, b = sorted(luminance(colours[name]) + 0.05 for name in (text, ground))
            assert b / a >= 4.5, (text, ground)
