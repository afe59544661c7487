"""float16 and bfloat16 are dtypes of storage: every op on them is the op on float32, rounded once.

All ops of the table, their samples, a layout of each; derivatives have the dtype of their input.
"""

from __future__ import annotations

import itertools
import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest

from iverson.autograd.api import variable
from iverson.core import dtypes
from iverson.core.counting.factorisations import FACTORISATIONS
from iverson.core.dispatch import bind
from iverson.core.errors import DTypeError
from iverson.handles import Tensor
from iverson.kernels.kernel_registry import in_dtype
from iverson.layouts import layout_of, layouts, to_strided
from iverson.ops import TABLE
from iverson.ops.linear_algebra.decomposition_ops import ITERATIONS
from tests.conformance.product import EXHAUSTIVE, SEED, each, floating, in_layout, ops, samples_of, some
from tests.conformance.test_table import as_tuple, pull

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::iverson.core.errors.DensifyWarning")
]
pytest.importorskip("ml_dtypes")

HALVES = ("float16", "bfloat16")
SINGLE = np.dtype("float32")
#: Ops that NumPy and PyTorch refuse too: LAPACK has no routine in half precision.
REFUSED = frozenset((*FACTORISATIONS, *ITERATIONS))


def layouts_for(name: str) -> list[str]:
    """The strided layout and one of the others, drawn for the op; all of them in an exhaustive run."""
    others = [layout.name for layout in layouts() if layout.name != "strided"]
    return [
        "strided",
        *(others if EXHAUSTIVE else [others[(SEED + zlib.crc32(name.encode())) % len(others)]]),
    ]


def pairs_of(name: str, dtype: Any, layout: str) -> Any:
    """The samples of an op with entries in half precision, and the same entries in single precision."""
    rng = np.random.default_rng(SEED)
    for sample in samples_of(TABLE[name], "float64"):
        at = floating(sample)
        if at:
            halves, wide = list(sample.args), list(sample.args)
            for k in at:
                held, _ = in_layout(sample.args[k].astype(SINGLE), layout, rng)
                halves[k] = in_dtype(held, dtype)
                wide[k] = in_dtype(halves[k], SINGLE)
            yield sample, at, halves, wide


@pytest.mark.parametrize("name", ops())
def test_an_op_is_that_of_single_precision_rounded_once(name):
    each(partial(op_is_rounded_once, name), some(f"{name} half", HALVES))


def op_is_rounded_once(name, dtype):
    half = dtypes.as_dtype(dtype)
    for layout in layouts_for(name):
        for sample, _, *both in pairs_of(name, half, layout):
            if name in REFUSED and layout == "strided":
                with pytest.raises(DTypeError, match=f"{name}.*{dtype}.*astype"):
                    bind(TABLE[name], tuple(both[0]), dict(sample.params))
            if name not in REFUSED:
                found, expected = (as_tuple(bind(TABLE[name], tuple(x), dict(sample.params))) for x in both)
                for f, e in zip(found, expected, strict=True):
                    assert f.shape == e.shape
                    layout_of(f._value).check(f._value)
                    rounded_once(f, e, half if e.dtype == SINGLE and name != "astype" else e.dtype)


def rounded_once(found: Any, expected: Any, dtype: Any) -> None:
    assert found.dtype == dtype
    f, e = to_strided(found._value), to_strided(expected._value).astype(dtype)
    np.testing.assert_array_equal(f.astype("complex128"), e.astype("complex128"))


@pytest.mark.parametrize("name", [n for n in ops() if TABLE[n].differentiable and n not in REFUSED])
def test_a_cotangent_has_the_dtype_of_its_input(name):
    """And is that of single precision, to the rounding of the steps of its rule."""
    each(partial(cotangent_has_the_dtype_of_its_input, name), HALVES)


def cotangent_has_the_dtype_of_its_input(name, dtype):
    half = dtypes.as_dtype(dtype)
    eps = float(dtypes.finfo(half).eps)
    for sample, at, *both in itertools.islice(pairs_of(name, half, "strided"), 1):
        found, expected = (gradients(TABLE[name], sample, at, args) for args in both)
        for k, f, e in zip(at, found, expected, strict=True):
            assert f.dtype == half, k
            f, e = (to_strided(x._value).astype("float64") for x in (f, e))
            bound = 16 * eps * (np.abs(e) + np.abs(e).max(initial=0))
            assert (np.abs(f - e) <= bound).all() or not np.isfinite(e).all(), (k, f, e)


def gradients(op: Any, sample: Any, at: Any, args: Any) -> Any:
    variables = [variable(a) if k in at else a for k, a in enumerate(args)]
    out = as_tuple(bind(op, tuple(variables), dict(sample.params)))
    out = [o for o in out if dtypes.is_inexact(o.dtype)]
    rng = np.random.default_rng(SEED)
    seeds = [Tensor(rng.integers(1, 5, o.shape).astype(o.dtype)) for o in out]
    return pull(out, seeds, [variables[k] for k in at], create_graph=False)
