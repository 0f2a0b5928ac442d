"""AnnealedSVM: deterministic annealing of label probabilities, as in SVMlin."""

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise._common.types import Ints
from bagwise.base._parameters import POSITIVE, with_parameters
from bagwise.exceptions import warn_user
from bagwise.solvers.margin.feature_space import check_costs
from bagwise.solvers.result import SolverResult
from reproduction.rivals._partly_labelled import PartlyLabelledClassifier, balanced_cost
from reproduction.rivals.solvers.annealed_svm import annealed_svm
from reproduction.rivals.solvers.linear_algebra import one_core_if_sparse

LONG = 1e3  # length of rows beside which the constant feature 1 is negligible


@with_parameters
class AnnealedSVM(PartlyLabelledClassifier):
    r"""Linear SVM for many rows, most of them unlabelled (SVMlin, Sindhwani and Keerthi 2006).

    .. math:: \min_{w, p} \tfrac12 |w|^2 + \tfrac{C_1}2 \sum_{labelled} (1 - y_i f_i)_+^2
        + \tfrac{C_2}2 \sum_{unlabelled} \bigl(p_j (1 - f_j)_+^2 + (1 - p_j) (1 + f_j)_+^2\bigr)
        - C_2 T \sum_{unlabelled} H(p_j)

    over probabilities p with a given mean, with H their entropy. The temperature T starts at 10 and
    falls until every label is certain. At high temperature the problem is nearly convex; at low
    temperature it is the transductive SVM with the squared hinge.

    Parameters
    ----------
    C1 : float, default=1.0
        Cost of a margin error of a labelled row.
    C2 : float, default=None
        Cost of a margin error of an unlabelled row; by default ``C1 * n_labelled / n_unlabelled``,
        so that both kinds of rows have the same total cost.
    positive_share : float, array-like of shape (n_classes,) or None, default=None
        Share of the positive class (``classes_[1]``) among the unlabelled rows; for more than two
        classes, the share of each. By default the shares among the labelled rows.
    tol : float, default=1e-4
        Norm of the gradient at which an SVM is solved, relative to that at w = 0.
    {verbose}

    Attributes
    ----------
    {classes_}
    transduction_ : ndarray of shape (n_rows,)
        The label of each training row: as given, or as predicted.
    coef_ : ndarray of shape (n_machines, n_features)
        The weights of the features; one SVM for two classes, else one per class.
    intercept_ : ndarray of shape (n_machines,)
        The intercepts, weights of a constant feature 1.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each iteration, at the temperature of its stage, summed over the
        classes; at a fixed temperature it never rises.
    n_iter_ : int
        Number of iterations; the largest number over all classes.
    {n_features_in_}

    Notes
    -----
    Standardise dense features first, and scale sparse rows to length 1: the intercept is the weight
    of a constant feature 1, which is negligible beside large features (there is a warning).

    Without unlabelled rows this is ``LinearSVC(loss="squared_hinge")``. More than two classes are
    handled one-vs-rest.

    Cost: about a hundred warm-started Newton steps, each a few dozen products with X; memory beside
    X: a few vectors.

    References
    ----------
    Sindhwani, Keerthi. Large scale semi-supervised linear SVMs. SIGIR 2006.

    Examples
    --------
    >>> from reproduction.rivals import AnnealedSVM
    >>> X = [[-1.3], [-1.0], [-0.7], [0.7], [1.0], [1.3]]
    >>> model = AnnealedSVM().fit(X, ["no", -1, -1, -1, -1, "yes"])
    >>> model.transduction_.tolist()
    ['no', 'no', 'no', 'yes', 'yes', 'yes']
    """

    _parameter_constraints = {"C2": [POSITIVE, None]}
    kernel = "linear"  # the only kernel

    C1: float = 1.0
    C2: float | None = None
    _: KW_ONLY
    positive_share: Any = None
    tol: float = 1e-4
    verbose: int = 0

    def _learn(self, rows: Any, signs: list[Ints], shares: list[float]) -> list[SolverResult]:
        length = float(np.sqrt(row_norms(rows, squared=True).mean()))
        if length > LONG:
            warn_user(
                f"the rows have a typical length of {length:.2g}: beside them the constant feature "
                "1 of AnnealedSVM can hardly change the intercept. Standardise the features (scale "
                "the rows to length 1 if they are sparse)."
            )
        check_costs(length**2, C1=self.C1, C2=self.C2)
        C2 = balanced_cost(self.C1, signs[0]) if self.C2 is None else self.C2
        problems = list(zip(signs, shares, strict=True))
        with one_core_if_sparse(rows):
            results = [
                annealed_svm(
                    rows,
                    each,
                    C1=self.C1,
                    C2=C2,
                    share=share,
                    tol=self.tol,
                )
                for each, share in self._track(problems, "class")
            ]
        self.coef_ = np.array([result.solution[0] for result in results])
        self.intercept_ = np.array([float(result.solution[1]) for result in results])
        return results
