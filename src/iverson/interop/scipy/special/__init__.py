"""Functions of `scipy.special` on tensors: those of `iverson.special`, and SciPy's with derivatives said
here.

Import rule: packages of lower layers; of the modules below, each imports only those listed before it.

- `records`: SciPy's function and its derivatives as an op.
- `bessel_orders`: Bessel, Airy, Struve and Kelvin functions.
- `elliptic`: elliptic integrals and hypergeometric functions.
- `polynomials`: orthogonal polynomials.
- `probability`: integrals, quantiles and distribution functions.
"""

from typing import Any as _Any

import iverson as _iverson
from iverson import special as _special
from iverson.interop.scipy.special import bessel_orders as _bessel
from iverson.interop.scipy.special import elliptic as _elliptic
from iverson.interop.scipy.special import polynomials as _polynomials
from iverson.interop.scipy.special import probability as _probability
from iverson.interop.scipy.special.probability import _wofz as wofz

_OWN: dict[str, _Any] = {
    **{name: getattr(_special, name) for name in _special.__dir__()},
    "expm1": _iverson.expm1,
    "iv": _bessel.iv_,
    "log1p": _iverson.log1p,
    "round": _iverson.round,
    "wofz": wofz,
}
_NAMES = [
    "agm",
    "airy",
    "airye",
    "assoc_laguerre",
    "bdtr",
    "bdtrc",
    "bdtri",
    "bei",
    "beip",
    "ber",
    "berp",
    "btdtria",
    "btdtrib",
    "chdtri",
    "chdtriv",
    "chndtr",
    "comb",
    "cotdg",
    "dawsn",
    "diric",
    "ellipe",
    "ellipeinc",
    "ellipj",
    "ellipk",
    "ellipkinc",
    "ellipkm1",
    "elliprc",
    "elliprd",
    "elliprf",
    "elliprg",
    "erfcinv",
    "erfi",
    "eval_chebyc",
    "eval_chebys",
    "eval_chebyt",
    "eval_chebyu",
    "eval_gegenbauer",
    "eval_genlaguerre",
    "eval_hermite",
    "eval_hermitenorm",
    "eval_jacobi",
    "eval_laguerre",
    "eval_legendre",
    "eval_sh_chebyt",
    "eval_sh_chebyu",
    "eval_sh_jacobi",
    "eval_sh_legendre",
    "expn",
    "factorial",
    "fdtri",
    "fresnel",
    "gdtria",
    "gdtrib",
    "gdtrix",
    "h1vp",
    "h2vp",
    "hankel1",
    "hankel1e",
    "hankel2",
    "hankel2e",
    "hyp0f1",
    "hyp1f1",
    "hyp2f1",
    "hyperu",
    "it2i0k0",
    "it2j0y0",
    "it2struve0",
    "itairy",
    "iti0k0",
    "itj0y0",
    "itmodstruve0",
    "itstruve0",
    "ive",
    "ivp",
    "jn",
    "jv",
    "jve",
    "jvp",
    "kei",
    "keip",
    "kelvin",
    "ker",
    "kerp",
    "kn",
    "kv",
    "kve",
    "kvp",
    "lambertw",
    "log_expit",
    "log_wright_bessel",
    "lpmv",
    "modstruve",
    "nbdtr",
    "nbdtrc",
    "nbdtri",
    "ndtri_exp",
    "owens_t",
    "pdtri",
    "pdtrik",
    "perm",
    "powm1",
    "shichi",
    "sici",
    "softplus",
    "sph_harm_y",
    "spherical_in",
    "spherical_jn",
    "spherical_kn",
    "spherical_yn",
    "stdtrit",
    "struve",
    "tklmbda",
    "voigt_profile",
    "wright_bessel",
    "wrightomega",
    "yn",
    "yv",
    "yve",
    "yvp",
]


def _there(name: str) -> _Any:
    for module in (_bessel, _elliptic, _polynomials, _probability):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'iverson.interop.scipy.special' has no attribute '{name}'")


globals().update({name: _there(name) for name in _NAMES} | _OWN)
__all__ = sorted({*_NAMES, *_OWN})  # noqa: PLE0605
