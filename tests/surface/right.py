"""User code that is right: it runs, and mypy and pyright find nothing in it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import numpy.typing as npt

import iverson as iv
from iverson import MaskedTensor, Tensor, optim, te
from iverson.linalg import svd

if TYPE_CHECKING:  # it runs without Dask
    from iverson.interop.dask import PartitionedTable


class Cube(iv.autograd.Function):
    """A custom function, as users write them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return 3 * x * x * g


def made() -> None:
    assert_type(iv.ones(3), Tensor)
    assert_type(iv.zeros((2, 3), dtype=iv.float32, requires_grad=True), Tensor)
    assert_type(iv.asarray([[1.0, 2.0], [3.0, 4.0]]), Tensor)
    assert_type(iv.arange(3), Tensor)
    assert_type(iv.linspace(0, 1, 5), Tensor)
    assert_type(iv.eye(3, layout="csr"), Tensor)
    assert_type(iv.full((2,), 1.5, dtype="float32"), Tensor)
    assert_type(iv.ones_like(np.ones(3), dtype=np.float32), Tensor)
    assert_type(iv.random.default_rng(0).normal(size=(2, 3)), Tensor)
    assert_type(iv.pi, float)


def operators(x: Tensor, m: MaskedTensor, a: npt.NDArray[np.float64]) -> None:
    for y in (x + 1, 1 + x, x - x, 2.0 * x, x / 3, x**2, 2**x, -x, abs(x), x @ x, x // 2, x % 2, x + a):
        assert_type(y, Tensor)
    for c in (x < 1, x >= x, x == 0, x != x, ~(x > 0), (x > 0) & (x < 1), (x > 0) | (x < 1)):
        assert_type(c, Tensor)
    assert_type(m + 1, MaskedTensor)
    assert_type(x * m, MaskedTensor)
    assert_type(m * x, MaskedTensor)
    x += 1
    x *= x
    assert_type(x, Tensor)
    x[0, :] = 0.0
    x[x > 1] = x[x > 1] * 2
    assert_type(x[0], Tensor)
    assert_type(m[..., None], MaskedTensor)
    assert_type(list(x), list[Tensor])


def functions(x: Tensor, m: MaskedTensor, a: npt.NDArray[np.float64]) -> None:
    assert_type(iv.sin(x), Tensor)
    assert_type(iv.sin(a), Tensor)
    assert_type(iv.silu(0.5), Tensor)
    assert_type(iv.sin(m), MaskedTensor)
    assert_type(iv.add(x, 1, alpha=0.5), Tensor)
    assert_type(iv.add(x, m), MaskedTensor)
    assert_type(iv.maximum(a, x), Tensor)
    assert_type(iv.where(x > 0, x, 0.0), Tensor)
    assert_type(iv.where(x > 0, m, 0.0), MaskedTensor)
    assert_type(iv.clip(x, 0, None), Tensor)
    assert_type(iv.clip(m, min=0), MaskedTensor)
    assert_type(iv.sum(x, axis=(0, -1), keepdims=True), Tensor)
    assert_type(iv.mean(m, 0), MaskedTensor)
    assert_type(iv.argmax(x, axis=0), Tensor)
    assert_type(iv.cumulative_sum(x, axis=0, dtype=iv.float64), Tensor)
    assert_type(iv.concat([x, x]), Tensor)
    assert_type(iv.stack([m, m], axis=1), MaskedTensor)
    assert_type(iv.split(x, [1]), tuple[Tensor, ...])
    assert_type(iv.reshape(x, (-1,)), Tensor)
    assert_type(iv.einsum("ij,kj->ik", x, x), Tensor)
    assert_type(iv.matmul(x, a), Tensor)
    assert_type(iv.tensordot(x, x, axes=([0, 1], [0, 1])), Tensor)
    assert_type(iv.sort(x, descending=True), Tensor)
    assert_type(iv.unique_all(x).counts, Tensor)
    assert_type(iv.pad(x, ((0, 0), (1, 1)), mode="edge"), Tensor)
    assert_type(iv.take(x, iv.asarray([0, 1]), axis=1), Tensor)
    assert_type(iv.softmax(x, axis=1), Tensor)
    assert_type(iv.cross_entropy(x, iv.asarray([0, 1]), reduction="sum"), Tensor)
    assert_type(iv.broadcast_shapes((2, 1), (3,)), tuple[int, ...])
    assert_type(iv.finfo(iv.float32).eps, float)
    assert_type(iv.isdtype(x.dtype, "real floating"), bool)


def methods(x: Tensor, m: MaskedTensor) -> None:
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(axis=0, keepdims=True).sqrt().mean(), Tensor)
    assert_type(m.sum(), MaskedTensor)
    assert_type(x.reshape(3, -1), Tensor)
    assert_type(x.reshape((3, -1), copy=True), Tensor)
    assert_type(m.permute_dims(1, 0), MaskedTensor)
    assert_type(x.astype(iv.float32).T, Tensor)
    assert_type(x.add(1, alpha=2), Tensor)
    assert_type(x.multiply(m), MaskedTensor)
    assert_type(x.matmul(x.mT).real, Tensor)
    assert_type(x.to_layout("csr").values(), Tensor)
    assert_type(x.to_sparse().nnz, int)
    for layout in ("csr", "csc"):
        assert_type(x.to_layout(layout), Tensor)
    assert_type(iv.tensordot(x, x, axes=(0, 0)), Tensor)
    assert_type(x.detach().numpy(), np.ndarray[Any, Any])
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.size, int)
    assert_type(x.dtype, np.dtype[Any])
    assert_type(m.to_tensor(0), Tensor)
    assert_type(m.get_mask(), Tensor)
    number: float = x.sum().item()
    assert isinstance(number, float)


def namespaces(x: Tensor) -> None:
    square = x @ x.mT + iv.eye(2)
    assert_type(iv.linalg.inv(square), Tensor)
    assert_type(iv.linalg.eigh(square).eigenvalues, Tensor)
    assert_type(svd(x, full_matrices=False).S, Tensor)
    q, r = iv.linalg.qr(x.mT, mode="reduced")
    assert_type(q @ r, Tensor)
    assert_type(iv.linalg.vector_norm(x, ord=1), Tensor)
    assert_type(iv.fft.rfft(x, n=8, norm="ortho"), Tensor)
    assert_type(iv.spsolve(iv.to_layout(square, "csr"), iv.ones(2)), Tensor)


def gradients(x: Tensor, m: MaskedTensor) -> None:
    x = x.detach().requires_grad_()
    loss = (x * x).sum()
    assert_type(iv.autograd.grad(loss, x), Tensor)
    assert_type(iv.autograd.grad(Cube.apply(x).sum(), x), Tensor)
    assert_type(iv.autograd.grad(loss, [x, x]), tuple[Tensor, ...])
    loss.backward()
    assert x.grad is not None
    assert_type(x.grad, Tensor)
    assert_type(x.grad.sum(), Tensor)
    with iv.no_grad():
        x -= 0.1 * x.grad
    optimizer = optim.Adam([x], lr=1e-3)
    optimizer.step([x.grad])

    assert_type(iv.jvp(energy, (x,), (x,)), tuple[Tensor, Tensor])
    slope: Tensor = iv.grad(energy)(x)
    slope.sum()
    iv.hessian(energy)(x.detach()[0])
    iv.grad(lambda v: (v * v).sum())(x).sum()
    with iv.explain.count() as work:
        energy(x)
    assert_type(work.products, int)


def energy(v: Tensor) -> Tensor:
    return (v**3).sum()


def scaled(v: Tensor, w: dict[str, Tensor], power: int = 2) -> Tensor:
    return (v * w["scale"]).sum() ** power


def loss(w: dict[str, Tensor], v: Tensor) -> Tensor:
    return scaled(v, w)


def with_count(v: Tensor) -> tuple[Tensor, int]:
    return energy(v), v.size


def specified(v: MaskedTensor) -> Tensor:
    return (v * v).sum().to_tensor(0)


def parts(v: Tensor) -> dict[str, Tensor]:
    return {"square": v * v, "cube": v**3}


def rates(v: Tensor, w: Tensor) -> Tensor:
    return v * w


def derivatives(x: Tensor, m: MaskedTensor) -> None:
    """A derivative has the type of what it is in, by whatever ways the transforms are nested."""
    w = {"scale": iv.asarray(2.0)}
    assert_type(iv.grad(energy)(x), Tensor)
    assert_type(iv.grad(energy)(2.0), Tensor)
    assert_type(iv.grad(specified)(m), MaskedTensor)
    assert_type(iv.grad(loss)(w, x), dict[str, Tensor])
    assert_type(iv.grad(scaled)(x, w, power=3), Tensor)
    assert_type(iv.grad(scaled, argnums=1)(x, w), dict[str, Tensor])
    assert_type(iv.grad(scaled, (0, 1))(x, w), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.grad(with_count, has_aux=True)(x), tuple[Tensor, int])
    assert_type(iv.grad(iv.sum)(x), Tensor)
    assert_type(iv.value_and_grad(energy)(x), tuple[Tensor, Tensor])
    assert_type(iv.value_and_grad(loss)(w, x), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.value_and_grad(scaled, (0, 1))(x, w), tuple[Tensor, tuple[Tensor, dict[str, Tensor]]])
    assert_type(iv.value_and_grad(with_count, has_aux=True)(x), tuple[tuple[Tensor, int], Tensor])
    assert_type(iv.vjp(energy, x)[0], Tensor)
    assert_type(iv.jacobian(energy)(x), Tensor)
    assert_type(iv.jacobian(parts)(x[0]), dict[str, Tensor])
    assert_type(iv.jacobian(loss)(w, x), dict[str, Tensor])
    assert_type(iv.jacobian(iv.grad(energy), layout="coo")(x[0]), Tensor)
    assert_type(iv.hessian(energy)(x[0]), Tensor)


def transformed(x: Tensor, m: MaskedTensor) -> None:
    """Functions of functions keep parameters and results."""
    w = {"scale": iv.asarray(2.0)}
    assert_type(iv.jit(energy)(x), Tensor)
    assert_type(iv.jit(iv.sin)(m), MaskedTensor)
    assert_type(iv.jit(iv.grad(loss))(w, x), dict[str, Tensor])
    assert_type(iv.jit(iv.value_and_grad(loss))(w, x), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.vmap(energy)(x), Tensor)
    assert_type(iv.vmap(scaled, in_axes=(0, None))(x, w), Tensor)
    assert_type(iv.vmap(parts)(x), dict[str, Tensor])
    assert_type(iv.vmap(iv.sin)(x), Tensor)
    assert_type(iv.vmap(iv.grad(energy))(x), Tensor)
    assert_type(iv.vmap(iv.hessian(energy))(x), Tensor)
    assert_type(iv.jit(iv.vmap(iv.grad(energy)))(x), Tensor)
    assert_type(iv.checkpoint(energy)(x), Tensor)
    assert_type(iv.cond(x.sum() > 0, energy, energy, x), Tensor)
    assert_type(iv.while_loop(lambda c: c < 10, lambda c: c * 2, x[0, 0]), Tensor)
    assert_type(iv.fori_loop(0, 3, lambda i, c: c * 2, x), Tensor)


def loops(x: Tensor) -> None:
    def step(carry: Tensor, v: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return carry + v.sum(), {"square": v * v}

    def doubled(carry: Tensor, _: None) -> tuple[Tensor, None]:
        return carry * 2, None

    assert_type(iv.scan(step, iv.asarray(0.0), x), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.scan(step, 0.0, x), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.scan(step, iv.asarray(0.0), x.detach().numpy()), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.scan(step, 0.0, x.detach().numpy()), tuple[Tensor, dict[str, Tensor]])
    assert_type(iv.scan(doubled, 1.0, length=3), tuple[Tensor, None])
    assert_type(iv.scan(doubled, x, length=3), tuple[Tensor, None])
    assert_type(iv.scan(lambda c, v: (c + v.sum(), c * 2), iv.asarray(0.0), x), tuple[Tensor, Tensor])


@te.op
def blurred(x: te.Tensor) -> te.Tensor:
    return te.compute((x.shape[0] - 1,), lambda i: x[i] + x[i + 1])


@te.op(name="both", results=2)
def sine_and_cosine(x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    return te.compute(x.shape, lambda i: te.sin(x[i])), te.compute(x.shape, lambda i: te.cos(x[i]))


def ops(x: Tensor) -> None:
    assert_type(blurred(x), Tensor)
    assert_type(sine_and_cosine(x.detach().numpy()), tuple[Tensor, ...])
    assert_type(iv.vmap(blurred)(iv.ones((2, 3))), Tensor)
    iv.grad(lambda v: blurred(v).sum())(x).sum()


def files(x: Tensor, optimizer: optim.Optimizer) -> None:
    """What a file is read as says what is read: an annotation, or a parameter that takes it."""
    with tempfile.TemporaryDirectory() as folder:
        iv.save(f"{folder}/weights", {"x": x.detach()})
        weights: dict[str, Tensor] = iv.load(f"{folder}/weights")
        assert_type(weights["x"].sum(), Tensor)
        tree = iv.load(f"{folder}/weights")
        assert isinstance(tree, dict)
        assert isinstance(tree["x"], Tensor)
        assert_type(tree["x"].sum(), Tensor)
        iv.save(f"{folder}/state", optimizer.state_dict())
        optimizer.load_state_dict(iv.load(f"{folder}/state"))


def tables(x: Tensor, m: MaskedTensor) -> None:
    assert_type(iv.embedding(np.array([0, 1]), x), Tensor)
    assert_type(iv.embedding(x.astype(int), m), MaskedTensor)


def partitioned(table: PartitionedTable) -> None:
    """Of a table on workers; only checkers get here."""
    assert_type(iv.embedding(np.array([0, 1]), table), Tensor)
    assert_type(table.look_up([0, 1]), Tensor)


def expressions() -> None:
    a = te.placeholder((3,), name="a")
    assert_type(te.exp(a[0]) * 2.0, te.Expr)
    c = te.compute((3,), lambda i: te.tanh(a[i]) + te.maximum(a[i], 0.0))
    assert c.shape == (3,)
    tangent = {a: te.placeholder((3,), name="t")}
    assert_type(te.jvp(c, tangent), te.Tensor)


def main() -> None:
    x = iv.asarray([[0.5, 0.25, 1.5], [2.0, 3.0, 0.125]])
    m = iv.masked_tensor(x, x.numpy() < 2)
    made()
    operators(iv.ones((2, 2)), m[:, :2], np.ones((2, 2)))
    functions(x[:, :2], m[:, :2], np.ones((2, 2)))
    methods(x, m)
    namespaces(x)
    gradients(x, m)
    derivatives(x, m)
    transformed(x, m)
    loops(x)
    ops(x[0])
    files(x, optim.Adam([iv.ones(2, requires_grad=True)]))
    tables(iv.eye(2), m)
    expressions()


if __name__ == "__main__":
    main()
