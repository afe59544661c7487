"""Tracing: a function runs once on values without entries, and its ops are written down as a graph.

Of its siblings it imports `ir` alone.

- `trace`: the trace, a level on which ops become equations, and its values.
- `captured_state`: tensors, gradients and numbers from outside that each call reads anew or writes.
- `random_draws`: random draws of a body moved before it, so that it gives the same each time it runs.
- `donation`: tensors whose memory was given to a compiled function.
"""
