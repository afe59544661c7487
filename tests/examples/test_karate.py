"""The demo with a graph network: its matrix, what its loss reads, how many members it places."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from matplotlib.image import imread

from examples import karate
from tests.conformance.product import some

GRAPH = nx.karate_club_graph()
SIDES = np.array([side == "Officer" for _, side in GRAPH.nodes(data="club")]).astype(int)
KNOWN = np.isin(np.arange(34), karate.LEADERS)


def test_the_matrix_is_networkx_s():
    looped = GRAPH.copy()
    looped.add_edges_from((n, n) for n in GRAPH)
    found = karate.averaging(GRAPH)
    assert (found.layout, found.nnz) == ("csr", 34 + 2 * GRAPH.number_of_edges())
    expected = np.eye(34) - nx.normalized_laplacian_matrix(looped, weight=None).toarray()
    np.testing.assert_allclose(found.to_dense().numpy(), expected, atol=1e-15)


def test_only_the_leaders_sides_are_read():
    average = karate.averaging(GRAPH)
    first = karate.train(average, SIDES, KNOWN, seed=0, steps=5)
    again = karate.train(average, np.where(KNOWN, SIDES, 1 - SIDES), KNOWN, seed=0, steps=5)
    np.testing.assert_array_equal(first.numpy(), again.numpy())
    other = karate.train(average, 1 - SIDES, KNOWN, seed=0, steps=5)
    assert not np.array_equal(first.numpy(), other.numpy())


@pytest.mark.parametrize("seed", some("seeds", range(5), 2))
def test_thirty_of_thirty_two_members_are_placed(seed):
    found = karate.train(karate.averaging(GRAPH), SIDES, KNOWN, seed)
    right = found.numpy().argmax(axis=1) == SIDES
    assert np.count_nonzero(right[~KNOWN]) >= 30
    assert right[KNOWN].all()


def test_the_demo_says_and_draws_what_it_found(tmp_path, capsys):
    karate.run(tmp_path, quick=True)
    assert "31 of the 32 other members" in capsys.readouterr().out
    assert imread(tmp_path / "karate.png").shape == (500, 800, 4)
