"""Entry maps: how the entries of an op's inputs correspond to those of its result, in both directions.

The map of an op determines which entries of a cotangent its backward reads, where a cotangent may be nonzero,
the support of its result and the zeros of its derivative. ``relation`` says which entries depend on which;
``demand`` and ``support`` are images of it that are found fast, and may hold more. Maps of the ops of the
table are in `iverson.ops.rules.entry_maps`; they are subclasses of this one, which assumes that any entry
may depend on any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from iverson.core.entries import FULL, Entries
from iverson.core.protocols import Params
from iverson.core.relations import Relation

#: The facts of a call's operands: of each an Aval with a support that lasts, a number, or a strided array.
Facts: TypeAlias = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op, as an argument of relations.

    inputs : the facts of each input, as in `EntryMap.demand`; for an index array, the array if its entries
        are known.
    out : the Aval of the result in question, which is number ``result`` of several.
    """

    op: Any
    inputs: Facts
    out: Any
    params: Params
    result: int = 0

    def everything(self, i: int) -> Relation:
        """Relation in which each entry of the result depends on all entries of input ``i``."""
        return Relation.everything(self.out.shape, self.inputs[i].shape)


class EntryMap:
    """Any entry of the result may depend on any entry of the inputs.

    Attributes
    ----------
    elementwise : an entry of the result depends on the same entry of each input, up to broadcasting.
    moves : each entry of the result is one of input 0 (of the inputs in which the op is linear), or 0.
    by_moving : `demand` of a pattern is found by moving a value on it, as the op itself does.
    partial : some entries of the result depend on a part of the inputs or on none, so that `demand` bounds
        also the entries read if inputs are demanded in full.
    bounds : True if `support` is ever smaller than all entries.
    products : if only products read a cotangent of an input, only products read that of the result.
    stored : if inputs are demanded in full, exactly the support of the result is read.
    superset : the pattern that ``demand`` returns for a result on a pattern may have more entries than
        kernels store.
    converts : each entry of the result is that of input 0, in another layout.
    indexed : `relation` reads the entries of operands that have no derivative: index arrays, masks.
    factored : `relation` leaves out entries that zeros of other factors make zero, as far as it can.
    keeps_zeros : the result is 0 where all inputs are, though the op is not linear in them.
    family : a name to register kernels for other layouts under, beside the names of ops with such a map.
    image : ``image(region, shape, others, params)`` returns the smallest region of the result that depends on
        a region, not empty, of input 0, which has this shape; empty or None if nothing does. ``others`` are
        the other inputs. The attribute is None if no region is known.
    """

    elementwise = False
    moves = False
    by_moving = False
    partial = False
    bounds = False
    products = False
    stored = False
    superset = False
    converts = False
    indexed = False
    factored = False
    keeps_zeros = False
    family = ""
    image: Any = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.bounds = cls.support is not EntryMap.support

    def demand(self, op: Any, demands: Sequence[Entries], inputs: Facts, out: Any, params: Params) -> Any:
        """Entries of the result that depend on demanded entries of the inputs (a tuple, of several).

        demands : the demand on each input.
        inputs : the facts of each: an Aval with a support that lasts, a number, or a strided array.
        out : the Aval of the result (a tuple of them where there are several).
        """
        return FULL

    def support(self, op: Any, where: Entries, i: int, inputs: Facts, out: Any, params: Params) -> Entries:
        """The entries of input ``i`` that entries of the result in the set ``where`` depend on.

        inputs, out : as for `demand`.
        """
        return FULL

    def relation(self, call: Call, i: int) -> Relation:
        """Relation of each entry of the result of ``call`` to the entries of input ``i`` it depends on."""
        return call.everything(i)


ANY = EntryMap()
