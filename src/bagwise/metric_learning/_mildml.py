"""MildML: a metric in which bags that share a label have a close pair of instances."""

from dataclasses import KW_ONLY
from numbers import Integral
from typing import Any

import numpy as np

from bagwise._common.sklearn import Interval
from bagwise._common.types import Floats
from bagwise.bags import Bags
from bagwise.base._parameters import with_parameters
from bagwise.compute.arrays import dense
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.metric_learning._base import MetricLearner
from bagwise.solvers.metric.mildml import mildml, sample_pairs
from bagwise.solvers.result import SolverResult


@with_parameters
class MildML(MetricLearner):
    r"""Learn a metric in which bags that share a label have a close pair (Guillaumin 2010).

    Logistic regression on pairs of bags: with :math:`d_L(A, B)` the distance of the closest
    instances of two bags and :math:`t = \pm 1` for bags that share a label or do not,

    .. math::
        \min_{L, b} \sum_{A, B} w_{AB} \log(1 + e^{t (d_L(A, B)^2 - b)})
        + \tfrac{\text{reg}}{2} |L|^2,

    where both kinds of pairs have the same total weight. It assigns no labels to instances.

    Parameters
    ----------
    n_components : int, default=None
        Number of rows of the map L; the number of features by default.
    reg : float, default=1e-3
        Weight of the squared length of L.
    n_pairs : int, default=20000
        Maximum number of pairs of bags, half of each kind; if there are more, a random sample is
        drawn once.
    max_iter : int, default=500
        Maximum number of L-BFGS iterations.
    tol : float, default=1e-6
        Relative decrease of the objective at which the fit stops.
    random_state : int, RandomState or None, default=None
        For drawing pairs.
    {verbose}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map L.
    {label_kind_}
    threshold_ : float
        b: two bags at this squared distance share a label with probability 1/2.
    objective_curve_ : ndarray of shape (n_iterations,)
        The objective after each iteration.
    n_iter_ : int
        Number of iterations.
    {n_features_in_}

    Notes
    -----
    Bags with unknown label sets are left out. Cost of an iteration: a product of the instances with
    the map, and for each pair of bags the distances of their instances. The objective is not
    convex: it is minimised from the principal directions of the instances. Instances should be
    standardised.

    References
    ----------
    Guillaumin, Verbeek, Schmid. Multiple instance metric learning from automatically labeled bags
    of faces. ECCV 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.metric_learning import MildML
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(30) % 3
    >>> X = np.column_stack([y + 0.1 * rng.normal(size=30), rng.normal(size=30)])
    >>> d = MildML().fit(X, y).get_metric()  # only the first feature matters
    >>> d([0, 0], [1, 0]) > 10 * d([0, 0], [0, 1])
    True
    """

    _parameter_constraints = {"n_pairs": [Interval(Integral, 2, None, closed="left")]}

    n_components: int | None = None
    _: KW_ONLY
    reg: float = 1e-3
    n_pairs: int = 20_000
    max_iter: int = 500
    tol: float = 1e-6
    random_state: Any = None
    verbose: int = 0

    _in_canonical_order = True  # rounding errors grow over many steps

    def _solve(self, bags: Bags, labels: Labels, weight: Floats, rng: Any) -> SolverResult:
        pairs = sample_pairs(labels.indicator, self.n_pairs, rng)
        if pairs[2].all() or not pairs[2].any():
            raise LabelError(
                f"of {len(bags)} bags {'all' if pairs[2].any() else 'no'} two share a label (one "
                "class only, or one sample of each): both kinds of pairs are needed."
            )
        result = mildml(
            dense(bags.instances).astype(np.float64),
            bags.offsets,
            pairs,
            n_components=min(self.n_components or bags.n_features, bags.n_features),
            reg=self.reg,
            tol=self.tol,
            max_iter=self.max_iter,
            steps=lambda: self._track(range(self.max_iter), "fitting"),
        )
        components, threshold = result.solution
        self.components_, self.threshold_ = components.astype(bags.dtype), float(threshold)
        return result
