"""Bridges to other libraries, modules that are imported on use and need the library: `torch`, `jax`."""
