"""Input checks: the arguments that users pass, checked and normalised before they are used.

Import rule: in `core` it imports `errors`, `protocols`, `python` and `shapes`; its modules have no import
cycle.

- `arguments`: flags, functions and other arguments that are no arrays.
- `aliases`: names of arguments in other libraries.
- `arrays`: arrays as NumPy's own type.
- `missing_entries`: missing entries in columns of other libraries.
- `foreign_arrays`: arrays of another library in a function that it calls.
"""
