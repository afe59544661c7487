"""What notebooks show: pictures agree with the dense array, HTML is well-formed, little is read for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import iverson as iv
from iverson.core.dispatch import value_of
from iverson.handles.spy import MOST, SIDE
from iverson.layouts.layout_registry import sparse_layouts
from tests.conformance.product import examples
from tests.graph.test_report_page import Checked

LAYOUTS = ["strided", *(layout.name for layout in sparse_layouts() if not layout.blocked)]
SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=2 * SIDE + 5)
BOOLEANS = arrays.arrays(bool, SHAPES, elements=st.just(False), fill=st.nothing()) | arrays.arrays(
    bool, SHAPES
)


def shares(there: np.ndarray) -> np.ndarray:
    """The share of each cell that is True, by slicing."""
    steps = [max(1, -(-n // SIDE)) for n in there.shape]
    rows, columns = (range(0, n, step) for n, step in zip(there.shape, steps, strict=True))
    found = [[there[i : i + steps[0], j : j + steps[1]].mean() for j in columns] for i in rows]
    return np.array(found).reshape(len(rows), len(columns))


def masked(there: np.ndarray, layout: str) -> iv.MaskedTensor:
    mask = iv.asarray(there)
    return iv.masked_tensor(there.astype(float), mask if layout == "strided" else mask.to_layout(layout))


@settings(max_examples=examples(40))
@given(BOOLEANS, st.sampled_from(LAYOUTS))
def test_a_picture_shows_where_entries_are(there, layout):
    x = iv.asarray(there.astype(float))
    expected = shares(there)
    for array in (x if layout == "strided" else x.to_layout(layout), masked(there, layout)):
        picture = array.spy()
        np.testing.assert_allclose(picture.cells, expected)
        text = [line[1:-1] for line in str(picture).splitlines()[1:-1]]
        assert [[c != " " for c in line] for line in text] == (expected > 0).tolist()
        Checked(array._repr_html_())


@settings(max_examples=examples(40))
@given(st.tuples(*[st.integers(1, 2 * SIDE)] * 2).flatmap(lambda s: st.tuples(st.just(s), *map(slices, s))))
def test_a_picture_of_a_box(case):
    shape, rows, columns = case
    x = iv.ones(shape, requires_grad=True)
    box = iv.autograd.grad(x[rows, columns].sum(), x)
    np.testing.assert_allclose(box.spy().cells, shares(box.numpy() != 0))


def slices(n: int) -> st.SearchStrategy[slice]:
    return st.tuples(st.integers(0, n), st.integers(0, n)).map(lambda ends: slice(*sorted(ends)))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 3), (3, 0), (2, 3, 4), (70, 2, 0), (5, 40, 3)])
def test_all_ranks_have_a_picture(shape):
    there = np.arange(np.prod(shape)).reshape(shape) % 3 == 0
    x = iv.asarray(there.astype(float))
    rows = there.reshape(int(np.prod(shape[:-1])), shape[-1] if shape else 1)
    for array in (x, x.to_layout("coo") if shape else x, iv.masked_tensor(x, there), iv.asarray(there)):
        assert np.allclose(array.spy().cells, shares(rows))
        Checked(array._repr_html_())
    zero = iv.autograd.grad(iv.asarray(1.0), x.requires_grad_())
    assert not zero.spy().cells.any()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_of_a_large_pattern_some_entries_are_looked_at(layout):
    """Its coordinates, one for each entry, are not worked out."""
    n = 2**10
    band = iv.from_scipy(scipy_band(n, 64))
    x = band.to_layout(layout, blocksize=(2, 2)) if layout == "bsr" else band.to_layout(layout)
    pattern = value_of(x).pattern
    assert pattern.count > 2 * MOST
    known = set(pattern._facts)
    html = x._repr_html_()
    assert set(pattern._facts) - known <= {"lines"}
    assert len(html) < 40_000
    drawn, true = x.spy().cells, shares(x.numpy() != 0)
    assert not drawn[true == 0].any()
    assert drawn[true > 0.5].all()
    assert np.abs(drawn - true).mean() < 0.02


def scipy_band(n: int, width: int):
    from scipy.sparse import diags_array

    return diags_array(
        [np.ones(n - abs(k)) for k in range(-width, width)], offsets=range(-width, width)
    ).tocsr()


def test_html_says_what_an_array_is():
    x = iv.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), requires_grad=True)
    assert "".join(Checked(x._repr_html_()).text).startswith(
        "Tensor 2 × 3, float64, csr, 2 stored of 6 (0.33), requires grad"
    )
    m = iv.masked_tensor([1.0, 2.0], [True, False])
    assert "1 specified of 2 (0.5)" in m._repr_html_()
    assert "<svg" not in iv.ones(3)._repr_html_()  # every entry of a strided tensor may be nonzero
    assert "rank 0, float32" in iv.ones((), dtype=iv.float32)._repr_html_()
    wide = iv.sparse_coo_tensor([[3], [4]], [1.0], (10**6, 1500))
    assert "1,000,000 × 1,500, float64, coo, 1 stored of 1,500,000,000 " in wide._repr_html_()
    assert "length 1,500" in iv.ones(1500)._repr_html_()


def test_html_inside_of_a_traced_function():
    shown = []
    iv.jit(lambda x: (shown.append(x._repr_html_()), x + 1)[1])(iv.ones((2, 3)))
    assert "2 × 3" in shown[0]
    Checked(shown[0])


def test_a_graph_is_its_text():
    graph = iv.jit(lambda x: iv.tanh(x) < 2).graph(iv.ones(3))
    assert str(graph).startswith("graph(%0: float64[3])")
    assert "".join(Checked(graph._repr_html_()).text) == str(graph)
    assert repr(graph) == "<graph of 1 inputs, 2 equations, 1 outputs>"


def test_a_picture_is_a_file_of_its_own(tmp_path):
    picture = iv.eye(3).spy()
    assert (
        picture.save(tmp_path / "eye.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    )
    assert picture._repr_html_() == picture.svg
