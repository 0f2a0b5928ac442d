"""The alternation that ends the authors' program of WellSVM."""

from typing import Any

import numpy as np

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.solvers.wellsvm.well_svm import MAX_PASSES, Mixture, PartialLabels

ALTERNATIONS = 10  # between labels and SVM


def refine(
    rows: Any,
    labels: PartialLabels,
    costs: Floats,
    mixture: Mixture,
    *,
    order: Ints,
    tol: float,
    seed: int = 0,
) -> Mixture:
    """Alternate between labels and SVM, from a mixture; keep the lowest S3VM objective.

    Parameters
    ----------
    rows : Rows
        The rows, one for each variable.
    labels : PartialLabels
        B.
    costs : ndarray of shape (n_rows,)
        C of each row.
    mixture : Mixture
        Starting point.
    order : ndarray of int64 of shape (n_rows,)
        Canonical order of the rows, which is then shuffled.
    tol : float
        Relative duality gap of each SVM.
    seed : int, default=0
        Seed of the shuffling.

    Returns
    -------
    Mixture
        The SVM of one label vector, or the given mixture if it is better.
    """
    lowest, signs = s3vm_objective(rows, labels, costs, mixture)
    best, picks = mixture, np.arange(rows.n_rows)
    alpha = np.minimum(np.abs(mixture.coef), costs)
    for _ in range(ALTERNATIONS):
        f = loops.dual_descent.combine(rows, alpha * signs)
        loops.dual_descent.descend(
            rows, picks[:, None], signs[:, None], np.ones(1), costs, alpha, f,
            np.empty((len(f), 0)), order=order, tol=tol, max_passes=MAX_PASSES, seed=seed,
        )  # fmt: skip
        found = Mixture(f, alpha * signs, picks[:, None], signs[:, None], np.ones(1), mixture.gap)
        objective, after = s3vm_objective(rows, labels, costs, found)
        if objective < lowest:
            lowest, best = objective, found
        if (after == signs).all():
            break
        signs = after
    return best


def s3vm_objective(
    rows: Any, labels: PartialLabels, costs: Floats, mixture: Mixture
) -> tuple[float, Ints]:
    """The S3VM's |f|^2 / 2 + sum_i C_i max(0, 1 - y_i f(x_i)), under the best labels y of B.

    Parameters
    ----------
    rows : Rows
        The rows, one for each variable.
    labels : PartialLabels
        B.
    costs : ndarray of shape (n_rows,)
        C of each row; equal for all unlabelled rows, so that sorting finds the best y.
    mixture : Mixture
        The model.

    Returns
    -------
    objective : float
        The objective.
    signs : ndarray of int8 of shape (n_rows,)
        The best labels.
    """
    scores = loops.dual_descent.score(rows, mixture.f)
    _, signs = labels.choose(scores, np.ones(len(scores)), scores)
    loss = float(costs @ np.maximum(0.0, 1 - signs * scores))
    return loops.dual_descent.square(rows, mixture.coef, mixture.f) / 2 + loss, signs
