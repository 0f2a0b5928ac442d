"""Calls to a Dask cluster that always end, with a result or with `WorkerLostError`.

Errors of the functions that workers run are raised unchanged.

Dask itself waits forever in some cases: for a task that was assigned to a lost worker, for a
scheduler that does not reply, for a call to an actor whose worker died. Therefore every wait here
checks once per second that the scheduler and the required workers are alive.
"""

import asyncio
import contextlib
import pickle
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent import futures
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from bagwise.bags import Bags
from bagwise.exceptions import WorkerLostError
from bagwise.extras import import_extra

WATCH = 1.0  # seconds between two checks that scheduler and workers are alive
RECONNECT = 5.0  # seconds to wait for a client to reconnect to its scheduler
REPLY = 60.0  # seconds to wait for a reply of the scheduler to a short request
LOSSES = 5  # losses in a row, without progress in between, before giving up
PATIENCE = 30.0  # seconds to wait for a worker if there is none


LOST = "lost", None  # the result of a part that has lost its state

Result = TypeVar("Result")


def retry_work(work: Callable[[], Result], repair: Callable[[], object]) -> Result:
    """Run a function, and run it again if a worker is lost.

    Parameters
    ----------
    work : callable
        The function; may raise `WorkerLostError`.
    repair : callable
        Called before each further attempt; may also raise `WorkerLostError`.

    Returns
    -------
    object
        The result of `work`.

    Raises
    ------
    WorkerLostError
        After `LOSSES` attempts, or at once if the cluster is gone for good.
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


def await_reply(
    client: Any,
    call: Callable[[], Awaitable[Any]],
    workers: Iterable[str] = (),
    limit: float | None = None,
) -> Any:
    """Wait for a coroutine of the client, as long as scheduler and workers are alive.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    call : callable
        Returns the coroutine. It runs no user code, so its errors are those of the cluster.
    workers : iterable of str, default=()
        Addresses of the workers it needs.
    limit : float, default=None
        Seconds within which the scheduler must reply; unlimited by default.

    Returns
    -------
    object
        The result of the coroutine.
    """

    async def run() -> Any:
        return await call()

    _check_scheduler(client)
    handle = asyncio.run_coroutine_threadsafe(run(), client.loop.asyncio_loop)
    try:
        _watch(client, lambda seconds: bool(futures.wait([handle], seconds).done), workers, limit)
        return handle.result()
    except Exception as error:
        # KeyError, ValueError: the scheduler named a worker that it has removed since.
        if not _is_of_cluster(error) and not isinstance(error, KeyError | ValueError):
            raise
        _check_scheduler(client)
        raise WorkerLostError(f"a worker was lost: {error!r}.") from error
    finally:
        handle.cancel()


def submit(client: Any, function: Any, *args: Any, **options: Any) -> Any:
    """Send a task to the scheduler.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    function : callable
        The task.
    *args, **options : object
        As for ``Client.submit``.

    Returns
    -------
    Future
    """
    _check_scheduler(client)
    try:
        return client.submit(function, *args, pure=False, **options)
    except Exception as error:
        if not _is_of_cluster(error):
            raise
        _check_scheduler(client)
        raise WorkerLostError(f"a task could not be sent: {error!r}.") from error


def wait(client: Any, tasks: list[Any], workers: Iterable[str]) -> None:
    """Wait for tasks, as long as the workers that run them are alive.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    tasks : list of Future
        The tasks; errors that they raise themselves are raised unchanged.
    workers : iterable of str
        Addresses of the workers.
    """
    distributed = import_extra("distributed", extra="dask")

    def finished(seconds: float) -> bool:
        with contextlib.suppress(TimeoutError, distributed.TimeoutError, CancelledError):
            distributed.wait([f for f in tasks if f.status == "pending"], timeout=seconds)
        return all(future.status != "pending" for future in tasks)

    _watch(client, finished, workers)
    for future in tasks:
        if future.status == "error":
            error = future.exception()
            if not _is_defined_by_dask(error):
                raise error
            raise WorkerLostError(f"a task could not be done: {error!r}.") from error
        if future.status != "finished":
            _check_scheduler(client)
            raise WorkerLostError("a worker was lost, and with it the data it held.")


def results(client: Any, tasks: list[Any], workers: Iterable[str]) -> list[Any]:
    """Wait for tasks and collect their results.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    tasks : list of Future
        The tasks; cancelled if this call raises an error.
    workers : iterable of str
        Addresses of the workers that run them.

    Returns
    -------
    list
    """
    try:
        wait(client, tasks, workers)
        return await_reply(client, lambda: client.gather(tasks, asynchronous=True), workers)
    except BaseException:
        cancel(client, tasks)
        raise


def actor_results(client: Any, calls: list[Any], actors: list[Any], workers: set[str]) -> list[Any]:
    """Wait for calls to actors, as long as their workers are alive.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    calls : list of ActorFuture
        The calls, whose functions return their own errors as values.
    actors : list of Future
        The tasks that created the actors.
    workers : set of str
        Addresses of their workers.

    Returns
    -------
    list
    """
    found = []
    for call, actor in zip(calls, actors, strict=True):

        def finished(seconds: float, call: Any = call, actor: Any = actor) -> bool:
            ended = call.done()  # read first: the call may end while this waits for the result
            try:
                # The result passes through the client's event loop, which may be busy.
                found.append(call.result(timeout=REPLY if ended else seconds))
            except TimeoutError as error:
                if ended:
                    raise WorkerLostError(f"a worker did not reply: {error!r}.") from error
                if actor.status != "finished":
                    raise WorkerLostError(
                        "a worker was lost, and with it the state of its part."
                    ) from error
                return False
            return True

        _watch(client, finished, workers)
    return found


def cancel(client: Any, tasks: list[Any]) -> None:
    """Ask the scheduler to drop tasks that are no longer needed, without waiting for a reply.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    tasks : list of Future
        The tasks.
    """
    if client.status == "running" and tasks:
        coroutine = client.cancel(list(tasks), asynchronous=True)
        asyncio.run_coroutine_threadsafe(coroutine, client.loop.asyncio_loop)


def holders_of(client: Any, tasks: list[Any]) -> list[list[str]]:
    """Addresses of the workers that hold the result of each task.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.
    tasks : list of Future
        The tasks.

    Returns
    -------
    list of list of str
        Empty if no worker holds the result.
    """
    if not tasks:
        return []
    keys = [future.key for future in tasks]
    found = await_reply(client, lambda: client.scheduler.who_has(keys=keys), limit=REPLY)
    return [list(found.get(key, ())) for key in keys]


def worker_addresses(client: Any) -> list[str]:
    """Addresses of the workers that the scheduler knows, possibly none."""
    return sorted(await_reply(client, lambda: client.scheduler.ncores(), limit=REPLY))


def workers_of(client: Any) -> list[str]:
    """Addresses of the workers; waits for the first one if there is none."""
    end = time.monotonic() + PATIENCE
    while True:
        found = worker_addresses(client)
        if found:
            return found
        if time.monotonic() > end:
            raise WorkerLostError.for_good(
                f"the cluster has no workers, and none came within {PATIENCE:g} s: start some."
            )
        time.sleep(0.1)


def memory_limits(client: Any) -> list[float]:
    """Memory limit of each worker in bytes, in the order of `worker_addresses`.

    Parameters
    ----------
    client : distributed.Client
        The Dask cluster.

    Returns
    -------
    list of float
        Infinity if a worker has no limit.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [float(workers[name].get("memory_limit") or "inf") for name in sorted(workers)]


def aligned(value: Any) -> Any:
    """Copy the arrays in a value whose addresses are not multiples of their item size.

    An array that was sent to another process may start at any address. BLAS routines without AVX,
    and compiled code of scikit-learn that calls them, crash on such arrays.

    Parameters
    ----------
    value : object
        Arrays, bags, and tuples, lists and dicts of them; anything else is returned unchanged.

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
    if isinstance(value, Bags) and value.is_gathered:
        rows = aligned(value.instances)
        same = rows is value.instances
        return value if same else value.with_instances(rows, feature_names=value.feature_names)
    return value


def copied(bags: Bags) -> Bags:
    """Copy bags to memory that NumPy allocates.

    Data received over a connection start at odd addresses and use small pages: matrix products
    take twice as long.
    """
    return bags.with_instances(bags.instances.copy(), feature_names=bags.feature_names)


class SentFunction:
    """A function for workers, whose arrays are aligned on arrival.

    Dask sends arrays separately from the pickle of their object, and they stay in the buffer that
    received them. Here they are part of the pickle, so that NumPy allocates memory for them.

    Parameters
    ----------
    function : callable
        The function, with all objects that it refers to, such as a fitted model.
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

    This distinguishes them from the errors of Dask.

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
    """Return the value of a guarded call, or raise its error.

    Parameters
    ----------
    result : tuple
        The result of `call_guarded`, or `LOST`.

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


def _watch(
    client: Any,
    finished: Callable[[float], bool],
    workers: Iterable[str],
    limit: float | None = None,
) -> None:
    """Wait until ``finished(seconds)`` is true, as long as scheduler and workers are alive."""
    end = float("inf") if limit is None else time.monotonic() + limit
    while not finished(WATCH):
        _check_scheduler(client)
        _check_workers(client, workers)
        if time.monotonic() > end:
            raise WorkerLostError.for_good(
                f"the scheduler {_address(client)} did not answer within {limit:g} s."
            )


def _check_scheduler(client: Any) -> None:
    """Raise an error if the client has no scheduler, after waiting for it to reconnect."""
    if client.status == "running":
        return
    end = time.monotonic() + RECONNECT
    while client.status == "connecting" and time.monotonic() < end:
        time.sleep(0.05)
    if client.status == "running":  # reconnected: the data on the workers are lost
        raise WorkerLostError("the connection to the scheduler was lost for a moment.")
    raise WorkerLostError.for_good(
        f"the scheduler {_address(client)} is gone: start a cluster and distribute the bags again."
    )


def _check_workers(client: Any, workers: Iterable[str]) -> None:
    gone = set(workers)
    if gone:
        gone -= set(worker_addresses(client))
    if gone:
        raise WorkerLostError(f"the worker {min(gone)} is gone.")


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", None) or client._start_arg or "")


def _is_of_cluster(error: Exception) -> bool:
    """Whether an error is due to connections or workers, not to the computation."""
    if isinstance(error, WorkerLostError):
        return False  # already converted
    return isinstance(error, OSError | CancelledError) or _is_defined_by_dask(error)


def _is_defined_by_dask(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "distributed"
