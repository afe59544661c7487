"""Losses over partitions: values, gradients and layouts as in one process, and the bytes that move."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.peers

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install iverson[dask]")
da = pytest.importorskip("dask.array")

import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from distributed.protocol import deserialize, serialize  # noqa: E402

import iverson as iv  # noqa: E402
from iverson.core.dispatch import unwrap, value_of  # noqa: E402
from iverson.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, TimedOutError  # noqa: E402
from iverson.interop.dask import partitions, value_and_grad  # noqa: E402
from iverson.layouts import layout_of  # noqa: E402
from tests.interop.cluster import cluster, counted, started  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with cluster() as found:
        yield found


EXAMPLES, ROWS, WIDTH = 24, 11, 3


def tensors_of_all_layouts():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.4)
    found = {name: iv.asarray(dense).to_layout(name) for name in ("strided", "coo", "csr", "csc")}
    found |= {name: iv.asarray(dense).to_layout(name, blocksize=(2, 2)) for name in ("bsr", "bsc")}
    x = iv.asarray(dense, requires_grad=True)
    found["zero"] = iv.grad(lambda x: iv.asarray(1.0))(x)
    found["box"] = iv.grad(lambda x: x[1:3].sum())(x)
    found["rows"] = iv.grad(lambda x: iv.embedding(iv.asarray([1, 1, 3]), x).sum())(x)
    found["masked"] = iv.masked_tensor(dense, dense != 0)
    found["masked csr"] = iv.masked_tensor(found["csr"])
    return found


def dense(x):
    return (x.to_tensor(0.0) if isinstance(x, iv.MaskedTensor) else x).to_dense().numpy()


def params_and_loss(kind):
    """Parameters and a loss whose gradient has a layout, over examples: numbers x, and rows k."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((ROWS, WIDTH))
    pattern = rng.random((ROWS, WIDTH)) < 0.5
    if kind == "dense":
        return iv.asarray(matrix), lambda p, part: (iv.tanh(part["x"] @ p.T) ** 2).sum(axis=1).mean()
    if kind == "rows":
        return iv.asarray(matrix), lambda p, part: (
            (iv.embedding(part["k"], p) * part["x"]).sum(axis=1) ** 2
        ).mean()
    if kind in ("coo", "csr"):
        held = iv.asarray(matrix * pattern).to_layout(kind)
        return held, lambda p, part: (p * p * (part["x"] ** 2).mean(axis=0)).sum()
    held = iv.masked_tensor(matrix, pattern)
    return held, lambda p, part: (p * p * (part["x"] ** 2).mean(axis=0)).sum()


def examples():
    rng = np.random.default_rng(2)
    return {"x": rng.standard_normal((EXAMPLES, WIDTH)), "k": rng.integers(0, ROWS, EXAMPLES)}


CHUNKS = {
    "one": (24,),
    "two": (12, 12),
    "four": (6, 6, 6, 6),
    "unequal": (1, 13, 3, 7),
    "empty": (0, 20, 0, 4),
}


@pytest.mark.parametrize("kind", ["dense", "rows", "coo", "csr", "masked"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_partitions_give_what_one_process_does(client, kind, reduction):
    params, mean = params_and_loss(kind)
    loss = mean if reduction == "mean" else lambda p, part: mean(p, part) * part["x"].shape[0]
    value, gradient = iv.value_and_grad(loss)(params, {k: iv.asarray(x) for k, x in examples().items()})
    step = value_and_grad(loss, reduction)
    for chunks in CHUNKS.values():
        parts = {"x": (chunks, (2, 1)), "k": (chunks,)}
        data = {name: da.from_array(x, chunks=parts[name]) for name, x in examples().items()}
        found, g = step(params, data)
        np.testing.assert_allclose(found.item(), value.item(), rtol=1e-12)
        assert type(g) is type(gradient)
        assert g.layout == gradient.layout
        np.testing.assert_allclose(dense(g), dense(gradient), rtol=1e-12, atol=1e-14)
        if kind in ("coo", "csr"):
            assert value_of(g).pattern is value_of(params).pattern
        if kind == "rows":
            assert value_of(g).pattern.coalesced
        if kind == "masked":
            assert g._mask is params._mask


def test_partitions_of_every_collection_and_without_a_cluster(client):
    rows = np.arange(12.0).reshape(6, 2)
    params, want = iv.asarray([1.0, -2.0]), ((rows @ [1.0, -2.0]) ** 2).mean()

    def loss(p, part):
        return ((iv.asarray(np.array(part, np.float64)) @ p) ** 2).mean()

    frame = pd.DataFrame(rows, columns=["a", "b"])
    collections = {
        "array": da.from_array(rows, chunks=(4, 1)),
        "bag": db.from_sequence(rows.tolist(), npartitions=2),
        "dataframe": dd.from_pandas(frame, npartitions=3),
        "delayed": [dask.delayed(rows[:1]), dask.delayed(rows[1:])],
        "futures": client.scatter([rows[:5], rows[5:]], hash=False),
        "partitions": partitions(da.from_array(rows, chunks=(1, 2)))[::-1],
        "one": dask.delayed(rows),
    }
    gradients = []
    for data in collections.values():
        value, gradient = value_and_grad(loss)(params, data)
        np.testing.assert_allclose(value.item(), want, rtol=1e-14)
        gradients.append(gradient.numpy())
    np.testing.assert_allclose(gradients, np.broadcast_to(gradients[0], (7, 2)), rtol=1e-14)


def test_a_fixed_tree_gives_the_same_bits_whatever_runs_it():
    """Nor does it depend on whether there is a cluster."""
    data = da.from_array(np.random.default_rng(0).standard_normal((40, 3)), chunks=(2, 3))
    params, loss = iv.asarray([0.1, 0.2, 0.3]), lambda p, x: iv.tanh(x @ p).sum()
    found = [value_and_grad(loss, "sum", client=False)(params, data)]
    for workers in (1, 2):
        with cluster(workers):
            found.append(value_and_grad(loss, "sum")(params, data))
    assert len({(v.item(), g.numpy().tobytes()) for v, g in found}) == 1


@pytest.mark.parametrize("name", tensors_of_all_layouts())
def test_tensors_travel_as_frames_without_a_copy(name):
    x = tensors_of_all_layouts()[name]
    header, frames = serialize(x)
    found = deserialize(header, frames)
    np.testing.assert_array_equal(dense(found), dense(x))
    assert found.layout == x.layout
    value, own = value_of(unwrap(found)), value_of(unwrap(x))
    layout_of(value).check(value)
    arrays = [*layout_of(own).buffers(own), *layout_of(own).structure(own)]
    for array in arrays:
        if array.flags.c_contiguous and array.size:
            assert any(np.shares_memory(array, np.frombuffer(f, np.uint8)) for f in frames[1:] if len(f))


def test_a_pattern_travels_once_and_is_one_object_where_it_arrives():
    x = iv.sparse_coo_tensor(np.stack([np.arange(10000)] * 2), np.ones(10000), (10000, 10000))
    (indices,) = value_of(x).pattern.arrays
    both = [x, 2 * x, iv.masked_tensor(x)]
    header, frames = serialize(both)
    assert sum(len(bytes(f)) for f in frames) < indices.nbytes + 3 * 10000 * 8 + 2000
    patterns = {value_of(t).pattern for t in deserialize(header, frames)[:2]}
    patterns |= {value_of(deserialize(*serialize(t))).pattern for t in both[:2]}  # in messages of their own
    assert patterns == {value_of(x).pattern}  # and what comes back is what left


def moved(call):
    with counted() as sent:
        call()
    return sent


def test_what_moves_is_what_changed_and_the_supports_of_gradients(client):
    """Of 20,000 x 64 parameters, a step that changes 512 rows moves these, up and down, and no others."""
    table = iv.asarray(np.random.default_rng(0).standard_normal((20_000, 64)))
    rows = np.random.default_rng(1).choice(20_000, 512, replace=False)
    data = client.persist(da.from_array(rows, chunks=512))
    step = value_and_grad(lambda p, k: (iv.embedding(k, p) ** 2).mean())
    bytes_of_rows = 512 * (64 * 8 + 8)
    first = moved(lambda: step(table, data))
    assert table.numpy().nbytes < first.bytes  # whole, to the scheduler, the worker
    again = moved(lambda: step(table, data))
    _, gradient = step(table, data)
    # The message of a result, from the worker to the client; all else is of the scheduler.
    assert max(again.sizes) < 1.1 * bytes_of_rows + 4096
    assert again.bytes < 1.1 * bytes_of_rows + 100_000
    iv.optim.SGD([own := table.detach().requires_grad_()], lr=0.1).step([gradient])
    changed = moved(lambda: step(own, data))
    assert (
        changed.bytes < 4 * 1.1 * bytes_of_rows + 100_000
    )  # client, scheduler, worker, and the gradient back
    np.testing.assert_array_equal(
        dense(step(own, data)[1]),
        dense(value_and_grad(lambda p, k: (iv.embedding(k, p) ** 2).mean())(own, data)[1]),
    )
    unused = moved(lambda: value_and_grad(lambda p, k: iv.asarray(k.sum() * 1.0))(iv.asarray([1.0]), data))
    assert unused.bytes < 100_000


def tree_of_all_kinds():
    """Small leaves of every kind and several dtypes, and a large one."""
    rng = np.random.default_rng(3)
    shapes = {
        "scalar": (),
        "odd": (3,),
        "matrix": (2, 5),
        "empty": (0, 2),
        "large": (200, 20),
        "mixed": (6, 2),
    }
    found = {k: iv.asarray(rng.standard_normal(s)) for k, s in shapes.items()}
    found["float32"] = iv.asarray(rng.standard_normal(3).astype(np.float32))
    found["float16"] = iv.asarray(rng.standard_normal(5).astype(np.float16))
    found["complex"] = iv.asarray(rng.standard_normal(3) + 1j * rng.standard_normal(3))
    found["csr"] = iv.asarray(np.eye(4)).to_layout("csr")
    found["masked"] = iv.masked_tensor(rng.standard_normal(4), [True, False, True, True])
    found["unused"] = iv.asarray(rng.standard_normal(4))
    return found


def loss_of_all_kinds(p, part):
    """Its gradient in p["mixed"] is dense, rows or nothing, by the numbers of a partition."""
    scale = iv.asarray(part).sum()
    total = sum((iv.abs(x * x).sum() * scale).astype("float64") for k, x in p.items() if k not in IRREGULAR)
    total = total + (p["masked"] * p["masked"]).sum().to_tensor(0.0) * scale
    if part[0] % 3:
        rows = p["mixed"] if part[0] % 3 == 1 else iv.embedding(iv.asarray([1, 4, 1]), p["mixed"])
        total = total + (rows**2).sum() * scale
    return total


IRREGULAR = ("masked", "mixed", "unused")


@pytest.mark.parametrize("starts", [(0,), (1, 4), (2, 5), (0, 1, 2, 4)], ids=str)
def test_a_tree_of_all_kinds_is_that_of_one_process_after_every_change(client, starts):
    params = tree_of_all_kinds()
    data = [dask.delayed(np.array([k, 7])) for k in starts]
    step = value_and_grad(loss_of_all_kinds, "sum")
    row = np.arange(200)[:, None] == 3
    changes = (
        {},
        {"scalar": params["scalar"] + 1, "large": params["large"] + row},
        {k: 2 * x for k, x in params.items()},
        {"csr": 3 * params["csr"], "masked": -params["masked"]},
        {"odd": iv.ones(4)},  # of another shape
    )
    for changed in changes:
        params |= changed
        local = iv.value_and_grad(lambda p: sum(loss_of_all_kinds(p, np.array([k, 7])) for k in starts))
        want, gradients = local(params)
        value, found = step(params, data)
        np.testing.assert_allclose(value.item(), want.item(), rtol=1e-12)
        for k, g in found.items():
            tolerance = {"float16": 2e-3, "float32": 1e-6}.get(k, 1e-12)
            np.testing.assert_allclose(dense(g), dense(gradients[k]), tolerance, 1e-14, err_msg=k)
            assert (type(g), g.dtype, g.layout) == (type(params[k]), params[k].dtype, gradients[k].layout), k


def test_many_small_tensors_travel_as_one_array_and_in_as_few_tasks_as_one(client):
    """Counted: the tasks of a step, its messages and their bytes."""
    data = client.persist([dask.delayed(np.ones)(2) for _ in range(9)])

    def counts(tensors):
        params = {str(k): iv.asarray(np.full(8, 1.0 + k)) for k in range(tensors)}
        step = value_and_grad(lambda p, x: sum((w * w).sum() for w in p.values()))
        step(params, data)
        with started(client) as tasks:
            sent = moved(lambda: step({k: w + 1 for k, w in params.items()}, data))
        return len(tasks), sent

    tasks, base = counts(2)
    found, sent = counts(300)
    assert tasks == 9 + 3  # partitions, which are given what changed, sums of eight and of two of these
    assert found == 1 + 9 + 3  # what changed is sent once
    # To the scheduler, to a worker and from there to the other; a sum of each partition at most, and the sum.
    assert len([n for n in sent.sizes if n > 300 * 64]) <= 3 + 10
    assert sent.bytes - base.bytes < (3 + 10) * 1.1 * 300 * 64


def test_a_gradient_on_a_known_pattern_is_its_values(client):
    x = iv.sparse_coo_tensor(
        np.random.default_rng(0).permutation(10**6)[None, :50_000], np.ones(50_000), (10**6,)
    )
    step = value_and_grad(lambda p, k: (p * p).sum())
    data = client.persist(da.ones(4, chunks=2))
    step(x, data)
    # A worker that has its first partition of these is sent the parameters.
    sent = min((moved(lambda: step(x, data)) for _ in range(5)), key=lambda s: s.bytes)
    # That of a partition may move to where the other is; their sum does. No indices.
    assert 50_000 * 8 < sent.bytes < 2 * 50_000 * 8 + 100_000


def test_bad_data_is_named_by_partition_and_row(client):
    x = np.ones((20, 2))
    x[13, 1] = np.nan
    data = da.from_array(x, chunks=(5, 2))
    with pytest.raises(ArgumentError, match=r"partition 2, row 3: a loss of nan"):
        value_and_grad(lambda p, x: (x @ p).sum())(iv.ones(2), data)
    assert np.isnan(value_and_grad(lambda p, x: (x @ p).sum())(iv.asarray([np.nan, 1.0]), data)[0].item())
    records = db.from_sequence([1.0, 2.0, "three", 4.0], npartitions=2)
    with pytest.raises(ArgumentError, match=r"partition 1, row 0: .*three"):
        value_and_grad(lambda p, part: (p * iv.asarray([float(k) for k in part])).sum())(
            iv.asarray(1.0), records
        )


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: value_and_grad(3), ArgumentTypeError, "value_and_grad: argument 'loss'"),
        (lambda: value_and_grad(lambda p, x: p, "median"), ArgumentError, "'median'"),
        (lambda: value_and_grad(lambda p, x: p)(iv.ones(2), [1, 2]), ArgumentTypeError, "list of delayed"),
        (lambda: value_and_grad(lambda p, x: p)(iv.ones(2), []), ArgumentError, "at least one"),
        (lambda: value_and_grad(lambda p, x: p)(iv.arange(2), da.ones(2)), DTypeError, "dtype int64"),
        (lambda: value_and_grad(lambda p, x: p)(iv.ones(2), da.ones(2)), ShapeError, "one number"),
        (lambda: value_and_grad(lambda p, x: p.sum())(iv.ones(2), da.ones(0)), ArgumentError, "any example"),
        (
            lambda: value_and_grad(lambda p, x: p)(iv.ones(2), (da.ones(4, chunks=2), da.ones(4, chunks=1))),
            ArgumentError,
            "collections of 2, 4 partitions",
        ),
        (
            lambda: value_and_grad(lambda p, x: p)(iv.ones(2), (da.ones(4, chunks=4), da.ones(2, chunks=2))),
            ArgumentError,
            "partition 0, of 2 and 4 examples",
        ),
    ],
)  # fmt: skip
def test_wrong_calls_say_what_is_wrong(client, call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_wait_ends_and_says_what_it_was_for(client):
    import time

    step = value_and_grad(lambda p, x: (time.sleep(1.0), p.sum())[1], timeout=0.2)
    with pytest.raises(TimedOutError, match=r"no answer in 0.2 s; expected the loss .* over 2 partitions"):
        step(iv.ones(2), da.ones(4, chunks=2))
