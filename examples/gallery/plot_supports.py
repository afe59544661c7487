"""
Supports of a Jacobian and of a Hessian
=======================================

Every value has a support: the entries that may be nonzero. `iverson.explain.sparsity` draws that of a
derivative before a number is computed, and says how many passes give it. Below: a diffusion step on a
grid, whose Jacobian needs as many passes as a stencil has colours, however large the grid is.
"""

import matplotlib.pyplot as plt

import iverson as iv

# %%
# A step of diffusion with a reaction, on a grid of 8 by 8 points.


def step(u):
    u = u.reshape((8, 8))
    padded = iv.pad(u, ((1, 1), (1, 1)))
    neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return (u + 0.1 * (neighbours - 4 * u) + u**3).reshape((64,))


u = iv.linspace(0.0, 1.0, 64)
jacobian = iv.explain.sparsity(step)(u)
print(jacobian)

# %%
# The energy of the same grid has a Hessian on the same support.

hessian = iv.explain.sparsity(iv.grad(lambda u: (step(u) * u).sum()))(u)

figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axis, found, title in zip(
    axes, (jacobian, hessian), ("Jacobian of a step", "Hessian of an energy"), strict=True
):
    axis.spy(found.pattern.toarray(), markersize=2)
    axis.set_title(f"{title}: {found.pattern.nnz} of {64 * 64} entries")
plt.show()

# %%
# The numbers are computed in a sparse layout, by these passes.

print(iv.jacobian(step, layout="csr")(u).nnz)
