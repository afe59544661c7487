"""Sums, extrema, norms, orders and segments."""
