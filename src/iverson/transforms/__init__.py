"""Transforms of functions over pytrees: derivatives, compilation, batching and control flow.

`grad vjp jvp value_and_grad jacobian hessian hvp` differentiate, `jet derivatives` give Taylor series and
`laplacian biharmonic differential_operator` operators, `jit` compiles, `vmap` maps over a batch,
`cond scan while_loop fori_loop` are control flow and `checkpoint` recomputes; to any order, in any mixture.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules and
sub-packages below, each imports only those listed before it.

- `trees`: flattening and rebuilding pytrees of tensors.
- `disabled_compilation`: compiled functions run as Python.
- `raveling`: the leaves of a pytree as one vector.
- `pytree_tracing`: traces of functions of pytrees.
- `entry_count_polymorphism`: one trace for sparse operands with any number of entries.
- `number_polymorphism`: one program for calls that differ in Python numbers or in arrays that are constants.
- `retrace_reasons`: what differs between the arguments of two calls.
- `in_place_calls`: calls of compiled functions on state that is as the last call left it.
- `jit`: functions traced once for each kind of arguments, then compiled.
- `batching`: `vmap`.
- `jacobians`: sparse Jacobians from few passes.
- `signatures`: types of the functions that derivatives return, for type checkers.
- `derivatives`: `grad`, `vjp`, `jvp`, `linearize`, `jacobian`, `hessian` and `hvp`.
- `custom_derivatives`: functions whose derivative the user says.
- `control_flow`: `cond`, `scan`, loops and `checkpoint`.
- `series`: Taylor series and differential operators, in one pass.
- `python_callbacks`: Python code as a step of graphs.
- `implicit`: the implicit function theorem.
- `krylov`: linear systems and eigenpairs by Krylov methods.
"""

from iverson.transforms.batching.mapping import vmap
from iverson.transforms.control_flow import checkpoint, cond, fori_loop, scan, while_loop
from iverson.transforms.custom_derivatives import custom_jvp, custom_vjp
from iverson.transforms.derivatives import grad, hessian, hvp, jacobian, jvp, linearize, value_and_grad, vjp
from iverson.transforms.disabled_compilation import disable_jit
from iverson.transforms.jit import jit
from iverson.transforms.raveling import ravel_pytree
from iverson.transforms.series.laplacians import biharmonic, differential_operator, laplacian
from iverson.transforms.series.taylor import derivatives, jet

__all__ = [
    "biharmonic",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "derivatives",
    "differential_operator",
    "disable_jit",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jet",
    "jit",
    "jvp",
    "laplacian",
    "linearize",
    "ravel_pytree",
    "scan",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


def __dir__() -> list[str]:
    return sorted(__all__)
