"""Launches: planned programs as calls with every integer in its place, their machine code, and its calls.

Of its siblings it may import all; none of them imports it.

- `nodes`: the grammar on one page, and its classes: calls of phases, BLAS and routines, loops, branches.
- `program_launches`: the launches of a program.
- `print`: launches as text, which caches key on.
- `integer_arguments`: integers that a call passes, so that programs of many sizes share machine code.
- `program_emission`: LLVM IR of launches: one function for all of them.
- `product_emission`: machine code for matrix products, shared among threads where they are long.
- `routine_emission`: calls of routines.
- `buffer_checks`: checks of the arrays of a call.
- `compiled_program`: compiled programs: `compile_program`, and their calls.
- `compiled_kernel`: kernels by themselves, for any sizes: `compile_kernel`.
"""

from iverson.codegen.launches.compiled_kernel import CompiledKernel, compile_kernel
from iverson.codegen.launches.compiled_program import CompiledProgram, compile_program

__all__ = ["CompiledKernel", "CompiledProgram", "compile_kernel", "compile_program"]
