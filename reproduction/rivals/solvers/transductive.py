r"""The transductive SVM of Joachims (1999): labels of unlabelled rows, switched in pairs.

.. math:: \min_{y_u, w, b} \tfrac12 |w|^2 + C_1 \sum_{labelled} \xi_i + C_2 \sum_{unlabelled} \xi_j

over labels y_u with a given number of positive ones. The SVM of the labelled rows gives the initial
labels. Two unlabelled rows of opposite labels whose slacks sum to more than 2 have less slack with
their labels exchanged, so the objective decreases with each exchange and each new SVM. The cost of
unlabelled rows starts at C2 / 100,000 and doubles until it reaches C2: with C2 from the start, the
initial labels would hardly ever change.
"""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from bagwise import loops
from bagwise._common.types import Floats, Ints
from bagwise.solvers.margin.feature_space import FeatureSpace, selection
from bagwise.solvers.margin.max_margin import Machine, MarginProblem, max_margin
from bagwise.solvers.result import SolverResult
from reproduction.rivals.solvers.label_starts import balanced_labels

FIRST = 1e-5  # initial cost, as a fraction of C2
GROWTH = 2.0


def annealed_costs(last: float) -> Iterator[float]:
    """Costs from ``last / 100_000``, doubled until `last`.

    Parameters
    ----------
    last : float
        The final cost.

    Yields
    ------
    float

    Examples
    --------
    >>> from reproduction.rivals.solvers.transductive import annealed_costs
    >>> costs = list(annealed_costs(1.0))
    >>> len(costs), costs[:2], costs[-1]
    (18, [1e-05, 2e-05], 1.0)
    """
    cost = FIRST * last
    while cost < last:
        yield cost
        cost *= GROWTH
    yield last


def switchable(labels: Ints, scores: Floats, slack: float = 0.0) -> tuple[Ints, Ints]:
    """Find pairs of a positive and a negative row whose labels should be exchanged.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        1 and -1.
    scores : ndarray of shape (n,)
        Scores of the current SVM.
    slack : float, default=0.0
        How much the sum of two slacks must exceed 2.

    Returns
    -------
    positive, negative : ndarray of int of shape (n_pairs,)
        The rows of each pair, largest slacks first. Both have slack, with a sum above 2.
    """
    slacks = 1 - labels * scores
    up, down = (np.flatnonzero(labels == sign) for sign in (1, -1))
    order = -loops.ties.settled(slacks)
    up, down = (rows[np.argsort(order[rows], kind="stable")] for rows in (up, down))
    n = min(len(up), len(down))
    up, down = up[:n], down[:n]
    least, total = np.minimum(slacks[up], slacks[down]), slacks[up] + slacks[down]
    # Sorted lists: pair k has less slack than pair k - 1.
    good = int(np.argmin(np.append((least > 0) & (total > 2 + slack), False)))
    return up[:good], down[:good]


def ordinary_svm(space: FeatureSpace, signs: Ints, cost: float, tol: float) -> Machine:
    """Fit the SVM of the labelled rows, with a free intercept.

    Parameters
    ----------
    space : FeatureSpace
        All rows.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    cost : float
        C.
    tol : float
        Tolerance on the margins.

    Returns
    -------
    Machine
    """
    known = np.flatnonzero(signs)
    costs = np.full(len(known), cost)
    problem = MarginProblem.separate(selection(known, len(signs)), signs[known], costs)
    return max_margin(space, problem, tol=tol)


def transductive_svm(
    space: FeatureSpace,
    signs: Ints,
    *,
    C1: float,
    C2: float,
    n_positive: int,
    max_iter: int,
    tol: float,
) -> SolverResult:
    """Learn by label switching.

    Parameters
    ----------
    space : FeatureSpace
        All rows.
    signs : ndarray of shape (n_rows,)
        1, -1, and 0 for unlabelled rows.
    C1, C2 : float
        Cost of the slack of a labelled and of an unlabelled row.
    n_positive : int
        Number of positive rows among the unlabelled ones.
    max_iter : int
        Maximum number of SVMs to fit.
    tol : float
        Tolerance on the margins.

    Returns
    -------
    SolverResult
        ``solution`` is (coef of rows, intercept, labels, cost of unlabelled rows per SVM); the
        curve is the objective of each SVM at that cost.
    """
    unknown = np.flatnonzero(signs == 0)
    machine = ordinary_svm(space, signs, C1, tol)
    labels, stages, curve, settled = signs.copy(), [], [], True
    if len(unknown):
        labels[unknown] = balanced_labels(machine.scores[unknown], n_positive)
    for cost in annealed_costs(C2) if len(unknown) else ():
        costs = np.where(signs == 0, cost, C1)
        while True:
            machine = _solve(space, labels, costs, machine, tol)
            stages.append(cost)
            curve.append(machine.objective(labels, costs))
            settled &= machine.converged
            up, down = switchable(labels[unknown], machine.scores[unknown], 100 * tol)
            if len(up) == 0 or len(curve) >= max_iter or not settled:
                break
            labels[unknown[up]], labels[unknown[down]] = -1, 1
        # If an SVM does not converge, later ones would not either.
        if len(curve) >= max_iter or not settled:
            break
    if len(unknown) == 0:
        curve = [machine.objective(signs, np.full(len(signs), C1))]
        settled = machine.converged
    solution = machine.coef, np.array(machine.intercept), labels, np.array(stages)
    finished = len(unknown) == 0 or (stages[-1] == C2 and len(up) == 0)
    return SolverResult(solution, curve, settled and finished)


def _solve(
    space: FeatureSpace, labels: Ints, costs: Floats, before: Machine, tol: float
) -> Machine:
    """Fit the SVM of all rows with these labels, starting from the previous one."""
    everything = sparse.eye_array(len(labels), format="csr")
    problem = MarginProblem.separate(everything, labels, costs)
    inside = labels * before.scores < 1
    kept = np.minimum(np.abs(before.coef), costs)
    # Keep multipliers that agree with the label; otherwise C inside the margin, 0 outside.
    multipliers = np.where(labels * before.coef > 0, kept, np.where(inside, costs, 0.0))
    return max_margin(space, problem, tol=tol, start=before.start(multipliers))
