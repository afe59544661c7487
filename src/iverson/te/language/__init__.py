"""The language that users write: placeholders, computes, reductions, scans, loops, and schedule hints.

Import rule: in `te` it imports `ir` alone; its modules have no import cycle.

- `definitions`: `placeholder`, `compute`, `scatter`, the reductions, `bind`.
- `reducers`: `reducer`, reductions by a function of the user's.
- `recurrence_members`: the members of a recurrence, their steps and order, from definitions of its states.
- `scan`: `scan`, for tensors defined step by step.
- `bounded_loops`: `while_`, for loops that end when data say so.
- `stages`: each reduction inside a body as a statement of its own.
- `injectivity`: the proof that no two points write the same element.
- `nonlinear_reductions`: products and extrema in a form that can be differentiated.
- `schedule_hints`: `keep`, `recompute`, `parallel`, `unroll`.
"""
