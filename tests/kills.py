"""Kill workers, the scheduler or the client of a Dask cluster at random moments of a fit.

``python -m tests.kills --times 20 --seed 0`` kills each 20 times for each system and prints how the
fits ended. Valid outcomes are the result of an undisturbed fit, to the last bit, and a
`WorkerLostError`. After the error, and after the client was killed, a fit on a new cluster must
resume and reach the same result. Anything else is a failure: another error, another result, or no
end within `LIMIT` seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "engines")]

import numpy as np
from distributed import Client, LocalCluster
from sklearn.base import clone

from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM, WellMISVM
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.engines import checkpoint, connection
from bagwise.exceptions import WorkerLostError
from bagwise.metric_learning import MIMLCA
from checks import example
from engine_examples import start_workers_quickly, with_label_sets

LIMIT = 300.0  # seconds after which a fit counts as hanging
START = 60.0  # seconds to wait until Dask replaces a killed worker; rarely it does not
VICTIMS = ["worker", "all workers", "scheduler", "client"]

# Estimators, data, and the fitted attributes that are compared.
SYSTEMS = {
    "pdmisvm": (PrimalDualMISVM(C=1, max_iter=150, tol=1e-15, random_state=0), "coef_"),
    "orlr": (ORedLogisticRegression(tol=1e-9), "coef_"),
    "orlr-em": (ORedLogisticRegression(solver="em", tol=1e-9, max_iter=10), "coef_"),
    "mimlca": (MIMLCA(n_init=8, random_state=0), "components_"),
    "csp": (
        BagConstrainedSpectralClustering(5, affinity="nearest_neighbors", random_state=0),
        "labels_",
    ),
    "wellmisvm": (WellMISVM(kernel="linear"), "coef_"),
}


def data_of(system):
    return example(80, n_classes=3) if system in ("pdmisvm", "wellmisvm") else with_label_sets(80)


def fitted(system, client, path):
    """Fitted arrays of a fit on the cluster."""
    model, learned = SYSTEMS[system]
    model = clone(model)
    if "checkpoint" in model.get_params():
        model.set_params(checkpoint=path)
    bags, y = data_of(system)
    model.fit(bags.distribute(client, npartitions=2), y)
    return [getattr(model, learned), np.asarray(getattr(model, "objective_curve_", 0))]


def prepare():
    """Save a checkpoint after each iteration, send small blocks, and ignore warnings."""
    checkpoint.INTERVAL, checkpoint.SHARE = 0.0, np.inf
    connection.PATIENCE = 120.0  # on a busy machine, a worker takes long to start
    warnings.simplefilter("ignore")


class Cluster:
    """A scheduler in a separate process, and two workers that are restarted when killed."""

    def __init__(self):
        command = [sys.executable, "-m", "tests.kills", "--serve"]
        self.scheduler = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=HERE.parent,
        )  # fmt: skip
        self.address = self.scheduler.stdout.readline().decode().strip()
        self.client = Client(self.address)

    def whole(self):
        """This cluster with two workers, or a new one if Dask does not replace killed workers."""
        try:
            self.client.wait_for_workers(2, timeout=START)
        except TimeoutError:
            self.close()
            return Cluster()
        return self

    def worker_pids(self):
        """Processes of the two workers."""
        while True:
            self.client.wait_for_workers(2, timeout=LIMIT)
            found = list(self.client.run(os.getpid, on_error="ignore").values())
            if len(found) == 2:
                return found
            time.sleep(0.2)

    def close(self):
        with contextlib.suppress(OSError):
            self.scheduler.stdin.close()
        try:
            self.scheduler.wait(20)
        except subprocess.TimeoutExpired:
            self.scheduler.kill()
        self.client.close(timeout=5)


def serve():
    """Run the scheduler until the input of its process ends."""
    start_workers_quickly()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def guarded(function, *args):
    """The result or the error of a function, or None if it does not end."""
    found = []

    def run():
        try:
            found.append(function(*args))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return found[0] if found else None


def judge(found, expected):
    """Classify the end of a fit: "same", "stopped", or a description of the failure."""
    if found is None:
        return f"no end within {LIMIT:g} s"
    if isinstance(found, WorkerLostError):
        return "stopped"
    if isinstance(found, BaseException):
        return f"{type(found).__name__}: {found}"
    same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    return "same" if same else "another answer"


def in_another_process(system, cluster, path, moment):
    """Fit in a process that is killed a moment after its start."""
    command = [sys.executable, "-m", "tests.kills", "--fit", system, cluster.address, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent)
    process.stdout.readline()
    time.sleep(moment)
    process.kill()
    process.wait()
    answer = process.stdout.read()
    return pickle.loads(answer) if answer.endswith(b".") else WorkerLostError("killed")


def attempt(system, victim, cluster, expected, moment, path):
    """Run a fit during which a process is killed; return its result or error."""
    if victim == "client":
        found = in_another_process(system, cluster, path, moment)
    else:
        pids = cluster.worker_pids()
        pids = {
            "worker": pids[:1],
            "all workers": pids,
            "scheduler": [cluster.scheduler.pid],
        }[victim]
        timer = threading.Timer(moment, kill, [pids])
        timer.start()
        found = guarded(fitted, system, cluster.client, path)
        timer.join()
    return found


def run(systems, victims, times, seed):
    prepare()
    rng = random.Random(seed)
    cluster, failures = Cluster(), 0
    for system in systems:
        with tempfile.TemporaryDirectory() as folder:
            fitted(system, cluster.client, None)  # compiles
            start = time.monotonic()
            expected = fitted(system, cluster.client, Path(folder) / "fit.npz")
            duration = time.monotonic() - start
        for victim in victims:
            ends, slowest = Counter(), 0.0
            for _ in range(times):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "fit.npz"
                    moment = rng.uniform(0.0, 1.1 * duration)
                    cluster = cluster.whole()
                    start = time.monotonic()
                    found = attempt(system, victim, cluster, expected, moment, path)
                    slowest = max(slowest, time.monotonic() - start - moment)
                    end = judge(found, expected)
                    if victim == "scheduler" or end not in ("same", "stopped"):
                        cluster.close()
                        cluster = Cluster()
                    if end == "stopped":
                        again = judge(guarded(fitted, system, cluster.client, path), expected)
                        end = f"stopped, resumed: {again}"
                ends[end] += 1
            wrong = sum(n for end, n in ends.items() if not end.endswith("same"))
            failures += wrong
            text = "; ".join(f"{n} x {end}" for end, n in sorted(ends.items()))
            print(f"{system:10s} {victim:12s} {text} (slowest end {slowest:.1f} s)", flush=True)
    cluster.close()
    print(f"{failures} failures")
    return 1 if failures else 0


def fit_here(system, address, path):
    """Fit in the client process that will be killed."""
    prepare()
    with Client(address) as client:
        client.wait_for_workers(2, timeout=LIMIT)
        print("begin", flush=True)
        answer = pickle.dumps(fitted(system, client, path))
    sys.stdout.buffer.write(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--victims", nargs="*", default=VICTIMS, choices=VICTIMS)
    parser.add_argument("--fit", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    if options.fit:
        fit_here(*options.fit)
        return 0
    return run(options.systems, options.victims, options.times, options.seed)


if __name__ == "__main__":
    sys.exit(main())
