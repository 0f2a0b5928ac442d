"""Parts: blocks of whole bags with their state, in this process, on a device or on Dask workers."""

import hashlib
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.compute.arrays import to_numpy


class Part(Protocol):
    """A block of whole bags with the state that a solver keeps for them.

    ``part(bags, *per_bag, **options)`` creates it from bags with arrays or tensors in its process.
    A solver adds the methods of its algorithm; `Parts` calls them by name. Results that are added
    up are numbers, arrays, or tuples of both. On Dask workers parts must be picklable.

    Attributes
    ----------
    tensor_part : class or None
        The class for instances that are torch tensors; without one the part runs on the CPU only.
    """

    tensor_part: ClassVar[Any] = None

    def identity(self) -> str:
        """A string that identifies the bags, labels and weights, such as a `digest`.

        A checkpoint of parts with another identity is refused.
        """
        return ""

    def state(self) -> dict[str, Any]:
        """Arrays that change in a loop, by name."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Replace all that changes in a loop by the result of `state`, as numpy arrays.

        Called on a part as it was when the loop began, or on a shallow copy of it.
        """


class Parts:
    """All parts of a solver, here as one part in this process, which uses threads or a device.

    A context manager that removes the parts from the workers on exit.

    Parameters
    ----------
    part : object
        The part.
    """

    def __init__(self, part: Any) -> None:
        self.part = part

    def each(self, method: str, *args: Any) -> list[Any]:
        """Call a method that changes nothing, and collect the results in the order of the bags.

        Parameters
        ----------
        method : str
            The name of a method of `Part`, or of the solver's own part.
        *args : object
            Arguments for all parts.

        Returns
        -------
        list
        """
        return [getattr(self.part, method)(*args)]

    def total(self, method: str, *args: Any) -> Any:
        """Call a method that changes nothing, and add up the results."""
        return getattr(self.part, method)(*args)

    def step(self, method: str, *args: Any) -> Any:
        """Call a method that changes the state of every part, and add up the results."""
        return self.total(method, *args)

    def do(self, method: str, *args: Any, own: list[Any] | None = None) -> None:
        """Call a method for its effect on the state of every part.

        Parameters
        ----------
        method : str
            The name of the method.
        *args : object
            Arguments for all parts.
        own : list, default=None
            An additional first argument for each part.
        """
        self.total(method, *(own or ()), *args)

    def hold(self) -> None:
        """Begin a loop: from here on, only what `Part.state` has changes."""

    def renew(self) -> None:
        """Called once per iteration of a loop; limits what Dask has to repeat after a loss."""

    def release(self) -> None:
        """Remove the parts from the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def digest(bags: Bags, *arrays: Array) -> str:
    """A hash that identifies bags, computed from offsets, some of the rows, and `arrays`.

    Parameters
    ----------
    bags : Bags
        The bags.
    *arrays : ndarray
        Further arrays, such as labels.

    Returns
    -------
    str
        Empty for bags on Dask workers, whose parts identify themselves.
    """
    if bags.where == "cluster":
        return ""
    rows = np.linspace(0, bags.n_instances - 1, min(bags.n_instances, 256)).astype(np.int64)
    sample = to_numpy(bags.rows(rows))
    sample = sample.toarray() if sparse.issparse(sample) else np.ascontiguousarray(sample)
    found = hashlib.sha256(f"{bags.n_features} {sample.dtype}".encode())
    for array in (sample, bags.offsets, *arrays):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
