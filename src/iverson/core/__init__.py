"""The ground floor: dtypes, shapes, errors, the Op record, scalars, dispatch and work counters.

Nothing here knows an array library's layouts, a Tensor or a gradient tape; every other package may
import from here, and this package imports from none.
"""
