"""The public functions, a file per chapter: the array API standard 2025.12, then what it lacks.

Each function checks and normalises what users hand in and calls ops; so all differentiate to any order.
"""

from iverson.array_api import methods, numpy_functions

__all__ = ["methods", "numpy_functions"]
