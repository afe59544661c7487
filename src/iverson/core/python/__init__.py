"""Plain Python utilities: frames, locks, cached attributes, cache keys, progress bars.

Import rule: it imports nothing of the package, and its modules do not import each other.

- `caller`: the user's line, for messages and warnings.
- `parameters`: the parameter names of a function.
- `foreign_names`: names of other libraries, and what to use here instead.
- `cached`: attributes that are computed at the first access.
- `exact_keys`: values as parts of cache keys.
- `recent_items`: dictionaries that keep the items used last.
- `locks`: locks that a forked child finds free.
- `progress`: progress bars on the terminal.
- `scipy_calls`: the function of SciPy that is running, for errors.
- `moved_modules`: old names of modules, for pickles of earlier versions.
"""
