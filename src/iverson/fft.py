"""Discrete Fourier transforms."""

import typing as _typing

from iverson.array_api.signals.fft import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.signals.fft import __all__, __dir__
    from iverson.core.python.foreign_names import absent as _absent

    __getattr__ = _absent("iverson.fft")
