"""The language that users write: placeholders, computes, reductions, scans, and schedule hints.

Import rule: in `te` it imports `ir` alone; its modules have no import cycle.

- `definitions`: `placeholder`, `compute`, `scatter`, the reductions, `bind`.
- `reducers`: `reducer`, reductions by a function of the user's.
- `scan`: `scan`, for tensors defined step by step.
- `stages`: each reduction inside a body as a statement of its own.
- `injectivity`: the proof that no two points write the same element.
- `nonlinear_reductions`: products and extrema in a form that can be differentiated.
- `schedule_hints`: `keep`, `recompute`, `parallel`, `unroll`.
"""
