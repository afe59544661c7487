"""gradcheck tested by what it must refuse: each wrong rule, in slow and in fast mode."""

from __future__ import annotations

import numpy as np
import pytest

from iverson.testing import GradcheckError, gradcheck, gradgradcheck
from tests.conformance.product import EXHAUSTIVE, paired
from tests.testing.mutations import MUTATIONS, Mutation

both_modes = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
every_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=str)


def run(mutation: Mutation, **options: object) -> bool:
    check = gradgradcheck if mutation.second else gradcheck
    with mutation.context():
        return check(mutation.fn, mutation.inputs, **mutation.options, **options)


@pytest.mark.parametrize(("mutation", "fast"), paired(MUTATIONS, [False, True]), ids=str)
def test_wrong_rule_is_refused_and_named(mutation: Mutation, fast: bool) -> None:
    with pytest.raises(GradcheckError) as caught:
        run(mutation, fast=fast)
    finding = caught.value.finding
    assert finding.mode in mutation.modes
    named = {"reverse": "reverse mode", "forward": "forward mode"}
    assert named.get(finding.mode, finding.mode) in str(caught.value)
    if mutation.where is not None:
        assert mutation.where in (finding.input_index, finding.output_index)
        assert str(mutation.where) in str(caught.value)
    if finding.analytic is not None and np.isfinite(finding.analytic):
        assert finding.diagnosis == "wrong rule"
        assert finding.relative_error is not None
        assert finding.relative_error > 5e-8


@pytest.mark.parametrize("name", ["factor 2", "jvp only", "second derivative"])
def test_returns_false_on_request(name: str) -> None:
    """In slow mode; in fast mode of every mutation, below."""
    mutation = next(m for m in MUTATIONS if m.name == name)
    assert run(mutation, raise_exception=False) is False


@every_mutation
def test_fast_mode_does_not_live_by_its_seed(mutation: Mutation) -> None:
    seeds = range(1, 6 if EXHAUSTIVE else 2)
    passed = [seed for seed in seeds if run(mutation, fast=True, seed=seed, raise_exception=False)]
    assert passed == []


@both_modes
@pytest.mark.parametrize("name", ["factor 2", "jvp only", "one entry of 100"])
def test_values_in_the_report(name: str, fast: bool) -> None:
    mutation = next(m for m in MUTATIONS if m.name == name)
    with pytest.raises(GradcheckError) as caught:
        run(mutation, fast=fast)
    found = caught.value.finding
    assert found.input == "inputs[0]"
    assert found.output == "output"
    assert found.analytic == pytest.approx(2 * found.numerical, rel=1e-6)
    assert found.relative_error == pytest.approx(0.5)
    assert found.step is not None
    assert f"step {found.step:.3g}" in str(caught.value)


@pytest.mark.parametrize("name", ["undefined cotangent loses the rest", "subset of needed inputs"])
@both_modes
def test_subset_checks_can_be_left_out(name: str, fast: bool) -> None:
    mutation = next(m for m in MUTATIONS if m.name == name)
    assert run(mutation, fast=fast, check_undefined=False, check_needs=False)


def test_wrong_jvp_passes_where_forward_mode_is_left_out() -> None:
    mutation = next(m for m in MUTATIONS if m.name == "jvp only")
    assert run(mutation, check_forward=False)
    assert run(mutation, check_forward=False, fast=True)
