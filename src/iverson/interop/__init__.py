"""Bridges to other libraries, to import on use: `torch` and `jax` need theirs, `scipy` needs no more."""
