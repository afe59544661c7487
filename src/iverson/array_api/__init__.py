"""The public functions, a file per chapter: the array API standard 2025.12, then what it lacks.

Each function checks and normalises what users hand in and calls ops; so all differentiate to any order. A
chapter says in its ``__all__`` what of it is public, and here they are put together. `fft`, `linalg` and
`random` are namespaces of their own.
"""

import typing as _typing
from types import ModuleType as _ModuleType

from iverson.array_api import numpy_functions
from iverson.array_api.constants import *
from iverson.array_api.contraction import *
from iverson.array_api.creation import *
from iverson.array_api.data_types import *
from iverson.array_api.einsum import *
from iverson.array_api.elementwise import *
from iverson.array_api.indexing import *
from iverson.array_api.joining import *
from iverson.array_api.manipulation import *
from iverson.array_api.nan_functions import *
from iverson.array_api.nn import *
from iverson.array_api.order_statistics import *
from iverson.array_api.padding import *
from iverson.array_api.reductions import *
from iverson.array_api.scipy import *
from iverson.array_api.searching import *
from iverson.array_api.segments import *
from iverson.array_api.sparse import *
from iverson.array_api.statistics import *
from iverson.array_api.triangular import *
from iverson.array_api.updates import *

if not _typing.TYPE_CHECKING:  # checkers read the imports
    __all__ = [
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, _ModuleType)
    ]
