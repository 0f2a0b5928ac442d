"""Small fitted models of every public estimator, in variants with different fitted state."""

import warnings
from functools import cache

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import (
    Bags,
    annotation,
    classification,
    cluster,
    metric_learning,
    preprocessing,
    regression,
    semi_supervised,
)
from bagwise.base import RowEstimator
from bagwise.exceptions import LabelError, SparseInputError
from estimators import public_estimators, quick

# Parameters with which a fit has other attributes, or other shapes, than with the defaults.
VARIANTS = [
    annotation.M3MIML(kernel="rbf"),
    annotation.NoisyOrLogisticRegression(kernel="rbf", n_components=8),
    annotation.ORedLogisticRegression(background=True),
    annotation.ORedLogisticRegression(kernel="rbf", n_components=8),
    classification.BagMarginSVM(kernel="linear"),
    classification.SetKernelSVM(n_landmarks=8),
    classification.SparseMIL(n_landmarks=8),
    classification.MILBoost(n_estimators=5, max_depth=3),
    classification.PrimalDualMISVM(kernel="rbf"),
    classification.SingleInstanceClassifier(SVC()),
    classification.WellMISVM(kernel="linear"),
    cluster.BagConstrainedSpectralClustering(2, affinity="nearest_neighbors", n_neighbors=5),
    cluster.BagConstrainedSpectralClustering(2, affinity="landmark", n_landmarks=10),
    cluster.BagConstrainedSpectralClustering(2, constraints="posterior"),
    cluster.WellSVMClustering(4),
    metric_learning.MIMLCA(kernel="rbf", gamma=0.5, n_components=5),
    regression.SetKernelRegressor(n_landmarks=8),
    preprocessing.InstanceTransformer(StandardScaler(with_mean=False)),
    semi_supervised.WellSVMClassifier(kernel="rbf"),
]
KINDS = ("two", "three", "sets", "sparse")


def problem(kind):
    """Bags and labels: two classes, three, label sets, or three with sparse instances."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, size=18)
    y = np.arange(18) % (2 if kind == "two" else 3)
    rows = rng.normal(size=(sizes.sum(), 3)) + np.repeat(y, sizes)[:, None]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if kind == "sparse":
        return Bags(sparse.csr_array(np.where(np.abs(rows) > 0.5, rows, 0)), offsets), y
    if kind == "sets":
        y = [[{"a"}, {"a", "b"}, {"c"}][i] for i in y]
    return Bags(rows, offsets, feature_names=["a", "b", "c"]), y


def named(model):
    """Name of a model: the class and the parameters that differ from the defaults."""
    return str(model).replace("\n", "").replace(" ", "")


def unfitted():
    """Every estimator with its defaults, then the variants."""
    slow = {"n_estimators": 5, "max_epochs": 3, "hidden_layer_sizes": (5, 4), "n_clusters": 2}
    defaults = []
    for cls in public_estimators():
        model = quick(cls)
        model.set_params(**{k: v for k, v in slow.items() if k in model.get_params()})
        defaults.append(model)
    return defaults + [clone(model) for model in VARIANTS]


@cache
def fitted(model_index, kind):
    """A model fitted on a problem, and its predictions; None if it cannot learn from it."""
    model = clone(unfitted()[model_index])
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    bags, y = problem(kind)
    X = bags
    if isinstance(model, RowEstimator):
        if kind == "sets":
            return None
        X, y = bags.instances, np.repeat(y, bags.sizes)
        y[::3] = -1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y)
    except (LabelError, SparseInputError):
        return None
    return model, X


def precomputed():
    """Models of a precomputed kernel or similarity, and its values."""
    rows = problem("three")[0].instances
    K = rbf_kernel(rows)
    y = np.arange(len(K)) % 3 - 1
    models = [
        cluster.WellSVMClustering(4, kernel="precomputed"),
        semi_supervised.WellSVMClassifier(kernel="precomputed"),
        cluster.BagConstrainedSpectralClustering(2, affinity="precomputed"),
    ]
    return [
        (model.fit(K, None if "cluster" in type(model).__module__ else y), K) for model in models
    ]
