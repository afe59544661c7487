"""The base of the package: dtypes, shapes, errors, the Op record, scalars, dispatch and work counters.

Nothing here knows an array library's layouts, a Tensor or a gradient tape.

Import rule: `core` imports no other package, and every other package may import it; each module or
sub-package imports only those before it in this list.

- `python`: plain Python utilities that know nothing of arrays.
- `errors`: all errors and warnings.
- `shapes`: shapes and axes, checked and normalised.
- `protocols`: types of what functions pass to each other: values, namespaces, parameters.
- `dtypes`: the dtypes and their promotion.
- `inputs`: checks of the arguments that users pass.
- `float_warnings`: NumPy's floating-point warnings, at the user's line.
- `scalars`: the table of elementwise functions.
- `region`: boxes of index space.
- `entries`: sets of entries, for supports and demands.
- `relations`: which entries of a result depend on which entries of an input, as facts about axes.
- `entry_map`: the correspondence of entries of inputs and results.
- `aval`: shape, dtype and support of an array without its entries.
- `op`: the Op record.
- `dispatch`: `bind`, from a call of an op to its interpreter.
- `table`: the op table, and the namespace ``F`` of derivative rules.
- `counting`: counters and cost of work.
- `trace_guards`: guards on what a traced function reads besides its arguments.
"""
