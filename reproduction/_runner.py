"""Run the units of an experiment in a fixed order and save each result at once."""

from __future__ import annotations

import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn

from bagwise.exceptions import DataNotFoundError, InputError, MissingExtraError
from reproduction._building import find_target
from reproduction._paper import Experiment, Paper
from reproduction._protocols import PROTOCOLS
from reproduction._store import Store
from reproduction._units import Unit, list_units

__all__ = ["Plan", "execute", "make_plan", "run_plan", "run_plans", "units_to_do"]


@dataclass(frozen=True)
class Plan:
    """An experiment split into units of work, and what cannot be run on this machine.

    Attributes
    ----------
    paper : Paper
        The paper.
    experiment : Experiment
        The experiment, quick or full.
    units : list of Unit
        The units that can be run, in order.
    stand_ins : frozenset of str
        The missing data sets that have a stand-in.
    absent : dict of str to str
        The missing data sets and methods, and why they are missing.
    """

    paper: Paper
    experiment: Experiment
    units: list[Unit]
    stand_ins: frozenset[str]
    absent: Mapping[str, str]

    def narrowed(self, only: tuple[str, ...]) -> Plan:
        """Keep the named data sets and methods only."""
        kept = self.experiment.narrowed(only)
        units = [u for u in self.units if u.data in kept.data and u.method in kept.methods]
        return Plan(self.paper, kept, units, self.stand_ins, self.absent)


def make_plan(paper: Paper, experiment: Experiment) -> Plan:
    """List the units that can be run with the available data and packages.

    Parameters
    ----------
    paper : Paper
        The paper.
    experiment : Experiment
        One of its experiments.

    Returns
    -------
    Plan
    """
    if experiment.protocol not in PROTOCOLS:
        raise InputError(
            f"{experiment.name} asks for the protocol {experiment.protocol!r}: there are "
            f"{', '.join(PROTOCOLS)}."
        )
    absent = {}
    for name in experiment.methods:
        if not paper.methods[name].model:
            absent[name] = "published only"
            continue
        target = paper.methods[name].model["class"]
        try:
            find_target(target)
        except (InputError, MissingExtraError):
            absent[name] = f"no {target.partition(':')[2]} here"
    first = {unit.data: unit for unit in reversed(list_units(paper, experiment, frozenset()))}
    missing = {name for name, unit in first.items() if not _is_here(unit)}
    stand_ins = frozenset(name for name in missing if paper.data[name].stand_in is not None)
    absent |= dict.fromkeys(missing - stand_ins, "data set absent")
    units = [
        unit
        for unit in list_units(paper, experiment, stand_ins)
        if unit.data not in absent and unit.method not in absent
    ]
    return Plan(paper, experiment, units, stand_ins, absent)


def units_to_do(plan: Plan, store: Store) -> list[Unit]:
    """List the units of a plan that have no result yet.

    Parameters
    ----------
    plan : Plan
        The plan.
    store : Store
        The stored results.

    Returns
    -------
    list of Unit
    """
    done = store.records(plan.units)
    return [unit for unit in plan.units if "result" not in done.get(unit.name, {})]


def run_plan(
    plan: Plan,
    store: Store,
    *,
    jobs: int = 1,
    after_unit: Callable[[], None] = lambda: None,
) -> None:
    """Run the units of one plan that have no stored result: see `run_plans`."""
    run_plans([(plan, store)], jobs=jobs, after_unit=after_unit)


def run_plans(
    pairs: Sequence[tuple[Plan, Store]],
    *,
    jobs: int = 1,
    after_unit: Callable[[], None] = lambda: None,
) -> None:
    """Run the units that have no stored result, of several experiments at once.

    A failure is recorded and does not stop the other units; the next run tries the unit again.
    A process uses one thread, and goes on with the next experiment while others still work.

    Parameters
    ----------
    pairs : sequence of (Plan, Store)
        The plans; each store receives its results as soon as they are computed.
    jobs : int, default=1
        Number of parallel processes; more than one distorts the measured times.
    after_unit : callable
        Called after each unit.
    """
    origin = {**_origin(), "jobs": jobs}
    todo = [(store, unit) for plan, store in pairs for unit in units_to_do(plan, store)]
    threads = {"backend": "loky", "inner_max_num_threads": 1} if jobs > 1 else {}
    with joblib.parallel_config(**threads):
        work = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for at, record in work(joblib.delayed(_execute)(at, u) for at, (_, u) in enumerate(todo)):
            todo[at][0].append({**record, "origin": origin})
            after_unit()


def _execute(at: int, unit: Unit) -> tuple[int, dict[str, Any]]:
    return at, execute(unit)


def execute(unit: Unit) -> dict[str, Any]:
    """Run one unit.

    Parameters
    ----------
    unit : Unit
        The unit.

    Returns
    -------
    dict
        The record: ``result``, or ``error``, or ``unavailable`` if a package is missing.
    """
    record: dict[str, Any] = {
        "unit": unit.name,
        "settings": unit.fingerprint,
        "seed": unit.seed,
        "shared_seed": unit.shared_seed,
    }
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            record["result"] = PROTOCOLS[unit.settings["protocol"]](unit)
        except MissingExtraError as error:
            record["unavailable"] = str(error)
        except Exception as error:  # one failure must not stop thousands of units
            record["error"] = f"{type(error).__name__}: {error}"
    record["warnings"] = sorted({str(warning.message).splitlines()[0] for warning in caught})
    record["seconds"] = time.perf_counter() - start
    return record


def _is_here(unit: Unit) -> bool:
    try:
        unit.load()
    except DataNotFoundError:
        return False
    return True


@cache
def _origin() -> dict[str, Any]:
    """Versions, machine and day of the measurements."""
    import bagwise

    return {
        "bagwise": bagwise.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "day": time.strftime("%Y-%m-%d"),
    }


def _commit() -> str | None:
    """The commit, or None if bagwise does not run from its repository."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", here], check=True, capture_output=True)
        found = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()
