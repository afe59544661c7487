"""`vmap` is a loop over examples whose results are stacked, for every op of the table."""

from __future__ import annotations

import contextlib
import itertools
import warnings

import numpy as np
import pytest

import iverson as iv
from iverson.core.dispatch import make_handle
from iverson.ops import TABLE, batching
from iverson.transforms import vmap
from tests.conformance.product import EXHAUSTIVE, SEED
from tests.graph.programs import as_tuple, calls_of, close, entries, loss_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SIZE = 3
NAMES = tuple(TABLE)


def examples_of(args, which, seed=0):
    """Arguments of which those at some positions have examples, along their first axis."""
    rng = np.random.default_rng(seed)
    made = []
    for k, a in enumerate(args):
        scale = 1 + 0.01 * rng.random((SIZE, *(1,) * a.ndim))
        made.append((a * scale).astype(a.dtype) if k in which else a)
    return made


def looped(function, args, which):
    """The results of a loop over the examples."""
    found = [
        as_tuple(function(*(iv.asarray(a[k] if j in which else a) for j, a in enumerate(args))))
        for k in range(SIZE)
    ]
    return [np.stack([entries(f[j]) for f in found]) for j in range(len(found[0]))]


def agree(function, args, which):
    axes = tuple(0 if k in which else None for k in range(len(args)))
    found = as_tuple(vmap(function, axes)(*map(iv.asarray, args)))
    for f, expected in zip(found, looped(function, args, which), strict=True):
        close(f, make_handle(expected))


def subsets(count, seed):
    """The subsets of arguments that have examples: all of them, or a seeded one."""
    found = [s for n in range(1, count + 1) for s in itertools.combinations(range(count), n)]
    return found if EXHAUSTIVE or not found else [found[(SEED + seed) % len(found)]]


#: Ops that are carried out example by example where more than their values differ.
LOOPED = {"searchsorted"}


@pytest.mark.parametrize("name", NAMES)
def test_every_op(name, monkeypatch):
    looped = set()
    at = batching._at
    monkeypatch.setattr(batching, "_at", lambda F, k, e, args: looped.add(e.op.name) or at(F, k, e, args))
    for call in calls_of(name):
        for which in subsets(len(call.args), call.number):
            agree(call.function, examples_of(call.args, which), which)
    assert looped <= LOOPED


def gradient_of(call):
    return iv.grad(loss_of(call.function), tuple(range(len(call.args))))


def differentiable(name):
    return TABLE[name].differentiable


@pytest.mark.parametrize("name", [n for n in NAMES if differentiable(n)])
def test_gradients_in_and_through(name):
    for call in calls_of(name):
        for which in subsets(len(call.args), call.number):
            args = examples_of(call.args, which)
            with warnings.catch_warnings(), contextlib.suppress(iv.errors.MissingRuleError):
                warnings.simplefilter("ignore")
                agree(gradient_of(call), args, which)
                through(call, args, which)


def through(call, args, which):
    axes = tuple(0 if k in which else None for k in range(len(args)))
    handles = list(map(iv.asarray, args))
    places = tuple(range(len(args)))
    loss = loss_of(call.function)
    total = iv.grad(lambda *xs: vmap(loss, axes)(*xs).sum(), places)(*handles)
    singles = looped(gradient_of(call), args, which)
    for k, (found, each) in enumerate(zip(total, singles, strict=True)):
        close(found, make_handle(np.asarray(each if k in which else each.sum(0))), 1e-8)
