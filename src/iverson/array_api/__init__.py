"""The public functions, a file per chapter: the array API standard 2025.12, then what it lacks.

Each function checks and normalises what users hand in and calls ops; so all differentiate to any order. A
chapter says in its ``__all__`` what of it is public, and here they are put together. `fft`, `linalg` and
`random` are namespaces of their own.
"""

import typing as _typing
from types import ModuleType as _ModuleType

from iverson.array_api import numpy_functions
from iverson.array_api.conventions.constants import *
from iverson.array_api.conventions.data_types import *
from iverson.array_api.elementwise import *
from iverson.array_api.entries.creation import *
from iverson.array_api.entries.indexing import *
from iverson.array_api.entries.joining import *
from iverson.array_api.entries.manipulation import *
from iverson.array_api.entries.searching import *
from iverson.array_api.entries.updates import *
from iverson.array_api.linear_algebra.contraction import *
from iverson.array_api.linear_algebra.einsum import *
from iverson.array_api.linear_algebra.triangular import *
from iverson.array_api.nn import *
from iverson.array_api.reduction.nan_functions import *
from iverson.array_api.reduction.order_statistics import *
from iverson.array_api.reduction.reductions import *
from iverson.array_api.reduction.segments import *
from iverson.array_api.signals.edge_padding import *
from iverson.array_api.signals.statistics import *
from iverson.array_api.sparse_arrays.scipy_conversion import *
from iverson.array_api.sparse_arrays.sparse_construction import *

if not _typing.TYPE_CHECKING:  # checkers read the imports
    __all__ = [
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, _ModuleType)
    ]
