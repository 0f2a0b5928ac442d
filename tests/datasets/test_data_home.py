"""Data sets of the data home, if available: published counts and known pitfalls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bagwise import datasets
from bagwise.datasets._registry import PACKAGE_DATA
from bagwise.exceptions import DataNotFoundError


def load(name, **options):
    try:
        return datasets.load_dataset(name, **options)
    except DataNotFoundError as error:
        pytest.skip(str(error))


def union(data):
    """The label sets that the instance labels imply."""
    sets = np.zeros_like(data.label_sets)
    known = data.instance_labels >= 0
    sets[data.bags.bag_index[known], data.instance_labels[known]] = 1
    return sets


def test_hja_has_two_label_matrices():
    instances = load("hja_birdsong")
    published = load("hja_birdsong", labels="published")
    assert instances.bags.n_instances == 4998
    assert np.array_equal(instances.label_sets, union(instances))
    extra = published.label_sets.astype(int) - instances.label_sets
    assert (extra.min(), extra.sum(), extra.any(axis=1).sum()) == (0, 67, 62)
    assert extra[:, 0].sum() == 35
    assert (instances.label_sets.sum(axis=1) == 1).sum() == 199  # Pei & Fern, Table 2


def test_hja_with_unlabelled_syllables():
    data = load("hja_birdsong", labelled_only=False)
    assert data.bags.n_instances == 10232
    assert (data.instance_labels == -1).sum() == 5234
    assert np.array_equal(data.label_sets, load("hja_birdsong").label_sets)


@pytest.mark.parametrize("name", ["msrcv2", "letter_carroll_redraw"])
def test_label_sets_are_the_union_of_instance_labels(name):
    data = load(name)
    assert np.array_equal(data.label_sets, union(data))


def test_carroll_redraw_has_our_words():
    data, ours = load("letter_carroll_redraw"), datasets.load_letter_carroll()
    assert [i.upper() for i in ours.bags.ids] == data.bags.ids.tolist()
    assert np.array_equal(data.instance_labels, ours.instance_labels)
    with np.load(PACKAGE_DATA / "letter.npz") as file:
        assert np.array_equal(data.bags.instances, file["X"][data.letter_row])


@pytest.mark.parametrize(("name", "n_varying"), [("elephant", 110), ("fox", 122)])
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


def test_corel5k_tokens():
    data = load("corel5k_blobs")
    assert sparse.issparse(data.bags.instances)
    assert (data.bags.instances.sum(axis=1) == 1).all()
    assert data.is_test.sum() == 500
    assert data.label_sets[~data.is_test].any(axis=0).sum() == 371
    assert data.label_sets[data.is_test].any(axis=0).sum() == 263
    # No token twice in a picture.
    pairs = np.column_stack([data.bags.bag_index, data.bags.instances.indices])
    assert len(np.unique(pairs, axis=0)) == len(pairs)
