r"""The transductive SVM of UniverSVM (Collobert 2006): a ramp loss, by concave-convex steps.

.. math:: \min_{w, b} \tfrac12 |w|^2 + C_1 \sum_{labelled} H_1(y_i f_i)
    + C_2 \sum_{unlabelled} \bigl(R_s(f_j) + R_s(-f_j)\bigr)

subject to mean f over the unlabelled rows = mean y over the labelled ones, with the hinge
H_a(z) = (a - z)_+ and the ramp R_s = H_1 - H_s, which is flat below s in (-1, 0]. The ramp is a
difference of convex functions: if the second is replaced by its tangent, the rest is an SVM. A copy
(j, y) of an unlabelled row with y f_j < s gets the slope of the tangent; then

    H_1(y f) + y f = 1 + (y f - 1)_+

so it becomes a point of the opposite sign with the margin -1. The balance constraint is enforced by
two points at the mean of the unlabelled rows, one of each sign, with a cost above any multiplier.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, selection
from bagwise.solvers.margin.max_margin import RESTART, Machine, MarginProblem, Start, max_margin
from bagwise.solvers.margin.misvm import alternate
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.transductive import ordinary_svm


def ramp(z: Floats, s: float) -> Floats:
    """Ramp loss R_s(z): the hinge at 1, constant below z = s.

    Parameters
    ----------
    z : ndarray
        Margins.
    s : float
        Where the loss stops growing.

    Returns
    -------
    ndarray
    """
    return np.clip(1 - z, 0.0, 1 - s)


def ramp_svm(
    space: FeatureSpace,
    signs: Ints,
    *,
    C1: float,
    C2: float,
    s: float,
    mean_score: float,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Learn by the concave-convex procedure, starting from the SVM of the labelled rows.

    Parameters
    ----------
    space : FeatureSpace
        All rows.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    C1, C2 : float
        Cost of the loss of a labelled row, and of each copy of an unlabelled row.
    s : float
        Where the ramp becomes flat.
    mean_score : float
        Required mean score of the unlabelled rows.
    max_iter : int
        Maximum number of SVMs to fit.
    tol : float
        Tolerance on the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of rows, intercept); the curve is the objective after each SVM.
    """
    known, unknown = np.flatnonzero(signs), np.flatnonzero(signs == 0)
    first = ordinary_svm(space, signs, C1, tol)

    def objective(machine: Machine) -> float:
        f = machine.scores[unknown]
        unlabelled = C2 * float((ramp(f, s) + ramp(-f, s)).sum())
        return machine.objective(signs, C1 * np.abs(signs)) + unlabelled

    if len(unknown) == 0:
        return replace(first, objective_curve=np.array([objective(first)])).result()
    problem = _problem(signs[known], known, unknown, C1, C2, mean_score)
    copies = np.repeat([1, -1], len(unknown))
    at_copies = slice(len(known), len(known) + len(copies))

    def tangents(machine: Machine) -> Ints:
        """1 for copies on the flat part of the ramp."""
        return (copies * np.tile(machine.scores[unknown], 2) < s).astype(np.int64)

    def solve(flat: Ints, before: Machine | None) -> Machine:
        signs, margins = problem.signs.copy(), problem.margins.copy()
        signs[at_copies] *= 1 - 2 * flat
        margins[at_copies] = 1 - 2 * flat
        task = replace(problem, signs=signs, margins=margins)
        start = None if before is None else _carried(task, before, starts)
        machine = max_margin(space, task, tol=tol, start=start)
        starts[:] = [signs, machine.multipliers]
        return machine

    def judge(machine: Machine) -> tuple[Ints, float]:
        return tangents(machine), objective(machine)

    starts: list[Floats] = []
    return alternate(solve, judge, tangents(first), max_iter)


def _problem(
    y: Ints, known: Ints, unknown: Ints, C1: float, C2: float, mean_score: float
) -> MarginProblem:
    """SVM problem of labelled rows, both copies of unlabelled rows, and both copies of the mean."""
    u, n_rows = len(unknown), len(known) + len(unknown)
    order = np.concatenate([known, unknown, unknown])
    n = len(order)
    single = selection(order, n_rows)
    means = sparse.csr_array(
        (np.full(2 * u, 1 / u), np.tile(unknown, 2), [0, u, 2 * u]), shape=(2, n_rows)
    )
    costs = np.repeat([C1, C2], [len(known), 2 * u])
    # The gradient in b is zero: the multiplier of the mean is at most the sum of all others.
    unreachable = 2 * float(costs.sum())
    return MarginProblem(
        combine=sparse.vstack([single, means], format="csr"),
        signs=np.concatenate([y, np.repeat([1.0, -1.0], u), [1.0, -1.0]]),
        margins=np.concatenate([np.ones(n), [mean_score, -mean_score]]),
        groups=np.arange(n + 2),
        costs=np.concatenate([costs, [unreachable, unreachable]]),
    )


def _carried(task: MarginProblem, before: Machine, starts: list[Floats]) -> Start:
    """Warm start from the previous SVM; if a sign changed, the slack sets the multiplier."""
    signs, multipliers = starts
    missed = task.margins - task.signs * (task.combine @ before.scores)
    by_slack = np.where(missed > 0, task.costs, 0.0)
    kept = np.where(signs == task.signs, multipliers, by_slack)
    return Start(kept, signs * multipliers, before.intercept, RESTART * before.sigma)
