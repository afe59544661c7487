"""What each process of `test_mpi` runs: ``mpiexec -n 2 python -m tests.interop.mpi_program``."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import iverson as iv
from iverson import optim
from iverson.core.dispatch import value_of
from iverson.errors import ArgumentError, ArgumentTypeError, ShapeError, TimedOutError
from iverson.interop.mpi import Buckets, all_gather, all_to_all_rows, allreduce, reduce_scatter
from iverson.interop.mpi.reduce import bytes_of_all, bytes_of_union

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size


def mine(seed, rank=RANK):
    return np.random.default_rng([seed, rank])


def dense(x):
    return (x.to_tensor(0.0) if isinstance(x, iv.MaskedTensor) else x).to_dense().detach().numpy()


def rows_of(rank, count, rows=40, width=3):
    """A gradient of rows, repeats among them."""
    rng = mine(1, rank)
    table = iv.asarray(np.zeros((rows, width)))
    at, weight = rng.integers(0, rows, count), rng.standard_normal((count, width))
    return iv.grad(lambda t: (iv.embedding(at, t) * weight).sum())(table)


def tree_of(rank):
    """A leaf of each kind."""
    rng = mine(0, rank)
    pattern = np.random.default_rng(5).random((6, 5)) < 0.4
    csr = iv.asarray(pattern * 1.0).to_layout("csr")
    x = iv.asarray(np.ones((6, 5)))
    return {
        "dense": iv.asarray(rng.standard_normal((4, 3))),
        "large": iv.asarray(rng.standard_normal((100, 100))),
        "float32": iv.asarray(rng.standard_normal(3).astype(np.float32)),
        "complex": iv.asarray(rng.standard_normal(3) + 1j * rng.standard_normal(3)),
        "scalar": iv.asarray(rng.standard_normal()),
        "zero": iv.grad(lambda x: iv.asarray(1.0))(x),
        "zero on one": iv.grad(lambda x: (x * rank).sum() if rank else iv.asarray(1.0))(x),
        "one pattern": csr * iv.asarray(rng.standard_normal((6, 5))),
        "few rows": rows_of(rank, 4),
        "many rows": rows_of(rank, 200),
        "rows on one": rows_of(rank, 4) if rank else iv.grad(lambda t: iv.asarray(1.0))(iv.ones((40, 3))),
        "rows and dense": rows_of(rank, 4) if rank else iv.ones((40, 3)),
        "two patterns": iv.asarray(rng.standard_normal((6, 5)) * (rng.random((6, 5)) < 0.2)).to_layout("csr"),
        "rows and entries": rows_of(rank, 4) if rank else iv.asarray(np.eye(40, 3)).to_layout("coo"),
        "masked": iv.masked_tensor(rng.standard_normal((6, 5)), pattern),
        "empty": iv.ones((0, 3)),
    }


LAYOUTS = {
    "zero": "zero",
    "one pattern": "csr",
    "few rows": "coo",
    "many rows": "coo",
    "rows on one": "coo",
    "two patterns": "coo",
    "rows and entries": "coo",
}


def sums_are_those_of_all_ranks():
    want = {k: sum(dense(tree_of(r)[k]) for r in range(SIZE)) for k in tree_of(0)}
    own = tree_of(RANK)
    found = allreduce(own)
    for k, total in found.items():
        np.testing.assert_allclose(
            dense(total), want[k], rtol=1e-6 if k == "float32" else 1e-13, atol=1e-14, err_msg=k
        )
        assert total.layout == LAYOUTS.get(k, "strided"), (k, total.layout)
        assert total.dtype == own[k].dtype
    assert value_of(found["one pattern"]).pattern is value_of(own["one pattern"]).pattern
    assert isinstance(found["masked"], iv.MaskedTensor)
    for k in ("few rows", "many rows"):  # their support is the union, whichever way they went
        touched = np.unique(np.concatenate([tree_of(r)[k].indices().numpy()[0] for r in range(SIZE)]))
        np.testing.assert_array_equal(found[k].indices().numpy()[0], touched)
    np.testing.assert_array_equal(allreduce(iv.asarray([1.0]), COMM).numpy(), [SIZE])


def what_moves_is_the_lesser():
    """Counted: what is handed to MPI."""
    sent = []

    class Counting(MPI.Intracomm):
        def Iallreduce(self, given, *args):
            sent.append(np.asarray(given).nbytes)
            return super().Iallreduce(given, *args)

        def Iallgatherv(self, given, received):
            sent.append(given.nbytes)
            return super().Iallgatherv(given, received)

    comm = Counting(COMM)
    few = rows_of(RANK, 40, 10_000, 64)
    allreduce(few, comm)
    assert sum(sent) == 40 * (64 * 8 + 8), sent
    sent.clear()
    many = rows_of(RANK, 30_000, 10_000, 64)
    allreduce(many, comm)
    assert sum(sent) == 10_000 * (64 * 8 + 1), sent
    sent.clear()
    allreduce(iv.grad(lambda t: iv.asarray(1.0))(iv.ones((10_000, 64))), comm)
    assert not sent
    assert bytes_of_union([40, 40], 512) == 40 * 520
    assert bytes_of_all((10_000, 64), 1, 8, 2) == 10_000 * 513


def ops_are_each_others_transposes():
    """<A x, y> is <x, A^T y>, summed over ranks, A^T by backward; forward mode and second orders too."""
    counts = [1, 4] if SIZE == 2 else [5] * SIZE
    sizes = [2 + RANK] * SIZE
    cases = {
        "allreduce": (allreduce, (3, 2)),
        "reduce_scatter": (lambda x: reduce_scatter(x, counts=counts), (sum(counts), 2)),
        "all_gather": (all_gather, (2 + RANK, 2)),
        "all_to_all_rows": (lambda x: all_to_all_rows(x, sizes), (sum(sizes), 2)),
    }
    for name, (op, shape) in cases.items():
        rng = mine(7)
        x, v = (iv.asarray(rng.standard_normal(shape)) for _ in range(2))
        out, pull = iv.vjp(op, x)
        y = iv.asarray(rng.standard_normal(out.shape))
        (back,) = pull(y)
        _, pushed = iv.jvp(op, (x,), (v,))
        np.testing.assert_allclose(dense(pushed), dense(op(v)), rtol=1e-14)
        ends = np.array([(pushed * y).sum().item(), (v * back).sum().item()])
        total = COMM.allreduce(ends)
        np.testing.assert_allclose(total[0], total[1], rtol=1e-12, err_msg=name)
        square = iv.grad(lambda x: (op(x) ** 3).sum())  # noqa: B023
        second = iv.jvp(square, (x,), (v,))[1]
        eps = 1e-6
        near = (dense(square(x + eps * v)) - dense(square(x - eps * v))) / (2 * eps)
        np.testing.assert_allclose(dense(second), near, rtol=1e-6, atol=1e-6, err_msg=name)


def training_is_that_of_one_process():
    """Gradients by buckets, and of a table of rows, equal those of all examples in one process."""
    rng = np.random.default_rng(3)
    start = {
        k: rng.standard_normal(s) for k, s in {"w": (5, 4), "b": (4,), "v": (4,), "unused": (2,)}.items()
    }
    start["table"] = rng.standard_normal((30, 5))
    examples = rng.integers(0, 30, 12)

    def loss(p, k):
        return (iv.tanh(iv.embedding(k, p["table"]) @ p["w"] + p["b"]) @ p["v"]).square().sum()

    def trained(mine, total):
        params = {k: iv.asarray(x, requires_grad=True) for k, x in start.items()}
        opt = optim.Adam(params, lr=0.1)
        for _ in range(3):
            opt.step(total(params, loss(params, mine) / len(examples)))
        return params

    def alone(params, value):
        return dict(zip(params, iv.autograd.grad(value, list(params.values())), strict=True))

    def together(params, value):
        with Buckets(params, nbytes=64, sparse=[params["table"]]) as buckets:
            value.backward()
        for p in params.values():
            p.grad = None
        found = buckets.gradients()
        assert found["table"].layout == "coo"
        return found

    want = trained(examples, alone)
    found = trained(np.array_split(examples, SIZE)[RANK], together)
    for k in want:
        np.testing.assert_allclose(dense(found[k]), dense(want[k]), rtol=1e-11, atol=1e-13, err_msg=k)


def errors_say_what_is_wrong():
    for call, kind, said in (
        (lambda: allreduce(iv.ones(2 + RANK)), ArgumentError, "the same on each rank"),
        (lambda: allreduce(iv.ones(2), 3), ArgumentTypeError, "intracommunicator"),
        (lambda: reduce_scatter(iv.asarray(1.0)), ShapeError, "expected rows"),
        (lambda: all_to_all_rows(iv.ones((3, 1)), [1] * SIZE), ShapeError, "3 together"),
        (lambda: all_gather(iv.masked_tensor([1.0], [True])), ArgumentError, "to_tensor"),
        (lambda: Buckets([iv.ones(2)]).gradients(), ArgumentError, "with block"),
        (lambda: allreduce(iv.ones(2), timeout=0), ArgumentError, "seconds"),
    ):
        try:
            call()
        except kind as error:
            if said not in str(error):
                raise
        else:
            assert SIZE == 1, said


def waits_end_and_say_what_for():
    """The other rank comes when this one has given up: what it asks for then is there."""

    def bucket(comm, timeout):
        x = iv.ones(2, requires_grad=True)
        with Buckets([x], comm, timeout=timeout) as buckets:
            x.sum().backward()
        return buckets.gradients()

    for call, said in (
        (
            lambda **o: allreduce([ZERO, ZERO], **o),
            "in 0.2 s on rank 0; expected the shapes and layouts of 2",
        ),
        (lambda **o: reduce_scatter(iv.ones((2, 3)), **o), "the sum of a tensor of shape (2, 3) and dtype"),
        (lambda **o: all_gather(iv.ones((2, 3)), **o), "all_gather: got no answer"),
        (lambda **o: all_to_all_rows(iv.ones((SIZE, 3)), [1] * SIZE, **o), "how many rows are for each"),
        (bucket, "the sum of the gradients of leaves 0 of 2 ranks"),
    ):
        comm = COMM.Dup()
        for late in range(SIZE):
            COMM.Barrier()
            if late != RANK:
                continue
            try:
                call(comm=comm, timeout=0.2)
            except TimedOutError as error:
                if RANK == 0 and said not in str(error):
                    raise
            else:
                assert RANK, said
    COMM.Barrier()


ZERO = iv.grad(lambda x: iv.asarray(1.0))(iv.ones(3))


if __name__ == "__main__":
    for part in (
        sums_are_those_of_all_ranks,
        what_moves_is_the_lesser,
        ops_are_each_others_transposes,
        training_is_that_of_one_process,
        errors_say_what_is_wrong,
        *((waits_end_and_say_what_for,) if SIZE > 1 else ()),
    ):
        part()
        COMM.Barrier()
        if RANK == 0:
            print(f"holds: {part.__name__}", file=sys.stdout, flush=True)
