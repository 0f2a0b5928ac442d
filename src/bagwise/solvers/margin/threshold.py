"""Decision thresholds from the scores of training or held-out bags.

The intercept of a multi-instance SVM balances slacks of instances, while a bag is scored by its
best instance. The scores rank bags well, but zero is a poor threshold for bags.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bagwise import loops
from bagwise._common.types import Array, Bools, Floats, Ints
from bagwise.solvers.margin.misvm import LabelledBags
from bagwise.solvers.result import SolverResult

N_FOLDS = 5
PER_FOLD = 2  # least number of bags of each class in a fold
SCORE_BITS = 20  # scores that differ by less than 1e-6 of the largest are equal

Solve = Callable[[LabelledBags], SolverResult]


def at_threshold(solve: Solve, bags: LabelledBags, *, threshold: str, seed: int) -> SolverResult:
    """Fit a model and shift its intercept, so that scores above the threshold become positive.

    Parameters
    ----------
    solve : callable
        Takes labelled bags and returns a model: ``solution`` is (coefficients of the instances,
        intercept).
    bags : LabelledBags
        The bags.
    threshold : {"zero", "training", "out_of_fold"}
        Keep the intercept, or separate the scores of the training bags, or separate their
        out-of-fold scores. With fewer than 10 bags of a class "out_of_fold" is "training".
    seed : int
        Seed of the folds.

    Returns
    -------
    SolverResult
        The result of `solve` on all bags, with another intercept.
    """
    result, positive = solve(bags), bags.positive
    if threshold == "zero":
        return result
    coef, intercept = result.solution
    n_fewest = min(int(positive.sum()), int((~positive).sum()))
    if threshold == "out_of_fold" and n_fewest >= N_FOLDS * PER_FOLD:
        folds = even_folds(_mean_scores(bags), positive, seed)
        scores = out_of_fold_scores(solve, bags, folds)
    else:
        scores = bag_scores(bags, coef) + intercept
    shifted = intercept - most_accurate_threshold(scores, positive, bags.costs)
    return replace(result, solution=(coef, shifted))


def most_accurate_threshold(scores: Array, positive: Bools, weights: Array) -> float:
    """Find the threshold of highest accuracy.

    Candidates are the midpoints between adjacent scores. Ties are broken by the distance to zero,
    the threshold of the model, then in favour of the lower threshold. Scores that differ by less
    than 1e-6 of the largest count as equal.

    Parameters
    ----------
    scores : ndarray of shape (n_bags,)
        The scores.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive; both kinds must occur.
    weights : ndarray of shape (n_bags,)
        Weight of each bag.

    Returns
    -------
    float
        The threshold; zero if all scores are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers.margin.threshold import most_accurate_threshold
    >>> scores, positive = np.array([-3.0, -2.0, -1.5, -1.0]), np.array([False, False, True, True])
    >>> most_accurate_threshold(scores, positive, np.ones(4))
    -1.75
    """
    settled = loops.ties.settled(scores, bits=SCORE_BITS)
    order = np.argsort(settled, kind="stable")
    ranked, sides, shares = scores[order], positive[order], weights[order] / weights.sum()
    apart = np.diff(settled[order]) > 0
    if not apart.any():
        return 0.0
    # Relative to "all positive", each bag below the threshold adds or loses its weight.
    gained = loops.ties.settled(np.cumsum(np.where(sides, -shares, shares))[:-1])
    best = np.flatnonzero(apart & (gained == gained[apart].max()))
    middles = (ranked[best] + ranked[best + 1]) / 2
    return float(middles[np.argmin(loops.ties.settled(np.abs(middles), bits=SCORE_BITS))])


def out_of_fold_scores(solve: Solve, bags: LabelledBags, folds: Ints) -> Floats:
    """Score each bag by a model trained on the other folds.

    Parameters
    ----------
    solve, bags
        As in `at_threshold`; the kernel matrix of the instances is shared by all folds.
    folds : ndarray of int of shape (n_bags,)
        The fold of each bag.

    Returns
    -------
    ndarray of shape (n_bags,)
    """
    scores = np.empty(len(folds))
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        found = solve(bags.take(~held_out))
        coef = np.zeros(bags.offsets[-1])
        coef[~held_out[bags.bag_index]], intercept = found.solution
        scores[held_out] = (bag_scores(bags, coef) + intercept)[held_out]
    return scores


def bag_scores(bags: LabelledBags, coef: Floats) -> Floats:
    """Score bags by their best instance, without intercept.

    Parameters
    ----------
    bags : LabelledBags
        The bags.
    coef : ndarray of shape (n_instances,)
        Coefficients of the model.

    Returns
    -------
    ndarray of shape (n_bags,)
    """
    return loops.segments.maximum(bags.space.scores(coef), bags.offsets)


def even_folds(values: Floats, positive: Bools, seed: int) -> Ints:
    """Assign bags to folds, stratified by class and by a value.

    The bags of a class are sorted by value; each run of `N_FOLDS` bags is assigned to the folds at
    random, one bag per fold. The folds do not depend on the order of the bags.

    Parameters
    ----------
    values : ndarray of shape (n_bags,)
        A value per bag.
    positive : ndarray of bool of shape (n_bags,)
        Which bags are positive.
    seed : int
        Seed of the random assignment.

    Returns
    -------
    ndarray of int of shape (n_bags,)
        The fold of each bag, from 0 to `N_FOLDS` - 1.
    """
    rng = np.random.RandomState(seed)
    folds = np.empty(len(values), dtype=np.int64)
    for side in (False, True):
        bags = np.flatnonzero(positive == side)
        bags = bags[np.argsort(loops.ties.settled(values[bags]), kind="stable")]
        n_hands = -(-len(bags) // N_FOLDS)
        dealt = np.concatenate([rng.permutation(N_FOLDS) for _ in range(n_hands)])
        folds[bags] = dealt[: len(bags)]
    return folds


def _mean_scores(bags: LabelledBags) -> Floats:
    """Mean scores of bags by the difference of the class means, which avoids ties at margins."""
    inside = bags.positive[bags.bag_index]
    shares = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
    return loops.segments.mean(bags.space.scores(shares), bags.offsets)
