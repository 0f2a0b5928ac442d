"""Methods that combine several estimators, for the list of methods."""

from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise.classification import CitationKNN
from bagwise.embedding import BagDissimilarity
from bagwise.metric_learning import MIMLCA


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
    machine = SVC(C=C, kernel="linear", random_state=0)
    return make_pipeline(BagDissimilarity(kind, metric, n_prototypes, random_state=0), machine)


def dissimilarity_ridge(
    kind: str = "meanmin", metric: str = "euclidean", n_prototypes: int | None = None
) -> Any:
    """MInD with ridge regression on the distances, for a numeric target.

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


def ridge_cv() -> Any:
    """Ridge regression on standardised columns; leave-one-out errors select the penalty."""
    return make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-2, 5, 15)))


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
