"""Bags, fits and faults shared by the tests of the engines."""

import multiprocessing
import os
import signal

import numpy as np

from bagwise import Bags
from bagwise.annotation import ORedLogisticRegression
from bagwise.metric_learning import MIMLCA, MultiInstancePLDA

# Where tests put tensors: `BAGWISE_TEST_DEVICE=cuda pytest tests/compute -k "tensor"` on a GPU.
DEVICE = os.environ.get("BAGWISE_TEST_DEVICE", "cpu")


def mapped(bags, folder):
    path = folder / f"{id(bags)}.npy"
    np.save(path, bags.instances)
    return Bags(np.load(path, mmap_mode="r"), bags.offsets, bags.ids)


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def with_label_sets(n_bags=60, n_classes=5, n_features=6, seed=0):
    """Bags whose instances lie around the mean of their class; label sets are the unions."""
    rng = np.random.default_rng(seed)
    means = 3 * np.random.default_rng(1).normal(size=(n_classes, n_features))
    sizes = rng.integers(3, 7, n_bags)
    kinds = rng.integers(n_classes, size=sizes.sum())
    table = means[kinds] + rng.normal(size=(len(kinds), n_features))
    bags = Bags(table, np.concatenate([[0], np.cumsum(sizes)]))
    sets = np.zeros((n_bags, n_classes), int)
    sets[bags.bag_index, kinds] = 1
    return bags, sets


def kill_a_worker(bags):
    """End the process that holds the first partition."""
    client, key = bags.client, bags.futures[0].key
    holder = client.who_has(bags.futures)[key][0]
    os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)


class Counter:
    def __init__(self, bags, start=0):
        self.value = start

    def add(self, value):
        self.value += value
        return self.value

    def identity(self):
        return "counter"

    def state(self):
        return {"value": np.array(self.value)}

    def restore(self, state):
        self.value = int(state["value"])


ANSWERS = [
    "decision_function", "predict", "score_instances", "predict_instances", "key_instances",
]  # fmt: skip


MODELS = {
    "orlr": ORedLogisticRegression(),
    "mimlca": MIMLCA(n_init=3, random_state=0),
    "plda": MultiInstancePLDA(null=True, tol=1e-9),
}


def start_workers_quickly():
    """Fork Dask workers from a process that has imported everything, also those after a kill."""
    import dask
    import distributed

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    distributed.utils.get_mp_context()  # chooses modules of Dask's; ours bring them along
    rooms = ["annotation", "classification", "cluster", "metric_learning", "io"]
    modules = ["distributed", "distributed.nanny", *(f"bagwise.{room}" for room in rooms)]
    multiprocessing.get_context("forkserver").set_forkserver_preload(modules)
