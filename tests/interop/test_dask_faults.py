"""Workers that die: what is replicated is computed again, what a table lost is said, nothing is left over.

Kills are seeded: by phase of a step, step and partition. IVERSON_TEST_ALL=1 makes 20 of each kind, else some.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

pytestmark = pytest.mark.peers

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install iverson[dask]")

import psutil  # noqa: E402
from distributed import Status  # noqa: E402

import iverson as iv  # noqa: E402
from iverson import optim  # noqa: E402
from iverson.errors import LostRowsError  # noqa: E402
from iverson.interop.dask import PartitionedTable, value_and_grad  # noqa: E402
from tests.interop.cluster import BOUND, cluster  # noqa: E402

RUNS = 20 if os.environ.get("IVERSON_TEST_ALL") else 4
PHASES = ("start", "local pass", "reduction", "update")


@contextmanager
def two_processes():
    """A client of two. After them, none is left and nothing listens."""
    before, open_before = set(psutil.Process().children(recursive=True)), listening()
    with cluster(2, processes=True) as found:
        ports = listening() - open_before
        assert ports
        assert {ip for ip, _ in ports} == {"127.0.0.1"}
        yield found
    end, helpers = time.monotonic() + BOUND, set()
    while left := {p for p in psutil.Process().children(recursive=True) if p.is_running()} - before:
        helpers = {p for p in left if "resource_tracker" in " ".join(p.cmdline())}  # multiprocessing's own
        if left == helpers or time.monotonic() > end:
            break
        time.sleep(0.1)
    assert left <= helpers
    assert listening() <= open_before


@pytest.fixture(scope="module")
def client():
    with two_processes() as found:
        yield found


def listening():
    own = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {c.laddr for p in own for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN}


def pids(client):
    """The process of each worker, by address, when there are two again.

    The scheduler may not have noticed that one is dead. A nanny whose worker dies before it has learnt of its
    start does not start another one.
    """
    end = time.monotonic() + BOUND
    while True:
        nannies = [n for n in client.cluster.workers.values() if n.status == Status.running and lives(n.pid)]
        found = {n.worker_address: n.pid for n in nannies}
        if len(found) == 2 and set(found) == set(client.nthreads()):
            return found
        assert time.monotonic() < end, f"two workers in {BOUND} s; there are {found}"
        time.sleep(0.02)


def lives(pid):
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def dies_once(marker):
    """End this process with no warning, the first time that somebody gets here."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_reduction(marker):
    from iverson.interop.dask import partial_sums

    known = partial_sums.summed

    def summed(terms):
        if len(terms) > 1:
            partial_sums.summed = known
            dies_once(marker)
        return known(terms)

    partial_sums.summed = summed


def parts():
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((n, 3)), rng.integers(0, 9, n), k) for k, n in enumerate((4, 9, 1, 6))]


def train(client, kill=None, marker=""):
    """Three steps on dense parameters and rows; kill is a phase, a step, and a partition or worker."""
    phase, at, where = kill or (None, -1, -1)
    pids(client)

    def loss(p, part):
        x, k, number = part
        if phase == "local pass" and number == where:
            dies_once(marker)
        return ((x @ p["w"] + (iv.embedding(iv.asarray(k), p["rows"]) ** 2).sum(axis=1)) ** 2).mean()

    rng = np.random.default_rng(1)
    params = {"w": iv.asarray(rng.standard_normal(3)), "rows": iv.asarray(rng.standard_normal((9, 2)))}
    opt = optim.Adam({k: x.requires_grad_() for k, x in params.items()}, lr=0.1)
    step = value_and_grad(loss, timeout=BOUND)
    quiet = value_and_grad(partial(_without_kills, loss), timeout=BOUND) if phase == "local pass" else step
    data = [dask.delayed(_loaded)(*part) for part in parts()]
    for k in range(3):
        victim = (
            pids(client)[sorted(pids(client))[where % 2]] if k == at and phase in ("start", "update") else 0
        )
        if k == at and phase == "start":
            os.kill(victim, signal.SIGKILL)
        if k == at and phase == "reduction":
            client.run(kill_in_reduction, marker)
        value, gradients = (step if k == at else quiet)(params, data)
        if k == at and phase == "update":
            os.kill(victim, signal.SIGKILL)
        opt.step(gradients)
    return value.item(), *(x.detach().numpy().tobytes() for x in params.values())


def _without_kills(loss, p, part):
    x, k, _ = part
    return loss(p, (x, k, -1))


def _loaded(x, k, number):
    class Part(tuple):
        def __len__(self):
            return len(x)

    return Part((iv.asarray(x), k, number))


def test_a_worker_that_dies_changes_no_result(client, tmp_path):
    """Each kill is in a cluster of its own: how soon Dask starts another worker is not what is tested."""
    rng = np.random.default_rng(0)
    want = train(client)
    for run in range(RUNS):
        kill = PHASES[run % len(PHASES)], int(rng.integers(3)), int(rng.integers(4))
        marker = str(tmp_path / str(run))
        with two_processes() as own:
            assert train(own, kill, marker) == want, kill
        assert kill[0] in ("start", "update") or os.path.exists(marker), "nothing was killed"


@pytest.mark.parametrize("run", range(max(RUNS // 2, 3)))
def test_a_table_resumes_from_its_checkpoint_and_says_what_it_lost(client, tmp_path, run):
    rng = np.random.default_rng(run)
    pids(client)
    table = PartitionedTable(40, 2, client, optimizer=partial(optim.Adam, lr=0.1), scale=1.0, timeout=BOUND)
    saved_at, killed_at = int(rng.integers(0, 3)), 4
    dead = int(rng.integers(2))
    phase = ("look-up", "step", "local pass")[run % 3]
    lost, everything = [], np.arange(40)
    for k in range(1, killed_at + 1):
        rows = rng.choice(40, 7, replace=False)
        iv.embedding(rows, table).sum().backward()
        table.step()
        if k > saved_at:
            lost.append(rows[rows % 2 == dead])
        if k == saved_at:
            table.save(tmp_path)
            at_checkpoint = table.look_up(everything).numpy()
    if not saved_at:
        at_checkpoint = (
            PartitionedTable(40, 2, client, optimizer=optim.SGD, scale=1.0).look_up(everything).numpy()
        )
    now = table.look_up(everything).numpy()
    rows = rng.choice(40, 7, replace=False)
    found = iv.embedding(rows, table).sum()
    found.backward()
    os.kill(pids(client)[table.placement[dead]._address], signal.SIGKILL)
    data = [dask.delayed(everything[k::3]) for k in range(3)]
    step = value_and_grad(lambda p, k: iv.embedding(k, p).sum(), timeout=BOUND)
    calls = {
        "look-up": lambda: table.look_up(everything),
        "step": table.step,
        "local pass": lambda: step(table, data),
    }
    if phase == "step":
        lost.append(rows[rows % 2 == dead])
    with pytest.raises(LostRowsError) as error:
        calls[phase]()
    steps = tuple(range(saved_at + 1, killed_at + 1 + (phase == "step")))
    held = [n for n, rows in zip(range(saved_at + 1, killed_at + 2), lost, strict=False) if rows.size]
    assert error.value.rows == tuple(np.unique(np.concatenate(lost)).tolist())
    assert error.value.steps == tuple(n for n in steps if n in held)
    assert f"partition {dead} of 2" in str(error.value)
    assert f"the checkpoint of step {saved_at}" in str(error.value) or not saved_at
    want = np.where((everything % 2 == dead)[:, None], at_checkpoint, now)
    other = everything % 2 != dead
    if phase == "step":
        other &= ~np.isin(everything, rows)
    known = other | (everything % 2 == dead)
    np.testing.assert_array_equal(table.look_up(everything[known]).numpy(), want[known])
    iv.embedding(rows, table).sum().backward()
    table.step()  # and it goes on
