"""One class against the rest: one problem per class, or a single one for two classes."""

from collections.abc import Callable
from typing import Any, TypeVar

from bagwise._types import Ints
from bagwise.base._scoring import BagClassifierMixin
from bagwise.labels import Labels

Result = TypeVar("Result")


class OneVsRestMixin(BagClassifierMixin):
    """A machine for two classes (positive: ``classes_[1]``), else one per class against the rest.

    ``fit`` calls `_one_vs_rest`; `_score` has a column per machine.
    """

    def _one_vs_rest(
        self, labels: Labels, solve: Callable[[Ints], Result], *, task: str | None = "class"
    ) -> list[Result]:
        """Solve the problem of each class.

        Parameters
        ----------
        labels : Labels
            The labels of bags or rows.
        solve : callable
            Takes the signs of one problem, of shape (n,): 1 for the class, -1 for the rest, 0 where
            the label is not known.
        task : str or None, default="class"
            What progress calls a problem; None where `solve` reports its own progress.

        Returns
        -------
        list
            The results, one per machine.
        """
        positives: Any = labels.positives
        if task is not None:
            positives = self._track(positives, task)
        return [solve(labels.signs(k)) for k in positives]
