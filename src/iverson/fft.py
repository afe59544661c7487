"""Discrete Fourier transforms."""

import typing as _typing

from iverson.array_api.signals.fft import *

if not _typing.TYPE_CHECKING:  # checkers read the star
    from iverson.array_api.signals.fft import __all__, __dir__
