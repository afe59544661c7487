"""scikit-learn's estimators and metrics on tensors, by array API dispatch: right values, no gradient cut."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import iverson as iv
from tests.interop.tally import outcomes

pytestmark = pytest.mark.peers
pytest.importorskip("sklearn", reason="a peer")

from iverson.interop.sklearn import Float, use  # noqa: E402

#: What raises as it does for no tensor, and why.
OTHERWISE = {
    "scale",  # not dispatched: writes into a view of its argument, which is read only
    "silhouette_score",  # not dispatched: calls NumPy's method `take` with a mode
}

#: What reads entries as Python numbers on the way, or writes them into an array of NumPy.
WITHOUT_GRADIENTS = {"PoissonRegressor", "LogisticRegression", "CalibratedClassifierCV", "scale"}
WITHOUT_GRADIENTS |= {"silhouette_score"}


def test_estimators_and_metrics_are_right_or_refuse() -> None:
    found = outcomes("tests.interop.sklearn_calls")
    assert len(found) >= 168
    values = {name: value for name, (value, *_) in found.items() if value != "right"}
    assert set(values) <= OTHERWISE, values
    assert all(value.startswith("raised") for value in values.values()), values
    for _, by_name, inside in found.values():
        assert by_name in ("right", "no floats") or (by_name.startswith("refused") and "detach()" in by_name)
        assert inside in ("right", "no floats") or (inside.startswith("refused") and "detach()" in inside)
    assert {name for name, (*_, inside) in found.items() if inside.startswith("refused")} == WITHOUT_GRADIENTS
    assert sum(by_name == "right" for _, by_name, _ in found.values()) >= 105
    assert sum(inside == "right" for *_, inside in found.values()) >= 155


def test_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names are put back, and numbers are Python's in it and after it."""
    from sklearn import metrics

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # scikit-learn asks for it
    module = sys.modules[metrics.mean_squared_error.__module__]
    x = iv.asarray([1.0, 2.0, 4.0], requires_grad=True)
    with use(), use():
        assert isinstance(metrics.mean_squared_error([1.0], [3.0]), float)
        loss = metrics.mean_absolute_error(iv.zeros(3), x)
    assert iv.autograd.grad(loss, x).tolist() == pytest.approx([1 / 3] * 3)
    assert "float" not in vars(module)
    with pytest.raises(ZeroDivisionError), use():
        raise ZeroDivisionError
    assert "float" not in vars(module)
    assert np.dtype(Float) == np.float64
    assert isinstance(1.0, Float)
    assert Float("2.5") == 2.5
