"""Products over a part of their box: BLAS multiplies boxes inside of the domain, and no zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iverson import te
from iverson.codegen.schedule.blas_contraction import Product
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.nodes import program_of
from iverson.te.lowering import box_products
from iverson.te.lowering.program_work import work
from iverson.te.lowering.statement_lowering import afresh, lower
from tests.conformance.product import EXHAUSTIVE

Condition = Callable[[Any, Any], Any]

SHAPES: dict[str, Condition] = {
    "lower": lambda i, k: i >= k,
    "strictly upper": lambda i, k: i < k,
    "band": lambda i, k: (i - k <= 60) & (k - i <= 50),
    "narrow band": lambda i, k: (i - k <= 3) & (k - i <= 2),
    "nearly all": lambda i, k: k <= i + 90,
    "slope": lambda i, k: 2 * k <= i + 20,
    "two bounds": lambda i, k: (i >= k) & (i + k <= 150),
}


def tensors(condition: Condition, n: int, m: int, dtype: str = "float64") -> list[Tensor]:
    """Placeholders of a structured matrix, a matrix and a cotangent; their product and its two gradients."""
    M, Y, H = (te.placeholder(s, dtype, name) for s, name in (((n, n), "M"), ((n, m), "Y"), ((n, m), "H")))
    k = te.reduce_axis(n)
    D = te.compute((n, n), lambda i, j: te.select(condition(i, j), M[i, j], 0.0), "D")
    T = te.compute((n, m), lambda i, j: te.sum(D[i, k] * Y[k, j], k), "T")
    return [M, Y, H, T, *te.differentiate(T, [M, Y], head=H)]


def lowered(condition: Condition, n: int, m: int, dtype: str = "float64") -> Any:
    M, Y, H, *outputs = tensors(condition, n, m, dtype)
    return afresh(te.eliminate(program_of(outputs, [M, Y, H])))  # type: ignore[list-item]


def products(code: Any) -> list[Product]:
    return [s for s in code.steps if isinstance(s, Product)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_products, "WORTH_BOXES", 1 << 12)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "m"), [(70, 40), (129, 33)])
def test_products_of_boxes_are_numpys(shape: str, n: int, m: int, dtype: str) -> None:
    condition = SHAPES[shape]
    code = lowered(condition, n, m, dtype)
    r = np.random.default_rng(n)
    a, y, h = (r.standard_normal(s).astype(dtype) for s in ((n, n), (n, m), (n, m)))
    mask = condition(*np.indices((n, n)))
    expected = ((a * mask) @ y, (h @ y.T) * mask, (a * mask).T @ h)
    for result in (code(a, y, h), code(a, y, h, threads=1)):  # one native call, and a call for each step
        for x, e in zip(result, expected, strict=True):
            np.testing.assert_allclose(x, e, rtol=0, atol=2e-4 if dtype == "float32" else 1e-11)
    if shape != "narrow band":
        assert products(code)
    copied = int(mask.sum()) if shape != "nearly all" else n * n
    assert 0 <= work(code, a, y, h).points - 3 * int(mask.sum()) * m <= copied + 2 * n * n


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shape", SHAPES)
def test_zeros_of_a_stage_stay_strong_between_products(shape: str) -> None:
    n, m = 70, 40
    condition = SHAPES[shape]
    mask = condition(*np.indices((n, n)))
    a = np.where(mask, 1.0, np.nan)
    y, h = np.ones((n, m)), np.ones((n, m))
    for x in lowered(condition, n, m)(a, y, h):
        assert np.isfinite(x).all()


@pytest.mark.usefixtures("small")
@given(
    st.integers(33, 90),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-60, 90)), min_size=1, max_size=3),
)
@settings(max_examples=60 if EXHAUSTIVE else 12, deadline=None)
def test_products_over_any_convex_part_are_numpys(n: int, forms: list[tuple[int, int, int]]) -> None:
    def condition(i: Any, k: Any) -> Any:
        result = None
        for a, b, c in forms:
            part = a * i + b * k + c >= 0
            result = part if result is None else result & part
        return result

    r = np.random.default_rng(n)
    a, y, h = (r.standard_normal(s) for s in ((n, n), (n, 16), (n, 16)))
    mask = condition(*np.indices((n, n)))
    expected = ((a * mask) @ y, (h @ y.T) * mask, (a * mask).T @ h)
    for x, e in zip(lowered(condition, n, 16)(a, y, h), expected, strict=True):
        np.testing.assert_allclose(x, e, rtol=0, atol=1e-11)


def test_a_large_triangle_is_mostly_products_and_a_small_one_is_loops() -> None:
    small, large = (lowered(SHAPES["lower"], n, n) for n in (64, 256))
    assert not products(small)
    multiplied = sum(np.prod([n for g in p.extents for n in g]) for p in products(large))
    assert multiplied > 0.8 * 3 * 256 * 256 * 257 / 2


def test_a_triangle_of_a_loss_is_lowered_once() -> None:
    M, Y, H, *outputs = tensors(SHAPES["lower"], 160, 160)
    program = te.eliminate(program_of(outputs, [M, Y, H]))  # type: ignore[list-item]
    assert lower(program) is lower(program)
