"""Code generation: tasks become loop nests, LLVM IR and machine code, which threads run on arrays.

A `nests.task.Task` becomes a nest (`schedule`), which is verified. Its accesses are sorted by what proves
them inside their buffers (`nests.access_checks`). It is emitted (`emit`), compiled or read from the cache
(`execution.object_code`, `runtime.kernel_cache`) and called as a step of a program (`launches`). Tensor
expressions are not known here: `iverson.te.lowering.statement_lowering` makes tasks of them.

This package may import `layouts`, `expr` and `core`; it uses the last two. Of its sub-packages, each may
import those before it in this order: `nests`, `runtime`, `schedule`, `emit`, `execution`, `programs`,
`launches` (import-linter refuses cycles).

From a task to a native call:

- `nests`: the loop-nest IR: tasks, nests, bounds of indices, checks of accesses, cost of phases.
- `schedule`: loop order, vector lanes, tiles, fusion and threads of a nest.
- `emit`: LLVM IR of a nest: statements, vector loops, memory accesses, scalar functions.
- `execution`: verified kernels, object code, threads and routines.
- `programs`: the program IR: nests, matrix products, loops and branches over one arena.
- `launches`: programs as calls with every integer in its place, their machine code, and its calls.
- `runtime`: the machine: its processor, threads, BLAS, memory, and the kernel cache on disk.
"""
