"""Data sets of the data home, if available: published counts and known pitfalls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bagwise import datasets
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
    assert np.array_equal(data.bags.instances, datasets.load_dataset("letter").X[data.letter_row])


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


def test_mnist_images_and_rows_are_the_same():
    data = load("mnist_test")
    assert data.X.dtype == np.uint8
    assert np.array_equal(data.X.reshape(-1, 28, 28), data.images)
    bags = datasets.make_digit_bags(10, digits=(data.images, data.y), random_state=0).bags
    assert bags.n_features == 784


@pytest.mark.parametrize("name", ["digit1", "g241c", "coil", "bci", "text", "usps"])
def test_ssl_splits(name):
    data = load(f"ssl_{name}")
    assert sorted(data.labeled) == [10, 100]
    for n, splits in data.labeled.items():
        assert splits.shape == (12, n)
        for rows in splits:
            assert len(np.unique(rows)) == n
            assert rows.min() >= 0
            assert rows.max() < len(data.y)
            assert set(data.y[rows]) == set(data.classes)  # every class has a labelled row


def test_secstr_one_hot():
    symbols, binary = load("ssl_secstr"), load("ssl_secstr", one_hot=True)
    assert binary.X.shape == (83679, 315)
    assert binary.X.sum() == 15 * 83679
    row = binary.X[[7]].toarray().reshape(15, 21)
    assert np.array_equal(row.argmax(axis=1), symbols.X[7])


@pytest.mark.parametrize(
    ("name", "width"),
    [("australian", 38), ("credit_a", 42), ("german", 59), ("haberman", 14), ("kr_vs_kp", 39)],
)
def test_uci_one_hot_columns_are_what_their_names_say(name, width):
    plain, expanded = load(f"uci_{name}"), load(f"uci_{name}", one_hot=True)
    assert expanded.X.shape == (len(plain.y), width) == (len(plain.y), len(expanded.feature_names))
    columns = dict(zip(plain.feature_names, plain.X.T, strict=True))
    for feature, column in zip(expanded.feature_names, expanded.X.T, strict=True):
        source, _, value = feature.partition("=")
        expected = columns[source]
        if value:
            expected = np.where(np.isnan(expected), np.nan, expected == int(value))
        assert np.array_equal(column, expected, equal_nan=True), feature


def test_uci_one_hot_changes_nothing_without_nominal_columns():
    assert np.array_equal(load("uci_liver").X, load("uci_liver", one_hot=True).X)


@pytest.mark.parametrize(
    ("name", "n_missing"), [("credit_a", 67), ("echocardiogram", 48), ("house_votes", 392)]
)
def test_missing_values_are_left_missing(name, n_missing):
    assert np.isnan(load(f"uci_{name}").X).sum() == n_missing


def test_spectf_repeats_its_training_rows():
    data = load("uci_spectf")
    assert data.is_train.sum() == 80
    assert len(np.unique(data.X, axis=0)) == 267


def test_echocardiogram_has_an_unknown_patient():
    data = load("uci_echocardiogram")
    assert (data.y == -1).sum() == 1
    assert (data.alive_at_1 == -1).sum() == 58
