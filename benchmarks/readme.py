"""The table of measurements in README.md, written from one run: ``python -m benchmarks --readme``.

The workloads are fixed here, those that Iverson loses among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

README = Path(__file__).parent.parent / "README.md"
#: By workload, what it is in the words of the README.
SHOWN = {
    "compiled_slices": "gradient of a compiled loop over slices x[t]",
    "second_derivative": "second derivative of a ReLU network in its input",
    "stencil_jacobian": "Jacobian of a five-point stencil",
    "sparse_factorisation": "gradient of a matrix factorisation at the observed entries",
    "sparse_adagrad": "Adagrad step of an embedding",
    "te_soft_dtw_gradients": "soft dynamic time warping with gradients",
    "te_graph_attention_gradients": "graph attention with gradients",
    "te_bilateral_gradients": "bilateral filter with gradients",
    "te_conv2d_gradients": "2-d convolution with gradients",
    "train_convnet": "training step of a convolutional network",
    "train_transformer": "training step of a transformer",
    "matmul_forward_backward": "one matrix product and its gradients, no jit",
}
HEAD = ("workload", "what", "PyTorch", "torch.compile", "JAX")
PEERS = {
    "PyTorch": ("torch", "torch func"),
    "torch.compile": ("torch compile",),
    "JAX": ("jax", "jax jit"),
}


def write(summary: Iterable[Mapping[str, Any]], machine: Mapping[str, Any]) -> None:
    """Put the median ratios of a run in place of those that the README shows."""
    text = README.read_text()
    start, end = "<!-- measured -->", "<!-- /measured -->"
    body = f"{start}\n{table(summary)}\n\n{conditions(machine)}\n{end}"
    README.write_text(re.sub(f"{start}.*{end}", lambda _: body, text, flags=re.DOTALL))


def table(summary: Iterable[Mapping[str, Any]]) -> str:
    """A row for each workload: our time over each peer's; a dash where the peer has no such workload."""
    ratios = {(row["workload"], row["peer"]): row["median"] for row in summary}
    rows = ["| " + " | ".join(HEAD) + " |", "| --- | --- " + "| ---: " * len(PEERS) + "|"]
    for name, what in SHOWN.items():
        found = [
            next((r for peer in peers if (r := ratios.get((name, peer)))), None) for peers in PEERS.values()
        ]
        cells = ["-" if ratio is None else f"{ratio:.2g}" for ratio in found]
        rows.append("| " + " | ".join([f"`{name}`", what, *cells]) + " |")
    return "\n".join(rows)


def conditions(machine: Mapping[str, Any]) -> str:
    """What was measured on which machine."""
    versions = ", ".join(f"{name} {machine['packages'][name]}" for name in ("numpy", "torch", "jax"))
    return (
        f"{machine['cpu']}, {machine['threads']} threads, Python {machine['python']}, {versions}; "
        "the median over the sizes measured."
    )
