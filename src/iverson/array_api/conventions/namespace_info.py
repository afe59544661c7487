"""Inspection of the namespace, as the standard asks for it: ``__array_namespace_info__()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iverson.array_api.conventions.operands import check_device
from iverson.core import dtypes
from iverson.core.protocols import DType

if TYPE_CHECKING:
    from iverson.handles.typing import Device


class NamespaceInfo:
    """Facts about this namespace: capabilities, devices and dtypes.

    >>> NamespaceInfo().default_device()
    'cpu'
    """

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes are there; arrays have at most 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The only device."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """All devices."""
        return ("cpu",)

    def default_dtypes(self, *, device: Device = None) -> dict[str, Any]:
        """The dtypes that functions choose where none is given."""
        check_device(device, "default_dtypes")
        return {
            "real floating": dtypes.default_float,
            "complex floating": dtypes.default_complex,
            "integral": dtypes.default_int,
            "indexing": dtypes.default_int,
        }

    def dtypes(
        self, *, device: Device = None, kind: str | DType | tuple[str | DType, ...] | None = None
    ) -> dict[str, Any]:
        """All dtypes by name, or those of a kind (as in `iverson.isdtype`)."""
        check_device(device, "dtypes")
        selection = (d for d in dtypes.STANDARD if kind is None or dtypes.isdtype(d, kind))
        return {str(d): d for d in selection}


def array_namespace_info() -> NamespaceInfo:
    """The standard's ``__array_namespace_info__``.

    >>> array_namespace_info().devices()
    ('cpu',)
    """
    return NamespaceInfo()
