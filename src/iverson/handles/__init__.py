"""The handle `Tensor`: operators, indexing, conversion and printing. Named methods come from `array_api`.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules below, each
imports only those listed before it.

- `views`: writes through parts of tensors into their base, and back.
- `subscripts`: ``x[key]``, ``x[key] = value`` and ``@``, brought to the canonical form of ops.
- `array`: the base class of all kinds of arrays.
- `printing`: the text of a tensor.
- `spy`: pictures of the pattern of a tensor or of a mask.
- `notebook`: the HTML of a tensor.
- `tensor`: the class `Tensor`.
- `settled_state`: tensors that a compiled step writes in place, as its last call left them.
- `typing`: types of the public functions' parameters.
- `convert`: `asarray`.
"""

from iverson.handles.convert import asarray
from iverson.handles.tensor import Tensor

__all__ = ["Tensor", "asarray"]
