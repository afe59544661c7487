"""Numeric limits of dtypes: the results of `finfo` and `iinfo`. Imported where these are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating dtype, of its parts where it is complex."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class IntInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]
