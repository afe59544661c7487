"""Wrong user code: every line marked is an error to mypy, of that kind, and to pyright, and no other line is.

It is never run. `make lint` checks it: a mark where no error is, is an error.
"""

from __future__ import annotations

import iverson as iv
from iverson import MaskedTensor, Tensor, optim, te
from iverson.linalg import inverse  # type: ignore[attr-defined]


def functions(x: Tensor, m: MaskedTensor) -> None:
    iv.sinn(x)  # type: ignore[attr-defined]
    iv.sum(x, axes=0)  # type: ignore[call-arg]
    iv.sum(x, axis="rows")  # type: ignore[arg-type]
    iv.sin()  # type: ignore[call-arg]
    iv.sin(x, x)  # type: ignore[call-arg]
    iv.sin(x=x)  # type: ignore[call-arg]
    iv.sin([1.0, 2.0])  # type: ignore[arg-type]
    iv.add(x, "1")  # type: ignore[arg-type]
    iv.add(x, 1, beta=2)  # type: ignore[call-arg]
    iv.silu(None)  # type: ignore[arg-type]
    iv.ones("three")  # type: ignore[arg-type]
    iv.ones(3, device="gpu")  # type: ignore[arg-type]
    iv.ones(3, require_grad=True)  # type: ignore[call-arg]
    iv.eye(3, layout="dia")  # type: ignore[arg-type]
    iv.reshape(x)  # type: ignore[call-arg]
    iv.concat(x, x)  # type: ignore[call-arg]
    iv.softmax(x, dim=1)  # type: ignore[call-arg]
    iv.pad(x, 1, mode="mirror")  # type: ignore[arg-type]
    iv.cross_entropy(x, x, reduction="average")  # type: ignore[arg-type]
    iv.clip(x, minimum=0)  # type: ignore[call-arg]
    iv.policy("strict")  # type: ignore[attr-defined]
    iv.contraction.matmul(x, x)  # type: ignore[attr-defined]
    iv.masked_tensor(x).nnz  # type: ignore[attr-defined]
    number: float = iv.sum(x)  # type: ignore[assignment]
    plain: Tensor = iv.sin(m)  # type: ignore[assignment]
    assert number
    assert plain


def methods(x: Tensor, m: MaskedTensor) -> None:
    x.no_such_method()  # type: ignore[attr-defined]
    x.sum().no_such_method()  # type: ignore[attr-defined]
    (x + 1).no_such_method()  # type: ignore[attr-defined]
    x.sum(axes=0)  # type: ignore[call-arg]
    x.T()  # type: ignore[operator]
    x.shape()  # type: ignore[operator]
    x.reshape("a")  # type: ignore[arg-type]
    x.astype()  # type: ignore[call-arg]
    x.to_device("gpu")  # type: ignore[arg-type]
    x.nnz = 3  # type: ignore[misc]
    x.grad.sum()  # type: ignore[union-attr]
    x + "1"  # type: ignore[operator]
    x @ None  # type: ignore[operator]
    -x.values  # type: ignore[operator]
    m.to_scipy()  # type: ignore[attr-defined]
    plain: Tensor = m + 1  # type: ignore[assignment]
    other: Tensor = x * m  # type: ignore[assignment]
    assert plain
    assert other


def namespaces(x: Tensor) -> None:
    iv.linalg.inverse(x)  # type: ignore[attr-defined]
    iv.linalg.svd(x, full=True)  # type: ignore[call-arg]
    iv.linalg.qr(x, mode="full")  # type: ignore[arg-type]
    iv.linalg.eigh(x).vectors  # type: ignore[attr-defined]
    iv.linalg.np  # type: ignore[attr-defined]
    iv.fft.fft(x, norm="unitary")  # type: ignore[arg-type]
    iv.random.normal(3)  # type: ignore[attr-defined]
    iv.random.default_rng(0).normal(mean=1.0)  # type: ignore[call-arg]
    iv.autograd.gradient(x, x)  # type: ignore[attr-defined]
    iv.autograd.grad(x, x, unused="drop")  # type: ignore[call-overload]
    iv.errors.ShapeMismatch  # type: ignore[attr-defined]
    optim.Adam([x], learning_rate=0.1)  # type: ignore[call-arg]
    te.expo(1.0)  # type: ignore[attr-defined]
    te.exp("a")  # type: ignore[arg-type]
    assert inverse


def transforms(x: Tensor) -> None:
    def energy(v: Tensor) -> Tensor:
        return v.sum()

    iv.grad(x)  # type: ignore[call-overload]
    iv.grad(energy, argnum=1)  # type: ignore[call-overload]
    iv.grad(energy)(x, x)  # type: ignore[call-overload]
    iv.jacobian(energy, mode="backward")  # type: ignore[call-overload]
    iv.value_and_grad(energy)(x).sum()  # type: ignore[attr-defined]
