"""Calls of SciPy's functions, a module per package of SciPy, and how each ends on tracked tensors.

`table` is the list that the modules fill; `endings` runs it and prints JSON.
"""
