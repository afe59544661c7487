"""Execution: verified kernels, object code, the threads that run it, and routines of libraries.

Of its siblings it may import `nests`, `runtime`, `schedule` and `emit`.

- `verify`: the rules of the loop-nest IR, executable.
- `object_code`: LLVM IR text as optimised object code, loaded into the process.
- `native_workers`: threads that wait in native code for shares of large loops.
- `routines`: routines of libraries: their operands, and what is raised where they fail.
- `time_estimates`: expected time of a phase beside the machine's peak, for reports.
"""
