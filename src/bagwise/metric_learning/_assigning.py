"""What MIMLCA and its clustering share: candidate labels, starts, the end of the budget."""

from dataclasses import replace
from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state

from bagwise._sklearn import Options, StrOptions
from bagwise._types import Array
from bagwise.bags import Bags
from bagwise.engines import Checkpoint
from bagwise.exceptions import LabelError
from bagwise.labels import Labels
from bagwise.metric_learning._base import CentroidPredictor
from bagwise.solvers.metric.multi_instance_kmeans import Candidates, LocalRows, best_of_starts
from bagwise.solvers.result import SolverResult

ASSIGNMENT_CONSTRAINTS: dict[str, Any] = {
    "instances_per_label": [None, Options(Integral, {1})],
    "init": [StrOptions({"bag-means", "random"})],
}


class LabelAssigner(CentroidPredictor):
    """A metric learner that assigns training instances to the labels of their bags."""

    instances_per_label: int | None
    init: str
    n_init: int
    max_iter: int
    random_state: Any

    def _candidates(self, bags: Bags, labels: Labels) -> Candidates:
        one_each = self.instances_per_label == 1
        candidates = Candidates.from_indicator(bags.offsets, labels.indicator, one_each=one_each)
        if len(candidates.labels) == 0:
            raise LabelError("no bag carries a label: there is nothing to learn from.")
        return candidates

    def _best_assignment(
        self, points: Array, candidates: Candidates, checkpoint: Checkpoint | None = None
    ) -> SolverResult:
        """The labels of the rows, as ``solution``."""
        rows = LocalRows(points, candidates)
        result = best_of_starts(rows, **self._search(), checkpoint=checkpoint)
        return replace(result, solution=(rows.kept,))

    def _search(self) -> dict[str, Any]:
        """How assignments are searched for, as solvers take it."""
        return {
            "init": self.init,
            "n_init": self.n_init,
            "rng": check_random_state(self.random_state),
            "steps": lambda: self._track(range(self.max_iter), "assigning"),
        }
