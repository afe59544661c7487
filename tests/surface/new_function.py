"""What follows from the record of log_cosh, which `test_record` adds to the copy this runs in."""

from __future__ import annotations

import doctest
import math

import numpy as np

import iverson as iv
from iverson import te, testing, transforms
from iverson.ops import TABLE
from tests.conformance import product
from tools import stubs

X = np.array([-800.0, -0.5, 0.0, 0.25, 3.0])
Y = np.array([math.log(math.cosh(x)) if abs(x) < 700 else abs(x) - math.log(2) for x in X.tolist()])


def close(found: object, wanted: object) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-14, atol=1e-16)


def the_function() -> None:
    assert "log_cosh" in iv.__all__
    assert "log_cosh" in dir(iv)
    close(iv.log_cosh(X), Y)
    close(np.asarray(iv.log_cosh(0.25)), Y[3])


def the_method() -> None:
    close(iv.asarray(X).log_cosh(), Y)
    m = iv.masked_tensor(X, X > 0).log_cosh()
    assert m.get_mask().tolist() == (X > 0).tolist()
    close(m.to_tensor(0), np.where(X > 0, Y, 0))
    assert iv.Tensor.log_cosh is iv.log_cosh
    s = iv.to_sparse(iv.asarray(X)).log_cosh()
    assert s.layout == "coo"  # zero-preserving
    close(s, Y)


def the_documentation() -> None:
    text = iv.log_cosh.__doc__
    assert text.startswith("log(cosh(x)), without overflow.")
    assert all(f"{title}\n{'-' * len(title)}\n" in text for title in ("Parameters", "Returns", "Examples"))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(iv.log_cosh, "log_cosh", globs={"log_cosh": iv.log_cosh}):
        runner.run(test)
    assert runner.summarize().attempted == 2
    assert runner.summarize().failed == 0


def the_derivatives() -> None:
    x = iv.asarray(X)
    close(transforms.grad(lambda x: x.log_cosh().sum())(x), np.tanh(X))
    close(transforms.jvp(iv.log_cosh, (x,), (iv.ones_like(x),))[1], np.tanh(X))
    assert TABLE["log_cosh"].samples is not None


def the_machine_code() -> None:
    """The body is compiled: no step of the program is one of Python."""
    compiled = iv.jit(lambda x: iv.sum(iv.log_cosh(2 * x)))
    close(compiled(iv.asarray(X / 2)).numpy(), Y.sum())
    close(iv.jit(iv.grad(compiled))(iv.asarray(X / 2)), 2 * np.tanh(X))
    report = iv.explain.report(compiled)(iv.asarray(X))
    assert {step.kind for step in report._found.program} == {"native"}


def the_tensor_expression() -> None:
    a = te.placeholder((5,), name="a")
    y = te.compute((5,), lambda i: te.log_cosh(a[i]) * 2.0)
    assert "log_cosh" in te.program_text(te.program_of([y]))
    twice = te.op(lambda a: te.compute((5,), lambda i: te.log_cosh(a[i]) * 2.0), name="twice_log_cosh")
    x = iv.asarray(X)
    close(twice(x), 2 * Y)
    close(transforms.grad(lambda x: twice(x).sum())(x), 2 * np.tanh(X))


def the_conformance_test() -> None:
    layouts = [layout for name, layout in product.cells() if name == "log_cosh"]
    assert {"strided", "zero", "box", "coo", "csr"} <= set(layouts)
    assert all(product.drawn("log_cosh", layout) for layout in layouts)
    for sample in product.samples_of(TABLE["log_cosh"], "float64"):
        inputs = tuple(iv.asarray(x, requires_grad=True) for x in sample.args)
        assert testing.gradcheck(iv.log_cosh, inputs)
        assert testing.gradgradcheck(iv.log_cosh, inputs)


def the_stubs() -> None:
    for path, write in stubs.STUBS.items():
        assert ("def log_cosh(" in write()) is (path.name not in ("_special.pyi", "functional_forms.pyi"))


if __name__ == "__main__":
    the_function()
    the_method()
    the_documentation()
    the_derivatives()
    the_machine_code()
    the_tensor_expression()
    the_conformance_test()
    the_stubs()
