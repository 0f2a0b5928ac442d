"""Engines: threads, workers of a cluster, files larger than memory.

`python -m benchmarks.engines` prints the table. `python -m benchmarks.engines --mapped 20` fits a
generated file of 20 GB (in --folder, which it empties afterwards) and prints the memory it took.
"""

import argparse
import os
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bagwise import Bags
from bagwise.classification import PrimalDualMISVM
from bagwise.compute import place
from bagwise.solvers.margin import primal_dual

from .harness import Fact, Row, growth, race_iterations, seconds, table

K, D = 5, 128


def fit(bags, y, n_iter, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PrimalDualMISVM(
            solver="inexact", max_iter=n_iter, tol=0.0, random_state=0, **options
        )
        return model.fit(bags, y)


def drawn(n_instances, n_features=D, size=10):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_instances, n_features))
    y = np.arange(n_instances // size) % K
    X[::size, :K] += 2 * np.eye(K)[y]
    return Bags(X, np.arange(0, n_instances + 1, size)), y


@contextmanager
def cores(n):
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(n)
    with threadpool_limits(n):
        yield
    if before is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = before


def per_iteration(bags, y, few=2, many=12, rounds=3):
    """Seconds of one iteration, in each round: a tenth of the cost of ten more iterations."""
    return race_iterations(lambda n: fit(bags, y, n), lambda: None, few, many, rounds)[0]


def threads(n_instances):
    bags, y = drawn(n_instances)
    with cores(2):
        two = per_iteration(bags, y)
    with cores(1):
        one = per_iteration(bags, y)
    what = f"pdMISVM iteration on two threads, {n_instances:,} x {D}, K = {K}"
    yield Row(what, two, "one thread", one, "0.5 at best")


def sizes(n_instances):
    """Growth of the time of an iteration with the number of instances."""
    counts = [n_instances // 8, n_instances // 4, n_instances // 2, n_instances]
    times = [min(per_iteration(*drawn(n))) for n in counts]
    curve = ", ".join(f"{n:,}: {1e3 * t:.0f} ms" for n, t in zip(counts, times, strict=True))
    what = f"growth of a pdMISVM iteration with the instances ({curve}): exponent"
    yield Fact(what, f"{growth(counts, times):.2f}", "1")


def loopback():
    """Bytes sent over the loopback device so far, or None if the system does not report them."""
    try:
        lines = Path("/proc/net/dev").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))
    except (OSError, StopIteration):
        return None


def cluster(n_instances):
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return
    bags, y = drawn(n_instances)
    with cores(2):
        here = per_iteration(bags, y)
    times = {}
    for n_workers in (1, 2):
        workers = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        with workers, Client(workers, direct_to_workers=True) as client:
            away = bags.distribute(client)
            times[n_workers] = per_iteration(away, y)
            if n_workers == 2:
                yield from traffic(client)
                yield from calls(away)
    what = f"pdMISVM iteration, two Dask workers of one core, {n_instances:,} x {D}"
    yield Row(what, times[2], "one process on two cores", here, "<= 1.25")
    yield Row(what, times[2], "one Dask worker", times[1], "0.5 at best")


def traffic(client, width=1024):
    """Bytes on the wire per iteration against the cost model: X'R up, the step down."""
    bags, y = drawn(5000, width)
    away = bags.distribute(client)
    counts = []
    for n_iter in (5, 25):
        before = loopback()
        if before is None:
            return
        fit(away, y, n_iter)
        counts.append(loopback() - before)
    measured = (counts[1] - counts[0]) / 20
    expected = away.npartitions * 2 * K * width * 8
    yield Fact(
        f"bytes on the wire per iteration, two workers, K = {K}, d = {width}",
        f"{measured / 1e3:.1f} kB",
        f"2 P K d 8 = {expected / 1e3:.1f} kB + O(K) and headers",
    )


class Idle:
    """A part that does nothing."""

    def __init__(self, bags):
        pass

    def nothing(self):
        return 0


def calls(away, n_rounds=200):
    """Overhead of a round of calls; an iteration of pdMISVM has two rounds."""
    with place(away, Idle) as parts:
        parts.total("nothing")
        took = seconds(lambda: [parts.total("nothing") for _ in range(n_rounds)]) / n_rounds
    yield Fact(
        "an empty round over two workers", f"{1e3 * took:.2f} ms", "small beside an iteration"
    )


def anonymous_memory():
    """Resident memory of this process without mapped files, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


@contextmanager
def watched_memory(found):
    """Append the peak of `anonymous_memory` to `found`."""
    done = threading.Event()
    peak = [anonymous_memory()]

    def watch():
        while not done.wait(0.02):
            peak[0] = max(peak[0], anonymous_memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield
    done.set()
    watcher.join()
    found.append(peak[0])


def mapped(gigabytes, folder=None):
    """Five iterations on a generated file: 1,024 features in single precision, K = 5."""
    width, size = 1024, 20
    n = int(gigabytes * 1e9 / (4 * width)) // size * size
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "instances.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, width))
        rng = np.random.default_rng(0)
        y = np.arange(n // size) % K
        shift = np.eye(K, width, dtype=np.float32) * 3
        for start in range(0, n, 50 * 1000):
            block = X[start : start + 50 * 1000]
            rng.standard_normal(block.shape, dtype=np.float32, out=block)
            block[::size] += shift[y[start // size : (start + len(block)) // size]]
        X.flush()
        del X, block
        bags = Bags(np.load(path, mmap_mode="r"), np.arange(0, n + 1, size))
        warm = Bags(np.array(bags.instances[:2000]), bags.offsets[:101])
        fit(warm, y[:100], 1)  # compiles
        found = []
        start = time.perf_counter()
        with watched_memory(found):
            fit(bags, y, 5)
        took = time.perf_counter() - start
        size_of_file = f"{n * width * 4 / 1e9:.2f} GB ({n:,} rows)"
        what = f"pdMISVM, five iterations on a mapped file of {size_of_file}"
        goal = "< 3 GB at 20 GB"
        yield Fact(what, f"{found[0] / 1e9:.2f} GB of its own memory, {took:.0f} s", goal)
        one, once = iterations_from_disk(path, bags, y)
    what = f"an inexact iteration on a mapped file of {size_of_file} that is not in memory"
    yield Row(what, one, "reading the file once", once, "<= 1.3 x")


def forget(path):
    """Drop a file from the page cache of the system."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path):
    """Read a file as `cat` does."""
    block = bytearray(2**20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(block):
            pass


def iterations_from_disk(path, bags, y, max_iter=6):
    """Seconds of each iteration on a file larger than memory, and of reading the file before it."""
    ours, reading = [], []

    def track(steps):
        for step in steps:
            forget(path)
            reading.append(seconds(lambda: read(path)))
            forget(path)
            start = time.perf_counter()
            yield step
            ours.append(time.perf_counter() - start)

    too_little = bags.instances.nbytes - 1
    with mock.patch.object(primal_dual, "available_memory", return_value=too_little):
        primal_dual.primal_dual(
            primal_dual.LinearSpace(bags), y, K, C=1.0, mu=1e-4, rho=1.2, max_iter=max_iter,
            tol=0.0, exact=False,
            weights=np.ones(len(y)), rng=np.random.RandomState(0), track=track,
        )  # fmt: skip
    return ours, reading


def rows(n_instances=500_000):
    yield from threads(n_instances)
    yield from sizes(n_instances)
    yield from cluster(n_instances)
    yield from mapped(0.4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=500_000)
    parser.add_argument("--mapped", type=float, default=None, metavar="GB")
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    if arguments.mapped is not None:
        found = list(mapped(arguments.mapped, arguments.folder))
    else:
        found = list(rows(arguments.instances))
    print(table(found))


if __name__ == "__main__":
    main()
