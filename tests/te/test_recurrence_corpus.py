"""Kernels of the corpora of papers, recurrences and scenes: values and gradients against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from iverson import te
from tests.conformance.product import by_turns

from . import corpus_papers, corpus_scenes  # noqa: F401  (they enter their kernels)
from .corpus import KERNELS
from .corpus_recurrences import ORACLES
from .test_corpus import Case

torch = pytest.importorskip("torch")


def test_each_has_an_oracle() -> None:
    assert len(ORACLES) >= 40
    assert ORACLES.keys() <= KERNELS.keys()


@pytest.mark.peers
@pytest.mark.parametrize("name", by_turns(ORACLES, 3))
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    case = Case(name)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        given = {t.name: torch.tensor(case.feed[t], requires_grad=t in case.wanted) for t in case.given}
        found = ORACLES[name](torch, **given)
        results = found if isinstance(found, tuple) else (found,)
        heads = [torch.tensor(case.feed[h]) for h in case.heads]
        total = sum((r * h).sum() for r, h in zip(results, heads, strict=True))
        gradients = torch.autograd.grad(total, [given[t.name] for t in case.wanted])
    finally:
        torch.set_default_dtype(before)
    code, feed = case.lowered([*case.outputs, *case.gradients(case.wanted)])
    made = code(*feed)
    expected = [*(r.detach().numpy() for r in results), *(g.numpy() for g in gradients)]
    for a, b in zip(made, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    assert all(isinstance(t, te.Tensor) for t in case.outputs)
