"""Finished folds of an evaluation, kept in files so that an interrupted one can be resumed."""

import hashlib
import inspect
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import bagwise
from bagwise._common.files import replacing
from bagwise.compute.parts import digest


class KeptFolds:
    """Judgements of fitted models, a file each, of one evaluation.

    Parameters
    ----------
    folder : Path
        The folder of all evaluations.
    models : mapping of str to estimator
        The models.
    prepared : Prepared
        The bags, their labels and the folds.
    settings : object
        What else changes a judgement, with a ``repr``.

    Notes
    -----
    Each evaluation has its own folder, named by a hash of its bags, labels, folds, models (with the
    files of classes outside bagwise) and version. A judgement is an npz archive without pickle; one
    that it cannot represent is not kept.
    """

    def __init__(
        self, folder: Path, models: Mapping[str, Any], prepared: Any, settings: Any
    ) -> None:
        about = [bagwise.__version__, repr(settings), digest(prepared.bags)]
        about.append(joblib.hash((prepared.y, prepared.folds, prepared.bags.groups)))
        about += [f"{name}: {_described(model)}" for name, model in models.items()]
        self.folder = folder / hashlib.sha256("\n".join(about).encode()).hexdigest()[:24]
        self.number = {name: i for i, name in enumerate(models)}

    def _path(self, name: str, k: int) -> Path:
        return self.folder / f"{self.number[name]}-{k}.npz"

    def read(self, name: str, k: int) -> tuple[Any, float] | None:
        """The judgement of a model on fold `k` and its seconds; None if it was not kept."""
        try:
            with np.load(self._path(name, k), allow_pickle=False) as archive:
                found = {key: archive[key] for key in archive.files}
        except (OSError, ValueError):
            return None
        scores = json.loads(str(found.pop("scores")))
        seconds = float(found.pop("seconds"))
        return (scores, {key.removeprefix("of "): value for key, value in found.items()}), seconds

    def write(self, name: str, k: int, judged: tuple[Any, float]) -> None:
        """Keep a judgement: the scores, and the predictions by method."""
        (scores, predicted), seconds = judged
        arrays: dict[str, Any] = {f"of {key}": np.asarray(v) for key, v in predicted.items()}
        arrays |= {"scores": np.array(json.dumps(scores)), "seconds": np.array(seconds)}
        if any(array.dtype == object for array in arrays.values()):
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self._path(name, k), force=True) as path, open(path, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
        except OSError:  # a cache that cannot be written is no cache
            return

    def clear(self) -> None:
        """Remove the files of a finished evaluation."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _described(model: Any) -> str:
    """The parameters of a model, and the contents of the files of classes of the user."""
    parts = [model, *model.get_params().values()]
    text = [f"{type(part).__module__}.{type(part).__qualname__}" for part in parts]
    text += [f"{name}={value!r:.2000}" for name, value in sorted(model.get_params().items())]
    for part in parts:
        package = type(part).__module__.partition(".")[0]
        if hasattr(part, "get_params") and package not in ("bagwise", "sklearn"):
            text.append(hashlib.sha256(Path(inspect.getfile(type(part))).read_bytes()).hexdigest())
    return " ".join(text)
