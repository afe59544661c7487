"""Every op of the table against its own facts: abstract evaluation, layouts, needs, derivatives.

The layout laws hold gradients against those of the same entries held densely; the dense ones are held against
finite differences, to second order and in both modes, by gradcheck (whose own tests mutate rules).
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

from iverson.autograd.api import variable
from iverson.autograd.engine import reverse
from iverson.autograd.forward import push
from iverson.core.aval import aval_of
from iverson.core.counting import work
from iverson.core.dispatch import bind
from iverson.core.entries import FULL
from iverson.core.errors import ConvergenceWarning, LinearAlgebraError
from iverson.core.op import Sample
from iverson.handles import Tensor
from iverson.layouts import layout_of, layouts, to_strided
from iverson.ops import TABLE, F
from iverson.testing import gradcheck, gradgradcheck
from tests.conformance.product import (
    EXHAUSTIVE,
    SEED,
    Case,
    drawn,
    each,
    floating,
    held_and_dense,
    in_layout,
    ops,
    samples_of,
    stores,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def call(case: Case, sample: Sample, args: tuple[Any, ...]) -> tuple[Any, ...]:
    out = bind(TABLE[case.op], args, dict(sample.params))
    return as_tuple(out)


def results(case: Case, sample: Sample, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What of a call's results has a derivative."""
    out = call(case, sample, args)
    if sample.post is not None:
        out = as_tuple(sample.post(F, *out))
    return tuple(o for o in out if o.dtype.kind in "fc")


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    """Equal wherever the second, dense one is finite: elsewhere strong zeros may win (semantics, 4)."""
    finite = np.isfinite(b)
    np.testing.assert_allclose(np.where(finite, a, 0), np.where(finite, b, 0), rtol=rtol, atol=1e-12)


NAMES = ops()
LAYOUTS = tuple(layout.name for layout in layouts() if layout.name != "strided")
#: Cells of which no sample fits the layout: the op takes a vector.
NEVER_STORED = {
    (name, layout) for name in ("unpack", "linear_convolution") for layout in ("csr", "csc", "bsr", "bsc")
}


@pytest.mark.parametrize("name", NAMES)
def test_abstract_evaluation_agrees_with_the_kernel(name):
    op = TABLE[name]
    for sample in samples_of(op, "float64"):
        out = as_tuple(bind(op, sample.args, dict(sample.params)))
        avals = [aval_of(a) if hasattr(a, "shape") else a for a in sample.args]
        expected = as_tuple(op.abstract(*avals, **sample.params))
        assert [(a.shape, a.dtype) for a in expected] == [(o.shape, o.dtype) for o in out]
        for o in out:
            layout_of(o._value).check(o._value)


@pytest.mark.parametrize("name", NAMES)
def test_a_layout_changes_neither_values_nor_derivatives(name, record_property):
    """In every cell of op and layout, of cases that store something in the layout."""
    count = 0
    for layout in LAYOUTS:
        cases = drawn(name, layout, 1)
        assert cases
        assert EXHAUSTIVE or all(map(stores, cases)) is ((name, layout) not in NEVER_STORED)
        count += len(cases)
        each(layout_changes_nothing, cases)
    record_property("conformance", count)


def layout_changes_nothing(case: Case) -> None:
    sample = samples_of(TABLE[case.op], case.dtype)[case.sample]
    held, dense = held_and_dense(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with warnings.catch_warnings(action="error", category=ConvergenceWarning):
                expected = call(case, sample, dense)
        except LinearAlgebraError:  # zeros have no decomposition; a strong zero may still win (semantics, 4)
            return
        except ConvergenceWarning:  # iterations with a singular matrix: where they stop is rounding
            return
        for found, wanted in zip(call(case, sample, held), expected, strict=True):
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            layout_of(found._value).check(found._value)
            close(to_strided(found._value), to_strided(wanted._value))
        if case.needs:
            # A singular matrix has no derivative, in any layout.
            with contextlib.suppress(LinearAlgebraError):
                derivatives_agree(case, sample, held, dense)


def derivatives_agree(case: Case, sample: Sample, held: Any, dense: Any) -> None:
    """Cotangents and tangents, in the layout or dense, through arguments in the layout or dense."""
    rng = np.random.default_rng(SEED + 1)
    wanted = derivatives(case, sample, dense, None, rng)
    rng = np.random.default_rng(SEED + 1)
    for f, w in zip(derivatives(case, sample, held, None, rng), wanted, strict=True):
        close(f, w)
    if any((np.abs(w) > 1e12).any() for w in wanted):  # singular but for rounding: what is left is rounding
        return
    rng = np.random.default_rng(SEED + 2)
    wanted = derivatives(case, sample, dense, "dense " + case.layout, rng)
    rng = np.random.default_rng(SEED + 2)
    for f, w in zip(derivatives(case, sample, dense, case.layout, rng), wanted, strict=True):
        close(f, w)


def derivatives(
    case: Case, sample: Sample, args: Any, direction_layout: str | None, rng: np.random.Generator
) -> list[Any]:
    """All cotangents and tangents of one call (of its gradient, at second order), as arrays."""
    variables = [variable(a) if k in case.needs else a for k, a in enumerate(args)]
    outs = list(results(case, sample, tuple(variables)))
    inputs = [variables[k] for k in case.needs]
    if case.order == 2:
        cts = [variable(direction(o, None, rng)) for o in outs]
        outs = pull(outs, cts, inputs, create_graph=True)
        inputs = inputs + cts
    directions = [Tensor(direction(o, direction_layout, rng)) for o in outs]
    pulled = pull(outs, directions, inputs, create_graph=False)
    tangents = [Tensor(direction(x, direction_layout, rng)) for x in inputs]
    slots = [(o._node, o._index) for o in outs if o._node is not None]
    known = {(x._node, x._index): t for x, t in zip(inputs, tangents, strict=True)}
    pushed = push(slots, known, create_graph=False)
    zeros = [np.zeros(o.shape, o.dtype) for o in outs]
    return [to_strided(p._value) for p in pulled] + [
        to_strided(pushed[o._node, o._index]._value) if (o._node, o._index) in pushed else zero
        for o, zero in zip(outs, zeros, strict=True)
    ]


def pull(outs: Any, cts: Any, inputs: Any, create_graph: bool) -> list[Any]:
    """The cotangents of the inputs, those that never arrived in the zero layout."""
    seeds = [((o._node, o._index), ct) for o, ct in zip(outs, cts, strict=True) if o._node is not None]
    found = reverse(seeds, {(x._node, x._index): FULL for x in inputs}, create_graph=create_graph)
    return [found.get((x._node, x._index), F.zero(x.shape, x.dtype)) for x in inputs]


def direction(like: Any, layout: str | None, rng: np.random.Generator) -> Any:
    value = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        value = value + 1j * rng.standard_normal(like.shape)
    value = np.asarray(value, like.dtype)
    if layout is None:
        return value
    held, dense = in_layout(value, layout.removeprefix("dense "), rng)
    return dense if layout.startswith("dense ") else held


#: With more pairs of entries of inputs and results than this, second derivatives are probed in one direction.
MANY = 60


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_against_differences(name, record_property):
    cases = [case for case in drawn(name, "strided") if case.needs]
    each(agrees_with_differences, cases)
    record_property("conformance", len(cases))


def agrees_with_differences(case: Case) -> None:
    sample = samples_of(TABLE[case.op], case.dtype)[case.sample]
    inputs = tuple(
        Tensor(np.array(a)).requires_grad_() if k in case.needs else a for k, a in enumerate(sample.args)
    )

    def function(*args: Any) -> Any:
        return results(case, sample, args)

    if case.order == 1:
        assert gradcheck(function, inputs)
        return
    pairs = sum(inputs[k].size for k in case.needs) * sum(y.size for y in function(*inputs))
    assert gradgradcheck(function, inputs, fast=not EXHAUSTIVE and pairs > MANY, directions=1)


@pytest.mark.parametrize("name", [n for n in NAMES if TABLE[n].differentiable])
def test_only_what_is_needed_runs(name):
    """With one input requested, its cotangent is as if all were, and no rule of the others has run."""
    op = TABLE[name]
    sample = samples_of(op, "float64")[0]
    positions = floating(sample)
    variables = [variable(np.array(a)) if k in positions else a for k, a in enumerate(sample.args)]
    case = Case(name, "strided", "float64", 0, positions, 1)
    outs = [o for o in results(case, sample, tuple(variables)) if o.requires_grad]
    rng = np.random.default_rng(SEED)
    cts = [Tensor(direction(o, None, rng)) for o in outs]
    together = pull(outs, cts, [variables[k] for k in positions], create_graph=False)
    for k, expected in zip(positions, together, strict=True):
        with work.counting() as done:
            (alone,) = pull(outs, cts, [variables[k]], create_graph=False)
        np.testing.assert_array_equal(to_strided(alone._value), to_strided(expected._value))
        others = set(positions) - {k} - op.constant_in
        assert done.unneeded == (len(others) if outs else 0)
