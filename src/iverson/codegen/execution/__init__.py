"""Kernels that are checked, compiled and called."""
