"""Derivatives of graphs: pullbacks and pushforwards, for any pattern of cotangents and demanded results.

Of its siblings it may import `ir` and `tracing`.

- `differentiation`: pullbacks and pushforwards, written by running the rules of ops in a trace.
- `specialization`: a pullback without what undefined cotangents and undemanded results leave out.
- `shape_inference`: shapes for a graph that was traced without them, and for its pullback.
- `pullback_branches`: pullback regions as branches, if only a call knows which cotangents are defined.
"""
