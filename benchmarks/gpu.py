"""Benchmarks on a GPU: `python -m benchmarks.gpu [--device cuda] [--share 1]`.

Needs torch, numpy, scipy, scikit-learn and numba only. Every time is compared with that of the
unavoidable matrix products on the same device. `--share 0.02` reduces all sizes by that factor,
for a trial on a CPU.
"""

import argparse
import platform
import time
import warnings

import numpy as np
import torch

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.classification import PrimalDualMISVM
from bagwise.metric_learning import MIMLCA
from bagwise.solvers.annotation.orlr_parts import BagLabelSets, TensorORLRPart

from .harness import Fact, Row, table

PHOTOS_WITH_FACES = (12562, 5109, 1675, 480, 146, 61, 17, 8, 6, 0, 1, 3, 1, 1, 1)
PHOTOS_WITH_NAMES = (0, 12225, 6247, 1325, 216, 46, 8, 3, 0, 1)


def seconds(device, work, repeats=3):
    """Shortest time of a few runs, with the device synchronised."""
    best = float("inf")
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return best


def _wait(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def on_device(X, offsets, device):
    return Bags(torch.as_tensor(X).to(device), offsets)


def deep_images(device, share):
    """SIVAL-25-deep shape: 1,500 bags, 80,561 x 4,096, 25 classes, single precision."""
    rng = np.random.default_rng(0)
    n, d, n_bags, K = int(80_561 * share), max(64, int(4096 * share)), int(1500 * share), 25
    n_bags = max(n_bags, 2 * K)
    n = max(n, 4 * n_bags)
    cuts = rng.choice(np.arange(1, n), n_bags - 1, replace=False)
    offsets = np.sort(np.concatenate([[0, n], cuts]))
    y = np.arange(n_bags) % K
    X = rng.standard_normal((n, d), dtype=np.float32)
    X[offsets[:-1]] += rng.standard_normal((K, d), dtype=np.float32)[y]
    bags = on_device(X, offsets, device)
    table_, W = bags.instances, torch.randn(K, d, device=device)
    R = torch.randn(n, K, device=device)
    shape = f"{n:,} x {d:,}, K = {K}"
    pair = seconds(device, lambda: (table_ @ W.T, R.T @ table_), 10)

    def fit(options):
        return PrimalDualMISVM(random_state=0, **options).fit(bags, y).n_iter_

    fit({"solver": "inexact", "max_iter": 2})  # warm-up
    for what, goal, options in (
        ("inexact", "<= 2 x", {"solver": "inexact"}),
        ("standard assumption, inexact", "", {"assumption": "standard", "solver": "inexact"}),
        ("exact", "", {"solver": "exact"}),
    ):
        models = []
        took = seconds(device, lambda o=options, m=models: m.append(fit(o)))
        floor = models[-1] * pair
        against = f"{models[-1]} x (X W' and R' X)"
        if options is None or options["solver"] == "exact":
            n_systems = 1 if options is None else K
            gram = table_[: min(n, 20_000)].T @ table_[: min(n, 20_000)]
            floor += seconds(device, lambda: table_.T @ table_, 2)
            floor += n_systems * seconds(device, lambda g=gram: torch.linalg.eigh(g), 1)
            against += f", X'X, {n_systems} eigendecomposition(s)"
        yield Row(f"pdMISVM {what}, {shape}", took, against, floor, goal)


def posterior_labels(device, share):
    """The E-step of ORLR: 1M instances in bags of ten, up to six labels each, of 20 classes."""
    rng = np.random.default_rng(0)
    n_bags, size, d, K = int(100_000 * share), 10, 100, 20
    X = rng.standard_normal((n_bags * size, d), dtype=np.float32)
    n_labels = rng.integers(1, 7, n_bags)
    indicator = (rng.random((n_bags, K)).argsort(axis=1) < n_labels[:, None]).astype(np.int8)
    # The instances of a bag show its labels in turn, which a fit can learn.
    first = np.cumsum(n_labels) - n_labels
    turn = first[:, None] + np.arange(size) % n_labels[:, None]
    X += rng.standard_normal((K, d), dtype=np.float32)[np.nonzero(indicator)[1][turn.ravel()]] / 3
    bags = on_device(X, size * np.arange(n_bags + 1), device)
    part = TensorORLRPart(bags, BagLabelSets(bags.offsets, indicator, False), np.ones(n_bags))
    theta = 0.1 * rng.standard_normal((K, d + 1))
    W = torch.as_tensor(theta[:, :-1].astype(np.float32)).to(device)
    product = seconds(device, lambda: torch.softmax((bags.instances @ W.T).double(), dim=1), 10)
    took = seconds(device, lambda: part.loss(theta), 5)
    what = f"ORLR likelihood and gradient, {n_bags * size:,} x {d}, K = {K}, k <= 6"
    yield Row(what, took, "softmax of X W'", product, "<= 0.005 s")
    small = on_device(X[: len(X) // 20], bags.offsets[: n_bags // 20 + 1], device)
    sets = indicator[: n_bags // 20]
    for kernel, goal in (("linear", "<= 0.1 s"), ("rbf", "")):
        model = ORedLogisticRegression(kernel=kernel, max_iter=30, tol=1e-12, random_state=0)
        took = seconds(device, lambda m=model: m.fit(small, sets))
        what = f"ORLR ({kernel}) fit of {model.n_iter_} iterations, {small.n_instances:,} instances"
        yield Fact(what, f"{took:.3g} s", goal)


def yahoo_news(device, share):
    """Labeled-Yahoo-News shape: 28,000 faces of 4,992 features, 5,873 names, single precision."""
    rng = np.random.default_rng(0)
    scale = np.sqrt(share)
    n_bags, d, k = int(18_064 * scale), int(4992 * scale), int(5873 * scale)
    sizes = rng.choice(np.repeat(np.arange(1, 16), PHOTOS_WITH_FACES), n_bags)
    n_names = rng.choice(np.repeat(np.arange(10), PHOTOS_WITH_NAMES), n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    popularity = 1 / np.arange(1, k + 1)
    popularity /= popularity.sum()
    indicator = np.zeros((n_bags, k), np.int8)
    drawn = rng.choice(k, size=(n_bags, 10), p=popularity)
    for i, names in enumerate(drawn):
        indicator[i, names[: n_names[i]]] = 1
    X = rng.standard_normal((offsets[-1], d), dtype=np.float32)
    means = rng.standard_normal((k, d), dtype=np.float32)
    for i in range(n_bags):  # the first faces of a photo are those of its names
        names = np.flatnonzero(indicator[i])[: sizes[i]]
        X[offsets[i] : offsets[i] + len(names)] += means[names]
    bags = on_device(X, offsets, device)
    models = []
    took = seconds(device, lambda: models.append(MIMLCA().fit(bags, indicator)))
    instances = bags.instances
    T = torch.randn(d, d, device=device)
    floor = seconds(device, lambda: (instances.T @ instances, instances @ T))
    what = f"MIMLCA, {X.shape[0]:,} x {d:,}, k = {k:,} ({models[-1]} iterations)"
    yield Row(what, took, "X'X and X T in single precision", floor, "<= 0.35 s")


def rows(device, share):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (deep_images, posterior_labels, yahoo_news):
            for row in part(device, share):
                print(row, flush=True)
                yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--share", type=float, default=1.0)
    arguments = parser.parse_args()
    name = platform.processor() or "CPU"
    if arguments.device.startswith("cuda"):
        name = torch.cuda.get_device_name(arguments.device)
    found = list(rows(arguments.device, arguments.share))
    print(f"\ntorch {torch.__version__}, {arguments.device}: {name}\n\n{table(found)}")


if __name__ == "__main__":
    main()
