"""Evaluations of an objective in a checkpoint, from which a killed search is resumed."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bagwise._types import Floats
from bagwise.engines.checkpoint import Checkpoint, retry
from bagwise.engines.parts import Parts
from bagwise.exceptions import WorkerLostError

Evaluation = tuple[float, Floats]


class Journal:
    """Values and gradients of the points that a search has evaluated, in a checkpoint.

    The memory of L-BFGS is not accessible in scipy. But the search is deterministic: with the same
    values and gradients it evaluates the same points again. The first ones are read from the file,
    at no cost, and then the search is where it was, to the last bit.

    Parameters
    ----------
    parts : Parts
        The parts of the solver.
    checkpoint : Checkpoint or None
        Where they are kept; None for nowhere.
    """

    def __init__(self, parts: Parts, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._points: list[bytes] = []
        self._evaluations: list[Evaluation] = []
        self._n_evaluated = 0
        saved: dict[str, Any] = {"points": (), "values": (), "gradients": ()}
        if checkpoint is not None and retry(parts, lambda: checkpoint.load(saved, parts)):
            self._points = saved["points"].tolist()
            self._evaluations = list(zip(saved["values"].tolist(), saved["gradients"], strict=True))

    def evaluate(self, kind: str, x: Floats, compute: Callable[[], Evaluation]) -> Evaluation:
        """Value and gradient of a function at x: as stored, or computed now.

        Parameters
        ----------
        kind : str
            Which function.
        x : ndarray
            Where.
        compute : callable
            Computes them.

        Returns
        -------
        value : float
        gradient : ndarray
        """
        if self._checkpoint is None:
            return compute()
        point = hashlib.sha256(kind.encode() + np.ascontiguousarray(x).tobytes()).hexdigest()
        n, self._n_evaluated = self._n_evaluated, self._n_evaluated + 1
        if n < len(self._points) and self._points[n] == point.encode():
            return self._evaluations[n]
        del self._points[n:], self._evaluations[n:]  # the search left its old path
        try:
            found = compute()
        except WorkerLostError as error:
            self._save(self._checkpoint)
            raise self._checkpoint.explain(error) from error
        self._points.append(point.encode())
        self._evaluations.append(found)
        if self._checkpoint.due():
            self._save(self._checkpoint)
        return self._evaluations[n]

    def close(self) -> None:
        """Remove the file: the search is over."""
        if self._checkpoint is not None:
            self._checkpoint.remove()

    def _save(self, checkpoint: Checkpoint) -> None:
        """Write the evaluations; the parts, which may be lost, have no state."""
        if self._evaluations:
            values, gradients = zip(*self._evaluations, strict=True)
            memory = {"points": self._points, "values": values, "gradients": gradients}
            checkpoint.save(memory, None)
