"""Programs: steps over one planned arena, which run as one native call (`codegen.launches`).

Of its siblings `launches` alone may import it; it may import the others.

- `nodes`: the grammar on one page, and its classes: steps, views, programs.
- `step_builders`: steps from tasks, and products by BLAS or by a nest.
- `verify`: the rules of the program IR, executable.
- `loop_rolling`: equal steps at evenly spaced places as one nest.
- `loop_carries`: carries of loops that are updated in place.
- `in_place_kernels`: kernels that may write over what they read.
- `product_accumulation`: a product and the sum that it is added to, as one BLAS call.
- `row_fusion`: nests over the same rows as one nest.
- `code_worth`: loop bodies written out as often as their work is worth.
- `buffer_allocation`: the place of each temporary buffer in the arena, and writes over buffers that are dead.
- `blas_calls`: addresses of BLAS routines, and their arguments.
- `interpret`: evaluation step by step, the oracle of emitted code.
- `thread_sharing`: which phases and products threads share.
- `print`: programs as text.
"""

from iverson.codegen.programs.buffer_allocation import overwritten
from iverson.codegen.programs.nodes import Branch, Nest, Product, Program, Repeat, View, whole

__all__ = [
    "Branch",
    "Nest",
    "Product",
    "Program",
    "Repeat",
    "View",
    "overwritten",
    "whole",
]
