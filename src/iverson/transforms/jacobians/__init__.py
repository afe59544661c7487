"""Jacobians: which entries may be nonzero, and the passes that find them."""
