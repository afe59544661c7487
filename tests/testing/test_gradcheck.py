"""Correct functions of every shape of input and output pass, in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import iverson as iv
from iverson.autograd import Function, grad, no_grad
from iverson.autograd.api import variable
from iverson.core.errors import ArgumentError
from iverson.core.region import Region
from iverson.handles import asarray
from iverson.layouts import Box, Zero
from iverson.ops import F
from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from tests.conformance.product import paired
from tests.testing.mutations import leaf, total, unary

both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])

A, B, C = leaf(3, 4, seed=1), leaf(4, 2, seed=2), leaf(4, 2, seed=3, dtype="complex128")
Z = leaf(3, 2, seed=4, dtype="complex128")
SINGLE = leaf(3, 4, seed=5, dtype="float32")

CORRECT: dict[str, tuple[Any, Any]] = {
    "elementwise": (lambda x: F.sin(x) * x, (A,)),
    "matmul": (lambda a, b: a @ b, (A, B)),
    "rank 0": (lambda x: x * x, (leaf(),)),
    "size 0": (lambda x: x * x, (leaf(0, 3),)),
    "size 0 beside others": (lambda x, y: (x * 2, total(y * y)), (leaf(0, 3), A)),
    "to rank 0": (lambda x: total(F.exp(x)), (A,)),
    "complex": (lambda z: z * z * F.conj(z), (Z,)),
    "complex to real": (F.abs, (Z,)),
    "real to complex": (lambda x: x * (1 + 2j), (A,)),
    "real and complex": (lambda a, c: a @ c, (A, C)),
    "complex rank 0": (F.exp, (leaf(dtype="complex128"),)),
    "single": (lambda x: F.exp(x) * x, (SINGLE,)),
    "single complex": (lambda x: x * F.conj(x) * x, (leaf(3, dtype="complex64"),)),
    "single and double": (lambda x, y: x * y, (SINGLE, A)),
    "single throughout": (lambda x: F.astype(F.sin(x), dtype=np.dtype("float32")), (SINGLE,)),
    "cast down": (lambda x: F.astype(F.sin(x), dtype=np.dtype("float32")), (A,)),
    "cast up": (lambda x: F.astype(x, dtype=np.dtype("float64")) * 2, (SINGLE,)),
    "one tensor, no tuple": (lambda x: x * x, A),
    "a dict": (lambda d: d["a"] @ d["b"][0], {"a": A, "b": [B, None, "text"]}),
    "nested": (lambda t, k: {"y": (t[0] * k, [t[1]["w"] * 2])}, ((A, {"w": B}), 3)),
    "None among the outputs": (lambda x: (None, x * x, {"aux": None, "n": 3}), (A,)),
    "not differentiated inputs": (lambda x, y, k: x * y + k, (A, A.detach(), asarray([1, 2, 3, 4]))),
    "NumPy inputs": (lambda x, n: x * n, (A, np.arange(4.0))),
    "integer output": (lambda x: (F.argmax(x, axis=1, keepdims=False), x * x), (leaf(3, 4),)),
    "independent output": (lambda x: (x * x, asarray([1.0, 2.0]), x * 0 + 1), (A,)),
    "independent input": (lambda x, y: x * x, (A, B)),
    "constant": (lambda x: asarray([1.0, 2.0]), (A,)),
    "piecewise constant": (lambda x: (F.floor(x), x), (asarray([0.5, 1.25], requires_grad=True),)),
    "identity": (lambda x: x, (A,)),
    "output twice": (lambda x: (x * 2,) * 2, (A,)),
    "input twice": (lambda x, y: x * y, (A, A)),
    "in place": (lambda x: (x * 1).__imul__(2) * x, (A,)),
    "no outputs": (lambda x: None, (A,)),
    "intermediate": (F.sin, (leaf(3) * 2,)),
    "gradient inside": (lambda x: grad(total(x * x * x), x, create_graph=True), (A,)),
    "small values": (F.log, (asarray([1e-9, 3e-9], requires_grad=True),)),
    "wide range": (F.log, (asarray([1e-7, 1.0, 1e6], requires_grad=True),)),
    "large values": (lambda x: x * x, (asarray([1e6, -3e7], requires_grad=True),)),
    "sharp": (lambda x: F.tanh(x * 300), (asarray([0.001, 0.004], requires_grad=True),)),
    "kink not far": (F.relu, (asarray([1e-4, -1e-4, 0.5], requires_grad=True),)),
    "offset within reach": (lambda x: x * x + 1e4, (A,)),
}  # fmt: skip


@both_modes
@pytest.mark.parametrize("name", CORRECT)
def test_correct_passes(name: str, fast: bool) -> None:
    fn, inputs = CORRECT[name]
    assert gradcheck(fn, inputs, fast=fast)


@pytest.mark.parametrize(
    ("name", "fast"),
    paired((n for n in CORRECT if n not in ("kink not far", "small values", "wide range")), [False, True]),
)
def test_correct_passes_to_second_order(name: str, fast: bool) -> None:
    fn, inputs = CORRECT[name]
    assert gradgradcheck(fn, inputs, fast=fast)


def _box() -> Any:
    return variable(Box((3, 3), Region((0, 1), (2, 3)), np.array([[1.0, 2.0], [3.0, 4.0]])))


LAYOUTS: dict[str, Any] = {
    "box": _box(),
    "zero": variable(Zero((3, 3), np.dtype("float64"))),
    "complex box": variable(Box((3, 3), Region((1, 1), (2, 3)), np.array([[1.0, 2j]]))),
    "transposed": variable(np.arange(9.0).reshape(3, 3).T),
    "reversed": variable(np.arange(18.0).reshape(3, 6)[::-1, ::-2]),
    "broadcast": variable(np.broadcast_to(np.arange(3.0), (3, 3))),
    "overlapping": variable(np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3)),
}


@pytest.mark.parametrize(("name", "fast"), paired(LAYOUTS, [False, True]))
def test_every_entry_of_every_layout_is_perturbed(name: str, fast: bool) -> None:
    x, seen = LAYOUTS[name], []

    def watched(x: Any) -> Any:
        seen.append(np.array(x.detach()))
        return F.sin(x) @ x

    before = np.array(x.detach())
    assert gradcheck(watched, (x,), fast=fast)
    assert np.all(np.any(np.stack(seen) != before, axis=0))
    assert np.array_equal(np.array(x.detach()), before)
    assert gradgradcheck(lambda x: F.sin(x) @ x, (x,), fast=fast)


def test_views_of_one_buffer_are_independent() -> None:
    buffer = np.arange(4.0)
    x, y = variable(buffer[:3]), variable(buffer[1:])
    assert gradcheck(lambda x, y: x * x * y, (x, y))
    assert gradcheck(lambda x, y: x * x * y, (x, y), fast=True)


def test_analytic_path_gets_the_users_own_objects() -> None:
    x, calls = leaf(3), []

    def fn(args: Any) -> Any:
        calls.append(args)
        return args["x"] * 2

    inputs = {"x": x}
    assert gradcheck(fn, (inputs,))
    assert calls[0] is inputs
    assert calls[0]["x"] is x


def test_checks_under_no_grad() -> None:
    with no_grad():
        assert gradcheck(lambda x: x * x, (leaf(3),))
        assert not gradcheck(lambda x: x.detach() * x, (leaf(3),), raise_exception=False)


def test_many_outputs_and_inputs_are_sampled() -> None:
    inputs = tuple(leaf(1, seed=k) for k in range(9))
    calls = []

    class Chain(Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return tuple(x * x for x in xs)

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            calls.append(1)
            return tuple(2 * x * g for x, g in zip(ctx.saved_tensors, gs, strict=True))

    assert gradcheck(Chain.apply, inputs, fast=True, directions=1)
    assert len(calls) < 2000


def test_declared_infinite_derivatives() -> None:
    x = asarray([0.0, 4.0], requires_grad=True)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="not finite") as caught:
            gradcheck(F.sqrt, (x,), fast=fast)
        assert caught.value.finding.diagnosis == "nan or inf"
        assert caught.value.finding.input_index == (0,)

        assert gradcheck(F.sqrt, (x,), fast=fast, allow_nonfinite=True)
        assert gradcheck(
            lambda x: (F.sqrt(x), F.stack(F.sqrt(x), x, axis=0)), (x,), fast=fast, allow_nonfinite=True
        )
    leaking = unary(F.sqrt, lambda g, x: g / (2 * F.sqrt(x)) + total(g / F.sqrt(x)) * 0)
    assert not gradcheck(leaking, (x,), allow_nonfinite=True, raise_exception=False)
    wrong = unary(F.sqrt, lambda g, x: g / F.sqrt(x))
    assert not gradcheck(wrong, (x,), allow_nonfinite=True, raise_exception=False)


def test_constant_outputs_may_be_left_alone() -> None:
    def fn(x: Any) -> Any:
        return x * x, x.detach()

    assert not gradcheck(fn, (A,), raise_exception=False)
    assert gradcheck(fn, (A,), check_constant_outputs=False)


def test_looser_tolerances_let_a_small_error_through() -> None:
    wrong = unary(F.sin, lambda g, x: 1.001 * g * F.cos(x))
    assert not gradcheck(wrong, (A,), raise_exception=False)
    assert gradcheck(wrong, (A,), rtol=1e-2)
    assert gradcheck(wrong, (A,), rtol=1e-2, fast=True)


def test_nondeterminism_within_a_tolerance() -> None:
    rng = np.random.default_rng(0)

    def fn(x: Any) -> Any:
        return x * x + 1e-14 * rng.standard_normal(x.shape)

    with pytest.raises(GradcheckError, match="same bits"):
        gradcheck(fn, (A,))
    assert gradcheck(fn, (A,), nondet_tol=1e-12)
    assert gradcheck(fn, (A,), check_determinism=False)


def test_own_cotangents_of_the_second_order() -> None:
    g = leaf(3, 2, seed=9)
    assert gradgradcheck(lambda a, b: F.sin(a @ b), (A, B), g)
    assert gradgradcheck(lambda a, b: F.sin(a @ b), (A, B), [g.detach()], fast=True)
    with pytest.raises(ArgumentError, match="grad_outputs"):
        gradgradcheck(lambda a, b: a @ b, (A, B), [g, g])


def test_without_a_gradient_to_check() -> None:
    with pytest.raises(ArgumentError, match="requires grad"):
        gradcheck(lambda x: x * x, (asarray([1.0]),))
    with pytest.raises(ArgumentError, match="computed from inputs"):
        gradcheck(lambda x, y: x * y, (A, A * 2))
    assert gradcheck(lambda x: x * x, (asarray([1.0]),), raise_exception=False) is False


def rescaled(forward: Any, backward: Any) -> Any:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return forward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return backward(g)

    return Scaled.apply


SCALES = iv.asarray([1e8, 1e-8])
#: Functions with derivatives of these scales, one of which is wrong by as much as it is, and who sees it.
BESIDE_LARGE = {
    "of an output and an input of its own": (
        rescaled(lambda x: x * SCALES, lambda g: g * SCALES * iv.asarray([1.0, 2.0])),
        (False, True),
    ),
    "of an output of its own": (
        rescaled(lambda x: x[0] * SCALES, lambda g: iv.stack([g[0] * 1e8 + g[1] * 2e-8, g[0] * 0.0])),
        (True,),
    ),
    "of an output of its own, in what it does not depend on": (
        rescaled(lambda x: x * SCALES, lambda g: g * SCALES + iv.stack([g[1] * 1e-8, g[0] * 0.0])),
        (True,),
    ),
}


@pytest.mark.parametrize("name", BESIDE_LARGE)
def test_small_derivatives_beside_large_ones(name: str) -> None:
    fn, modes = BESIDE_LARGE[name]
    x = iv.asarray([0.7, 0.3], requires_grad=True)
    for fast in modes:
        assert not gradcheck(fn, (x,), fast=fast, raise_exception=False), fast
    right = rescaled(lambda x: x * SCALES, lambda g: g * SCALES)
    assert all(gradcheck(right, (x,), fast=fast) for fast in (False, True))
