"""Public functions: those of the array API standard 2025.12, then those that it lacks, a module per subject.

Each function checks and normalises what users pass and calls ops; so all differentiate to any order. A module
says in its ``__all__`` what of it is public, and the names are put together here. `fft`, `linalg`, `random`
and `special` are namespaces of their own.

Import rule: packages of lower layers (`[tool.importlinter]` in pyproject.toml); of the modules and
sub-packages below, each imports only those listed before it.

- `conventions`: operands, methods, dtypes, constants and inspection, shared by the others.
- `sparse_arrays`: sparse tensors.
- `entries`: creation, joining, reshaping, searching and updates.
- `elementwise`: elementwise functions.
- `reduction`: reductions, norms, order statistics and segments.
- `nn`: softmax, log-softmax and cross entropy.
- `signals`: padding, Fourier transforms, statistics, interpolation and convolution.
- `linear_algebra`: products, decompositions and systems.
- `special`: special functions under SciPy's names.
- `random`: random tensors.
- `numpy_functions`: NumPy's functions called on tensors.
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
from iverson.array_api.entries.rearrangement import *
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
from iverson.array_api.signals.array_padding import *
from iverson.array_api.signals.numerics import *
from iverson.array_api.signals.sample_statistics import *
from iverson.array_api.sparse_arrays.scipy_conversion import *
from iverson.array_api.sparse_arrays.sparse_construction import *

if not _typing.TYPE_CHECKING:  # checkers read the imports
    __all__ = [
        name
        for name, value in globals().items()
        if not name.startswith("_") and not isinstance(value, _ModuleType)
    ]
