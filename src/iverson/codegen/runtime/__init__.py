"""What compiled code needs of the machine: its processor, threads, memory, BLAS, and the cache on disk."""
