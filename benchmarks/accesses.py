"""Access patterns whose gradients are mostly zeros when written as Jacobians.

TVM's own autodiff tests and the accesses that break simpler schemes, all small. Tests count the points
each gradient visits against the brute-force counts here; `benchmarks.compile_times` measures what it takes
to find them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from iverson.te.derivatives.reverse_mode import differentiate
from iverson.te.ir.expressions import Tensor
from iverson.te.ir.nodes import Compute, Program, program_of
from iverson.te.language import definitions as te


@dataclass(frozen=True)
class Case:
    """One access pattern.

    build : makes (output, the inputs to differentiate in).
    brute : counts, in plain loops, the products a gradient is made of.
    listed : the count as published, where it is.
    """

    name: str
    build: Callable[[], tuple[Compute, list[Tensor]]]
    brute: Callable[[], int]
    listed: int | None = None


def transposed_sum() -> tuple[Compute, list[Tensor]]:
    A = te.placeholder((10, 10), name="A")
    return te.compute((10, 10), lambda i, j: A[i, j] + A[j, i], "B"), [A]


def trace_of_square() -> tuple[Compute, list[Tensor]]:
    A, k = te.placeholder((10, 10), name="A"), te.reduce_axis((0, 10), "k")
    return te.compute((10,), lambda i: te.sum(A[i, k] * A[k, i], k), "B"), [A]


def convolution(
    spatial: tuple[int, ...], cin: int, cout: int, k: int, s: int, d: int, groups: int = 1
) -> Callable[[], tuple[Compute, list[Tensor]]]:
    """A convolution without padding over one to three axes, batch 1."""
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n in spatial)
    per_group, each = cin // groups, cout // groups

    def build() -> tuple[Compute, list[Tensor]]:
        X = te.placeholder((1, cin, *spatial), name="X")
        W = te.placeholder((cout, per_group, *(k,) * len(spatial)), name="W")
        c = te.reduce_axis((0, per_group), "c")
        r = [te.reduce_axis((0, k), f"r{q}") for q in range(len(spatial))]

        def entry(n, o, *at):  # type: ignore[no-untyped-def]
            where = [s * y + d * x for y, x in zip(at, r, strict=True)]
            channel = o // each * per_group + c if groups > 1 else c
            return te.sum(X[(n, channel, *where)] * W[(o, c, *r)], [c, *r])

        return te.compute((1, cout, *out), entry, "Y"), [X, W]

    return build


def convolution_terms(
    spatial: tuple[int, ...], cin: int, cout: int, k: int, s: int, d: int, groups: int = 1
) -> Callable[[], int]:
    def brute() -> int:
        count = 0
        for o, c in product(range(cout), range(cin)):
            if o // (cout // groups) != c // (cin // groups):
                continue
            for at in product(*(range(n) for n in spatial)):
                for r in product(range(k), repeat=len(spatial)):
                    start = [a - d * x for a, x in zip(at, r, strict=True)]
                    count += all(
                        q >= 0 and q % s == 0 and q + d * (k - 1) < n
                        for q, n in zip(start, spatial, strict=True)
                    )
        return 2 * count  # to the image and to the kernel

    return brute


def max_pool(s: int) -> Callable[[], tuple[Compute, list[Tensor]]]:
    def build() -> tuple[Compute, list[Tensor]]:
        X, n = te.placeholder((1, 2, 10, 10), name="X"), (10 - 3) // s + 1
        u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
        return (
            te.compute(
                (1, 2, n, n),
                lambda b, c, y, x: te.max(X[b, c, y * s + u, x * s + v], [u, v]),
                "P",
            ),
            [X],
        )

    return build


def take() -> tuple[Compute, list[Tensor]]:
    X, at = te.placeholder((4, 5), name="X"), te.placeholder((100,), "int64", "at")
    return te.compute((100,), lambda i: X[at[i] // 5, at[i] % 5], "T"), [X]


def truncated_reshape() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((1, 2, 5, 5), name="X")
    return te.compute((1, 32), lambda n, j: X[n, j // 25, j // 5 % 5, j % 5], "R"), [X]


def flatten() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((3, 4, 5), name="X")
    return te.compute((60,), lambda i: X[i // 20, i // 5 % 4, i % 5], "R"), [X]


def pixel_shuffle() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((12, 5, 4), name="X")
    return (
        te.compute((3, 10, 8), lambda c, y, x: X[c * 4 + y % 2 * 2 + x % 2, y // 2, x // 2], "S"),
        [X],
    )


def upsample() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((2, 5, 5), name="X")
    return te.compute((2, 14, 10), lambda c, y, x: X[c, y // 3, x // 2], "U"), [X]


def downsample() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((2, 9, 10), name="X")
    return te.compute((2, 3, 5), lambda c, y, x: X[c, y * 3 + 1, x * 2], "D"), [X]


def diagonal() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((10, 10), name="X")
    return te.compute((10,), lambda i: X[i, i], "D"), [X]


def roll() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((10, 4), name="X")
    return te.compute((10, 4), lambda i, j: X[(i + 3) % 10, j], "R"), [X]


def band() -> tuple[Compute, list[Tensor]]:
    A, x = te.placeholder((10, 10), name="A"), te.placeholder((10,), name="x")
    j = te.reduce_axis((0, 10), "j")
    near = lambda i: te.bracket((i - j <= 2) & (j - i <= 2))
    return te.compute((10,), lambda i: te.sum(near(i) * A[i, j] * x[j], j), "B"), [A, x]


def cumulative_sum() -> tuple[Compute, list[Tensor]]:
    X, j = te.placeholder((10,), name="X"), te.reduce_axis((0, 10), "j")
    return te.compute((10,), lambda i: te.sum(te.bracket(j <= i) * X[j], j), "C"), [X]


def reflect_pad() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((6, 5), name="X")
    mirror = lambda q, n: te.select(q < 0, -q, te.select(q >= n, 2 * n - 2 - q, q))
    return te.compute((10, 9), lambda i, j: X[mirror(i - 2, 6), mirror(j - 2, 5)], "P"), [X]


def clamp_pad() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((6,), name="X")
    return te.compute((10,), lambda i: X[te.clamp(i - 2, 0, 5)], "P"), [X]


def two_and_three() -> tuple[Compute, list[Tensor]]:
    X, W = te.placeholder((24,), name="X"), te.placeholder((4,), name="W")
    d = te.reduce_axis((0, 4), "d")
    return te.compute((8,), lambda o: te.sum(X[2 * o + 3 * d] * W[d], d), "Y"), [X]


def six_ten_fifteen() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((6 * 3 + 10 * 4 + 15 * 5 + 1,), name="X")
    return te.compute((4, 5, 6), lambda a, b, c: X[6 * a + 10 * b + 15 * c], "Y"), [X]


def concat() -> tuple[Compute, list[Tensor]]:
    A, B = te.placeholder((4, 3), name="A"), te.placeholder((6, 3), name="B")
    return te.compute((10, 3), lambda i, j: te.select(i < 4, A[i, j], B[i - 4, j]), "C"), [A, B]


def slice_() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((10, 10), name="X")
    return te.compute((3, 4), lambda i, j: X[2 + 3 * i, 9 - 2 * j], "S"), [X]


def im2col() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((8, 8), name="X")
    return te.compute((36, 9), lambda p, q: X[p // 6 + q // 3, p % 6 + q % 3], "M"), [X]


def reshape_transpose_reshape() -> tuple[Compute, list[Tensor]]:
    X = te.placeholder((8, 12, 10), name="X")

    def entry(i, j):  # type: ignore[no-untyped-def]
        flat = i * 10 + j  # in (48, 20), the transpose of (20, 48)
        t = flat % 20 * 48 + flat // 20
        return X[t // 120, t // 10 % 12, t % 10]

    return te.compute((96, 10), entry, "R"), [X]


def boxes(*extents: int) -> Callable[[], int]:
    return lambda: sum(1 for _ in product(*map(range, extents)))


def pairs(inside: Callable[[int, int], bool], reads: int) -> Callable[[], int]:
    return lambda: reads * sum(inside(i, j) for i, j in product(range(10), repeat=2))


def _conv(name: str, listed: int | None, *shape: object) -> Case:
    return Case(name, convolution(*shape), convolution_terms(*shape), listed)  # type: ignore[arg-type]


CASES = (
    Case("A[i,j] + A[j,i]", transposed_sum, lambda: 2 * boxes(10, 10)(), 200),
    Case("sum_k A[i,k] A[k,i]", trace_of_square, lambda: 2 * boxes(10, 10)(), 200),
    _conv("conv2d K3 s2 d1", 1152, (10, 10), 2, 2, 3, 2, 1),
    _conv("conv2d K3 s1 d3", 1152, (10, 10), 2, 2, 3, 1, 3),
    _conv("conv2d K3 s3 d3", 288, (10, 10), 2, 2, 3, 3, 3),
    Case("max pool K3 s1", max_pool(1), boxes(2, 8, 8), 128),
    Case("max pool K3 s2", max_pool(2), boxes(2, 4, 4), 32),
    Case("take 100 of 4x5", take, boxes(100), 100),
    Case("truncated reshape", truncated_reshape, boxes(32), 32),
    _conv("conv1d K3 s2 d3", None, (20,), 3, 2, 3, 2, 3),
    _conv("conv1d K4 s3 d2", None, (23,), 2, 2, 4, 3, 2),
    _conv("conv2d K3 s2 d3", None, (12, 11), 2, 2, 3, 2, 3),
    _conv("conv3d K2 s2 d3", None, (7, 8, 6), 2, 1, 2, 2, 3),
    _conv("grouped conv2d K3", None, (8, 8), 4, 6, 3, 1, 1, 2),
    Case("flatten", flatten, boxes(60)),
    Case("pixel shuffle", pixel_shuffle, boxes(3, 10, 8)),
    Case("nearest up", upsample, boxes(2, 14, 10)),
    Case("nearest down", downsample, boxes(2, 3, 5)),
    Case("diagonal", diagonal, boxes(10)),
    Case("roll", roll, boxes(10, 4)),
    Case("band", band, pairs(lambda i, j: abs(i - j) <= 2, 2)),
    Case("cumulative sum", cumulative_sum, pairs(lambda i, j: j <= i, 1)),
    Case("reflect pad", reflect_pad, boxes(10, 9)),
    Case("clamp pad", clamp_pad, boxes(10)),
    Case("2o + 3d", two_and_three, boxes(8, 4)),
    Case("6a + 10b + 15c", six_ten_fifteen, boxes(4, 5, 6)),
    Case("concat", concat, boxes(10, 3)),
    Case("slice", slice_, boxes(3, 4)),
    Case("im2col, flattened", im2col, boxes(36, 9)),
    Case("reshape-transpose-reshape", reshape_transpose_reshape, boxes(960)),
)


def gradients(case: Case) -> tuple[Program, list[Tensor]]:
    """The program of a case's gradients for a head, and the gradients."""
    output, inputs = case.build()
    head = te.placeholder(output.shape, output.dtype, "H")
    found = list(differentiate(output, inputs, head))
    return program_of(found), found
