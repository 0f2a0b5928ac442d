"""Tables larger than memory: cross-validation and a fit on principal components, read in blocks.

`python -m benchmarks.large_tables --gigabytes 20 --folder /scratch` draws a memory-mapped file of
20 GB there (5 million instances of 1,024 features), measures, and removes it. Each measurement runs
in its own process; its peak is the largest resident memory, mapped pages included. `--only pdMISVM`
runs only the measurements whose names start with pdMISVM.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from bagwise import Bags

from .harness import Fact

WIDTH, RANK, SIZE = 1024, 24, 1000  # features, directions with signal, instances of a bag
POOL = 20_000  # rows of noise that are drawn; each block uses them in another order


def draw(path, gigabytes, seed=0):
    """Write instances to a file, block by block; return the number of bags."""
    rng = np.random.default_rng(seed)
    n_bags = max(20, int(gigabytes * 1e9 / (4 * WIDTH * SIZE)))
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_bags * SIZE, WIDTH))
    noise = rng.standard_normal((POOL, WIDTH), dtype=np.float32)
    directions = rng.standard_normal((RANK, WIDTH)).astype(np.float32)
    for i in range(n_bags):
        hidden = rng.standard_normal((SIZE, RANK)).astype(np.float32)
        if i % 2:  # one instance in fifty shows the label
            hidden[: SIZE // 50, 0] += 4
        rows = X[i * SIZE : (i + 1) * SIZE]
        np.matmul(hidden, directions, out=rows)
        rows += noise[rng.integers(POOL, size=SIZE)]
    X.flush()
    return n_bags


def opened(path, n_bags, *, mapped=True):
    """The first bags of the file, and their labels."""
    X = np.load(path, mmap_mode="r")[: n_bags * SIZE]
    X = X if mapped else np.array(X)
    return Bags(X, np.arange(0, len(X) + 1, SIZE)), np.arange(n_bags) % 2


def cross_validated(bags, y):
    """Accuracy of trees on statistics of bags, in five folds."""
    from bagwise.evaluate import evaluate
    from bagwise.evaluate._baselines import pooled_trees

    return evaluate(pooled_trees(n_estimators=50), bags, y).scores["accuracy"]


def fitted(bags, y):
    """Scores of some bags by pdMISVM on 64 principal components, fitted to all."""
    from bagwise.auto._methods import find_method, make_model

    model = make_model(
        find_method("pdmisvm"), {"max_iter": 50}, scale=True, sparse=False, pca=64
    ).fit(bags, y)
    return model.decision_function(bags[:20]).tolist()


TASKS = {"five folds of BagStatistics + trees": cross_validated, "pdMISVM, PCA(64)": fitted}


def measure(path, n_bags, mapped, name):
    """Run a task in this process, and print its result as JSON."""
    warnings.simplefilter("ignore")
    bags, y = opened(path, n_bags, mapped=mapped)
    start = time.perf_counter()
    found = TASKS[name](bags, y)
    seconds = time.perf_counter() - start
    print(json.dumps({"found": found, "seconds": seconds, "peak": peak_memory()}))


def peak_memory():
    """Largest resident memory of this process, in GiB, mapped pages included (Linux).

    ``ru_maxrss`` would include the memory of the parent process, which has drawn the file.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def measured(path, n_bags, name, *, mapped=True):
    """Run `measure` in a separate process."""
    words = ["--measure", str(path), str(n_bags), name, "mapped" if mapped else "memory"]
    command = [sys.executable, "-m", "benchmarks.large_tables", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def rows(gigabytes=0.2, folder=None, only=""):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "instances.npy"
        start = time.perf_counter()
        n_bags = draw(path, gigabytes)
        seconds = time.perf_counter() - start
        yield Fact(f"draw {n_bags * SIZE:,} x {WIDTH} to a file", f"{seconds:.0f} s", "")
        for name in (name for name in TASKS if name.startswith(only)):
            found = measured(path, n_bags, name)
            what = f"{name}, {path.stat().st_size / 1e9:.1f} GB mapped"
            value = f"{found['peak']:.2f} GiB resident, {found['seconds']:.0f} s"
            yield Fact(what, value, "< 4 GiB at 20 GB")
            few = min(n_bags, 100)  # run also in memory, and compare the results
            there, here = (measured(path, few, name, mapped=m)["found"] for m in (True, False))
            apart = float(np.abs(np.array(there) - here).max())
            yield Fact(f"{name}, {few} bags: mapped - in memory", f"{apart:.2g}", "0")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--only", default="")
    parser.add_argument("--measure", nargs=4, default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        path, n_bags, name, where = arguments.measure
        measure(path, int(n_bags), where == "mapped", name)
        return
    for row in rows(arguments.gigabytes, arguments.folder, arguments.only):
        print(row, flush=True)


if __name__ == "__main__":
    main()
