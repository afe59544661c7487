"""MPI: what two processes compute together, run under mpiexec."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[2]
MPIEXEC = shutil.which("mpiexec")
#: More processes than cores, on the loopback interface, by any user; other implementations need no leave.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.fixture(autouse=True)
def _there_is_mpi():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install iverson[mpi]")
    if MPIEXEC is None:
        pytest.skip("there is no mpiexec: install MPI from the system's packages (openmpi-bin)")


def run(processes, *command):
    """What processes on the loopback interface print. None of them outlives the timeout."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    found = subprocess.run(
        [MPIEXEC, "-n", str(processes), sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **OPEN_MPI, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_what_processes_compute_together():
    assert run(2, "-m", "tests.interop.mpi_program").count("holds:") == 6


def test_examples_in_docstrings():
    assert "passed" in run(
        1, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", "src/iverson/interop/mpi"
    )


def test_the_example_trains_alike_on_any_number_of_processes():
    one, two = (run(n, "examples/data_parallel.py", "--quick") for n in (1, 2))
    assert one.splitlines()[-1] == two.splitlines()[-1]
    assert "loss" in two
