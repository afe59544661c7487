"""Random programs, as Python source over a namespace ``xp``.

A program is a function of two arrays that returns a real number and what it drew. Its statements assign to
parts, join, sort, select, gather, mask, store sparsely, call custom functions and index notation, loop,
branch, map, differentiate, draw, and write from a body to what is around it. `modes` says what stands around
a program.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.programs.modes import CLOSED, Mode, mode_of


class Var(NamedTuple):
    """A name in a program, with what is known of its value."""

    name: str
    shape: tuple[int, ...]
    kind: str = "f"
    flavour: str = "dense"


#: Second derivatives cost the oracle a pass for each pair of entries.
HESSIAN_ENTRIES = 6
#: Names that code generators like too.
NAMES = ("i", "j", "k", "t", "x", "out", "acc", "n", "y", "s", "v0", "lambda_", "_0", "T0", "sum_", "p")
EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 9, 17)
#: The largest extents of arrays by rank; in large programs several vectors and tiles long.
MOST, MOST_LARGE = (17, 17, 5, 3), (300, 300, 40, 12)
LARGE = (33, 64, 130, 257)
#: No other extents than those that are chosen.
NO_SIZES: Mapping[int, int] = {}
PATTERNS = (
    ((0, 1, 0), (2, 0, 0), (0, 0, 3)),
    ((1, 0, 2, 0), (0, 0, 3, 0), (4, 0, 0, 5)),
    ((1, 1), (0, 1)),
    ((0, 0, 0), (0, 1, 0)),
    ((1, 0, 0, 0), (1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1)),
)
UNARY = {
    "xp.sin({})": True,
    "xp.cos({})": True,
    "xp.tanh({})": True,
    "xp.sigmoid({})": True,
    "xp.relu({} - 0.1)": False,
    "xp.abs({})": True,
    "xp.exp(xp.tanh({}))": False,
    "xp.square({}) * 0.5": True,
    "xp.log(1.5 + xp.square({}))": False,
    "xp.sqrt(0.5 + xp.square({}))": False,
    "1.0 / (1.5 + xp.square({}))": False,
    "-{} * 0.7": True,
    "{} * (-1.3)": True,
}


class Body:
    """Statements of one function, and the variables that they can name."""

    def __init__(self, scope: list[Var], depth: int, draws: bool, differentiating: bool) -> None:
        self.scope, self.depth, self.draws = scope, depth, draws
        self.differentiating = differentiating
        self.lines: list[str] = []
        self.sites: list[str] = []


class Generator:
    """Writes one program."""

    def __init__(
        self,
        rng: np.random.Generator,
        draws: bool,
        reverse: bool,
        flat: bool = False,
        large: bool = False,
        sizes: Mapping[int, int] = NO_SIZES,
    ) -> None:
        self.rng, self.draws, self.reverse, self.flat = rng, draws, reverse, flat
        self.extents = EXTENTS + LARGE * 2 if large else EXTENTS
        self.most = MOST_LARGE if large else MOST
        self.sizes = sizes
        self.count = 0

    # --- choices -------------------------------------------------------------------

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def choose(self, items: Sequence[Any]) -> Any:
        return items[self.rng.integers(len(items))]

    def extent(self, most: int = 17) -> int:
        return self.sized(int(self.choose([n for n in self.extents if n <= most])))

    def sized(self, n: int) -> int:
        """The extent that stands in the program for one that was chosen."""
        return n if n < 2 else self.sizes.get(n, n)

    def flags(self, shape: Any, share: float) -> np.ndarray:
        """Flags of which a share is true."""
        # Drawn apart, so that what comes next is the same at all sizes.
        rng = np.random.default_rng(int(self.rng.integers(1 << 62))) if self.sizes else self.rng
        return np.asarray(rng.random(shape) < share)

    def pattern(self) -> np.ndarray:
        """Where a matrix stores entries; at other sizes other ones."""
        pattern = np.array(self.choose(PATTERNS)) > 0
        if not self.sizes:
            return pattern
        shape = tuple(map(self.sized, pattern.shape))
        other = self.flags(shape, float(self.choose((0.1, 0.3, 0.7))))
        other[0, -1] = True
        return other

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        ndim = int(self.rng.integers(least, most + 1))
        return tuple(self.extent(self.most[ndim]) for _ in range(ndim))

    def var(self, b: Body, flavour: str = "dense") -> Var:
        """One of the variables, rather a recent one."""
        fitting = [v for v in b.scope if v.flavour == flavour]
        back = min(int(self.rng.geometric(0.35)), len(fitting))
        return fitting[-back]

    def real(self, v: Var) -> str:
        return f"xp.real({v.name})" if v.kind == "c" else v.name

    def fitted(self, v: Var, shape: tuple[int, ...], real: bool = False) -> str:
        text = self.real(v) if real else v.name
        return text if v.shape == shape else f"xp.fit({text}, {shape})"

    def an_array(self, b: Body, least: int = 1, empty: bool = True) -> Var:
        """A variable of some rank, made of another where there is none."""
        fitting = [v for v in b.scope if v.flavour == "dense" and len(v.shape) >= least]
        fitting = [v for v in fitting if empty or 0 not in v.shape]
        if fitting and self.rng.random() < 0.8:
            return fitting[-min(int(self.rng.geometric(0.35)), len(fitting))]
        shape = self.shape(least, max(least, 2))
        if not empty:
            shape = tuple(max(1, n) for n in shape)
        return self.assign(b, self.fitted(v := self.var(b), shape), shape, v.kind)

    def assign(
        self, b: Body, text: str, shape: tuple[int, ...], kind: str = "f", flavour: str = "dense"
    ) -> Var:
        v = Var(self.name(), tuple(shape), kind, flavour)
        b.lines.append(f"{v.name} = {text}")
        b.scope.append(v)
        return v

    # --- statements on arrays ---------------------------------------------------------

    def unary(self, b: Body) -> None:
        v = self.var(b)
        text = str(self.choose(list(UNARY)))
        real = (
            "relu" in text
            or "abs" in text
            or "sigmoid" in text
            or "log" in text
            or "sqrt" in text
            or "1.0 /" in text
        )
        if "exp" in text or "sin" in text or "cos" in text or "tanh" in text:
            real = True
        self.assign(b, text.format(self.real(v) if real else v.name), v.shape, "f" if real else v.kind)

    def binary(self, b: Body) -> None:
        v = self.var(b)
        other, shape = self.var(b), v.shape
        turn = self.rng.integers(4)
        if turn == 0 and v.shape:  # broadcast along one axis
            axis = int(self.rng.integers(len(shape)))
            shape = tuple(1 if k == axis else n for k, n in enumerate(shape))
        elif turn == 1 and v.shape:
            shape = shape[1:]
        kind = "c" if "c" in (v.kind, other.kind) else "f"
        p, q = v.name, self.fitted(other, shape)
        text = self.choose(
            ["{} + {}", "{} - {}", "xp.sin({}) * {}", "{} * {} * 0.5", "{} / (2.0 + xp.abs({}))", "max"]
        )
        if text == "max":
            if kind == "c":
                return
            text = self.choose(["xp.maximum({}, {})", "xp.minimum({}, {})"])
        elif "sin" in text and kind == "c":
            text = "{} * {} * 0.5"
        self.assign(b, text.format(p, q), v.shape, v.kind if "abs" in text else kind)

    def reduction(self, b: Body) -> None:
        v = self.an_array(b, empty=False)
        axis = int(self.rng.integers(-len(v.shape), len(v.shape)))
        left = tuple(np.delete(v.shape, axis).tolist())
        text = self.choose(
            ["sum", "mean", "max", "min", "prod", "logsumexp", "softmax", "cumulative_sum", "all", "keep"]
        )
        x = self.real(v)
        if text in ("sum", "mean"):
            self.assign(b, f"xp.{text}({v.name}, {axis})", left, v.kind)
        elif text in ("max", "min", "prod", "logsumexp"):
            damped = f"xp.tanh({x})" if text == "prod" else x
            self.assign(b, f"xp.{text}({damped}, {axis})", left)
        elif text in ("softmax", "cumulative_sum"):
            self.assign(b, f"xp.{text}({x}, {axis})", v.shape)
        elif text == "all":
            self.assign(b, f"xp.sum({v.name})", (), v.kind)
        else:
            shape = list(v.shape)
            shape[axis] = 1
            self.assign(b, f"xp.max({x}, {axis}, True)", tuple(shape))

    def movement(self, b: Body) -> None:
        v = self.an_array(b)
        n, x = len(v.shape), v.name
        axis = int(self.rng.integers(n))
        turn = self.choose(
            ["flip", "roll", "permute", "reshape", "broadcast", "pad", "expand", "diagonal", "tri"]
        )
        if turn == "flip":
            self.assign(b, f"xp.flip({x}, {axis - n})", v.shape, v.kind)
        elif turn == "roll":
            self.assign(b, f"xp.roll({x}, {int(self.rng.integers(-3, 4))}, {axis})", v.shape, v.kind)
        elif turn == "permute":
            axes = tuple(self.rng.permutation(n).tolist())
            self.assign(b, f"xp.permute_dims({x}, {axes})", tuple(v.shape[k] for k in axes), v.kind)
        elif turn == "reshape":
            shape = self.choose([(int(np.prod(v.shape)),), v.shape[::-1], (1, *v.shape)])
            self.assign(b, f"xp.reshape({x}, {shape})", shape, v.kind)
        elif turn == "broadcast":
            shape = (2, *v.shape)
            self.assign(b, f"xp.broadcast_to({x}, {shape})", shape, v.kind)
        elif turn == "expand":
            self.assign(b, f"{x}[None]", (1, *v.shape), v.kind)
        elif turn == "pad":
            widths = tuple(tuple(self.rng.integers(0, 3, 2).tolist()) for _ in v.shape)
            shape = tuple(m + p + q for m, (p, q) in zip(v.shape, widths, strict=True))
            self.assign(b, f"xp.pad({x}, {widths})", shape, v.kind)
        elif n >= 2:
            offset = int(self.rng.integers(-1, 2))
            if turn == "tri":
                self.assign(b, f"xp.{self.choose(['tril', 'triu'])}({x}, {offset})", v.shape, v.kind)
            else:
                length = np.diagonal(np.zeros(v.shape[-2:]), offset).shape[0] if min(v.shape[-2:]) else 0
                self.assign(b, f"xp.diagonal({x}, {offset})", (*v.shape[:-2], length), v.kind)

    def join(self, b: Body) -> None:
        v = self.an_array(b)
        kind = v.kind
        axis = int(self.rng.integers(len(v.shape)))
        others = [self.var(b) for _ in range(int(self.rng.integers(1, 3)))]
        if any(o.kind == "c" for o in others):
            kind = "c"
        if self.rng.random() < 0.5:
            parts = ", ".join(self.fitted(o, v.shape) for o in others)
            shape = [*v.shape]
            shape.insert(axis, 1 + len(others))
            self.assign(b, f"xp.stack([{v.name}, {parts}], {axis})", tuple(shape), kind)
        else:
            shapes = [
                tuple(self.extent(3) if k == axis else n for k, n in enumerate(v.shape)) for _ in others
            ]
            parts = ", ".join(self.fitted(o, s) for o, s in zip(others, shapes, strict=True))
            length = v.shape[axis] + sum(s[axis] for s in shapes)
            shape = tuple(length if k == axis else n for k, n in enumerate(v.shape))
            self.assign(b, f"xp.concat([{v.name}, {parts}], {axis})", shape, kind)

    def order(self, b: Body) -> None:
        v = self.an_array(b)
        axis = int(self.rng.integers(-len(v.shape), len(v.shape)))
        x = self.real(v)
        if self.rng.random() < 0.6 or 0 in v.shape:
            self.assign(b, f"xp.sort({x}, {axis}, {bool(self.rng.integers(2))})", v.shape)
        else:
            keys = self.fitted(self.var(b), v.shape, real=True)
            self.assign(b, f"xp.take_along_axis({x}, xp.argsort({keys}, {axis}), {axis})", v.shape)

    def part(self, b: Body) -> None:
        v = self.an_array(b)
        text, shape = self.place(v.shape)
        self.assign(b, f"{v.name}[{text}]", shape, v.kind)

    def place(self, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """An index into an array of a shape, and the shape of the part."""
        turn = self.rng.integers(6)
        first = shape[0]
        if turn == 0 and first:
            text = str(int(self.rng.integers(-first, first)))
        elif turn == 1 and first:
            numbers = self.rng.integers(-first, first, int(self.rng.integers(0, 5))).tolist()
            text = f"np.array({numbers}, int)"
        elif turn == 2:
            flags = self.flags(first, 0.5).tolist()
            text = f"np.array({flags}, bool)"
        elif turn == 3 and len(shape) > 1:
            a, z = sorted(self.rng.integers(0, shape[1] + 1, 2).tolist())
            text = f":, {a}:{z}"
        elif turn == 4:
            text = self.choose(["::2", "::-1", "1::2", "-1:", ":-1", "::-2"])
        else:
            a, z = sorted(self.rng.integers(0, first + 1, 2).tolist())
            text = f"{a}:{z}"
        found = eval(f"z[{text}]", {"np": np, "z": np.zeros(shape)})
        return text, found.shape

    def assignment(self, b: Body) -> None:
        v = self.an_array(b)
        shape = v.shape
        z = self.assign(b, f"xp.clone({v.name})", shape, v.kind)
        written = [z]
        if self.rng.random() < 0.3:  # a view, which follows what is written, and is written through
            text, part = self.place(shape)
            view = self.assign(b, *self.choose([(f"{z.name}[{text}]", part), *self.moves(z)]), v.kind)
            written.append(view if view.shape else z)
        self.write(b, z)
        if self.rng.random() < 0.4:
            self.write(b, written[-1])

    def moves(self, v: Var) -> list[tuple[str, tuple[int, ...]]]:
        """Other shapes and orders of all entries of an array."""
        size = int(np.prod(v.shape))
        axes = tuple(range(len(v.shape)))[::-1]
        return [
            (f"xp.reshape({v.name}, ({size},))", (size,)),
            (f"xp.permute_dims({v.name}, {axes})", v.shape[::-1]),
        ]

    def write(self, b: Body, z: Var) -> None:
        text, part = self.place(z.shape)
        repeated = "np.array([" in text and "bool" not in text
        sources = [
            v
            for v in b.scope
            if v.flavour == "dense" and v.name != z.name and (z.kind == "c" or v.kind == "f")
        ]
        value = (
            self.fitted(sources[-1 - int(self.rng.integers(min(4, len(sources))))], part)
            if sources
            else "0.25"
        )
        op = "=" if repeated else self.choose(["=", "=", "+=", "*="])
        if self.rng.random() < 0.2:
            value = "0.25"
        if repeated:
            flat = sorted(set(eval(text, {"np": np}) % z.shape[0])) if z.shape[0] else []
            text = f"np.array({[int(k) for k in flat]}, int)"
            value = self.choose(["0.5", f"xp.fit({self.real(self.var(b))}, {(len(flat), *z.shape[1:])})"])
        b.lines.append(f"{z.name}[{text}] {op} {value}")

    def selection(self, b: Body) -> None:
        v, w = self.var(b), self.var(b)
        a, c = self.real(v), self.fitted(w, v.shape, real=True)
        keys = self.fitted(self.var(b), v.shape, real=True)
        text = self.choose(
            [
                f"xp.where({keys} > 0.1, {a}, {c})",
                f"xp.where({keys} < 0.2, xp.where({c} > -0.3, {a}, 0.5), {c})",
                f"xp.where({a} > 0.05, xp.log({a}), {c})",
                f"xp.where({a} > 0.05, {c}, xp.sqrt(0.3 - {a}))",
                f"xp.where({a} > 0.0, 1.0 / {a}, xp.tanh({c})) * 0.1",
            ]
        )
        self.assign(b, f"xp.tanh({text})", v.shape)

    def gather(self, b: Body) -> None:
        v = self.an_array(b, empty=False)
        n = v.shape[0]
        numbers = self.rng.integers(0, n, int(self.rng.integers(0, 6))).tolist()
        axis = int(self.rng.integers(len(v.shape)))
        numbers = self.rng.integers(0, v.shape[axis], len(numbers)).tolist()
        if self.rng.random() < 0.5:
            shape = tuple(len(numbers) if k == axis else m for k, m in enumerate(v.shape))
            self.assign(b, f"xp.take({v.name}, np.array({numbers}, int), {axis})", shape, v.kind)
        else:
            other = self.var(b)
            if other.kind == "c" and v.kind == "f":
                return
            values = self.fitted(
                other, tuple(len(numbers) if k == axis else m for k, m in enumerate(v.shape))
            )
            text = f"xp.scatter_add({v.name}, np.array({numbers}, int), {values}, {axis - len(v.shape)})"
            self.assign(b, text, v.shape, v.kind)

    def products(self, b: Body) -> None:
        v = self.an_array(b)
        other = self.var(b)
        kind = "c" if "c" in (v.kind, other.kind) else "f"
        n = v.shape[-1]
        turn = self.rng.integers(3)
        if turn == 0:
            self.assign(b, f"{v.name} @ {self.fitted(other, (n,))} * 0.3", v.shape[:-1], kind)
        elif turn == 1 and len(v.shape) >= 2:
            m = self.extent(4)
            self.assign(b, f"{v.name} @ {self.fitted(other, (n, m))} * 0.3", (*v.shape[:-1], m), kind)
        else:
            m, k = self.extent(4), self.extent(4)
            p, q = self.fitted(v, (m,)), self.fitted(other, (k,))
            self.assign(b, f"xp.outer({p}, {q})", (m, k), kind)

    # --- masks and layouts -------------------------------------------------------------

    def masked(self, b: Body) -> None:
        v = self.an_array(b, empty=False)
        x, shape = self.real(v), v.shape
        axis = int(self.rng.integers(len(shape)))
        left = tuple(np.delete(shape, axis).tolist())
        mask = self.flags(shape, 0.6).tolist()
        m = self.name("m")
        source = self.choose(
            [
                f"xp.masked({x}, np.array({mask}, bool).reshape({shape}))",
                f"xp.masked({x}, {self.fitted(self.var(b), shape, real=True)} > 0.1)",
                f"xp.masked(xp.log({x}), {x} > 0.2)",
            ]
        )
        b.lines.append(f"{m} = {source}")
        q = self.fitted(self.var(b), shape, real=True)
        b.lines.append(
            f"{m} = {self.choose([f'xp.sin({m}) * {q}', f'{m} + {q}', f'{m} * 0.5', f'xp.relu({m})'])}"
        )
        turn = self.choose(
            ["none", "sum", "mean", "max", "softmax", "cumulative_sum", "matmul", "prod", "part"]
        )
        if turn in ("sum", "mean", "max"):
            self.assign(b, f"xp.to_tensor(xp.{turn}({m}, {axis}), 0.25)", left)
        elif turn == "prod":
            self.assign(b, f"xp.to_tensor(xp.prod(xp.tanh({m}), {axis}), 0.25)", left)
        elif turn in ("softmax", "cumulative_sum"):
            self.assign(b, f"xp.to_tensor(xp.{turn}({m}, {axis}), 0.25)", shape)
        elif turn == "matmul" and len(shape) == 2:
            right = self.fitted(self.var(b), (shape[1], 2), real=True)
            self.assign(b, f"xp.to_tensor({m} @ {right}, 0.25)", (shape[0], 2))
        elif turn == "part":
            text, part = self.place(shape)
            self.assign(b, f"xp.to_tensor({m}[{text}], 0.25)", part)
        else:
            self.assign(b, f"xp.to_tensor({m}, 0.25)", shape)

    def sparse(self, b: Body) -> None:
        pattern = self.pattern()
        rows, columns = pattern.shape
        layout = self.choose(["coo", "csr", "csc"])
        values = self.fitted(self.var(b), (int(pattern.sum()),), real=True)
        s = self.name("S")
        b.lines.append(f"{s} = xp.sparse({layout!r}, np.array({pattern.astype(int).tolist()}) > 0, {values})")
        for _ in range(int(self.rng.integers(1, 3))):
            text, (rows, columns) = self.stored(b, s, rows, columns)
            b.lines.append(f"{s} = {text}")
        turn = self.choose(
            [
                *("vector", "matrix", "left", "turned", "sum", "mean", "row", "dense"),
                *("masked", "mask_sum", "values", "count", "read"),
            ]
        )
        if turn == "vector":
            self.assign(b, f"{s} @ {self.fitted(self.var(b), (columns,), real=True)}", (rows,))
        elif turn == "matrix":
            self.assign(b, f"{s} @ {self.fitted(self.var(b), (columns, 2), real=True)}", (rows, 2))
        elif turn == "left":
            self.assign(b, f"{self.fitted(self.var(b), (2, rows), real=True)} @ {s}", (2, columns))
        elif turn == "turned":
            self.assign(b, f"{s}.T @ {self.fitted(self.var(b), (rows,), real=True)}", (columns,))
        elif turn in ("sum", "mean"):
            axis = int(self.rng.integers(2))
            self.assign(b, f"xp.to_dense(xp.{turn}({s}, {axis}))", (columns, rows)[axis : axis + 1])
        elif turn == "row" and rows:
            k = int(self.rng.integers(rows))
            self.assign(b, f"xp.to_dense({s}[{k}])", (columns,))
        elif turn == "masked":
            self.assign(b, f"xp.to_tensor(xp.mean(xp.masked({s})), 0.25)", ())
        elif turn == "mask_sum":
            axis = int(self.rng.integers(2))
            self.assign(
                b, f"xp.to_tensor(xp.sum(xp.masked({s}), {axis}), 0.25)", (columns, rows)[axis : axis + 1]
            )
        elif turn == "values":
            self.assign(b, f"xp.sum(xp.sin(xp.values(xp.shifted({s}))))", ())
        elif turn == "count":
            self.assign(b, f"xp.sum(xp.to_dense({s})) * (0.1 * xp.nnz({s}))", ())
        elif turn == "read":
            dense = self.fitted(self.var(b), (rows, columns), real=True)
            self.assign(b, f"xp.to_dense(xp.sparse_mask({dense}, {s}))", (rows, columns))
        else:
            self.assign(b, f"xp.to_dense({s})", (rows, columns))

    def stored(self, b: Body, s: str, rows: int, columns: int) -> tuple[str, tuple[int, int]]:
        """A matrix computed from a sparse one, and its shape: what it stores follows from the pattern."""
        n, same = int(self.rng.integers(rows)), (rows, columns)
        steps = [
            *((t, same) for t in ("{0} * {0}", "xp.sin({0})", "{0} * 0.7", "{0} * dense", "{0}")),
            *((t, same) for t in ("{0} + {0}", "xp.square({0})", "xp.roll({0}, 1, 1)", "xp.flip({0}, 0)")),
            *((t, same) for t in ("xp.tril({0}, 0)", "xp.triu({0}, 0)", "{0} + xp.flip({0}, 1)")),
            (f"{{0}}[np.array([{n}, 0, {n}])]", (3, columns)),
            ("{0}[1:]", (rows - 1, columns)),
            ("xp.pad({0}, ((1, 0), (0, 1)))", (rows + 1, columns + 1)),
            ("xp.concat([{0}, {0} * 0.5], 0)", (2 * rows, columns)),
            ("{0}.T @ {0}", (columns, columns)),
            ("{0} @ {0}.T", (rows, rows)),
        ]
        if rows == columns:
            steps += [(t, same) for t in ("{0} @ {0}", "{0} + {0}.T", "{0}.T @ {0}", "{0} * {0}.T")]
        text, shape = self.choose(steps)
        dense = self.fitted(self.var(b), same, real=True)
        return text.format(s).replace("dense", dense), shape

    # --- custom rules, draws ------------------------------------------------------------

    def custom(self, b: Body) -> None:
        v, w = self.var(b), self.var(b)
        self.assign(b, f"xp.wave({self.real(v)}, {self.fitted(w, v.shape, real=True)})", v.shape)

    def notation(self, b: Body) -> None:
        names = tuple(str(n) for n in self.rng.choice(NAMES, 4, replace=False))
        v, w = self.var(b), self.var(b)
        n = self.sized(int(self.choose([2, 3, 5, 9, 17])))
        if self.rng.random() < 0.5:
            u, k = self.fitted(v, (n,), real=True), self.fitted(w, (2,), real=True)
            self.assign(b, f"xp.stencil({u}, {k}, {names})", (n - 1,))
        else:
            self.assign(b, f"xp.spread({self.fitted(v, (n,), real=True)}, {names})", (n + 2,))

    def drawn(self, b: Body) -> None:
        if not b.draws:
            return self.unary(b)
        shape = self.shape(0, 1)
        site = self.name("d")
        b.lines.append(f"{site} = xp.draw({site!r}, {shape})")
        b.sites.append(site)
        b.scope.append(Var(site, shape))
        return None

    def constant(self, b: Body) -> None:
        v = self.var(b)
        self.assign(b, f"xp.detach({v.name}) * 0.8", v.shape, v.kind)

    # --- bodies ------------------------------------------------------------------------

    def body(
        self,
        b: Body,
        parameters: Sequence[Var],
        draws: bool,
        steps: int | None = None,
        writes: Var | None = None,
    ) -> tuple[str, Body]:
        """The name and statements of a function that reads its parameters and what is around it."""
        inside = Body([*b.scope, *parameters], b.depth + 1, draws, b.differentiating)
        for _ in range(int(self.rng.integers(1, 3)) if steps is None else steps):
            self.statement(inside)
        if writes is not None:
            self.write(inside, writes)
        return self.name("f"), inside

    def define(self, b: Body, name: str, parameters: Sequence[Var], inside: Body, result: str) -> None:
        b.lines.append(f"def {name}({', '.join(p.name for p in parameters)}):")
        b.lines += [f"    {line}" for line in [*inside.lines, f"return {result}"]]

    def aux(self, sites: Sequence[str]) -> str:
        return "(" + "".join(f"{s}, " for s in sites) + ")"

    def parameter(self, v: Var, shape: tuple[int, ...] | None = None, kind: str | None = None) -> Var:
        return Var(self.name("p"), v.shape if shape is None else shape, v.kind if kind is None else kind)

    def target(self, b: Body) -> Var | None:
        """Something around a body that the body writes to."""
        if self.rng.random() < 0.8:
            return None
        v = self.an_array(b)
        return self.assign(b, f"xp.clone({self.real(v)})", v.shape) if v.shape[0] else None

    def simple(self, b: Body) -> None:
        """A call of a compiled function, or of one that is recomputed."""
        v = self.var(b)
        writes = self.target(b)
        p = self.parameter(v)
        name, inside = self.body(b, [p], b.draws, writes=writes)
        out = self.var(inside)
        self.define(b, name, [p], inside, f"{out.name}, {self.aux(inside.sites)}")
        result = Var(self.name(), out.shape, out.kind)
        wrapper = self.choose(["jit", "checkpoint"])
        b.lines.append(f"{result.name}, {self.aux(inside.sites)} = xp.{wrapper}({name})({v.name})")
        b.sites += inside.sites
        b.scope.append(result)

    def branch(self, b: Body) -> None:
        v, shape = self.var(b), self.shape(0, 2)
        writes = self.target(b)
        p = self.parameter(v)
        site = self.name("d") if b.draws and self.rng.random() < 0.4 else None
        names = []
        for turn in range(2):
            name, inside = self.body(b, [p], False, writes=writes if turn else None)
            if site:
                inside.lines.append(f"{site} = xp.draw({site!r}, (2,))")
                inside.scope.append(Var(site, (2,)))
            out = self.fitted(self.var(inside), shape, real=True)
            self.define(b, name, [p], inside, f"{out}, {self.aux([site] if site else [])}")
            names.append(name)
        flag = f"xp.sum({self.real(self.var(b))}) > {float(self.rng.normal()):.2f}"
        result = Var(self.name(), shape)
        sites = [site] if site else []
        b.lines.append(f"{result.name}, {self.aux(sites)} = xp.cond({flag}, {', '.join(names)}, {v.name})")
        b.sites += sites
        b.scope.append(result)

    def scan(self, b: Body) -> None:
        v, w = self.var(b), self.var(b)
        state, step = self.shape(0, 1), self.shape(0, 1)
        length = self.sized(int(self.choose([1, 2, 3, 5])))
        writes = self.target(b)
        c, u = self.parameter(v, state, "f"), self.parameter(w, step, "f")
        name, inside = self.body(b, [u, c], b.draws, writes=writes)
        carried = f"xp.tanh({c.name} * 0.5 + {self.fitted(self.var(inside), state, real=True)})"
        out = self.var(inside)
        self.define(b, name, [c, u], inside, f"{carried}, ({out.name}, {self.aux(inside.sites)})")
        last, rows = Var(self.name(), state), Var(self.name(), (length, *out.shape), out.kind)
        init, xs = self.fitted(v, state, real=True), self.fitted(w, (length, *step), real=True)
        b.lines.append(
            f"{last.name}, ({rows.name}, {self.aux(inside.sites)}) = xp.scan({name}, {init}, {xs})"
        )
        b.sites += inside.sites
        b.scope += [last, rows]

    def loop(self, b: Body) -> None:
        v, state = self.var(b), self.shape(0, 1)
        h = self.parameter(v, state, "f")
        init = self.fitted(v, state, real=True)
        result = Var(self.name(), state)
        if self.reverse or b.differentiating or self.rng.random() < 0.6:
            writes = self.target(b)
            k = Var(self.name("k"), ())
            name, inside = self.body(b, [h, k], False, writes=writes)
            out = f"xp.tanh({self.fitted(self.var(inside), state, real=True)} + {h.name})"
            self.define(b, name, [k, h], inside, out)
            b.lines.append(f"{result.name} = xp.fori_loop({int(self.rng.integers(0, 4))}, {name}, {init})")
        else:
            name, inside = self.body(b, [h], False, steps=1)
            out = f"{h.name} * 1.4 + xp.sigmoid({self.fitted(self.var(inside), state, real=True)}) + 0.1"
            self.define(b, name, [h], inside, out)
            test = f"lambda s: xp.sum(s) < {float(np.prod(state)) * 2.0}"
            text = f"xp.while_loop({test}, {name}, xp.sigmoid({init}))"
            b.lines.append(f"{result.name} = {text}" if np.prod(state) else f"{result.name} = {init}")
        b.scope.append(result)

    def mapped(self, b: Body) -> None:
        v, w = self.var(b), self.var(b)
        n, row = self.sized(int(self.choose([1, 2, 3]))), self.shape(0, 1)
        axis = int(self.rng.integers(len(row) + 1))
        p, q = self.parameter(v, row), self.parameter(w)
        back = 0 if b.draws else int(self.rng.integers(2))
        name, inside = self.body(b, [p, q], b.draws)
        out = self.an_array(inside) if back else self.var(inside)
        self.define(b, name, [p, q], inside, f"{out.name}, {self.aux(inside.sites)}")
        shape = [*row]
        shape.insert(axis, n)
        shapes = [*out.shape]
        shapes.insert(back, n)
        result = Var(self.name(), tuple(shapes), out.kind)
        b.lines.append(
            f"{result.name}, {self.aux(inside.sites)} = xp.vmap({name}, ({axis}, None), {back})"
            f"({self.fitted(v, tuple(shape))}, {w.name})"
        )
        b.sites += inside.sites
        b.scope.append(result)

    def derivative(self, b: Body) -> None:
        """A gradient, or a directional derivative, inside of the program."""
        if b.differentiating:
            return self.unary(b)
        v = self.var(b)
        shape = tuple(min(n, 3) if n < 2 else self.sized(min(n, 3)) for n in v.shape[:2])
        p = self.parameter(v, shape, "f")
        b.differentiating = True
        name, inside = self.body(b, [p], b.draws)
        b.differentiating = False
        out = self.real(self.var(inside))
        self.define(b, name, [p], inside, f"xp.total({out}), {self.aux(inside.sites)}")
        given = self.fitted(v, shape, real=True)
        if self.rng.random() < 0.6:
            result = Var(self.name(), shape)
            b.lines.append(f"({result.name},), {self.aux(inside.sites)} = xp.grad({name})({given})")
        else:
            result = Var(self.name(), ())
            b.lines.append(f"{result.name}, {self.aux(inside.sites)} = xp.jvp({name}, (0.7,))({given})")
        b.sites += inside.sites
        b.scope.append(result)
        return None

    def statement(self, b: Body) -> None:
        flat = (
            *(self.unary, self.binary, self.reduction, self.movement, self.join, self.order, self.part),
            *(self.assignment, self.selection, self.gather, self.products, self.masked, self.sparse),
            *(self.custom, self.notation, self.drawn, self.constant),
        )
        nested = (self.simple, self.branch, self.scan, self.loop, self.mapped, self.derivative)
        if b.depth < 3 and not self.flat and self.rng.random() < (0.3, 0.25, 0.2)[b.depth]:
            self.choose(nested)(b)
        else:
            self.choose(flat)(b)

    def program(
        self, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], steps: int
    ) -> tuple[str, list[str]]:
        b = Body([Var("x", shapes[0], kinds[0]), Var("y", shapes[1], kinds[1])], 0, self.draws, False)
        for _ in range(steps):
            self.statement(b)
        last = [v.name for v in b.scope if v.flavour == "dense"][-2:]
        b.lines.append(f"return xp.total({', '.join(last)}, x * 0.1), {self.aux(b.sites)}")
        return "def program(x, y):\n" + textwrap.indent("\n".join(b.lines), "    "), b.sites


class Program(NamedTuple):
    """A program with its arguments and the mode that it is carried out in."""

    seed: int
    source: str
    sites: list[str]
    args: tuple[np.ndarray, ...]
    mode: Mode
    layout: str

    @property
    def dtype(self) -> np.dtype:
        """The dtype of real numbers in the program."""
        return self.args[1].dtype

    def function(self, xp: Any) -> Callable[..., Any]:
        scope: dict[str, Any] = {"xp": xp, "np": np}
        exec(self.source, scope)
        return scope["program"]  # type: ignore[no-any-return]


LAYOUTS = ("strided",) * 6 + ("csr", "csc", "coo")


#: Of programs, how many are in single precision, and how many have large arrays.
SINGLE, LARGE_SHARE = 0.1, 0.05


def program_of(
    seed: int, mode: Mode | None = None, flat: bool = False, sizes: Mapping[int, int] = NO_SIZES
) -> Program:
    """The program of a seed.

    mode : instead of one that is drawn. flat : without bodies. sizes : extents in place of those from 2 on
    that are chosen; programs of one seed with other sizes mostly differ in integers, flags and patterns only.
    """
    rng = np.random.default_rng(seed)
    mode = mode_of(rng) if mode is None else mode
    parts = {*mode.inner, *mode.outer}
    heavy = mode.derivative == "hessian" or mode.inner.count("grad") > 1
    closed = parts & CLOSED or mode.derivative == "hessian" or mode.inner
    draws = bool(rng.random() < 0.25) and not closed
    complex_numbers = bool(rng.random() < 0.12) and not {"grad", "jvp"} & set(mode.inner)
    single, large = bool(rng.random() < SINGLE), bool(rng.random() < LARGE_SHARE)
    reverse = "grad" in mode.inner or mode.derivative in ("grad", "hessian")
    inputs = Generator(rng, draws, reverse, flat)
    large = large and not heavy and "grad" not in mode.inner and not sizes
    generator = Generator(rng, draws, reverse, flat, large, sizes)
    while True:
        shapes = [inputs.shape(0, 2) for _ in range(2)]
        if np.prod(shapes[0]) <= (HESSIAN_ENTRIES if heavy else 17) and np.prod(shapes[1]) <= 17:
            break
    shapes = [tuple(map(generator.sized, shape)) for shape in shapes]
    kinds = ["c" if complex_numbers and k == 0 and not heavy else "f" for k in range(2)]
    source, sites = generator.program(shapes, kinds, int(rng.integers(2, 6)))
    args = []
    for shape, kind in zip(shapes, kinds, strict=True):
        a = rng.normal(size=shape)
        args.append(a + 1j * rng.normal(size=shape) if kind == "c" else np.asarray(a))
    layout = str(rng.choice(LAYOUTS)) if len(shapes[0]) == 2 and "vmap" not in parts else "strided"
    if layout != "strided":
        args[0] = args[0] * (rng.random(shapes[0]) < 0.5)
    if single:
        args = [a.astype("c8" if a.dtype.kind == "c" else "f4") for a in args]
    return Program(seed, source, sites, tuple(args), mode, layout)
