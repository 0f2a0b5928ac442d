"""Base class of DD and EM-DD: a point in feature space near which instances are positive."""

from typing import Any

import numpy as np

from bagwise._common.memory import as_float64
from bagwise._common.types import Array, Bools, Ints
from bagwise.bags import Bags
from bagwise.base import BagEstimator, OneVsRestMixin, one_vs_rest_probabilities
from bagwise.base._parameters import COUNT
from bagwise.exceptions import InputError
from bagwise.labels import Labels
from bagwise.pairwise import kernel_width
from bagwise.solvers.likelihood.diverse_density import starts_at
from bagwise.solvers.result import SolverResult

LONGEST_SEARCH = 1e9  # starts x instances: about an hour for ten features on two cores
NEAREST = 1e-8  # as in compiled.diverse_density: keeps probabilities below 1


class PointConceptClassifier(OneVsRestMixin, BagEstimator):
    """A point and feature weights per class, each learned from many starting points.

    Two classes need one concept, for the positive class; more need one per class, against the rest.
    A subclass defines its parameters, its pooling and `_separate`.
    """

    _parameter_constraints: dict[str, Any] = {"n_start_bags": [None, COUNT]}

    _probabilities = staticmethod(one_vs_rest_probabilities)
    _accepts_sparse = False
    _in_canonical_order = True
    _advice = "raise max_iter or tol"

    def _solve(self, bags: Bags, labels: Labels, weight: Any, rng: Any) -> list[SolverResult]:
        rows = as_float64(bags.instances)
        # A constant feature keeps its value and its first weight: leave it out of the search.
        varies = np.ptp(rows, axis=0) > 0
        constant, rows = rows[0], np.ascontiguousarray(rows[:, varies])
        width = kernel_width(self.gamma, bags)

        def solve(signs: Ints) -> SolverResult:
            points = rows[np.isin(bags.bag_index, self._start_bags(signs > 0, rng))]
            starts = starts_at(np.unique(points, axis=0), width)
            self._check_cost(len(starts), len(rows))
            return self._separate(rows, bags.offsets, signs > 0, starts)

        results = self._one_vs_rest(labels, solve)
        self.concepts_ = np.tile(constant, (len(results), 1))
        self.weights_ = np.full(self.concepts_.shape, width)
        for i, result in enumerate(results):
            self.concepts_[i, varies], self.weights_[i, varies] = result.solution
        return results

    def _check_cost(self, n_starts: int, n_instances: int) -> None:
        """Reject a search that would take days: each step of each descent visits all instances."""
        if n_starts * n_instances > LONGEST_SEARCH:
            raise InputError(
                f"{type(self).__name__} would descend from {n_starts:,} instances of positive "
                f"bags, each time over {n_instances:,} instances: draw fewer instances from large "
                "bags, or start from few bags of few instances (n_start_bags)."
            )

    def _start_bags(self, positive: Bools, rng: np.random.RandomState) -> Ints:
        found = np.flatnonzero(positive)
        if self.n_start_bags is None or self.n_start_bags >= len(found):
            return found
        return rng.choice(found, self.n_start_bags, replace=False)

    def _score(self, bags: Bags) -> Array:
        """Log-odds that each instance is positive, by the concept of each class."""
        concepts = zip(self.concepts_, self.weights_, strict=True)
        # Direct differences keep the precision of small distances.
        distances = NEAREST + np.column_stack([(bags.instances - t) ** 2 @ w for t, w in concepts])
        return -(distances + np.log(-np.expm1(-distances)))

    def _separate(self, *problem: Any) -> SolverResult:
        """Separate one class from the rest.

        Parameters
        ----------
        *problem : rows, offsets, positive, starts
            The instances; for each bag its start, and whether it is of the class; starting points
            with feature weights.

        Returns
        -------
        SolverResult
            ``solution`` is (point, feature weights).
        """
        raise NotImplementedError
