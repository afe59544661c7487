"""Functions that transforms make are pickled by value where cloudpickle pickles functions so."""

from __future__ import annotations

import subprocess
import sys

import pytest

cloudpickle = pytest.importorskip("cloudpickle")

#: A program that pickles functions of its own, which nobody can import, and one that reads them.
WRITER = """
import sys, cloudpickle, iverson as iv
from iverson import te

@iv.jit
def named(x):
    return (x * x).sum()

scale = iv.jit(lambda x, n: x * n, static=1)

@te.op
def doubled(x):
    return te.compute(x.shape, lambda i: 2 * x[i])

FUNCTIONS = {
    "jit": iv.jit(lambda x: (x * x).sum()),
    "jit, named": named,
    "jit, called by another": lambda x: named(x),
    "jit with options": lambda x: scale(x, 3).sum(),
    "grad of jit": lambda x: iv.grad(named)(x).sum(),
    "jit of grad": iv.jit(iv.grad(lambda x: (x * x).sum())),
    "value_and_grad of jit": iv.value_and_grad(iv.jit(lambda x: (x * x).sum())),
    "vmap of jit": iv.vmap(iv.jit(lambda x: x * x)),
    "checkpoint": iv.checkpoint(lambda x: iv.sin(x).sum()),
    "te.op": doubled,
    "jit of te.op": iv.jit(lambda x: doubled(x).sum()),
}
x = iv.asarray([1.0, 2.0])
sys.stdout.buffer.write(cloudpickle.dumps({k: (f, repr(f(x))) for k, f in FUNCTIONS.items()}))
"""
READER = """
import pickle, sys, iverson as iv
x = iv.asarray([1.0, 2.0])
for name, (f, expected) in pickle.loads(sys.stdin.buffer.read()).items():
    assert repr(f(x)) == expected, name
    print(name)
"""


def test_a_process_reads_the_functions_of_another() -> None:
    written = subprocess.run([sys.executable, "-c", WRITER], capture_output=True, check=True).stdout
    read = subprocess.run([sys.executable, "-c", READER], input=written, capture_output=True, check=True)
    assert len(read.stdout.splitlines()) == 11
