"""Fits that lose workers."""

import asyncio
import os
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM
from bagwise.engines import Checkpoint, checkpoint, connection, iterate, parts
from bagwise.engines.parts import DaskParts, LocalParts
from bagwise.exceptions import WorkerLostError
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA
from bagwise.solvers.annotation.orlr import ored_logistic
from checks import example
from engine_examples import Counter, kill_a_worker, mapped, solve, with_label_sets


@pytest.mark.parametrize(
    ("model", "saving"),
    [
        (ORedLogisticRegression(), False),
        pytest.param(ORedLogisticRegression(solver="em", tol=1e-3), False, marks=pytest.mark.slow),
        pytest.param(MIMLCA(), False, marks=pytest.mark.slow),
        pytest.param(MIMLCA(), True, marks=pytest.mark.slow),
        pytest.param(MultiInstancePLDA(), True, marks=pytest.mark.slow),
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
    real, calls = DaskParts.each, []

    def each(self, method, *args, own=None):
        calls.append(method)
        if len(calls) == 4:
            kill_a_worker(away)
        return real(self, method, *args, own=own)

    rebuilt = []
    rebuild = DaskParts.rebuild
    monkeypatch.setattr(DaskParts, "each", each)
    monkeypatch.setattr(DaskParts, "rebuild", lambda self: rebuilt.append(rebuild(self)))
    model.fit(away, sets)
    assert rebuilt
    np.testing.assert_allclose(getattr(model, learned), expected, rtol=1e-12)


class KillAWorker:
    """Ends the process of a worker in the middle of a fit, at some of its iterations."""

    def __init__(self, bags, at):
        self.bags, self.at, self.seen = bags, at, []

    def __call__(self, turns):
        for turn in turns:
            if turn in self.at:
                kill_a_worker(self.bags)
            self.seen.append(turn)
            yield turn


@pytest.mark.parametrize("saving", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fit_survives_the_loss_of_workers(client, saving, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    path = tmp_path / "fit.npz" if saving else None
    away = bags.distribute(client, npartitions=2)
    killer = KillAWorker(away, at=[10, 12])
    expected = solve(away, codes)
    real, steps = DaskParts.each, []

    def each(self, method, *args, own=None):
        steps.append(method)
        return real(self, method, *args, own=own)

    monkeypatch.setattr(DaskParts, "each", each)
    found = solve(away, codes, killer, path)
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    np.testing.assert_array_equal(found.objective_curve, expected.objective_curve)
    assert killer.seen == list(range(40))  # progress is shown once, though steps are made again
    assert steps.count("begin") == (1 if saving else 3)  # from the checkpoint, or from the start
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sums_in_a_tree_survive_the_loss_of_a_worker(client, monkeypatch):
    monkeypatch.setattr(parts, "FAN", 2)
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    away = bags.distribute(client, npartitions=6)
    expected = solve(away, codes)
    found = solve(away, codes, KillAWorker(away, at=[10]))
    np.testing.assert_array_equal(found.solution[0], expected.solution[0])
    assert_no_actors(client)


def test_a_loss_is_no_iteration_for_callbacks(monkeypatch):
    bags, y = example(30)
    model = PrimalDualMISVM(C=1, max_iter=30, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning):
        expected = model.fit(bags, y).coef_
    real, calls = LocalParts.each, []

    def each(self, method, *args, own=None):
        calls.append(method)
        if calls.count("change") in (5, 20, 40) and method == "change":
            raise WorkerLostError("a worker was lost.")
        return real(self, method, *args, own=own)

    monkeypatch.setattr(LocalParts, "each", each)
    with pytest.warns(ConvergenceWarning):  # and no error of scikit-learn's callbacks
        model.fit(bags, y)
    np.testing.assert_array_equal(model.coef_, expected)
    assert model.n_iter_ == 30
    assert calls.count("begin") == 4


def test_a_checkpoint_beyond_the_budget_is_the_end(tmp_path):
    parts, path = Parts(Counter(None)), tmp_path / "fit.npz"

    def step(now):
        parts.total("add", 1)
        return False

    Checkpoint(path, ()).save({"n_iter": 9}, parts)
    end = iterate(parts, {}, print, step, max_iter=9, checkpoint=Checkpoint(path, ()))
    assert end["n_iter"] == 9
    assert parts.part.value == 0


def test_a_worker_that_is_lost_at_the_same_step_again_and_again_ends_the_fit():
    parts = Parts(Counter(None))

    def step(now):
        if now["n_iter"] == 3:
            raise WorkerLostError("a worker was lost.")
        return False

    with pytest.raises(WorkerLostError, match="Gave up after 5 attempts"):
        iterate(parts, {}, lambda now: None, step, max_iter=9)


def test_nobody_waits_for_a_worker_that_is_gone(client, monkeypatch):
    from bagwise.engines import connection

    monkeypatch.setattr(connection, "WATCH", 0.1)
    gone = "tcp://127.0.0.1:1"
    never = client.submit(abs, 1, workers=[gone], pure=False)
    with pytest.raises(WorkerLostError, match="is gone"):
        connection.wait(client, [never], {gone})
    assert connection.results(client, [client.submit(abs, -1, pure=False)], {gone}) == [1]


class FakeClient:
    """A client whose scheduler answers as it is told."""

    def __init__(self, answer, status="running"):
        self.status, self.loop = status, self
        self.asyncio_loop = asyncio.new_event_loop()
        self.scheduler = SimpleNamespace(address="tcp://nowhere:1", ncores=answer, who_has=answer)
        threading.Thread(target=self.asyncio_loop.run_forever, daemon=True).start()


def test_a_busy_event_loop_is_no_loss():
    class Ended:
        """A call that has ended, whose result passes through a loop that is busy for 3 s."""

        def __init__(self, error=None):
            self.error = error

        def done(self):
            return True

        def result(self, timeout):
            if self.error or timeout < 3:
                raise TimeoutError("the worker" if self.error else "the loop")
            return 5

    actor = SimpleNamespace(status="finished")
    assert connection.actor_results(None, [Ended()], [actor], set()) == [5]
    with pytest.raises(WorkerLostError, match="the worker"):
        connection.actor_results(None, [Ended("lost")], [actor], set())


def test_no_worker_is_an_error_soon(monkeypatch):
    pytest.importorskip("distributed")
    from bagwise.engines import connection

    async def nobody():
        return {}

    monkeypatch.setattr(connection, "PATIENCE", 0.3)
    with pytest.raises(WorkerLostError, match=r"has no workers.*start some") as caught:
        connection.workers_of(FakeClient(nobody))
    assert caught.value.final  # nobody tries again
    late = iter([{}, {}, {"tcp://a:1": 1}])

    async def later():
        return next(late)

    assert connection.workers_of(FakeClient(later)) == ["tcp://a:1"]


def test_a_scheduler_that_is_gone_or_silent_is_an_error_soon(monkeypatch):
    pytest.importorskip("distributed")
    from bagwise.engines import connection

    monkeypatch.setattr(connection, "WATCH", 0.05)
    monkeypatch.setattr(connection, "RECONNECT", 0.1)
    monkeypatch.setattr(connection, "REPLY", 0.3)

    async def silence(**options):
        await asyncio.sleep(60)

    for status in ("closed", "connecting"):
        with pytest.raises(WorkerLostError, match="tcp://nowhere:1 is gone") as caught:
            connection.worker_addresses(FakeClient(silence, status))
        assert caught.value.final
    with pytest.raises(WorkerLostError, match="did not answer"):
        connection.worker_addresses(FakeClient(silence))

    for error in (ConnectionResetError("closed"), KeyError("tcp://127.0.0.1:42259")):

        async def broken(error=error, **options):
            raise error

        with pytest.raises(WorkerLostError, match=type(error).__name__) as caught:
            connection.worker_addresses(FakeClient(broken))
        assert not caught.value.final


def _refuse(bags, *, file, only=None):
    with open(file, "a") as log:
        log.write("called\n")
    if only is None or only in bags.ids:
        raise ValueError("this is mine")
    return bags


@pytest.mark.parametrize("only", [None, "b20"])
def test_an_error_of_a_function_comes_through_at_once(client, tmp_path, only):
    bags, _ = example(30)
    away = bags.distribute(client, npartitions=2)
    log = tmp_path / "log"
    with pytest.raises(ValueError, match=r"^this is mine$"):
        away.map(partial(_refuse, file=log, only=only))
    assert log.read_text() == "called\n" * 2  # once per partition
    function = partial(_refuse, file=log, only=only)
    with pytest.raises(ValueError, match=r"^this is mine$"):
        away.transformed(function).map(len)  # in the second partition only, seen when it is used
    assert log.read_text().count("called") <= 5


def test_a_part_that_lost_its_state_says_so():
    pytest.importorskip("distributed")
    from bagwise.engines.connection import unpack
    from bagwise.engines.parts import _Actor

    cell = _Actor(Counter, None, [], {})
    assert unpack(cell.call(0, "add", (2,))) == 2
    assert unpack(cell.call(1, "add", (3,))) == 5
    fresh = _Actor(Counter, None, [], {})
    with pytest.raises(WorkerLostError):
        unpack(fresh.call(2, "add", (1,)))
    with pytest.raises(TypeError):
        unpack(fresh.call(0, "add", ("text",)))


def test_a_fit_that_loses_workers_again_and_again_gives_up(tmp_path):
    parts = Parts(Counter(None))

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


@pytest.mark.parametrize("solver", ["lbfgs", "em"])
def test_an_error_outside_the_parts_frees_the_workers(client, solver):
    bags, sets = with_label_sets()
    away = bags.distribute(client, npartitions=2)

    def track(turns):
        yield next(iter(turns))
        raise ValueError("this is mine")

    with pytest.raises(ValueError, match="this is mine") as caught:
        ored_logistic(
            away, sets, background=False, max_operations=1e9, weights=np.ones(len(bags)), reg=1.0,
            fit_intercept=True, solver=solver, max_iter=9, tol=1e-9, track=track,
        )  # fmt: skip
    assert_no_actors(client)
    assert caught.tb  # the error still holds its frames, and with them the parts


def test_parts_are_released_where_the_scheduler_is_gone():
    client = FakeClient(None, status="closed")
    parts = DaskParts.__new__(DaskParts)
    parts.partitions, parts._actors, parts._futures = SimpleNamespace(client=client), [1], [1]
    start = time.monotonic()
    with parts:
        pass
    assert time.monotonic() - start < 1
    assert not parts._futures


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mapped", "cluster"])
def test_an_interrupt_ends_a_fit_and_frees_the_workers(engine, request, tmp_path, monkeypatch):
    bags, y = example(40, n_classes=3)
    codes = np.unique(y, return_inverse=True)[1]
    client = request.getfixturevalue("client") if engine == "cluster" else None
    away = mapped(bags, tmp_path) if client is None else bags.distribute(client, npartitions=2)
    begun, times = threading.Event(), []

    def interrupt():
        begun.wait()
        time.sleep(0.2)
        times.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def track(turns):
        for turn in turns:
            begun.set()
            yield turn

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        solve(away, codes, track, max_iter=10**6)
    assert time.monotonic() - times[0] < 1
    if client is not None:
        assert_no_actors(client)
        assert len(away.collect()) == 40  # the bags stay


def assert_no_actors(client):
    end = time.monotonic() + 10
    while actors := client.run_on_scheduler(_actors):
        assert time.monotonic() < end, actors
        time.sleep(0.1)


def _actors(dask_scheduler):
    return [str(task.key) for task in dask_scheduler.tasks.values() if task.actor]
