"""Random programs in every mode, against PyTorch's own derivatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.conformance.product import EXHAUSTIVE
from tests.programs.differential import NoOracle, outcome_of_program
from tests.programs.generator import Program, program_of
from tests.programs.modes import carried_out
from tests.programs.namespace import Feed

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers
COUNT, CHUNK = (3000, 100) if EXHAUSTIVE else (150, 50)


def of_torch(program: Program, feed: Feed) -> Sequence[np.ndarray]:
    from tests.programs.in_torch import Torch

    args = [torch.as_tensor(a.astype("c16" if a.dtype.kind == "c" else "f8")) for a in program.args]
    try:
        results, _ = carried_out(Torch(feed), program, args)
    except RuntimeError as error:  # writes into what was read, products of real and complex numbers
        raise NoOracle(str(error)) from error
    return [x.detach().resolve_conj().numpy() for x in results]


@pytest.mark.parametrize("first", range(300_000, 300_000 + COUNT, CHUNK))
def test_programs_are_what_pytorch_says(first: int) -> None:
    from tests.programs.in_torch import written_in_torch

    programs = [p for p in map(program_of, range(first, first + CHUNK)) if written_in_torch(p)]
    outcomes = [(p, outcome_of_program(p, of_torch)) for p in programs]
    wrong = [(p.seed, str(p.mode), o.text) for p, o in outcomes if o.kind == "failed"]
    assert not wrong
    assert sum(o.kind == "agreed" for _, o in outcomes) >= 0.9 * len(programs) > 0
