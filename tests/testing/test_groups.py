"""Columns of sparse Jacobians found in groups: fewer calls, and nothing wrong gets through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import iverson as iv
from iverson.testing import GradcheckError, gradcheck
from iverson.transforms.jacobians.grouping import disjoint


@given(arrays(bool, st.tuples(st.integers(0, 12), st.integers(0, 12))))
def test_groups_hold_each_column_once_and_share_no_row(support):
    groups = disjoint(support)
    assert sorted(k for members in groups for k in members) == list(range(support.shape[1]))
    for members in groups:
        assert members.size == 1 or support[:, members].sum(axis=1).max(initial=0) <= 1


class Counted:
    def __init__(self, fn):
        self.fn, self.calls = fn, 0

    def __call__(self, *args):
        self.calls += 1
        return self.fn(*args)


def leaf(n):
    return iv.asarray(np.random.default_rng(0).standard_normal(n), requires_grad=True)


def test_an_elementwise_function_of_many_entries_is_called_a_few_times():
    f = Counted(lambda x: x * iv.sin(x))
    assert gradcheck(f, (leaf(200),))
    assert f.calls < 10


def test_a_banded_one_takes_calls_for_its_width():
    f = Counted(lambda x: x[1:] * x[:-1])
    assert gradcheck(f, (leaf(200),))
    assert f.calls < 14


def test_a_dense_one_takes_two_calls_an_entry():
    w = iv.asarray(np.random.default_rng(1).standard_normal((20, 20)))
    f = Counted(lambda x: iv.tanh(w @ x))
    assert gradcheck(f, (leaf(20),))
    assert f.calls >= 40


def wrong(forward, backward):
    class Wrong(iv.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(ctx.saved_tensors[0], g)

    return Wrong.apply


def scattered(n, *terms):
    """The gradient with the terms (place, value) added."""
    held = np.zeros(n)
    for at, value in terms:
        held[at] += value
    return iv.asarray(held)


@pytest.mark.parametrize("missing", [lambda x: x[3] - x[7], lambda x: x[3] + x[7], lambda x: 0.01 * x[3]])
def test_terms_that_a_rule_forgets_do_not_cancel_in_a_group(missing):
    def forward(x):
        return iv.concat([2 * x, iv.reshape(missing(x), (1,))])

    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong(forward, lambda x, g: 2 * g[:-1]), (leaf(10),), check_forward=False)
    assert caught.value.finding.input_index in ((3,), (7,))
    assert caught.value.finding.output_index == (10,)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("forgotten", [iv.sum, lambda x: x[1], iv.flip, lambda x: iv.roll(x, 1)])
def test_what_a_rule_forgets_beside_a_large_entry_is_seen(forgotten, scale):
    """J = scale I + 1e-6 scale M, of which the rule gives the first term: M stands where zeros should."""
    for n in (3, 20):
        fn = wrong(lambda x: scale * (x + 1e-6 * forgotten(x)), lambda x, g: scale * g)
        assert not gradcheck(fn, (leaf(n),), raise_exception=False, check_forward=False)


def test_a_wrong_entry_is_named_as_if_it_were_alone():
    def backward(x, g):
        return 2 * g + scattered(50, (31, 1e-3)) * g

    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong(lambda x: 2 * x, backward), (leaf(50),), check_forward=False)
    assert caught.value.finding.input_index == (31,)
    assert caught.value.finding.analytic == pytest.approx(2.001)
    assert caught.value.finding.numerical == pytest.approx(2)


def test_a_kink_in_one_entry_of_a_group_is_seen():
    x = np.random.default_rng(0).standard_normal(50)
    x[17] = 0.0
    with pytest.raises(GradcheckError, match="kink") as caught:
        gradcheck(iv.abs, (iv.asarray(x, requires_grad=True),))
    assert caught.value.finding.input_index == (17,)
