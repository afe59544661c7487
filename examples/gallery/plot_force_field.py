"""
A force field on a list of neighbours
=====================================

Forces are the negative gradient of an energy. An energy over all pairs of n atoms is n^2 terms, nearly all
of them zero, since atoms that are far apart do not see each other. The usual remedy is a list of
neighbours, and then a hand-written gradient that adds each pair's force to both of its atoms. Here the list
is an array of indices: the energy is one line over it, and its gradient visits the same pairs.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import cKDTree

import iverson as iv

# %%
# 100 atoms on a lattice in a periodic box, with random velocities. The list has all pairs nearer than 2.5
# radii.

side, cutoff = 10, 2.5
length = 1.2 * side
rng = np.random.default_rng(0)
start = 1.2 * (np.stack(np.meshgrid(*2 * [np.arange(side)]), -1).reshape(-1, 2) + 0.5)
velocity = 0.9 * rng.normal(size=start.shape)
velocity -= velocity.mean(axis=0)


def neighbours(x):
    return iv.asarray(cKDTree(x % length, boxsize=length).query_pairs(cutoff + 0.3, output_type="ndarray").T)


# %%
# The potential of Lennard-Jones, cut and shifted. `where` leaves out pairs that have moved apart since the
# list was made; what it leaves out has no gradient.


def energy(x, pairs):
    d = x[pairs[0]] - x[pairs[1]]
    d = d - length * iv.round(d / length)  # the nearest image
    r2 = (d**2).sum(axis=1)
    s = r2**-3
    shift = cutoff**-12 - cutoff**-6
    return iv.where(r2 < cutoff**2, 4 * (s**2 - s - shift), 0.0).sum()


print(f"pairs in the list: {neighbours(start).shape[1]} of {100 * 99 // 2}")

# %%
# Ten steps of velocity Verlet are one compiled scan. Lists of another length run the same code.


@iv.jit
def advance(x, v, pairs, h=0.004):
    def step(state, _):
        x, v, force = state
        v = v + 0.5 * h * force
        x = x + h * v
        potential, slope = iv.value_and_grad(energy)(x, pairs)
        v = v - 0.5 * h * slope
        return (x, v, -slope), (potential, 0.5 * (v**2).sum())

    state = x, v, -iv.grad(energy)(x, pairs)
    (x, v, _), energies = iv.scan(step, state, length=10)
    return x, v, energies


x, v = iv.asarray(start), iv.asarray(velocity)
path, potential, kinetic = [start], [], []
for _ in range(60):
    x, v, (pot, kin) = advance(x, v, neighbours(x.numpy()))
    path.append(x.numpy())
    potential.append(pot.numpy())
    kinetic.append(kin.numpy())

# %%
# The total energy stays, although energy flows from motion to bonds. That is how one knows that the forces
# are right.

potential, kinetic = np.concatenate(potential), np.concatenate(kinetic)
total = potential + kinetic
assert np.ptp(total) < 0.02 * np.ptp(potential)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for atom in np.stack(path, 1):
    left.plot(*atom.T, lw=0.7)
left.plot(*path[-1].T, "o", ms=3)
left.set_aspect("equal")
left.set_title("ways of the atoms")
for values, name in ((potential, "potential"), (kinetic, "kinetic"), (total, "total")):
    right.plot(0.004 * np.arange(len(values)), values, label=name)
right.set_title("energy over time")
right.legend()
plt.show()
