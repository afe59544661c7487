"""Lowering of programs to compiled code: loop nests and matrix products, native calls, and reports of both.

Import rule: in `te` it imports `ir`, `language`, `rewrites` and `elimination`; its modules have no import
cycle.

- `statement_lowering`: `lower`, from statements to steps over buffers.
- `box_products`: products over a part of their box, as products of boxes and loops outside of these.
- `ring_buffers`: memory for the last steps of a recurrence, where earlier ones are not read.
- `recurrence_nests`: recurrences as loop nests.
- `lowered_program`: the steps of a lowered program, and their execution on arrays.
- `native_call`: all steps of a program as one native call.
- `block_calls`: code of programs that run in blocks along an axis.
- `shape_polymorphism`: code of an op for every shape.
- `index_errors`: index errors of kernels in the terms of the definition.
- `program_work`: points and bytes of a lowered program.
- `kernel_report`: the part of `explain` on kernels, stages and hints.
- `explanation`: `explain`.
"""
