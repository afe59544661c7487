"""Calls of `scipy.interpolate`, `scipy.optimize`, `scipy.integrate` and `scipy.spatial`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.probe.table import calls, like, names, rng, without_floats

grid, values, at = np.arange(8.0), rng.normal(size=8), np.array([0.3, 1.7, 5.2])
plane, nodes = rng.normal(size=(6, 7)), rng.uniform(0, 5, size=(12, 2))
heights, wave, matrix = rng.normal(size=12), rng.normal(size=6), rng.normal(size=(4, 9))
points, others = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
start, target = np.array([0.4, 0.7]), np.array([1.0, 2.0])

_P = "interpolate"
calls(
    _P,
    values,
    at,
    **{
        name: (lambda f, y, x: f(like(y, grid), y)(x))
        for name in [
            "PchipInterpolator",
            "CubicSpline",
            "Akima1DInterpolator",
            "BarycentricInterpolator",
            "KroghInterpolator",
            "interp1d",
            "FloaterHormannInterpolator",
            "InterpolatedUnivariateSpline",
            "UnivariateSpline",
            "make_interp_spline",
            "AAA",
            "make_smoothing_spline",
        ]
    },
    barycentric_interpolate=lambda f, y, x: f(like(y, grid), y, x),
    krogh_interpolate=lambda f, y, x: f(like(y, grid), y, x),
    pchip_interpolate=lambda f, y, x: f(like(y, grid), y, x),
    CubicHermiteSpline=lambda f, y, x: f(like(y, grid), y, 2 * y)(x),
    make_lsq_spline=lambda f, y, x: f(like(y, grid), y, like(y, [0.0] * 4 + [3.5] + [7.0] * 4))(x),
    LSQUnivariateSpline=lambda f, y, x: f(like(y, grid), y, like(y, [3.5]))(x),
    BSpline=lambda f, y, x: f(like(y, np.arange(12.0) - 3), y, 3)(x),
    PPoly=lambda f, y, x: f(y.reshape((2, 4)), like(y, np.arange(5.0)))(x),
    BPoly=lambda f, y, x: f(y.reshape((2, 4)), like(y, np.arange(5.0)))(x),
    splev=lambda f, y, x: f(x, (np.arange(12.0) - 3, y, 3)),
    splrep=lambda f, y, x: f(like(y, grid), y)[1],
    splint=lambda f, y, x: f(0.5, 3.0, (np.arange(12.0) - 3, y, 3)),
    spalde=lambda f, y, x: f(1.5, (np.arange(12.0) - 3, y, 3)),
    splder=lambda f, y, x: f((np.arange(8.0), y, 3))[1],
    splantider=lambda f, y, x: f((np.arange(8.0), y, 3))[1],
    sproot=lambda f, y, x: f((np.arange(12.0) - 3, y, 3)),
    insert=lambda f, y, x: f(2.5, (np.arange(12.0) - 3, y, 3))[1],
    RegularGridInterpolator=lambda f, y, x: f((like(y, grid),), y, method="cubic")(x[:, None]),
    interpn=lambda f, y, x: f((like(y, grid),), y, x[:, None]),
    lagrange=lambda f, y, x: f(like(y, grid[:4]), y[:4])(x),
    pade=lambda f, y, x: f(y[:4], 1)[0].coef,
    NdBSpline=lambda f, y, x: f((np.arange(12.0) - 3,), y, 3)(x[:, None]),
    NdPPoly=lambda f, y, x: f(y.reshape((2, 4)), (like(y, np.arange(5.0)),))(x[:, None]),
    generate_knots=lambda f, y, x: list(f(like(y, grid), y, s=1.0))[-1],
    splprep=lambda f, y, x: f([like(y, grid), y])[0][1][1],
    make_splprep=lambda f, y, x: f([like(y, grid), y])[0].c,
    make_splrep=lambda f, y, x: f(like(y, grid), y)(x),
)
calls(
    _P,
    heights,
    **{
        name: (lambda f, z: f(nodes, z)(nodes[:3] / 2 + 1))
        for name in [
            "CloughTocher2DInterpolator",
            "LinearNDInterpolator",
            "NearestNDInterpolator",
            "RBFInterpolator",
        ]
    },
    Rbf=lambda f, z: f(nodes[:, 0], nodes[:, 1], z)(nodes[:3, 0] / 2, nodes[:3, 1] / 2),
    griddata=lambda f, z: f(nodes, z, nodes[:3] / 2 + 1),
)
calls(
    _P,
    plane,
    RectBivariateSpline=lambda f, z: f(np.arange(6.0), np.arange(7.0), z)(2.3, 1.2),
    bisplrep=lambda f, z: f(np.arange(36.0) % 6, np.arange(36.0) // 6, z.reshape((-1,))[:36])[2],
    bisplev=lambda f, z: f(2.3, 1.2, (np.arange(10.0), np.arange(11.0), z.reshape((-1,)), 3, 3)),
    RectSphereBivariateSpline=lambda f, z: f(np.linspace(0.1, 3, 6), np.linspace(0, 6, 7), z)(1.3, 1.2),
)
without_floats(
    _P,
    "BivariateSpline LSQBivariateSpline LSQSphereBivariateSpline SmoothBivariateSpline "
    "SmoothSphereBivariateSpline "
    "approximate_taylor_polynomial interp2d",
)


def _square(x: Any, a: Any) -> Any:
    return ((x - a) ** 2).sum() + 0.1 * (x**4).sum()


def _zero(x: Any, a: Any) -> Any:
    return x**3 + x - a


def _zero0(x: Any, a: Any) -> Any:
    return x**3 + x - a[0]


def _line(x: Any, a: Any) -> Any:
    return (x - a[0]) ** 2 + 0.1 * x**4


_O = "optimize"
names(_O, "rosen rosen_der rosen_hess", wave)
names(_O, "rosen_hess_prod", wave, wave[::-1].copy())
calls(
    _O,
    target,
    minimize=lambda f, a: f(_square, start, args=(a,), options={"gtol": 1e-9}).x,
    least_squares=lambda f, a: f(_zero, start, args=(a,), xtol=1e-12, ftol=1e-12, gtol=1e-12).x,
    root=lambda f, a: f(_zero, start, args=(a,), tol=1e-12).x,
    fsolve=lambda f, a: f(_zero, start, args=(a,), xtol=1e-12),
    leastsq=lambda f, a: f(_zero, start, args=(a,))[0],
    brentq=lambda f, a: f(_zero0, -3.0, 3.0, args=(a,)),
    brenth=lambda f, a: f(_zero0, -3.0, 3.0, args=(a,)),
    bisect=lambda f, a: f(_zero0, -3.0, 3.0, args=(a,)),
    ridder=lambda f, a: f(_zero0, -3.0, 3.0, args=(a,)),
    toms748=lambda f, a: f(_zero0, -3.0, 3.0, args=(a,)),
    newton=lambda f, a: f(_zero0, 0.5, args=(a,)),
    root_scalar=lambda f, a: f(_zero0, args=(a,), bracket=(-3.0, 3.0)).root,
    minimize_scalar=lambda f, a: f(_line, args=(a,), tol=1e-12).x,
    fminbound=lambda f, a: f(_line, -3.0, 3.0, args=(a,), xtol=1e-12),
    brent=lambda f, a: f(_line, args=(a,), tol=1e-12),
    golden=lambda f, a: f(_line, args=(a,), tol=1e-12),
    fmin=lambda f, a: f(_square, start, args=(a,), disp=False, xtol=1e-9, ftol=1e-12),
    fmin_bfgs=lambda f, a: f(_square, start, args=(a,), disp=False, gtol=1e-9),
    fmin_cg=lambda f, a: f(_square, start, args=(a,), disp=False, gtol=1e-9),
    fmin_powell=lambda f, a: f(_square, start, args=(a,), disp=False, xtol=1e-9, ftol=1e-12),
    fmin_l_bfgs_b=lambda f, a: f(_square, start, args=(a,), approx_grad=True, factr=10.0, pgtol=1e-9)[0],
    fmin_tnc=lambda f, a: f(
        _square,
        start,
        lambda x, a: 2 * (x - a) + 0.4 * x**3,
        args=(a,),
        disp=0,
        ftol=1e-14,
        xtol=1e-10,
        pgtol=1e-10,
    )[0],
    fmin_slsqp=lambda f, a: f(_square, start, args=(a,), iprint=0, acc=1e-12),
    fmin_cobyla=lambda f, a: f(_square, start, [], args=(a,), consargs=(), rhoend=1e-9),
    fmin_ncg=lambda f, a: f(_square, start, lambda x, a: 2 * (x - a) + 0.4 * x**3, args=(a,), disp=False),
    fixed_point=lambda f, a: f(lambda x, a: 0.5 * (x * x * 0.1 + a), start, args=(a,), xtol=1e-12),
    differential_evolution=lambda f, a: f(_square, [(-3, 3)] * 2, args=(a,), rng=0, tol=1e-9).x,
    basinhopping=lambda f, a: f(_square, start, niter=2, minimizer_kwargs={"args": (a,)}, rng=0).x,
    dual_annealing=lambda f, a: f(_square, [(-3, 3)] * 2, args=(a,), maxiter=20, rng=0).x,
    shgo=lambda f, a: f(_square, [(-3, 3)] * 2, args=(a,)).x,
    direct=lambda f, a: f(_square, [(-3, 3)] * 2, args=(a,)).x,
    brute=lambda f, a: f(_square, [(-3, 3)] * 2, args=(a,), Ns=5),
    approx_fprime=lambda f, a: f(a, lambda x: (x**3).sum()),
    check_grad=lambda f, a: f(lambda x: (x**3).sum(), lambda x: 3 * x * x, a),
    bracket=lambda f, a: f(_line, 0.0, 1.0, args=(a,))[0],
    line_search=lambda f, a: f(lambda x: (x**2).sum(), lambda x: 2 * x, a, -a)[0],
    nnls=lambda f, a: f(like(a, [[1.0, 0.2], [0.2, 1.0]]), a)[0],
    lsq_linear=lambda f, a: f(like(a, [[1.0, 0.5], [0.2, 1.0]]), a).x,
    isotonic_regression=lambda f, a: f(a).x,
    linprog=lambda f, a: f(a, A_ub=-np.eye(2), b_ub=-np.ones(2)).fun,
    milp=lambda f, a: f(a).fun,
    linear_sum_assignment=lambda f, a: f(a[:, None] * a),
    quadratic_assignment=lambda f, a: f(a[:, None] * a, np.eye(2)).fun,
    curve_fit=lambda f, a: f(lambda x, p, q: p + q * x, like(a, [0.0, 1.0]), a)[0],
    **{
        name: (lambda f, a: f(lambda x: _zero(x, a), start, f_tol=1e-10))
        for name in ["anderson", "broyden1", "broyden2", "diagbroyden", "newton_krylov"]
    },
)
without_floats(
    _O,
    "BFGS Bounds BroydenFirst HessianUpdateStrategy InverseJacobian KrylovJacobian LbfgsInvHessProduct "
    "LinearConstraint NoConvergence NonlinearConstraint OptimizeResult OptimizeWarning RootResults SR1 "
    "linprog_verbose_callback show_options excitingmixing linearmixing",
)


def _decay(t: Any, y: Any, a: Any) -> Any:
    return -a * y


_I = "integrate"
_CLOSE = {"rtol": 1e-9, "atol": 1e-9}
names(_I, "trapezoid simpson cumulative_trapezoid romb", matrix)
calls(
    _I,
    target,
    cumulative_simpson=lambda f, a: f(a, dx=0.1),
    newton_cotes=lambda f, a: f(3)[0] * a[0],
    fixed_quad=lambda f, a: f(lambda x: (a[0] * x) ** 2, 0.0, 1.0, n=4)[0],
    quad=lambda f, a: f(lambda x: (a[0] * x) ** 2, 0.0, 1.0)[0],
    quad_vec=lambda f, a: f(lambda x: (a * x) ** 2, 0.0, 1.0)[0],
    dblquad=lambda f, a: f(lambda y, x: a[0] * x * y, 0.0, 1.0, 0.0, 1.0)[0],
    tplquad=lambda f, a: f(lambda z, y, x: a[0] * x * y * z, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)[0],
    nquad=lambda f, a: f(lambda x, y: a[0] * x * y, [(0.0, 1.0)] * 2)[0],
    tanhsinh=lambda f, a: f(lambda x, b: b * x * x, like(a, 0.0), like(a, 1.0), args=(a,)).integral,
    nsum=lambda f, a: f(lambda k, b: b**-k, like(a, 1.0), like(a, 10.0), args=(a,)).sum,
    cubature=lambda f, a: f(lambda x: a[0] * x[:, 0] ** 2, [0.0], [1.0]).estimate,
    qmc_quad=lambda f, a: f(lambda x: a[0] * x[0], [0.0], [1.0], n_estimates=2, n_points=8).integral,
    solve_ivp=lambda f, a: f(_decay, (0.0, 1.0), [1.0, 1.0], t_eval=[0.5, 1.0], args=(a,), **_CLOSE).y,
    odeint=lambda f, a: f(lambda y, t, b: -b * y, [1.0, 1.0], [0.0, 0.5, 1.0], args=(a,), **_CLOSE),
    solve_bvp=lambda f, a: f(
        lambda x, y: np.stack([y[1], -a[0] * y[0]]),
        lambda l, r: np.stack([l[0], r[0] - 1]),
        np.linspace(0, 1, 5),
        np.ones((2, 5)),
    ).y,
)  # fmt: skip
without_floats(
    _I,
    "BDF DOP853 DenseOutput IntegrationWarning LSODA ODEintWarning OdeSolution OdeSolver RK23 RK45 Radau "
    "complex_ode "
    "lebedev_rule ode",
)

_S = "spatial"
names(_S, "distance_matrix minkowski_distance minkowski_distance_p", points, points[::-1].copy())
names(_S, "procrustes", points, points[::-1].copy())
calls(
    _S,
    points,
    KDTree=lambda f, p: f(p).query(others)[0],
    cKDTree=lambda f, p: f(p).query(others)[0],
    ConvexHull=lambda f, p: f(p).volume,
    Delaunay=lambda f, p: f(p).simplices,
    Voronoi=lambda f, p: f(p).vertices,
    HalfspaceIntersection=lambda f, p: (
        f(np.array([[1.0, 0, -1], [-1, 0, -1], [0, 1, -1], [0, -1, -1]]), p[0, :2] / 9).intersections
    ),
    SphericalVoronoi=lambda f, p: f(p / (p * p).sum(axis=1, keepdims=True) ** 0.5).vertices,
    Rectangle=lambda f, p: f(p[0] + 9, p[1]).volume(),
    tsearch=lambda f, p: f(of_delaunay(), p[:, :2]),
)
calls(
    _S,
    np.array([1.0, 0.0]),
    np.array([0.0, 1.0]),
    geometric_slerp=lambda f, p, q: f(
        p / (p * p).sum() ** 0.5, q / (q * q).sum() ** 0.5, np.array([0.3, 0.6])
    ),
)
calls(
    "spatial.transform",
    rng.normal(size=(3, 4)),
    Rotation=lambda f, q: f.from_quat(q).as_matrix(),
)


def of_delaunay() -> Any:
    from scipy.spatial import Delaunay

    return Delaunay(nodes)


without_floats(_S, "QhullError convex_hull_plot_2d delaunay_plot_2d voronoi_plot_2d")
_D = "spatial.distance"
names(_D, "cdist", points, others)
names(_D, "pdist", points)
names(
    _D,
    "braycurtis canberra chebyshev cityblock correlation cosine euclidean minkowski sqeuclidean "
    "jensenshannon",
    np.abs(points[0]),
    np.abs(points[1]),
)
names(_D, "directed_hausdorff", points, others)
calls(
    _D,
    points[0],
    points[1],
    mahalanobis=lambda f, u, v: f(u, v, like(u, np.eye(3))),
    seuclidean=lambda f, u, v: f(u, v, like(u, [1.0, 2.0, 3.0])),
)
calls(_D, np.abs(wave), squareform=lambda f, d: f(d))
without_floats(
    _D,
    "dice hamming is_valid_dm is_valid_y jaccard num_obs_dm num_obs_y rogerstanimoto russellrao "
    "sokalsneath yule",
)
