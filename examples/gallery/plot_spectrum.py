"""
SciPy's minimize with exact gradients, and error bars from the Hessian
======================================================================

`scipy.optimize.minimize` estimates a gradient by differences where it gets none: for 13 parameters that is
14 calls of the function a step, with half of the digits. `iverson.interop.scipy.minimize` has SciPy's
signature and hands over the derivatives that the chosen method reads. The same function has a Hessian,
which says how well each parameter is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.stats

import iverson as iv
from iverson.interop.scipy import minimize, use

# %%
# A spectrum of four lines on a sloping ground is a count of photons, so that its noise is Poisson's. The
# likelihood is SciPy's, under SciPy's name: in a block of `use` it computes with tensors.

energy = iv.linspace(0, 10, 250)


def spectrum(p):
    heights, centres, widths = p[:4], p[4:8], iv.exp(p[8:12])
    lines = heights * iv.exp(-0.5 * ((energy[:, None] - centres) / widths) ** 2)
    return lines.sum(axis=1) + iv.softplus(p[12] - 0.2 * energy)


truth = np.array([30, 14, 22, 9, 2, 3.1, 5.6, 8, *np.log([0.25, 0.4, 0.5, 0.2]), 3.0])
counts = np.random.default_rng(0).poisson(spectrum(iv.asarray(truth)).numpy())


@iv.jit
def loss(p):
    with use():
        return -scipy.stats.poisson.logpmf(counts, spectrum(p)).sum()


# %%
# From one start, the same method with differences and with exact gradients; and one that reads the Hessian.

start = np.array([20, 20, 20, 20, 2.2, 3.4, 5.3, 7.8, *np.log([0.3] * 4), 2.0])
differences = scipy.optimize.minimize(lambda p: loss(iv.asarray(p)).item(), start, method="BFGS")
exact = minimize(loss, start, method="BFGS")
newton = minimize(loss, start, method="trust-exact")
for name, result in (("differences", differences), ("gradients", exact), ("gradients and Hessians", newton)):
    print(f"{name:23} {result.nfev:4d} calls, loss {float(result.fun):.6f}")

assert abs(float(exact.fun) - float(newton.fun)) < 1e-4

# %%
# The inverse of the Hessian at the best fit is the covariance of the parameters (Laplace's approximation).

covariance = iv.linalg.inv(iv.hessian(loss)(newton.x)).numpy()
deviations = np.sqrt(np.diagonal(covariance))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(3, 2), layout="constrained")
left.step(energy.numpy(), counts, where="mid", lw=0.8, label="counts")
left.plot(energy.numpy(), spectrum(newton.x).numpy(), label="fit")
left.legend()
left.set_title("a spectrum of four lines")
right.errorbar(range(13), (newton.x.numpy() - truth) / deviations, yerr=1, fmt="o", capsize=3)
right.axhline(0, lw=0.8, ls="--")
right.set_title("errors, in standard deviations")
plt.show()
