"""Kernels of the literature against the best of their peers: `python -m benchmarks --corpus`.

Definitions are those of `tests.te.corpus`, or of a workload of `benchmarks.workloads`; here are their sizes
and what peers have for them. `cells` says what is measured and in which order, `worker` measures it in a
process of its own, `run` looks after that process, `page` writes the report.
"""
