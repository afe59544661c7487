"""Convolution as a tensor expression, forward and its gradients, against torch eager.

python -m benchmarks.codegen_conv
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.codegen_timing import compare, header
from iverson.te import language as te
from iverson.te import lower
from iverson.te.differentiate import differentiate
from iverson.te.eliminate import eliminate
from iverson.te.nodes import program_of

F32 = "float32"
CASES = {"stride 1": (1, 1), "stride 2": (2, 1), "dilation 2": (1, 2)}


def conv(n: int, c: int, size: int, o: int, stride: int, dilation: int) -> tuple[Any, Any, Any]:
    image = te.placeholder((n, c, size, size), F32, "I")
    kernel = te.placeholder((o, c, 3, 3), F32, "W")
    k, y, x = (te.reduce_axis((0, m), v) for m, v in ((c, "k"), (3, "y"), (3, "x")))
    out = (size - 2 * dilation - 1) // stride + 1

    def entry(b: Any, f: Any, h: Any, w: Any) -> Any:
        read = image[b, k, stride * h + dilation * y, stride * w + dilation * x]
        return te.sum(read * kernel[f, k, y, x], axis=(k, y, x))

    return image, kernel, te.compute((n, o, out, out), entry, "O")


def case(title: str, stride: int, dilation: int) -> None:
    image, kernel, out = conv(8, 32, 56, 64, stride, dilation)
    head = te.placeholder(out.shape, F32, "G")
    forward = lower.lower(eliminate(program_of([out], (image, kernel))))
    gradients = differentiate(out, [image, kernel], head=head)
    backward = lower.lower(eliminate(program_of(list(gradients), (image, kernel, head))))
    g = np.random.default_rng(0)
    a, w, d = (g.normal(size=t.shape).astype(F32) for t in (image, kernel, head))
    x, y, z = (torch.from_numpy(v) for v in (a, w, d))
    x.requires_grad_()
    y.requires_grad_()

    def peer() -> Any:
        return torch.conv2d(x, y, stride=stride, dilation=dilation)

    def peer_both() -> Any:
        return torch.autograd.grad(peer(), [x, y], z)

    assert np.allclose(forward(a, w)[0], peer().detach().numpy(), atol=1e-2)
    for ours, theirs in zip(backward(a, w, d), peer_both(), strict=True):
        assert np.allclose(ours, theirs.numpy(), atol=1e-1)
    compare(f"conv 3x3 {title}", {"iverson": lambda: forward(a, w), "torch": peer})
    both = {"iverson": lambda: (forward(a, w), backward(a, w, d)), "torch": peer_both}
    compare(f"conv 3x3 {title}, gradients", both, rounds=7)


if __name__ == "__main__":
    header()
    for name, (stride, dilation) in CASES.items():
        case(name, stride, dilation)
