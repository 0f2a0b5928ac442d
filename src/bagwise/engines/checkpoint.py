"""Checkpoint file with the state of a long fit, to resume a killed fit."""

import hashlib
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.files import replacing
from bagwise.engines.arrays import is_tensor, like, to_numpy
from bagwise.engines.parts import Parts
from bagwise.exceptions import InputError, WorkerLostError

FORMAT = "2"  # version of the file format; files of other versions are refused
INTERVAL = 30.0  # least number of seconds between two saves
SHARE = 0.05  # share of the fitting time that saving may take


class Checkpoint:
    """A file with the whole state of a fit, saved periodically and removed at the end.

    The file is an npz without pickles. It is replaced as a whole: a kill at any moment leaves the
    previous version.

    Parameters
    ----------
    path : path
        Path of the file.
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
        """Whether it is time to save."""
        return time.monotonic() - self._saved_at >= max(INTERVAL, self._cost / SHARE)

    def save(self, memory: dict[str, Any], parts: Parts | None) -> None:
        """Write the state of the driver and of all parts; `parts` is None if they have no state."""
        start = time.monotonic()
        arrays: dict[str, Any] = {"identity": np.array(self.identify(parts))}
        arrays |= {f"memory/{name}": np.asarray(to_numpy(v)) for name, v in memory.items()}
        for i, state in enumerate([] if parts is None else parts.each("state")):
            arrays |= {f"part/{i}/{name}": to_numpy(value) for name, value in state.items()}
        with replacing(self.path, force=True) as unfinished, open(unfinished, "wb") as file:
            np.savez(file, **arrays)
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - start

    def load(self, memory: dict[str, Any], parts: Parts) -> bool:
        """Restore the saved state of `memory` and the parts; return False if there is none."""
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
        """A hash that identifies this fit, computed from the parts on the first call."""
        if self._identity is None:
            if parts is None:
                raise ValueError("the first save or load of a checkpoint needs the parts")
            text = " ".join([FORMAT, self.settings, *parts.each("identity")])
            self._identity = hashlib.sha256(text.encode()).hexdigest()
        return self._identity

    def explain(self, error: WorkerLostError) -> WorkerLostError:
        """The error that ends a fit, extended by the file to resume from."""
        saved = "is kept in" if self.path.exists() else "was not saved yet to"
        return WorkerLostError.for_good(
            f"{error} The state of the fit {saved} the checkpoint {self.path}: fit again with "
            "the same checkpoint= to resume it."
        )
