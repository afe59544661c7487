"""Emission: loop nests become LLVM IR text: vector loops, memory accesses, scalar and vector functions.

Of its siblings it may import `nests`, `runtime` and `schedule`.

- `nest_emission`: statements and loops of a nest, and the entry points of its phases.
- `vector_loops`: loops in vector lanes, with masks and accumulators.
- `lane_evaluation`: expressions and accesses at one iteration, or at a vector of iterations.
- `vector_access`: loads and stores of contiguous, strided and scattered lanes.
- `scalar_code`: scalar functions, casts and combining, for values of one dtype.
- `vecmath`: elementary functions over vectors of any width.
- `ufunc_calls`: calls of loops of NumPy's and SciPy's universal functions.
- `half_conversion`: conversions between float and float16 or bfloat16.
- `llvm_builder`: the builder of LLVM IR text.
"""
