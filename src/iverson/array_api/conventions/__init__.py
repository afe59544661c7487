"""Conventions that all public functions share: operands, methods, dtypes, constants and inspection.

Import rule: packages of lower layers; of the modules below, each imports only those listed before it.

- `operands`: checks and normalisation of operands.
- `methods`: the decorators that make a function a method, too.
- `limits`: the results of `finfo` and `iinfo`.
- `data_types`: functions of dtypes.
- `constants`: `pi`, `e`, `inf` and the other constants of the standard.
- `namespace_info`: the inspection functions of the standard.
"""
