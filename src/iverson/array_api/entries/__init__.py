"""Functions that create, join, rearrange, search and update entries.

Import rule: besides packages of lower layers, the siblings `conventions` and `sparse_arrays`; of the modules
below, each imports only those listed before it.

- `manipulation`: shapes and orders of axes.
- `creation`: new tensors from shapes, numbers and ranges.
- `joining`: concatenating, stacking, splitting and repeating.
- `indexing`: entries at integer positions.
- `searching`: sorting, searching and sets.
- `rearrangement`: joining, cutting and numbering as in NumPy and PyTorch.
- `updates`: new arrays with other entries at some positions.
"""
