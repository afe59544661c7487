"""scikit-learn's estimators and metrics on tensors, by array API dispatch: right values, no gradient cut."""

from __future__ import annotations

import pytest

from tests.interop.tally import outcomes

pytestmark = pytest.mark.peers
pytest.importorskip("sklearn", reason="a peer")

#: What differs, and why.
OTHERWISE = {
    "silhouette_score",  # not dispatched: asks for the attribute `flat`
}

#: What reads entries as Python numbers on the way; metrics that give floats do, too.
WITHOUT_GRADIENTS = {"PoissonRegressor", "LogisticRegression", "CalibratedClassifierCV"}


def test_estimators_and_metrics_are_right_or_refuse() -> None:
    found = outcomes("tests.interop.sklearn_calls")
    values = {name: value for name, (value, _) in found.items() if value != "right"}
    assert {name: value for name, value in values.items() if name not in OTHERWISE} == {}
    assert all(value.startswith("raised") for value in values.values()), values
    refused = {name: end for name, (_, end) in found.items() if end.startswith("refused")}
    assert all("detach()" in end for end in refused.values()), refused
    estimators = {name for name in found if name[0].isupper()}
    assert estimators & set(refused) == WITHOUT_GRADIENTS
    others = {name: end for name, (_, end) in found.items() if end not in ("right", "no floats")}
    assert set(others) - set(refused) <= OTHERWISE
    assert sum(end == "right" for _, end in found.values()) >= 37
