"""Calls of `scipy.special`."""

from __future__ import annotations

import numpy as np

from tests.interop.probe.table import calls, names, rng, without_floats

unit, other = rng.uniform(0.2, 0.8, 5), rng.uniform(0.25, 0.7, 5)
above, large = rng.uniform(1.1, 2.0, 5), rng.uniform(2.2, 3.5, 5)
whole, twos = np.arange(5), np.arange(5) + 2

_P = "special"
names(
    _P,
    "cbrt entr erf erfc erfcx erfi erfinv erfcinv exp1 exp10 exp2 exprel expi expit expm1 gamma gammaln "
    "gammasgn "
    "loggamma rgamma i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e y0 y1 log_ndtr logit log1p log_expit ndtr ndtri "
    "psi digamma sinc spence ellipk ellipkm1 ellipe cosdg sindg tandg cotdg cosm1 logsumexp softmax "
    "log_softmax softplus dawsn wofz fresnel sici shichi airy airye ber bei berp beip ker kei kerp keip "
    "kelvin "
    "lambertw wrightomega kolmogorov kolmogi it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 "
    "itstruve0 modfresnelm modfresnelp round",
    unit,
)
names(_P, "ndtri_exp", -unit)
names(_P, "zetac zeta", above)
names(
    _P,
    "agm betaln beta binom boxcox boxcox1p inv_boxcox inv_boxcox1p chdtr chdtrc gammainc gammaincc "
    "gammaincinv "
    "gammainccinv huber kl_div rel_entr xlogy xlog1py poch pseudo_huber pdtr pdtrc zeta stdtr stdtrit chdtri "
    "ellipkinc ellipeinc elliprc owens_t tklmbda powm1",
    above,
    unit,
)
names(_P, "pdtrik chdtriv", unit, above)
names(
    _P,
    "hyp0f1 jv jve yv yve iv ive kv kve hankel1 hankel1e hankel2 hankel2e struve modstruve pbdv pbvv pbwa",
    1.5,
    above,
)
names(_P, "hyp1f1 hyperu wright_bessel log_wright_bessel", 1.5, 2.5, unit)
names(_P, "hyp2f1", 1.5, 0.7, 2.5, unit)
names(_P, "eval_gegenbauer eval_genlaguerre", twos, 1.5, unit)
names(_P, "eval_jacobi eval_sh_jacobi", twos, 3.5, 1.5, unit)
names(_P, "ellipj", above, unit)
names(
    _P,
    "betainc betaincc betaincinv betainccinv fdtr fdtrc fdtri gdtr gdtrc gdtrix voigt_profile elliprd "
    "elliprf "
    "elliprg radian nctdtr nctdtrit",
    above,
    large,
    unit,
)
names(_P, "btdtria", unit, above, other)
names(_P, "btdtrib", above, unit, other)
names(_P, "gdtria", unit, above, large)
names(_P, "gdtrib", above, unit, large)
names(_P, "chndtr chndtrix", unit, 3.5, above)
names(_P, "elliprj ncfdtr", above, large, other, unit)
names(_P, "expn kn yn jn", twos, above)
names(
    _P,
    "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_hermite eval_hermitenorm eval_laguerre "
    "eval_legendre "
    "eval_sh_chebyt eval_sh_chebyu eval_sh_legendre spherical_jn spherical_yn spherical_in spherical_kn",
    whole,
    unit,
)
names(_P, "bdtr bdtrc bdtri nbdtr nbdtrc nbdtri", np.array([1, 2, 3]), np.array([4, 5, 6]), unit[:3])
names(_P, "pdtri", twos, unit)
names(_P, "smirnov smirnovi", twos, unit)
names(_P, "bdtrik nbdtrik", unit, twos, other)
names(_P, "bdtrin nbdtrin", twos - 1, unit, other)
names(_P, "stdtridf", unit, above)
names(_P, "chndtridf chndtrinc", above, other, large)
names(_P, "nctdtridf nctdtrinc", above, unit, large)
names(_P, "fdtridfd", above, unit, large)
names(_P, "ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc", above, large, other, unit)
names(_P, "nrdtrimn nrdtrisd", unit, above, large)
names(_P, "lpmv", np.array([0, 1, 2]), np.array([2, 3, 4]), unit[:3])
names(_P, "mathieu_a mathieu_b", twos, above)
names(
    _P,
    "mathieu_cem mathieu_sem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2",
    twos,
    above,
    unit,
)
names(_P, "obl_cv pro_cv", 1, 2, unit)
names(_P, "obl_ang1 obl_rad1 obl_rad2 pro_ang1", 1, 2, above, unit)
names(_P, "pro_rad1 pro_rad2", 1, 2, above, above)
names(_P, "obl_ang1_cv obl_rad1_cv obl_rad2_cv pro_ang1_cv", 1, 2, above, large, unit)
names(_P, "pro_rad1_cv pro_rad2_cv", 1, 2, above, large, above)
names(_P, "besselpoly", unit, 1.0, 2.0)
calls(
    _P,
    above,
    multigammaln=lambda f, x: f(x, 2),
    polygamma=lambda f, x: f(1, x),
    jvp=lambda f, x: f(2, x),
    yvp=lambda f, x: f(2, x),
    ivp=lambda f, x: f(2, x),
    kvp=lambda f, x: f(2, x),
    h1vp=lambda f, x: f(2, x),
    h2vp=lambda f, x: f(2, x),
    diric=lambda f, x: f(x, 3),
    comb=lambda f, x: f(x, 0.5),
    perm=lambda f, x: f(x, 0.5),
    factorial=lambda f, x: f(x),
    ellip_harm=lambda f, x: f(5, 8, 1, 1, x),
    lmbda=lambda f, x: f(2, x[0]),
    lqn=lambda f, x: f(2, x[0]),
    lqmn=lambda f, x: f(1, 2, x[0]),
    riccati_jn=lambda f, x: f(2, x[0]),
    riccati_yn=lambda f, x: f(2, x[0]),
    pbdv_seq=lambda f, x: f(2, x[0]),
    pbvv_seq=lambda f, x: f(2, x[0]),
)
calls(
    _P,
    unit,
    legendre_p=lambda f, x: f(2, x),
    legendre_p_all=lambda f, x: f(2, x),
    assoc_legendre_p=lambda f, x: f(3, 1, x),
    assoc_legendre_p_all=lambda f, x: f(3, 1, x),
    sph_legendre_p=lambda f, x: f(3, 1, x),
    sph_legendre_p_all=lambda f, x: f(3, 1, x),
    assoc_laguerre=lambda f, x: f(x, 2, 1.5),
    legendre=lambda f, x: f(2)(x),
    chebyt=lambda f, x: f(2)(x),
    hermite=lambda f, x: f(2)(x),
)
calls(_P, unit, sph_harm_y=lambda f, x: f(3, 1, x, 2 * x), sph_harm_y_all=lambda f, x: f(2, 1, x, 2 * x))
without_floats(
    _P,
    "geterr seterr errstate ai_zeros bei_zeros beip_zeros ber_zeros bernoulli berp_zeros bi_zeros "
    "erf_zeros euler "
    "factorial2 factorialk fresnel_zeros fresnelc_zeros fresnels_zeros jn_zeros jnjnp_zeros jnp_zeros "
    "jnyn_zeros "
    "kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros mathieu_even_coef mathieu_odd_coef "
    "obl_cv_seq pbdn_seq "
    "pro_cv_seq stirling2 y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros chebyu chebyc chebys jacobi "
    "laguerre "
    "genlaguerre hermitenorm gegenbauer sh_legendre sh_chebyt sh_chebyu sh_jacobi roots_legendre "
    "roots_chebyt "
    "roots_chebyu roots_chebyc roots_chebys roots_jacobi roots_laguerre roots_genlaguerre roots_hermite "
    "roots_hermitenorm roots_gegenbauer roots_sh_legendre roots_sh_chebyt roots_sh_chebyu "
    "roots_sh_jacobi p_roots "
    "t_roots u_roots c_roots s_roots j_roots l_roots la_roots h_roots he_roots cg_roots ps_roots "
    "ts_roots us_roots "
    "js_roots SpecialFunctionWarning SpecialFunctionError ellip_harm_2 ellip_normal",
)
