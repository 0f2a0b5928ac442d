r"""The Laplacian SVM (Belkin 2006) in closed form: a kernel deformed by a graph of all rows.

.. math:: \min_{f, b} \tfrac12 |f|_K^2 + \tfrac{\gamma}2 f' L f
    + C \sum_{labelled} (1 - y_i (f_i + b))_+

L is the Laplacian of the graph of nearest neighbours of all n rows. By the representer theorem f is
a sum of kernels over all rows; with M = gamma L the problem is the ordinary SVM of the labelled
rows with the kernel K - K (I + M K)^-1 M K, and

    f = K Z beta,    Z = (I + M K)^-1 E,    labelled kernel = E' K Z,

where E selects the labelled rows and beta are the SVM's coefficients (Sindhwani 2005). With the
linear kernel, K = X X' and X' Z = (I + X' M X)^-1 X' E: a smaller system if there are fewer
features than rows. L times a constant is zero, so the intercept and shifts of the rows do not
change the penalty.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg.lapack import dgesv
from sklearn.svm import SVC

from bagwise._common.memory import require_memory
from bagwise._common.types import Floats, Ints
from bagwise.exceptions import InputError
from bagwise.solvers.bag_tables import fit_libsvm
from bagwise.solvers.margin.feature_space import FeatureSpace, LinearFeatures, dense
from bagwise.solvers.result import SolverResult
from bagwise.solvers.spectral import nearest_neighbors, neighbor_table
from reproduction.rivals.solvers.linear_algebra import cholesky_solve, dense_gram


def graph_laplacian(rows: Any, n_neighbors: int) -> sparse.csr_array:
    """Laplacian of the symmetrised nearest-neighbour graph.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n_rows, n_features)
        The rows.
    n_neighbors : int
        Number of neighbours; limited to all other rows.

    Returns
    -------
    CSR of shape (n_rows, n_rows)
        Degrees minus edges; edges have weight 1.
    """
    n_rows = rows.shape[0]
    neighbors = nearest_neighbors(rows, min(n_neighbors, n_rows - 1))[1]
    near = neighbor_table(np.ones(neighbors.shape), neighbors, n_rows)
    edges = sparse.csr_array(near.maximum(near.T))
    degrees = sparse.diags_array(np.asarray(edges.sum(axis=1)).ravel())
    return sparse.csr_array(degrees - edges)


def laplacian_svm(
    space: FeatureSpace,
    laplacian: sparse.csr_array,
    signs: Sequence[Ints],
    *,
    C: float,
    manifold_weight: float,
    tol: float,
    track: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> list[SolverResult]:
    """Fit an SVM per vector of signs; all share the deformed kernel.

    Parameters
    ----------
    space : LinearFeatures or KernelFeatures
        All rows.
    laplacian : CSR of shape (n_rows, n_rows)
        L.
    signs : sequence of ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows, the same in all.
    C : float
        Cost of a margin error.
    manifold_weight : float
        gamma.
    tol : float
        Tolerance of the SVM.
    track : callable, default=iter
        Wraps the loop over the SVMs, to show progress.

    Returns
    -------
    list of SolverResult
        ``solution`` is (coef of rows, intercept).
    """
    known = np.flatnonzero(signs[0])
    penalty = laplacian * manifold_weight
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            spread, gram = _deformed(space, penalty, known)
            representable = bool(np.isfinite(spread).all() and np.isfinite(gram).all())
        except InputError:
            raise
        except ValueError:  # from LAPACK: indefinite by rounding, or not finite
            representable = False
    if not representable:
        raise InputError(
            f"the graph with manifold_weight={manifold_weight:.3g} makes a kernel beyond the range "
            "of floating-point numbers: scale the features (StandardScaler), or lower "
            "manifold_weight."
        )
    results = []
    for each in track(signs):
        svm = SVC(C=C, kernel="precomputed", tol=tol)
        solved = fit_libsvm(svm, gram, each[known])
        beta = np.zeros(len(known))
        beta[svm.support_] = svm.dual_coef_[0]
        scores = gram @ beta + svm.intercept_[0]
        loss = C * float(np.maximum(0.0, 1 - each[known] * scores).sum())
        objective = 0.5 * float(beta @ gram @ beta) + loss
        solution = spread @ beta, np.array(svm.intercept_[0])
        results.append(SolverResult(solution, [objective], solved))
    return results


def _deformed(space: FeatureSpace, penalty: sparse.csr_array, known: Ints) -> tuple[Floats, Floats]:
    """Z of shape (n_rows, n_labelled), and the deformed kernel of the labelled rows."""
    n = penalty.shape[0]
    if isinstance(space, LinearFeatures) and space.rows.shape[1] < n:
        check_memory(space.rows.shape[1])
        rows = space.rows
        inner = dense(rows.T @ (penalty @ rows))
        inner.flat[:: len(inner) + 1] += 1
        factor = linalg.cholesky(inner)
        planes = cholesky_solve(factor, dense(rows[known].T))  # X'Z, (n_features, n_known)
        # Z from X'Z: (I + M K) Z = E gives Z = E - M X X'Z.
        spread = -(penalty @ (rows @ planes))
        spread[known, np.arange(len(known))] += 1
        gram = rows[known] @ planes
    else:
        check_memory(n)
        K = dense_gram(space)
        _, _, spread, failed = dgesv(penalty @ K + np.eye(n), np.eye(n)[:, known])
        if failed:
            raise np.linalg.LinAlgError("singular, by rounding")
        gram = K[known] @ spread
    return spread, 0.5 * (gram + gram.T)


def check_memory(size: int) -> None:
    """Raise an error if two square matrices and a copy do not fit in memory."""
    require_memory(
        3 * 8.0 * size**2,
        purpose=f"LaplacianSVM with square matrices of {size:,} rows (the smaller of rows and "
        "features with the linear kernel, rows with others)",
        remedy="use part of the unlabelled rows, or AnnealedSVM",
    )
