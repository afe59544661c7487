"""Code generation: loop nests, LLVM, vector mathematics, threads and the cache of compiled kernels.

The way through: a `task.Task` becomes a nest (`nodes`), the nest is verified, its accesses are sorted by
what proves them (`plan`, `bounds`), it is emitted (`llvm`), compiled or found (`compile`, `cache`) and
called (`kernel`). What tensor expressions are is not known here; `iverson.te.lowering.statement_lowering`
comes from there.
"""
