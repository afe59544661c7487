"""Linear algebra: matrices are the last two axes, batches stand before them."""

import typing as _typing

from iverson.array_api.linear_algebra.decompositions import *

if _typing.TYPE_CHECKING:  # checkers read the stars
    from iverson.transforms.krylov import *
else:
    from iverson.array_api.linear_algebra import decompositions as _matrices
    from iverson.core.python.foreign_names import absent as _absent

    #: Imported with `iverson.transforms`, when first asked for.
    _KRYLOV = ("LinearOperator", "bicgstab", "cg", "eigsh", "gmres", "lobpcg", "minres")
    __all__ = sorted([*_matrices.__all__, *_KRYLOV])

    def __dir__() -> list[str]:
        return __all__

    def __getattr__(name: str) -> _typing.Any:
        if name not in _KRYLOV:
            _absent("iverson.linalg")(name)
        from iverson.transforms import krylov

        globals()[name] = value = getattr(krylov, name)
        return value
