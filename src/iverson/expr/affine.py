"""Affine forms of integer expressions: ``const + sum of coefficient * atom``.

An atom is an expression that is not taken apart: a variable, a read, a quotient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iverson.expr.nodes import Expr, postorder

#: Functions of affine forms that are affine, a product by a number among them.
LINEAR = ("add", "subtract", "negative", "multiply")


@dataclass(frozen=True)
class Affine:
    """``const + sum(coefficient * atom)``; no coefficient is 0, atoms are in a fixed order."""

    const: int = 0
    terms: tuple[tuple[Expr, int], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        if not (self.terms and other.terms):
            return Affine(self.const + other.const, self.terms or other.terms)
        terms = dict(self.terms)
        for atom, c in other.terms:
            terms[atom] = terms.get(atom, 0) + c
        return make(self.const + other.const, terms)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Affine:
        """This times an integer."""
        if factor in (0, 1):
            return self if factor else Affine()
        return Affine(self.const * factor, tuple((a, c * factor) for a, c in self.terms))

    def shift(self, by: int) -> Affine:
        """This plus an integer."""
        return Affine(self.const + by, self.terms)

    def coefficient(self, atom: Expr) -> int:
        """The coefficient of an atom; 0 where it does not occur."""
        for a, c in self.terms:
            if a is atom:
                return c
        return 0

    def without(self, atom: Expr) -> Affine:
        """The form without the term of an atom."""
        return Affine(self.const, tuple(t for t in self.terms if t[0] is not atom))

    def __hash__(self) -> int:
        return hash((self.const, self.terms))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Affine) or self.const != other.const:
            return False
        mine, theirs = self.terms, other.terms
        return len(mine) == len(theirs) and all(
            a is b and c == d for (a, c), (b, d) in zip(mine, theirs, strict=True)
        )


def make(constant: int, terms: Mapping[Expr, int]) -> Affine:
    """Affine form ``constant + sum of coefficient * atom``; ``terms`` maps atoms to coefficients.

    Terms with coefficient 0 are dropped, and the atoms are put in a fixed order.
    """
    nonzero = [(a, c) for a, c in terms.items() if c]
    if len(nonzero) > 1:
        nonzero.sort(key=lambda t: _order(t[0]))
    return Affine(constant, tuple(nonzero))


def known_form(e: Expr) -> Affine | None:
    """The form that `keep_form` stored for an expression, or None."""
    return e.form  # type: ignore[return-value]  # which nothing else stores


def keep_form(e: Expr, form: Affine) -> Affine:
    """Store ``form`` on the expression, where `known_form` finds it, and return it.

    The form must depend on the expression alone, not on values that names in it have somewhere.
    """
    object.__setattr__(e, "form", form)  # a cache: the node stays what it is
    return form


def single(e: Expr) -> Affine:
    """The affine form of one atom: the expression itself."""
    return Affine(0, ((e, 1),))


def _order(atom: Expr) -> tuple[object, ...]:
    """Sort key of an atom, which does not depend on memory addresses.

    Atoms without operands come first; then the serial numbers of the nodes in the atom decide, then the names
    or values of the nodes without a serial number.
    """
    nodes = postorder([atom]) if atom.operands else [atom]
    ages = tuple(n.serial for n in nodes if hasattr(type(n), "serial"))  # type: ignore[attr-defined]
    unnumbered = (n for n in nodes if not hasattr(type(n), "serial"))  # the others' names are a user's
    names = ",".join(str(getattr(n, "name", getattr(n, "value", ""))) for n in unnumbered)
    return bool(atom.operands), ages, names


def linear(name: str, args: Sequence[Affine]) -> Affine | None:
    """Affine form of the function ``name`` (one of `LINEAR`) applied to the forms ``args``.

    None if the result is not affine: for other functions, and for a product in which no factor is a number.
    """
    if name == "add":
        return args[0] + args[1]
    if name == "subtract":
        return args[0] - args[1]
    if name == "negative":
        return args[0].scaled(-1)
    if name == "multiply":
        for a, b in (args, args[::-1]):
            if not a.terms:
                return b.scaled(a.const)
    return None


def difference(name: str, a: Affine, b: Affine) -> Affine | None:
    """Affine form that is at least 0 exactly where the comparison ``name`` of two integers holds.

    For "equal" the form is ``a - b``, which is 0 there. None for "not_equal".

    a, b : the forms of the left and the right side of the comparison.
    """
    if name in ("less", "less_equal"):
        a, b = b, a
    return None if name == "not_equal" else (a - b).shift(-1 if name in ("less", "greater") else 0)
