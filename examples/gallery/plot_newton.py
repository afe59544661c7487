"""
Newton's method with a sparse Jacobian
======================================

An equation on a grid of 40 by 40 points has a Jacobian of 2,560,000 entries, of which 7,840 are not zero,
as each point sees its four neighbours. Whoever wants Newton's method must write these entries down by hand,
or pay 1,600 passes for them. Here the pattern follows from the program: `iverson.explain.sparsity` finds it
before a number is computed, colours the columns, and a few passes give all entries, exactly.

The equation of Bratu describes a body that heats itself: -(u_xx + u_yy) = c exp(u), with u = 0 at the edge.
"""

import matplotlib.pyplot as plt

import iverson as iv

n, c = 40, 6.0


def residual(u):
    inside = u.reshape((n, n))
    padded = iv.pad(inside, ((1, 1), (1, 1)))
    neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return ((4 * inside - neighbours) * (n + 1) ** 2 - c * iv.exp(inside)).reshape((n * n,))


found = iv.explain.sparsity(residual)(iv.zeros(n * n))
print(found)

# %%
# Each iteration is these passes, compiled to one call, and one sparse solve. The number of correct digits
# doubles, as it does only where the Jacobian is right.

jacobian = iv.jit(iv.jacobian(residual, layout="csc"))
u, sizes = iv.zeros(n * n), []
for _ in range(6):
    r = residual(u)
    sizes.append(abs(r).max().item())
    u = u - iv.linalg.spsolve(jacobian(u), r)
assert sizes[-1] < 1e-8 * sizes[0]

# %%
# The corner of the pattern shows the grid: the diagonal, the neighbours beside it, and those of the rows
# above and below, 40 entries away.

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
axes[0].spy(found.pattern.toarray()[:120, :120], markersize=1.5)
axes[0].set_title("Jacobian: its first 120 rows")
axes[1].semilogy(sizes, "o-")
axes[1].set_title("largest residual by iteration")
picture = axes[2].imshow(u.reshape((n, n)).numpy(), cmap="inferno")
axes[2].set_title("temperature")
axes[2].set_axis_off()
figure.colorbar(picture)
plt.show()

# %%
# `iverson.hessian` has the same argument, for the energy of such an equation. The tutorial on sparse
# Jacobians goes on from here.
