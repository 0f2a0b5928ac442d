"""Iterations on parts that survive lost workers and, with a checkpoint, a killed process."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from bagwise._common.types import Floats
from bagwise.engines.checkpoint import Checkpoint
from bagwise.engines.connection import LOSSES, retry_work
from bagwise.engines.parts import Parts
from bagwise.exceptions import WorkerLostError

Result = TypeVar("Result")
Evaluation = tuple[float, Floats]


def iterate(
    parts: Parts,
    memory: dict[str, Any],
    begin: Callable[[dict[str, Any]], None],
    step: Callable[[dict[str, Any]], bool],
    *,
    max_iter: int,
    track: Callable[[Iterator[int]], Iterator[int]] = iter,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Repeat a step until it returns True; resume from the last checkpoint if a worker is lost.

    Parameters
    ----------
    parts : Parts
        The parts that the steps work on.
    memory : dict of arrays and numbers
        State of the driver before the first step. A step replaces values and never modifies them
        in place.
    begin : callable
        ``begin(memory)`` sets the initial state of new parts.
    step : callable
        ``step(memory)`` runs one iteration and returns whether it was the last.
    max_iter : int
        Maximum number of iterations.
    track : callable, default=iter
        Wraps the iterations, to show progress.
    checkpoint : Checkpoint, default=None
        File to save intermediate results in, and to resume from.

    Returns
    -------
    dict
        Final state of the driver, with the number of iterations as "n_iter".
    """
    first = {"n_iter": 0, **memory}
    memory = dict(first)

    def restart() -> None:
        memory.update(first)
        if checkpoint is None or not checkpoint.load(memory, parts):
            begin(memory)

    def turns() -> Iterator[int]:
        while memory["n_iter"] < max_iter:
            yield int(memory["n_iter"])

    lost, furthest, ready = 0, 0, False

    def advance() -> bool:
        """Advance by one new iteration; after a loss, first repeat those since the checkpoint."""
        nonlocal lost, furthest, ready
        while True:
            try:
                if not ready:
                    if lost:
                        parts.rebuild()
                    restart()
                    ready = True
                    if memory["n_iter"] >= max_iter:  # saved by a fit with a larger max_iter
                        return True
                done = step(memory)
                memory["n_iter"] = int(memory["n_iter"]) + 1
                if not done and checkpoint is not None and checkpoint.due():
                    checkpoint.save(memory, parts)
            except WorkerLostError as error:
                lost, ready = lost + 1, False
                if not error.final and lost < LOSSES:
                    continue
                gave_up = "" if error.final else f" Gave up after {lost} attempts."
                last = WorkerLostError.for_good(f"{error}{gave_up}")
                raise (last if checkpoint is None else checkpoint.explain(last)) from error
            if memory["n_iter"] > furthest:
                furthest, lost = memory["n_iter"], 0
                return done
            if done:
                return True

    for _ in track(turns()):
        if advance():
            break
    if checkpoint is not None:
        checkpoint.remove()
    return memory


def retry_on_new_parts(
    parts: Parts, work: Callable[[], Result], checkpoint: Checkpoint | None = None
) -> Result:
    """Run a computation on parts, and run it again on new parts if a worker is lost.

    Parameters
    ----------
    parts : Parts
        The parts.
    work : callable
        The computation; starts from the initial state of the parts.
    checkpoint : Checkpoint, default=None
        File in which the computation saves its state, for the message of the final error.

    Returns
    -------
    object
        The result of `work`.
    """
    try:
        return retry_work(work, parts.rebuild)
    except WorkerLostError as error:
        if checkpoint is None:
            raise
        raise checkpoint.explain(error) from error


class Journal:
    """Values and gradients that an optimiser has evaluated, saved in a checkpoint.

    SciPy does not expose the state of L-BFGS. But the search is deterministic: with the same values
    and gradients it evaluates the same points again. A resumed search reads the saved evaluations
    from the file, at no cost, and so reaches exactly the state in which it was interrupted.

    Parameters
    ----------
    parts : Parts
        The parts of the solver.
    checkpoint : Checkpoint or None
        File in which they are saved; None to save nothing.
    """

    def __init__(self, parts: Parts, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._points: list[bytes] = []
        self._evaluations: list[Evaluation] = []
        self._n_evaluated = 0
        saved: dict[str, Any] = {"points": (), "values": (), "gradients": ()}
        if checkpoint is not None and retry_on_new_parts(
            parts, lambda: checkpoint.load(saved, parts)
        ):
            self._points = saved["points"].tolist()
            self._evaluations = list(zip(saved["values"].tolist(), saved["gradients"], strict=True))

    def evaluate(self, kind: str, x: Floats, compute: Callable[[], Evaluation]) -> Evaluation:
        """Value and gradient of a function at x, read from the file or computed.

        Parameters
        ----------
        kind : str
            Name of the function.
        x : ndarray
            The point.
        compute : callable
            Computes value and gradient.

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
        del self._points[n:], self._evaluations[n:]  # the search differs from the saved one
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
        """Save the evaluations only: the parts, which may be lost, have no state."""
        if self._evaluations:
            values, gradients = zip(*self._evaluations, strict=True)
            memory = {"points": self._points, "values": values, "gradients": gradients}
            checkpoint.save(memory, None)
