"""Ready-made models: methods of the command line that combine several estimators."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from bagwise._common.memory import require_memory
from bagwise._common.types import Array, Floats
from bagwise._common.warnings import warn_user
from bagwise.bags import Bags
from bagwise.base._pipelines import kept_assumption
from bagwise.classification import CitationKNN, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity, BagStatistics
from bagwise.exceptions import DataWarning, InputError, NotEnoughMemoryError
from bagwise.metric_learning import MIMLCA
from bagwise.preprocessing import BagPipeline, InstancePCA, InstanceTransformer

CLIP = 10.0  # standard deviations: one outlier must not dominate all distances


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


def dissimilarity_svm(
    C: float = 1.0,
    kind: str = "meanmin",
    metric: str = "euclidean",
    n_prototypes: int | None = None,
) -> Any:
    """MInD with a linear SVM on the distances.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the errors on the bags.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    metric : str, default="euclidean"
        The distance between instances.
    n_prototypes : int, default=None
        Number of training bags used as prototypes; all by default.

    Returns
    -------
    Pipeline
    """
    distances = BagDissimilarity(kind, metric, n_prototypes, random_state=0)
    return make_pipeline(distances, SVC(C=C, kernel="linear", random_state=0))


def dissimilarity_ridge(
    kind: str = "meanmin", metric: str = "euclidean", n_prototypes: int | None = None
) -> Any:
    """MInD with ridge regression on the distances, for a number per bag.

    Parameters
    ----------
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="meanmin"
        The distance between bags.
    metric : str, default="euclidean"
        The distance between instances.
    n_prototypes : int, default=None
        Number of training bags used as prototypes; all by default.

    Returns
    -------
    Pipeline
    """
    return make_pipeline(BagDissimilarity(kind, metric, n_prototypes, random_state=0), ridge_cv())


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
    return make_pipeline(BagStatistics(), ExtraTreesClassifier(n_estimators, random_state=0))


def ridge_cv() -> Any:
    """Ridge regression on standardised columns; leave-one-out errors select the penalty."""
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-2, 5, 15)))


def pooled_trees_regressor(n_estimators: int = 300) -> Any:
    """Extremely randomised trees on pooled statistics, for a number per bag.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.

    Returns
    -------
    Pipeline
    """
    trees = ExtraTreesRegressor(n_estimators, max_features=1 / 3, random_state=0)
    return make_pipeline(BagStatistics(), trees)


def metric_citation_knn(
    n_references: int = 2,
    n_citers: int = 4,
    kind: str = "minmin",
    kernel: str = "linear",
    instances_per_label: int | None = 1,
    n_components: int | None = None,
    checkpoint: str | None = None,
) -> Any:
    """MIMLCA, then Citation-kNN with the learned distance.

    Parameters
    ----------
    n_references, n_citers : int, default=2, 4
        Number of bags that vote; the paper of MIMLCA uses 20 of each, for thousands of bags.
    kind : {"minmin", "maxmin", "meanmin", "hausdorff"}, default="minmin"
        The distance between bags.
    kernel : str, default="linear"
        The kernel of MIMLCA.
    instances_per_label : 1 or None, default=1
        Number of instances of a bag that may have a label.
    n_components : int, default=None
        Number of directions that MIMLCA keeps.
    checkpoint : path, default=None
        File to which MIMLCA saves its state, and from which it resumes.

    Returns
    -------
    Pipeline
    """
    metric = MIMLCA(
        kernel,
        instances_per_label=instances_per_label,
        n_components=n_components,
        checkpoint=checkpoint,
    )
    return make_pipeline(metric, CitationKNN(n_references, n_citers, kind=kind))


def prepared(
    model: Any,
    *,
    scale: bool,
    sparse: bool,
    pca: int | str | None = None,
    impute: str | None = None,
) -> Any:
    """Put steps before a model that impute missing values, project and standardise instances.

    Parameters
    ----------
    model : estimator
        A model of bags.
    scale : bool
        Whether the features, and then the components, are standardised.
    sparse : bool
        Whether instances are sparse: they are then not centred, and `pca` is not available.
    pca : int, "auto" or None, default=None
        Number of principal components, see `InstancePCA`.
    impute : {"mean", "median"} or None, default=None
        Replacement of missing values; None refuses them.

    Returns
    -------
    estimator
        The model alone, or a `BagPipeline`; its steps are called "impute", "pca", "scale" and
        "model".
    """
    steps = instance_steps(scale=scale, sparse=sparse, pca=pca, impute=impute)
    return BagPipeline([*steps, ("model", model)]) if steps else model


def instance_steps(
    *, scale: bool, sparse: bool, pca: int | str | None = None, impute: str | None = None
) -> list[tuple[str, Any]]:
    """Make the steps of `prepared`."""
    if pca is not None and sparse:
        raise InputError(
            "pca= needs dense features, and these are sparse: leave it out, or store them dense."
        )
    filling = [] if impute is None else [("impute", instance_imputer(impute))]
    projection = [] if pca is None else [("pca", InstancePCA(pca, standardize=scale))]
    scaling = [("scale", instance_scaler(sparse=sparse))] if scale else []
    return [*filling, *projection, *scaling]


def instance_imputer(strategy: str) -> InstanceTransformer:
    """Make a transformer that imputes missing values by the mean or the median of their feature.

    A feature without any value becomes zero.
    """
    return InstanceTransformer(SimpleImputer(strategy=strategy, keep_empty_features=True))


def standardised(model: Any, *, sparse: bool = False) -> BagPipeline:
    """Put a step before a model that standardises the instances.

    Parameters
    ----------
    model : estimator
        A model of bags.
    sparse : bool, default=False
        Whether instances are sparse: they are then not centred.

    Returns
    -------
    BagPipeline
        Its steps are called "scale" and "model".
    """
    return BagPipeline([("scale", instance_scaler(sparse=sparse)), ("model", model)])


def instance_scaler(*, sparse: bool) -> InstanceTransformer:
    """Make a transformer that standardises instances; sparse ones are not centred.

    Dense values are limited to 10 standard deviations from the mean.
    """
    scaler = StandardScaler(with_mean=not sparse)
    scaler.set_output(transform="default")  # arrays, whatever sklearn.set_config requests
    return InstanceTransformer(scaler, clip=None if sparse else CLIP)


BASELINES = ("majority", "pooled trees")  # part of every evaluation
_TREES_PER_LABEL = 50


def baselines(
    *,
    label_sets: bool,
    sparse: bool = False,
    names: Iterable[str] = BASELINES,
    impute: str | None = None,
) -> dict[str, Any]:
    """Make the simple models that an evaluation is compared with.

    Parameters
    ----------
    label_sets : bool
        Whether bags have label sets: there is then one model per label, and label frequencies
        replace the majority.
    sparse : bool, default=False
        Whether instances are sparse.
    names : iterable of str, default=("majority", "pooled trees")
        Names of the baselines: "majority", "pooled trees" or "sil".
    impute : {"mean", "median"} or None, default=None
        Replacement of missing values, as in `prepared`.

    Returns
    -------
    dict of str to estimator
    """
    machine = single_instance_svm()
    if label_sets:
        trees = ExtraTreesClassifier(_TREES_PER_LABEL, random_state=0)
        made = {
            "majority": LabelFrequencies(),
            "pooled trees": make_pipeline(BagStatistics(), OnePerLabel(trees)),
            "sil": standardised(OnePerLabel(machine), sparse=sparse),
        }
    else:
        made = {
            "majority": DummyClassifier(strategy="prior"),
            "pooled trees": pooled_trees(),
            "sil": standardised(machine, sparse=sparse),
        }
    for name in names:
        if name not in made:
            raise InputError(f"Unknown baseline {name!r}. Choose from {', '.join(made)}.")
    if impute is not None:
        blind = made["majority"]
        made = {
            name: prepared(model, scale=False, sparse=sparse, impute=impute)
            for name, model in made.items()
        }
        made["majority"] = blind  # it does not use the instances
    return {
        "frequencies" if label_sets and name == "majority" else name: made[name] for name in names
    }


def number_baselines(
    names: Iterable[str] = BASELINES, *, impute: str | None = None
) -> dict[str, Any]:
    """Make the baselines of regression: the mean and pooled trees."""
    trees = prepared(pooled_trees_regressor(), scale=False, sparse=False, impute=impute)
    made = {"majority": ("mean", DummyRegressor()), "pooled trees": ("pooled trees", trees)}
    for name in names:
        if name not in made:
            raise InputError(f"the baseline {name!r} predicts labels, and these bags have numbers.")
    return dict(made[name] for name in names)


def affordable_baselines(bags: Bags, names: Iterable[str] = BASELINES) -> list[str]:
    """Leave out pooled trees, with a warning, if the table of statistics exceeds the memory.

    The table is dense even for sparse instances. A missing baseline does not stop an evaluation.

    Parameters
    ----------
    bags : Bags
        The bags of the evaluation.
    names : iterable of str, default=("majority", "pooled trees")
        The baselines.

    Returns
    -------
    list of str
    """
    kept = list(names)
    if "pooled trees" not in kept:
        return kept
    try:
        require_memory(
            16.0 * len(bags) * 4 * bags.n_features,  # as float64, and the float32 of trees
            purpose=f"the baseline pooled trees of {len(bags):,} bags and {bags.n_features:,} "
            "features",
            remedy="it is left out",
        )
    except NotEnoughMemoryError as error:
        warn_user(str(error), DataWarning)
        kept.remove("pooled trees")
    return kept


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
        self.shares_ = np.mean(y, axis=0)
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
        """Fit a clone per column of `y`."""
        sets = np.asarray(y) > 0
        self.classes_ = np.arange(sets.shape[1])
        always, never = sets.all(axis=0), ~sets.any(axis=0)  # constant labels are not learned
        self.constants_ = np.where(always, np.inf, np.where(never, -np.inf, 0.0))
        learned = sets[:, self.constants_ == 0].T.astype(int)
        self.estimators_ = [clone(self.estimator).fit(X, column) for column in learned]
        return self

    def decision_function(self, X: Any) -> Floats:
        """Score each label of each bag, of shape (n_bags, n_classes)."""
        scores = np.tile(self.constants_, (len(X), 1))
        for k, model in zip(np.flatnonzero(self.constants_ == 0), self.estimators_, strict=True):
            scores[:, k] = _label_scores(model, X)
        return scores

    def predict(self, X: Any) -> Array:
        """Return the predicted labels of each bag, as zeros and ones."""
        labels = np.tile((self.constants_ > 0).astype(int), (len(X), 1))
        for k, model in zip(np.flatnonzero(self.constants_ == 0), self.estimators_, strict=True):
            labels[:, k] = model.predict(X)
        return labels


def _label_scores(model: Any, X: Any) -> Floats:
    has_scores = hasattr(model, "decision_function")
    return model.decision_function(X) if has_scores else model.predict_proba(X)[:, 1]
