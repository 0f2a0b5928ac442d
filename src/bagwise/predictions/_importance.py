"""Importance of features: how much a score falls if a feature is shuffled."""

from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch

from bagwise.validation import check_bags, check_length


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
