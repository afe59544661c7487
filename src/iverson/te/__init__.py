"""Tensor expressions: an op in index notation, its derivatives, and the exact points they need."""
