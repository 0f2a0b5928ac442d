"""One method on one data set, in this process or a new one."""

import json
import os
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import bagwise
from bagwise import Bags
from bagwise.auto._methods import METHODS, PUBLISHED, find_method, make_model
from bagwise.datasets import make_bags
from bagwise.evaluate import compare
from bagwise.evaluate._baselines import baselines
from bagwise.exceptions import BagwiseError

from .sets import load
from .store import FOLDS, LeaderboardError, truths

ROOT = Path(__file__).parent.parent.parent
BUDGET = 60.0  # seconds of the automatic method
ROWS = METHODS | {name: m for name, m in PUBLISHED.items() if m.command is None}
BASELINES = {"pooled-trees": "pooled trees", "majority": "majority"}  # as `baselines` has them
NEVER = ("dd", "emdd")  # minutes a fit; only if --methods names them
SLOW = ("auto", "dd", "emdd", "m3miml", "attention", "minet", "misvm-instance", "misvm-bag")


def cell(data_set: str, method: str) -> dict:
    """The predictions of a method for the held-out bags of a set, its scores and CPU seconds."""
    (bags, y), true = load(data_set), truths()[data_set]
    if not np.array_equal(y, true.y):
        raise LeaderboardError(f"{data_set}: the labels are not those of the stored folds.")
    model = made(method, bags, sets=y.ndim == 2)
    warm(model, sets=y.ndim == 2)
    start = time.process_time()
    (found,) = compare({method: model}, bags, y, cv=true.splits)
    seconds = time.process_time() - start
    order = np.argsort(found.held_out.position)
    predicted = {key: values[order] for key, values in found.held_out.found.items()}
    return {"found": predicted, "scores": dict(found.scores), "seconds": seconds}


def warm(model: Any, *, sets: bool) -> None:
    """Fit a method on a few synthetic bags, so that its imports and compilation are not timed."""
    data = make_bags(24, 4, n_classes=3 if sets else 2, random_state=0)
    y = np.eye(3, dtype=int)[data.y] if sets else data.y
    with warnings.catch_warnings(), suppress(BagwiseError):
        warnings.simplefilter("ignore")
        clone(model).fit(data.bags, y).predict(data.bags)


def made(method: str, bags: Bags, *, sets: bool) -> Any:
    """A method with its defaults, or a baseline."""
    if method in BASELINES:
        (model,) = baselines([BASELINES[method]], bags=bags, label_sets=sets).values()
        return model
    chosen = find_method(method)
    settings = {"random_state": 0} if "random_state" in chosen.parameters else {}
    if method == "auto":
        settings["time_budget"] = BUDGET
    return make_model(chosen, settings, scale=True, sparse=bags.is_sparse)


def run_here(data_set: str, method: str) -> dict:
    """What is stored of a cell, computed in this process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cell(data_set, method)
    except LeaderboardError:
        raise
    except Exception as error:  # whatever a method raises is shown as the reason
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"found": found["found"], "seconds": found["seconds"], **about()}


def run_apart(data_set: str, method: str, limit: float) -> dict:
    """The same in a new process with one thread, which is stopped after `limit` seconds."""
    command = [sys.executable, "-m", "benchmarks.leaderboard", "cell", data_set, method]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "NUMBA", "MKL")}
    if method == "auto":
        limit = max(limit, 1.5 * BUDGET * FOLDS)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"failed": last[0]}
    found = json.loads(done.stdout)
    arrays = {key: np.array(values) for key, values in found["found"].items()}
    return {"found": arrays, "seconds": found["seconds"], **about()}


def about() -> dict[str, Any]:
    """The commit and the versions that compute a cell."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    names = ("numpy", "scipy", "scikit-learn", "numba")
    versions = {"bagwise": bagwise.__version__} | {name: version(name) for name in names}
    return {"commit": commit or "unknown", "versions": versions}
