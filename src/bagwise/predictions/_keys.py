"""Key instances compared with known ones, such as bioactive conformers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bagwise.exceptions import InputError
from bagwise.predictions._predictions import Predictions


class KeyScores(NamedTuple):
    """How often key instances are known to be ones.

    Attributes
    ----------
    found : float
        Share of the bags whose key instance is a known one.
    chance : float
        The same for an instance of each bag at random.
    n_bags : int
        Number of bags with a known instance; others are not counted.
    """

    found: float
    chance: float
    n_bags: int


def score_keys(model: Any, X: Any, instance_labels: ArrayLike, *, label: Any = None) -> KeyScores:
    """Compare the key instances of a model with known ones, such as bioactive conformers.

    Parameters
    ----------
    model : estimator
        A fitted model; without key instances, those of the largest contribution are used.
    X : Bags
        The bags: other ones than in the fit.
    instance_labels : array-like of shape (n_instances,)
        1 or True for the known instances, 0 or -1 for others.
    label : object, default=None
        The class of which the key instances are; by default the predicted one.

    Returns
    -------
    KeyScores
        ``found``, ``chance`` and ``n_bags``.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.classification import BagMarginSVM
    >>> from bagwise.predictions import score_keys
    >>> data = make_bags(60, random_state=0)
    >>> model = BagMarginSVM().fit(data.bags[:40], data.y[:40])
    >>> known = data.instance_labels[data.bags.offsets[40] :] >= 0
    >>> score_keys(model, data.bags[40:], known).n_bags
    20
    """
    found = Predictions(model, X)
    bags, known = found.bags, np.asarray(instance_labels) == 1
    if known.shape != (bags.n_instances,):
        raise InputError(f"{known.shape} instance_labels for {bags.n_instances} instances.")
    shares = np.array([own.mean() for own in bags.split(known)])
    if not shares.any():
        raise InputError("no instance is a known one: expected 1 for some.")
    own_keys = found.has_keys or not found.is_regressor
    table = found.key_instance_table(label) if own_keys else found.contribution_tables()[0]
    hits = known[bags.offsets[:-1] + table["key_instance"]][shares > 0]
    return KeyScores(float(hits.mean()), float(shares[shares > 0].mean()), len(hits))
