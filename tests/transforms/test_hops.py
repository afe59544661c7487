"""How many Python functions ops and derivatives of a batch go through: what small ones cost.

The bounds are what these calls take, with a tenth to spare. A call that needs more should have a reason.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.ops import F
from iverson.transforms.batching.batch_level import Batch
from iverson.transforms.trees import fresh
from tests.tools.entered import python_calls

RNG = np.random.default_rng(0)
X, Y, W = (iv.asarray(RNG.standard_normal(s)) for s in ((5, 4), (5, 4), (4, 3)))
STEPS = 8

#: Calls on an example of a batch and a variable there, and the most functions that they may enter.
OPS = {
    "product": (lambda x, v: F.multiply(x, x), 13),
    "multiple": (lambda x, v: F.multiply(x, 2.0), 13),
    "function": (lambda x, v: F.tanh(x), 14),
    "sum": (lambda x, v: F.sum(x, axis=(0,), keepdims=False), 19),
    "product, recorded": (lambda x, v: F.multiply(v, x), 17),
    "function, recorded": (lambda x, v: F.tanh(v), 18),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_of_a_batch_does_not_hop(name: str) -> None:
    call, bound = OPS[name]
    with Batch(5) as level:
        x = level.of_examples(X)
        (v,) = fresh([x], "grad", "inputs")
        assert python_calls(lambda: call(x, v)) <= bound


def chain(x: Any, count: int) -> Any:
    for _ in range(count):
        x = iv.tanh(x) * 2.0
    return x


#: Derivatives of a chain of two ops a step, and the most functions that a step more may enter.
DERIVATIVES = {
    "gradients of examples": (lambda n: iv.vmap(iv.grad(lambda x: chain(x, n).sum())), 84),
    "a Jacobian with known zeros": (lambda n: iv.jacobian(lambda x: chain(x, n)), 93),
    "a product of a Jacobian and a vector": (
        lambda n: lambda x: iv.jvp(lambda v: chain(v, n), (x,), (x,)),
        50,
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_step_of_a_derivative_does_not_hop(name: str) -> None:
    make, bound = DERIVATIVES[name]
    x = X if name == "gradients of examples" else iv.asarray(RNG.standard_normal(12))
    short, long = (python_calls(partial(make(n), x)) for n in (STEPS, 2 * STEPS))
    assert (long - short) / STEPS <= bound
