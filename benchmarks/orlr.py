"""ORed logistic regression: one E-step, growth, a fit, memory."""

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.exceptions import DataNotFoundError
from bagwise.loops.threads import one_core_if_few
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, infer
from reproduction.bag_data import load_dataset

from .harness import Fact, Row, growth

sys.path.append(str(Path(__file__).parent.parent / "tests" / "annotation"))


def one_bag(n, k):
    """A function that computes the posterior of a bag of n instances and k labels."""
    scores = np.random.default_rng(0).normal(size=(n, k))
    bag_sets = BagLabelSets(
        np.array([0, n]), np.ones((1, k), np.int8), background=False, max_operations=np.inf
    )
    return scores, lambda: infer(bag_sets, slice(0, 1), scores)


def best(run, rounds=5, clock=time.process_time):
    """Shortest time of a few runs on one thread, after a run that compiles."""
    times = []
    for _ in range(rounds + 1):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times[1:])


def quadratic():
    from orlr_oracle import paper_dp

    scores, ours = one_bag(1000, 8)
    p = softmax(scores, axis=1)
    paper_dp(p[:10])  # compiles
    other = best(lambda: paper_dp(p), 1)
    yield Row("E-step of a bag, n = 1,000, k = 8", best(ours), "the paper's DP", other, "<= 1/300")


def scaling():
    sizes = [100, 300, 1000, 3000, 10_000]
    times = [best(one_bag(n, 8)[1]) for n in sizes]
    yield Fact(
        "growth of an E-step in n, 100 to 10,000, k = 8",
        f"exponent {growth(sizes, times):.2f}",
        "<= 1.1",
    )
    yield Fact(
        "E-step of a bag, n = 1,000, k = 12", f"{best(one_bag(1000, 12)[1]):.3f} s", "< 0.2 s"
    )
    yield Fact("the same, n = k = 20", f"{best(one_bag(20, 20)[1], 3):.3f} s", "")


def birds():
    try:
        data = load_dataset("hja_birdsong")
    except DataNotFoundError:
        return
    rows = StandardScaler().fit_transform(data.bags.instances)
    bags = data.bags.with_instances(rows)
    with one_core_if_few(rows.size), warnings.catch_warnings():
        warnings.simplefilter("error")
        for tol in (1e-4, 1e-5):
            model = ORedLogisticRegression(tol=tol)
            ours = best(lambda m=model: m.fit(bags, data.label_sets), 3, time.perf_counter)
            supervised = LogisticRegression(max_iter=5000, tol=tol)
            other = best(
                lambda m=supervised: m.fit(rows, data.instance_labels), 3, time.perf_counter
            )
            yield Row(
                f"fit on HJA, tol = {tol:g}",
                ours,
                "LogisticRegression on true labels",
                other,
                "< 10",
            )


PEAK = """
from pathlib import Path
from benchmarks.orlr import one_bag

def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

one_bag(10, 12)[1]()
before = peak()
one_bag(100_000, 12)[1]()
print(peak() - before)
"""


def memory():
    """Peak memory of a separate process: tracemalloc does not see what numba allocates."""
    if not Path("/proc/self/status").exists():  # only Linux reports the peak of a process
        return
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=root, capture_output=True, text=True, check=True
    )
    yield Fact(
        "peak of an E-step, n = 100,000, k = 12", f"{int(done.stdout) / 1e3:.0f} MB", "< 1,000 MB"
    )


def rows():
    for part in (quadratic, scaling, birds, memory):
        yield from part()
