r"""sMIL and sbMIL: support vector machines for sparse positive bags (Bunescu and Mooney 2007).

A positive bag of n instances contains at least one positive instance. If it contains exactly one,
the mean score of the bag is (1 - (n - 1)) / n = 2/n - 1. So sMIL requires

    w . phi(B) / |B| + b >= 2 / |B| - 1 - xi_B,        and f(x) <= -1 + xi_x

for every positive bag B and every instance x of a negative bag. Negative instances far outnumber
positive bags; a weight below 1 for their slacks, which the paper does not have, balances the
classes. The problem is convex, without alternation. sbMIL ranks the instances of positive bags by
sMIL, labels the top ones positive and the others negative, and trains an ordinary SVM.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from bagwise.solvers.margin.cost_range import check_costs
from bagwise.solvers.margin.labelled_bags import LabelledBags
from bagwise.solvers.margin.max_margin import MarginProblem, bag_problem, max_margin
from bagwise.solvers.result import SolverResult


def sparse_mil(
    bags: LabelledBags, *, negative_weight: float | str, tol: float, eta: float | None = None
) -> SolverResult:
    """Learn by sMIL: the mean of a positive bag scores as if one of its instances were positive.

    With `eta`, by sbMIL: an SVM on instance labels imputed by sMIL.

    Parameters
    ----------
    bags : LabelledBags
        The bags, with C of each bag.
    negative_weight : float or "auto"
        Cost of an instance of a negative bag, as a multiple of its C; "auto" is the number
        of positive bags divided by that of negative instances.
    tol : float
        Tolerance on the margins.
    eta : float, default=None
        Share of the instances of positive bags that sbMIL labels positive; at least one per
        positive bag on average.

    Returns
    -------
    SolverResult
        ``solution`` is (coef, intercept), with coef of shape (n_instances,).
    """
    space, offsets, positive, costs = bags
    balance = float(positive.sum() / bags.sizes[~positive].sum())
    weight = balance if isinstance(negative_weight, str) else negative_weight
    check_costs(1.0, negative_weight=weight)
    weighted = np.where(positive, costs, weight * costs)
    problem = bag_problem(offsets, positive, weighted, slack_per_bag=False)
    margins = problem.margins.copy()
    margins[problem.signs > 0] = 2 / bags.sizes[positive] - 1
    ranking = max_margin(space, replace(problem, margins=margins), tol=tol)
    if eta is None:
        return ranking.result()
    inside = positive[bags.bag_index]
    ranked = -np.sort(-ranking.scores[inside])
    n_positive = max(int(np.rint(eta * len(ranked))), int(positive.sum()))
    # Choose instances that tie with the last one too, so that the order does not matter.
    chosen = inside & (ranking.scores >= ranked[n_positive - 1] - 100 * tol)
    everything = sparse.eye_array(len(chosen), format="csr")
    problem = MarginProblem.separate(everything, np.where(chosen, 1, -1), costs[bags.bag_index])
    return max_margin(space, problem, tol=tol).result()
