"""User code that is wrong: mypy and pyright report every line marked so, and no other. It is never run."""

from __future__ import annotations

import iverson as iv
from iverson import MaskedTensor, Tensor, optim, te
from iverson.linalg import inverse  # wrong


def functions(x: Tensor, m: MaskedTensor) -> None:
    iv.sinn(x)  # wrong
    iv.sum(x, axes=0)  # wrong
    iv.sum(x, axis="rows")  # wrong
    iv.sin()  # wrong
    iv.sin(x, x)  # wrong
    iv.sin(x=x)  # wrong
    iv.sin([1.0, 2.0])  # wrong
    iv.add(x, "1")  # wrong
    iv.add(x, 1, beta=2)  # wrong
    iv.silu(None)  # wrong
    iv.ones("three")  # wrong
    iv.ones(3, device="gpu")  # wrong
    iv.ones(3, require_grad=True)  # wrong
    iv.eye(3, layout="dia")  # wrong
    iv.reshape(x)  # wrong
    iv.concat(x, x)  # wrong
    iv.softmax(x, dim=1)  # wrong
    iv.pad(x, 1, mode="mirror")  # wrong
    iv.cross_entropy(x, x, reduction="average")  # wrong
    iv.clip(x, minimum=0)  # wrong
    iv.policy("strict")  # wrong
    iv.contraction.matmul(x, x)  # wrong
    iv.masked_tensor(x).nnz  # wrong
    number: float = iv.sum(x)  # wrong
    plain: Tensor = iv.sin(m)  # wrong
    assert number
    assert plain


def methods(x: Tensor, m: MaskedTensor) -> None:
    x.no_such_method()  # wrong
    x.sum().no_such_method()  # wrong
    (x + 1).no_such_method()  # wrong
    x.sum(axes=0)  # wrong
    x.T()  # wrong
    x.shape()  # wrong
    x.reshape("a")  # wrong
    x.astype()  # wrong
    x.to_device("gpu")  # wrong
    x.nnz = 3  # wrong
    x.grad.sum()  # wrong
    x + "1"  # wrong
    x @ None  # wrong
    -x.values  # wrong
    m.to_scipy()  # wrong
    plain: Tensor = m + 1  # wrong
    other: Tensor = x * m  # wrong
    assert plain
    assert other


def namespaces(x: Tensor) -> None:
    iv.linalg.inverse(x)  # wrong
    iv.linalg.svd(x, full=True)  # wrong
    iv.linalg.qr(x, mode="full")  # wrong
    iv.linalg.eigh(x).vectors  # wrong
    iv.linalg.np  # wrong
    iv.fft.fft(x, norm="unitary")  # wrong
    iv.random.normal(3)  # wrong
    iv.random.default_rng(0).normal(mean=1.0)  # wrong
    iv.autograd.gradient(x, x)  # wrong
    iv.autograd.grad(x, x, unused="drop")  # wrong
    iv.errors.ShapeMismatch  # wrong
    optim.Adam([x], learning_rate=0.1)  # wrong
    te.expo(1.0)  # wrong
    te.exp("a")  # wrong
    assert inverse


def transforms(x: Tensor) -> None:
    def energy(v: Tensor) -> Tensor:
        return v.sum()

    iv.grad(x)  # wrong
    iv.grad(energy, argnum=1)  # wrong
    iv.grad(energy)(x, x)  # wrong
    iv.jacobian(energy, mode="backward")  # wrong
    iv.value_and_grad(energy)(x).sum()  # wrong
