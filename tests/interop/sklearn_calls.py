"""Estimators and metrics of scikit-learn on tensors: how each call ends, as JSON.

Run as a program, as SciPy reads ``SCIPY_ARRAY_API`` when it is imported. Values are compared with those of
NumPy arrays, derivatives along a direction with central differences of these.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sklearn
from sklearn import metrics, preprocessing
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.metrics import pairwise
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import iverson as iv
from iverson.interop.sklearn import use

rng = np.random.default_rng(0)
samples = rng.normal(size=(12, 3))
positive, others = np.abs(samples[:5]), rng.uniform(0.2, 1.0, size=(5, 3))
classes = np.arange(12) % 2
found = np.concatenate([classes[:8], 1 - classes[8:]])
targets = rng.uniform(0.5, 2.0, size=12)
predictions = targets + rng.uniform(-0.3, 0.4, size=12)
probabilities = rng.dirichlet([1.0, 1.0], size=12)

#: By name, a function of arrays and the arrays it is called on.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def _transformed(estimator: Any, x: Any) -> Any:
    return sklearn.clone(estimator).fit_transform(x)


def _fitted(estimator: Any, method: str, x: Any, y: Any = None) -> Any:
    return getattr(sklearn.clone(estimator).fit(x, y), method)(x)


def _estimators(call: Callable[..., Any], args: tuple[Any, ...], *estimators: Any) -> None:
    for estimator in estimators:
        CALLS[type(estimator).__name__] = partial(call, estimator), args


def _functions(module: Any, names: str, *args: Any) -> None:
    for name in names.split():
        CALLS[name] = getattr(module, name), args


def _of_scores(metric: Callable[..., Any], scores: Any, y: Any) -> Any:
    return metric(y, scores)


_estimators(
    _transformed,
    (samples,),
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.Normalizer(),
    preprocessing.PolynomialFeatures(),
    preprocessing.Binarizer(),
    Nystroem(n_components=4, random_state=0),
    PCA(2, svd_solver="full"),
)
CALLS["PCA by eigh"] = partial(_transformed, PCA(2, svd_solver="covariance_eigh")), (samples,)
CALLS["StandardScaler of a constant"] = (
    partial(_transformed, preprocessing.StandardScaler()),
    (samples * [1.0, 0.0, 1.0],),
)
CALLS["KernelCenterer"] = lambda x: preprocessing.KernelCenterer().fit_transform(x @ x.T), (samples,)
CALLS["train_test_split"] = lambda x: train_test_split(x, random_state=0)[0], (samples,)
_estimators(_transformed, (classes,), preprocessing.LabelEncoder(), preprocessing.LabelBinarizer())
_estimators(
    lambda estimator, x, y: _fitted(estimator, "predict", x, y),
    (samples, targets),
    Ridge(solver="svd"),
    RidgeCV(),
    PoissonRegressor(),
)
_estimators(
    lambda estimator, x, y: _fitted(estimator, "decision_function", x, y),
    (samples, classes),
    RidgeClassifier(solver="svd"),
    RidgeClassifierCV(),
    LogisticRegression(),
    LinearDiscriminantAnalysis(),
)
_estimators(
    lambda estimator, x, y: _fitted(estimator, "predict_proba", x, y),
    (samples, classes),
    GaussianNB(),
    CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=2),
)
for _kind in ("full", "diag"):
    _mixture = GaussianMixture(2, covariance_type=_kind, init_params="random", tol=0.1, random_state=0)
    CALLS[f"GaussianMixture {_kind}"] = partial(_fitted, _mixture, "predict_proba"), (samples,)
_functions(
    pairwise,
    "euclidean_distances cosine_similarity cosine_distances linear_kernel polynomial_kernel rbf_kernel "
    "laplacian_kernel sigmoid_kernel chi2_kernel additive_chi2_kernel manhattan_distances "
    "paired_cosine_distances paired_euclidean_distances paired_manhattan_distances",
    positive,
    others,
)
_functions(
    metrics,
    "mean_squared_error root_mean_squared_error mean_absolute_error mean_absolute_percentage_error "
    "mean_squared_log_error root_mean_squared_log_error median_absolute_error max_error r2_score "
    "explained_variance_score mean_pinball_loss mean_tweedie_deviance mean_poisson_deviance "
    "mean_gamma_deviance d2_tweedie_score d2_absolute_error_score d2_pinball_score",
    targets,
    predictions,
)
_functions(
    metrics,
    "accuracy_score zero_one_loss f1_score precision_score recall_score jaccard_score hamming_loss "
    "balanced_accuracy_score cohen_kappa_score confusion_matrix multilabel_confusion_matrix "
    "matthews_corrcoef mutual_info_score",
    classes,
    found,
)
for _name in ("log_loss", "d2_log_loss_score"):
    CALLS[_name] = partial(_of_scores, getattr(metrics, _name)), (probabilities, classes)
for _name in (
    "brier_score_loss", "d2_brier_score", "roc_auc_score", "average_precision_score", "roc_curve",
    "precision_recall_curve", "det_curve",
):  # fmt: skip
    CALLS[_name] = partial(_of_scores, getattr(metrics, _name)), (probabilities[:, 1].copy(), classes)
_functions(metrics, "silhouette_score calinski_harabasz_score davies_bouldin_score", samples, classes)


weights = rng.uniform(0.5, 2.0, size=12)
tables = np.stack([targets, targets[::-1]], axis=1), np.stack([predictions, predictions[::-1]], axis=1)
for _name in (
    "mean_squared_error", "root_mean_squared_error", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_log_error", "root_mean_squared_log_error",
    "median_absolute_error", "r2_score", "explained_variance_score", "mean_pinball_loss",
    "mean_tweedie_deviance", "mean_poisson_deviance", "mean_gamma_deviance", "d2_tweedie_score",
):  # fmt: skip
    CALLS[f"{_name}, weighed"] = (
        lambda y, p, w, name=_name: getattr(metrics, name)(y, p, sample_weight=w),
        (targets, predictions, weights),
    )
    if "deviance" not in _name and "tweedie" not in _name:
        CALLS[f"{_name} of two"] = getattr(metrics, _name), tables
        CALLS[f"{_name} of each"] = (
            lambda y, p, name=_name: getattr(metrics, name)(y, p, multioutput="raw_values"),
            tables,
        )
for _name in (
    "euclidean_distances", "cosine_similarity", "cosine_distances", "linear_kernel",
    "polynomial_kernel", "rbf_kernel", "sigmoid_kernel", "laplacian_kernel", "chi2_kernel",
    "additive_chi2_kernel", "manhattan_distances",
):  # fmt: skip
    CALLS[f"{_name} of one"] = getattr(pairwise, _name), (positive,)
for _name in ("euclidean", "cosine", "manhattan", "l1", "l2", "cityblock"):
    CALLS[f"pairwise_distances {_name}"] = (
        lambda x, y, name=_name: metrics.pairwise_distances(x, y, metric=name),
        (positive, others),
    )
for _name in ("linear", "rbf", "cosine", "sigmoid", "poly", "laplacian"):
    CALLS[f"pairwise_kernels {_name}"] = (
        lambda x, y, name=_name: metrics.pairwise_kernels(x, y, metric=name),
        (positive, others),
    )
for _norm in ("l1", "l2", "max"):
    CALLS[f"normalize {_norm}"] = partial(preprocessing.normalize, norm=_norm), (samples,)
    CALLS[f"Normalizer {_norm}"] = partial(_transformed, preprocessing.Normalizer(norm=_norm)), (samples,)
_functions(preprocessing, "maxabs_scale minmax_scale scale add_dummy_feature", samples)
for _scaler in (
    preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MaxAbsScaler(),
    preprocessing.StandardScaler(with_mean=False), preprocessing.MinMaxScaler(feature_range=(-1, 1)),
    PCA(2, svd_solver="full"), PCA(2, svd_solver="full", whiten=True), PCA(2, svd_solver="covariance_eigh"),
):  # fmt: skip
    CALLS[f"{_scaler} and back"] = (
        lambda x, s=_scaler: (s := sklearn.clone(s)).inverse_transform(s.fit_transform(x)),
        (samples,),
    )
    CALLS[f"{_scaler}, of others"] = (
        lambda x, y, s=_scaler: sklearn.clone(s).fit(x).transform(y),
        (samples, positive),
    )
for _name in ("get_covariance", "get_precision"):
    CALLS[f"PCA {_name}"] = (
        lambda x, name=_name: getattr(PCA(2, svd_solver="full").fit(x), name)(),
        (samples,),
    )
for _estimator in (Ridge(solver="svd"), RidgeCV(), Ridge(solver="svd", fit_intercept=False)):
    CALLS[f"{_estimator} score"] = (
        lambda x, y, e=_estimator: sklearn.clone(e).fit(x, y).score(x, y),
        (samples, targets),
    )
    CALLS[f"{_estimator} weighed"] = (
        lambda x, y, w, e=_estimator: sklearn.clone(e).fit(x, y, sample_weight=w).predict(x),
        (samples, targets, weights),
    )
for _name in ("score_samples", "means_", "predict_proba"):
    CALLS[f"GaussianMixture {_name}"] = (
        lambda x, name=_name, g=_mixture: (
            sklearn.clone(g).fit(x).means_ if name == "means_" else getattr(sklearn.clone(g).fit(x), name)(x)
        ),
        (samples,),
    )


def _vector(result: Any) -> Any:
    """What a function gives, numbers, arrays and tuples of arrays, in one array of its kind."""
    parts = result if isinstance(result, tuple) else (result,)
    if any(isinstance(p, iv.Tensor) for p in parts):
        return iv.concat([iv.reshape(iv.asarray(p), (-1,)) for p in parts])
    return np.concatenate([np.ravel(p) for p in parts])


def of_values(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """How a call on tensors that track nothing ends: "right", or what is wrong."""
    expected = _vector(function(*args))
    try:
        result = np.asarray(_vector(function(*map(iv.asarray, args))))
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    same = result.shape == expected.shape and np.allclose(result, expected, rtol=1e-6, atol=1e-9)
    return "right" if same else "another value"


def of_derivatives(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """How the gradient of a call ends: "right", "refused: ...", "no floats", or what is wrong."""
    floats = [k for k, x in enumerate(args) if x.dtype.kind == "f"]
    if not floats:
        return "no floats"

    def along(t: float) -> Any:
        moved = [
            x + t * v if k in floats else x for k, (x, v) in enumerate(zip(args, direction, strict=True))
        ]
        return (_vector(function(*moved)) * weights)[finite].sum()

    def weighed(*moving: Any) -> Any:
        every = list(map(iv.asarray, args))
        for k, x in zip(floats, moving, strict=True):
            every[k] = x
        return (iv.asarray(_vector(function(*every))) * weights)[finite].sum()

    expected = _vector(function(*args))
    weights, finite = rng.normal(size=expected.shape), np.isfinite(expected)
    direction = [rng.normal(size=x.shape) * (x != 0) for x in args]
    try:
        grads = iv.grad(weighed, argnums=tuple(range(len(floats))))(*(iv.asarray(args[k]) for k in floats))
    except Exception as error:
        cause = error.__cause__ or error  # NumPy takes what refuses to become an array for a sequence
        if isinstance(cause, iv.errors.IversonError):
            return f"refused: {cause}"
        return f"raised {type(error).__name__}: {error}"
    derivative = sum(float((g * direction[k]).sum()) for k, g in zip(floats, grads, strict=True))
    h = 1e-5
    same = np.isclose(derivative, (along(h) - along(-h)) / (2 * h), rtol=1e-4, atol=1e-6)
    return "right" if same else f"another derivative: {derivative}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sklearn.set_config(array_api_dispatch=True)
    endings = {}
    for name, call in CALLS.items():
        by_name = of_derivatives(*call)
        with use():
            endings[name] = of_values(*call), by_name, of_derivatives(*call)
    print(json.dumps(endings))
