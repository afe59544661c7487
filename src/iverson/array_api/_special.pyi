"""The special functions of records. Written by tools/stubs.py from the tables: do not edit."""

from iverson.handles.typing import A, ArrayLike

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

def betaincc(a: A | ArrayLike, b: A | ArrayLike, x: A | ArrayLike, /) -> A:
    """The complement 1 - I_x(a, b) of the regularized incomplete beta function.

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
    >>> betaincc(asarray([1., 2.]), 3., 0.5)
    iverson.Tensor([0.125 , 0.3125])
    """

def gammaincinv(a: A | ArrayLike, p: A | ArrayLike, /) -> A:
    """The x with gammainc(a, x) = p.

    Parameters
    ----------
    a, p : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> gammaincinv(asarray([1., 2.]), 0.5)
    iverson.Tensor([0.69314718, 1.67834699])
    """

def betaincinv(a: A | ArrayLike, b: A | ArrayLike, p: A | ArrayLike, /) -> A:
    """The x with betainc(a, b, x) = p.

    Parameters
    ----------
    a, b, p : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> betaincinv(asarray([1., 2.]), 2., 0.5)
    iverson.Tensor([0.29289322, 0.5       ])
    """

def gammainccinv(a: A | ArrayLike, p: A | ArrayLike, /) -> A:
    """The x with gammaincc(a, x) = p, exact for small p.

    Parameters
    ----------
    a, p : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> gammainccinv(asarray([1., 2.]), 0.5)
    iverson.Tensor([0.69314718, 1.67834699])
    """

def betainccinv(a: A | ArrayLike, b: A | ArrayLike, p: A | ArrayLike, /) -> A:
    """The x with betaincc(a, b, x) = p, exact for small p.

    Parameters
    ----------
    a, b, p : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> betainccinv(asarray([1., 2.]), 2., 0.5)
    iverson.Tensor([0.29289322, 0.5       ])
    """

def cbrt(x: A | ArrayLike, /) -> A:
    """The real cube root.

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
    Derivative: at 0 the derivative is inf.

    Examples
    --------
    >>> from iverson import asarray
    >>> cbrt(asarray([8., -1.]))
    iverson.Tensor([ 2., -1.])
    """

def exp10(x: A | ArrayLike, /) -> A:
    """10**x.

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
    >>> exp10(asarray([0., 2.]))
    iverson.Tensor([  1., 100.])
    """

def exprel(x: A | ArrayLike, /) -> A:
    """(exp(x) - 1) / x, 1 at 0.

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
    >>> exprel(asarray([0., 1.]))
    iverson.Tensor([1.        , 1.71828183])
    """

def cosm1(x: A | ArrayLike, /) -> A:
    """cos(x) - 1.

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
    >>> cosm1(asarray([0., 1.]))
    iverson.Tensor([ 0.        , -0.45969769])
    """

def sindg(x: A | ArrayLike, /) -> A:
    """The sine of an angle in degrees.

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
    >>> sindg(asarray([30., 90.]))
    iverson.Tensor([0.5, 1. ])
    """

def cosdg(x: A | ArrayLike, /) -> A:
    """The cosine of an angle in degrees.

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
    >>> cosdg(asarray([60., 180.]))
    iverson.Tensor([ 0.5, -1. ])
    """

def tandg(x: A | ArrayLike, /) -> A:
    """The tangent of an angle in degrees.

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
    >>> tandg(asarray([0., 45.]))
    iverson.Tensor([0., 1.])
    """

def boxcox(x: A | ArrayLike, lmbda: A | ArrayLike, /) -> A:
    """The Box-Cox transformation (x**lmbda - 1) / lmbda, log(x) for lmbda = 0.

    Parameters
    ----------
    x, lmbda : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> boxcox(asarray([1., 4.]), 0.5)
    iverson.Tensor([0., 2.])
    """

def boxcox1p(x: A | ArrayLike, lmbda: A | ArrayLike, /) -> A:
    """The Box-Cox transformation of 1 + x.

    Parameters
    ----------
    x, lmbda : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> boxcox1p(asarray([0., 3.]), 0.5)
    iverson.Tensor([0., 2.])
    """

def inv_boxcox(y: A | ArrayLike, lmbda: A | ArrayLike, /) -> A:
    """The inverse of the Box-Cox transformation in its first argument.

    Parameters
    ----------
    y, lmbda : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> inv_boxcox(asarray([0., 2.]), 0.5)
    iverson.Tensor([1., 4.])
    """

def inv_boxcox1p(y: A | ArrayLike, lmbda: A | ArrayLike, /) -> A:
    """The inverse of `boxcox1p` in its first argument.

    Parameters
    ----------
    y, lmbda : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> inv_boxcox1p(asarray([0., 2.]), 0.5)
    iverson.Tensor([0., 3.])
    """

def gamma(x: A | ArrayLike, /) -> A:
    """The gamma function.

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
    >>> gamma(asarray([1., 5.]))
    iverson.Tensor([ 1., 24.])
    """

def rgamma(x: A | ArrayLike, /) -> A:
    """1 / gamma(x).

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
    >>> rgamma(asarray([1., 3.]))
    iverson.Tensor([1. , 0.5])
    """

def loggamma(x: A | ArrayLike, /) -> A:
    """The principal branch of the logarithm of the gamma function: nan for x < 0.

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
    >>> loggamma(asarray([1., 3.]))
    iverson.Tensor([0.        , 0.69314718])
    """

def beta(a: A | ArrayLike, b: A | ArrayLike, /) -> A:
    """The beta function gamma(a) gamma(b) / gamma(a + b).

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
    >>> beta(asarray([1., 2.]), 2.)
    iverson.Tensor([0.5       , 0.16666667])
    """

def binom(n: A | ArrayLike, k: A | ArrayLike, /) -> A:
    """The binomial coefficient, of real n and k too.

    Parameters
    ----------
    n, k : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> binom(asarray([4., 5.]), 2.)
    iverson.Tensor([ 6., 10.])
    """

def poch(z: A | ArrayLike, m: A | ArrayLike, /) -> A:
    """The Pochhammer symbol gamma(z + m) / gamma(z).

    Parameters
    ----------
    z, m : arrays or numbers that broadcast, of a real dtype.

    Returns
    -------
    An array of the common shape, of a floating dtype: integers become float64.

    Raises
    ------
    DTypeError for other dtypes, ShapeError where shapes do not fit.

    Examples
    --------
    >>> from iverson import asarray
    >>> poch(asarray([1., 2.]), 3.)
    iverson.Tensor([ 6., 24.])
    """

def zetac(x: A | ArrayLike, /) -> A:
    """Riemann's zeta function less 1.

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
    >>> zetac(asarray([2., 4.]))
    iverson.Tensor([0.64493407, 0.08232323])
    """

def exp1(x: A | ArrayLike, /) -> A:
    """The exponential integral E1.

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
    >>> exp1(asarray([1., 2.]))
    iverson.Tensor([0.21938393, 0.04890051])
    """

def expi(x: A | ArrayLike, /) -> A:
    """The exponential integral Ei.

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
    >>> expi(asarray([1., 2.]))
    iverson.Tensor([1.89511782, 4.95423436])
    """

def spence(x: A | ArrayLike, /) -> A:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x.

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
    >>> spence(asarray([1., 2.]))
    iverson.Tensor([ 0.        , -0.82246703])
    """

def k0(x: A | ArrayLike, /) -> A:
    """The modified Bessel function of the second kind of order 0.

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
    >>> k0(asarray([1., 2.]))
    iverson.Tensor([0.42102444, 0.11389387])
    """

def k1(x: A | ArrayLike, /) -> A:
    """The modified Bessel function of the second kind of order 1.

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
    >>> k1(asarray([1., 2.]))
    iverson.Tensor([0.60190723, 0.13986588])
    """

def k0e(x: A | ArrayLike, /) -> A:
    """exp(x) * k0(x).

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
    >>> k0e(asarray([1., 2.]))
    iverson.Tensor([1.14446308, 0.84156822])
    """

def k1e(x: A | ArrayLike, /) -> A:
    """exp(x) * k1(x).

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
    >>> k1e(asarray([1., 2.]))
    iverson.Tensor([1.63615349, 1.03347685])
    """

def y0(x: A | ArrayLike, /) -> A:
    """The Bessel function of the second kind of order 0.

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
    >>> y0(asarray([1., 2.]))
    iverson.Tensor([0.08825696, 0.51037567])
    """

def y1(x: A | ArrayLike, /) -> A:
    """The Bessel function of the second kind of order 1.

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
    >>> y1(asarray([1., 2.]))
    iverson.Tensor([-0.78121282, -0.10703243])
    """

