"""Whole programs from the tutorials of PyTorch, JAX and Equinox, ported by renames alone.

- `polynomial`: PyTorch, "Learning PyTorch with Examples": a polynomial, then one with a custom Function.
- `quickstart`: PyTorch, "Quickstart": a classifier of images, with batches, a training loop and a file.
- `autoencoder`: PyTorch's example of a variational autoencoder.
- `classifier`: JAX's example of a classifier written from scratch.
- `gaussian_process`: JAX's example of a Gaussian process whose parameters are fitted.
- `spirals`: Equinox's example of a recurrent network that tells two directions of rotation apart.

Each begins with the table of its renames. Data are generated, or come with scikit-learn.
"""
