"""FisherVector (miFV): represent a bag by the gradient of its likelihood in a Gaussian mixture."""

import warnings
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state

from bagwise._common.memory import require_memory
from bagwise._common.sklearn import Interval
from bagwise._common.types import Array, Floats
from bagwise.bags import Bags
from bagwise.base._parameters import COUNT, with_parameters
from bagwise.base._set_kernel import sums_by_bag
from bagwise.embedding._prototypes import BagEmbedding
from bagwise.exceptions import InputError
from bagwise.loops.threads import one_core_if_few
from bagwise.loops.ties import row_ranks
from bagwise.solvers.principal_components import principal_components, row_moments

NO_VARIANCE = 1e-12  # relative to the largest variance; smaller ones are rounding errors
REG_COVAR = 0.01  # added to the variances of the mixture, relative to all instances


@with_parameters
class FisherVector(BagEmbedding):
    r"""Represent each bag by its Fisher vector in a Gaussian mixture (miFV, Wei et al. 2017).

    A mixture with diagonal covariances is fitted to the principal components of all instances. A
    bag becomes the gradient of the mean log-likelihood of its instances by the means
    :math:`\mu_k` and the standard deviations :math:`\sigma_k`, scaled by the Fisher information,

    .. math::

        \frac{1}{\sqrt{w_k} |B|} \sum_{x \in B} p_k(x) \frac{x - \mu_k}{\sigma_k}, \quad
        \frac{1}{\sqrt{2 w_k} |B|} \sum_{x \in B} p_k(x)
        \left[\frac{(x - \mu_k)^2}{\sigma_k^2} - 1\right],

    with the posterior probability :math:`p_k(x)` of component k. Then follow signed square roots
    and a scaling to unit length. Use a linear model on the result.

    Parameters
    ----------
    n_components : int, default=3
        Number of components of the mixture; fewer if there are fewer distinct instances.
    n_pca : int, float or None, default=0.9
        Number of principal components, or the share of the variance they explain; None keeps all.
        Those without variance are left out.
    max_instances : int or None, default=100_000
        PCA and mixture are fitted to this many instances, drawn at random; None for all.
    random_state : int, RandomState or None, default=None
        Seed for drawing instances and for the initial mixture.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Weights of the mixture.
    means_, covariances_ : ndarray of shape (n_components, n_axes)
        Means and variances of the mixture components, in units of the principal components.
    center_ : ndarray of shape (n_features,)
        Mean of the instances.
    projection_ : ndarray of shape (n_features, n_axes)
        Maps centred instances to principal components of variance 1.
    {n_features_in_}

    Notes
    -----
    The result has 2 x n_components x n_axes columns. Standardise the instances first if features
    have different units. The defaults were chosen on Musk1 and Elephant: with
    ``LogisticRegression(C=10)`` the accuracy is .88 and .84 and the AUC .94 and .92; 29 other
    settings gave a mean accuracy of .83 to .86 and a mean AUC of .92 to .93. Cost: one
    eigendecomposition of n_features x n_features numbers; `transform` is linear in the instances.

    References
    ----------
    Wei, Wu, Zhou. Scalable algorithms for multi-instance learning. IEEE Transactions on Neural
    Networks and Learning Systems 28, 2017.

    Sánchez, Perronnin, Mensink, Verbeek. Image classification with the Fisher vector: theory and
    practice. International Journal of Computer Vision 105, 2013.

    Examples
    --------
    >>> from bagwise.embedding import FisherVector
    >>> bags = [[[0.0], [1.0]], [[3.0]], [[4.0], [5.0]]]
    >>> FisherVector(n_components=1).fit_transform(bags).round(2)
    array([[-0.91,  0.42],
           [ 0.49, -0.87],
           [ 0.96,  0.26]])
    """

    _accepts_sparse = False

    _parameter_constraints = {
        "n_components": [COUNT],
        "n_pca": [COUNT, Interval(Real, 0, 1, closed="neither"), None],
        "max_instances": [COUNT, None],
    }

    n_components: int = 3
    n_pca: float | None = 0.9
    max_instances: int | None = 100_000
    random_state: Any = None

    def _learn(self, bags: Bags) -> None:
        rng = check_random_state(self.random_state)
        rows = _drawn_instances(bags, self.max_instances, rng)
        with one_core_if_few(rows.size):
            center, projection = principal_axes(rows, self.n_pca)
            mixture = diagonal_mixture((rows - center) @ projection, self.n_components, rng)
        self.weights_, self.means_, self.covariances_ = mixture
        self.center_, self.projection_ = center, projection

    def _embedded(self, bags: Bags) -> Floats:
        mixture = self.weights_, self.means_, self.covariances_

        def of_instances(rows: Array) -> Floats:
            return fisher_scores((rows - self.center_) @ self.projection_, *mixture)

        # Sums instead of means: the number of instances cancels at unit length.
        vectors = sums_by_bag(bags, of_instances, self._n_features_out)
        vectors = np.sign(vectors) * np.sqrt(np.abs(vectors))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1.0)

    @property
    def _n_features_out(self) -> int:
        return 2 * self.means_.size


def fisher_scores(rows: Floats, weights: Floats, means: Floats, covariances: Floats) -> Floats:
    """Gradients of the log-likelihood of each row, divided by the root of the Fisher information.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_axes)
        The rows.
    weights : ndarray of shape (n_components,)
        Weights of the mixture.
    means, covariances : ndarray of shape (n_components, n_axes)
        Means and variances of its components.

    Returns
    -------
    ndarray of shape (n_rows, 2 * n_components * n_axes)
        By the means, then by the standard deviations.
    """
    deviations = (rows[:, None, :] - means) / np.sqrt(covariances)  # (n_rows, n_components, n_axes)
    squares = np.square(deviations)
    log_densities = np.log(weights) - 0.5 * (squares + np.log(covariances)).sum(axis=2)
    # Sánchez et al. 2013, equations 16 to 18: the Fisher information is diagonal, if the posteriors
    # are almost 0 or 1, with w / sigma^2 for the means and 2 w / sigma^2 for the deviations.
    scaled = (softmax(log_densities, axis=1) / np.sqrt(weights))[:, :, None]
    by_means, by_deviations = scaled * deviations, scaled * (squares - 1) / np.sqrt(2)
    return np.hstack([by.reshape(len(rows), -1) for by in (by_means, by_deviations)])


def principal_axes(rows: Floats, n_axes: float | None) -> tuple[Floats, Floats]:
    """Centre of the rows, and the projection to principal components of variance 1.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Rows, not all of them equal.
    n_axes : int, float or None
        The number of axes, or the share of the variance; None for all. Axes without variance are
        left out.

    Returns
    -------
    center : ndarray of shape (n_features,)
    projection : ndarray of shape (n_features, n_axes)
    """
    moments = row_moments(Bags(rows, [0, len(rows)]))
    found = principal_components(moments, standardize=False, dtype=rows.dtype)
    n = int(np.sum(found.variances > NO_VARIANCE * found.variances[0]))
    if isinstance(n_axes, float):
        share = np.cumsum(found.variances) / found.variances.sum()
        n = min(n, 1 + int(np.sum(share < n_axes)))
    elif n_axes is not None:
        n = min(n, int(n_axes))
    return found.mean, found.directions[:n].T / np.sqrt(found.variances[:n])


def diagonal_mixture(rows: Floats, n_components: int, rng: Any) -> tuple[Floats, Floats, Floats]:
    """Fit a mixture of Gaussians with diagonal covariances.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_axes)
        Rows whose columns have variance 1.
    n_components : int
        The number of components; fewer if there are fewer distinct rows.
    rng : RandomState
        Source of randomness.

    Returns
    -------
    weights, means, covariances : ndarray
    """
    n = min(n_components, len(np.unique(rows.round(9), axis=0)))
    model = GaussianMixture(n, covariance_type="diag", reg_covar=REG_COVAR, random_state=rng)
    # scikit-learn starts from k-means only without array API dispatch.
    with warnings.catch_warnings(), config_context(array_api_dispatch=False):
        # Any mixture defines gradients, even one that has not converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows)
    return model.weights_, model.means_, model.covariances_


def _drawn_instances(bags: Bags, n_most: int | None, rng: Any) -> Floats:
    """Instances in double precision, in an order that depends on their values alone."""
    n = bags.n_instances if n_most is None else min(n_most, bags.n_instances)
    require_memory(
        4 * 8.0 * n * bags.n_features,
        purpose=f"a mixture of {n:,} instances",
        remedy="lower max_instances",
    )
    drawn: Any = slice(None)
    if n < bags.n_instances:
        drawn = np.sort(rng.choice(bags.n_instances, n, replace=False))
    rows = bags.rows(drawn).astype(np.float64)
    ranks = row_ranks(rows)
    if not ranks.any():
        raise InputError(f"all instances are equal (n_samples={n}): a mixture needs others.")
    return rows[np.argsort(ranks, kind="stable")]
