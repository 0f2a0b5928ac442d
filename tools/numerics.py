"""Check that results are the same on every processor: `make test-numerics`.

    python -m tools.numerics                 # answers of all estimators, then the numerical tests
    python -m tools.numerics --answers       # the answers alone
    python -m tools.numerics --tests tests/cluster   # the tests alone, of one folder

An environment is a kind of processor for OpenBLAS (numpy and scipy carry one each; both read
OPENBLAS_CORETYPE), a number of threads, or a generic processor for numba. In each, a separate
process fits every estimator on small data and stores its results; differences from the first
environment are shown beside the tolerance of the estimator. Labels must be equal, except for a
stated share if the objective of an estimator has several local optima. The numerical tests run in
each environment too, and once in random order.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS = {
    "Prescott": {"pni"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512bw", "avx512vl"},
}
TESTS = [
    *("tests/annotation", "tests/classification", "tests/cluster", "tests/metric_learning"),
    *("tests/semi_supervised", "tests/embedding", "tests/solvers"),
    *("tests/loops", "tests/test_metrics.py", "tests/test_pairwise.py"),
]
# Tolerances: difference of scores relative to the largest score; share of different labels.
DEFAULT = (1e-6, 0.0)
TOLERANCES = {
    # Solvers with tolerance 1e-4: LIBLINEAR, and L-BFGS for a metric.
    "SingleInstanceClassifier": (1e-2, 0.0),
    "MIMLMetric": (1e-3, 0.0),
    # Iterations that amplify the error of each convex problem.
    "RankLossSIM": (1e-3, 0.0),
    "AttentionMIL": (1e-2, 0.02),
    "MINet": (1e-2, 0.02),
}
SINGLE = (5e-2, 0.02)  # all estimators on float32


def environments(only=None):
    """Variables of the environments that this machine can run, by name."""
    flags = set()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")]
        flags = set(lines[0].split()) if lines else set()
    found = {"as it is": {}}
    for kind, needed in NEEDS.items():
        if needed <= flags:
            found[kind] = {"OPENBLAS_CORETYPE": kind}
    for n in ("1", "2", "4"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
        found[f"{n} threads"] = dict.fromkeys(names, n)
    found["generic numba"] = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    return {k: v for k, v in found.items() if only is None or k in ("as it is", *only)}


def settings(extra):
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "SCIPY_ARRAY_API": "1"} | extra


# --- answers ------------------------------------------------------------------------------------


def data_sets():
    """Name, training data, labels and new data: synthetic and shipped bags, sparse and float32."""
    import numpy as np
    from scipy import sparse

    from bagwise import Bags, datasets
    from checks import example

    for n_classes in (2, 3):
        bags, y = example(n_classes=n_classes)
        new, _ = example(n_classes=n_classes, seed=1)
        yield f"drawn, {n_classes} classes", bags, y, new
        yield (
            "sparse",
            *(
                part if part is y else part.with_instances(sparse.csr_array(part.instances))
                for part in (bags, y, new)
            ),
        )
        yield (
            "float32",
            *(
                part if part is y else part.with_instances(part.instances.astype(np.float32))
                for part in (bags, y, new)
            ),
        )
    musk = datasets.load_musk1()
    X = musk.bags.instances.astype(np.float64)
    bags = Bags((X - X.mean(axis=0)) / X.std(axis=0), musk.bags.offsets)
    yield "musk1", bags[::2], np.asarray(musk.y)[::2], bags[1::2]


def all_answers():
    """Results of every estimator: {(estimator, data, method): array}."""
    import numpy as np
    from scipy import sparse
    from sklearn.base import clone
    from sklearn.utils._testing import set_random_state

    from bagwise.base import RowEstimator
    from checks import answers, row_answers, row_example
    from estimators import public_estimators, quick

    warnings.simplefilter("ignore")
    found = {}
    for cls in public_estimators():
        model = quick(cls)
        set_random_state(model, 0)
        takes_sparse = model.__sklearn_tags__().input_tags.sparse
        if isinstance(model, RowEstimator):
            X, y = row_example()
            for name, Z in (("drawn", X), ("float32", X.astype(np.float32))):
                for method, value in row_answers(clone(model).fit(Z, y), Z).items():
                    found[cls.__name__, name, method] = value
            continue
        for name, bags, y, new in data_sets():
            if name == "sparse" and not takes_sparse:
                continue
            key = (cls.__name__, name, str(len(set(y))))
            for method, parts in answers(clone(model).fit(bags, y), new).items():
                dense = [p.toarray() if sparse.issparse(p) else p for p in parts]
                found[(*key, method)] = np.concatenate([np.ravel(part) for part in dense])
    return found


def difference(a, b):
    """Difference of scores relative to the largest score, or share of different labels."""
    import numpy as np

    if a.shape != b.shape:
        return np.inf
    if a.dtype.kind == "f":
        return float(np.abs(a - b).max() / max(np.abs(a).max(), np.finfo(float).tiny))
    return float(np.mean(a != b))


def compare_answers(folder, only=None):
    """Fit all estimators in each environment, print the differences; count the too large ones."""
    stored = {}
    for name, extra in environments(only).items():
        file, started = Path(folder) / f"{len(stored)}.pickle", time.monotonic()
        command = [sys.executable, "-m", "tools.numerics", "--store", str(file)]
        subprocess.run(command, cwd=ROOT, env=settings(extra), check=True)
        stored[name] = pickle.loads(file.read_bytes())
        print(f"{name}: fitted in {time.monotonic() - started:.0f} s", flush=True)
    (first, expected), *others = stored.items()
    worst, failed = {}, []
    for name, found in others:
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            gap, kind = difference(value, found[key]), value.dtype.kind == "f"
            allowed = TOLERANCES.get(key[0], DEFAULT)
            if key[1] == "float32":
                allowed = tuple(map(max, zip(allowed, SINGLE, strict=True)))
            allowed = allowed[0 if kind else 1]
            scores, labels = worst.setdefault((key[0], name), (0.0, 0.0))
            worst[key[0], name] = (max(scores, gap), labels) if kind else (scores, max(labels, gap))
            if gap > allowed:
                failed.append(f"{key}: {gap:.1e} in {name!r}, allowed are {allowed:.1e}")
    print(f"\nLargest difference of scores (and share of other labels) from {first!r}")
    names = [name for name, _ in others]
    print(f"{'':34}", *(f"{name:>14}" for name in names), f"{'allowed':>14}")
    for estimator in sorted({key for key, _ in worst}):
        cells = ["{:.0e} {:4.0%}".format(*worst[estimator, name]) for name in names]
        allowed = "{:.0e} {:4.0%}".format(*TOLERANCES.get(estimator, DEFAULT))
        print(f"{estimator:34}", *(f"{cell:>14}" for cell in cells), f"{allowed:>14}")
    print(*failed, sep="\n")
    return len(failed)


# --- tests --------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items):
    """Shuffle the tests (this file is then a plugin of pytest: ``-p numerics``)."""
    if seed := os.environ.get("BAGWISE_TEST_ORDER"):
        random.Random(seed).shuffle(items)


def run_tests(tests, seed, only=None):
    """Run the numerical tests in each environment, and in random order; count the failed runs."""
    paths = [str(p) for test in tests for p in sorted(ROOT.glob(test)) or [test]]
    failed = 0
    shuffled = {"random order": {"BAGWISE_TEST_ORDER": seed}}
    for name, extra in (environments(only) | shuffled).items():
        print(f"--- {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not network"]
        command += ["-p", "numerics", "-p", "no:cacheprovider", *paths]
        failed += subprocess.run(command, cwd=ROOT, env=settings(extra)).returncode != 0
    return failed


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tools.numerics", description=__doc__)
    parser.add_argument("--answers", action="store_true", help="compare answers alone")
    parser.add_argument("--tests", nargs="*", metavar="PATH", help="run tests alone")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some environments, e.g. Zen")
    parser.add_argument("--seed", default="0", help="of the random order")
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.store:
        options.store.write_bytes(pickle.dumps(all_answers()))
        return 0
    failed = 0
    if options.tests is None:
        with tempfile.TemporaryDirectory() as folder:
            failed += compare_answers(folder, options.only)
    if not options.answers:
        failed += run_tests(options.tests or TESTS, options.seed, options.only)
    print("all the same" if not failed else f"{failed} differences or failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
