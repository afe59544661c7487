"""What the namespaces of programs share: composites, and the constants that programs close over."""

from __future__ import annotations

from typing import Any

import numpy as np

#: What was drawn, by the place in the program; one axis in front for each loop or batch around it.
Feed = dict[str, np.ndarray]


def row_major(pattern: np.ndarray) -> tuple[np.ndarray, ...]:
    """The places of the entries of a pattern, row by row."""
    return np.nonzero(pattern)


class Namespace:
    """Functions of a namespace that are made of others of it."""

    #: Of what is made inside of programs: zeros, draws, weights.
    dtype = np.dtype(np.float64)

    def zeros(self: Any, shape: tuple[int, ...]) -> Any:
        return self.asarray(np.zeros(shape, self.dtype))

    def fit(self: Any, x: Any, shape: tuple[int, ...]) -> Any:
        """Gives x another shape: its entries, from the first on and repeated, or zeros where it has none."""
        count, size = int(np.prod(shape)), int(np.prod(x.shape))
        if not size:
            zeros = self.zeros(shape)
            return zeros + 0j if "complex" in str(x.dtype) else zeros
        if tuple(x.shape) == shape:
            return x
        flat = self.reshape(x, (size,))
        if count != size:
            flat = flat[np.arange(count) % size]
        return self.reshape(flat, shape)

    def total(self: Any, *xs: Any) -> Any:
        """A real number in which no two entries weigh the same."""
        out: Any = self.zeros(())
        for k, x in enumerate(xs):
            if "complex" in str(x.dtype):
                x = self.real(x) + 0.5 * self.imag(x)
            weights = np.linspace(0.5 + 0.1 * k, 1.5, int(np.prod(x.shape)), dtype=self.dtype).reshape(
                x.shape
            )
            out = out + self.sum(x * self.asarray(weights))
        return out
