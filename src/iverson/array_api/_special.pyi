"""The special functions of records. Written by tools/stubs.py from the tables: do not edit."""

from iverson.tensor.typing import A, ArrayLike

def erfinv(x: A | ArrayLike, /) -> A:
    """The inverse of erf, on [-1, 1].

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
    >>> erfinv(asarray([0., 0.5]))
    iverson.Tensor([0.        , 0.47693628])
    """

def erfcx(x: A | ArrayLike, /) -> A:
    """exp(x**2) * erfc(x), which does not vanish for large x.

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
    >>> erfcx(asarray([0., 100.]))
    iverson.Tensor([1.        , 0.00564161])
    """

def ndtr(x: A | ArrayLike, /) -> A:
    """The distribution function of the standard normal distribution.

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
    >>> ndtr(asarray([0., 1.]))
    iverson.Tensor([0.5       , 0.84134475])
    """

def ndtri(x: A | ArrayLike, /) -> A:
    """The inverse of ndtr, on [0, 1].

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
    >>> ndtri(asarray([0.5, 0.9]))
    iverson.Tensor([0.        , 1.28155157])
    """

def log_ndtr(x: A | ArrayLike, /) -> A:
    """The logarithm of ndtr, exact where that vanishes.

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
    >>> log_ndtr(asarray([0., -100.]))
    iverson.Tensor([-6.93147181e-01, -5.00552421e+03])
    """

def logit(x: A | ArrayLike, /) -> A:
    """log(x / (1 - x)), the inverse of the logistic function.

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
    >>> logit(asarray([0.5, 0.9]))
    iverson.Tensor([0.        , 2.19722458])
    """

def xlogy(x: A | ArrayLike, y: A | ArrayLike, /) -> A:
    """x * log(y), and 0 where x is 0.

    Parameters
    ----------
    x, y : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at x = 0 and y = 0 the derivative in y is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> xlogy(asarray([0., 2.]), 0.5)
    iverson.Tensor([ 0.        , -1.38629436])
    """

def xlog1py(x: A | ArrayLike, y: A | ArrayLike, /) -> A:
    """x * log(1 + y), and 0 where x is 0.

    Parameters
    ----------
    x, y : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at x = 0 and y = -1 the derivative in y is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> xlog1py(asarray([0., 2.]), 1e-20)
    iverson.Tensor([0.e+00, 2.e-20])
    """

def entr(x: A | ArrayLike, /) -> A:
    """-x * log(x), 0 at 0 and -inf below.

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
    >>> entr(asarray([0., 0.5]))
    iverson.Tensor([0.        , 0.34657359])
    """

def rel_entr(x: A | ArrayLike, y: A | ArrayLike, /) -> A:
    """x * log(x / y), 0 where x is 0 and y is not below; inf elsewhere.

    Parameters
    ----------
    x, y : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at x = 0 and y = 0 the derivative in y is 0.

    Examples
    --------
    >>> from iverson import asarray
    >>> rel_entr(asarray([0., 0.5]), 0.25)
    iverson.Tensor([0.        , 0.34657359])
    """

def kl_div(x: A | ArrayLike, y: A | ArrayLike, /) -> A:
    """x * log(x / y) - x + y, y where x is 0; inf where x or y is negative.

    Parameters
    ----------
    x, y : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Notes
    -----
    Derivative: at x = y = 0 the derivative in y is 1.

    Examples
    --------
    >>> from iverson import asarray
    >>> kl_div(asarray([0., 0.5]), 0.25)
    iverson.Tensor([0.25      , 0.09657359])
    """

def i0(x: A | ArrayLike, /) -> A:
    """The modified Bessel function of the first kind of order 0.

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
    >>> i0(asarray([0., 1.]))
    iverson.Tensor([1.        , 1.26606588])
    """

def i0e(x: A | ArrayLike, /) -> A:
    """exp(-abs(x)) * i0(x).

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at 0 the derivative is 0, the mean of both sides.

    Examples
    --------
    >>> from iverson import asarray
    >>> i0e(asarray([0., 1.]))
    iverson.Tensor([1.        , 0.46575961])
    """

def i1(x: A | ArrayLike, /) -> A:
    """The modified Bessel function of the first kind of order 1.

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
    >>> i1(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.5651591])
    """

def i1e(x: A | ArrayLike, /) -> A:
    """exp(-abs(x)) * i1(x).

    Parameters
    ----------
    x : an array or a number, of a real dtype.

    Returns
    -------
    An array of x's shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes.

    Notes
    -----
    Derivative: at 0 the derivative is 1/2.

    Examples
    --------
    >>> from iverson import asarray
    >>> i1e(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.20791042])
    """

def j0(x: A | ArrayLike, /) -> A:
    """The Bessel function of the first kind of order 0.

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
    >>> j0(asarray([0., 1.]))
    iverson.Tensor([1.        , 0.76519769])
    """

def j1(x: A | ArrayLike, /) -> A:
    """The Bessel function of the first kind of order 1.

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
    >>> j1(asarray([0., 1.]))
    iverson.Tensor([0.        , 0.44005059])
    """

def sinc(x: A | ArrayLike, /) -> A:
    """sin(pi * x) / (pi * x), 1 at 0.

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
    >>> sinc(asarray([0., 0.5]))
    iverson.Tensor([1.        , 0.63661977])
    """

def gammainc(a: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The regularized lower incomplete gamma function P(a, x).

    Parameters
    ----------
    a, x : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> gammainc(asarray([1., 2.]), 1.)
    iverson.Tensor([0.63212056, 0.26424112])
    """

def gammaincc(a: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The regularized upper incomplete gamma function 1 - P(a, x).

    Parameters
    ----------
    a, x : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> gammaincc(asarray([1., 2.]), 1.)
    iverson.Tensor([0.36787944, 0.73575888])
    """

def betaln(a: A | ArrayLike, b: A | ArrayLike, /) -> A:
    """The logarithm of abs(B(a, b)), the beta function.

    Parameters
    ----------
    a, b : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> betaln(asarray([1., 2.]), 3.)
    iverson.Tensor([-1.09861229, -2.48490665])
    """

def betainc(a: A | ArrayLike, b: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The regularized incomplete beta function I_x(a, b).

    Parameters
    ----------
    a, b, x : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> betainc(asarray([1., 2.]), 3., 0.5)
    iverson.Tensor([0.875 , 0.6875])
    """

