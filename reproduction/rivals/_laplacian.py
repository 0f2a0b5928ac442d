"""LaplacianSVM: an SVM that is smooth along a graph of all rows."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Any

from bagwise._common.types import Ints
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.solvers.result import SolverResult
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier
from reproduction.rivals.solvers.laplacian_svm import (
    check_memory,
    graph_laplacian,
    laplacian_svm,
)


@with_parameters
class LaplacianSVM(PartlyLabelledClassifier):
    r"""SVM that varies little between neighbours, labelled or not (Belkin 2006).

    .. math:: \min_{f, b} \tfrac12 |f|_K^2 + \tfrac{\gamma_I}2 \sum_{i \sim j} (f_i - f_j)^2
        + C \sum_{labelled} (1 - y_i (f_i + b))_+

    where the second sum goes over the edges of the graph of nearest neighbours of all rows. The
    graph modifies the kernel in closed form; the fit is then an ordinary SVM on the labelled rows.

    Parameters
    ----------
    C : float, default=100.0
        Cost of a margin error of a labelled row.
    manifold_weight : float, default=1.0
        Cost of differences between neighbours (gamma_I); 0 is the ordinary SVM.
    n_neighbors : int, default=5
        Number of nearest rows to which each row is connected.
    {kernel}
    {gamma}
    {degree}
    {coef0}
    tol : float, default=1e-6
        Tolerance of the SVM.
    {verbose}

    Attributes
    ----------
    {classes_}
    transduction_ : ndarray of shape (n_rows,)
        The label of each training row: as given, or as predicted.
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features (linear kernel); one row for two classes, else one per class.
    support_ : ndarray of shape (n_support,)
        Positions of the training rows with non-zero weight (nonlinear kernels).
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        Those rows.
    dual_coef_ : ndarray of shape (n_machines, n_support)
        The weights of the support vectors.
    {gamma_}
    intercept_ : ndarray of shape (n_machines,)
        The intercepts.
    objective_curve_ : ndarray of shape (1,)
        The objective, summed over the classes.
    n_iter_ : int
        Always 1: apart from the SVM, the solution has a closed form.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first.

    The defaults of `C`, `manifold_weight` and `n_neighbors` were chosen on Digit1, a set of the SSL
    benchmark: results on it are optimistic.

    Every row counts, so with a kernel all rows are support vectors. More than two classes are
    handled one-vs-rest, at the cost of one SVM each.

    Cost: one linear system with as many equations as rows (with the linear kernel: as features, if
    fewer). Memory: the square of that, checked in advance.

    References
    ----------
    Belkin, Niyogi, Sindhwani. Manifold regularization: a geometric framework for learning from
    labeled and unlabeled examples. Journal of Machine Learning Research 7, 2006.

    Sindhwani, Niyogi, Belkin. Beyond the point cloud: from transductive to semi-supervised
    learning. ICML 2005.

    Examples
    --------
    >>> from reproduction.rivals import LaplacianSVM
    >>> X = [[0.0], [0.3], [0.6], [2.0], [2.3], [2.6]]
    >>> model = LaplacianSVM(n_neighbors=2).fit(X, ["no", -1, -1, -1, -1, "yes"])
    >>> model.transduction_.tolist()
    ['no', 'no', 'no', 'yes', 'yes', 'yes']
    """

    _parameter_constraints = {"manifold_weight": [NOT_NEGATIVE]}

    C: float = 100.0
    manifold_weight: float = 1.0
    _: KW_ONLY
    n_neighbors: int = 5
    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1.0
    tol: float = 1e-6
    verbose: int = 0

    def _learn(self, rows: Any, signs: list[Ints], shares: list[float]) -> list[SolverResult]:
        space = self._space(rows)
        if self.kernel != "linear":
            check_memory(rows.shape[0])  # before the search for neighbours, which takes longer
        results = laplacian_svm(
            space,
            graph_laplacian(rows, self.n_neighbors),
            signs,
            C=self.C,
            manifold_weight=self.manifold_weight,
            tol=self.tol,
            track=partial(self._track, task="class"),
        )
        self._keep_each(space, results)
        return results
