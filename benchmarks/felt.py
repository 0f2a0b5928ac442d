"""What a user waits for: commands and fits in CPU seconds, then the rows of `methods`.

CPU seconds of all threads and processes, by `resource.getrusage`; commands run in new processes
with a warm compilation cache, unless a row says that it is empty. The plain alternation is written
out below, over scikit-learn's SVC.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise.auto import AutoBagClassifier
from bagwise.auto._members import default_members
from bagwise.auto._methods import METHODS
from bagwise.classification import (
    BagMarginSVM,
    InstanceMarginSVM,
)
from bagwise.datasets import load_dataset, load_musk1, make_bags
from bagwise.exceptions import DataNotFoundError
from bagwise.io import read_bags
from bagwise.loops.threads import library_cores

from . import methods
from .harness import Fact, Row

FITS = {"musk1": 0.8, "elephant": 3.0}  # CPU seconds of an automatic fit
REAL_FITS = {"real_birds_cosmos": 10.0, "real_colon_nuclei": 20.0}
OF_SETS = ("c2b", "mimlca", "plda", "orlr", "ored-classifier", "ranklosssim", "m3miml")


# Why rows miss their goals, and what was tried; below the table of RESULTS.md.
MISSED = """Rows that miss their goals, and why:

- `bagwise evaluate`: the automatic fits and the trees of the baseline take two thirds, the import
  of scikit-learn (with SciPy's statistics, rich, and pandas if it is there) and numba a quarter.
  Folds do not run on all cores by default: each process would import the same again, and threads
  share the filters of warnings and the number of BLAS threads, which are global. With two threads
  the results were the same, in 1.0 x the CPU seconds and .8 to 1.1 x the time (a busy machine).
- Real sets: in birds ten classes are fitted one against the rest. The linear programs of MILES, the
  stumps of MILBoost and the systems of MI-SVM take a fifth to a quarter each; classes share the
  distances, the sorted features and the kernel. Tried: predictor and corrector in the program (a
  third fewer factorisations, but other weights in a class whose optimum is nearly degenerate), and
  a loose program until no feature is missing (as slow: the last program is solved twice).
- Empty cache: each compiled function takes a tenth to a whole second, WellSVM's step under several
  label vectors and PLDA's recursion over label sets most. Logarithms are compiled when they are
  needed; compiled code assigns no arrays and sorts only for quantiles. Tried without gain: fewer
  optimisations of LLVM, divisions without a test for zero, functions without an entry for Python,
  calls instead of inlined steps.
- CSV: pyarrow alone takes longer than polars to convert the numbers, and the ids are read in a
  pass of their own before the features. Tried without gain: blocks of 256 kB to 16 MB, a file
  without line breaks in cells, a mapped file."""


def used():
    """CPU seconds of this process and of finished child processes, until now."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(times.ru_utime + times.ru_stime for times in each)


def cpu_seconds(run):
    """CPU seconds of a call."""
    start = used()
    run()
    return used() - start


def best(run, rounds=3):
    """The least CPU seconds of some calls, after a warm-up."""
    run()
    return min(cpu_seconds(run) for _ in range(rounds))


def process(*words, folder=None, **variables):
    """Run Python in a new process; return its output."""
    environment = os.environ | variables
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as an installed package
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True
    ).stdout


def commands():
    """`info` and `evaluate` of Musk1 on the command line."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        run = partial(process, "-m", "bagwise", folder=folder)
        run("datasets", "export", "musk1", "-o", "musk1.csv")
        yield Fact("`bagwise --help`", f"{best(partial(run, '--help')):.2f} s", "")
        columns = ("musk1.csv", "--bag", "bag", "--label", "label")
        yield Fact(
            "`bagwise info musk1.csv`", f"{best(partial(run, 'info', *columns)):.2f} s", "0.8 s"
        )
        whole = partial(run, "evaluate", *columns)
        default, one = best(whole, 1), best(partial(whole, OMP_NUM_THREADS="1"), 1)
        yield Fact("`bagwise evaluate musk1.csv`", f"{default:.1f} s", "5 s")
        yield Fact("its default threads against one", f"{default / one:.2f} x", "1.05 x")
        empty = cpu_seconds(partial(whole, OMP_NUM_THREADS="1", NUMBA_CACHE_DIR=cache))
        yield Fact("an empty compilation cache adds", f"{empty - one:.1f} s", "2 s")


def first_fits():
    """Print the CPU seconds of the first fit and prediction of each method of the list, as JSON."""
    data, found = make_bags(30, 5, random_state=0), {}
    sets = np.column_stack([data.y, 1 - data.y, np.arange(30) % 2])
    for name in [name for name, method in METHODS.items() if method.available and name != "auto"]:
        model = METHODS[name].make({})

        def run(model=model, y=sets if name in OF_SETS else data.y):
            model.fit(data.bags, y).predict(data.bags)

        found[name] = cpu_seconds(run)
    print(json.dumps(found))


def compilation():
    """The first fit of every method of the list, one after the other in one process."""
    with tempfile.TemporaryDirectory() as cache:
        code = "from benchmarks.felt import first_fits; first_fits()"
        found = json.loads(process("-c", code, NUMBA_CACHE_DIR=cache, OMP_NUM_THREADS="1"))
    yield Fact("all methods once, empty compilation cache", f"{sum(found.values()):.0f} s", "15 s")
    slow = {name: round(s, 1) for name, s in found.items() if s > 2}
    slow = ", ".join(f"{name} {s} s" for name, s in sorted(slow.items(), key=lambda x: -x[1]))
    yield Fact("first fits above 2 s", slow or "none", "none")


def automatic():
    """One fit of the automatic choice, and single fits of its members."""
    for name, goal in FITS.items():
        try:
            data = load_musk1() if name == "musk1" else load_dataset(name)
        except DataNotFoundError:
            continue
        whole = best(partial(AutoBagClassifier(random_state=0).fit, data.bags, data.y))
        scaled = StandardScaler().fit_transform(np.asarray(data.bags.instances, float))
        bags, y = data.bags.with_instances(scaled), np.asarray(data.y)
        members = [member.seeded(0) for member in default_members("single")]
        single = best(lambda: [m.fit_all(m.represent(bags), bags, y) for m in members])  # noqa: B023
        yield Fact(f"`AutoBagClassifier` on {name}", f"{whole:.2f} s", f"{goal} s")
        yield Fact("the same against single fits of its members", f"{whole / single:.1f} x", "4 x")


def automatic_on_real_sets():
    """One fit of the automatic choice on sets of the data home; nothing is warmed up."""
    for name, goal in REAL_FITS.items():
        try:
            data = load_dataset(name)
        except DataNotFoundError:
            continue
        y = data.label_sets if data.get("y") is None else data.y
        with library_cores(1):  # threads that wait for each other count as CPU seconds
            seconds = cpu_seconds(partial(AutoBagClassifier(random_state=0).fit, data.bags, y))
        yield Fact(f"`AutoBagClassifier` on {name}, one core", f"{seconds:.0f} s", f"{goal:.0f} s")


def alternation(bags, y, by_bag, C=1.0, max_iter=50):
    """MI-SVM (Andrews 2003; by bag) or mi-SVM with scikit-learn's SVC on an RBF kernel."""
    X, offsets = np.asarray(bags.instances, float), bags.offsets
    positive = np.flatnonzero(y)
    owner = np.repeat(y, np.diff(offsets)).astype(bool)
    machine = SVC(C=C, gamma=1 / (X.shape[1] * X.var()))
    chosen = np.array([X[a:b].mean(axis=0) for a, b in pairwise(offsets)])
    labels, seen = owner.copy(), None
    for _ in range(max_iter):
        if by_bag:
            rows = np.vstack([chosen[positive], X[~owner]])
            target = np.r_[np.ones(len(positive)), np.zeros((~owner).sum())]
        else:
            rows, target = X, labels
        machine.fit(rows, target)
        scores = machine.decision_function(X)
        keys = np.array(
            [offsets[i] + np.argmax(scores[offsets[i] : offsets[i + 1]]) for i in positive]
        )
        labels = owner & (scores > 0)
        labels[keys] = True
        state = keys.tobytes() if by_bag else labels.tobytes()
        if state == seen:
            break
        seen, chosen[positive] = state, X[keys]
    return machine


def classics():
    """MI-SVM and mi-SVM on 100 bags."""
    data = make_bags(100, 10, separation=3.0, bag_size=(3, 8), random_state=0)
    y = np.asarray(data.y)
    for name, model, by_bag in (
        ("MI-SVM", BagMarginSVM(kernel="rbf", threshold="zero"), True),
        ("mi-SVM", InstanceMarginSVM(kernel="rbf", threshold="zero"), False),
    ):
        ours, other = (
            best(partial(model.fit, data.bags, y)),
            best(partial(alternation, data.bags, y, by_bag)),
        )
        yield Row(f"{name}, 100 bags", ours, "plain alternation over SVC", other, "<= 1")


def tables(megabytes=100):
    """Read a CSV file, against polars and pandas."""
    import pandas as pd
    import polars as pl

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        n = megabytes * 1_000_000 // (20 * 20)
        X = np.random.default_rng(0).normal(size=(n, 20))
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(20)])
        frame.insert(0, "bag", np.arange(n) // 50)
        pl.from_pandas(frame).write_csv(path)
        ours = best(partial(read_bags, path, bag="bag"))
        for name, other in (("polars", pl.read_csv), ("pandas", pd.read_csv)):
            yield Row(f"CSV of {megabytes} MB", ours, name, best(partial(other, path)), "<= 1.1")


def rows():
    parts = (commands, compilation, automatic, automatic_on_real_sets, classics, tables)
    for part in (*parts, methods.rows):
        yield from part()
