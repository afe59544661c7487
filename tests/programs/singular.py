"""Random chains around entries at which a function or its derivative is not finite, and that are left out.

A chain begins with a function that is singular at one entry of x, moves, scales, adds up and multiplies what
it gives, and leaves out the entries that are not finite by one to four selections: choices, assignments,
slices, indices, order, masks, triangles, branches, steps of loops. Each statement is carried out on
dual numbers as it is written, so which entries are singular to second order is known, and the last selections
leave out all of them: the truth is finite, in every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs import duals as d
from tests.programs.generator import Program
from tests.programs.modes import Mode
from tests.programs.oracle import Array, Oracle

#: Functions of a variable that is 0 at the singular entry and positive elsewhere.
AT_ZERO = (
    "xp.sqrt({x})",
    "1.0 / {x}",
    "xp.log({x})",
    "xp.power({x}, -0.5)",
    "xp.power({x}, 0.5) * xp.sin({x})",
    "xp.sin({x}) / {x}",
    "{x} * xp.log({x})",
    "{y} / {x}",
    "xp.sqrt({x} * {y})",
    "xp.exp(-1.0 / {x})",
    "xp.power({x}, 1.5)",
)
#: Functions of a variable that is 1 at the singular entry, and in (-1, 1) elsewhere.
AT_ONE = ("xp.arccos({x})", "xp.log1p(-{x})", "xp.sqrt(1.0 - {x})", "1.0 / (1.0 - xp.square({x}))")
HARMLESS = (
    "scale", "scale", "shift", "sin", "square", "times", "plus", "negative", "exp", "flip", "roll", "reshape",
    "permute", "broadcast", "expand", "pad", "concat", "stack", "sum", "matmul", "product", "selfmade",
    "triangle", "running", "mean", "jit", "checkpoint",
)  # fmt: skip
LEAVING = (
    "where", "where", "computed", "nested", "assign", "assign", "assign_twice", "slice", "gather",
    "take_along", "sort", "extremum", "clip", "relu", "masked", "masked", "masked_pair", "masked_reduced",
    "triangle", "diagonal", "scatter", "cond", "index_notation", "scan", "vmap",
    "mask_index", "choice_of_two", "weights", "put",
)  # fmt: skip


def singular(x: Any) -> np.ndarray:
    """Which entries of dual numbers are not finite, or have a derivative that is not."""
    if isinstance(x, d.Dual):
        return singular(x.value) | singular(x.tangent)
    return ~np.isfinite(np.asarray(x))


class Chain:
    """Writes one program."""

    def __init__(self, rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> None:
        self.rng, self.lines, self.count = rng, [], 0
        directions = [rng.uniform(0.5, 1.5, x.shape) for _ in range(4)]
        first, second = next(d.LEVELS), next(d.LEVELS)

        def dual(a: np.ndarray, t: np.ndarray, u: np.ndarray) -> Array:
            return Array(d.Dual(second, d.Dual(first, a, t), u))

        self.scope: dict[str, Any] = {
            "xp": Oracle(), "np": np, "x": dual(x, *directions[:2]), "y": dual(y, *directions[2:])
        }  # fmt: skip
        self.made = ["x"]

    # --- statements -------------------------------------------------------------------

    def add(self, text: str) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.run(f"{name} = {text}")
        self.made.append(name)
        return name

    def run(self, line: str) -> None:
        with np.errstate(all="ignore"):
            exec(line, self.scope)
        self.lines.append(line)

    def shape(self, v: str) -> tuple[int, ...]:
        return self.scope[v].shape  # type: ignore[no-any-return]

    def entries(self, v: str) -> np.ndarray:
        return d.base(self.scope[v].data)

    def left(self, v: str) -> np.ndarray:
        """The entries that are singular."""
        return np.broadcast_to(singular(self.scope[v].data), self.shape(v))

    def choose(self, items: Sequence[Any]) -> Any:
        return items[self.rng.integers(len(items))]

    def axis(self, v: str) -> int:
        return int(self.rng.integers(len(self.shape(v))))

    def constant(self, shape: Sequence[int]) -> str:
        """An array of numbers, none near 0."""
        values = self.rng.uniform(0.5, 1.5, shape) * self.rng.choice([-1, 1], shape)
        return f"np.array({np.round(values, 2).tolist()}).reshape({tuple(shape)})"

    def good(self, v: str, part: bool = False) -> np.ndarray:
        """A condition that holds at no singular entry (at some of them, if ``part``), and at most others."""
        keep = self.rng.random(self.shape(v)) < 0.85
        bad = self.left(v)
        if part:
            bad = bad & (self.rng.random(bad.shape) < 0.5)
        return keep & ~bad

    def flags(self, keep: np.ndarray) -> str:
        return f"np.array({keep.tolist()}, bool).reshape({keep.shape})"

    def other(self, shape: Sequence[int]) -> str:
        """What stands where something is left out."""
        return str(self.choose(["0.0", "1.5", self.constant(shape)]))

    def rows(self, v: str) -> tuple[int, list[int]]:
        """An axis, and the places along it where no entry is singular; fails if there are none."""
        ndim = len(self.shape(v))
        for axis in self.rng.permutation(ndim):
            bad = self.left(v).any(axis=tuple(k for k in range(ndim) if k != axis))
            if not bad.all():
                return int(axis), np.flatnonzero(~bad).tolist()
        raise Impossible

    # --- what leaves nothing out --------------------------------------------------------

    def harmless(self, v: str) -> str:
        turn, shape = str(self.choose(HARMLESS)), self.shape(v)
        n = len(shape)
        axis = self.axis(v) if n else 0
        simple = {
            "scale": f"{v} * {self.choose([2.0, -0.7])}",
            "shift": f"{v} + 0.3",
            "sin": f"xp.sin({v})",
            "square": f"xp.square({v})",
            "times": f"{v} * {self.constant(shape)}",
            "plus": f"{self.constant(shape)} + {v}",
            "negative": f"-{v}",
            "exp": f"xp.exp(xp.tanh({v}))",
            "jit": f"xp.jit(lambda a: a * 0.5 + xp.sin(a))({v})",
            "checkpoint": f"xp.checkpoint(lambda a: xp.square(a) + a)({v})",
            "selfmade": f"{v} * {self.choose([v, *[m for m in self.made if self.shape(m) == shape]])}",
        }
        if turn in simple:
            return self.add(simple[turn])
        if turn == "expand":
            return self.add(f"{v}[None]") if n < 3 else v
        if turn == "broadcast":
            return self.add(f"{v}[None] + np.zeros((2,) + {shape})") if n < 3 else v
        if not n:
            return v
        widths = tuple(tuple(self.rng.integers(0, 2, 2).tolist()) for _ in shape)
        pieces = [v, self.constant(shape)]
        if self.rng.random() < 0.5:
            pieces.reverse()
        offset = int(self.rng.integers(-1, 2))
        square = n == 2 and shape[0] == shape[1]
        moves = {
            "flip": f"xp.flip({v}, {axis})",
            "roll": f"xp.roll({v}, 1, {axis})",
            "reshape": f"xp.reshape({v}, {self.choose([(int(np.prod(shape)),), shape[::-1]])})",
            "permute": f"xp.permute_dims({v}, {tuple(self.rng.permutation(n).tolist())})",
            "pad": f"xp.pad({v}, {widths})",
            "concat": f"xp.concat([{', '.join(pieces)}], {axis})",
            "stack": f"xp.stack([{', '.join(pieces)}], {axis})" if n < 3 else f"-{v}",
            "sum": f"xp.sum({v}, {axis})",
            "mean": f"xp.mean({v}, {axis}, True)",
            "running": f"xp.cumulative_sum({v}, {axis})",
            "matmul": f"{v} @ {self.constant((shape[-1], 2))}",
            "product": f"{v} @ {v}" if square else f"{self.constant((2, shape[max(n - 2, 0)]))} @ {v}",
            "triangle": f"xp.{self.choose(['tril', 'triu'])}({v}, {offset})" if n > 1 else v,
        }  # fmt: skip
        text = moves[turn]
        trial = dict(self.scope)
        with np.errstate(all="ignore"):
            bad = singular(eval(text, trial).data)
        return v if bad.all() else self.add(text)  # of what is singular everywhere nothing is left

    # --- what leaves entries out ----------------------------------------------------------

    def leave(self, v: str, turn: str, part: bool = False) -> str:
        shape, n = self.shape(v), len(self.shape(v))
        if not n:
            raise Impossible
        rule: Callable[..., str] = getattr(self, f"_{turn}")
        return rule(v, shape, self.good(v, part))

    def _where(self, v: str, shape: Any, keep: np.ndarray) -> str:
        if self.rng.random() < 0.5:
            return self.add(f"xp.where({self.flags(keep)}, {v}, {self.other(shape)})")
        return self.add(f"xp.where({self.flags(~keep)}, {self.other(shape)}, {v})")

    def _computed(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """Under a condition on values that only a run knows."""
        if self.shape("y") == shape and self.rng.random() < 0.5:
            at = f"y * ({self.flags(keep)} * 1.0)"
        elif self.entries("y").size == keep.size:
            at = f"xp.reshape(y, {shape}) * ({self.flags(keep)} * 1.0)"
        else:
            at = f"xp.sum(y) * ({self.flags(keep)} * 1.0)"
        return self.add(f"xp.where({at} > 0.01, {v}, {self.other(shape)})")

    def _nested(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """One choice in another, which together leave out what none of them may."""
        first = self.rng.random(shape) < 0.6
        inner = f"xp.where({self.flags(keep | first)}, {v}, {self.other(shape)})"
        outer = keep | ~first if self.rng.random() < 0.5 else keep
        return self.add(f"xp.where({self.flags(outer)}, {inner} * 2.0, {self.other(shape)})")

    def _choice_of_two(self, v: str, shape: Any, keep: np.ndarray) -> str:
        w = f"xp.sin({v}) * 0.5" if self.rng.random() < 0.5 else f"{v} * {v}"
        wider = self.flags(keep | (self.rng.random(shape) < 0.4))
        a = f"xp.where({wider}, xp.where({self.flags(keep)}, {v}, 0.5), 1.0)"
        return self.add(f"{a} + xp.where({self.flags(keep)}, {w}, 0.2)")

    def _assign(self, v: str, shape: Any, keep: np.ndarray) -> str:
        z = self.add(f"xp.clone({v})") if self.rng.random() < 0.5 else v
        if z == "x":
            z = self.add("xp.clone(x)")
        self.write(z, ~keep)
        return z

    def _assign_twice(self, v: str, shape: Any, keep: np.ndarray) -> str:
        z = self.add(f"{v} * 1.0")
        out = ~keep
        half = out & (self.rng.random(shape) < 0.5)
        for flags in self.choose(
            [(half, out), (out & ~half, half | out), (half, out & ~half | self.left(v))]
        ):
            self.write(z, flags)
        return z

    def write(self, z: str, out: np.ndarray) -> None:
        """Writes to some entries: by flags, by index arrays, or one box or number after another."""
        value = self.choose(["3.0", "0.0", "xp.sum(y)", "3.0"])
        turn = self.rng.integers(4)
        places = np.argwhere(out)
        if not places.size:
            return
        if turn == 0:
            self.run(f"{z}[{self.flags(out)}] = {value}")
        elif turn == 1:
            arrays = ", ".join(f"np.array({a.tolist()}, int)" for a in places.T)
            self.run(f"{z}[{arrays}] = {value}")
        elif turn == 2:
            for place in places[:3]:
                self.run(f"{z}[{', '.join(map(str, place.tolist()))}] = {value}")
            if len(places) > 3:
                self.run(f"{z}[{self.flags(out)}] = {value}")
        else:
            box = ", ".join(f"{int(a.min())}:{int(a.max()) + 1}" for a in places.T)
            self.run(f"{z}[{box}] = {value}")

    def _slice(self, v: str, shape: Any, keep: np.ndarray) -> str:
        axis, rows = self.rows(v)
        runs = np.split(np.array(rows), np.flatnonzero(np.diff(rows) != 1) + 1)
        run = max(runs, key=len)
        step = self.choose(["", "", ":2", ":-1"])
        first, last = int(run[0]), int(run[-1]) + 1
        text = f"{first}:{last}{step}"
        if step == ":-1":
            text = f"{last - 1}:{first - 1 if first else ''}:-1"
        if len(rows) == 1 or self.rng.random() < 0.2:
            text = str(first)
        return self.add(f"{v}[{':, ' * axis}{text}]")

    def _gather(self, v: str, shape: Any, keep: np.ndarray) -> str:
        axis, rows = self.rows(v)
        indices = self.rng.choice(rows, int(self.rng.integers(1, len(rows) + 2))).tolist()
        if self.rng.random() < 0.5:
            return self.add(f"xp.take({v}, np.array({indices}, int), {axis})")
        return self.add(f"{v}[{':, ' * axis}np.array({indices}, int)]")

    def _take_along(self, v: str, shape: Any, keep: np.ndarray) -> str:
        axis = self.axis(v)
        good = ~self.left(v)
        if not good.any(axis=axis).all():
            raise Impossible
        order = np.argsort(~good, axis=axis, kind="stable")
        count = int(good.sum(axis=axis).min())
        indices = np.take(order, np.arange(count), axis=axis)
        if self.rng.random() < 0.5:
            indices = np.flip(indices, axis)
        text = f"np.array({indices.tolist()}, int).reshape({indices.shape})"
        return self.add(f"xp.take_along_axis({v}, {text}, {axis})")

    def _sort(self, v: str, shape: Any, keep: np.ndarray) -> str:
        axis, descending = self.axis(v), bool(self.rng.integers(2))
        return self._slice(self.add(f"xp.sort({v}, {axis}, {descending})"), shape, keep)

    def _extremum(self, v: str, shape: Any, keep: np.ndarray) -> str:
        return self.add(
            f"xp.{self.choose(['max', 'min'])}({v}, {self.axis(v)}, {bool(self.rng.integers(2))})"
        )

    def _clip(self, v: str, shape: Any, keep: np.ndarray) -> str:
        good = self.entries(v)[~self.left(v)]
        if not good.size:
            raise Impossible
        low, high = np.quantile(good, [0.1, 0.9])
        return self.add(f"xp.minimum(xp.maximum({v}, {low + 0.01:.3f}), {high + 0.013:.3f})")

    def _relu(self, v: str, shape: Any, keep: np.ndarray) -> str:
        good = self.entries(v)[~self.left(v)]
        if not good.size:
            raise Impossible
        sign = self.choose(["", "-"])
        middle = float(np.median(good)) * (-1 if sign else 1)
        return self.add(f"xp.relu({sign}{v} - {middle + 0.017:.3f})")

    def _masked(self, v: str, shape: Any, keep: np.ndarray) -> str:
        text = f"xp.masked({v}, {self.flags(keep)})"
        text = self.choose(
            ["{}", "{}", "xp.sin({})", "{} * 2.0", "xp.square({})", "xp.cumulative_sum({}, 0)"]
        ).format(text)
        return self.add(f"xp.to_tensor({text}, {self.choose([0.0, 1.5])})")

    def _masked_pair(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """Two masks of which the intersection is good."""
        more = self.rng.random(shape) < 0.4
        a, b = (
            f"xp.masked({v}, {self.flags(keep | more)})",
            f"xp.masked({v} * 0.5, {self.flags(keep | ~more)})",
        )
        return self.add(f"xp.to_tensor({a} {self.choose('+*-')} {b}, 0.5)")

    def _masked_reduced(self, v: str, shape: Any, keep: np.ndarray) -> str:
        axis = self.axis(v)
        text = f"xp.{self.choose(['sum', 'mean', 'max', 'min'])}(xp.masked({v}, {self.flags(keep)}), {axis})"
        return self.add(f"xp.to_tensor({text}, 0.5)")

    def _mask_index(self, v: str, shape: Any, keep: np.ndarray) -> str:
        if not keep.any():
            raise Impossible
        return self.add(f"{v}[{self.flags(keep)}]")

    def _triangle(self, v: str, shape: Any, keep: np.ndarray) -> str:
        if len(shape) < 2:
            raise Impossible
        return self.add(f"xp.{self.choose(['tril', 'triu'])}({v}, {int(self.rng.integers(-1, 2))})")

    def _diagonal(self, v: str, shape: Any, keep: np.ndarray) -> str:
        if len(shape) < 2 or min(shape[-2:]) < 2:
            raise Impossible
        return self.add(f"xp.diagonal({v}, {int(self.rng.integers(-1, 2))})")

    def _scatter(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """Good rows added up at places of an array."""
        w = self._gather(v, shape, keep)
        shape = self.shape(w)
        axis = self.axis(w)
        places = self.rng.integers(0, 4, shape[axis]).tolist()
        wide = tuple(4 if k == axis else m for k, m in enumerate(shape))
        target = self.choose([f"np.zeros({wide})", self.constant(wide)])
        return self.add(f"xp.scatter_add(xp.asarray({target}), np.array({places}, int), {w}, {axis})")

    def _put(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """Rows written to places by their numbers, singular ones before good ones at the same places."""
        axis, good = self.rows(v)
        bad = sorted({*range(shape[axis])} - {*good})
        order, places = [*bad, *good], [*self.rng.choice(good, len(bad)).tolist(), *good]
        z = self.add(f"xp.asarray({self.constant(shape)})")
        rows = f"xp.take({v}, np.array({order}, int), {axis})"
        self.run(f"{z}[{':, ' * axis}np.array({places}, int)] = {rows}")
        return z

    def _cond(self, v: str, shape: Any, keep: np.ndarray) -> str:
        chosen = f"lambda a: xp.where({self.flags(keep)}, a, {self.other(shape)})"
        return self.add(f"xp.cond(xp.sum(y) > 0.0, {chosen}, lambda a: a * 2.0, {v})")

    def _scan(self, v: str, shape: Any, keep: np.ndarray) -> str:
        keep = self.flags(keep.all(axis=tuple(range(1, len(shape)))))
        chosen = "xp.where(u[1] > 0.5, {}, {})"
        total, row = chosen.format("u[0]", "0.25"), chosen.format("xp.sin(u[0])", "0.5")
        body = f"lambda c, u: (c + xp.sum({total}), {row})"
        pick = self.choose(["[1]", "[0]"])
        return self.add(f"xp.scan({body}, xp.asarray(np.zeros(())), ({v}, xp.asarray({keep} * 1.0))){pick}")

    def _vmap(self, v: str, shape: Any, keep: np.ndarray) -> str:
        body = "lambda a, k: xp.where(k > 0.5, a, 0.75)"
        return self.add(f"xp.vmap({body}, (0, 0))({v}, xp.asarray({self.flags(keep)} * 1.0))")

    def _index_notation(self, v: str, shape: Any, keep: np.ndarray) -> str:
        if len(shape) != 1:
            raise Impossible
        return self.add(f"xp.chosen({v}, xp.asarray({self.flags(keep)} * 1.0))")

    def _weights(self, v: str, shape: Any, keep: np.ndarray) -> str:
        """Rows chosen of a product, in which each entry of a row has a part."""
        axis, _ = self.rows(v)
        if axis or len(shape) != 2:
            raise Impossible
        w = self.add(f"{v} @ {self.constant((shape[1], 2))}")
        return self._where(w, self.shape(w), self.good(w))

    # --- the program -----------------------------------------------------------------------

    def program(self, turns: Sequence[str] = ()) -> str:
        """With selections that are drawn, or those of ``turns``; the last leaves out all that is left."""
        x, y = "x", "y"
        forms = AT_ONE if self.entries("x").max() == 1 else AT_ZERO
        v = self.add(str(self.choose(forms)).format(x=x, y=y))
        for k, turn in enumerate(turns):
            v = self.leave(v, turn, part=k < len(turns) - 1)
        for _ in range(0 if turns else int(self.rng.integers(1, 4))):
            for _ in range(int(self.rng.integers(0, 3))):
                v = self.harmless(v)
            v = self.tried(v, part=bool(self.rng.random() < 0.5))
        for _ in range(0 if turns else 9):
            if not self.left(v).any():
                break
            v = self.tried(v)
        if self.left(v).any():
            raise Impossible
        if self.rng.random() < 0.6:
            v = self.harmless(v)
        self.lines.append(f"return xp.total({v}, x * 0.1, y * 0.1), ()")
        return "def program(x, y):\n" + "\n".join(f"    {line}" for line in self.lines)

    def tried(self, v: str, part: bool = False) -> str:
        for _ in range(8):
            try:
                return self.leave(v, str(self.choose(LEAVING)), part)
            except Impossible:
                continue
        raise Impossible


class Impossible(Exception):
    """A statement that cannot be written here."""


SHAPES = ((3,), (4,), (2, 3), (3, 2), (2, 2), (3, 3), (1, 3), (5,))


def chain_of(seed: int, mode: Mode, turns: Sequence[str] = ()) -> Program:
    """The chain of a seed, in a mode, with selections that are given or drawn; second derivatives are of
    smaller ones. Impossible, if none of the programs tried can be written with the selections given."""
    for turn in range(20):
        rng = np.random.default_rng([seed, turn])
        small = SHAPES[:5]
        shape = (
            small[rng.integers(len(small))]
            if mode.derivative == "hessian"
            else SHAPES[rng.integers(len(SHAPES))]
        )
        one = rng.random() < 0.3 and "fori" not in mode.inner  # its steps would leave the domain
        x = np.round(rng.uniform(-0.7, 0.8, shape) if one else rng.uniform(0.4, 3.0, shape), 2)
        x.flat[rng.integers(x.size)] = 1.0 if one else 0.0
        if rng.random() < 0.2 or turns:
            x.flat[rng.integers(x.size)] = 1.0 if one else 0.0
        y = np.round(rng.uniform(0.5, 1.5, shape), 2)
        try:
            source = Chain(rng, x, y).program(turns)
        except Impossible:
            continue
        return Program(seed, source, [], (x, y), mode, "strided")
    raise Impossible(seed)
