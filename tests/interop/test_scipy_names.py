"""Every function of SciPy on tensors that track gradients: right by its own name, right inside `use`, or
refused.
"""

from __future__ import annotations

import importlib
import threading

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.stats

import iverson as iv
from iverson.core.python.scipy_calls import counterpart
from iverson.interop import scipy as ours
from iverson.interop.scipy.door import PACKAGES
from tests.interop.probe.table import CALLS, WITHOUT_FLOATS
from tests.interop.tally import outcomes

for _module in ("special", "linalg", "stats", "signal", "solver"):
    importlib.import_module(f"tests.interop.probe.{_module}_calls")

#: By groups of SciPy's packages, how many calls are right by SciPy's own names, and in all, with those
#: inside `use`.
FLOORS = {
    "special.": (188, 205),
    "linalg.": (5, 70),
    "stats.": (56, 175),
    "signal. fft.": (59, 101),
    "ndimage. interpolate.": (0, 75),
    "optimize. integrate.": (17, 53),
    "sparse. spatial.": (6, 57),
}
#: What fails in SciPy by its own name before it asks anything of a tensor: compiled code, tests of types.
NOT_ASKED = {
    "special.lmbda", "special.riccati_jn", "special.riccati_yn", "special.pbdv_seq", "special.pbvv_seq",
    "sparse.linalg.splu", "sparse.linalg.spilu", "sparse.linalg.factorized", "stats.shapiro",
    "stats.permutation_test", "stats.multiscale_graphcorr",
}  # fmt: skip
#: What SciPy itself makes wrong by its own name, where Iverson is not asked: a search that only compares
#: values
#: gives numbers, and a formula that is 0 times inf.
BY_NAME = {"optimize.golden": "cut", "special.stdtrit": "another derivative: nan"}


@pytest.mark.peers
@pytest.mark.parametrize("packages", FLOORS)
def test_each_call_is_right_or_refused(packages: str) -> None:
    found = outcomes("tests.interop.probe.endings", *packages.split())
    for name, (by_name, inside) in found.items():
        wrong = by_name.startswith(("another", "cut"))
        assert not wrong or by_name.startswith(BY_NAME.get(name, "-")), (name, by_name)
        assert not by_name.startswith("raised") or name in NOT_ASKED, (name, by_name)
        assert inside.startswith(("right", "constant", "refused")), (name, inside)
        if inside.startswith("refused"):
            hint = ("detach()", "iverson", "expected")
            assert any(word in inside for word in hint), (name, inside)
        if by_name.startswith("refused: scipy.") and counterpart(f"scipy.{name}"):
            assert "iverson.interop.scipy." in by_name or "in place of" in by_name, (name, by_name)
    direct = sum(by_name == "right" for by_name, _ in found.values())
    right = sum("right" in pair for pair in found.values())
    assert (direct >= FLOORS[packages][0], right >= FLOORS[packages][1]) == (True, True), (
        direct,
        right,
        len(found),
    )


def test_the_list_is_complete() -> None:
    for package in PACKAGES:
        module = importlib.import_module(f"scipy.{package}")
        functions = {n for n in module.__all__ if callable(getattr(module, n))}
        called = {n.rpartition(".")[2] for n in CALLS if n.rpartition(".")[0] == package}
        assert functions - called - WITHOUT_FLOATS.get(package, set()) == set(), package


def test_counterparts_have_scipys_names() -> None:
    for package in PACKAGES:
        theirs = importlib.import_module(f"scipy.{package}")
        mine = importlib.import_module(f"iverson.interop.scipy.{package}")
        extra = {n for n in mine.__all__ if not hasattr(theirs, n)}
        assert extra <= {"Distribution"}, (package, extra)


def test_names_are_put_back() -> None:
    before = scipy.linalg.expm, scipy.stats.norm
    with ours.use(), ours.use():
        assert scipy.linalg.expm is not before[0]
    assert (scipy.linalg.expm, scipy.stats.norm) == before
    with pytest.raises(ZeroDivisionError), ours.use():
        raise ZeroDivisionError
    assert scipy.linalg.expm is before[0]


def test_arrays_pass_through() -> None:
    a = np.array([[0.0, 1.0], [0.0, 0.0]])
    with ours.use():
        assert isinstance(scipy.linalg.expm(a), np.ndarray)
        assert isinstance(scipy.stats.norm.logpdf(0.5), float)
        spline = scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])
        assert isinstance(spline, scipy.interpolate.CubicSpline)

        class Family(scipy.stats.rv_continuous):
            pass

    assert issubclass(Family, scipy.stats.rv_continuous)


def test_blocks_of_threads() -> None:
    original = scipy.linalg.expm
    start = threading.Barrier(4)
    errors = []

    def work() -> None:
        start.wait()
        try:
            for _ in range(20):
                with ours.use():
                    assert isinstance(scipy.linalg.expm(iv.eye(2)), iv.Tensor)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert scipy.linalg.expm is original


def test_errors_name_the_counterpart() -> None:
    x = iv.asarray(np.eye(2), requires_grad=True)
    with pytest.raises(iv.errors.GradientError, match=r"iverson\.interop\.scipy\.linalg\.expm"):
        scipy.linalg.expm(x)
    with pytest.raises(iv.errors.GradientError, match="there is none"):
        scipy.linalg.hessenberg(x)
    with pytest.raises(iv.errors.GradientError, match=r"iverson\.interop\.scipy\.interpolate\.CubicSpline"):
        scipy.interpolate.CubicSpline([0.0, 1.0], x)
    with pytest.raises(iv.errors.GradientError, match=r"iverson\.interop\.scipy\.stats\.gompertz"):
        scipy.stats.gompertz.logpdf(x, 1.5)


FORMATS = ("csr_array", "csc_array", "coo_array", "bsr_array", "csr_matrix")


@pytest.mark.parametrize("kind", FORMATS)
def test_sparse_operands(kind: str) -> None:
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]])
    s = getattr(scipy.sparse, kind)(dense)
    for tracked in (False, True):
        v, m = (iv.asarray(np.arange(1.0, n + 1).reshape(shape), requires_grad=tracked)
                for n, shape in ((3, (3,)), (9, (3, 3))))  # fmt: skip
        c = iv.from_scipy(s)
        for result, expected in (
            (s @ v, dense @ [1, 2, 3]),
            (v @ s, np.array([1, 2, 3]) @ dense),
            (s @ m, dense @ np.arange(1, 10).reshape(3, 3)),
            (s + m, dense + np.arange(1, 10).reshape(3, 3)),
            (m - s, np.arange(1, 10).reshape(3, 3) - dense),
            (s @ c, dense @ dense),
            (c - s, 0 * dense),
        ):
            assert isinstance(result, iv.Tensor)
            np.testing.assert_allclose(result.detach().to_dense().numpy(), expected)
        assert (s @ c).layout != "strided"
        if kind.endswith("array"):
            product = s * m
            assert product.layout != "strided"
            assert product.requires_grad is tracked
            np.testing.assert_allclose(
                product.detach().to_dense().numpy(), dense * np.arange(1, 10).reshape(3, 3)
            )
        else:
            with pytest.raises(iv.errors.ArgumentTypeError, match="use @"):
                s * m
    x = iv.asarray([1.0, 2.0, 3.0], requires_grad=True)
    np.testing.assert_allclose(iv.autograd.grad((s @ x).sum(), x).numpy(), dense.sum(axis=0))
