"""Data shipped with the package: Musk1, Letter, and the two poems."""

from __future__ import annotations

import numpy as np

from bagwise import datasets
from bagwise.datasets._registry import PACKAGE_DATA
from cases import each


def test_musk1_counts():
    musk = datasets.load_musk1()
    assert musk.bags.shape == (92, 166)
    assert musk.bags.n_instances == 476
    assert (musk.bags.sizes.min(), musk.bags.sizes.max()) == (2, 40)
    assert np.bincount(musk.y).tolist() == [45, 47]
    assert np.bincount(musk.y, weights=musk.bags.sizes).tolist() == [269, 207]
    assert (musk.bags.instances == np.round(musk.bags.instances)).all()
    assert musk.instance_labels is None
    assert len(musk.feature_names) == 166
    assert musk.bags[0][0, :5].tolist() == [42, -198, -109, -75, -117]  # as in UCI


def test_musk1_folds_cover_every_molecule_once_per_repetition():
    fold = datasets.load_musk1().fold
    assert fold.shape == (5, 92)
    for repetition in fold:
        sizes = np.bincount(repetition, minlength=10)
        assert len(sizes) == 10
        assert sizes.max() - sizes.min() <= 2


def letter():
    """The pool of UCI Letter."""
    with np.load(PACKAGE_DATA / "letter.npz") as file:
        return {"X": file["X"], "y": file["y"]}


def test_letter_counts():
    pool = letter()
    assert pool["X"].shape == (20000, 16)
    assert (pool["X"].min(), pool["X"].max()) == (0, 15)
    counts = np.bincount(pool["y"])
    assert (len(counts), counts.min(), counts.max()) == (26, 734, 813)


POEMS = {
    "carroll": datasets.load_letter_carroll,
    "frost": datasets.load_letter_frost,
    "carroll, published words": lambda seed: datasets.load_letter_carroll(
        seed, published_words=True
    ),
}

# Pei & Fern 2014, Table 2: bags, instances, bags with a single label, classes that occur, and
# labels per bag. Our plain reading of Carroll agrees in the first two and in the classes.
PUBLISHED = {
    "carroll": (166, 717, 0, 24, 3.96),
    "frost": (144, 565, 12, 24, 3.60),
    "carroll, published words": (166, 717, 1, 24, 3.93),
}


@each("poem", POEMS)
def test_poem_counts(poem):
    data = POEMS[poem](0)
    labels_per_bag = data.label_sets.sum(axis=1)
    assert (
        len(data.bags),
        data.bags.n_instances,
        int((labels_per_bag == 1).sum()),
        int(data.label_sets.any(axis=0).sum()),
        round(float(labels_per_bag.mean()), 2),
    ) == PUBLISHED[poem]


@each("poem", POEMS)
def test_instances_are_rows_of_letter_of_the_right_class_each_used_once(poem):
    data, pool = POEMS[poem](3), letter()
    assert np.array_equal(data.bags.instances, pool["X"][data.letter_row])
    assert np.array_equal(data.instance_labels, pool["y"][data.letter_row])
    assert len(np.unique(data.letter_row)) == data.bags.n_instances


@each("poem", POEMS)
def test_labels_spell_the_words(poem):
    data = POEMS[poem](0)
    for i, letters in enumerate(data.bags.split(data.classes[data.instance_labels])):
        position, word = data.bags.ids[i].split(" ")
        assert int(position) == i
        assert "".join(letters) == word.upper().replace("-", "")
        assert set(data.classes[data.label_sets[i] == 1]) == set(letters)


@each("poem", POEMS)
def test_seed_decides_the_rows_and_nothing_else(poem):
    one, same, other = POEMS[poem](1), POEMS[poem](1), POEMS[poem](2)
    assert np.array_equal(one.letter_row, same.letter_row)
    assert not np.array_equal(one.letter_row, other.letter_row)
    assert np.array_equal(one.label_sets, other.label_sets)


def test_letters_that_never_occur():
    carroll, frost = datasets.load_letter_carroll(), datasets.load_letter_frost()
    assert carroll.classes[~carroll.label_sets.any(axis=0)].tolist() == ["Q", "Z"]
    assert frost.classes[~frost.label_sets.any(axis=0)].tolist() == ["X", "Z"]
    assert "Q and Z never occur" in carroll.DESCR
    assert "X and Z never occur" in frost.DESCR
