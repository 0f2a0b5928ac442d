"""M3MIML (Zhang, Zhou 2008): a maximum-margin classifier per label, in convex form.

    min_{w, b}  1/2 |w|^2 + C sum_i xi_i     for each label, with f(x) = w . x + b and
    bags that carry it:  mean_j f(x_ij) >= 1 - xi_i
    others:              f(x_ij) <= -1 + xi_i  for every instance

The score of a bag is its largest f. For bags that carry the label, the mean replaces the maximum:
it is a lower bound, and it makes the problem convex.
"""

from dataclasses import replace

import numpy as np

from bagwise._common.types import Bools, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.margin.max_margin import bag_problem, max_margin
from bagwise.solvers.result import SolverResult

TIE = 100.0  # scores this near, in units of tol, count as equal
TILT = 10.0  # the largest score, in units of tol, of the model that breaks ties


def m3miml(
    space: FeatureSpace, offsets: Ints, carried: Bools, *, C: float, tol: float
) -> SolverResult:
    """Fit the classifier of one label.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    carried : ndarray of bool of shape (n_bags,)
        Which bags carry the label; both kinds must occur.
    C : float
        Cost of a unit of slack, per bag.
    tol : float
        Tolerance of the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of instances, intercept, whether w is not 0).
    """
    costs = np.full(len(carried), C)
    problem = bag_problem(offsets, carried, costs, slack_per_bag=True)
    machine = max_margin(space, problem, tol=tol)
    learned = np.ptp(machine.scores) >= TIE * tol
    if not learned:
        # w = 0 up to the error of the solver. Instances are ranked by the model of vanishing C
        # instead, the difference of the class means.
        weights = problem.mean_difference()
        largest = float(np.abs(space.scores(weights)).max())
        coef = weights * (TILT * tol / max(largest, np.finfo(float).tiny))
        b = TIE * tol * round(float(machine.intercept) / (TIE * tol))
        machine = replace(machine, coef=coef, intercept=b)
    result = machine.result()
    return replace(result, solution=(*result.solution, np.array(learned)))
