"""Derivatives of statements: reverse and forward mode, from the rules of one expression up to recurrences.

Import rule: in `te` it imports `ir`, `language` and `rewrites`; its modules have no import cycle.

- `expression_derivatives`: cotangents and tangents within one expression.
- `reduction_derivatives`: cotangents and tangents of reductions inside of expressions.
- `recurrence_derivatives`: the adjoint and the tangent of a recurrence.
- `reverse_mode`: gradients of tensors, one statement per read and linear term.
- `forward_mode`: tangents of tensors, one statement per read.
- `taylor_mode`: Taylor coefficients of tensors, one statement per order.
"""
