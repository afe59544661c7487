"""What sparse tensors are for: a factorisation, an embedding's step, a small matrix, a check of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Call, Inputs, Workload

RATE, EPS = 0.1, 1e-10


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def entries_of(rng: np.random.Generator, count: int, n: int, m: int) -> dict[str, np.ndarray]:
    """About ``count`` distinct entries of an n x m matrix, in CSR and with the row of each."""
    at = np.unique(rng.integers(0, n * m, count) if count < n * m // 50 else rng.permutation(n * m)[:count])
    rows, columns = at // m, at % m
    return {
        "rows": np.searchsorted(rows, np.arange(n + 1)).astype(np.int32),
        "owner": rows,
        "columns": columns.astype(np.int32),
        "values": normal(rng, at.size),
    }


# --- matrix factorisation: one full gradient and a step of Adagrad ------------------------

RANK = 32


def make_ratings(count: int, rng: np.random.Generator) -> Inputs:
    """One entry in ten for each user, fifty for each item."""
    n, m = max(count // 10, 1), max(count // 50, 1)
    return {"u": normal(rng, n, RANK) / 6, "v": normal(rng, m, RANK) / 6, **entries_of(rng, count, n, m)}


def iverson_factorisation(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson import optim

    u, v = (iv.asarray(inputs[name].copy(), requires_grad=True) for name in "uv")
    shape = (u.shape[0], v.shape[0])
    ratings = iv.sparse_csr_tensor(inputs["rows"], inputs["columns"], inputs["values"], shape)
    step = optim.Adagrad([u, v], lr=RATE, eps=EPS)

    def call() -> list[Any]:
        error = iv.sampled_matmul(u, v.T, ratings).values() - ratings.values()
        (error * error).sum().backward()
        step.step()
        step.zero_grad()
        return [u, v]

    return call


def torch_factorisation(inputs: Inputs) -> Call:
    import torch

    u, v = (torch.tensor(inputs[name], requires_grad=True) for name in "uv")
    owner, columns = torch.tensor(inputs["owner"]), torch.tensor(inputs["columns"].astype(np.int64))
    values = torch.tensor(inputs["values"])
    step = torch.optim.Adagrad([u, v], lr=RATE, eps=EPS)

    def call() -> list[Any]:
        error = (u[owner] * v[columns]).sum(1) - values
        (error * error).sum().backward()
        step.step()
        step.zero_grad()
        return [u, v]

    return call


def jax_factorisation(inputs: Inputs) -> Call:
    import jax

    given = {name: jax.numpy.asarray(a) for name, a in inputs.items()}

    def loss(factors: tuple[Any, Any], p: dict[str, Any]) -> Any:
        error = (factors[0][p["owner"]] * factors[1][p["columns"]]).sum(1) - p["values"]
        return (error * error).sum()

    @jax.jit
    def program(factors: Any, sums: Any, p: dict[str, Any]) -> Any:
        gradients = jax.grad(loss)(factors, p)
        sums = tuple(s + g * g for s, g in zip(sums, gradients, strict=True))
        steps = (RATE * g / (jax.numpy.sqrt(s) + EPS) for g, s in zip(gradients, sums, strict=True))
        return tuple(x - d for x, d in zip(factors, steps, strict=True)), sums

    state = [(given["u"], given["v"]), tuple(jax.numpy.zeros_like(given[name]) for name in "uv")]

    def call() -> Any:
        state[:] = jax.block_until_ready(program(*state, given))
        return state[0]

    return call


# --- a step of Adagrad on some rows of a table --------------------------------------------

DIM = 64


def make_table(rows: int, rng: np.random.Generator) -> Inputs:
    """Indices into a table, some more than once, and a direction to step in."""
    chosen = rng.integers(0, rows, max(rows * 8192 // 1_000_000, 16))
    return {"table": normal(rng, rows, DIM), "chosen": chosen, "g": normal(rng, chosen.size, DIM)}


def iverson_embedding(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson import optim

    table = iv.asarray(inputs["table"].copy(), requires_grad=True)
    chosen, g = iv.asarray(inputs["chosen"]), iv.asarray(inputs["g"])
    step = optim.Adagrad([table], lr=RATE, eps=EPS)

    def call() -> Any:
        (iv.embedding(chosen, table) * g).sum().backward()
        step.step()
        step.zero_grad()
        return table

    return call


def torch_embedding(inputs: Inputs) -> Call:
    import torch

    table = torch.tensor(inputs["table"], requires_grad=True)
    chosen, g = torch.tensor(inputs["chosen"]), torch.tensor(inputs["g"])
    step = torch.optim.Adagrad([table], lr=RATE, eps=EPS)

    def call() -> Any:
        (torch.nn.functional.embedding(chosen, table, sparse=True) * g).sum().backward()
        step.step()
        step.zero_grad()
        return table

    return call


# --- a matrix so small that only overhead counts ------------------------------------------


def make_small(n: int, rng: np.random.Generator) -> Inputs:
    """An n x n matrix with five entries a row, and 16 dense columns."""
    return {"b": normal(rng, n, 16), "g": normal(rng, n, 16), **entries_of(rng, 5 * n, n, n)}


def iverson_small(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson.autograd import grad

    n = len(inputs["b"])
    matrix = iv.sparse_csr_tensor(
        inputs["rows"], inputs["columns"], inputs["values"], (n, n), requires_grad=True
    )
    b, g = iv.asarray(inputs["b"], requires_grad=True), iv.asarray(inputs["g"])

    def call() -> list[Any]:
        out = matrix @ b
        return [out, *grad(out, (matrix, b), grad_outputs=g)]

    return call


def torch_small(inputs: Inputs) -> Call:
    import torch

    n = len(inputs["b"])
    parts = (torch.tensor(inputs[name]) for name in ("rows", "columns", "values"))
    matrix = torch.sparse_csr_tensor(*parts, (n, n), requires_grad=True)
    b, g = torch.tensor(inputs["b"], requires_grad=True), torch.tensor(inputs["g"])

    def call() -> list[Any]:
        out = matrix @ b
        return [out, *torch.autograd.grad(out, (matrix, b), g)]

    return call


# --- gradcheck of a product in the masked meaning -----------------------------------------


def make_checked(n: int, rng: np.random.Generator) -> Inputs:
    """A CSR matrix with one entry in twenty, and four dense columns, in double precision."""
    return {
        name: a.astype(np.float64) if a.dtype.kind == "f" else a
        for name, a in {"b": normal(rng, n, 4), **entries_of(rng, n * n // 20, n, n)}.items()
    }


def iverson_gradcheck(inputs: Inputs) -> Call:
    import iverson as iv
    from iverson.testing import gradcheck

    n = len(inputs["b"])
    parts = (inputs[name] for name in ("rows", "columns", "values"))
    matrix = iv.sparse_csr_tensor(*parts, (n, n), requires_grad=True)
    b = iv.asarray(inputs["b"], requires_grad=True)
    return lambda: np.array(gradcheck(iv.matmul, (matrix, b), masked=True))


def torch_gradcheck(inputs: Inputs) -> Call:
    import torch

    n = len(inputs["b"])
    parts = (torch.tensor(inputs[name]) for name in ("rows", "columns", "values"))
    matrix = torch.sparse_csr_tensor(*parts, (n, n), requires_grad=True)
    b = torch.tensor(inputs["b"], requires_grad=True)
    return lambda: np.array(torch.autograd.gradcheck(torch.sparse.mm, (matrix, b), masked=True))


def workload(
    name: str,
    sizes: tuple[int, int, int],
    size_is: str,
    make: Callable[[int, np.random.Generator], Inputs],
    run: dict[str, Callable[[Inputs], Call]],
    target: dict[str, float],
) -> Workload:
    def draw(rng: np.random.Generator) -> Any:
        return rng.integers(sizes[0], sizes[-1] + 1)

    return Workload(name=name, sizes=sizes, size_is=size_is, draw=draw, make=make, run=run, target=target)


WORKLOADS = (
    workload(
        "sparse_factorisation",
        (100_000, 300_000, 1_000_000),
        "observed",
        make_ratings,
        {"iverson": iverson_factorisation, "torch": torch_factorisation, "jax": jax_factorisation},
        {"torch": 0.2, "jax": 0.2},
    ),
    workload(
        "sparse_adagrad",
        (10_000, 100_000, 1_000_000),
        "table rows",
        make_table,
        {"iverson": iverson_embedding, "torch": torch_embedding},
        {"torch": 1.0},
    ),
    workload(
        "sparse_small",
        (50, 100, 200),
        "rows",
        make_small,
        {"iverson": iverson_small, "torch": torch_small},
        {"torch": 1.0},
    ),
    workload(
        "sparse_gradcheck",
        (20, 50, 60),
        "rows",
        make_checked,
        {"iverson": iverson_gradcheck, "torch": torch_gradcheck},
        {"torch": 0.5},
    ),
)
