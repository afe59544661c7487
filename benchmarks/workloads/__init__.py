"""Every workload by its name. A new file here adds its `WORKLOADS` to the tuple below."""

from benchmarks.workload import Workload
from benchmarks.workloads import (
    batches,
    bridges,
    compiled,
    digits_step,
    drawn,
    factorisations,
    lstm_backward,
    overhead,
    second_derivative,
    second_orders,
    series,
    sparse,
    sparse_models,
    steps,
    te_dense,
    te_images,
    te_pairs,
    te_recurrences,
    te_segments,
    te_sparse,
    training,
    unrolled,
)

MODULES = (
    overhead,
    digits_step,
    second_derivative,
    lstm_backward,
    te_dense,
    te_images,
    te_pairs,
    te_recurrences,
    te_segments,
    te_sparse,
    sparse,
    sparse_models,
    batches,
    compiled,
    second_orders,
    series,
    steps,
    factorisations,
    training,
    bridges,
    drawn,
    unrolled,
)
WORKLOADS: dict[str, Workload] = {
    workload.name: workload for module in MODULES for workload in module.WORKLOADS
}
