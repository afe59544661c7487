"""What a failure says about why: kinks, jumps, rounding; and that the inputs survive."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iverson import masked_tensor, to_layout
from iverson.autograd import no_grad
from iverson.core.errors import GradientError
from iverson.handles import asarray
from iverson.ops import F
from iverson.testing import Finding, GradcheckError, gradcheck, gradgradcheck
from iverson.testing.fast_mode import bisect
from iverson.testing.subsets import LIMIT, subsets
from tests.testing.mutations import constant, leaf, unary

both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def refused(fn: Any, x: Any, **options: Any) -> tuple[Finding, str]:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(fn, (asarray(x, requires_grad=True),), **options)
    return caught.value.finding, str(caught.value)


@both_modes
@pytest.mark.parametrize(
    "fn", [F.relu, F.abs, lambda x: F.maximum(x, 0.0), lambda x: F.abs(x) * x + F.abs(x)]
)
def test_kink(fn: Any, fast: bool) -> None:
    finding, message = refused(fn, [1.0, 0.0, -2.0, 3.0], fast=fast)
    assert finding.diagnosis == "kink"
    assert finding.input_index == (1,)
    assert "kink" in message
    assert "the rule is wrong" not in message


@both_modes
def test_kink_among_many(fast: bool) -> None:
    x = np.random.default_rng(0).standard_normal(500)
    x[123] = 0.0
    finding, _ = refused(lambda x: F.sum(F.abs(x), axis=(0,), keepdims=False), x, fast=fast)
    assert finding.diagnosis == "kink"
    assert finding.input_index == (123,)


def test_smoothness_may_be_left_alone() -> None:
    x = asarray([1.0, 0.0], requires_grad=True)
    assert gradcheck(F.abs, (x,), check_smoothness=False)
    assert gradcheck(F.abs, (x,), check_smoothness=False, fast=True)


@both_modes
def test_jump(fast: bool) -> None:
    finding, message = refused(lambda x: F.floor(x) + x, [0.5, 1.0], fast=fast)
    assert finding.diagnosis == "jump"
    assert finding.input_index == (1,)
    assert "jumps" in message


@both_modes
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * x + 1e13,
        lambda x: (x + 1e13) - 1e13,
        lambda x: F.sin(x) + 1e15,
        lambda x: (x * x + 3e11) * 3,
    ],
    ids=["offset", "cancelled offset", "larger offset", "smaller offset"],
)
def test_rounding(fn: Any, fast: bool) -> None:
    finding, message = refused(fn, [1.1, 0.7, 2.3], fast=fast)
    assert finding.diagnosis == "rounding"
    assert "rounding" in message
    assert "the rule is wrong" not in message


@both_modes
def test_wrong_rule_near_a_kink_is_a_wrong_rule(fast: bool) -> None:
    wrong = unary(F.relu, lambda g, x: 1.5 * g * F.astype(x > 0, dtype=x.dtype))
    finding, message = refused(wrong, [0.01, 1.0], fast=fast)
    assert finding.diagnosis == "wrong rule"
    assert "the rule is wrong" in message


@both_modes
def test_undefined_neighbourhood(fast: bool) -> None:
    def fn(x: Any) -> Any:
        if np.any(np.asarray(x.detach()) > 1.0):
            raise ValueError("outside the domain")
        return x * x

    finding, message = refused(fn, [0.5, 1.0], fast=fast)
    assert finding.mode == "evaluation"
    assert "outside the domain" in message


@both_modes
def test_shape_that_depends_on_values(fast: bool) -> None:
    finding, message = refused(lambda x: x[np.asarray(x.detach()) >= 1.0], [0.5, 1.0], fast=fast)
    assert finding.mode == "evaluation"
    assert "outputs of shapes" in message


def test_value_that_depends_on_the_layout() -> None:
    from iverson.autograd.api import variable
    from iverson.layouts import Zero

    x = variable(Zero((2,), np.dtype("float64")))
    with pytest.raises(GradcheckError, match="a layout must not change a value"):
        gradcheck(lambda x: x + (1.0 if x.layout == "zero" else 2.0), (x,))


def test_error_is_a_gradient_error_and_pickles() -> None:
    with pytest.raises(GradientError) as caught:
        gradcheck(unary(F.sin, lambda g, x: g), (leaf(2),))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.finding == caught.value.finding


def test_names_of_nested_inputs_and_outputs() -> None:
    wrong = unary(F.sin, lambda g, x: g)
    inputs = ({"w": [leaf(2), leaf(2, seed=1)]}, 3)
    with pytest.raises(GradcheckError, match=r"'inputs\[0\]\['w'\]\[1\]'.*outputs\['y'\]\[0\]"):
        gradcheck(lambda d, k: {"y": (wrong(d["w"][1]) * k,)}, inputs)


def test_names_of_the_second_order() -> None:
    detached = unary(lambda x: x * x * x, lambda g, x: 3 * g * x * constant(x))
    with pytest.raises(GradcheckError, match=r"gradgradcheck.*'inputs\[0\]'.*gradient in inputs\[0\]"):
        gradgradcheck(detached, (leaf(3),))
    nonlinear = unary(lambda x: x * x, lambda g, x: 2 * x * g + x * (g - constant(g)))
    with pytest.raises(GradcheckError, match=r"'grad_outputs\[0\]'"):
        gradgradcheck(nonlinear, (leaf(3),))


class Vandal:
    """A function that writes into its input, replaces it, and then raises (the n-th time)."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self, x: Any, n: Any) -> Any:
        y = x * x * n[0]
        x._value[...] = 7.0
        n[...] = 7.0
        with no_grad():
            x += 1.0
        self.calls -= 1
        if not self.calls:
            raise RuntimeError("the function's own error")
        return y


@pytest.mark.parametrize("calls", [1, 2])
def test_inputs_are_restored_when_the_function_changes_them(calls: int) -> None:
    x, n = leaf(3), np.array([2.0])
    values, node, buffer = np.array(x.detach()), x._node, x._value
    with pytest.raises(
        (RuntimeError, GradcheckError), match=["the function's own error", "changed"][calls - 1]
    ):
        gradcheck(Vandal(calls), (x, n))
    assert x._node is node
    assert x._value is buffer
    assert np.array_equal(np.array(x.detach()), values)
    assert n[0] == 2.0
    assert gradcheck(Vandal(calls), (x, n), raise_exception=False) is False
    assert np.array_equal(np.array(x.detach()), values)


def _written(array: Any) -> None:
    array[...] = 7.0


def _bound(x: Any) -> None:
    with no_grad():
        x += 1.0


DENSE = np.array([[1.0, 0.0, 2.0]])
CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "entries": (lambda: leaf(3), lambda x: _written(x._value)),
    "entries of one not differentiated": (lambda: leaf(3).detach(), lambda x: _written(x._value)),
    "complex entries": (lambda: leaf(3, dtype="complex128"), lambda x: _written(x._value)),
    "entries of a view": (lambda: leaf(3, 2), lambda x: _written(x._value[:, 1])),
    "stored values": (lambda: to_layout(asarray(DENSE), "csr"), lambda x: _written(x._value.values)),
    "values of a masked tensor": (
        lambda: masked_tensor(DENSE, DENSE > 0, requires_grad=True),
        lambda x: _written(x._inner._value),
    ),
    "a NumPy array": (lambda: np.ones(3), _written),
    "what a tensor stands for": (lambda: leaf(3), _bound),
}


@both_modes
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("name", CHANGES)
def test_a_function_that_changes_an_input_is_reported(name: str, check: Any, fast: bool) -> None:
    make, change = CHANGES[name]

    def fn(x: Any, given: list[Any]) -> Any:
        y = x * x * x
        change(given[0])
        return y

    with pytest.raises(GradcheckError, match="changed") as caught:
        check(fn, (leaf(2), [make()]), fast=fast)
    assert caught.value.finding.mode == "changed input"
    assert caught.value.finding.input == "inputs[1][0]"


@pytest.mark.parametrize(
    "fn", [lambda x: 1 / 0, lambda x: x @ 3, lambda x: x.nothing, lambda x, y: x, lambda x: [x, print], None]
)
def test_never_raises_on_request(fn: Any) -> None:
    assert gradcheck(fn, (leaf(2, 2),), raise_exception=False) in (True, False)
    assert gradgradcheck(fn, (leaf(2, 2),), raise_exception=False) in (True, False)
    assert gradcheck(fn, (), raise_exception=False) is False


def test_bisection() -> None:
    assert all(bisect(np.ones(13), lambda part, k=k: part[k]) == k for k in range(13))
    assert bisect(np.array([0.0, 0.0, 1.0]), lambda part: 0.0) == 2


def test_subsets_are_all_or_a_seeded_sample() -> None:
    rng = np.random.default_rng(0)
    assert len(subsets(range(6), rng)) == 63
    sample = subsets(range(20), np.random.default_rng(1))
    assert sample == subsets(range(20), np.random.default_rng(1))
    assert LIMIT // 2 < len(set(sample)) == len(sample) <= LIMIT
