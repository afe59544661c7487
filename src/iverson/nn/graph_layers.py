"""Graph neural networks: reductions over segments of edges, and products sampled at a pattern."""

from __future__ import annotations

from iverson.array_api.reduction.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_sum,
)
from iverson.array_api.sparse_arrays.sparse_construction import sampled_matmul

__all__ = [
    "sampled_matmul",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_softmax",
    "segment_sum",
]
