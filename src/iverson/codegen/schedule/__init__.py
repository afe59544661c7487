"""From a task to a loop nest, and nests into faster ones: order of loops, tiles, fusion, threads."""
