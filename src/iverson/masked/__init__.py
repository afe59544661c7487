"""Masked tensors: semantics on top of tensors. An entry that a mask leaves out does not exist.

`iverson.masked_tensor` makes them; `policy` says what happens where masks differ.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `policies`: the policy for operands with different masks.
- `mask`: masks as boolean arrays.
- `line_buckets`: lines of listed entries, collected in small matrices by length.
- `sparse_masks`: masks as the pattern of a sparse layout.
- `masked_printing`: the text and the HTML of a masked tensor.
- `pytree`: masked tensors as nodes of pytrees.
- `tensor`: the class `MaskedTensor`.
- `traced_masks`: masks whose entries are known only when a trace runs.
- `align`: the common mask of several operands.
- `construct`: `masked_tensor` and `as_masked_tensor`.
- `operand_queries`: answers to other packages' questions about masked operands.
- `move_rules`: rules of ops that move entries: indexing, assignment (also which entries exist then), joining.
- `axis_rules`: rules of reductions, scans, softmax and sorting.
- `segment_rules`: rules of ops over segments.
- `window_rules`: rules of pooling and convolution.
- `rules`: the table of the rule of each op, and elementwise rules and products.
"""

from iverson.core.dispatch import Interpreter, register_interpreter
from iverson.masked import operand_queries  # noqa: F401 - registers what it answers
from iverson.masked.construct import as_masked_tensor, masked_tensor
from iverson.masked.policies import policy
from iverson.masked.rules import interpret
from iverson.masked.tensor import MaskedTensor

__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor", "policy"]

register_interpreter(Interpreter("masked", interpret), (MaskedTensor,))


def __dir__() -> list[str]:
    return sorted(__all__)
