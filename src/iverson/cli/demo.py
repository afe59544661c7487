"""demo: a session of a minute that shows what Iverson does.

>>> import iverson as iv

A zero stays a zero: what a choice leaves out is not multiplied, by inf neither.

>>> x = iv.asarray([0.0, 4.0], requires_grad=True)
>>> iv.where(x > 0, iv.sqrt(x), 0.0).sum().backward()
>>> x.grad
iverson.Tensor([0.  , 0.25])

The second derivative of a network of ReLUs takes no matrix product.

>>> w1, w2 = iv.ones((64, 256)), iv.ones((256, 1))
>>> def network(x):
...     return (iv.relu(x @ w1) @ w2).sum()
>>> second = iv.grad(lambda x: iv.grad(network)(x).sum())
>>> report = iv.explain.report(second)(iv.ones((8, 64)))
>>> report.done.products
0

What was never measured does not exist: the mean of a column is that of its entries.

>>> there = [[True, False], [True, True]]
>>> measured = iv.masked_tensor([[1.0, iv.nan], [3.0, 4.0]], there, requires_grad=True)
>>> (measured.mean(axis=0) ** 2).sum().backward()
>>> measured.grad
iverson.MaskedTensor([[2., --],
                      [2., 8.]])

A sparse matrix is a tensor: its gradient is stored where it is.

>>> s = iv.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), requires_grad=True)
>>> iv.autograd.grad((s * s).sum(), s)
iverson.Tensor([[0., 0., 6.],
                [8., 0., 0.]], layout='csr')

An op in index notation, compiled, with all its derivatives.

>>> from iverson import te
>>> @te.op
... def correlate(x, w):
...     k = te.reduce_axis((0, w.shape[0]))
...     return te.compute((x.shape[0] - w.shape[0] + 1,), lambda i: te.sum(w[k] * x[i + k], axis=k))
>>> w = iv.asarray([1.0, -1.0])
>>> iv.hessian(lambda x: (correlate(x, w) ** 2).sum())(iv.arange(4.0))
iverson.Tensor([[ 2., -2.,  0.,  0.],
                [-2.,  4., -2.,  0.],
                [ 0., -2.,  4., -2.],
                [ 0.,  0., -2.,  2.]])
"""

from __future__ import annotations

import argparse
import doctest
import sys
from typing import Any


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(options: argparse.Namespace) -> int:
    """Run the session above and print it, with the results of this run; the exit status."""
    session: dict[str, Any] = {"__name__": "demo"}
    hook = sys.displayhook
    sys.displayhook = lambda value: print(repr(value)) if value is not None else None
    try:
        _, _, script = (__doc__ or "").partition("\n")
        for example in doctest.DocTestParser().parse(script):
            if isinstance(example, str):
                print(f"\n{example.strip()}\n" if example.strip() else "", end="")
                continue
            first, *continuations = example.source.rstrip().split("\n")
            print("\n".join([f">>> {first}", *(f"... {line}" for line in continuations)]))
            exec(compile(example.source, "<demo>", "single"), session)
    finally:
        sys.displayhook = hook
    return 0
