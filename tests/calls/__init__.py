"""Calls of every public function, held against NumPy and SciPy and against themselves in every mode.

`table` has the calls: operands by shape and role, each axis, options. `operands` draws entries, dtypes and
memory; `oracles` finds the function of NumPy's or SciPy's of the same name; `modes` carries a call out
compiled, mapped, in each layout, masked without a mask; `faults` spoils functions to see what is noticed.
``python -m tests.calls`` runs all of it.
"""
