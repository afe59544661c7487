"""Scalar expressions, which tensor expressions and loop nests are made of.

Knows neither tensors nor loops. Above `core`, below `codegen` and `te`.
"""

from iverson.expr import build

__all__ = ["build"]
