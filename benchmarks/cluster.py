"""Cost of a call for the client of a Dask cluster: `python -m benchmarks.cluster`.

The parts send and receive a table of weights, as in an iteration of pdMISVM. Many parts share a few
workers, which determine the wall-clock time of a sum. With `--workers 64` each part has its own
process, if the memory suffices (some 150 MB each).
"""

import argparse
import time

import numpy as np

from bagwise import Bags
from bagwise.compute import Part, place

SHAPE = 25, 1024  # K classes, d features


class Weights(Part):
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
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 8, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    W = np.zeros(SHAPE)
    cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        print("| parts | a call that reads | a call that changes the parts |")
        print("|---:|---:|---:|")
        for n in options.parts:
            bags = Bags(np.zeros((n, 1)), np.arange(n + 1)).distribute(client, npartitions=n)
            with place(bags, Weights, np.arange(n)) as placed:
                calls = [
                    seconds(lambda f=f: f("change", W), options.times)
                    for f in (placed.total, placed.step)
                ]
            cells = [f"{cpu:.3f} s of CPU, {wall:.2f} s" for cpu, wall in calls]
            print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
