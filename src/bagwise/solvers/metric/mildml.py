r"""MildML: a metric in which bags that share a label have a close pair (Guillaumin et al. 2010).

    min over L, b    sum_pairs w log(1 + exp(t (d_L^2 - b))) + reg/2 |L|^2

where t = 1 for two bags that share a label and -1 for two that do not, and d_L is the distance of
their two closest instances in the learned metric. Both kinds of pairs have the same total weight.
The objective is smooth except where the closest pair changes; L-BFGS starts from the principal
directions.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from bagwise import loops
from bagwise._common.types import Bools, Floats, Ints
from bagwise.solvers.lbfgs import lbfgs
from bagwise.solvers.metric.norm_ratio import leading_directions
from bagwise.solvers.result import SolverResult
from bagwise.solvers.unit_variance import unit_variance

BagPairs = tuple[Ints, Ints, Bools]


def sample_pairs(label_sets: Ints, n_pairs: int, rng: np.random.RandomState) -> BagPairs:
    """Sample as many pairs of bags with a shared label as without; all pairs if there are few.

    Parameters
    ----------
    label_sets : ndarray of shape (n_bags, n_labels)
        Label sets as zeros and ones.
    n_pairs : int
        Maximum number of pairs.
    rng : RandomState
        Random generator for the sample.

    Returns
    -------
    first, second : ndarray of int64 of shape (n_found,)
        The bags of each pair.
    share : ndarray of bool of shape (n_found,)
        Whether they share a label.
    """
    n_bags = len(label_sets)
    carried = sparse.csr_array(label_sets.astype(np.int32))
    shared = sparse.triu(carried @ carried.T, 1, format="coo")
    i, j = shared.coords
    n_all = n_bags * (n_bags - 1) // 2
    if n_all <= n_pairs:
        first, second = np.triu_indices(n_bags, 1)
        share = np.zeros((n_bags, n_bags), dtype=bool)
        share[i, j] = True
        return first.astype(np.int64), second.astype(np.int64), share[first, second]
    half = n_pairs // 2
    chosen = rng.permutation(len(i))[:half]
    i, j, keys = i[chosen], j[chosen], i.astype(np.int64) * n_bags + j
    others = np.zeros(0, dtype=np.int64)
    n_others = min(half, n_all - len(keys))
    while len(others) < n_others:
        a, b = np.sort(rng.randint(n_bags, size=(2, 2 * half)), axis=0)
        drawn = a.astype(np.int64) * n_bags + b
        drawn = drawn[(a < b) & ~np.isin(drawn, keys)]
        others = rng.permutation(np.union1d(others, drawn))
    others = others[:n_others]
    first = np.concatenate([i, others // n_bags]).astype(np.int64)
    second = np.concatenate([j, others % n_bags]).astype(np.int64)
    return first, second, np.arange(len(first)) < len(i)


def pair_loss(
    point: Floats, X: Floats, offsets: Ints, pairs: BagPairs, reg: float
) -> tuple[float, Floats]:
    """Evaluate the objective and its gradient in L and b.

    Parameters
    ----------
    point : ndarray of shape (n_components * n_features + 1,)
        The map L, and the squared distance b at which bags are as likely to share a label as not.
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    pairs : tuple
        Pairs from `sample_pairs`.
    reg : float
        Weight of the squared norm of L.

    Returns
    -------
    float, ndarray of the shape of `point`
    """
    first, second, share = pairs
    L, b = point[:-1].reshape(-1, X.shape[1]), point[-1]
    Y = X @ L.T
    left, right = loops.set_distances.closest_instances(Y, offsets, first, second)
    difference = Y[left] - Y[right]
    sign = np.where(share, 1.0, -1.0)
    weight = np.where(share, 0.5 / max(share.sum(), 1), 0.5 / max((~share).sum(), 1))
    margin = sign * (np.einsum("ij,ij->i", difference, difference) - b)
    loss = float(weight @ np.logaddexp(0, margin) + reg / 2 * np.vdot(L, L))
    slope = weight * expit(margin) * sign  # derivative in the squared distance
    pull = np.zeros_like(Y)
    np.add.at(pull, left, slope[:, None] * difference)
    np.add.at(pull, right, -slope[:, None] * difference)
    return loss, np.append(2 * pull.T @ X + reg * L, -slope.sum())


def mildml(
    X: Floats,
    offsets: Ints,
    pairs: BagPairs,
    *,
    n_components: int,
    reg: float,
    tol: float,
    max_iter: int,
    track: Callable[[range], Iterable[int]],
) -> SolverResult:
    """Learn the linear map L.

    Parameters
    ----------
    X : ndarray of shape (n_instances, n_features)
        The instances.
    offsets : ndarray of shape (n_bags + 1,)
        Where each bag begins.
    pairs : tuple
        Pairs from `sample_pairs`.
    n_components : int
        Number of rows of the map.
    reg : float
        Weight of the squared norm of the map.
    tol : float
        Relative decrease of the objective at which to stop.
    max_iter : int
        Maximum number of iterations.
    track : callable
        Wraps the range of iterations, to show progress.

    Returns
    -------
    SolverResult
        ``solution`` is (map, threshold).
    """
    # Distances do not depend on the origin, and a change of unit rescales the map. Only reg has a
    # unit and must be converted.
    X, _, unit = unit_variance(X)
    reg = reg / unit**2
    start = leading_directions(X, n_components).T
    Y = X @ start.T
    left, right = loops.set_distances.closest_instances(Y, offsets, *pairs[:2])
    usual = np.mean(np.square(Y[left] - Y[right]).sum(axis=1))
    start /= np.sqrt(usual) if usual > 0 else 1.0  # the typical distance equals the threshold, 1
    objective = partial(pair_loss, X=X, offsets=offsets, pairs=pairs, reg=reg)
    curve: list[float] = []
    progress = iter(track(range(max_iter)))

    def after(intermediate_result: Any) -> None:
        curve.append(float(intermediate_result.fun))
        next(progress, None)

    options = {"max_iter": max_iter, "ftol": tol, "gtol": 1e-8, "maxcor": 20}
    found = lbfgs(objective, np.append(start, 1.0), callback=after, **options)
    solution = (found.x[:-1].reshape(start.shape) / unit, found.x[-1])
    # A line search that finds no lower value counts as converged, possibly at a kink.
    return SolverResult(solution, curve, found.nit < max_iter)
