"""`vmap`: levels of a batch, and how Functions and control flow are batched."""
