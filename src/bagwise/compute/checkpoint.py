"""Iterations on parts, and a file with the state of a long fit."""

import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.files import replacing
from bagwise.compute.arrays import is_tensor, like, to_numpy
from bagwise.compute.parts import Parts
from bagwise.exceptions import InputError

FORMAT = "3"  # version of the file format; files of other versions are refused
INTERVAL = 30.0  # least number of seconds between two saves
SHARE = 0.05  # share of the fitting time that saving may take


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
