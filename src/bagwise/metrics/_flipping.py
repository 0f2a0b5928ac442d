"""Instance flipping: decrease of the score of a bag when instances are removed by attribution."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state, check_scalar

from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags
from bagwise.base._pipelines import predicts_numbers
from bagwise.base._selections import Selection, selection_scores, undecided_score
from bagwise.exceptions import InputError
from bagwise.metrics._scores import as_numbers
from bagwise.validation import check_bags, check_label


@dataclass(frozen=True, eq=False)
class FlippingCurve:
    """Decrease of the score of bags when instances are removed, by `flipping_curve`.

    Parameters
    ----------
    shares : ndarray of shape (n_steps + 1,)
        Share of the instances that are removed: 0 is the whole bag, 1 leaves one instance.
    falls : ndarray of shape (n_steps + 1,)
        Score of the whole bag minus the score of the remaining instances, mean over bags; instances
        with the highest attributions are removed first.
    random_falls : ndarray of shape (n_steps + 1,)
        The same, with instances removed in random order.
    area : float
        Area under `falls`. Larger is better.
    random_area : float
        Area under `random_falls`: the area that uninformative attributions reach.

    """

    shares: Floats
    falls: Floats
    random_falls: Floats
    area: float
    random_area: float

    @property
    def gain(self) -> float:
        """`area` minus `random_area`: 0 for uninformative attributions."""
        return self.area - self.random_area


def flipping_curve(
    model: Any,
    X: Any,
    attributions: ArrayLike,
    *,
    label: Any = None,
    n_steps: int = 20,
    n_orders: int = 5,
    random_state: Any = None,
) -> FlippingCurve:
    r"""Measure how the score of a bag decreases when instances are removed by attribution.

    .. math:: \text{area} = \frac{1}{N} \sum_i \int_0^1 f(B_i) - f(B_i^{(t)}) \, dt

    where :math:`B^{(t)}` is the bag :math:`B` of :math:`n` instances without the
    :math:`t (n - 1)` instances of highest attribution. Larger is better: the score falls early if
    the instances that determine it are removed first. Areas of one model on the same bags can be
    compared; different models have different units. Bags of one instance are left out.
    Instances with equal attributions are removed in random order.

    Parameters
    ----------
    model : object
        Any fitted model with ``decision_function`` or ``predict_proba`` of `Bags`, or a regressor,
        whose prediction is the score.
    X : Bags or anything accepted as bags
        The bags.
    attributions : array-like of shape (n_instances,) or (n_instances, n_classes)
        Contributions of the instances, such as those of
        :func:`bagwise.predictions.instance_attributions`.
    label : object, default=None
        The class whose score is measured; by default the predicted class of each bag, or for label
        sets the label with the highest score. If two classes have one score, the score and the
        attributions of the first class are the opposite of the second.
    n_steps : int, default=20
        Number of steps of the removal; small bags take fewer.
    n_orders : int, default=5
        Number of random orders for the baseline.
    random_state : int, RandomState instance or None, default=None
        Seed of the random orders.

    Returns
    -------
    FlippingCurve
        ``area`` under the curve; ``random_area``, for instances removed in random order;
        ``gain``, their difference; and the curves ``falls`` and ``random_falls`` by the ``shares``
        of removed instances.

    Notes
    -----
    The model scores at most ``n_bags * (1 + (1 + n_orders) * (n_steps + 1))`` bags.

    References
    ----------
    Samek, Binder, Montavon, Lapuschkin & Mueller, "Evaluating the visualization of what a deep
    neural network has learned", TNNLS 2017 (area over the perturbation curve); Early, Evers &
    Ramchurn, "Model agnostic interpretability for multiple instance learning", ICLR 2022.

    Examples
    --------
    >>> from bagwise.classification import SingleInstanceClassifier
    >>> from bagwise.metrics import flipping_curve
    >>> bags = [[[0.0], [0.1]], [[0.2]], [[0.1], [3.0]], [[2.5]]]
    >>> model = SingleInstanceClassifier().fit(bags, [0, 0, 1, 1])
    >>> curve = flipping_curve(model, [[[3.0], [0.1]]], [1.0, 0.0], random_state=0)
    >>> bool(curve.area > curve.random_area)
    True
    """
    for name, count in (("n_steps", n_steps), ("n_orders", n_orders)):
        check_scalar(count, name, Integral, min_val=1)
    rng = check_random_state(random_state)
    bags = check_bags(None, X, reset=True, allow_nan=True)
    values = as_numbers(attributions, "attributions")
    if values.ndim not in (1, 2) or len(values) != bags.n_instances or np.isnan(values).any():
        raise InputError(
            f"attributions have shape {values.shape}: expected a row for each of the "
            f"{bags.n_instances} instances, without NaN."
        )
    several = np.flatnonzero(bags.sizes > 1)
    if len(several) == 0:
        raise InputError("every bag has one instance: nothing can be removed from it.")
    values = np.concatenate([bags.split(values)[i] for i in several])
    bags = bags[several]
    scores = selection_scores(model, bags, ((i, np.ones((1, n), bool)) for i, n in _sizes(bags)))
    watched = _watched(model, scores, label)
    if values.ndim == 2 or scores.ndim == 1:
        values, n_columns = _columns(values), _columns(scores).shape[1]
        if values.shape[1] != n_columns:
            raise InputError(
                f"attributions have {values.shape[1]} columns: the model has {n_columns} classes."
            )
        values = values[np.arange(len(values)), watched[bags.bag_index]]
    grid = np.linspace(0, 1, n_steps + 1)
    falls = _falls(model, bags, values, watched, grid, rng)
    no_information = np.zeros(bags.n_instances)
    orders = [_falls(model, bags, no_information, watched, grid, rng) for _ in range(n_orders)]
    random_falls = np.mean(orders, axis=0)
    areas = (float(np.trapezoid(curve, grid)) for curve in (falls, random_falls))
    return FlippingCurve(grid, falls, random_falls, *areas)


def _columns(values: Floats) -> Floats:
    """A column per class: a single one is for the second of two classes."""
    return np.column_stack([-values, values]) if values.ndim == 1 else values


def _watched(model: Any, scores: Floats, label: Any) -> Ints:
    """The column of the measured score of each bag."""
    if label is not None:
        if not hasattr(model, "classes_"):
            raise InputError(f"{type(model).__name__} has no classes_: leave label out.")
        return np.full(len(scores), check_label(label, np.asarray(model.classes_)))
    if scores.ndim == 2:
        return scores.argmax(axis=1)
    if predicts_numbers(model):  # the prediction itself, whatever its sign
        return np.ones(len(scores), dtype=np.intp)
    return (scores > undecided_score(model, 1)).astype(np.intp)


def _sizes(bags: Bags) -> list[tuple[int, int]]:
    return list(enumerate(bags.sizes.tolist()))


def _falls(model: Any, bags: Bags, values: Floats, watched: Ints, grid: Floats, rng: Any) -> Floats:
    """Mean decrease of the score at each share of `grid`."""
    order = np.lexsort((rng.permutation(bags.n_instances), -values, bags.bag_index))
    ranks = np.empty(bags.n_instances, dtype=np.intp)
    ranks[order] = np.arange(bags.n_instances) - bags.offsets[:-1][bags.bag_index]
    removed = [np.unique(np.rint(grid * (n - 1)).astype(np.intp)) for n in bags.sizes]

    def selections() -> Iterator[Selection]:
        for (i, _), counts, rank in zip(_sizes(bags), removed, bags.split(ranks), strict=True):
            for count in counts:  # one mask at a time, because bags may be large
                yield i, rank[None, :] >= count

    owners = np.repeat(np.arange(len(bags)), [len(counts) for counts in removed])
    scores = _columns(selection_scores(model, bags, selections()))
    scores = scores[np.arange(len(scores)), watched[owners]]
    parts = np.split(scores, np.cumsum([len(counts) for counts in removed])[:-1])
    curves = [
        np.interp(grid, counts / (n - 1), part[0] - part)
        for counts, n, part in zip(removed, bags.sizes, parts, strict=True)
    ]
    return np.mean(curves, axis=0)
