"""
A Kalman smoother, and its noise found by gradients
===================================================

A position is measured with noise, in some steps not at all. The Kalman filter goes forward and says what is
known from the measurements so far; the smoother goes back and adds what came later. Both need the variance
of the noise, which nobody knows. The filter also gives the likelihood of all measurements, and its gradient
in these variances is the gradient of a loop: `iverson.scan`, differentiated and compiled as one call.
"""

import matplotlib.pyplot as plt
import numpy as np

import iverson as iv
from iverson.interop.scipy import minimize

# %%
# The state is position and velocity. A gap of 25 steps has no measurement.

steps = 150
transition = iv.asarray([[1.0, 1.0], [0.0, 1.0]])
shape_of_noise = iv.asarray([[1 / 3, 1 / 2], [1 / 2, 1.0]])  # a force that is white noise
rng = np.random.default_rng(3)
velocity = np.cumsum(0.15 * rng.normal(size=steps))
position = np.cumsum(velocity)
seen = np.ones(steps, bool)
seen[70:95] = False
measured = iv.asarray(np.where(seen, position + rng.normal(size=steps), 0.0))
is_seen = iv.asarray(seen)


# %%
# A step of the filter: predict, compare, correct. `where` chooses between the corrected state and the
# predicted one, so that a measurement that is not there has no influence and no gradient.


def filtered(log_variances):
    force, noise = iv.exp(log_variances[0]), iv.exp(log_variances[1])

    def step(state, measurement):
        mean, covariance = state
        y, there = measurement
        mean = transition @ mean
        covariance = transition @ covariance @ transition.mT + force * shape_of_noise
        variance = covariance[0, 0] + noise
        gain = covariance[:, 0] / variance
        surprise = y - mean[0]
        likelihood = -0.5 * (surprise**2 / variance + iv.log(2 * np.pi * variance))
        after = mean + gain * surprise, covariance - gain[:, None] * covariance[0]
        new = tuple(iv.where(there, a, b) for a, b in zip(after, (mean, covariance), strict=True))
        return new, (new, (mean, covariance), iv.where(there, likelihood, 0.0))

    start = iv.zeros(2), 10.0 * iv.eye(2)
    return iv.scan(step, start, (measured, is_seen))[1]


@iv.jit
def loss(log_variances):
    return -filtered(log_variances)[2].sum()


fit = minimize(loss, iv.zeros(2), method="BFGS")
force, noise = np.exp(fit.x.numpy())
print(f"deviations: force {force**0.5:.3f} (0.15 is true), measurement {noise**0.5:.2f} (1 is true)")

# %%
# The smoother (Rauch, Tung and Striebel, 1965) is a scan over the same steps backwards.


@iv.jit
def smoothed(log_variances):
    (means, covariances), (predicted, spreads), _ = filtered(log_variances)

    def step(later, at):
        mean, covariance, next_mean, next_covariance = at
        gain = iv.linalg.solve(next_covariance, transition @ covariance).mT
        new = (
            mean + gain @ (later[0] - next_mean),
            covariance + gain @ (later[1] - next_covariance) @ gain.mT,
        )
        return new, new

    last = means[-1], covariances[-1]
    _, states = iv.scan(step, last, (means[:-1], covariances[:-1], predicted[1:], spreads[1:]), reverse=True)
    return tuple(iv.concat([s, end[None]]) for s, end in zip(states, last, strict=True))


(forward, spread), *_ = filtered(fit.x)
both, narrow = smoothed(fit.x)
assert (narrow[:, 0, 0] <= spread[:, 0, 0] + 1e-12).all()  # it knows more

figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
time = np.arange(steps)
axis.plot(time[seen], measured.numpy()[seen], ".", label="measured")
axis.plot(time, position, lw=1, label="truth")
for mean, covariance, name in ((forward, spread, "filter"), (both, narrow, "smoother")):
    middle, width = mean[:, 0].numpy(), 2 * np.sqrt(covariance[:, 0, 0].numpy())
    (line,) = axis.plot(time, middle, lw=1.2, label=name)
    axis.fill_between(time, middle - width, middle + width, color=line.get_color(), alpha=0.2, lw=0)
axis.legend()
axis.set_title("position, with two standard deviations")
plt.show()
