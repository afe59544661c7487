"""Functions of sampled signals: padding, transforms, statistics.

Import rule: besides packages of lower layers, the siblings `conventions`, `entries` and `reduction`; of the
modules below, each imports only those listed before it.

- `array_padding`: `pad`.
- `fft`: discrete Fourier transforms.
- `numerics`: spacings, polynomials, distances, slopes.
- `sample_statistics`: counts, covariances, interpolation, integrals and convolution.
"""
