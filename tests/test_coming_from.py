"""The tables of docs/coming-from.md are true: both names of a row, called alike, give the same.

What a row says in words is asserted with it, where it can be.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.special

import iverson as iv
from iverson.interop import scipy as bridge
from tests.test_readme import table_names

X = np.array([0.5, 2.0, 3.0])
M = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0]])


def cubed(x):
    return (x * x * x).sum()


def same(theirs, ours):
    def plain(x):
        x = getattr(x, "todense", lambda: x)() if not isinstance(x, (tuple, list)) else x
        if isinstance(x, (tuple, list)):
            return [plain(part) for part in x]
        return np.asarray(x.detach() if hasattr(x, "detach") else x)

    theirs, ours = plain(theirs), plain(ours)
    for a, b in zip(theirs, ours, strict=True) if isinstance(theirs, list) else [(theirs, ours)]:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def of_scipy(_):
    s = scipy.sparse.csr_array(M)
    ours = iv.from_scipy(s)
    decay = bridge.solve_ivp(lambda t, y: -y, (0.0, 1.0), iv.asarray(X), rtol=1e-8)
    return {
        "scipy.sparse.csr_array": (s, iv.to_scipy(ours)),
        "scipy.sparse.coo_array.tocsr": (s, iv.to_layout(ours.to_layout("coo"), "csr").to_dense()),
        "scipy.sparse.kron": (scipy.sparse.kron(s, s), iv.kron(ours, ours).to_dense()),
        "scipy.sparse.linalg.spsolve": (
            scipy.sparse.linalg.spsolve(s.tocsc(), X),
            iv.spsolve(ours, iv.asarray(X)),
        ),
        "scipy.sparse.linalg.splu": (
            scipy.sparse.linalg.splu(s.tocsc()).solve(X),
            iv.linalg.factorized(ours)(iv.asarray(X)),
        ),
        "scipy.linalg.solve_triangular": (
            scipy.linalg.solve_triangular(M, X[:, None]),
            iv.solve_triangular(M, X[:, None], lower=False),
        ),
        "scipy.special.gammainc": (scipy.special.gammainc(X, 1.5), iv.special.gammainc(X, 1.5)),
        "scipy.optimize.minimize": (
            scipy.optimize.minimize(lambda x: ((x - X) ** 2).sum(), np.zeros(3)).x,
            bridge.minimize(lambda x: ((x - X) ** 2).sum(), iv.zeros(3)).x,
        ),
        "scipy.integrate.solve_ivp": (
            scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), X, rtol=1e-8).y[:, -1],
            decay.y[:, -1],
        ),
        "scipy.optimize.check_grad": (
            scipy.optimize.check_grad(cubed, lambda x: 3 * x * x, X) < 1e-5,
            iv.testing.gradcheck(cubed, (iv.asarray(X, requires_grad=True),)),
        ),
    }


def of_torch(folder):
    torch = pytest.importorskip("torch")
    t, x = torch.tensor(X, requires_grad=True), iv.asarray(X, requires_grad=True)
    cubed(t).backward()
    cubed(x).backward()
    csr = [0, 1, 2], [2, 0], [3.0, 4.0]
    w, b, mask = np.ones((2, 3)), np.ones(2), [False, True, True]
    torch.save(t.detach(), folder / "theirs")
    iv.save(folder / "ours", x.detach())

    def twice(library):
        class Twice(library.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                return 2 * g

        return Twice.apply

    linear, layer = torch.nn.Linear(3, 2).double(), iv.nn.Linear(3, 2, rng=iv.random.default_rng(0))
    layer.weight, layer.bias = (iv.asarray(p.detach().numpy()) for p in linear.parameters())
    table, rows = np.zeros((4, 2)), np.array([1, 1, 3])
    dense = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=False, sparse=True)
    ours = iv.asarray(table, requires_grad=True)
    lazy, adam = torch.optim.SparseAdam(dense.parameters(), lr=0.1), iv.optim.Adam([ours], lr=0.1)
    for _ in range(2):
        lazy.zero_grad()
        (dense(torch.tensor(rows)) - 1).pow(2).sum().backward()
        lazy.step()
        adam.zero_grad()
        ((iv.embedding(iv.asarray(rows), ours) - 1) ** 2).sum().backward()
        adam.step()
    assert iv.asarray([1.0]).dtype == iv.float64
    return {
        "torch.tensor": (torch.tensor(X), iv.asarray(X)),
        "torch.autograd.grad": (torch.autograd.grad(cubed(t), t)[0], iv.autograd.grad(cubed(x), x)),
        "torch.Tensor.backward": (t.grad, x.grad),
        "torch.autograd.Function": (twice(torch)(t), twice(iv)(x)),
        "torch.autograd.gradcheck": (
            torch.autograd.gradcheck(cubed, (t,)),
            iv.testing.gradcheck(cubed, (x,)),
        ),
        "torch.func.vmap": (torch.func.vmap(cubed)(torch.tensor(M)), iv.vmap(cubed)(iv.asarray(M))),
        "torch.func.jacrev": (
            torch.func.jacrev(lambda x: x * x)(torch.tensor(X)),
            iv.jacobian(lambda x: x * x)(iv.asarray(X)),
        ),
        "torch.compile": (cubed(torch.tensor(X)), iv.jit(cubed)(iv.asarray(X))),
        "torch.sparse_csr_tensor": (
            torch.sparse_csr_tensor(*csr, (2, 3), check_invariants=True).to_dense(),
            iv.sparse_csr_tensor(*csr, (2, 3)).to_dense(),
        ),
        "torch.masked.masked_tensor": (
            torch.masked.masked_tensor(torch.tensor(X), torch.tensor(mask)).mean().get_data(),
            iv.masked_tensor(X, mask).mean().to_tensor(0),
        ),
        "torch.cat": (torch.cat([t, t], dim=0), iv.concat([x, x], axis=0)),
        "torch.nn.functional.linear": (
            torch.nn.functional.linear(t, torch.tensor(w), torch.tensor(b)),
            iv.nn.linear(x, w, b),
        ),
        "torch.nn.Linear": (linear(t), layer(x)),
        "torch.utils.data.DataLoader": (
            [b for (b,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(t.detach()), 2)],
            list(iv.data.batches(x.detach(), 2)),
        ),
        "torch.save": (torch.load(folder / "theirs"), iv.load(folder / "ours")),
        "torch.optim.SparseAdam": (dense.weight, ours),
    }


def of_jax(_):
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.flatten_util")
    jet = pytest.importorskip("jax.experimental.jet").jet
    a, x = jax.numpy.asarray(X), iv.asarray(X)

    def step(carry, y):
        return carry + y, carry * y

    tree = {"a": np.ones(2), "b": [np.zeros(1)]}
    assert iv.asarray([1.0]).dtype == iv.float64
    assert iv.jacobian(lambda x: x * x, layout="csr")(x).layout == "csr"

    @jax.custom_vjp
    def twice(x):
        return 2 * x

    twice.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

    def thrice(library):
        f = library.custom_jvp(lambda x: 2 * x)
        f.defjvp(lambda primals, tangents: (2 * primals[0], 3 * tangents[0]))
        return library.grad(lambda x: f(x).sum())

    ours = iv.custom_vjp(lambda x: 2 * x)
    ours.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))
    with jax.disable_jit(), iv.disable_jit():
        as_python = jax.jit(cubed)(a), iv.jit(cubed)(x)

    seeded = [iv.random.default_rng(0).standard_normal(3) for _ in "ab"]
    return {
        "jax.numpy.asarray": (a, x),
        "jax.grad": (jax.grad(cubed)(a), iv.grad(cubed)(x)),
        "jax.jvp": (jax.jvp(cubed, (a,), (a,)), iv.jvp(cubed, (x,), (x,))),
        "jax.vjp": (jax.vjp(cubed, a)[1](1.0), iv.vjp(cubed, x)[1](iv.asarray(1.0))),
        "jax.jacrev": (jax.jacrev(lambda x: x * x)(a), iv.jacobian(lambda x: x * x)(x)),
        "jax.hessian": (jax.hessian(cubed)(a), iv.hessian(cubed)(x)),
        "jax.experimental.jet.jet": (
            jet(jax.numpy.exp, (a,), ((a, a * 0),))[1][1],
            iv.jet(iv.exp, (x,), ([x, x * 0],), scaled=True)[1][1],
        ),
        "jax.jit": (jax.jit(cubed)(a), iv.jit(cubed)(x)),
        "jax.vmap": (jax.vmap(cubed)(M), iv.vmap(cubed)(iv.asarray(M))),
        "jax.lax.scan": (jax.lax.scan(step, a[0] * 0, a), iv.scan(step, iv.asarray(0.0), x)),
        "jax.lax.cond": (
            jax.lax.cond(a[0] > 1, cubed, lambda x: x.sum(), a),
            iv.cond(x[0] > 1, cubed, lambda x: x.sum(), x),
        ),
        "jax.custom_vjp": (
            jax.grad(lambda x: twice(x).sum())(a),
            iv.grad(lambda x: ours(x).sum())(x),
        ),
        "jax.custom_jvp": (thrice(jax)(a), thrice(iv)(x)),
        "jax.linearize": (jax.linearize(cubed, a)[1](a), iv.linearize(cubed, x)[1](x)),
        "jax.disable_jit": as_python,
        "jax.tree.map": (
            jax.tree.leaves(jax.tree.map(np.square, tree)),
            iv.tree.leaves(iv.tree.map(np.square, tree)),
        ),
        "jax.flatten_util.ravel_pytree": (
            jax.flatten_util.ravel_pytree(tree)[0],
            iv.ravel_pytree(tree)[0],
        ),
        "jax.checkpoint": (jax.grad(jax.checkpoint(cubed))(a), iv.grad(iv.checkpoint(cubed))(x)),
        "jax.random.key": tuple(seeded),  # other numbers, the same ones again
    }


PEERS = {"SciPy": of_scipy, "PyTorch": of_torch, "JAX": of_jax}


@pytest.mark.parametrize(
    "peer", ["SciPy", *(pytest.param(p, marks=pytest.mark.peers) for p in ("PyTorch", "JAX"))]
)
@pytest.mark.filterwarnings("ignore")
def test_both_names_of_a_row_give_the_same(peer, tmp_path):
    pairs = PEERS[peer](tmp_path)
    assert list(pairs) == [theirs for theirs, _ in table_names(peer)]
    for theirs, ours in pairs.values():
        same(theirs, ours)
