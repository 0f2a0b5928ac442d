"""Data sets of the data home, if available: published counts and known pitfalls."""

from __future__ import annotations

import numpy as np
import pytest

from bagwise import datasets
from bagwise.exceptions import DataNotFoundError
from cases import each


def load(name, **options):
    try:
        return datasets.load_dataset(name, **options)
    except DataNotFoundError as error:
        pytest.skip(str(error))


@each(("name", "n_varying"), [("elephant", 110), ("fox", 122)])
def test_corel_columns(name, n_varying):
    data = load(name)
    X = data.bags.instances
    assert (X != 0).any(axis=0).sum() == 143
    assert (X.max(axis=0) > X.min(axis=0)).sum() == n_varying
    assert data.fold.shape == (5, 200)


def test_musk2_counts():
    data = load("musk2")
    assert np.bincount(data.y).tolist() == [63, 39]
    assert (data.bags.sizes.min(), data.bags.sizes.max()) == (1, 1044)


def test_glas_patients_and_parts():
    data = load("real_glas")
    assert len(np.unique(data.groups)) == 16
    assert np.bincount(data.split).tolist() == [85, 60, 20]
    assert data.bags.ids[0] == "train_1"
    # Tiles lie on a grid: neighbours in a bag are 64 pixels apart.
    first = data.coords[: data.bags.sizes[0]]
    assert np.unique(np.diff(np.unique(first[:, 0]))).tolist() == [64]
    mixed = [len(np.unique(data.y[data.groups == patient])) for patient in range(16)]
    assert sum(n == 2 for n in mixed) == 5


def test_nuclei_labels_agree_with_their_images():
    data = load("real_colon_nuclei")
    largest = np.maximum.reduceat(data.instance_labels, data.bags.offsets[:-1])
    np.testing.assert_array_equal(largest, data.y)
    known = data.cell_type >= 0
    assert ((data.cell_type == 2) == data.instance_labels)[known].all()


def test_calls_of_birds_agree_with_the_species_heard():
    data = load("real_birds_cosmos")
    heard = data.annotated_windows[np.arange(len(data.calls)), data.y[data.bags.bag_index]]
    np.testing.assert_array_equal(heard, data.calls)
    union = np.maximum.reduceat(data.annotated_windows, data.bags.offsets[:-1])
    np.testing.assert_array_equal(union, data.annotated_sets)
    assert data.annotated_classes[:-1].tolist() == data.classes.tolist()


def test_conformers_of_one_scaffold_are_alike():
    """A wrong join of scaffolds and molecules would destroy this."""
    data = load("real_conformers_dopamine")
    sizes = np.bincount(data.groups)
    means = np.bincount(data.groups, data.y) / sizes
    within = np.sum((data.y - means[data.groups]) ** 2) / (len(data.y) - len(sizes))
    assert within < 0.75 * data.y.var()  # 1 on average if they were unrelated


@each("name", ["partial_lost", "partial_birdsong", "partial_msrcv2", "partial_fgnet"])
def test_the_true_label_is_a_candidate(name):
    data = load(name)
    assert data.label_sets[np.arange(len(data.bags)), data.instance_labels].all()
    if data.groups is not None:  # rows of one recording or photo have the same candidates
        first = np.unique(data.groups, return_index=True)[1]
        np.testing.assert_array_equal(data.label_sets[first][data.groups], data.label_sets)
