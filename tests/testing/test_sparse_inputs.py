"""gradcheck of tensors in sparse layouts: every entry is perturbed, stored or not."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from iverson.testing import GradcheckError, gradcheck, gradgradcheck

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")


def sparse(layout):
    blocks = {"blocksize": (1, 1)} if layout[0] == "b" else {}
    made = iv.to_layout(iv.asarray([[0.0, 1.0], [2.0, 3.0]]), layout, **blocks)
    return made.requires_grad_()


def cubed(x):
    return iv.matmul(iv.matmul(x, x), x)


class WrongOutside(iv.autograd.Function):
    """x * w with a gradient that is wrong only where x stores nothing."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.to_dense() * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        stored = x.detach().numpy() != 0
        return iv.asarray(np.where(stored, 1.0, 1.5)) * g * w, None


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_regular_semantics(layout, fast):
    assert gradcheck(cubed, (sparse(layout),), fast=fast)
    assert gradgradcheck(cubed, (sparse(layout),), fast=fast)


@pytest.mark.filterwarnings("ignore::iverson.core.errors.DensifyWarning")
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gradient_wrong_only_outside_the_pattern_is_caught(layout, fast):
    w = iv.asarray([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: WrongOutside.apply(x, w), (sparse(layout),), fast=fast)
    assert caught.value.finding.input_index == (0, 0)
