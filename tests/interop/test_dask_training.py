"""The documented training loop, a run on data larger than its process, and the predictions of the model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.peers

da = pytest.importorskip("dask.array", reason="Dask is not installed: pip install iverson[dask]")

import iverson as iv  # noqa: E402
from iverson import optim  # noqa: E402
from tests.blocks import python_blocks  # noqa: E402
from tests.interop.cluster import cluster  # noqa: E402

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("IVERSON_TEST_ALL"))


@pytest.fixture(scope="module")
def client():
    with cluster() as found:
        yield found


def loss(p, part):
    rows, x = part[:, 0].astype("int64"), part[:, 1:]
    return ((iv.embedding(rows, p["table"]) * x).sum(axis=1) + x @ p["w"] - 1).square().mean()


def run(train, path, seed=5, until=None):
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.integers(0, 9, (40, 1)), rng.standard_normal((40, 3))], axis=1)
    start = {"w": rng.standard_normal(3), "table": rng.standard_normal((9, 3))}
    params = {k: iv.asarray(x, requires_grad=True) for k, x in start.items()}
    opt = optim.Adam(params, lr=0.1)
    train(path, da.from_array(data, chunks=(11, 4)), params, opt, loss, epochs=2, seed=seed, until=until)
    return {k: x.detach().numpy().tobytes() for k, x in params.items()}


def test_the_documented_loop_resumes_with_the_same_bits(client, tmp_path):
    space = {}
    (code,) = [b for b in python_blocks((ROOT / "docs" / "scaling.md").read_text()) if "def train" in b]
    exec(code, space)
    whole = run(space["train"], tmp_path / "whole")
    assert run(space["train"], tmp_path / "again") == whole
    assert run(space["train"], tmp_path / "other", seed=6) != whole
    for stop in (3, 8):
        path = tmp_path / f"stopped at {stop}"
        assert (run(space["train"], path, until=stop) == whole) == (stop == 8)
        assert run(space["train"], path) == whole
    assert len(list(tmp_path.iterdir())) == 5


def test_data_larger_than_a_process_may_be(tmp_path):
    size, limit, most = (2048, 600, 600) if FULL else (256, 350, 240)
    found = subprocess.run(
        [sys.executable, "-m", "tests.interop.out_of_core", str(tmp_path), str(size), str(limit)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert sum(f.stat().st_size for f in tmp_path.iterdir()) > 0.99 * size * 2**20
    for file in tmp_path.iterdir():
        file.unlink()
    assert found.returncode == 0, found.stderr
    error, resident = map(float, found.stdout.split())
    assert error < 1e-3
    assert resident < most


def test_the_simulation_bears_out_the_formula_and_the_page_shows_both():
    from benchmarks import scaling

    assert scaling.table(scaling.DASK, scaling.MPI) in (ROOT / "docs" / "scaling.md").read_text()
    for job in scaling.JOBS:
        for workers in (1, 8, 64, 512):
            for sparse in (False, True):
                said = scaling.dask_step(job, workers, scaling.DASK, sparse=sparse)
                played = scaling.simulated(job, workers, scaling.DASK, sparse=sparse)
                assert 0.6 < played / said < 1.3, (job, workers, sparse)
