"""Loop-nest IR: tasks, nests, bounds of integer expressions, checks of accesses, cost of phases.

It imports no other sub-package of `codegen`.

- `task`: what a phase computes, over a box of axes, and how its accesses move along them.
- `nodes`: the grammar on one page, and its classes: expressions, statements, buffers, kernels.
- `integer_bounds`: the least and greatest value of an index, by affine forms.
- `access_checks`: bounds checks: proven when compiling, or made in the loop.
- `fault_reports`: the indices that loops report as outside of their buffers, and the error for them.
- `loop_facts`: extents, accumulators and varying names of loops, and which loops may be vector loops.
- `phase_cost`: the cost model, in nanoseconds: by it phases get threads, and reports get expected times.
- `interpret`: evaluation one iteration at a time, the oracle of emitted code.
- `print`: nests as text, which caches key on.
"""
