"""The command line, as somebody calls it: what is printed, and the exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

import iverson as iv
from iverson.cli import main

MODEL = """
import iverson as iv
from iverson import autograd

def energy(x, w):
    return iv.tanh(x @ w).sum()

class Wrong(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x * x
    @staticmethod
    def backward(ctx, g):
        return g

def wrong(x):
    return Wrong.apply(x)

def several(x):
    return {"twice": 2 * x, "squares": [x * x]}

def spread(s):
    return s @ iv.ones(3)

def a_matrix():
    return (iv.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3), requires_grad=True),)

constants = [iv.ones(3)]
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "a_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    yield "a_model"
    sys.modules.pop("a_model", None)


def said(capsys, *command):
    status = main(command)
    return status, capsys.readouterr()


@pytest.mark.parametrize("module", ["a_model", "a_model.py"])
def test_check_says_that_derivatives_are_right(model, capsys, module):
    status, printed = said(capsys, "check", f"{module}:energy", "2x3", "3:float64", "--second")
    assert status == 0
    assert printed.out.splitlines() == [
        f"{module}:energy(float64 (2, 3), float64 (3,))",
        "first derivatives: right, in reverse and forward mode",
        "second derivatives: right, in reverse and forward mode",
    ]


def test_check_says_what_is_wrong_a_fact_a_line(model, capsys):
    status, printed = said(capsys, "check", f"{model}:wrong", "2")
    assert status == 1
    facts = dict(line.split(None, 1) for line in printed.out.splitlines()[2:])
    assert facts["mode"] == "reverse"
    assert facts["input"].startswith("inputs[0] at (")
    assert float(facts["analytic"]) == 1.0
    assert facts["diagnosis"] == "wrong rule"


def test_check_takes_arguments_from_the_module(model, capsys):
    status, printed = said(capsys, "check", f"{model}:spread", "--inputs", "a_matrix")
    assert (status, printed.out.splitlines()[0]) == (0, f"{model}:spread(float64 (2, 3) csr)")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["check", "a_model"], "expected MODULE:FUNCTION"),
        (["check", "no_such_module:f", "3"], "there is no module 'no_such_module'"),
        (["check", "no_such_file.py:f", "3"], "there is no module 'no_such_file.py'"),
        (["check", "a_model:energi", "3"], "has no 'energi'; is it energy?"),
        (["check", "a_model:constants", "3"], "is a list; expected a function"),
        (["check", "a_model:energy"], "expected a shape for each"),
        (["check", "a_model:energy", "3by"], "got the shape '3by'"),
        (["check", "a_model:energy", "3", "--inputs", "constants"], "expected one of them"),
        (["check", "a_model:spread", "--inputs", "constants"], "requires"),
        (["explain", "a_model:energi", "3"], "is it energy?"),
    ],
)
def test_what_makes_no_sense_is_said_on_stderr(model, capsys, command, words):
    status, printed = said(capsys, *command)
    assert status == 2
    assert printed.out in ("", "a_model:spread(float64 (3,), constant)\n")
    assert printed.err.startswith(f"iverson {command[0]}: ")
    assert words in printed.err


def test_a_module_that_fails_shows_where(tmp_path, monkeypatch, capsys):
    (tmp_path / "a_broken_model.py").write_text("import no_such_library")
    monkeypatch.chdir(tmp_path)
    status, printed = said(capsys, "check", "a_broken_model:f", "3")
    assert status == 2
    assert 'a_broken_model.py", line 1' in printed.err
    assert "No module named 'no_such_library'" in printed.err.splitlines()[-1]


def test_explain_gives_the_report_and_its_page(model, capsys, tmp_path):
    page = tmp_path / "page.html"
    status, printed = said(capsys, "explain", f"{model}:energy", "2x3", "3x4", "--grad", "--html", str(page))
    assert "\nsteps\n" not in printed.out
    assert "\nsteps\n" in said(capsys, "explain", f"{model}:energy", "2x3", "3x4", "--steps")[1].out
    work = iv.explain.report(iv.grad(lambda x, w: iv.tanh(x @ w).sum()))(iv.ones((2, 3)), iv.ones((3, 4)))
    done = next(line for line in printed.out.splitlines() if line.startswith("done"))
    assert (status, int(done.split()[1])) == (0, work.done.products)
    assert page.read_text().lstrip().startswith("<!")


def test_explain_sums_several_results(model, capsys):
    status, printed = said(capsys, "explain", "a_model:several", "3", "--grad")
    assert status == 0
    assert "done" in printed.out


@pytest.mark.parametrize("command", ["check", "explain"])
def test_what_raises_is_no_wrong_derivative(model, capsys, command):
    status, printed = said(capsys, command, "a_model:energy", "2x3", "4")
    assert status == 2
    assert "iv.tanh(x @ w)" in printed.err
    assert printed.err.splitlines()[-1].startswith("iverson.core.errors.ShapeError: matmul")


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"iverson {iv.__version__}\n"


def test_cache_says_what_is_kept_and_deletes_only_that(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path))
    (tmp_path / f"{'0a' * 32}.o").write_bytes(b"x" * 2**19)
    (tmp_path / "mine.o").write_bytes(b"an object file of somebody else")
    assert said(capsys, "cache")[1].out.startswith(f"{tmp_path}\n1 kernel, 512.0 KiB of at most 256 MiB\n")
    assert "Deleted 1 kernel, 512.0 KiB" in said(capsys, "cache", "--clear")[1].out
    assert [f.name for f in tmp_path.iterdir()] == ["mine.o"]
    monkeypatch.setenv("IVERSON_CACHE", str(tmp_path / "not made yet"))
    assert "\n0 kernels" in said(capsys, "cache")[1].out
    monkeypatch.setenv("IVERSON_CACHE", "off")
    assert "memory alone" in said(capsys, "cache")[1].out


def test_demo_prints_the_session_that_the_docstrings_test_runs(capsys):
    from iverson.cli import demo

    status, printed = said(capsys, "demo")
    script = (demo.__doc__ or "").partition("\n")[2]
    assert status == 0
    assert [x for x in printed.out.splitlines() if x] == [x for x in script.splitlines() if x]


def test_bench_measures(capsys):
    status, printed = said(capsys, "bench", "--seconds", "0.001")
    head, *rows = printed.out.splitlines()
    assert (status, head.split()) == (0, ["iverson", "numpy"])
    assert len(rows) > 5
    assert all(row.split()[-1] in ("us", "ms", "s", "-") for row in rows)


def test_the_module_runs():
    found = subprocess.run(
        [sys.executable, "-m", "iverson", "info"], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(f"iverson    {iv.__version__} (")
