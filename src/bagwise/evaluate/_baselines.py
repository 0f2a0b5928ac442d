"""The simple models that an evaluation is compared with."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from bagwise._common.memory import available_memory
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._pipelines import kept_assumption
from bagwise.base._selections import bag_scores, undecided_score
from bagwise.classification import SingleInstanceClassifier
from bagwise.embedding import BagStatistics
from bagwise.evaluate._measures import as_sets, check_name
from bagwise.evaluate._trees import ExtraTrees, Forest
from bagwise.exceptions import DataWarning, warn_user
from bagwise.preprocessing._bag_pipeline import prepared
from bagwise.regression import CensoredBagRegressor


def single_instance_svm(C: float = 1.0, pooling: str = "max", max_iter: int = 10_000) -> Any:
    """SIL with a linear SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors on the instances.
    pooling : {"max", "mean"}, default="max"
        How instance scores are pooled to the score of the bag.
    max_iter : int, default=10000
        Maximum number of iterations of the solver.

    Returns
    -------
    SingleInstanceClassifier
    """
    machine = LinearSVC(C=C, max_iter=max_iter, random_state=0)
    return SingleInstanceClassifier(machine, pooling=pooling)


def pooled_trees(n_estimators: int = 300) -> Any:
    """Extremely randomised trees on the mean, minimum, maximum and deviation of each feature.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagStatistics(), ExtraTrees(n_estimators, random_state=0))


def pooled_trees_regressor(n_estimators: int = 300) -> Any:
    """Extremely randomised trees on pooled statistics, for a numeric target.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagStatistics(), Forest(n_estimators, max_features=1 / 3, random_state=0))


BASELINES = ("majority", "pooled trees")  # part of every evaluation
N_TREES, TREES_PER_LABEL = 300, 50
CENSORED: Any = {"cv": 3, "tol": 0.05}  # the trees are fitted in each fold and iteration


def baselines(
    names: Iterable[str] = BASELINES,
    *,
    bags: Bags | None = None,
    label_sets: bool = False,
    numbers: bool = False,
    intervals: bool = False,
    impute: str | None = None,
) -> dict[str, Any]:
    """Make the simple models that an evaluation is compared with.

    Pooled trees are left out, with a warning, if the table of their statistics, which is dense even
    for sparse instances, exceeds the memory.

    Parameters
    ----------
    names : iterable of str, default=("majority", "pooled trees")
        Names of the baselines: "majority", "pooled trees" or "sil".
    bags : Bags, default=None
        The bags of the evaluation; by default their instances are dense, and few.
    label_sets : bool, default=False
        Whether bags have label sets: there is then one model per label, and label frequencies
        replace the majority.
    numbers : bool, default=False
        Whether the target is numeric: its mean replaces the majority.
    intervals : bool, default=False
        Whether some of these numbers are censored.
    impute : {"mean", "median"} or None, default=None
        Replacement of missing values.

    Returns
    -------
    dict of str to estimator
    """
    sil: Any = single_instance_svm()
    if numbers:
        blind, trees = ("mean", DummyRegressor()), pooled_trees_regressor(N_TREES)
    elif label_sets:
        blind = ("frequencies", LabelFrequencies())
        forest = ExtraTrees(TREES_PER_LABEL, random_state=0)
        trees, sil = make_pipeline(BagStatistics(), OnePerLabel(forest)), OnePerLabel(sil)
    else:
        blind, trees = ("majority", DummyClassifier(strategy="prior")), pooled_trees(N_TREES)
    steps: Any = {"sparse": bags is not None and bags.is_sparse, "impute": impute}
    made = {"majority": blind}  # it does not use the instances
    made["pooled trees"] = ("pooled trees", prepared(trees, scale=False, **steps))
    if not numbers:
        made["sil"] = ("sil", prepared(sil, **steps))
    found = named_baselines(names, made)
    # The four statistics are float64, and trees copy them to float32.
    fits = bags is None or 64.0 * len(bags) * bags.n_features < available_memory()
    if "pooled trees" in found and not fits:
        warn_user("the baseline pooled trees is left out: it needs more memory", DataWarning)
        del found["pooled trees"]
    if intervals:
        return {name: CensoredBagRegressor(model, **CENSORED) for name, model in found.items()}
    return found


def named_baselines(names: Iterable[str], made: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """Choose baselines by name; return them by the titles that they have in a comparison."""
    chosen = list(names)
    for name in chosen:
        check_name(name, made, "baseline")
    return dict(made[name] for name in chosen)


class LabelFrequencies(ClassifierMixin, BaseEstimator):
    """Score each label by its share of the training bags, without using the instances.

    Attributes
    ----------
    shares_ : ndarray of shape (n_classes,)
        The share of the training bags that have each label.
    classes_ : ndarray of shape (n_classes,)
        The columns of the label sets.
    """

    def fit(self, X: Any, y: Array) -> Self:
        """Count the labels of the bags; `X` is ignored."""
        sets = np.asarray(as_sets(y))
        known = np.ma.masked_less(sets, 0)  # a label may be unknown, -1
        self.shares_ = np.ma.filled(known.mean(axis=0), 0.0)
        self.classes_ = np.arange(len(self.shares_))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the same scores for every bag, of shape (n_bags, n_classes)."""
        return np.tile(self.shares_, (len(X), 1))

    def predict(self, X: Any) -> Array:
        """Return the labels of more than half of the training bags, as zeros and ones."""
        return (self.predict_proba(X) > 0.5).astype(int)


class OnePerLabel(ClassifierMixin, BaseEstimator):
    """Fit one binary classifier per label of the label sets.

    scikit-learn's ``OneVsRestClassifier`` does the same, but fails on bags if no training bag, or
    every one, has a label.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The columns of the label sets.
    constants_ : ndarray of shape (n_classes,)
        0; infinity for a label of all training bags, minus infinity for a label of none.
    estimators_ : list
        A fitted classifier for each of the other labels.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def keeps(self) -> str:
        """The assumption that the models of the labels keep."""
        return kept_assumption(self.estimator)

    def fit(self, X: Any, y: Array) -> Self:
        """Fit a clone per column of `y`, to the bags of which the label is known (not -1)."""
        sets = np.asarray(as_sets(y)).astype(int)
        self.classes_ = np.arange(sets.shape[1])
        always, never = (sets != 0).all(axis=0), ~(sets == 1).any(axis=0)
        # Constant labels are not learned.
        self.constants_ = np.where(never, -np.inf, np.where(always, np.inf, 0.0))
        self.estimators_ = []
        for column in sets[:, self.constants_ == 0].T:
            known = column >= 0
            rows, own = (X, column) if known.all() else (X[known], column[known])
            self.estimators_.append(clone(self.estimator).fit(rows, own))
        return self

    def decision_function(self, X: Any) -> Floats:
        """Score each label of each bag, of shape (n_bags, n_classes)."""
        values = np.tile(self.constants_, (len(X), 1))
        for k, model in zip(np.flatnonzero(self.constants_ == 0), self.estimators_, strict=True):
            values[:, k] = bag_scores(model, X)
        return values

    def predict(self, X: Any) -> Array:
        """Return the predicted labels of each bag, as zeros and ones."""
        boundary = undecided_score(self.estimators_[0], 1) if self.estimators_ else 0.0
        return (self.decision_function(X) > boundary).astype(int)
