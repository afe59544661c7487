"""Runtime: the machine that compiled code runs on: processor, threads, memory, BLAS, and the cache on disk.

It imports no other sub-package of `codegen`.

- `target`: the processor that code is generated for, with its vector width, and how many there are.
- `kernel_cache`: the cache of object code on disk.
- `object_linking`: object code put into memory without LLVM.
- `builtin_calls`: machine code as a builtin function of Python.
- `array_headers`: addresses and flags of NumPy arrays, read from their objects.
- `workspaces`: temporary arrays that one call leaves for the next.
- `blas_threads`: an OpenBLAS kept on the thread that calls it.
- `library_functions`: addresses of functions of LAPACK, BLAS and NumPy.
- `machine_peak`: measured peak of operations and of bytes a second.
"""
