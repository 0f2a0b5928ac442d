"""Units of work: the smallest pieces that are measured and saved, each run only once."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.utils import Bunch

from bagwise.bags import Bags
from reproduction._building import build_model, load_data, training_sizes, with_seed
from reproduction._paper import Experiment, Paper

__all__ = ["Unit", "list_units", "seed_of"]


def seed_of(*names: object) -> int:
    """Derive a seed from names, the same on every machine and in any order of execution.

    Parameters
    ----------
    *names : object
        What the seed is for.

    Returns
    -------
    int

    Examples
    --------
    >>> from reproduction import seed_of
    >>> seed_of("table1", "fox", 0) == seed_of("table1", "fox", 0) != seed_of("table1", "fox", 1)
    True
    """
    text = "/".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


@dataclass(frozen=True)
class Unit:
    """One measurement.

    Attributes
    ----------
    experiment, data, method : str
        Names of the table or figure, the data set and the method.
    repetition : int
        Number of the repetition, from 0.
    fold : int or None
        Number of the fold, from 0.
    value : object
        Value of the sweep, or None.
    settings : dict
        Everything else that determines the result: protocol, source of the data, model, metrics,
        options.
    """

    experiment: str
    data: str
    method: str
    repetition: int
    fold: int | None
    value: Any
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name under which the result is saved."""
        swept = [] if self.value is None else [f"{self.settings['sweep']}={self.value}"]
        fold = [] if self.fold is None else [f"fold {self.fold}"]
        parts = [self.experiment, self.data, self.method, *swept, f"repetition {self.repetition}"]
        return "/".join([*parts, *fold])

    @property
    def fingerprint(self) -> str:
        """A hash of the settings: results of other settings are not reused."""
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def shared_seed(self) -> int:
        """The seed of data and folds: the same for all methods and folds."""
        return seed_of(self.experiment, self.data, self.value, self.repetition)

    @property
    def seed(self) -> int:
        """The seed of the model."""
        return seed_of(self.name)

    def load(self, **options: Any) -> Bunch:
        """Load or simulate the data; `options` override those of the data set."""
        data = self.settings["data"]
        return load_data(data["source"], {**data["options"], **options}, self.shared_seed)

    def model(self, bags: Bags, y: NDArray[Any]) -> Any:
        """Make the model for these training data."""
        sizes = training_sizes(bags, y)
        return with_seed(build_model(self.settings["model"], sizes), self.seed)


def list_units(paper: Paper, experiment: Experiment, stand_ins: frozenset[str]) -> list[Unit]:
    """List the units of an experiment by repetition, so that all cells of a table fill evenly.

    Parameters
    ----------
    paper : Paper
        The paper.
    experiment : Experiment
        The experiment.
    stand_ins : frozenset of str
        The data sets that are replaced by their stand-in.

    Returns
    -------
    list of Unit
    """
    return list(_units(paper, experiment, stand_ins))


def _units(paper: Paper, experiment: Experiment, stand_ins: frozenset[str]) -> Iterator[Unit]:
    values = [None] if experiment.sweep is None else experiment.sweep["values"]
    folds = [None] if experiment.folds is None else range(experiment.folds)
    for repetition, data, value, method in itertools.product(
        range(experiment.repetitions), experiment.data, values, experiment.methods
    ):
        if experiment.reason(data, method) is not None:
            continue
        settings = _settings(paper, experiment, data, method, value, data in stand_ins)
        for fold in folds:
            yield Unit(experiment.name, data, method, repetition, fold, value, settings)


def _settings(
    paper: Paper, experiment: Experiment, data: str, method: str, value: Any, stand_in: bool
) -> dict[str, Any]:
    entry, chosen = paper.data[data], paper.methods[method]
    source = entry.stand_in if stand_in and entry.stand_in is not None else vars(entry)
    settings: dict[str, Any] = {
        "protocol": experiment.protocol,
        "folds": experiment.folds,
        "options": dict(experiment.options),
        "metrics": {name: paper.metrics[name].function for name in experiment.metrics},
        "data": {"source": source["source"], "options": dict(source.get("options", {}))},
        "model": {
            **chosen.model,
            **chosen.settings.get(entry.family, {}),
            **chosen.settings.get(data, {}),
        },
        "scale": chosen.scale,
    }
    if experiment.sweep is not None:
        settings["sweep"] = experiment.sweep["name"]
        room, _, name = experiment.sweep["name"].partition(".")
        rooms = {"data": settings["data"]["options"], "options": settings["options"]}
        rooms.get(room, settings["model"])[name] = value
    return settings
