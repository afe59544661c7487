"""One entry that is infinite, nan, huge or on a kink reaches what it reaches in PyTorch, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import iverson as iv
from tests.nn.cases import CASES

torch = pytest.importorskip("torch", reason="PyTorch is the oracle here")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning"),
]

ENTRIES = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308, -1e308, 5e-324, 50.0, -50.0, 800.0, -800.0)

#: Cases that PyTorch computes otherwise at some entries, and how.
OTHERWISE = {
    "cosine_similarity": (lambda v: abs(v) == 1e308, "PyTorch divides by the norms before it multiplies"),
    "cross_entropy-probabilities": (lambda v: abs(v) == 1e308, "PyTorch divides by the count before it adds"),
    "attention-causal": (lambda v: v == -np.inf, "a row of -inf alone is 0 in PyTorch, nan in a softmax"),
    "attention-mask": (np.isnan, "what a mask leaves out is not read"),
    "binary_cross_entropy-": (lambda v: True, "PyTorch checks the targets"),
}


def outcome(function, *arrays):
    try:
        return np.asarray(function(*arrays).numpy())
    except (iv.errors.IversonError, RuntimeError, ValueError) as error:
        return error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.theirs is not None])
def test_one_hard_entry(name):
    case = CASES[name]
    excused = [holds for prefix, (holds, _) in OTHERWISE.items() if name.startswith(prefix)]
    for k, array in enumerate(case.arrays):
        for entry in ENTRIES if array.dtype.kind == "f" and array.size else ():
            if any(holds(entry) for holds in excused):
                continue
            arrays = [a.copy() for a in case.arrays]
            arrays[k].flat[min(1, array.size - 1)] = entry
            theirs = outcome(lambda *ts: case.theirs(torch.nn.functional, *ts), *map(torch.tensor, arrays))
            ours = outcome(case.ours, *map(iv.asarray, arrays))
            assert isinstance(ours, Exception) is isinstance(theirs, Exception), (k, entry, ours, theirs)
            if isinstance(ours, Exception):
                continue
            known = np.isfinite(theirs) | (np.isnan(theirs) & np.isnan(entry))
            np.testing.assert_allclose(
                ours[known], theirs[known], rtol=1e-7, atol=1e-9, err_msg=f"array {k}, entry {entry}"
            )
