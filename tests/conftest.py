import os

# Before scipy is imported: scikit-learn's array API checks run instead of being skipped.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    # One worker per core: more BLAS and OpenMP threads would compete for the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gc
from functools import cache

import hypothesis
import numpy as np
import pytest
import typer.testing

from bagwise.base import _finite
from browser import accessibility_faults, chromium, open_page  # noqa: F401
from cpu_times import *  # noqa: F403


def pytest_collection_modifyitems(items):
    for item in items:
        if " at 0x" in item.nodeid:  # the processes of xdist must collect the same tests
            raise pytest.UsageError(f"give a fixed id to {item.nodeid}: it differs by process")


def pytest_collection_finish():
    """Freeze the collected tests: each full garbage collection would visit all 10,000."""
    gc.collect()
    gc.freeze()


# The runner builds the tree of all commands (20 ms) at each call; once per process is enough.
typer.testing._get_command = cache(typer.testing._get_command)

# Data written by a killed process survive without fsync (only a system crash loses them), and
# thousands of tests would wait for the disk. An invalid descriptor is still an error.
os.fsync = os.fstat

# Deadlines count wall-clock time: on a busy machine, correct tests would fail.
hypothesis.settings.register_profile("bagwise", deadline=None)
hypothesis.settings.load_profile("bagwise")

# Let numpy warn about overflow inside methods: a warning fails the test.
_finite.FLOATING_POINT.clear()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def few_trees(monkeypatch):
    """Reduce the trees of the baseline, which is fitted in every fold of every evaluation."""
    from bagwise.evaluate import _baselines

    monkeypatch.setattr(_baselines, "N_TREES", 20)
    monkeypatch.setattr(_baselines, "TREES_PER_LABEL", 5)


@pytest.fixture
def few_candidates(monkeypatch):
    """Limit the automatic choice to a few quick methods, unless others are named."""
    from bagwise.auto import _ensemble

    every = _ensemble.chosen_members

    def few(candidates, *kind):
        members = every(candidates, *kind)
        quick = [member for member in members if member.name in ("nsk", "mind", "citation-knn")]
        return quick if candidates == "default" else members

    monkeypatch.setattr(_ensemble, "chosen_members", few)
