"""The table of scalars: every elementwise function as one record, in a file per family.

The public function and method, their docs and types, the op, its form in tensor expressions, code generation
and the conformance test all read this table; to add a function is to add its record (`scalar`): a line with
the body, derivatives and facts in common with others, and one for the docs. A derivative is written against a
namespace ``F`` as ``lambda F, y, x: ...`` and gives the partial derivative with respect to one argument; a
parameter with a leading underscore is not read (see `iverson.core.op`). A Python number stands for a constant
derivative, None in place of a rule for "none".

Import rule: in `core` it imports `dtypes`, `protocols` and `python`; each module imports only those before
it in this list.

- `scalar_record`: `Scalar`, the record of a function.
- `array_bodies`: conversions and selections of arrays.
- `arithmetic`: arithmetic, powers, roots, lengths, signs.
- `exponential_functions`: exponentials and logarithms.
- `trigonometric_functions`: trigonometric and hyperbolic functions, and their inverses.
- `special_functions`: activation functions, erf, lgamma, digamma, polygamma.
- `quadrature`: functions of whole orders, and integrals over a half line.
- `distributions`: inverse error functions, the normal distribution, entropies.
- `bessel`: Bessel functions of whole order, and sinc.
- `incomplete`: incomplete gamma and beta functions, and the zeta function.
- `scipy_functions`: further functions of `scipy.special`.
- `complex_parts`: rounding, and parts of complex numbers.
- `predicates`: predicates, comparisons, functions of bits.
- `selection_functions`: maximum, minimum, relu, where, clip.
"""

from iverson.core.scalars.arithmetic import ARITHMETIC, inverse_length
from iverson.core.scalars.array_bodies import converted, keep_where
from iverson.core.scalars.bessel import BESSEL
from iverson.core.scalars.complex_parts import PARTS, ROUNDING
from iverson.core.scalars.distributions import DISTRIBUTIONS
from iverson.core.scalars.exponential_functions import EXPONENTIAL
from iverson.core.scalars.incomplete import INCOMPLETE
from iverson.core.scalars.predicates import BITWISE, PREDICATES
from iverson.core.scalars.scalar_record import ANY, Scalar, result_dtype
from iverson.core.scalars.scipy_functions import FUNCTIONS
from iverson.core.scalars.selection_functions import CHOICE
from iverson.core.scalars.special_functions import SPECIAL
from iverson.core.scalars.trigonometric_functions import HYPERBOLIC, TRIGONOMETRIC

#: All elementwise functions by name.
SCALARS: dict[str, Scalar] = {
    s.name: s
    for family in (
        ARITHMETIC,
        EXPONENTIAL,
        TRIGONOMETRIC,
        HYPERBOLIC,
        SPECIAL,
        DISTRIBUTIONS,
        BESSEL,
        INCOMPLETE,
        FUNCTIONS,
        ROUNDING,
        PARTS,
        PREDICATES,
        BITWISE,
        CHOICE,
    )
    for s in family
}

__all__ = ["ANY", "SCALARS", "Scalar", "converted", "inverse_length", "keep_where", "result_dtype"]
