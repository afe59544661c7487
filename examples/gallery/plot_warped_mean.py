"""
A loss in index notation: the mean of series that are out of step
=================================================================

Heartbeats, spoken words and strides come faster at one time and slower at another. Their mean, point by
point, is a blur. Dynamic time warping aligns two series before it compares them, and its soft form (Cuturi
and Blondel, 2017) has a gradient, so that one can ask for the series that is nearest to all of them. It is
a recurrence over a table, no composition of array functions: elsewhere in the field it is a kernel in C++
or CUDA with a gradient kernel beside it. In index notation it is the formula of the paper, and the gradient
is derived from it.
"""

import matplotlib.pyplot as plt
import numpy as np

import iverson as iv
from iverson import te
from iverson.interop.scipy import minimize

# %%
# Entry (i, j) is the cost of the best alignment of the first i points with the first j. It reads the three
# entries before it; `te.scan` says in which axes.

smoothing, far = 0.1, 1e6


@te.op
def soft_dtw(x, y):
    n, m = x.shape[0], y.shape[0]

    def step(r):
        def entry(i, j):
            cut = te.select((i == 0) & (j == 0), 0.0, far)
            ways = (
                te.select((i > 0) & (j > 0), r[i - 1, j - 1], cut),
                te.select(i > 0, r[i - 1, j], far),
                te.select(j > 0, r[i, j - 1], far),
            )
            least = te.minimum(te.minimum(ways[0], ways[1]), ways[2])
            total = sum(te.exp((least - way) / smoothing) for way in ways)
            return (x[i] - y[j]) ** 2 + least - smoothing * te.log(total)

        return te.compute((n, m), entry)

    table = te.scan((n, m), step, axis=(0, 1))
    return te.compute((), lambda: table[n - 1, m - 1])


# %%
# Twelve series of one shape, each with its own timing. A gradient of the op is compiled as the op is, and
# `vmap` and `jit` take it like any other.

rng = np.random.default_rng(0)
time = np.linspace(0, 1, 60)


def shape(t):
    return np.exp(-(((t - 0.3) / 0.06) ** 2)) - 0.6 * np.exp(-(((t - 0.6) / 0.05) ** 2))


def clock():
    """Times that rise from 0 to 1, not evenly."""
    speed = np.exp(np.interp(time, np.linspace(0, 1, 5), rng.normal(size=5)))
    return np.cumsum(speed) / speed.sum()


series = iv.asarray(np.stack([shape(clock()) for _ in range(12)]) + 0.02 * rng.normal(size=(12, 60)))
plain = series.mean(axis=0)


@iv.jit
def distance(mean):
    return iv.vmap(soft_dtw, (None, 0))(mean, series).sum()


found = minimize(distance, plain, method="L-BFGS-B", options={"maxiter": 60})
assert found.x.max() > 2 * plain.max()

# %%
# The mean of each point has lost half of the height. The other one has the shape that all series share.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
left.plot(time, series.mT.numpy(), lw=0.7)
left.set_title("twelve series")
right.plot(time, plain.numpy(), label="mean of each point")
right.plot(time, found.x.numpy(), label="nearest by soft time warping")
right.set_title("two means of them")
right.legend()
plt.show()
