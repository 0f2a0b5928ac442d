"""M3MIML (Zhang, Zhou 2008): a maximum-margin machine per label, in its convex form.

    min_{w, b}  1/2 |w|^2 + C sum_i xi_i     for each label, with f(x) = w . x + b and
    bags that carry it:  mean_j f(x_ij) >= 1 - xi_i
    others:              f(x_ij) <= -1 + xi_i  for every instance

The score of a bag is its largest f. The mean of a bag that carries the label stands for that
largest value, which is no smaller, and makes the problem convex.
"""

from dataclasses import replace

import numpy as np

from bagwise._types import Bools, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace
from bagwise.solvers.margin.max_margin import bag_problem, max_margin
from bagwise.solvers.result import SolverResult

TIE = 100.0  # scores this near, in units of tol, count as equal
TILT = 10.0  # the largest score, in units of tol, of what tells equal ones apart


def m3miml(
    space: FeatureSpace, offsets: Ints, carried: Bools, *, C: float, tol: float
) -> SolverResult:
    """Solve the machine of one label.

    Parameters
    ----------
    space : FeatureSpace
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    carried : ndarray of bool of shape (n_bags,)
        Which bags carry the label; some do, some do not.
    C : float
        Cost of a margin missed by 1, per bag.
    tol : float
        Tolerance of the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of instances, intercept).
    """
    costs = np.full(len(carried), C)
    problem = bag_problem(offsets, carried, costs, slack_per_bag=True)
    machine = max_margin(space, problem, tol=tol)
    if np.ptp(machine.scores) < TIE * tol:
        # w = 0, and what is left of it is the error of the solver. Instances are told apart by the
        # machine of vanishing C instead, the difference of the class means.
        weights = problem.mean_difference()
        largest = float(np.abs(space.scores(weights)).max())
        coef = weights * (TILT * tol / max(largest, np.finfo(float).tiny))
        b = TIE * tol * round(float(machine.intercept) / (TIE * tol))
        machine = replace(machine, coef=coef, intercept=b)
    return machine.result()
