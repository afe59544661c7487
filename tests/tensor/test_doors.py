"""What leaves a derivative raises where a transform differentiates, and names the way to go."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson import optim
from iverson.errors import IversonError

#: What takes entries out of a tensor, by name, and what the error says to do instead.
DOORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "float": (lambda x: float(x[0]), "detach"),
    "complex": (lambda x: complex(x[0]), "detach"),
    "math": (lambda x: math.sin(x[0]), "detach"),
    "tolist": (lambda x: x.tolist(), "detach"),
    "numpy": (lambda x: x.numpy(), "detach"),
    "asarray": (np.asarray, "detach"),
    "dlpack": (np.from_dlpack, "detach"),
    "deepcopy": (copy.deepcopy, "detach"),
    "pickle": (pickle.dumps, "detach"),
    "step": (lambda x: optim.SGD([x], lr=0.1).step([x]), "detach"),
}
MODES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: iv.grad(f)(x),
    "jvp": lambda f, x: iv.jvp(f, (x,), (x,)),
    "vjp": iv.vjp,
    "grad of grad": lambda f, x: iv.grad(lambda y: iv.grad(f)(y).sum())(x),
    "jit(grad)": lambda f, x: iv.jit(iv.grad(f))(x),
    "grad(jit)": lambda f, x: iv.grad(iv.jit(f))(x),
    "vmap(grad)": lambda f, x: iv.vmap(iv.grad(f))(iv.stack([x, x])),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("door", DOORS)
def test_what_leaves_a_derivative_raises(door: str, mode: str) -> None:
    """But for a copy of a value of a trace, which is differentiated with that."""
    leave, _ = DOORS[door]
    if (door, mode) == ("deepcopy", "grad(jit)"):
        slope = MODES[mode](lambda x: leave(x * 2.0).sum(), iv.asarray([1.0, 2.0]))
        assert slope.tolist() == [2.0, 2.0]
        return
    with pytest.raises(IversonError):
        MODES[mode](lambda x: (leave(x * 2.0 if door != "step" else x), x.sum())[1], iv.asarray([1.0, 2.0]))


@pytest.mark.parametrize("door", DOORS)
def test_the_error_names_the_way_to_go(door: str) -> None:
    leave, remedy = DOORS[door]
    with pytest.raises(IversonError, match=remedy):
        iv.grad(lambda x: (leave(x * 2.0 if door != "step" else x), x.sum())[1])(iv.asarray([1.0, 2.0]))


def test_entries_of_constants_pass_under_a_transform() -> None:
    w = iv.asarray([3.0])
    assert iv.grad(lambda x: (x * w.tolist()[0] * x.detach().tolist()[0]).sum())(
        iv.asarray([2.0])
    ).tolist() == [6.0]
