"""Parts: blocks of whole bags with their state, in this process, on a device or on Dask workers.

Also iterations on parts, and a file with the state of a long fit.
"""

import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy import sparse

from bagwise._common.files import replacing
from bagwise._common.types import Array
from bagwise.bags import Bags
from bagwise.compute.arrays import is_tensor, like, to_numpy
from bagwise.exceptions import InputError

FORMAT = "3"  # version of the file format; files of other versions are refused
INTERVAL = 30.0  # least number of seconds between two saves
SHARE = 0.05  # share of the fitting time that saving may take


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


class Checkpoint:
    """A file with the state of a fit, saved periodically and removed at the end.

    The file is an npz without pickles. It is replaced as a whole: a kill at any moment leaves the
    previous version.

    Parameters
    ----------
    path : path or None
        Path of the file; nothing is saved without one.
    settings : object
        Settings of the fit, compared by their ``repr``: a checkpoint of a fit with
        other settings is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, settings: Any = ()) -> None:
        self.path = None if path is None else Path(path)
        self.settings = repr(settings)
        self._next, self._identity = time.monotonic() + INTERVAL, ""

    def save(self, memory: dict[str, Any], parts: Parts) -> None:
        """Write the state of the driver and of all parts, if it is time."""
        start = time.monotonic()
        if self.path is None or start < self._next:
            return
        arrays: dict[str, Any] = {"identity": np.array(self._identity)}
        arrays |= {f"memory/{name}": np.asarray(to_numpy(v)) for name, v in memory.items()}
        for i, state in enumerate(parts.each("state")):
            arrays |= {f"part/{i}/{name}": to_numpy(value) for name, value in state.items()}
        with replacing(self.path, force=True) as unfinished, open(unfinished, "wb") as file:
            np.savez(file, **arrays)
        end = time.monotonic()
        self._next = end + max(INTERVAL, (end - start) / SHARE)

    def load(self, memory: dict[str, Any], parts: Parts) -> bool:
        """Restore the saved state of `memory` and the parts; return False if there is none."""
        if self.path is None:
            return False
        text = " ".join([FORMAT, self.settings, *parts.each("identity")])
        self._identity = hashlib.sha256(text.encode()).hexdigest()
        if not self.path.exists():
            return False
        try:
            with np.load(self.path, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
            identity = str(saved.pop("identity"))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{self.path} is not a checkpoint of bagwise ({error}): choose another path."
            ) from error
        if identity != self._identity:
            raise InputError(
                f"the checkpoint {self.path} belongs to another fit (other bags, labels, settings "
                "or partitions): remove the file, or choose another path."
            )
        states: dict[str, dict[str, Any]] = {}
        for name, value in saved.items():
            kind, *rest = name.split("/")
            if kind == "part":
                states.setdefault(rest[0], {})[rest[1]] = value
            else:
                before = memory[rest[0]]
                memory[rest[0]] = like(value, before) if is_tensor(before) else value[()]
        if states:
            parts.do("restore", own=list(states.values()))
        return True

    def remove(self) -> None:
        """Remove the file: the fit is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


NO_CHECKPOINT = Checkpoint(None)


def iterate(
    parts: Parts,
    memory: dict[str, Any],
    begin: Callable[[dict[str, Any]], None],
    step: Callable[[dict[str, Any]], bool],
    *,
    max_iter: int,
    track: Callable[[Any], Iterator[int]] = iter,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> dict[str, Any]:
    """Repeat a step until it returns True; continue from a checkpoint if there is one.

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
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        File to save intermediate results in, and to resume from.

    Returns
    -------
    dict
        Final state of the driver, with the number of iterations as "n_iter".
    """
    memory = {"n_iter": 0, **memory}
    if not checkpoint.load(memory, parts):
        begin(memory)
    parts.hold()
    for _ in track(range(int(memory["n_iter"]), max_iter)):
        done = step(memory)
        memory["n_iter"] = int(memory["n_iter"]) + 1
        if done:
            break
        parts.renew()
        checkpoint.save(memory, parts)
    checkpoint.remove()
    return memory
