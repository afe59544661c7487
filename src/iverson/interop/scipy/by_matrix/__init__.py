"""Functions of SciPy that are linear in their data: products with a matrix of SciPy's.

Import rule: packages of lower layers; of the modules below, each imports only those listed before it.

- `linear_maps`: functions along an axis, and SciPy's own functions.
- `splines`: splines and interpolators.
- `spectra`: spectra and resampling of signals.
- `image_transforms`: spline filters, samples at coordinates and morphology of images.
"""
