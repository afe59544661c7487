"""The elementwise functions of records. Written by tools/stubs.py from the tables: do not edit."""

from iverson.handles.typing import A, ArrayLike

def add(x1: A | ArrayLike, x2: A | ArrayLike, /, *, alpha: A | ArrayLike | None = None) -> A:
    """x1 + alpha * x2 (alpha is 1 unless given).

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.
    alpha : a factor on x2, 1 unless given.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> add(asarray([1., 2.]), 3.)
    iverson.Tensor([4., 5.])
    """

def subtract(x1: A | ArrayLike, x2: A | ArrayLike, /, *, alpha: A | ArrayLike | None = None) -> A:
    """x1 - alpha * x2 (alpha is 1 unless given).

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a numeric dtype.
    alpha : a factor on x2, 1 unless given.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> subtract(asarray([1., 2.]), 3.)
    iverson.Tensor([-2., -1.])
    """

def multiply(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 * x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> multiply(asarray([1., 2.]), 3.)
    iverson.Tensor([3., 6.])
    """

def divide(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 / x2; what a sparse x1 does not store is 0 in the result too, also over 0.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a numeric dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> divide(asarray([1, 2]), 2)
    iverson.Tensor([0.5, 1. ])
    """

def negative(x: A | ArrayLike, /) -> A:
    """-x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> negative(asarray([1., -2.]))
    iverson.Tensor([-1.,  2.])
    """

def positive(x: A | ArrayLike, /) -> A:
    """x itself.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> positive(asarray([1., -2.]))
    iverson.Tensor([ 1., -2.])
    """

def square(x: A | ArrayLike, /) -> A:
    """x * x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> square(asarray([1., -3.]))
    iverson.Tensor([1., 9.])
    """

def reciprocal(x: A | ArrayLike, /) -> A:
    """1 / x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> reciprocal(asarray([2., 4.]))
    iverson.Tensor([0.5 , 0.25])
    """

def pow(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 to the power x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a numeric dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at a = 0 the derivative in an exponent b >= 0 is 0; that of a**0 in a is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> pow(asarray([2., 3.]), 2)
    iverson.Tensor([4., 9.])
    """

def sqrt(x: A | ArrayLike, /) -> A:
    """The square root.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at 0 the derivative is inf, at complex 0 nan; on the cut, that of the value's side.

    Examples
    --------
    >>> from iverson import asarray
    >>> sqrt(asarray([1., 9.]))
    iverson.Tensor([1., 3.])
    """

def rsqrt(x: A | ArrayLike, /) -> A:
    """1 / sqrt(x).

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> rsqrt(asarray([1., 4.]))
    iverson.Tensor([1. , 0.5])
    """

def floor_divide(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 / x2 rounded towards -inf.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> floor_divide(asarray([7, -7]), 2)
    iverson.Tensor([ 3, -4])
    """

def remainder(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """What is left of x1 / x2, with the sign of x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at multiples of b the derivatives are those from above: 1 and -floor_divide(a, b).

    Examples
    --------
    >>> from iverson import asarray
    >>> remainder(asarray([7, -7]), 2)
    iverson.Tensor([1, 1])
    """

def fmod(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """What is left of x1 / x2, with the sign of x1, as in C.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at multiples of b the derivatives are those on the side away from 0: 1 and -trunc(a / b).

    Examples
    --------
    >>> from iverson import asarray
    >>> fmod(asarray([7., -7.]), 2.)
    iverson.Tensor([ 1., -1.])
    """

def hypot(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The length of (x1, x2), without overflow.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at (0, 0) the derivatives are 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> hypot(asarray([3.]), 4.)
    iverson.Tensor([5.])
    """

def abs(x: A | ArrayLike, /) -> A:
    """The absolute value.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the real part's dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at 0 the derivative is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> abs(asarray([-1.5, 2.]))
    iverson.Tensor([1.5, 2. ])
    """

def sign(x: A | ArrayLike, /) -> A:
    """-1, 0 or 1; x / abs(x) for complex x, 0 at 0.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: for real x the derivative is 0 everywhere, the jump at 0 included.

    Examples
    --------
    >>> from iverson import asarray
    >>> sign(asarray([-3., 0., 2.]))
    iverson.Tensor([-1.,  0.,  1.])
    """

def copysign(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 with the sign of x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at a = 0 the derivative is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> copysign(asarray([1., 2.]), -1.)
    iverson.Tensor([-1., -2.])
    """

def nextafter(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The next number after x1 towards x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real floating dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> nextafter(asarray([0.]), 1.)
    iverson.Tensor([5.e-324])
    """

def exp(x: A | ArrayLike, /) -> A:
    """e to the power x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> exp(asarray([0., 1.]))
    iverson.Tensor([1.        , 2.71828183])
    """

def exp2(x: A | ArrayLike, /) -> A:
    """2 to the power x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> exp2(asarray([0., 3.]))
    iverson.Tensor([1., 8.])
    """

def expm1(x: A | ArrayLike, /) -> A:
    """exp(x) - 1, exact near 0.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> expm1(asarray([0., 1e-20]))
    iverson.Tensor([0.e+00, 1.e-20])
    """

def log(x: A | ArrayLike, /) -> A:
    """The natural logarithm.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> log(asarray([1., 10.]))
    iverson.Tensor([0.        , 2.30258509])
    """

def log1p(x: A | ArrayLike, /) -> A:
    """log(1 + x), exact near 0.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> log1p(asarray([0., 1e-20]))
    iverson.Tensor([0.e+00, 1.e-20])
    """

def log2(x: A | ArrayLike, /) -> A:
    """The logarithm to base 2.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> log2(asarray([1., 8.]))
    iverson.Tensor([0., 3.])
    """

def log10(x: A | ArrayLike, /) -> A:
    """The logarithm to base 10.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> log10(asarray([1., 100.]))
    iverson.Tensor([0., 2.])
    """

def logaddexp(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """log(exp(x1) + exp(x2)), without overflow.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> logaddexp(asarray([1000.]), 0.)
    iverson.Tensor([1000.])
    """

def deg2rad(x: A | ArrayLike, /) -> A:
    """An angle in degrees, in radians.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> deg2rad(asarray([0., 180.]))
    iverson.Tensor([0.        , 3.14159265])
    """

def rad2deg(x: A | ArrayLike, /) -> A:
    """An angle in radians, in degrees.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> rad2deg(asarray([0., 3.141592653589793]))
    iverson.Tensor([  0., 180.])
    """

def sin(x: A | ArrayLike, /) -> A:
    """The sine of an angle in radians.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> sin(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.84147098])
    """

def cos(x: A | ArrayLike, /) -> A:
    """The cosine of an angle in radians.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> cos(asarray([0., 1.]))
    iverson.Tensor([1.        , 0.54030231])
    """

def tan(x: A | ArrayLike, /) -> A:
    """The tangent of an angle in radians.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> tan(asarray([0., 1.]))
    iverson.Tensor([0.        , 1.55740772])
    """

def asin(x: A | ArrayLike, /) -> A:
    """The angle in [-pi/2, pi/2] whose sine is x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at -1 and 1 the derivative is inf.

    Examples
    --------
    >>> from iverson import asarray
    >>> asin(asarray([0., 1.]))
    iverson.Tensor([0.        , 1.57079633])
    """

def acos(x: A | ArrayLike, /) -> A:
    """The angle in [0, pi] whose cosine is x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at -1 and 1 the derivative is -inf.

    Examples
    --------
    >>> from iverson import asarray
    >>> acos(asarray([0., 1.]))
    iverson.Tensor([1.57079633, 0.        ])
    """

def atan(x: A | ArrayLike, /) -> A:
    """The angle in (-pi/2, pi/2) of tangent x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> atan(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.78539816])
    """

def atan2(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The angle of the point (x2, x1), in (-pi, pi].

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at (0, 0) the derivatives are nan.

    Examples
    --------
    >>> from iverson import asarray
    >>> atan2(asarray([0., 0.]), 1.)
    iverson.Tensor([0., 0.])
    """

def sinh(x: A | ArrayLike, /) -> A:
    """The hyperbolic sine.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> sinh(asarray([0., 1.]))
    iverson.Tensor([0.        , 1.17520119])
    """

def cosh(x: A | ArrayLike, /) -> A:
    """The hyperbolic cosine.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> cosh(asarray([0., 1.]))
    iverson.Tensor([1.        , 1.54308063])
    """

def tanh(x: A | ArrayLike, /) -> A:
    """The hyperbolic tangent.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> tanh(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.76159416])
    """

def asinh(x: A | ArrayLike, /) -> A:
    """The inverse of sinh.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> asinh(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.88137359])
    """

def acosh(x: A | ArrayLike, /) -> A:
    """The inverse of cosh.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> acosh(asarray([1., 2.]))
    iverson.Tensor([0.       , 1.3169579])
    """

def atanh(x: A | ArrayLike, /) -> A:
    """The inverse of tanh.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> atanh(asarray([0., 0.5]))
    iverson.Tensor([0.        , 0.54930614])
    """

def sigmoid(x: A | ArrayLike, /) -> A:
    """1 / (1 + exp(-x)).

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> sigmoid(asarray([0., 2.]))
    iverson.Tensor([0.5       , 0.88079708])
    """

def silu(x: A | ArrayLike, /) -> A:
    """x * sigmoid(x).

    Parameters
    ----------
    x : an array or a number, of a floating dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> silu(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.73105858])
    """

def erf(x: A | ArrayLike, /) -> A:
    """The error function.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> erf(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.84270079])
    """

def erfc(x: A | ArrayLike, /) -> A:
    """1 - erf(x), exact for large x.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> erfc(asarray([0., 1.]))
    iverson.Tensor([1.        , 0.15729921])
    """

def lgamma(x: A | ArrayLike, /) -> A:
    """The logarithm of abs(gamma(x)); next to its zeros at negative x within 1e-15.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> lgamma(asarray([1., 5.]))
    iverson.Tensor([0.        , 3.17805383])
    """

def digamma(x: A | ArrayLike, /) -> A:
    """The derivative of lgamma; next to its zeros at negative x within 1e-15.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> digamma(asarray([1., 2.]))
    iverson.Tensor([-0.57721566,  0.42278434])
    """

def floor(x: A | ArrayLike, /) -> A:
    """The largest integer not above x.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> floor(asarray([1.5, -1.5]))
    iverson.Tensor([ 1., -2.])
    """

def ceil(x: A | ArrayLike, /) -> A:
    """The smallest integer not below x.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> ceil(asarray([1.5, -1.5]))
    iverson.Tensor([ 2., -1.])
    """

def trunc(x: A | ArrayLike, /) -> A:
    """x without its fraction.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> trunc(asarray([1.5, -1.5]))
    iverson.Tensor([ 1., -1.])
    """

def frac(x: A | ArrayLike, /) -> A:
    """x less its whole part, with the sign of x.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at whole numbers the derivative is 1.

    Examples
    --------
    >>> from iverson import asarray
    >>> frac(asarray([1.5, -1.25]))
    iverson.Tensor([ 0.5 , -0.25])
    """

def conj(x: A | ArrayLike, /) -> A:
    """The complex conjugate; real x as it is.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> conj(asarray([1 + 2j]))
    iverson.Tensor([1.-2.j])
    """

def real(x: A | ArrayLike, /) -> A:
    """The real part.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the real part's dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> real(asarray([1 + 2j]))
    iverson.Tensor([1.])
    """

def imag(x: A | ArrayLike, /) -> A:
    """The imaginary part; 0 for real x.

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of the real part's dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> imag(asarray([1 + 2j]))
    iverson.Tensor([2.])
    """

def angle(x: A | ArrayLike, /) -> A:
    """The argument, in (-pi, pi].

    Parameters
    ----------
    x : an array or a number, of a numeric dtype.

    Returns
    -------
    An array of x's shape, of a real floating dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: for real x the derivative is 0; at complex 0 it is nan.

    Examples
    --------
    >>> from iverson import asarray
    >>> angle(asarray([1 + 0j, 2j]))
    iverson.Tensor([0.        , 1.57079633])
    """

def isnan(x: A | ArrayLike, /) -> A:
    """Whether x is not a number.

    Parameters
    ----------
    x : an array or a number, of any dtype.

    Returns
    -------
    An array of x's shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> isnan(asarray([0., float('nan')]))
    iverson.Tensor([False,  True])
    """

def isinf(x: A | ArrayLike, /) -> A:
    """Whether x is infinite.

    Parameters
    ----------
    x : an array or a number, of any dtype.

    Returns
    -------
    An array of x's shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> isinf(asarray([0., float('inf')]))
    iverson.Tensor([False,  True])
    """

def isfinite(x: A | ArrayLike, /) -> A:
    """Whether x is not inf or nan.

    Parameters
    ----------
    x : an array or a number, of any dtype.

    Returns
    -------
    An array of x's shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> isfinite(asarray([0., float('inf')]))
    iverson.Tensor([ True, False])
    """

def signbit(x: A | ArrayLike, /) -> A:
    """Whether the sign bit is set, as it is in -0.0.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> signbit(asarray([0., -0.]))
    iverson.Tensor([False,  True])
    """

def logical_not(x: A | ArrayLike, /) -> A:
    """Whether x is zero.

    Parameters
    ----------
    x : an array or a number, of any dtype.

    Returns
    -------
    An array of x's shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> logical_not(asarray([0, 2]))
    iverson.Tensor([ True, False])
    """

def equal(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 and x2 are equal.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> equal(asarray([1, 2]), 2)
    iverson.Tensor([False,  True])
    """

def not_equal(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 and x2 differ.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> not_equal(asarray([1, 2]), 2)
    iverson.Tensor([ True, False])
    """

def less(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 < x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real or bool dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> less(asarray([1, 2]), 2)
    iverson.Tensor([ True, False])
    """

def less_equal(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 <= x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real or bool dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> less_equal(asarray([1, 2]), 2)
    iverson.Tensor([ True,  True])
    """

def greater(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 > x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real or bool dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> greater(asarray([1, 2]), 1)
    iverson.Tensor([False,  True])
    """

def greater_equal(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether x1 >= x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real or bool dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> greater_equal(asarray([1, 2]), 2)
    iverson.Tensor([False,  True])
    """

def logical_and(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether both are nonzero.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> logical_and(asarray([0, 1]), True)
    iverson.Tensor([False,  True])
    """

def logical_or(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether either is nonzero.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> logical_or(asarray([0, 1]), False)
    iverson.Tensor([False,  True])
    """

def logical_xor(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """Whether just one is nonzero.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of any dtype.

    Returns
    -------
    An array of the common shape, of dtype bool.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> logical_xor(asarray([0, 1]), True)
    iverson.Tensor([ True, False])
    """

def bitwise_invert(x: A | ArrayLike, /) -> A:
    """All bits turned over.

    Parameters
    ----------
    x : an array or a number, of an integer or bool dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_invert(asarray([0, 1]))
    iverson.Tensor([-1, -2])
    """

def bitwise_and(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The bits set in both.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of an integer or bool dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_and(asarray([5, 6]), 4)
    iverson.Tensor([4, 4])
    """

def bitwise_or(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The bits set in either.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of an integer or bool dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_or(asarray([1, 2]), 4)
    iverson.Tensor([5, 6])
    """

def bitwise_xor(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The bits set in just one.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of an integer or bool dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_xor(asarray([5, 6]), 4)
    iverson.Tensor([1, 2])
    """

def bitwise_left_shift(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 * 2**x2.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of an integer dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_left_shift(asarray([1, 2]), 2)
    iverson.Tensor([4, 8])
    """

def bitwise_right_shift(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """x1 / 2**x2, rounded down.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of an integer dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> bitwise_right_shift(asarray([4, 9]), 2)
    iverson.Tensor([1, 2])
    """

def maximum(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The larger of x1 and x2; nan if either is.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: equal arguments share the derivative: one half each.

    Examples
    --------
    >>> from iverson import asarray
    >>> maximum(asarray([1, 5]), 3)
    iverson.Tensor([3, 5])
    """

def minimum(x1: A | ArrayLike, x2: A | ArrayLike, /) -> A:
    """The smaller of x1 and x2; nan if either is.

    Parameters
    ----------
    x1, x2 : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: equal arguments share the derivative: one half each.

    Examples
    --------
    >>> from iverson import asarray
    >>> minimum(asarray([1, 5]), 3)
    iverson.Tensor([1, 3])
    """

def relu(x: A | ArrayLike, /) -> A:
    """x where it is positive, else 0.

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of the promoted dtype.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at 0 the derivative is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> relu(asarray([-1., 2.]))
    iverson.Tensor([0., 2.])
    """

