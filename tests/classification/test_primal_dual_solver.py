"""The collapsed solver against the dense K x n ADMM, variable by variable."""

import numpy as np

from bagwise import Bags
from bagwise.solvers.margin.primal_dual import LinearSpace, primal_dual
from cases import covering
from primal_dual_oracle import DenseADMM


def draw(seed, n_bags=14, d=4, K=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.arange(n_bags) % K
    X = rng.normal(size=(offsets[-1], d))
    X[offsets[:-1], 0] += 2 * codes
    return X, offsets, codes


OPTIONS = {"C": 1.0, "mu": 1e-2, "rho": 1.1}


def solve(space, codes, K, *, n_iter, exact, mask=True, weights=None, **options):
    return primal_dual(
        space,
        codes,
        K,
        max_iter=n_iter,
        tol=0.0,
        exact=exact,
        mask_own_class=mask,
        weights=np.ones(len(codes)) if weights is None else weights,
        rng=np.random.RandomState(0),
        **(OPTIONS | options),
    )


@covering(K=[2, 3], exact=[True, False], mask=[True, False], weighted=[False, True])
def test_collapsed_equals_dense(K, exact, mask, weighted):
    X, offsets, codes = draw(0, K=K)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(codes)) if weighted else None
    space = LinearSpace(Bags(X, offsets))
    dense = DenseADMM(
        X, offsets, codes, K, 1e-3 * np.random.RandomState(0).standard_normal((K, X.shape[1])),
        C=1.0, mu=1e-2, rho=1.1, inexact=not exact, mask=mask, weights=weights,
    )  # fmt: skip
    residuals, curve = dense.run(60)
    found = solve(space, codes, K, n_iter=60, exact=exact, mask=mask, weights=weights)
    W, b = found.solution
    np.testing.assert_allclose(W, dense.W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(b, dense.b, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.residuals, residuals, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found.objective_curve, curve, rtol=1e-9)
