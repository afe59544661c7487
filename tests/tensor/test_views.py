"""Writes into parts are writes into the tensor, as in NumPy: values and derivatives, in every mode."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.errors import GradientError
from tests.conformance.product import EXHAUSTIVE

MODES: dict[str, Callable[[Any, Any], Any]] = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: iv.jit(f)(x),
    "vmap": lambda f, x: iv.vmap(f)(iv.stack([x, x]))[1],
    "checkpoint": lambda f, x: iv.checkpoint(f)(x),
    "scan": lambda f, x: iv.scan(lambda c, _: (f(c), None), x, iv.zeros(1))[0],
}
DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: iv.grad(f)(x),
    "jit(grad)": lambda f, x: iv.jit(iv.grad(f))(x),
    "grad(jit)": lambda f, x: iv.grad(iv.jit(f))(x),
    "vmap(grad)": lambda f, x: iv.vmap(iv.grad(f))(iv.stack([x, x]))[1],
    "grad(checkpoint)": lambda f, x: iv.grad(iv.checkpoint(f))(x),
}


#: Functions whose results are parts, as NumPy's are.
MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda a: _of(a).permute_dims(a, tuple(range(a.ndim))[::-1]),
    "flat": lambda a: _of(a).reshape(a, (-1,)) if a.size else a[:],
    "halves": lambda a: _of(a).reshape(a, (2, -1)) if a.size and a.size % 2 == 0 else a[:],
    "more axes": lambda a: _of(a).expand_dims(a, axis=0),
    "fewer axes": lambda a: _of(a).squeeze(_of(a).expand_dims(a, axis=a.ndim), axis=a.ndim),
    "reversed": lambda a: _of(a).flip(a, axis=0),
    "last": lambda a: _of(a).unstack(a)[-1] if a.ndim > 1 and a.shape[0] else a[:],
    "moved": lambda a: _of(a).moveaxis(a, 0, -1),
}


def _of(a: Any) -> Any:
    return np if isinstance(a, np.ndarray) else iv


def _key(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A basic key that leaves an axis."""
    key: list[Any] = []
    for n in shape[: rng.randint(1, len(shape))]:
        step = rng.choice((1, 1, 2, -1, -2))
        ends = (rng.choice((None, 0, 1, -1, n)), rng.choice((None, n // 2, -1, n + 3)))
        key.append(slice(*(ends if step > 0 else ends[::-1]), step))
    if len(shape) > 1 and rng.random() < 0.4 and shape[0]:
        key[0] = rng.randrange(-shape[0], shape[0])
    if rng.random() < 0.2:
        key.insert(rng.randint(0, len(key)), None)
    return tuple(key)


def _steps(seed: int, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Parts of a tensor and of its parts are taken and written to, in any order."""
    rng, shapes, steps = random.Random(seed), [shape], []
    model = [np.empty(shape)]
    for _ in range(rng.randint(2, 9)):
        of = rng.randrange(len(shapes))
        kind = rng.choice(
            ("part", "part", "moved", "set", "add", "multiply", "from base" if model[0].size else "set")
        )
        if kind == "moved":
            how = rng.choice(sorted(MOVES))
            found = MOVES[how](model[of])
            if found.size and not np.shares_memory(found, model[of]):
                continue  # what NumPy copies is not a part there
            model.append(found)
            shapes.append(found.shape)
            steps.append((kind, of, how, None))
        elif kind == "part" or len(shapes) == 1:
            key = _key(rng, shapes[of])
            model.append(model[of][key])
            shapes.append(model[-1].shape)
            steps.append(("part", of, key, None))
        else:
            steps.append((kind, of, _key(rng, shapes[of]), rng.choice((2.0, -0.5, 3.0))))
    return steps


def _run(steps: list[tuple[Any, ...]], x: Any) -> Any:
    """The program on an array of NumPy's or a tensor."""
    base = x * 1.0
    tensors = [base]
    for kind, of, key, number in steps:
        target = tensors[of]
        if kind == "part":
            tensors.append(target[key])
        elif kind == "moved":
            tensors.append(MOVES[key](target))
        elif kind == "set":
            target[key] = number
        elif kind == "from base":
            target[key] = base.reshape(-1)[:1] * number
        elif kind == "add":
            target += number * base.sum()
        else:
            target *= number
    namespace = np if isinstance(base, np.ndarray) else iv  # what parts hold then is read, too
    parts = [t.sum() * (k + 1) for k, t in enumerate(tensors)]
    return base * namespace.sum(namespace.stack(parts))


SEEDS = 200 if EXHAUSTIVE else 24
SHAPES = ((5,), (3, 4), (2, 3, 2), (1,), (0, 3), (17,))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_writes_into_parts_are_numpys(seed: int) -> None:
    shape = SHAPES[seed % len(SHAPES)]
    steps = _steps(seed, shape)
    x = np.random.default_rng(seed).standard_normal(shape)
    weights = np.random.default_rng(seed + 1).standard_normal(shape)
    modes = (
        list(MODES.items())
        if seed < 3 or EXHAUSTIVE
        else [m for m in MODES.items() if m[0] in ("eager", "vmap")]
    )
    for name, mode in modes:
        found = mode(lambda t: _run(steps, t), iv.asarray(x))
        np.testing.assert_allclose(found, _run(steps, x), rtol=1e-12, atol=1e-12, err_msg=name)

    def loss(t: Any) -> Any:
        return (_run(steps, t) * weights).sum()

    slopes = np.zeros(shape)  # by complex steps: all is a polynomial
    for i in np.ndindex(*shape):
        moved = x.astype(complex)
        moved[i] += 1e-30j
        slopes[i] = loss(moved).imag / 1e-30
    derivatives = list(DERIVATIVES.items())
    for name, mode in derivatives if seed < 3 or EXHAUSTIVE else derivatives[:1]:
        found = mode(loss, iv.asarray(x))
        np.testing.assert_allclose(found.to_dense(), slopes, rtol=1e-10, atol=1e-12, err_msg=name)
    along = iv.jvp(loss, (iv.asarray(x),), (iv.asarray(weights),))[1]
    np.testing.assert_allclose(along, (slopes * weights).sum(), rtol=1e-10, atol=1e-12)


def test_a_part_of_rank_zero_is_a_number() -> None:
    x = iv.asarray([1.0, 2.0])
    total = x[0]
    total += x[1]
    assert (total.item(), x.tolist()) == (3.0, [1.0, 2.0])


def test_copies_of_parts_are_tensors_of_their_own() -> None:
    for made in (copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), lambda p: p.detach()):
        x = iv.zeros(3)
        part = made(x[1:])
        part[:] = 1.0
        assert x.tolist() == [0.0] * 3


def test_a_part_keeps_no_base_alive_and_is_written_alone_then() -> None:
    x = iv.zeros(3)
    part = x[1:]
    del x
    gc.collect()
    part[0] = 1.0
    assert part.tolist() == [1.0, 0.0]


def test_masked_and_sparse_tensors_are_written_through_their_parts() -> None:
    m = iv.masked_tensor(iv.zeros((2, 2)), np.eye(2, dtype=bool))
    row = m[0]
    row[0] = 5.0
    assert m[0, 0].item() == 5.0
    s = iv.eye(3).to_sparse()
    row = s[0]
    row[0] = 5.0
    assert s.to_dense().tolist() == [[5.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_compiled_functions_write_through_parts_from_outside() -> None:
    x = iv.zeros(4)
    part, other = x[1:], x[:2]

    @iv.jit
    def write(p: Any) -> Any:
        p[0] = 1.0
        return p.sum()

    @iv.jit
    def write_closed() -> None:
        part[1] += 2.0

    write(part)
    write_closed()
    x[3] = 7.0
    write_closed()
    other[0] = 3.0
    assert x.tolist() == [3.0, 1.0, 4.0, 7.0]


def test_a_part_of_a_tracked_leaf_is_written_under_no_grad_alone() -> None:
    w = iv.zeros(3, requires_grad=True)
    part = w[1:]
    with pytest.raises(GradientError, match="copy the part first"):
        part[0] = 1.0
    with pytest.raises(GradientError, match="copy the part first"):
        part += 1.0
    with iv.autograd.no_grad():
        w[1:][0] = 2.0
    assert w.tolist() == [0.0, 2.0, 0.0]
    assert w.is_leaf


def test_writes_that_reach_the_base_do_not_warn() -> None:
    y = iv.zeros((2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y[0][1] = 5.0
        for row in y:
            row += 1.0
    assert y.tolist() == [[1.0, 6.0], [1.0, 1.0]]
