"""PyTorch's example of a variational autoencoder (Kingma and Welling, 2013), on the digits of scikit-learn.

| PyTorch | here |
| --- | --- |
| `class VAE(nn.Module)` with layers | `@iv.dataclass` with layers as fields |
| `torch.randn_like(std)` | `rng.standard_normal(std.shape)` |
| `F.binary_cross_entropy(x, y, reduction="sum")` | `nn.binary_cross_entropy`, with the same arguments |
| `torch.exp`, `torch.sigmoid`, `F.relu` | `iv.exp`, `iv.sigmoid`, `iv.relu` |
| `optim.Adam(model.parameters(), lr=1e-3)` | `optim.Adam(iv.tree.leaves(model), lr=1e-3)` |
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import iverson as iv
from iverson import nn, optim


@iv.dataclasses.dataclass
class VAE:
    """Encoder to a normal distribution of two axes, and decoder."""

    fc1: nn.Linear
    fc21: nn.Linear
    fc22: nn.Linear
    fc3: nn.Linear
    fc4: nn.Linear

    def encode(self, x: iv.Tensor) -> tuple[iv.Tensor, iv.Tensor]:
        h1 = iv.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: iv.Tensor, logvar: iv.Tensor, rng: iv.random.Generator) -> iv.Tensor:
        std = iv.exp(0.5 * logvar)
        eps = rng.standard_normal(std.shape)
        return mu + eps * std

    def decode(self, z: iv.Tensor) -> iv.Tensor:
        h3 = iv.relu(self.fc3(z))
        return iv.sigmoid(self.fc4(h3))

    def __call__(self, x: iv.Tensor, rng: iv.random.Generator) -> tuple[iv.Tensor, iv.Tensor, iv.Tensor]:
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar, rng)
        return self.decode(z), mu, logvar


def loss_function(recon_x: iv.Tensor, x: iv.Tensor, mu: iv.Tensor, logvar: iv.Tensor) -> iv.Tensor:
    """Reconstruction and KL divergence, summed over all elements and the batch."""
    BCE = nn.binary_cross_entropy(recon_x, x, reduction="sum")
    KLD = -0.5 * iv.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def run(epochs: int = 10) -> list[float]:
    """Average loss of each epoch."""
    rng = iv.random.default_rng(1)
    images = load_digits().images.reshape(-1, 64) / 16.0
    train_loader = iv.data.batches(np.asarray(images), 128, rng)

    layers = [
        nn.Linear(*extents, rng=rng) for extents in ((64, 100), (100, 8), (100, 8), (8, 100), (100, 64))
    ]
    model = iv.tree.map(lambda p: p.requires_grad_(), VAE(*layers))
    optimizer = optim.Adam(iv.tree.leaves(model), lr=1e-3)

    history = []
    for epoch in range(1, epochs + 1):
        train_loss = 0.0
        for data in train_loader:
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data, rng)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        history.append(train_loss / len(images))
        print(f"====> Epoch: {epoch} Average loss: {history[-1]:.4f}")
    return history


if __name__ == "__main__":
    run()
