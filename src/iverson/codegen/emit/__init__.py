"""From loop nests to LLVM IR: lanes, memory, scalar and vector mathematics."""
