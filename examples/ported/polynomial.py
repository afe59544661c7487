"""PyTorch, "Learning PyTorch with Examples": y = sin(x) by a polynomial of third order, in two ways.

| PyTorch | here |
| --- | --- |
| `torch.linspace`, `torch.sin` | `iv.linspace`, `iv.sin` |
| `torch.randn((), requires_grad=True)` | `rng.standard_normal(()).requires_grad_()` |
| `torch.no_grad()` | `iv.autograd.no_grad()` |
| `torch.autograd.Function` | `iv.autograd.Function` |
| `input, = ctx.saved_tensors` | the same |
"""

from __future__ import annotations

import math
from typing import Any

import iverson as iv


class LegendrePolynomial3(iv.autograd.Function):
    """P3(x) = (5 x**3 - 3 x) / 2 with its derivative by hand."""

    @staticmethod
    def forward(ctx: Any, input: iv.Tensor) -> iv.Tensor:
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx: Any, grad_output: iv.Tensor) -> iv.Tensor:
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


def autograd_polynomial(start: list[float], steps: int = 2000, learning_rate: float = 1e-6) -> list[float]:
    """Coefficients of a + b x + c x**2 + d x**3 after gradient descent from ``start``."""
    x = iv.linspace(-math.pi, math.pi, 2000)
    y = iv.sin(x)

    a, b, c, d = (iv.asarray(v, requires_grad=True) for v in start)

    for _ in range(steps):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum()
        loss.backward()

        with iv.autograd.no_grad():
            a -= learning_rate * a.grad
            b -= learning_rate * b.grad
            c -= learning_rate * c.grad
            d -= learning_rate * d.grad

            a.grad = None
            b.grad = None
            c.grad = None
            d.grad = None

    return [a.item(), b.item(), c.item(), d.item()]


def custom_function(steps: int = 2000, learning_rate: float = 5e-6) -> tuple[list[float], float]:
    """Coefficients of a + b P3(c + d x) and the loss, with a Function of one's own."""
    x = iv.linspace(-math.pi, math.pi, 2000)
    y = iv.sin(x)

    a = iv.full((), 0.0, requires_grad=True)
    b = iv.full((), -1.0, requires_grad=True)
    c = iv.full((), 0.0, requires_grad=True)
    d = iv.full((), 0.3, requires_grad=True)

    loss = iv.asarray(math.inf)
    for _ in range(steps):
        P3 = LegendrePolynomial3.apply
        y_pred = a + b * P3(c + d * x)
        loss = (y_pred - y).pow(2).sum()
        loss.backward()

        with iv.autograd.no_grad():
            a -= learning_rate * a.grad
            b -= learning_rate * b.grad
            c -= learning_rate * c.grad
            d -= learning_rate * d.grad

            a.grad = None
            b.grad = None
            c.grad = None
            d.grad = None

    return [a.item(), b.item(), c.item(), d.item()], loss.item()


if __name__ == "__main__":
    a, b, c, d = autograd_polynomial([0.5, -0.2, 0.1, 0.3])
    print(f"Result: y = {a} + {b} x + {c} x^2 + {d} x^3")
    (a, b, c, d), _ = custom_function()
    print(f"Result: y = {a} + {b} * P3({c} + {d} x)")
