"""Sparse tensors: made, converted, factorised, and handed to SciPy."""
