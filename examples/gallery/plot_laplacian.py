"""
The Laplacian of a network: an equation on a disc
=================================================

A network that solves a partial differential equation is trained on its second derivatives, at every point
and in every step. A Hessian by nested gradients computes all of them and throws most of them away.
`iverson.laplacian` carries value, gradient and the *sum* of the second derivatives through the network
once: d + 2 rows in each layer.

The equation: -(u_xx + u_yy) = f in the unit disc, with u = 0 on its edge.
"""

import matplotlib.pyplot as plt
import numpy as np

import iverson as iv
from iverson.interop.scipy import minimize

# %%
# To see the error we choose a solution, and f follows from it by the same operator. A factor that is 0 on the
# edge makes both vanish there.


def solution(x):
    return (1 - (x**2).sum()) * iv.sin(4 * x[0] + x[1]) * iv.exp(x[1])


def network(p, x):
    hidden = iv.tanh(x @ p["w1"] + p["b1"])
    return (1 - (x**2).sum()) * (iv.tanh(hidden @ p["w2"] + p["b2"]) @ p["w3"])


rng = iv.random.default_rng(0)
shapes = {"w1": (2, 20), "b1": (20,), "w2": (20, 20), "b2": (20,), "w3": (20,)}
weights = {name: rng.normal(size=s) / s[0] ** 0.5 for name, s in shapes.items()}

# %%
# Functions are of one point; `vmap` takes them at all points. The loss and its gradient, a third
# derivative, are one compiled call.

radius, angle = iv.sqrt(rng.random(250)), 2 * np.pi * rng.random(250)
points = iv.stack([radius * iv.cos(angle), radius * iv.sin(angle)], axis=1)
f = iv.vmap(lambda x: -iv.laplacian(solution)(x)[1])(points)


@iv.jit
def loss(p):
    laplacian = iv.vmap(lambda x: iv.laplacian(lambda x: network(p, x))(x)[1])(points)
    return ((laplacian + f) ** 2).mean()


start, unravel = iv.ravel_pytree(weights)
course = []
found = minimize(
    lambda v: loss(unravel(v)),
    start,
    method="L-BFGS-B",
    options={"maxiter": 250},
    callback=lambda intermediate_result: course.append(intermediate_result.fun),
)

# %%
# Work is counted, not guessed: products of 4 rows a layer, for a function of two variables.

with iv.explain.count() as work:
    iv.laplacian(network, 1)(weights, points[0])
print("shapes of products:", sorted(work.product_shapes))

# %%
# The solution, and where it is wrong.

side = np.linspace(-1, 1, 120)
grid = np.stack(np.meshgrid(side, side), -1)
inside = (grid**2).sum(-1) < 1
at = iv.asarray(grid[inside])
u = iv.vmap(lambda x: network(unravel(found.x), x))(at)
error = u - iv.vmap(solution)(at)
assert abs(error).max().item() < 0.05

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for axis, values, title in zip(axes, (u, error), ("u", "error of u"), strict=False):
    image = np.full(inside.shape, np.nan)
    image[inside] = values.numpy()
    picture = axis.imshow(image, origin="lower", cmap="RdBu_r")
    figure.colorbar(picture)
    axis.set_title(title)
    axis.set_axis_off()
axes[2].semilogy(course)
axes[2].set_title("loss by iteration")
plt.show()
