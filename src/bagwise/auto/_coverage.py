"""Sets of classes and intervals of numbers with a stated coverage, from held-out scores."""

from typing import Any

import numpy as np

from bagwise._common.types import Bools, Floats
from bagwise.exceptions import InputError
from bagwise.solvers.conformal import TINY, interval_radius, label_p_values
from bagwise.validation import check_groups


class PredictsSets:
    """Mixin of an ensemble of classifiers: `predict_set`."""

    def predict_set(
        self: Any, X: Any, coverage: float = 0.9, by: str | None = None, groups: Any = None
    ) -> Bools:
        """Predict a set of classes for each bag that contains its class with a given probability.

        A class is in the set if its conformal p-value among the training bags, scored by models of
        other folds, exceeds ``1 - coverage``. A set may have several classes, or none: the bag is
        then unlike the training bags of every class.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        coverage : float, default=0.9
            The share of new bags whose class is in their set. For label sets: the share of the
            labels of new bags that are in the sets.
        by : {None, "class", "group"}, default=None
            "class": the coverage applies to the bags of each class. "group": it applies to the bags
            of each group, such as a hospital, that `fit` was given.
        groups : array-like of shape (n_bags,), default=None
            The group of each bag, for ``by="group"``; it must be a group of the fit. By default
            the groups of the bags.

        Returns
        -------
        ndarray of bool of shape (n_bags, n_classes)
            Columns as in ``classes_``.

        Notes
        -----
        The models of the folds are not kept: new bags are scored by the model that was refitted on
        all bags. The coverage holds if new bags are exchangeable with the training bags and the
        refitted model scores them at least as well as the models of the folds would. There is no
        worst-case guarantee, as there is for methods that keep these models (Barber et al.,
        Predictive inference with the jackknife+, 2021). A class that is compared with fewer than
        ``coverage / (1 - coverage)`` bags is in every set.

        Examples
        --------
        >>> from bagwise.auto import AutoBagClassifier
        >>> from bagwise.datasets import make_bags
        >>> data = make_bags(n_bags=60, random_state=0)
        >>> model = AutoBagClassifier(candidates=["nsk"], random_state=0).fit(data.bags, data.y)
        >>> model.predict_set(data.bags[:2], by="class")
        array([[ True, False],
               [False,  True]])
        """
        bags, of_fit = self._check_bags(X), self.held_out_groups_
        check_coverage(coverage)
        if by not in (None, "class", "group"):
            raise InputError(f'by={by!r}: expected "class", "group" or None.')
        both = None
        if by == "group":
            groups = check_groups(groups, bags).groups
            if groups is None or of_fit is None:
                lacking = "predict_set" if groups is None else "fit"
                raise InputError(f'by="group" needs the group of each bag: give {lacking} groups=.')
            both = groups, of_fit
            for i in np.flatnonzero(np.isin(both[0], of_fit, invert=True))[:1]:
                raise InputError(
                    f"{bags.name_of(i)} is of the group {both[0][i]!s}, of which there are no "
                    "training bags: use by=None for it."
                )
        present = self.held_out_targets_ == 1
        if len(self.classes_) == 2 and not self._has_label_sets:
            present = np.column_stack([~present, present])[:, :: self._sign]
        strange = -self._shares(self._evaluate(bags, self._bag_scores))
        calibration = -self._shares(self.held_out_scores_)
        found = label_p_values(strange, calibration, present, by_class=by == "class", groups=both)
        return found > 1 - coverage + TINY


class PredictsIntervals:
    """Mixin of an ensemble of regressors: `predict_interval`."""

    def predict_interval(self: Any, X: Any, coverage: float = 0.9) -> Floats:
        """Predict an interval for each bag that contains its number with a given probability.

        The prediction plus and minus a quantile of the absolute errors on the training bags,
        predicted by models of other folds.

        Parameters
        ----------
        X : Bags or anything accepted as bags
            The bags.
        coverage : float, default=0.9
            The share of new bags whose number is in their interval.

        Returns
        -------
        ndarray of shape (n_bags, 2), or (n_bags, n_targets, 2) of several targets
            The ends of the intervals; the coverage is that of each target.

        Notes
        -----
        As for `AutoBagClassifier.predict_set`, the coverage holds for new bags that are
        exchangeable with the training bags, if the refitted model is as good as those of the folds.
        All intervals have the same length.

        Examples
        --------
        >>> from bagwise.auto import AutoBagRegressor
        >>> from bagwise.datasets import make_bags
        >>> data = make_bags(n_bags=60, random_state=0)
        >>> numbers = [bag.mean() for bag in data.bags]
        >>> model = AutoBagRegressor(candidates=["pooled-ridge"], random_state=0)
        >>> model.fit(data.bags, numbers).predict_interval(data.bags).shape
        (60, 2)
        """
        predicted = self.predict(X)
        check_coverage(coverage)
        errors = np.abs(self.held_out_targets_ - self.held_out_scores_)
        radius = np.array([interval_radius(column, coverage) for column in errors.T])
        if radius[0] == np.inf:
            raise InputError(
                f"coverage={coverage:g} is too much for {len(errors)} training bags: "
                f"choose at most {len(errors) / (len(errors) + 1):.4g}."
            )
        radius = radius[0] if predicted.ndim == 1 else radius
        return np.stack([predicted - radius, predicted + radius], axis=-1)


def check_coverage(coverage: float) -> None:
    """Refuse a coverage that is not between 0 and 1."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage={coverage!r}: expected a number between 0 and 1, such as 0.9.")
