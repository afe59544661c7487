"""What lowering makes of gathers: boxes, merged statements, shared buffers, loops without steps."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iverson import te
from iverson.codegen.nests import nodes
from iverson.codegen.nests.task import motion
from iverson.codegen.schedule import loop_schedule
from iverson.expr.nodes import subexpressions
from iverson.te.elimination.guarded_boxes import as_box, merged
from iverson.te.ir import interpret
from iverson.te.lowering import statement_lowering
from iverson.te.lowering.lowered_program import Fill, Run

rng = np.random.default_rng(0)


def lowered(outputs, inputs):
    """The compiled program; its results are held against the interpreter's."""
    program = te.eliminate(te.program_of(outputs, inputs))
    made = statement_lowering.lower(program)
    arrays = [rng.standard_normal(t.shape).astype(t.dtype) for t in program.inputs]
    for got, expected in zip(made(*arrays), interpret.run(program, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    return made


def gradients(out, inputs):
    head = te.placeholder(out.shape, name="H")
    found = list(te.differentiate(out, inputs, head))
    return lowered(found, list(te.program_of(found).inputs))


def kernels(made):
    return [step.kernel.phases for step in made.steps if isinstance(step, statement_lowering.Run)]


def fills(made):
    return sum(isinstance(step, Fill) for step in made.steps)


def phases_of(made):
    return tuple(
        p for step in made.steps if isinstance(step, statement_lowering.Run) for p in step.kernel.phases
    )


def loads_of(s):
    return [x for e in nodes.expressions(s) for x in subexpressions(e) if isinstance(x, nodes.Load)]


def heat(steps, n=24):
    field = t = te.placeholder((n, n), name="F")
    for k in range(steps):

        def near(y, x, t=t):
            return te.if_then_else((y >= 0) & (y < n) & (x >= 0) & (x < n), t[y, x], 0)

        t = te.compute(
            (n, n),
            lambda y, x, near=near, t=t: (
                0.6 * t[y, x] + near(y - 1, x) + near(y + 1, x) + near(y, x - 1) + near(y, x + 1)
            ),
            f"step{k}",
        )
    return field, t


def test_one_pass_for_all_reads_of_a_stencil_and_no_fill():
    field, out = heat(4)
    made = gradients(out, [field])
    assert fills(made) == 0
    assert made.source.count("# parallel") == 4


def test_a_sum_that_reaches_every_entry_comes_before_scatters():
    """An adjoint of parts at indices from data, and of the whole: no zeros are written, none are read."""
    n, m = 40, 16
    x, at = te.placeholder((n, m), name="x"), te.placeholder((n,), "int64", "at")
    k = te.reduce_axis(m)
    total = te.compute((n,), lambda i: te.sum(te.exp(x[i, k]), k), "total")
    out = te.compute((n,), lambda i: te.log(total[i]) - x[i, at[i]], "out")
    (dx,) = te.differentiate(out, [x], te.placeholder((n,), name="H"))
    made = statement_lowering.lower(te.eliminate(te.program_of([dx])))
    assert fills(made) == 0
    arrays = {"x": rng.standard_normal((n, m)), "at": rng.integers(0, m, n), "H": rng.standard_normal(n)}
    (got,) = made(*(arrays[t.name] for t in made.program.inputs))
    e = np.exp(arrays["x"])
    expected = e / e.sum(1, keepdims=True) - np.eye(m)[arrays["at"]]
    np.testing.assert_allclose(got, arrays["H"][:, None] * expected, rtol=1e-12, atol=1e-14)


def test_temporaries_pass_their_buffers_on():
    field, out = heat(6)
    made = lowered([out], [field])
    assert len({b.name for b in made.buffers.values()}) == 4  # input, output, and two in turn


def conv(stride, dilation, taps=3, n=40):
    a, k = te.placeholder((2, 3, n), name="A"), te.placeholder((4, 3, taps), name="K")
    c, x = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, taps), "x")
    m = (n - dilation * (taps - 1) - 1) // stride + 1
    read = lambda b, f, w: a[b, c, stride * w + dilation * x] * k[f, c, x]
    return [a, k], te.compute((2, 4, m), lambda b, f, w: te.sum(read(b, f, w), [c, x]), "C")


def test_a_gather_that_nearly_fills_its_box_runs_over_the_box():
    inputs, out = conv(1, 1)
    head = te.placeholder(out.shape, name="H")
    program = te.eliminate(te.differentiate(out, inputs, head))
    image = program.statements[0]
    assert image.walk is not None
    assert as_box(image).walk is None
    assert fills(gradients(out, inputs)) == 0
    strided, out = conv(4, 1)
    program = te.eliminate(te.differentiate(out, strided, te.placeholder(out.shape, name="H")))
    assert as_box(program.statements[0]).walk is not None  # the box is four times what is visited


def test_strides_and_dilations_leave_no_loop_with_a_step():
    for stride, dilation in ((3, 2), (2, 3), (2, 2), (3, 1)):
        inputs, out = conv(stride, dilation, taps=5)
        kernels = [step.kernel for step in gradients(out, inputs).steps if isinstance(step, Run)]
        loops = [s for k in kernels for s in nodes.statements(k.phases) if isinstance(s, nodes.Loop)]
        assert all(s.step == 1 for s in loops if s.mark != "parallel")


def test_a_guard_alone_does_not_keep_a_box_inside():
    image = te.placeholder((3, 8), name="I")
    at = lambda w, k: te.clamp((w + k) // 2, 0, 7)
    up = te.compute((3, 16), lambda b, w: 0.25 * image[b, at(w, -1)] + 0.75 * image[b, at(w, 1)], "U")
    gradients(up, [image])


def test_merged_keeps_reductions_and_scatters_apart():
    a, i = te.placeholder((5,), name="A"), te.placeholder((5,), "int64", "i")
    out = te.compute((5,), lambda k: a[i[k]] * a[k] + a[k], "O")
    program = te.eliminate(te.differentiate(out, [a], te.placeholder((5,), name="H")))
    assert sorted(s.strategy for s in merged(program.statements)) == ["gather", "scatter"]


def test_what_several_stages_add_to_the_same_part_is_one_pass():
    z = te.placeholder((3, 16), name="Z")
    heads = [te.placeholder((3, 8), name=f"H{k}") for k in range(3)]
    stages = [
        te.compute((3, 8), lambda n, i: te.F.sin(z[n, i]) * z[n, i + 8], "P"),
        te.compute((3, 8), lambda n, i: z[n, i] * te.F.cos(z[n, i + 8]), "Q"),
        te.compute((3, 8), lambda n, i: te.F.exp(z[n, i + 8]), "R"),
    ]
    (found,) = te.differentiate(stages, z, heads)
    program = te.eliminate(te.program_of([found]))
    adjoints = [s for s in program.statements if s.tensor is not stages[2]]  # whose value its adjoint reads
    assert len(adjoints) == 5
    assert len(merged(adjoints)) == 2
    made = lowered([found], [z, *heads])
    assert sum(isinstance(s, nodes.Store) for p in kernels(made) for s in nodes.statements(p)) == 2


def test_every_other_entry_by_residues_in_one_nest():
    image = te.placeholder((6, 40), name="I")
    weight = lambda w: te.select(w % 2 < 1, 0.75, 0.25)
    up = te.compute(
        (6, 80),
        lambda b, w: (
            (1 - weight(w)) * image[b, te.clamp((w - 1) // 2, 0, 39)]
            + weight(w) * image[b, te.clamp((w + 1) // 2, 0, 39)]
        ),
        "U",
    )
    source = lowered([up], [image]).source
    assert source.count("# parallel") == 1
    assert source.count("# vector") == 2
    assert "//" not in source


def test_sums_read_under_digits_of_the_last_axis_run_along_it():
    """Each residue reads contiguously; where another axis is for lanes nothing is cut."""
    x, w = te.placeholder((3, 4, 16), name="X"), te.placeholder((4, 6, 2), name="W")
    k = te.reduce_axis((0, 4), "k")
    up = te.compute((3, 6, 32), lambda n, f, z: te.sum(x[n, k, z // 2] * w[k, f, z % 2], k), "U")
    found = list(nodes.statements(phases_of(lowered([up], [x, w]))))
    lanes = {s.var for s in found if isinstance(s, nodes.Loop) and s.mark == "vector"}
    assert sum(isinstance(s, nodes.Store) for s in found) == 2
    assert lanes
    assert {motion(r, name) for name in lanes for s in found for r in loads_of(s)} == {0, 1}
    groups = te.placeholder((3, 16), name="G")
    r, y = te.reduce_axis((0, 3), "r"), te.placeholder((3, 32, 40), name="Y")
    m = te.reduce_axis((0, 40), "m")
    sums = te.compute((32,), lambda z: te.sum(y[r, z, m] * groups[r, z // 2], (r, m)), "S")
    found = list(nodes.statements(phases_of(lowered([sums], [y, groups]))))
    assert sum(isinstance(s, nodes.Store) for s in found) == 1


def test_gradients_to_the_coordinates_of_points_share_a_pass():
    x, z = te.placeholder((20, 3), name="X"), te.placeholder((20, 3), name="Z")
    j = te.reduce_axis((0, 20), "j")
    square = lambda i: sum((x[i, d] - z[j, d]) * (x[i, d] - z[j, d]) for d in range(3))
    y = te.compute((20,), lambda i: te.sum(te.F.exp(-0.5 * square(i)), j), "Y")
    made = gradients(y, [x])
    assert made.source.count("# parallel") == 1


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (lambda i: 0, lambda i: i + 1),
        (lambda i: i, lambda i: 96),
        (lambda i: 2 * i // 3, lambda i: i + 20),
        (lambda i: i - 20, lambda i: 96 - i),
    ],
    ids=["lower", "upper", "slanted", "crossing"],
)
def test_sums_over_a_part_of_a_row_run_along_the_row(first, last):
    """Lanes read vectors, not entries one by one, whichever axis bounds which."""
    n = 96
    a, x = te.placeholder((n, n), name="A"), te.placeholder((n,), name="x")
    k = te.reduce_axis((0, n), "k")
    counts = lambda i, k: te.bracket((k >= first(i)) & (k < last(i)))
    along = te.compute((n,), lambda i: te.sum(counts(i, k) * a[i, k] * x[k], k), "along")
    across = te.compute((n,), lambda i: te.sum(counts(i, k) * a[k, i] * x[k], k), "across")
    for out in (along, across):
        made = lowered([out], [a, x])
        found = list(nodes.statements(phases_of(made)))
        lanes = {s.var for s in found if isinstance(s, nodes.Loop) and s.mark == "vector"}
        reads = [r for s in found for r in loads_of(s) if r.buffer.label == "A"]
        assert lanes
        assert 2 not in {motion(r, name) for name in lanes for r in reads}


def test_sums_of_gathered_entries_run_in_lanes_of_their_outputs():
    """An accumulator is no reduction of its own, which would keep lanes from entries that data choose."""
    x, at = te.placeholder((9, 5, 4), name="X"), te.placeholder((3, 40), "int64", "at")
    c, k = te.reduce_axis((0, 5), "c"), te.reduce_axis((0, 4), "k")
    within = lambda i: te.bracket((8 * c <= i) & (i < 8 * c + 8))
    entry = lambda b, i: te.sum(within(i) * x[te.clamp(at[b, i], 0, 8), c, k], (c, k))
    made = lowered([te.compute((3, 40), entry, "sums")], [x, at])
    found = nodes.statements(phases_of(made))
    assert [s.label for s in found if isinstance(s, nodes.Loop) and s.mark == "vector"] == ["i"]
    a, b = rng.standard_normal(x.shape).astype(x.dtype), rng.integers(0, 9, (3, 40))
    (sums,) = made(a, b)
    np.testing.assert_allclose(sums, a[b, np.arange(40) // 8].sum(-1), rtol=1e-6)


@pytest.mark.parametrize(
    ("entry", "loops"),
    [
        (lambda i, a, b: a + b, 1),
        (lambda i, a, b: b + te.select(i < 3, a, 0.0), 1),
        (lambda i, a, b: te.select(i < 3, a, 0.0) + b, 2),
        (lambda i, a, b: te.select(i < 3, a, b), 2),
    ],
    ids=["both", "one under a guard", "one under a guard, before", "one of both"],
)
def test_numbers_of_a_combined_element_are_made_by_one_loop(entry, loops):
    """Where nothing keeps one of them from being read; `lowered` compares the results."""
    greatest = te.reducer(
        lambda a, b: (te.F.maximum(a[0], b[0]), te.select(a[0] >= b[0], a[1], b[1])), (-np.inf, 0.0)
    )
    x, k = te.placeholder((6, 40), "float64", "X"), te.reduce_axis(40, "k")
    out = te.compute((6,), lambda i: entry(i, *greatest((x[i, k], x[i, k] * x[i, k] - 0.7), k)), "out")
    found = nodes.statements(phases_of(lowered([out], [x])))
    assert sum(isinstance(s, nodes.Loop) and s.label == "k" for s in found) == loops


def test_identities_have_the_precision_of_their_numbers():
    least = te.reducer(te.F.maximum, -1e30)
    x, k = te.placeholder((6, 40), "float32", "X"), te.reduce_axis(40, "k")
    lowered([te.compute((6,), lambda i: least(x[i, k], k), "out")], [x])


def test_guards_that_follow_from_others_are_dropped():
    """What is left is a mask in every lane of every point."""
    x = te.placeholder((64, 130), name="X")
    y, k = te.reduce_axis((0, 2), "y"), te.reduce_axis((0, 4), "k")

    def entry(i, j):
        reached = (2 * k <= 2 * i + y + 3) & (k <= i + 2) & (k <= i + 9)
        return te.sum(te.bracket(reached) * x[j, te.clamp(2 * i + y + 3 - 2 * k, 0, 129)], (y, k))

    made = lowered([te.compute((64, 64), entry, "R")], [x])
    conditions = [s for s in nodes.statements(phases_of(made)) if isinstance(s, nodes.If)]
    assert len(conditions) == 1


def test_equal_terms_over_one_domain_count_twice() -> None:
    """Two reads that clamps make the same: their terms of a gradient are equal, and no pieces of one."""
    x, y = te.placeholder((2, 8), name="x"), te.placeholder((1,), name="y")
    at = te.placeholder((8,), "int64", "at")

    def entry(i: Any, j: Any) -> Any:
        factors = y[te.clamp(at[j], 0, 0)] * y[te.clamp(at[7 - j], 0, 0)]
        return te.select(j >= 1, x[i, j] * factors, 0.0)

    t = te.compute((2, 8), entry, "t")
    program = te.program_of(list(te.differentiate(t, y, te.placeholder((2, 8), name="head"))))
    rng = np.random.default_rng(0)
    feed = {
        p.name: rng.normal(size=p.shape) if p.dtype.kind == "f" else np.zeros(8, int) for p in program.inputs
    }
    (found,) = statement_lowering.lower(te.eliminate(program))(*feed.values())
    total = (feed["x"] * feed["head"])[:, 1:].sum()
    np.testing.assert_allclose(found, 2 * feed["y"] * total, rtol=1e-12)


def _window(n, size, before, extent, rows, reverse, combine):
    """Products of windows of each row with weights, as far as they are inside."""
    x, w = te.placeholder((rows, n), name="X"), te.placeholder((size,), name="W")
    k = te.reduce_axis((0, size), "k")
    at = lambda i: i - k + before if reverse else i + k - before
    inside = lambda i: (at(i) >= 0) & (at(i) < n)
    products = {
        "sum": lambda r, i: te.sum(te.bracket(inside(i)) * x[r, at(i)] * w[k], k),
        "max": lambda r, i: te.max(te.select(inside(i), x[r, at(i)] * w[k], -9.0), k),
    }
    return te.compute((rows, extent), products[combine], "out"), [x, w]


@given(
    n=st.integers(1, 70),
    size=st.integers(1, 5),
    before=st.integers(-2, 6),
    extent=st.integers(1, 90),
    rows=st.sampled_from([1, 3, 40]),
    reverse=st.booleans(),
    combine=st.sampled_from(["sum", "max"]),
)
def test_windows_are_right_in_all_lanes(n, size, before, extent, rows, reverse, combine):
    out, inputs = _window(n, size, before, extent, rows, reverse, combine)
    a, b = rng.standard_normal((rows, n)), rng.standard_normal(size)
    with mock.patch.object(loop_schedule, "ENDS", 1):
        made = statement_lowering.lower(te.eliminate(te.program_of([out], inputs)))
    (found,) = made(a.astype("float32"), b.astype("float32"))
    for i in range(extent):
        at = [(i - k + before if reverse else i + k - before, k) for k in range(size)]
        terms = [a[:, j] * b[k] for j, k in at if 0 <= j < n]
        terms += [np.full(rows, -9.0)] * (combine == "max" and len(terms) < size)
        expected = (np.sum if combine == "sum" else np.max)(terms, axis=0)
        np.testing.assert_allclose(found[:, i], expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_only_the_first_and_last_vectors_test_whether_a_window_is_inside(reverse):
    out, inputs = _window(200, 5, 2, 200, 1100, reverse, "sum")
    made = statement_lowering.lower(te.eliminate(te.program_of([out], inputs)))
    found = [s for p in phases_of(made) for s in nodes.statements((p,))]
    lanes = [s for s in found if isinstance(s, nodes.Loop) and s.mark == "vector"]
    tested = [any(isinstance(x, nodes.If) for x in nodes.statements(s.body)) for s in lanes]
    assert tested == [True, False, True]
    assert lanes[1].upper.value - lanes[1].lower.value >= 128
