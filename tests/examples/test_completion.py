"""The demo that completes pictures: what it reads, what it costs, how near it comes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from matplotlib.image import imread
from sklearn.datasets import load_digits

import iverson as iv
from examples import completion
from iverson import autograd, explain
from iverson.testing import gradcheck


def masked(values: np.ndarray, known: np.ndarray, hidden: float = np.nan) -> iv.MaskedTensor:
    """The known values on a sparse pattern; the array they come from holds something else elsewhere."""
    return iv.masked_tensor(np.where(known, values, hidden), iv.asarray(known).to_layout("csr"))


def factors_of(shape: tuple[int, int], rank: int, rng: np.random.Generator) -> list[iv.Tensor]:
    return [
        iv.asarray(rng.standard_normal(size), requires_grad=True)
        for size in ((shape[0], rank), (rank, shape[1]))
    ]


@settings(max_examples=20, deadline=None)
@drawn(seed=st.integers(0, 1000), hidden=st.floats(allow_nan=True, allow_infinity=True))
def test_what_is_not_given_changes_nothing(seed, hidden):
    rng = np.random.default_rng(seed)
    values, known = rng.random((9, 7)), rng.random((9, 7)) < 0.4
    first, second = (completion.complete(masked(values, known, h), 2, 0.1, steps=3) for h in (np.nan, hidden))
    assert np.isfinite(first.numpy()).all()
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_the_gradient_is_that_of_the_dense_formula():
    rng = np.random.default_rng(0)
    values, known = rng.standard_normal((6, 5)), rng.random((6, 5)) < 0.5
    given, factors = masked(values, known), factors_of((6, 5), 3, rng)
    images, pixels = (x.detach().numpy() for x in factors)
    error = np.where(known, values - images @ pixels, 0)
    found = autograd.grad(completion.loss(factors, given, 0.7), factors)
    np.testing.assert_allclose(found[0].numpy(), -2 * error @ pixels.T + 1.4 * images, rtol=1e-12)
    np.testing.assert_allclose(found[1].numpy(), -2 * images.T @ error + 1.4 * pixels, rtol=1e-12)
    assert gradcheck(lambda *f: completion.loss(list(f), given, 0.7), tuple(factors))


def test_a_step_costs_what_is_given_and_never_the_whole_matrix():
    rng = np.random.default_rng(0)
    shape, count = (5000, 4000), 300
    places = rng.choice(shape[0] * shape[1], count, replace=False)
    given = iv.masked_tensor(
        iv.sparse_coo_tensor(np.stack(np.unravel_index(places, shape)), rng.random(count), shape)
    )
    factors = factors_of(shape, 2, rng)
    thin = sum(f.nbytes for f in factors)
    completion.loss(factors, given, 1.0)  # what is kept on the pattern is made once
    tracemalloc.start()
    with explain.count() as work:
        autograd.grad(completion.loss(factors, given, 1.0), factors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert work.products == 0
    assert peak < 10 * (thin + 8 * count) < 8 * shape[0] * shape[1] / 20


def thin_product(rng: np.random.Generator) -> np.ndarray:
    """Of rank 2, and so of rank 3 at most with its columns' means taken away."""
    return rng.random((80, 2)) @ rng.random((2, 60)) / 2


def test_a_matrix_of_low_rank_is_recovered():
    rng = np.random.default_rng(0)
    values = thin_product(rng)
    known = rng.random(values.shape) < 0.5
    completed = completion.complete(masked(values, known), 3, 1e-4, steps=400)
    assert completion.distance(completed, iv.masked_tensor(values, ~known)) < 0.01 * values.std()


def test_rank_and_penalty_are_chosen_on_given_pixels():
    rng = np.random.default_rng(0)
    values = thin_product(rng)
    given = masked(values, rng.random(values.shape) < 0.5)
    assert completion.choose(given, [(3, 100.0), (3, 1e-3), (40, 1e-3)]) == (3, 1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_digits_come_nearer_than_the_mean(seed):
    digits = load_digits().data / 16
    known = np.random.default_rng(seed).random(digits.shape) < completion.GIVEN
    given, forgotten = masked(digits, known), iv.masked_tensor(digits, ~known)
    error = completion.distance(completion.complete(given, 16, 2.0), forgotten)
    assert error < 0.82 * completion.distance(given.mean(axis=0).to_tensor(0), forgotten)
    assert error < 0.225


def test_the_demo_draws_given_completed_and_true(tmp_path, capsys):
    completion.run(tmp_path, quick=True)
    assert "Error at the pixels not given" in capsys.readouterr().out
    image = imread(tmp_path / "completion.png")
    height = image.shape[0] // 3
    coloured = [np.ptp(image[k * height : (k + 1) * height, :, :3], axis=2).max() > 0.5 for k in range(3)]
    assert coloured == [True, False, False]  # only what is given shows that something is missing
