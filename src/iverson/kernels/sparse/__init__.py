"""Kernels on the sparse layouts."""
