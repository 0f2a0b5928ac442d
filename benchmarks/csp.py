"""Spectral clustering with bag constraints: time relative to the neighbour graph, growth, memory.

`python -m benchmarks.csp` runs up to 100,000 instances; `python -m benchmarks.csp 1000000` a
million (with pynndescent, the extra `ann`, as for all sizes of the growth).
"""

import subprocess
import sys

import numpy as np
from sklearn.neighbors import NearestNeighbors

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.metrics import class_purity  # noqa: F401 - used by `measured`

from .harness import Fact, Row, growth, seconds

N_CLASSES, N_MODES, BAG_SIZE, N_FEATURES = 20, 3, 9, 16


def drawn(n_instances, seed=0):
    """Bags of nine instances of one to four of 20 classes; each class has three modes."""
    rng = np.random.default_rng(seed)
    n_bags = n_instances // BAG_SIZE
    centers = np.random.default_rng(0).normal(scale=1.2, size=(N_CLASSES, N_MODES, N_FEATURES))
    n_labels = rng.integers(1, 5, n_bags)
    chosen = rng.random((n_bags, N_CLASSES)).argsort(axis=1)
    picks = rng.integers(0, n_labels[:, None], (n_bags, BAG_SIZE))
    classes = np.take_along_axis(chosen, picks, axis=1).ravel()
    modes = rng.integers(N_MODES, size=len(classes))
    X = centers[classes, modes] + rng.normal(size=(len(classes), N_FEATURES))
    label_sets = np.zeros((n_bags, N_CLASSES), dtype=np.int8)
    label_sets[np.repeat(np.arange(n_bags), BAG_SIZE), classes] = 1
    bags = Bags(X.astype(np.float32), np.arange(0, len(X) + 1, BAG_SIZE))
    return bags, label_sets, classes


def cluster(bags, label_sets, *, n_clusters=N_CLASSES * N_MODES, **options):
    model = BagConstrainedSpectralClustering(n_clusters, random_state=0, **options)
    return model.fit(bags, label_sets)


def measured(n_instances, options):
    """Seconds, peak megabytes and purity of one fit, in a separate process."""
    code = (
        "import resource, sys, time; from benchmarks import csp;"
        f"data = csp.drawn({n_instances});"
        f"csp.cluster(data[0][:200], data[1][:200], **{options!r});"
        "start = time.perf_counter();"
        f"model = csp.cluster(data[0], data[1], **{options!r});"
        "elapsed = time.perf_counter() - start;"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3;"
        "print(elapsed, peak, csp.class_purity(data[2], model.labels_))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return tuple(float(value) for value in done.stdout.split())


def beside_the_graph(n_instances=100_000):
    bags, label_sets, _ = drawn(n_instances)
    X = np.asarray(bags.instances)
    options = {"affinity": "nearest_neighbors"}
    cluster(bags[:200], label_sets[:200], **options)
    graph = min(
        seconds(lambda: NearestNeighbors(n_neighbors=10).fit(X).kneighbors()) for _ in range(2)
    )
    elapsed, peak, purity = measured(n_instances, options)
    what = f"CSP, {n_instances:,} instances, K = 60"
    yield Row(what, elapsed, "the neighbour graph alone", graph, "<= 1.5")
    yield Fact("the same, peak memory of the process", f"{peak:.0f} MB", "<= 1000 MB")
    yield Fact("the same, class purity", f"{purity:.3f}", "")


def posteriors_beside_the_graph(n_instances=100_000):
    """Constraints "posterior": time of the neighbour graph, of a fit of ORLR, and of the rest."""
    bags, label_sets, _ = drawn(n_instances)
    X = np.asarray(bags.instances)
    options = {"affinity": "nearest_neighbors", "constraints": "posterior"}
    cluster(bags[:200], label_sets[:200], **options)
    annotator = ORedLogisticRegression(kernel="rbf", random_state=0)
    graph = seconds(lambda: NearestNeighbors(n_neighbors=10).fit(X).kneighbors())
    naming = seconds(lambda: annotator.fit(bags, label_sets))
    elapsed, peak, purity = measured(n_instances, options)
    what = f"CSP by posteriors, {n_instances:,} instances, K = 60"
    yield Row(what, elapsed, "the neighbour graph, and ORLR", graph + naming, "<= 1.6")
    yield Fact("the same, peak memory of the process", f"{peak:.0f} MB", "")
    yield Fact("the same, class purity", f"{purity:.3f}", "")


def approximate(sizes):
    """Growth with approximate neighbours, and the largest size."""
    options = {"affinity": "nearest_neighbors", "neighbor_search": "approximate"}
    found = [measured(n, options) for n in sizes]
    for n, (elapsed, peak, purity) in zip(sizes, found, strict=True):
        value = f"{elapsed:.1f} s, {peak:.0f} MB, purity {purity:.3f}"
        goal = "<= 600 s, 6000 MB, purity within .02 of 100k" if n >= 1_000_000 else ""
        yield Fact(f"CSP, approximate neighbours, {n:,} instances", value, goal)
    if sizes[-1] < 1_000_000:
        return  # compilation takes most of these seconds
    exponent = growth(sizes, [elapsed for elapsed, _, _ in found])
    yield Fact(f"growth, {sizes[0]:,} to {sizes[-1]:,}", f"exponent {exponent:.2f}", "<= 1.2")


def landmarks(n_instances):
    elapsed, peak, purity = measured(n_instances, {"affinity": "landmark"})
    value = f"{elapsed:.1f} s, {peak:.0f} MB, purity {purity:.3f}"
    yield Fact(f"CSP, 1,000 landmarks, {n_instances:,} instances", value, "")


def rows(largest=100_000):
    yield from beside_the_graph()
    yield from posteriors_beside_the_graph()
    yield from landmarks(largest)
    try:
        import pynndescent  # noqa: F401
    except ImportError:
        return
    yield from approximate([n for n in (20_000, 100_000, 300_000, 1_000_000) if n <= largest])


if __name__ == "__main__":
    for row in rows(*(int(size) for size in sys.argv[1:])):
        print(row, flush=True)
