"""Cost of an iteration for the client of a Dask cluster: `python -m benchmarks.cluster`.

The parts send and receive a table of weights, as in an iteration of pdMISVM. Here a thousand parts
share a few workers, which determine the wall-clock time of a sum; the CPU time of the client is the
same as with a thousand workers. With `--workers 64` each part has its own process, if the memory
suffices (some 150 MB each).
"""

import argparse
import time

import numpy as np

from bagwise import Bags
from bagwise.engines import parts
from bagwise.engines.parts import DaskParts, Parts

SHAPE = 25, 1024  # K classes, d features


class Weights:
    """A part that returns a table as large as the one it receives."""

    def __init__(self, bags, numbers):
        self.numbers = numbers

    def change(self, W):
        return W + self.numbers.sum()


def seconds(call, times):
    """CPU seconds of this process, and wall-clock seconds, per call."""
    call()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(times):
        call()
    return (time.process_time() - cpu) / times, (time.perf_counter() - start) / times


def main():
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, nargs="+", default=[8, 64, 256, 1000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    W = np.zeros(SHAPE)
    cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        print("| parts | client, all results sent to it | client, sums in a tree | goal |")
        print("|---:|---:|---:|---|")
        for n in options.parts:
            bags = Bags(np.zeros((n, 1)), np.arange(n + 1)).distribute(client, npartitions=n)
            with DaskParts(bags.partitions, Weights, (np.arange(n),), {}) as placed:
                flat = seconds(lambda p=placed: Parts.total(p, "change", W), options.times)
                tree = seconds(lambda p=placed: p.total("change", W), options.times)
            cells = [f"{cpu:.3f} s of CPU, {wall:.2f} s" for cpu, wall in (flat, tree)]
            goal = "<= .2 s" if n >= 1000 else ""
            print(f"| {n:,} | {' | '.join(cells)} | {goal} |", flush=True)
    print(f"A part adds the results of {parts.FAN} others to its own.")


if __name__ == "__main__":
    main()
