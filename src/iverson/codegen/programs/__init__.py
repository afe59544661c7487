"""Programs: steps over one planned arena that run as one native call.

Of its siblings it may import all; none of them imports it.

- `nodes`: the grammar on one page, and its classes: steps, views, programs.
- `step_builders`: steps from tasks, and products by BLAS or by a nest.
- `verify`: the rules of the program IR, executable.
- `loop_rolling`: equal steps at evenly spaced places as one nest.
- `loop_carries`: carries of loops that are updated in place.
- `in_place_kernels`: kernels that may write over what they read.
- `product_accumulation`: a product and the sum that it is added to, as one BLAS call.
- `row_fusion`: nests over the same rows as one nest.
- `buffer_allocation`: the place of each temporary buffer in the arena, and writes over buffers that are dead.
- `program_emission`: LLVM IR of a program: one function for all of its steps.
- `product_emission`: machine code for matrix products, shared among threads where they are long.
- `blas_calls`: addresses of BLAS routines, and their arguments.
- `routine_emission`: calls of routines.
- `compiled_program`: compiled programs: `compile_program`, and their calls.
- `interpret`: evaluation step by step, the oracle of emitted code.
- `print`: programs as text, which caches key on.
"""

from iverson.codegen.programs.buffer_allocation import overwritten
from iverson.codegen.programs.compiled_program import CompiledProgram, compile_program
from iverson.codegen.programs.nodes import Branch, Nest, Product, Program, Repeat, View, whole

__all__ = [
    "Branch",
    "CompiledProgram",
    "Nest",
    "Product",
    "Program",
    "Repeat",
    "View",
    "compile_program",
    "overwritten",
    "whole",
]
