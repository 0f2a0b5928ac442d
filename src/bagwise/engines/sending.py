"""Functions and arrays that are sent to Dask workers, and results that come back."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from bagwise.bags import Bags
from bagwise.exceptions import WorkerLostError
from bagwise.extras import import_extra

LOST = "lost", None  # the result of a part that has lost its state


def aligned(value: Any) -> Any:
    """The same value with its arrays at addresses that are multiples of their item size.

    An array that was sent to another process may begin at any address. BLAS routines without AVX,
    and compiled code of scikit-learn that calls them, crash on such arrays.

    Parameters
    ----------
    value : object
        Arrays, bags, and tuples, lists and dicts of them; anything else is returned as it is.

    Returns
    -------
    object
    """
    if isinstance(value, np.ndarray):
        return value if value.flags.aligned else value.copy()
    if isinstance(value, tuple | list):
        items = [aligned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: aligned(item) for key, item in value.items()}
    if sparse.issparse(value) and not value.data.flags.aligned:
        return value.copy()
    if isinstance(value, Bags):
        rows = aligned(value.instances)
        same = rows is value.instances
        return value if same else value.with_instances(rows, feature_names=value.feature_names)
    return value


def copied(bags: Bags) -> Bags:
    """The same bags in memory that NumPy allocated.

    What was received over a connection begins at odd addresses and uses small pages: products with
    it take twice as long.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    Bags
    """
    return bags.with_instances(bags.instances.copy(), feature_names=bags.feature_names)


class SentFunction:
    """A function for workers, whose arrays are aligned where it arrives.

    Dask sends arrays beside the pickle of the object that holds them, and they stay where they were
    received. Here they are part of the pickle, and NumPy allocates memory for them.

    Parameters
    ----------
    function : callable
        The function, with all that it refers to: a fitted model, for example.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = import_extra("cloudpickle", extra="dask").dumps(self.function, protocol=4)
        return _received, (pickled,)


def _received(pickled: bytes) -> SentFunction:
    return SentFunction(pickle.loads(pickled))


def call_guarded(function: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    """Call a function on a worker and return its own errors as values.

    In this way they are not confused with the errors of Dask.

    Parameters
    ----------
    function : callable
        The function.
    *args : object
        Its arguments.

    Returns
    -------
    status : {"done", "failed"}
    value : object
        The result, or the error.
    """
    try:
        return "done", function(*aligned(args))
    except Exception as error:
        return "failed", error


def unpack(result: tuple[str, Any]) -> Any:
    """The value of a guarded call; raises its error.

    Parameters
    ----------
    result : tuple
        What `call_guarded` returned, or `LOST`.

    Returns
    -------
    object
    """
    status, value = result
    if status == LOST[0]:
        raise WorkerLostError("a worker was lost, and with it the state of its part.")
    if status == "failed":
        raise value
    return value
