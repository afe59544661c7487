"""Execution: kernels are verified, compiled to object code, loaded, and called on checked arrays.

Of its siblings it may import `nests`, `runtime`, `schedule` and `emit`.

- `kernel`: compiled kernels: `compile_kernel`, and the checks of a call's arrays.
- `verify`: the rules of the loop-nest IR, executable.
- `object_code`: LLVM IR text as optimised object code, loaded into the process.
- `launch`: the phases of a call: number of threads, ranges of iterations, colliding writes.
- `native_workers`: threads that wait in native code for shares of large loops.
- `routines`: routines of libraries: their operands, and what is raised where they fail.
- `time_estimates`: expected time of a phase beside the machine's peak, for reports.
"""
