"""Time of `read_bags` against reading the same file with the library of its format."""

import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bagwise.io import read_bags

from .harness import Fact, Row, race

GOAL = "3 x at most"


def rows():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from hdf5(folder / "slides", rng)
        yield from parquet(folder, rng)
        yield from csv(folder, rng)


def hdf5(folder, rng, n_files=10_000):
    folder.mkdir()
    for i in range(n_files):
        with h5py.File(folder / f"slide_{i:05d}.h5", "w") as file:
            file["features"] = rng.normal(size=(20, 16)).astype(np.float32)
            file["coords"] = np.zeros((20, 2), dtype=int)

    def plain():
        for path in sorted(folder.iterdir()):
            with h5py.File(path, "r") as file:
                file["features"][()], file["coords"][()]

    ours, other = race(lambda: read_bags(folder), plain, rounds=1)
    yield Row(f"a folder of {n_files} HDF5 files", ours, "h5py, each opened once", other, GOAL)


def parquet(folder, rng, n_columns=20_000):
    for kind in (float, int):
        path = folder / f"{kind.__name__}.parquet"
        values = (100 * rng.normal(size=(50, n_columns))).astype(kind)
        columns = {f"f{j}": values[:, j] for j in range(n_columns)}
        pq.write_table(pa.table({"bag": np.arange(50) // 5} | columns), path)
        ours, other = race(lambda p=path: read_bags(p), lambda p=path: pq.read_table(p), rounds=3)
        what = f"a Parquet table of {n_columns} {kind.__name__} columns"
        yield Row(what, ours, "pyarrow.parquet.read_table", other, GOAL)


def csv(folder, rng, n_columns=100_000, n_bags=200_000):
    path = folder / "ids.csv"
    lines = (f"{i:032x},{i % 2},{i / 7}\n" for i in range(n_bags))
    path.write_text("bag,label,x\n" + "".join(lines))
    ours, other = race(lambda: read_bags(path), lambda: pa.csv.read_csv(path), rounds=3)
    yield Row(f"a CSV file of {n_bags} bag ids", ours, "pyarrow.csv.read_csv", other, "")
    path = folder / "wide.csv"
    with open(path, "w") as file:
        file.write("bag," + ",".join(f"f{j}" for j in range(n_columns)) + "\n")
        for i in range(20):
            file.write(f"b{i // 2}," + ",".join(f"{v:.4f}" for v in rng.normal(size=n_columns)))
            file.write("\n")
    ours, other = race(lambda: read_bags(path), lambda: pa.csv.read_csv(path), rounds=1)
    yield Row(f"a CSV file of {n_columns} columns", ours, "pyarrow.csv.read_csv", other, GOAL)
    used = [peak_memory(f"{read}({str(path)!r})") for read in ("read_bags", "csv.read_csv")]
    value = f"{used[0]:.1f} GB (pyarrow.csv: {used[1]:.1f} GB)"
    yield Fact(f"its peak memory, a file of {path.stat().st_size / 1e6:.0f} MB", value, "")


def peak_memory(call):
    """Peak memory of a call in a fresh process, in gigabytes."""
    code = (
        "import resource; from pyarrow import csv; from bagwise.io import read_bags; "
        f"{call}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
