"""Contributions of instances to the score of their bag, and the importance of features."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import orth
from sklearn.linear_model import Ridge
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state, check_scalar

from bagwise._common.types import Array, Bools, Floats
from bagwise.bags import Bags
from bagwise.base._pipelines import instance_model
from bagwise.base._scoring import guarded, instance_scores
from bagwise.base._selections import (
    BLOCK,
    Selection,
    bag_scores,
    in_parts,
    selection_scores,
    undecided_score,
    without_constants,
)
from bagwise.exceptions import InputError
from bagwise.validation import check_bags, check_length

METHODS = {  # and what a contribution is
    "score": "its score, from which the score of the bag is pooled",
    "single": "the score of a bag with this instance alone",
    "one_removed": "the score minus the score without the instance",
    "sampled": "its weight in a linear approximation of the score on random subsets of the bag",
}
LEAST_SHARE, LARGEST_SHARE = 0.05, 0.5  # of subsets with the first, the last in rank
PENALTY = 1.0  # on the deviation from the scores of single instances


def instance_attributions(
    model: Any, X: Any, *, method: str = "sampled", n_samples: int = 200, random_state: Any = None
) -> Array:
    r"""Compute the contribution of each instance to the score of its bag, for any model of bags.

    The score :math:`f(B)` of a bag is the model's ``decision_function``, or ``predict_proba`` if it
    has none; for a regressor, its prediction. The contribution of an instance :math:`x` of a bag
    :math:`B` is, by `method`:

    - "score": the model's own ``score_instances``;
    - "single": :math:`f(\{x\})`, the score of a bag with this instance alone;
    - "one_removed": :math:`f(B) - f(B \setminus x)`, the score minus that without the instance;
    - "sampled": the coefficient of the instance in a linear approximation of :math:`f` on random
      subsets of the bag, as in MILLI.

    If the score of a bag is the sum of scores of its instances, all four are these scores, up to a
    constant. "one_removed" is near 0 if another instance supports the same class; "single"
    ignores the other instances; "sampled" takes both into account.

    Parameters
    ----------
    model : object
        Any fitted model with ``decision_function`` or ``predict_proba`` of `Bags`, or a regressor
        with ``predict``: a pipeline, a search, an `AutoBagClassifier`, or an object of your own.
    X : Bags or anything accepted as bags
        The bags.
    method : {"score", "single", "one_removed", "sampled"}, default="sampled"
        Definition of the contribution.
    n_samples : int, default=200
        Number of random subsets of a bag, for ``method="sampled"``; more are more precise.
    random_state : int, RandomState instance or None, default=None
        Seed of the subsets.

    Returns
    -------
    ndarray of shape (n_instances,) or (n_instances, n_classes)
        Aligned with ``bags.instances``. One column for two classes: positive contributions support
        ``classes_[1]``. Otherwise one column per class. 0 for a class whose score is infinite,
        because no training bag has it.

    See Also
    --------
    bagwise.metrics.flipping_curve : Measures how well contributions explain the score.

    Notes
    -----
    Cost, in bags that the model scores (many of them in one call), for a bag of :math:`n`
    instances: "score" 1, plus 1 for all bags together; "single" :math:`n`; "one_removed"
    :math:`n + 1`, or 1 if :math:`n = 1`; "sampled" :math:`n` + `n_samples`, or :math:`2^n - 1` if
    that is not more.

    A bag of one instance has no remainder. "one_removed" and "sampled" then subtract the undecided
    score: 0 (also for a regressor), or for probabilities one over the number of classes (for label
    sets 1/2).

    "sampled" ranks the instances of a bag by their single scores (of several classes, the largest).
    A subset contains the instance of highest rank with probability 0.05, the others with
    probabilities that rise linearly to 0.5; empty subsets are drawn again. Small subsets of
    low-ranked instances reveal what a high-ranked instance adds, even if several are alike.
    Coefficients are fitted by ridge regression with an intercept, shrunk towards a linear function
    of the single scores. Small bags use all their subsets, weighted by their probability, without a
    penalty.

    References
    ----------
    Early, Evers & Ramchurn, "Model agnostic interpretability for multiple instance learning",
    ICLR 2022.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.predictions import instance_attributions
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier(pooling="mean").fit(bags, [0, 0, 1, 1])
    >>> found = instance_attributions(model, [[[0.1], [3.0], [0.2]]], method="one_removed")
    >>> int(found.argmax())
    1
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}: expected one of {', '.join(map(repr, METHODS))}.")
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    rng = check_random_state(random_state)
    bags = check_bags(None, X, reset=True, allow_nan=True)
    if method == "sampled":
        return guarded(_sampled(model, bags, int(n_samples), rng), X)
    calls = {"score": _own_scores, "single": _single, "one_removed": _one_removed}
    return guarded(calls[method](model, bags), X)


def _own_scores(model: Any, bags: Bags) -> Floats:
    estimator, seen = instance_model(model, bags)
    if seen is None or not hasattr(estimator, "score_instances"):
        raise InputError(f"{type(estimator).__name__} has no instance scores.")
    scores = np.asarray(instance_scores(estimator)(seen), dtype=np.float64)
    of_bag = bag_scores(model, bags[:1])
    if scores.ndim == 2 and of_bag.ndim == 1:  # a column per class, but one score per bag
        return without_constants(scores[:, -1]) - without_constants(scores[:, 0])
    scores = without_constants(scores)
    return scores if scores.ndim == 1 else scores[:, : of_bag.shape[1]]  # without the background


def _single(model: Any, bags: Bags) -> Floats:
    found = []
    for rows in in_parts(bags.n_instances, 1, bags.n_features):
        instances = bags.instances[rows]
        alone = np.arange(instances.shape[0] + 1)
        found.append(bag_scores(model, Bags(instances, alone, feature_names=bags.feature_names)))
    return np.concatenate(found)


def _one_removed(model: Any, bags: Bags) -> Floats:
    all_of = ((i, np.ones((1, size), dtype=bool)) for i, size in enumerate(bags.sizes))
    whole = selection_scores(model, bags, all_of)
    rest = np.full((bags.n_instances, *whole.shape[1:]), undecided_score(model, whole[:1].size))
    if (bags.sizes > 1).any():
        rest[bags.sizes[bags.bag_index] > 1] = selection_scores(model, bags, _removals(bags))
    return whole[bags.bag_index] - rest


def _removals(bags: Bags) -> Iterator[Selection]:
    """Each bag of several instances, without each of its instances in turn."""
    for i, size in enumerate(bags.sizes):
        for some in in_parts(size if size > 1 else 0, size, bags.n_features):
            masks = np.ones((some.stop - some.start, size), dtype=bool)
            masks[np.arange(len(masks)), np.arange(some.start, some.stop)] = False
            yield i, masks


def _sampled(model: Any, bags: Bags, n_samples: int, rng: Any) -> Floats:
    single = _single(model, bags)
    alone = bags.split(single)
    undecided = undecided_score(model, single[:1].size)
    found = bags.split(single - undecided)  # final for bags of one instance
    seed = rng.randint(2**31 - 1)  # the same for each bag: other bags do not matter
    several = np.flatnonzero(bags.sizes > 1)
    n_masks = np.minimum(2.0 ** np.minimum(bags.sizes[several], 60), n_samples)
    groups = np.cumsum(n_masks * bags.sizes[several]) // BLOCK  # the masks of one fit into a block
    for group in np.unique(groups):
        drawn = {i: _draw(alone[i], n_samples, seed) for i in several[groups == group].tolist()}
        selections = (
            (i, masks[some])
            for i, (masks, _) in drawn.items()
            for some in in_parts(len(masks), int(bags.sizes[i]), bags.n_features)
        )
        scores = selection_scores(model, bags, selections)
        bounds = np.cumsum([len(masks) for masks, _ in drawn.values()])[:-1]
        parts = zip(drawn.items(), np.split(scores, bounds), strict=True)
        for (i, (masks, weights)), values in parts:
            if weights is None:
                found[i][:] = _ridge(masks, values, alone[i])
            else:
                found[i][:] = _least_squares(masks, values, alone[i], weights)
    return np.concatenate(found)


def _draw(single: Floats, n_samples: int, seed: int) -> tuple[Bools, Floats | None]:
    """Subsets of a bag, as masks of shape (n_subsets, size of the bag).

    All subsets of at least two instances if there are few, and the probabilities of the single
    instances and then of the subsets; otherwise random subsets and None.
    """
    size = len(single)
    best = single.reshape(size, -1).max(axis=1)
    ranks = np.empty(size, dtype=np.intp)
    ranks[np.argsort(-best, kind="stable")] = np.arange(size)
    shares = np.linspace(LEAST_SHARE, LARGEST_SHARE, size)[ranks]
    if size < 60 and 2**size - 1 <= size + n_samples:
        masks = np.arange(2**size)[:, None] >> np.arange(size) & 1 == 1
        masks = masks[masks.sum(axis=1) > 1]
        each = np.concatenate([np.eye(size, dtype=bool), masks])
        return masks, np.where(each, shares, 1 - shares).prod(axis=1)
    rng = np.random.RandomState(seed)
    # Stratified: each instance is in its share of the subsets. There is a column of numbers per
    # rank, so that the order of the instances does not change the result.
    levels = (rng.random_sample((n_samples, size)).argsort(axis=0) + 0.5) / n_samples
    masks = levels[:, ranks] < shares
    while (empty := ~masks.any(axis=1)).any():
        masks[empty] = rng.random_sample((int(empty.sum()), size))[:, ranks] < shares
    return masks, None


def _least_squares(masks: Bools, scores: Floats, single: Floats, weights: Floats) -> Floats:
    """Coefficients of the instances in the weighted linear fit, with an intercept."""
    root = np.sqrt(weights)[:, None]
    members = np.concatenate([np.eye(len(single)), masks])
    values = np.concatenate([single, scores]).reshape(len(members), -1)
    design = np.column_stack([np.ones(len(members)), members])
    return np.linalg.lstsq(root * design, root * values)[0][1:].reshape(single.shape)


def _ridge(masks: Bools, scores: Floats, single: Floats) -> Floats:
    """Coefficients of the instances in a ridge regression towards `single`, scaled and shifted."""
    values, alone = scores.reshape(len(scores), -1), single.reshape(len(single), -1)
    members = masks.astype(np.float64)
    columns = [_ridge_column(members, *pair) for pair in zip(values.T, alone.T, strict=True)]
    return np.column_stack(columns).reshape(single.shape)


def _ridge_column(masks: Floats, scores: Floats, single: Floats) -> Floats:
    # scores ~ a + masks @ (b single + c + deviation), with a penalty on the deviation only: solve
    # for it in the complement of the columns that belong to a, b and c.
    scale = np.abs(single).max() or 1.0
    prior = np.column_stack([single / scale, np.ones_like(single)])
    free = np.column_stack([np.ones(len(masks)), masks @ prior])
    basis = orth(free)
    rest, target = (part - basis @ (basis.T @ part) for part in (masks, scores))
    deviation = Ridge(PENALTY, fit_intercept=False, solver="cholesky").fit(rest, target).coef_
    coefficients = np.linalg.lstsq(free, scores - masks @ deviation)[0]
    return prior @ coefficients[1:] + deviation


def permutation_importance(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Bunch:
    """Compute how much the score of a model falls if the values of a feature are shuffled.

    scikit-learn's function of this name, for bags: it shuffles a feature among all
    instances of all bags, so that neither its values inside a bag nor its differences between bags
    are informative; the sizes of bags and all other features are unchanged.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, alone or in a pipeline.
    X : Bags or anything accepted as bags
        Bags that the model was not fitted on; on its training bags the importance of overfitted
        features is too large.
    y : array-like of shape (n_bags,)
        The labels or numbers of the bags.
    scoring : str or callable, default=None
        A scorer of scikit-learn, such as "roc_auc" or "neg_mean_absolute_error"; by default the
        ``score`` of the model, accuracy or R2.
    n_repeats : int, default=5
        Number of shuffles of each feature.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffles.

    Returns
    -------
    Bunch
        ``importances`` of shape (n_features, n_repeats), the score minus that after the shuffle;
        ``importances_mean`` and ``importances_std`` of shape (n_features,), and ``feature_names``,
        a list of str.

    See Also
    --------
    instance_attributions : The contributions of instances instead of features.

    Notes
    -----
    Correlated features replace each other: shuffling one of them changes the score little. Cost:
    n_features x n_repeats scores of all bags, and one copy of the instances.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.predictions import permutation_importance
    >>> from bagwise.regression import SetKernelRegressor
    >>> bags = np.random.default_rng(0).normal(size=(40, 3, 2))
    >>> y = bags[:, :, 0].mean(axis=1)
    >>> model = SetKernelRegressor(C=100).fit(bags[:30], y[:30])
    >>> found = permutation_importance(model, bags[30:], y[30:], random_state=0)
    >>> int(found.importances_mean.argmax())
    0
    """
    from sklearn.inspection import permutation_importance as importance_of_columns

    bags = check_bags(None, X, reset=True, accept_sparse=False, allow_nan=True)
    check_length(y, bags)
    score = check_scoring(model, scoring=scoring)

    def score_bags(model: Any, instances: Any, y: Any) -> float:
        changed = bags.with_instances(instances, feature_names=bags.feature_names)
        return float(score(model, changed, y))

    settings = {"n_repeats": n_repeats, "random_state": random_state}
    found = importance_of_columns(model, bags.instances, y, scoring=score_bags, **settings)
    names = bags.feature_names or [f"x{j}" for j in range(bags.n_features)]
    return Bunch(**found, feature_names=list(names))
