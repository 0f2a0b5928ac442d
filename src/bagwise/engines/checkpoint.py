"""The loop of a long fit: it survives lost workers, and with a checkpoint also a killed process."""

import contextlib
import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bagwise.engines.arrays import is_tensor, like, to_numpy
from bagwise.engines.losses import LOSSES, retry_work
from bagwise.engines.parts import Parts
from bagwise.exceptions import InputError, WorkerLostError

Result = TypeVar("Result")

FORMAT = "2"  # of the file; those of another format belong to another fit
INTERVAL = 30.0  # seconds between two saves, at least
SHARE = 0.05  # of the time of a fit that saving may take


class Checkpoint:
    """A file with everything a fit remembers, written now and then and removed at the end.

    The file is an npz without pickles, replaced as a whole: a kill at any moment leaves the
    previous one.

    Parameters
    ----------
    path : path
        Where it is.
    settings : object
        Settings of the fit, compared by their ``repr``: a checkpoint of a fit with
        other settings is refused.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Any) -> None:
        self.path = Path(path)
        self.settings = repr(settings)
        self._saved_at, self._cost = time.monotonic(), 0.0
        self._identity: str | None = None

    def due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() - self._saved_at >= max(INTERVAL, self._cost / SHARE)

    def save(self, memory: dict[str, Any], parts: Parts | None) -> None:
        """Write what the driver and all parts remember; None where the parts remember nothing."""
        start = time.monotonic()
        arrays: dict[str, Any] = {"identity": np.array(self.identify(parts))}
        arrays |= {f"memory/{name}": np.asarray(to_numpy(v)) for name, v in memory.items()}
        for i, state in enumerate([] if parts is None else parts.each("state")):
            arrays |= {f"part/{i}/{name}": to_numpy(value) for name, value in state.items()}
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            with open(unfinished, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - start

    def load(self, memory: dict[str, Any], parts: Parts) -> bool:
        """Bring `memory` and the parts back to what was saved; False when nothing was."""
        expected = self.identify(parts)
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
        if identity != expected:
            raise InputError(
                f"the checkpoint {self.path} belongs to another fit (other bags, labels, settings "
                "or partitions): remove the file, or choose another path."
            )
        for name in memory:
            value = saved[f"memory/{name}"]
            memory[name] = like(value, memory[name]) if is_tensor(memory[name]) else value[()]
        states: list[dict[str, Any]] = []
        for name, value in saved.items():
            if name.startswith("part/"):
                _, i, key = name.split("/")
                while len(states) <= int(i):
                    states.append({})
                states[int(i)][key] = value
        if states:
            parts.do("restore", own=states)
        return True

    def remove(self) -> None:
        """Remove the file: the fit is complete."""
        self.path.unlink(missing_ok=True)

    def identify(self, parts: Parts | None) -> str:
        """A text that identifies this fit; the parts are read once."""
        if self._identity is None:
            if parts is None:
                raise ValueError("a checkpoint is identified by parts before it is saved alone")
            text = " ".join([FORMAT, self.settings, *parts.each("identity")])
            self._identity = hashlib.sha256(text.encode()).hexdigest()
        return self._identity

    def explain(self, error: WorkerLostError) -> WorkerLostError:
        """The error that ends a fit, with where it can be resumed from."""
        saved = "is kept in" if self.path.exists() else "was not saved yet to"
        return WorkerLostError.for_good(
            f"{error} The state of the fit {saved} the checkpoint {self.path}: fit again with "
            "the same checkpoint= to resume it."
        )


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
    """Repeat a step until it returns True; after a lost worker, from the last checkpoint.

    Parameters
    ----------
    parts : Parts
        What the steps work on.
    memory : dict of arrays and numbers
        What the driver remembers between steps, as it is before the first. A step replaces values
        and never writes into them.
    begin : callable
        ``begin(memory)`` gives fresh parts their first state.
    step : callable
        ``step(memory)`` makes one iteration and tells whether it was the last.
    max_iter : int
        Budget of iterations.
    track : callable, default=iter
        Wraps the iterations, to show progress.
    checkpoint : Checkpoint, default=None
        Where to save now and then, and to resume from.

    Returns
    -------
    dict
        What the driver remembers at the end, with the number of iterations as "n_iter".
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
        """Go one iteration further than ever; after a loss, all since the checkpoint come first."""
        nonlocal lost, furthest, ready
        while True:
            try:
                if not ready:
                    if lost:
                        parts.rebuild()
                    restart()
                    ready = True
                    if memory["n_iter"] >= max_iter:  # as saved by a fit with a larger budget
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


def retry(parts: Parts, work: Callable[[], Result], checkpoint: Checkpoint | None = None) -> Result:
    """Do some work on parts, and all of it again on new ones when a worker was lost.

    Parameters
    ----------
    parts : Parts
        The parts.
    work : callable
        Begins with parts as they are when new.
    checkpoint : Checkpoint, default=None
        Where the work saves, for the message where it is given up.

    Returns
    -------
    object
        What `work` returned.
    """
    try:
        return retry_work(work, parts.rebuild)
    except WorkerLostError as error:
        if checkpoint is None:
            raise
        raise checkpoint.explain(error) from error
