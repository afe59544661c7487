"""What holds for all tests: examples drawn alike in every run, and the share of the product covered.

Hypothesis draws the same few examples each time; ``IVERSON_TEST_ALL=1`` lets it look for more, and new ones.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from iverson.codegen.launches import compiled_program
from iverson.codegen.programs.verify import verify
from iverson.kernels.kernel_registry import registered, replace_kernels
from iverson.layouts import Box, Bracket, Sparse, layout_of
from tests.conformance.product import EXHAUSTIVE, SEED, cases_of, cells
from tools import missing

settings.register_profile("iverson", deadline=None, max_examples=200 if EXHAUSTIVE else 25)
settings.load_profile("iverson")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Workers, which start after this, share the processors, and threads of a BLAS spin while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Derandomized, hypothesis would read the source of a test again for each of its parameters.
    if config.option.hypothesis_seed is None and not EXHAUSTIVE:
        config.option.hypothesis_seed = "0"


def pytest_report_header() -> str:
    return missing.note("tests that use them are skipped")


#: Modules of nothing but comparisons with peers.
OF_PEERS = ("tests/*/test_torch.py", "tests/*/test_jax.py", "tests/*/test_dask*.py", "tests/*/test_mpi.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """They import these when they are read, which takes seconds."""
    left_out = config.option.markexpr == "not peers"
    return True if left_out and any(map(collection_path.match, OF_PEERS)) else None


def pytest_collection(session: pytest.Session) -> None:
    """What is collected stays: no need to look through it again and again for what is not used any more."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Nor while tests run, which make garbage of their own."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _checked(kernel: Any) -> Any:
    @wraps(kernel)
    def run(*args: Any) -> Any:
        result = kernel(*args)
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, Sparse | Box):
                layout_of(value).check(value)
            elif type(value) is Bracket:  # its condition may wait until somebody asks
                assert isinstance(value.values, np.ndarray | Box)
        return result

    return run


@pytest.fixture(scope="session", autouse=True)
def results_of_kernels_are_checked() -> Iterator[None]:
    """What a kernel of sparse layouts, boxes or brackets returns keeps the invariants of its layout."""
    before, kinds = registered(), (Sparse, Box, Bracket)
    replace_kernels(before | {key: _checked(kernel) for key, kernel in before.items() if key[1] in kinds})
    yield
    replace_kernels(before)


@pytest.fixture(scope="session", autouse=True)
def passes_over_compiled_programs_are_verified() -> Iterator[None]:
    """What each pass of code generation makes of a program, in any test, keeps the rules of the IR."""

    def verified(run: Any) -> Any:
        return wraps(run)(lambda *given: verify(run(*given)))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("with_shared_scatters", "rolled", "in_place", "by_rows"):
            patch.setattr(compiled_program, name, verified(getattr(compiled_program, name)))
        yield


@pytest.fixture(scope="module", autouse=True)
def what_a_module_leaves_is_not_looked_through_again() -> Iterator[None]:
    """Code and graphs are kept; traces that look for temporaries would go through them each time."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def settings_of_peers_stay() -> Iterator[None]:
    """A test that changes what all of JAX or PyTorch computes in undoes it: others run after it."""
    yield
    if jax := sys.modules.get("jax"):
        assert not jax.config.jax_enable_x64
    if torch := sys.modules.get("torch"):
        assert torch.get_default_dtype() is torch.float32


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    chosen = sum(dict(getattr(r, "user_properties", ())).get("conformance", 0) for r in ran)
    if not chosen:
        return
    total = sum(len(cases_of(*cell)) for cell in cells())
    terminalreporter.write_line(
        f"conformance: {chosen} of {total} cases ({chosen / total:.0%}) of op x layout x sample x dtype x "
        f"needs x order, in all {len(cells())} cells of op x layout (seed {SEED})"
    )
