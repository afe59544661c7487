"""The statement IR: expressions, statements and domains, with their printer, verifier and interpreter.

Import rule: it imports no other sub-package of `te`, and all others may import it; its modules have no import
cycle.

- `nodes`: tensors, statements, walks and programs; the grammar and its meaning on one page.
- `expressions`: variables, reads and reductions, and the tensors that are read.
- `scalar_namespace`: ``F``, the elementwise functions on expressions.
- `index_arithmetic`: the normal form of index expressions, their ranges, and constraints on them.
- `evaluation_guards`: the conditions under which each node of an expression is evaluated.
- `ragged_axes`: axes whose bounds depend on data.
- `nested_reductions`: reductions inside of expressions.
- `integer_sets`: emptiness and exact loops of domains, by isl.
- `convex_pieces`: a domain with alternatives as disjoint convex pieces.
- `supports`: the conditions under which entries of a tensor may be nonzero.
- `half_rounding`: programs of half precision, computed in float32.
- `verify`: the verifier.
- `interpret`: the interpreter, oracle of every lowering.
- `fresh_names`: names of tensors that no user named.
- `print`: programs and walks as text.
- `source_site`: the user's line, for error messages.
"""
