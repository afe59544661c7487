"""Calls of `scipy.stats`: each distribution, statistics, and tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.stats._distr_params import distcont, distdiscrete

from tests.interop.probe.table import calls, like, names, rng, without_floats

_P = "stats"
sample, second = rng.uniform(0.5, 2.0, 24), rng.uniform(0.4, 2.2, 24)
unit, matrix = rng.uniform(0.2, 0.8, 6), rng.normal(size=(6, 3))
counts = np.array([12.0, 9.0, 15.0, 11.0])
table = np.array([[10.0, 12.0, 9.0], [8.0, 15.0, 11.0]])
covariance = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]])
point = rng.normal(size=3)
share = np.array([0.2, 0.3, 0.5])


def _points(name: str, shapes: tuple[float, ...]) -> Any:
    if name == "studentized_range":
        return np.array([1.5, 2.5])
    if name == "levy_stable":
        return np.array([-0.4, 0.3, 0.9])
    return getattr(stats, name).ppf([0.25, 0.45, 0.7], *shapes)


def _distribution(name: str, shapes: tuple[float, ...]) -> None:
    x = _points(name, shapes)
    discrete = hasattr(getattr(stats, name), "pmf")
    real = [k for k, s in enumerate(shapes) if isinstance(s, float)]
    parameters = np.array([shapes[k] for k in real])

    def all_of(x: Any, p: Any) -> tuple[Any, ...]:
        every: list[Any] = list(shapes)
        for j, k in enumerate(real):
            every[k] = p[j]
        return tuple(every)

    if discrete:
        points = x
        calls(_P, parameters, **{name: lambda f, p: f.logpmf(points, *all_of(points, p))})
    else:
        calls(
            _P,
            2 * x + 0.5,
            parameters,
            np.array([0.5, 2.0]),
            **{name: lambda f, x, p, q: f.logpdf(x, *all_of(x, p), loc=q[0], scale=q[1])},
        )


for _name, _shapes in [*distcont, *distdiscrete]:
    if isinstance(_name, str) and _name not in ("rv_histogram_instance",):
        _distribution(_name, tuple(_shapes))

calls(
    _P,
    point,
    covariance,
    multivariate_normal=lambda f, x, c: f.logpdf(x, like(x, share), c),
    multivariate_t=lambda f, x, c: f.logpdf(x, like(x, share), c, df=4.0),
)
calls(_P, covariance, covariance + np.eye(3), wishart=lambda f, x, s: f.logpdf(x, 5, s))
calls(_P, covariance, covariance + np.eye(3), invwishart=lambda f, x, s: f.logpdf(x, 5, s))
calls(_P, share, 4 * share + 0.5, dirichlet=lambda f, x, a: f.logpdf(x / x.sum(), a))
calls(_P, share, multinomial=lambda f, p: f.logpmf(np.array([1, 2, 3]), 6, p))
calls(_P, 4 * share, dirichlet_multinomial=lambda f, a: f.logpmf(np.array([1, 2, 3]), a, 6))
calls(_P, matrix, covariance, matrix_normal=lambda f, x, c: f.logpdf(x[:4], like(x, np.zeros((4, 3))), 1, c))
calls(_P, matrix, covariance, matrix_t=lambda f, x, c: f.logpdf(x[:4], like(x, np.zeros((4, 3))), 1, c, 5.0))
calls(
    _P,
    share,
    vonmises_fisher=lambda f, x: f.logpdf(x / (x * x).sum() ** 0.5, share / np.linalg.norm(share), 2.0),
)
calls(_P, unit[:3], normal_inverse_gamma=lambda f, x: f.logpdf(x, x + 1, 0.2, 1.1, 2.0, 3.0))
calls(_P, unit, poisson_binom=lambda f, p: f.logpmf(2, p))

names(
    _P,
    "gmean hmean tmean tvar tmin tmax tstd tsem skew kurtosis sem zscore gzscore gstd iqr "
    "median_abs_deviation "
    "variation kstat kstatvar circmean circvar circstd entropy lmoment differential_entropy boxcox "
    "yeojohnson "
    "skewtest kurtosistest normaltest jarque_bera describe bayes_mvs mvsdist mode rankdata tiecorrect "
    "cumfreq "
    "relfreq shapiro obrientransform boxcox_normmax yeojohnson_normmax ppcc_max",
    sample,
)
calls(
    _P,
    sample,
    gaussian_kde=lambda f, x: f(x)(like(x, [1.0, 1.5])),
    ecdf=lambda f, x: f(x).cdf.quantiles,
    pmean=lambda f, x: f(x, 2.0),
    moment=lambda f, x: f(x, 3),
    expectile=lambda f, x: f(x, 0.3),
    trim_mean=lambda f, x: f(x, 0.2),
    trim1=lambda f, x: f(x, 0.2),
    trimboth=lambda f, x: f(x, 0.2),
    quantile=lambda f, x: f(x, 0.3),
    scoreatpercentile=lambda f, x: f(x, 30),
    percentileofscore=lambda f, x: f(x, 1.0),
    ttest_1samp=lambda f, x: tuple(f(x, 0.5))[:2],
    power_divergence=lambda f, x: tuple(f(x))[:1],
    chisquare=lambda f, x: tuple(f(x)),
    boxcox_llf=lambda f, x: f(0.5, x),
    boxcox_normplot=lambda f, x: f(x, 0.1, 1.0, N=5),
    yeojohnson_llf=lambda f, x: f(0.5, x),
    yeojohnson_normplot=lambda f, x: f(x, 0.1, 1.0, N=5),
    sigmaclip=lambda f, x: f(x).clipped,
    ks_1samp=lambda f, x: f(x, stats.norm.cdf).statistic,
    kstest=lambda f, x: f(x, stats.norm.cdf).statistic,
    cramervonmises=lambda f, x: f(x, stats.norm.cdf).statistic,
    anderson=lambda f, x: f(x, method="interpolate").statistic,
    goodness_of_fit=lambda f, x: f(stats.norm, x, n_mc_samples=9, rng=0).statistic,
    quantile_test=lambda f, x: f(x, q=1.0).statistic,
    probplot=lambda f, x: f(x)[0][1],
    ppcc_plot=lambda f, x: f(x, 0.1, 1.0, N=5),
    bootstrap=lambda f, x: f((x,), np.mean, n_resamples=9, rng=0).standard_error,
    monte_carlo_test=lambda f, x: f(x, stats.norm.rvs, np.mean, n_resamples=9).statistic,
    fit=lambda f, x: f(stats.norm, x, [(0, 5), (0.1, 5)]).params,
    binned_statistic=lambda f, x: f(x, 2 * x, bins=[0.0, 1.0, 1.5, 3.0]).statistic,
    binned_statistic_dd=lambda f, x: f(x[:, None], 2 * x, bins=[np.array([0.0, 1.0, 1.5, 3.0])]).statistic,
    order_statistic=lambda f, x: f(stats.Normal(), n=5, r=2).pdf(x),
    Normal=lambda f, x: f(mu=0.5, sigma=1.5).logpdf(x),
    Logistic=lambda f, x: f().logpdf(x),
    Uniform=lambda f, x: f(a=0.0, b=3.0).logpdf(x),
    Mixture=lambda f, x: f([stats.Normal(), stats.Normal(mu=1.0)]).pdf(x),
    truncate=lambda f, x: f(stats.Normal(), lb=0.0, ub=4.0).pdf(x),
    exp=lambda f, x: f(stats.Normal()).pdf(x),
    log=lambda f, x: f(stats.Uniform(a=1.0, b=3.0)).pdf(-x),
    abs=lambda f, x: f(stats.Normal()).pdf(x),
    rv_histogram=lambda f, x: f((like(x, [1.0, 2.0]), like(x, [0.0, 1.0, 2.5]))).pdf(x),
)
names(
    _P,
    "pearsonr ttest_ind ttest_rel f_oneway bartlett levene alexandergovern zmap spearmanr kendalltau "
    "weightedtau "
    "somersd linregress theilslopes siegelslopes ansari fligner mood mannwhitneyu wilcoxon kruskal ranksums "
    "brunnermunzel energy_distance wasserstein_distance ks_2samp cramervonmises_2samp "
    "epps_singleton_2samp median_test bws_test tukey_hsd chatterjeexi spearmanrho friedmanchisquare",
    sample,
    second,
)
names(_P, "friedmanchisquare", sample, second, sample * second)
calls(
    _P,
    sample,
    second,
    pointbiserialr=lambda f, x, y: f(np.arange(24) % 2, y).correlation,
    anderson_ksamp=lambda f, x, y: f([x, y]).statistic,
    logrank=lambda f, x, y: f(x, y).statistic,
    dunnett=lambda f, x, y: f(x, control=y, rng=0).statistic,
    permutation_test=lambda f, x, y: (
        f((x, y), lambda a, b: a.mean() - b.mean(), n_resamples=9, rng=0).statistic
    ),
    binned_statistic_2d=lambda f, x, y: f(x, y, x * y, bins=[np.array([0.0, 1.0, 3.0])] * 2).statistic,
)
names(_P, "false_discovery_control", unit)
calls(_P, unit, combine_pvalues=lambda f, x: tuple(f(x)))
calls(
    _P,
    unit[:2],
    unit[2:4],
    ttest_ind_from_stats=lambda f, a, b: tuple(f(a[0], a[1], 10, b[0], b[1], 12)),
)
calls(_P, unit[:4], poisson_means_test=lambda f, p: f(3, p[0], 4, p[1]).pvalue)
calls(_P, matrix, directional_stats=lambda f, x: f(x).mean_direction)
calls(_P, matrix, matrix[::-1].copy(), multiscale_graphcorr=lambda f, x, y: f(x, y, reps=2).statistic)
calls(_P, matrix, matrix[::-1].copy(), wasserstein_distance_nd=lambda f, x, y: f(x, y))
names(_P, "page_trend_test", matrix)
names(_P, "chi2_contingency", table)
calls(_P, point[:3], random_correlation=lambda f, e: f(e - e.sum() / 3 + 1).rvs(random_state=0))
without_floats(
    _P,
    "Binomial BootstrapMethod CensoredData ConstantInputWarning Covariance DegenerateDataWarning FitError "
    "MonteCarloMethod multivariate_hypergeom NearConstantInputWarning PermutationMethod barnard_exact "
    "binomtest boschloo_exact "
    "fisher_exact make_distribution ortho_group power random_table rv_continuous rv_discrete "
    "sobol_indices special_ortho_group uniform_direction unitary_group",
)
