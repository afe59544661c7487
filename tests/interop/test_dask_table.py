"""Partitioned tables: as a table in one process, only rows move, and what is lost is said."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytestmark = pytest.mark.peers

da = pytest.importorskip("dask.array", reason="Dask is not installed: pip install iverson[dask]")

import iverson as iv  # noqa: E402
from iverson import optim  # noqa: E402
from iverson.errors import (  # noqa: E402
    ArgumentError,
    ArgumentTypeError,
    IndexingError,
    LostRowsError,
    ShapeError,
    TimedOutError,
)
from iverson.interop.dask import PartitionedTable, value_and_grad  # noqa: E402
from iverson.interop.dask.worker_rows import initial_rows  # noqa: E402
from tests.interop.cluster import cluster, counted  # noqa: E402

ROWS, WIDTH = 50, 3


@pytest.fixture(scope="module")
def client():
    with cluster() as found:
        yield found


def whole(table):
    return table.look_up(np.arange(table.shape[0])).numpy()


def loss(table, indices, targets):
    return ((iv.embedding(indices, table) - targets) ** 2).sum()


OPTIMIZERS = {
    "sgd": partial(optim.SGD, lr=0.1),
    "momentum": partial(optim.SGD, lr=0.1, momentum=0.9),
    "adam": partial(optim.Adam, lr=0.1),
    "adagrad": partial(optim.Adagrad, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("partitions", [1, 3])
def test_steps_are_those_of_a_table_in_one_process(client, name, partitions, tmp_path):
    """Before and after what is saved is loaded into another number of partitions."""
    make = OPTIMIZERS[name]
    table = PartitionedTable(ROWS, WIDTH, client, optimizer=make, partitions=partitions, scale=0.5, seed=3)
    local = iv.asarray(initial_rows(np.arange(ROWS), WIDTH, np.float64, 0.5, 3), requires_grad=True)
    opt = make([local])
    rng = np.random.default_rng(0)
    for k in range(4):
        if k == 2:
            table.save(tmp_path)
            table = PartitionedTable(ROWS, WIDTH, client, optimizer=make, partitions=2, scale=0.5, seed=3)
            table.load(tmp_path)
            assert table.steps == 2
        indices = rng.integers(0, ROWS // (k % 2 + 1), (4, 5))
        targets = rng.standard_normal((4, 5, WIDTH))
        found, want = loss(table, indices, targets), loss(local, indices, targets)
        np.testing.assert_allclose(found.item(), want.item(), rtol=1e-13)
        found.backward()
        table.step(lr=0.05 if k == 3 else None)
        opt.lr = 0.05 if k == 3 else opt.lr
        opt.step([iv.autograd.grad(want, local)])
        np.testing.assert_allclose(whole(table), local.detach().numpy(), rtol=1e-12, atol=1e-14)
    assert len(list(tmp_path.iterdir())) == partitions + 1


def test_a_row_starts_the_same_wherever_it_is():
    rows = np.array([0, 5, 10**9])
    found = initial_rows(rows, 4, np.float32, 2.0, 1)
    np.testing.assert_array_equal(found[1:2], initial_rows(rows[1:2], 4, np.float32, 2.0, 1))
    many = initial_rows(np.arange(20000), 5, np.float64, 2.0, 1)
    assert abs(many.mean()) < 0.02
    assert abs(many.std() - 2) < 0.02
    assert abs(np.corrcoef(many.T) - np.eye(5)).max() < 0.03
    assert not np.array_equal(many[:1], initial_rows(rows[:1], 5, np.float64, 2.0, 2))


def test_in_a_loss_over_partitions_its_gradient_is_rows(client):
    table = PartitionedTable(10**7, WIDTH, client, optimizer=OPTIMIZERS["adam"], scale=1.0)
    rows = np.random.default_rng(0).integers(0, 10**7, 40)
    rows[7] = rows[30]
    data = da.from_array(rows, chunks=(15,))
    params = {"table": table, "scale": iv.asarray(2.0)}

    def mean(p, part):
        return (iv.embedding(part, p["table"]) ** 2).sum(axis=1).mean() * p["scale"]

    value, gradients = value_and_grad(mean)(params, data)
    values = table.look_up(rows).numpy()
    np.testing.assert_allclose(value.item(), 2 * (values**2).sum() / 40, rtol=1e-12)
    np.testing.assert_allclose(gradients["scale"].item(), (values**2).sum() / 40, rtol=1e-12)
    distinct, counts = np.unique(rows, return_counts=True)
    np.testing.assert_array_equal(gradients["table"].indices().numpy()[0], distinct)
    want = 4 * table.look_up(distinct).numpy() * counts[:, None] / 40
    np.testing.assert_allclose(gradients["table"].values().numpy(), want, rtol=1e-12)
    assert table.stored() == 0
    table.step(gradients["table"])
    assert table.stored() == 39
    assert value_and_grad(mean)(params, data)[0].item() < value.item()


def test_only_rows_and_their_indices_move(client):
    """8,192 of 10^6 x 64: down once, up once."""
    table = PartitionedTable(10**6, 64, client, optimizer=OPTIMIZERS["adam"])
    rows = np.random.default_rng(0).choice(10**6, 8192, replace=False)
    bound = 1.1 * 8192 * (64 * 8 + 8) + 20_000
    with counted() as looked_up:
        found = iv.embedding(rows, table).sum()
    found.backward()
    with counted() as stepped:
        table.step()
    with counted() as nothing:
        table.step(table.gradient([]))
    assert 8192 * 64 * 8 < looked_up.bytes < bound
    assert 8192 * 64 * 8 < stepped.bytes < bound
    assert nothing.bytes < 2000
    print("look-up", looked_up.bytes, "step", stepped.bytes, "rows and indices", 8192 * (64 * 8 + 8))


def test_a_request_that_takes_too_long_says_of_whom(client):
    table = PartitionedTable(ROWS, WIDTH, client, optimizer=OPTIMIZERS["sgd"], partitions=1, timeout=0.3)
    slow = table.placement[0]

    class Late:
        _address = slow._address

        def look_up(self, rows):
            return self

        def result(self, timeout):
            raise TimeoutError

    table.placement = (Late(),)
    with pytest.raises(TimedOutError, match=r"0.3 s; expected a look-up of partition 0 of 1 at tcp://"):
        table.look_up([1])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda t: iv.embedding([ROWS], t), IndexingError, "expected 0 to 49"),
        (lambda t: iv.embedding(np.ones(2), t), ArgumentTypeError, "expected integers"),
        (lambda t: t.step(iv.ones((ROWS, WIDTH))), ArgumentError, "rows of shape"),
        (lambda t: t.load("/nowhere"), OSError, "/nowhere"),
        (lambda t: PartitionedTable(0, 3, optimizer=OPTIMIZERS["sgd"]), ShapeError, "at least a row"),
        (lambda t: PartitionedTable(2, 3, optimizer=2), ArgumentTypeError, "'optimizer'"),
        (lambda t: PartitionedTable(2, 3, optimizer=optim.SGD, dtype="int8"), ArgumentError, "float32 or"),
        (lambda t: PartitionedTable(2, 3, False, optimizer=optim.SGD), ArgumentError, "Client"),
    ],
)
def test_wrong_calls_say_what_is_wrong(client, call, error, said):
    table = PartitionedTable(ROWS, WIDTH, client, optimizer=OPTIMIZERS["sgd"])
    with pytest.raises(error, match=said):
        call(table)
    assert LostRowsError("x").rows == ()
