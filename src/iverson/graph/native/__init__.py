"""Native code for one equation, or a group of them: views, fused loop nests, sorts, recurrences, writes.

Of its siblings it may import `ir` and `passes`.

- `layout_assignment`: the axis order in which values are computed, so that no reader has to copy them.
- `step_kinds`: how a program carries out each equation, and the bodies of loops and branches.
- `strided_views`: transposes, slices and reshapes as views of another value's memory.
- `large_temporaries`: tensor expressions that run block by block, outside of programs.
- `equation_expressions`: equations as tensor expressions.
- `expression_fusion`: groups of tensor expressions as fused loop nests.
- `recurrence_loops`: cumulative sums and other recurrences along an axis.
- `routine_steps`: builder of steps that call routines of libraries.
- `fourier_calls`: Fourier transforms, by NumPy's loops.
- `library_calls`: solves, decompositions and universal functions, by routines of NumPy and LAPACK.
- `matrix_lanes`: blocks of small matrices, each in a lane of its own, and numbers in parts.
- `small_matrices`: batches of small matrices, factored and solved with in lanes.
- `sort_loops`: sorting, search in sorted vectors, and positions of extrema.
- `indexed_writes`: writes at places that index arrays name, and checks of index arrays.
- `sparse_row_products`: products of a sparse matrix with a dense one, row by row.
- `buffers`: buffers of a program in the making, and its counts of work.
"""
