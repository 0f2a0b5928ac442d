"""Fits that lose workers."""

import numpy as np
import pytest
from sklearn.base import clone

from bagwise.annotation import ORedLogisticRegression
from bagwise.cluster import BagConstrainedSpectralClustering, _placed_rows
from bagwise.engines import Checkpoint, checkpoint, iterate
from bagwise.engines.cluster import ClusterParts
from bagwise.engines.parts import LocalParts
from bagwise.exceptions import WorkerLostError
from bagwise.metric_learning import MIMLCA
from checks import example
from engine_examples import Counter, kill_a_worker, solve, with_label_sets


@pytest.mark.parametrize(
    ("model", "saving"),
    [
        (ORedLogisticRegression(), False),
        (ORedLogisticRegression(solver="em", tol=1e-3), False),
        (MIMLCA(), False),
        (MIMLCA(), True),
    ],
)
def test_models_of_label_sets_survive_the_loss_of_a_worker(
    client, model, saving, monkeypatch, tmp_path
):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    model = clone(model).set_params(checkpoint=tmp_path / "fit.npz" if saving else None)
    bags, sets = with_label_sets()
    away = bags.distribute(client, npartitions=2)
    learned = "coef_" if hasattr(model, "reg") else "components_"
    expected = getattr(model.fit(away, sets), learned)
    real, calls = ClusterParts.each, []

    def each(self, method, *args):
        calls.append(method)
        if len(calls) == 4:
            kill_a_worker(away)
        return real(self, method, *args)

    rebuilt = []
    rebuild = ClusterParts.rebuild
    monkeypatch.setattr(ClusterParts, "each", each)
    monkeypatch.setattr(ClusterParts, "rebuild", lambda self: rebuilt.append(rebuild(self)))
    model.fit(away, sets)
    assert rebuilt
    np.testing.assert_allclose(getattr(model, learned), expected, rtol=1e-12)


def test_neighbours_are_found_again_when_a_worker_is_lost(client, monkeypatch):
    bags, sets = with_label_sets(80)
    model = BagConstrainedSpectralClustering(5, affinity="nearest_neighbors", random_state=0)
    expected = model.fit_predict(bags, sets)
    monkeypatch.setattr(_placed_rows, "BLOCK", 300)
    away = bags.distribute(client, npartitions=2)
    real, calls = ClusterParts.each, []

    def each(self, method, *args):
        calls.append(method)
        if calls.count("search") == 2 and method == "search":
            kill_a_worker(away)
        return real(self, method, *args)

    monkeypatch.setattr(ClusterParts, "each", each)
    np.testing.assert_array_equal(model.fit_predict(away, sets), expected)
    assert calls.count("begin") == 2


class KillAWorker:
    """Ends the process of a worker in the middle of a fit."""

    def __init__(self, bags, at=10):
        self.bags, self.at, self.seen = bags, at, []

    def __call__(self, turns):
        for turn in turns:
            if turn == self.at and self.at not in self.seen:
                kill_a_worker(self.bags)
            self.seen.append(turn)
            yield turn


@pytest.mark.parametrize("saving", [False, True])
def test_a_fit_survives_the_loss_of_a_worker(client, saving, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    path = tmp_path / "fit.npz" if saving else None
    away = bags.distribute(client, npartitions=2)
    killer = KillAWorker(away)
    expected = solve(away, codes)
    found = solve(away, codes, killer, path)
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    np.testing.assert_array_equal(found.objective_curve, expected.objective_curve)
    # The turn is taken again: from the checkpoint, or from the start.
    assert killer.seen.count(10) >= 2
    assert killer.seen.count(2) == (1 if saving else 2)
    assert not list(tmp_path.iterdir())


def test_nobody_waits_for_a_worker_that_is_gone(client, monkeypatch):
    from bagwise.engines import cluster

    monkeypatch.setattr(cluster, "WATCH", 0.1)
    gone = "tcp://127.0.0.1:1"
    never = client.submit(abs, 1, workers=[gone], pure=False)
    with pytest.raises(OSError, match="is gone"):
        cluster._wait(client, [never], {gone})
    assert cluster._results(client, [client.submit(abs, -1, pure=False)], {gone}) == [1]


def test_a_part_that_lost_its_state_says_so():
    pytest.importorskip("distributed")
    from bagwise.engines.cluster import _Cell, _unpack

    cell = _Cell(Counter, None, [], {})
    assert _unpack(cell.call(0, "add", (2,))) == 2
    assert _unpack(cell.call(1, "add", (3,))) == 5
    fresh = _Cell(Counter, None, [], {})
    with pytest.raises(WorkerLostError):
        _unpack(fresh.call(2, "add", (1,)))
    with pytest.raises(TypeError):
        _unpack(fresh.call(0, "add", ("text",)))


def test_a_fit_that_loses_workers_again_and_again_gives_up(tmp_path):
    parts = LocalParts(Counter(None))

    def step(now):
        raise WorkerLostError("gone.")

    with pytest.raises(WorkerLostError, match=r"Gave up after 5 attempts.*fit\.npz"):
        iterate(
            parts,
            {},
            lambda now: None,
            step,
            max_iter=9,
            checkpoint=Checkpoint(tmp_path / "fit.npz", ()),
        )
