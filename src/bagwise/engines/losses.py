"""Repeat work when a worker was lost."""

from collections.abc import Callable
from typing import TypeVar

from bagwise.exceptions import WorkerLostError

Result = TypeVar("Result")

LOSSES = 5  # workers lost in a row, without progress between, before the work is given up


def retry_work(work: Callable[[], Result], repair: Callable[[], object]) -> Result:
    """Do some work, and all of it again when a worker was lost.

    Parameters
    ----------
    work : callable
        The work; may raise `WorkerLostError`.
    repair : callable
        Called before each further attempt; may raise it too.

    Returns
    -------
    object
        What `work` returned.

    Raises
    ------
    WorkerLostError
        After `LOSSES` attempts, or at once where the cluster is gone for good.
    """
    lost = 0
    while True:
        try:
            if lost:
                repair()
            return work()
        except WorkerLostError as error:
            lost += 1
            if error.final:
                raise
            if lost == LOSSES:
                raise WorkerLostError.for_good(
                    f"{error} Gave up after {LOSSES} attempts: start the workers and fit again."
                ) from error
