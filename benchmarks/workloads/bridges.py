"""Models of torch's with steps of Iverson in them, against torch alone: forward, backward and update.

- bridge_convnet: the convolutions and maxima of `train_convnet`, four ops in index notation.
- bridge_graph_attention: the softmax over the edges of each node and the sum over them, compiled.
"""

from __future__ import annotations

from benchmarks.workload import Workload
from benchmarks.workloads.training import convnet, graph_attention, make_graph, make_images, torch_step

WORKLOADS = tuple(
    Workload(
        name=name,
        sizes=sizes,
        size_is=size_is,
        draw=draw,
        make=make,
        run={
            "iverson": torch_step(loss, by="bridged"),
            "torch": torch_step(loss),
            "torch compile": torch_step(loss, compiled=True),
        },
        target={"torch": 1.0},
        kinked=name == "bridge_convnet",
    )
    for name, loss, make, sizes, size_is, draw in (
        (
            "bridge_convnet",
            convnet,
            make_images,
            (10, 16, 28),
            "pixels a side",
            lambda rng: rng.integers(11, 28),
        ),
        (
            "bridge_graph_attention",
            graph_attention,
            make_graph,
            (1_000, 20_000, 100_000),
            "nodes",
            lambda rng: rng.integers(2_000, 40_000),
        ),
    )
)
