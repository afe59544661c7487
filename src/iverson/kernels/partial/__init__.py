"""Partial values: boxes and selections not yet made. What each op does with them, for arrays and for graphs.

Import rule: of its siblings in `kernels` it imports `array_ops`, `index_keys`, `kernel_registry`,
`region_images`, `sparse` and `terms`.

- `partial_values`: boxes and selections over a namespace, what of them lies in a region, conditions.
- `partial_elementwise`: elementwise ops and sums of several terms.
- `partial_products`: matrix products.
- `partial_moves`: ops that move entries, sums over axes and at places.
- `partial_selections`: where selections begin, and masks.
- `partial_rules`: the table of rules by op.
- `array_namespace`: the namespace of arrays.
- `partial_kernels`: the rules as kernels, and selections among stored entries.
"""
