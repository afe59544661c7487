"""Mutants that no test can tell from the original, with the reason.

By module, then how the edit begins; where one like it elsewhere in the module is another matter: the edit,
" in ", and how its line begins.
"""

from __future__ import annotations

EQUIVALENT: dict[str, dict[str, str]] = {
    "iverson.autograd.engine": {
        "delete the guard: if covers(part, support_of(ct._value), ct.shape)": (
            "a shortcut: cutting a box out of what lies within it gives the same entries"
        ),
        "delete the guard: if value is not None and value.shape == shape": (
            "a shortcut: the checks below find nothing to do"
        ),
        "drop: not op.multiple": "no op of several results says what its support is",
        "drop: g._node is None": "of constants too, more is computed in a recorded pass, and never read",
        "drop: not is_grad_enabled()": "where nothing is recorded: more is computed (or cut), and never read",
        "drop: ct.dtype.kind == 'c'": "the real part of what is real is itself",
        "drop: type(g._value) in _BOUNDLESS": "a shortcut: such a support leaves the kept plan as it is",
        "drop: None if overrides() else op.plans.get(demands)": "a shortcut: `pullback` looks there itself",
        "drop: parent is None": "what is demanded came from a node",
        "drop: parent.meta is None": "a shortcut: `watch` looks there itself",
        "drop: ct._node is None in if covers(": "a shortcut: cutting a box out of what lies within it",
        "0 -> 1 in floor = min(": "of no targets nothing is found",
        "delete the guard: if part is NOTHING": "the rule is run for what is zero, or nobody reads",
    },
    "iverson.autograd.accumulate": {
        "drop: handle._node is not None": "where nothing is recorded, a sum has no node in any case",
    },
    "iverson.autograd.forward": {
        "delete the guard: if node.op is None": "a leaf has no arguments, so no tangent arrives",
        "drop: total.dtype.kind == 'c'": "the real part of what is real is itself",
        "0 -> 1 in floor = min(": "without tangents nothing is found",
        "0 -> 1 in return [_total(found, node, 0)]": "of one result, the index is not looked at",
        "1 -> 2 in metas =": "of one result, a second variable leads nowhere",
        "True -> False in pulled =": "strided cotangents bound nothing, so inputs are not looked at",
    },
    "iverson.core.entries": {
        "delete the guard: if a.pattern is b.pattern": "a shortcut: a pattern met with itself is itself",
        "drop: a.pattern is b.pattern": "a shortcut: a pattern met with itself is itself",
    },
    "iverson.kernels.box": {
        "0 -> 1 in return Region((0,)": "what ends where it starts, or before, is empty",
    },
    "iverson.kernels.box_moves": {
        "delete the guard: if inside.all()": "a shortcut: all is kept below",
        "drop: not region.size": "a shortcut: what is computed of an empty image is made zero",
        "drop: type(found) is Zero": "a shortcut: nothing of a zero is left out",
    },
    "iverson.kernels.bracket": {
        "delete the guard: if p is q": "a shortcut: an array is the same view of itself",
        "drop: not kept.all()": "a shortcut: with all that is contracted, the product is the same",
        "0 -> 1 in conditions.append(Bracket(": "of what a condition is of, nothing is looked at",
    },
    "iverson.kernels.merging": {
        "delete the guard: if 8 * indices.size >": "few entries may be looked for, or all passed over",
        "negate: 8 * indices.size >": "few entries may be looked for, or all passed over",
        "drop: 8 * indices.size >": "few entries may be looked for, or all passed over",
        "8 * indices.size > stored[1].size ->": "few entries may be looked for, or all passed over",
        "8 -> 9": "few entries may be looked for, or all passed over",
        "pattern.count < WORTHWHILE ->": "from how many entries one pass pays",
        "drop: pattern.count < WORTHWHILE": "from how many entries one pass pays",
        "drop: not target.distinct": "a shortcut: what is stored once is coalesced to itself",
        "False -> True in pair =": "whether arrays of the right type are copied",
    },
    "iverson.kernels.registry": {
        "delete the guard: if _plain.issuperset": "a shortcut: plain operands have no kernel in a layout",
        "delete the guard: if Zero not in map(type, values)": "a shortcut: no group is found then",
        "drop: op.linear_in": "a shortcut: an op that is linear in nothing has no groups",
    },
    "iverson.kernels.sparse_elementwise": {
        "delete the guard: if op.zero_preserving": "a shortcut: the function is tried at zero",
        "drop: all((hasattr(v, 'shape')": "a shortcut: what preserves zeros takes no scalars",
        "delete the guard: if op.linear_in == _PRODUCT": "a shortcut: operands are stretched",
        "0 -> 1 in if op.linear_in == _PRODUCT": "a shortcut: operands are stretched",
        "delete the guard: if passed is not None": "a shortcut: computed in several passes",
        "0 -> 1 in passed =": "of one operand no union is known, so it is computed in several passes",
        "negate: hasattr(v, 'shape') and v.shape != shape": "a shortcut: shapes that are equal are broadcast",
        "drop: v.shape != shape": "a shortcut: shapes that are equal are broadcast",
        "v.shape != shape -> v.shape == shape": "a shortcut: shapes that are equal are broadcast",
        "negate: entries.shape == shape": "one operand has entries of the result's shape, so all have",
        "delete the guard: if len(terms) == 1": "a shortcut: of one pattern, its entries are added up",
        "drop: type(v) is Zero in if isinstance(v, Sparse)": "a shortcut: the function is tried at zero",
        "len(bounds) > 1 -> len(bounds) >= 1": "a shortcut: the meet of one pattern is itself",
        "len(patterns) > 1 -> len(patterns) >= 1": "a shortcut: the union of one pattern is itself",
        "drop: v.shape == shape and": "a shortcut: what fits is stretched to itself",
        "2 * value.region.size < prod(value.shape) ->": "how much of a box is worth an array",
        "2 -> 3 in return to_coo(value)": "how much of a box is worth an array",
        "0 -> 1 in shape = terms[0].shape": "all terms have one shape",
        "0 -> 1 in if all(v.pattern is": "all terms have one pattern",
        "0 -> 1 in return cast(terms[0].pattern": "all terms have one pattern",
        "1 -> 2 in probe =": "how many zeros a function is tried at",
    },
    "iverson.kernels.sparse_parts": {
        "negate: pattern.axis == 0 in n, m = x.shape": "extents are looked at for negative numbers alone",
        "0 -> 1 in n, m = x.shape": "extents are looked at for negative numbers alone",
    },
    "iverson.kernels.zero": {
        "delete the guard: if plain and zero.shape == ()": "a shortcut: nothing is cast or broadcast below",
    },
    "iverson.te.eliminate": {
        "abs(c) > 1 -> abs(c) >= 1": "what is divided by 1, or is a multiple of it, is simplified",
        "c > 0 -> c >= 0": "no coefficient is 0",
        "drop: inside": "the loops over outputs come first",
    },
    "iverson.codegen.bounds": {
        "drop: known_form(e)": "a shortcut: the form is found again",
        "c > 0 -> c >= 0": "no coefficient is 0",
        "sign > 0 -> sign >= 0": "a sign is 1 or -1",
        "4 -> 5": "how many candidates are tried",
    },
    "iverson.codegen.plan": {
        "drop: x.name in scope.lets": "what has an unknown name is not steady, which is asked first",
        "drop: inside(a, ranges)": "a shortcut: the facts are not asked for",
        "0 -> 1": "any interval with ends; comparisons have operands of one dtype",
    },
    "iverson.autograd.plan": {
        "drop: any(map(in_products, demands))": "a shortcut: demands that nothing reads as products stay",
        "drop: type(found) is tuple": "of an op with several results",
    },
    "iverson.layouts.counting": {
        "delete the guard: if starts.size == count": "a shortcut: sums of one term are the terms",
        "sum(extents) <=": "how much is worth counting",
        "1024 -> 1025": "how much is worth counting",
        "4 * held > 3 * size ->": "how much may be held in vain",
        "3 -> 4": "how much may be held in vain",
        "4 -> 5": "how much may be held in vain, or is worth counting",
        "False -> True": "whether arrays of the right type are copied",
    },
}
