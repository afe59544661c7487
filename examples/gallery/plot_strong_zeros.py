"""
A zero stays a zero
===================

``where(x > 0, sqrt(x), 0)`` has the derivative 0 for x < 0, and 1 / (2 sqrt(x)) for x > 0. At x = 0 the
branch that is not chosen has an infinite derivative. Elsewhere in the field this infinity is multiplied
by the zero of the branch, which gives nan; here an entry that is not chosen is not multiplied at all.
"""

import matplotlib.pyplot as plt
import numpy as np

import iverson as iv

# %%
# The function, and its derivative in each point: the gradient of the sum. Both branches are computed, as in
# NumPy, with NumPy's warning of roots of negative numbers: `errstate` says that they are meant.


def root(x):
    return iv.where(x > 0, iv.sqrt(x), 0.0)


x = iv.linspace(-1.0, 1.0, 201)
with np.errstate(invalid="ignore"):
    y, slope = root(x), iv.grad(lambda x: root(x).sum())(x)
assert np.isfinite(slope.numpy()).all()

# %%
# The point 0 is among them. NumPy's formula for the derivative, ``(x > 0) * 0.5 / sqrt(x)``, is nan there.

with np.errstate(all="ignore"):
    by_hand = (x.numpy() > 0) * (0.5 / np.sqrt(x.numpy()))

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), sharex=True, layout="constrained")
left.plot(x.numpy(), y.numpy())
left.set_title("where(x > 0, sqrt(x), 0)")
right.plot(x.numpy(), slope.numpy(), label="Iverson")
right.plot(x.numpy(), by_hand, "--", label="(x > 0) * 0.5 / sqrt(x): nan for x <= 0")
right.set_ylim(-0.2, 6)
right.set_title("its derivative")
right.legend()
plt.show()
