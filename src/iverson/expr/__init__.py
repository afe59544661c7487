"""Scalar expressions, of which tensor expressions and loop nests are made.

They know neither tensors nor loops.

Import rule: `expr` imports `core` alone; each module imports only those before it in this list.

- `symbolic_numbers`: numbers of Python that record formulas and path conditions.
- `nodes`: the nodes, with the grammar, and walks over them.
- `function_facts`: facts of functions by name: opposites, costs, identities of reductions.
- `print`: expressions as text.
- `build`: construction with promotion and simplification.
- `affine`: integer expressions as affine forms.
- `intervals`: bounds of integer expressions.
"""

from iverson.expr import build

__all__ = ["build"]
