"""Calls of `scipy.linalg`, `scipy.sparse.linalg` and `scipy.sparse.csgraph`."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from tests.interop.probe.table import calls, like, names, rng, without_floats

square = rng.normal(size=(4, 4)) + 3 * np.eye(4)
other, right = rng.normal(size=(4, 4)), rng.normal(size=4)
tall = rng.normal(size=(5, 3))
spd = square @ square.T + np.eye(4)
bands = np.array([[0.0, 1.0, 0.5, 0.3], [4.0, 5.0, 6.0, 7.0], [0.2, 0.4, 0.6, 0.0]])
wave, small = rng.normal(size=6), 0.3 * rng.normal(size=(3, 3))
symmetric_bands = np.array([[4.0, 5.0, 6.0, 7.0], [0.2, 0.4, 0.6, 0.0]])

_P = "linalg"
names(
    _P,
    "det inv expm pinv svdvals eigvals eigvalsh logm sqrtm cholesky norm polar lu hessenberg ldl rq qr "
    "eig svd signm cosm sinm tanm coshm sinhm tanhm pinvh lu_factor bandwidth "
    "matrix_balance issymmetric ishermitian",
    spd / 20,
)
names(_P, "solve solve_triangular", spd, right)
calls(_P, tall, rng.normal(size=5), lstsq=lambda f, a, b: f(a, b)[0])
names(
    _P,
    "solve_sylvester solve_continuous_are solve_discrete_are expm_frechet qz khatri_rao",
    square,
    other,
    spd,
    spd,
)
for _name in ("expm_frechet", "khatri_rao", "qz"):
    names(_P, _name, square / 4, other)
names(_P, "solve_sylvester", square, spd, other)
names(_P, "ordqz", square, spd)
names(_P, "solve_continuous_lyapunov solve_lyapunov", square, spd)
names(_P, "solve_discrete_lyapunov", small, small @ small.T + np.eye(3))
names(_P, "block_diag", square, tall)
names(_P, "circulant toeplitz hankel companion fiedler fiedler_companion", wave)
names(_P, "solve_circulant", wave + np.array([9, 0, 0, 0, 0, 0]), wave[::-1].copy())
names(_P, "solve_toeplitz matmul_toeplitz", wave + np.array([9, 0, 0, 0, 0, 0]), wave[::-1].copy())
names(_P, "orthogonal_procrustes", tall, tall[::-1].copy())
names(_P, "subspace_angles", tall[:, :2].copy(), tall[::-1, :2].copy())
names(_P, "qr_multiply", tall, rng.normal(size=(3, 5)))
names(_P, "leslie", np.abs(wave), np.abs(wave[1:]))
names(_P, "eigvals_banded eig_banded cholesky_banded", symmetric_bands, lower=True)
calls(_P, spd / 20, schur=lambda f, a: (f(a)[0], f(a)[1] ** 2))
calls(_P, spd / 20, eigh=lambda f, a: (f(a)[0], f(a)[1] ** 2))  # each vector has either sign
names(_P, "eigh_tridiagonal eigvalsh_tridiagonal", wave, wave[1:])
names(_P, "solveh_banded", symmetric_bands, right, lower=True)
calls(_P, bands, right, solve_banded=lambda f, a, b: f((1, 1), a, b))
calls(_P, right, convolution_matrix=lambda f, x: f(x, 3), diagsvd=lambda f, x: f(x, 4, 5))
names(_P, "expm_cond", spd[:2, :2] / 20)
calls(_P, tall, orth=lambda f, a: (q := f(a)) @ q.T, null_space=lambda f, a: (q := f(a.T)) @ q.T)
calls(_P, spd, cho_factor=lambda f, a: f(a)[0] * like(a, np.triu(np.ones((4, 4)))))
calls(
    _P,
    spd,
    right,
    cho_solve=lambda f, a, b: f((a, True), b),
    lu_solve=lambda f, a, b: f((a, np.arange(4)), b),
)
calls(_P, symmetric_bands, right, cho_solve_banded=lambda f, a, b: f((a, True), b))
calls(
    _P,
    spd / 10,
    fractional_matrix_power=lambda f, a: f(a, 0.4),
    funm=lambda f, a: f(a, lambda x: x * x),
    clarkson_woodruff_transform=lambda f, a: f(a, 2, 3),
)
calls(_P, np.array([1.0, 2.0, 3.0]), square[:3, :3], cdf2rdf=lambda f, w, v: f(w + 0j, v + 0j))
calls(_P, square, spd, rsf2csf=lambda f, t, z: f(t, z))
calls(
    _P,
    np.linalg.qr(square)[0],
    np.linalg.qr(square)[1],
    qr_delete=lambda f, q, r: f(q, r, 1),
    qr_insert=lambda f, q, r: f(q, r, right, 1),
    qr_update=lambda f, q, r: f(q, r, right, right),
)
CSD = np.linalg.qr(square)[0]
calls(_P, CSD, cossin=lambda f, x: f(x, 2, 2))
without_floats(
    _P,
    "LinAlgError LinAlgWarning dft find_best_blas_type get_blas_funcs get_lapack_funcs hadamard helmert "
    "hilbert "
    "invhilbert invpascal pascal",
)

_S = "sparse.linalg"
matrix = scipy.sparse.csr_array(spd)


names(_S, "bicg bicgstab cg cgs gcrotmk gmres lgmres lsmr lsqr minres qmr tfqmr", spd, right)
names(_S, "expm onenormest", spd)
calls(
    _S,
    right,
    inv=lambda f, b: f(scipy.sparse.csc_array(spd)) @ b,
    norm=lambda f, b: f(matrix) * b,
    spsolve=lambda f, b: f(matrix, b),
    spsolve_triangular=lambda f, b: f(scipy.sparse.csr_array(np.tril(spd)), b),
    splu=lambda f, b: f(scipy.sparse.csc_array(spd)).solve(b),
    spilu=lambda f, b: f(scipy.sparse.csc_array(spd)).solve(b),
    factorized=lambda f, b: f(scipy.sparse.csc_array(spd))(b),
    expm_multiply=lambda f, b: f(matrix / 10, b),
    aslinearoperator=lambda f, b: f(matrix) @ b,
    funm_multiply_krylov=lambda f, b: f(lambda m: m @ m, matrix, b),
)
calls(
    _S,
    spd,
    matrix_power=lambda f, a: f(a, 3),
    eigsh=lambda f, a: f(a, k=2, v0=right)[0],
    eigs=lambda f, a: f(a, k=2, v0=right)[0],
    svds=lambda f, a: f(a, k=2, v0=right)[1],
    lobpcg=lambda f, a: f(a, like(a, np.eye(4)[:, :1]))[0],
)
without_floats(
    _S,
    "ArpackError ArpackNoConvergence LaplacianNd LinearOperator MatrixRankWarning SuperLU is_sptriangular "
    "spbandwidth use_solver",
)

_G = "sparse.csgraph"
graph = np.array([[0.0, 1.0, 2.5, 0.0], [0.0, 0.0, 0.7, 3.0], [0.0, 0.0, 0.0, 1.1], [1.2, 0.0, 0.0, 0.0]])
predecessors = scipy.sparse.csgraph.shortest_path(graph, return_predecessors=True)[1]
names(_G, "laplacian", graph + graph.T)
names(
    _G,
    "shortest_path floyd_warshall dijkstra bellman_ford johnson minimum_spanning_tree connected_components "
    "csgraph_from_dense csgraph_masked_from_dense",
    graph,
)
calls(
    _G,
    graph,
    yen=lambda f, g: f(g, 0, 3, 2),
    breadth_first_order=lambda f, g: f(g, 0),
    depth_first_order=lambda f, g: f(g, 0),
    breadth_first_tree=lambda f, g: f(g, 0),
    depth_first_tree=lambda f, g: f(g, 0),
    construct_dist_matrix=lambda f, g: f(g, predecessors),
)
without_floats(
    _G,
    "reconstruct_path csgraph_from_masked csgraph_to_dense csgraph_to_masked NegativeCycleError maximum_flow "
    "min_weight_full_bipartite_matching maximum_bipartite_matching reverse_cuthill_mckee structural_rank",
)
