"""MIMLCA as printed (Law et al. 2017)."""

from typing import Any

from sklearn.pipeline import make_pipeline

from bagwise._common.types import Array
from bagwise.base._parameters import NOT_NEGATIVE, with_parameters
from bagwise.classification import CitationKNN
from bagwise.metric_learning import MIMLCA
from bagwise.solvers.metric.mimlca import kernel_features

__all__ = ["mimlca"]


@with_parameters
class PublishedMIMLCA(MIMLCA):
    """MIMLCA by Algorithm 1 from a random assignment: see `bagwise.published.mimlca`."""

    _declared: Any = ({}, {})  # none of the parameters of our default
    instances_per_label, n_components, n_init, checkpoint, verbose = 1, None, 1, None, 0
    _parameter_constraints = {"tol": [NOT_NEGATIVE]}

    kernel: Any = "linear"
    gamma: float | None = None
    max_iter: int = 100
    tol: float = 0.0
    random_state: Any = None

    def _search(self, rng: Any) -> dict[str, Any]:
        printed = {"init": "random", "empty": "zero", "center": False, "all_directions": True}
        return super()._search(rng) | printed | {"tol": self.tol}

    def _kernel_features(self, gram: Array, candidates: Any) -> tuple[Array, Array]:
        return kernel_features(gram)


def mimlca(
    kernel: Any = None,
    *,
    gamma: float | None = None,
    max_iter: int = 100,
    tol: float = 0.0,
    random_state: Any = None,
) -> PublishedMIMLCA:
    r"""MIMLCA, Algorithm 1 as printed by Law et al. 2017.

    With U an orthonormal basis of the columns of X (:math:`UU' = XX^+`) and H the assignment of
    instances to labels, at most one of each bag to each candidate label, the algorithm starts from
    a random H and repeats

    - :math:`Z = H^+ U`: the mean of the rows of each label, and 0 for a label without rows;
    - in each bag the cheapest assignment to its candidate labels, by
      :math:`|u_j - z_c|^2` (Eq. 13), until H no longer changes.

    Then :math:`M = LL'`, :math:`L = X^+ J` on the assigned instances, with J the columns of H
    scaled to length 1 (step 11). With a kernel, :math:`UU' = KK^+` and :math:`M = \Phi K^+ J
    (\Phi K^+ J)'`, with all components.

    Parameters
    ----------
    kernel : str, callable or None, default=None
        None for linear; or a kernel between instances by scikit-learn's names, or a function of two
        vectors. "chi2" is the chi2-RBF kernel of the paper, on instances of sum 1.
    gamma : float, default=None
        Width of the kernel; ``1 / n_features``, and 1 for "chi2", by default.
    max_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=0.0
        Relative decrease of the objective at which to stop.
    random_state : int, RandomState or None, default=None
        For the first H: in each bag the cheapest assignment for uniform random costs, drawn for all
        pairs of an instance and a candidate label, bag by bag and instance by instance.

    Returns
    -------
    estimator
        With ``assignments_``, ``components_`` (L'), ``transform``, and ``predict_instances`` by
        Eq. 15 (``rule="centroid"``) or Eq. 16 (``rule="projection"``).

    Warns
    -----
    UserWarning
        If the rows of U are nearly orthogonal, as with most kernels: every H then has nearly the
        same objective, and the first one stays.

    Notes
    -----
    Our default, :class:`bagwise.metric_learning.MIMLCA`, differs:

    - features are centred: H depends on X through its column space, which the mean distorts;
    - the first centres are the means of the bags that carry a label: random starts spread widely;
    - a label without rows keeps its centre: 0 is near to every row, so that it attracts many;
    - with a kernel, two directions per label are kept, because with all of them Algorithm 1 does
      not move.

    A label without rows is never predicted, here too.

    References
    ----------
    Law, Yu, Urtasun, Zemel, Xing. Efficient multiple instance metric learning using weakly
    supervised data. CVPR 2017.

    Examples
    --------
    >>> from bagwise.published import mimlca
    >>> photos = [[[0.0, 1.0], [5.0, 1.2]], [[5.1, 0.9]], [[0.2, 1.1], [5.2, 1.0]], [[0.1, 0.8]]]
    >>> names = [{"Ann", "Bob"}, {"Bob"}, {"Ann", "Bob"}, {"Ann"}]
    >>> model = mimlca(random_state=0).fit(photos, names)
    >>> model.classes_[model.assignments_]
    array(['Ann', 'Bob', 'Bob', 'Ann', 'Bob', 'Ann'], dtype='<U3')
    """
    kernel = "linear" if kernel is None else kernel
    options: Any = {"max_iter": max_iter, "tol": tol, "random_state": random_state}
    return PublishedMIMLCA(kernel, gamma, **options)


def citation_knn(
    n_references: int = 20,
    n_citers: int = 20,
    kernel: Any = None,
    max_iter: int = 100,
    random_state: Any = None,
) -> Any:
    """Citation-kNN in the metric of `mimlca`, by which Sec. 4.2 labels bags, with r = c = 20."""
    metric = mimlca(kernel, max_iter=max_iter, random_state=random_state)
    return make_pipeline(metric, CitationKNN(n_references, n_citers))
