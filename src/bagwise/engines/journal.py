"""What a search was told, so that a killed one can be led back to where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.engines.checkpoint import Checkpoint, retry
from bagwise.engines.parts import Parts
from bagwise.exceptions import WorkerLostError

__all__ = ["Journal"]

Vector = NDArray[np.float64]
Answer = tuple[float, Vector]


class Journal:
    """Values and gradients that a search has asked for, in a checkpoint.

    A search such as L-BFGS keeps a memory that its library does not show. But it asks the same
    questions again when it gets the same answers: the first ones come from the file, at no cost,
    and from there on it is where it was, to the last bit.

    Parameters
    ----------
    parts : Parts
        What the answers are about.
    checkpoint : Checkpoint or None
        Where they are kept; None for nowhere.
    """

    def __init__(self, parts: Parts, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._questions: list[bytes] = []
        self._answers: list[Answer] = []
        self._n_asked = 0
        saved: dict[str, Any] = {"questions": (), "values": (), "gradients": ()}
        if checkpoint is not None and retry(parts, lambda: checkpoint.load(saved, parts)):
            self._questions = saved["questions"].tolist()
            self._answers = list(zip(saved["values"].tolist(), saved["gradients"], strict=True))

    def ask(self, kind: str, x: Vector, answer: Callable[[], Answer]) -> Answer:
        """Value and gradient of a function at x: as written down, or else as found now.

        Parameters
        ----------
        kind : str
            Which function.
        x : ndarray
            Where.
        answer : callable
            Finds them.

        Returns
        -------
        value : float
        gradient : ndarray
        """
        if self._checkpoint is None:
            return answer()
        question = hashlib.sha256(kind.encode() + np.ascontiguousarray(x).tobytes()).hexdigest()
        n, self._n_asked = self._n_asked, self._n_asked + 1
        if n < len(self._questions) and self._questions[n] == question.encode():
            return self._answers[n]
        del self._questions[n:], self._answers[n:]  # the search took another way
        try:
            found = answer()
        except WorkerLostError as error:
            self._save(self._checkpoint)
            raise self._checkpoint.explain(error) from error
        self._questions.append(question.encode())
        self._answers.append(found)
        if self._checkpoint.due():
            self._save(self._checkpoint)
        return self._answers[n]

    def close(self) -> None:
        """Remove the file: the search is over."""
        if self._checkpoint is not None:
            self._checkpoint.remove()

    def _save(self, checkpoint: Checkpoint) -> None:
        """Write the answers; the parts, which may be lost, have nothing to add."""
        if self._answers:
            values, gradients = zip(*self._answers, strict=True)
            memory = {"questions": self._questions, "values": values, "gradients": gradients}
            checkpoint.save(memory, None)
