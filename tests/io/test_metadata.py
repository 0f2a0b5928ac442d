"""Columns that are not features: ids, times of clips, labels and metadata of bags."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bagwise import Bags
from bagwise.exceptions import DataWarning, InputError
from bagwise.io import _contents as metadata
from bagwise.io import read_bags, write_bags
from bagwise.io._contents import are_ids, bag_level_features, is_id_name


def slow_bag_level(instances, offsets):
    """Reference implementation: a Python loop over bags."""
    bags = [instances[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    bags = [bag for bag in bags if len(bag) > 1]
    found = []
    for j in range(instances.shape[1]):
        columns = [[row[j] for row in bag] for bag in bags]
        if any(len(set(map(str, column))) > 1 for column in columns):
            continue
        values = [str(value) for column in columns for value in column]
        chance = 1.0
        for column in columns:
            chance *= sum((values.count(v) / len(values)) ** len(column) for v in set(values))
        if len(set(values)) > 1 and chance < 1e-6:
            found.append(j)
    return found


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=25),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 2**22]),
)
def test_features_of_whole_bags_are_found_as_bag_by_bag(sizes, seed, n_values):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    draw = rng.choice([0.0, 1.0, np.nan], size=(len(sizes), 3))
    of_bags, noise = rng.normal(size=len(sizes))[bag], rng.normal(size=len(bag))
    rare, ones = rng.choice([0.0, 1.0], size=len(bag), p=[0.95, 0.05]), np.ones(len(bag))
    table = np.column_stack([of_bags, noise, draw[bag, 0], rare, ones])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "FIRST", min(n_values, 7))
        patch.setattr(metadata, "LARGEST", n_values)
        assert bag_level_features(table, offsets) == slow_bag_level(table, offsets)


def test_rare_words_in_small_bags_are_no_metadata(rng):
    words = (rng.random((300, 2000)) < 0.002).astype(float)  # many columns constant by chance
    assert bag_level_features(words, np.arange(0, 301, 2)) == []
    labels = np.repeat(rng.integers(2, size=150), 2)
    assert bag_level_features(np.column_stack([words, labels]), np.arange(0, 301, 2)) == [2000]


def test_names_of_ids():
    names = ["id", "ID", "patch_id", "Patient ID", "sampleId", "index", "idx", "row-index", "uuid"]
    assert all(map(is_id_name, names))
    others = ["acid", "humidity", "indexed", "x", "grid", "ide", "valid", ""]
    assert not any(map(is_id_name, others))


def test_ids_are_whole_and_never_repeated_inside_a_bag():
    bags = np.array([0, 0, 0, 1, 1])
    assert are_ids(np.array([3, 4, 5, 6, 7]), bags)
    assert are_ids(np.array([0, 1, 2, 0, 1]), bags)  # counted in each bag
    assert are_ids(np.array([8, 8, 8, 9, 9]), bags)  # the patient
    assert not are_ids(np.array([0, 1, 1, 0, 1]), bags)  # an index such as that of UV light
    assert not are_ids(np.array([0.5, 1.0, 2.0, 0.0, 1.0]), bags)
    assert not are_ids(np.array([0.0, 1.0, np.nan, 0.0, 1.0]), bags)
    assert not are_ids(np.ones(5), bags)


@pytest.fixture
def molecules(rng):
    """Twelve molecules of two to four conformers, with the affinity to be predicted."""
    sizes = rng.integers(2, 5, size=12)
    bag = np.repeat(np.arange(12), sizes)
    return pd.DataFrame(
        {
            "molecule": [f"m{i}" for i in bag],
            "active": np.where(bag % 2, "yes", "no"),
            "pKi": rng.normal(size=12)[bag],
            "conformer_id": np.arange(len(bag)),
            "a": rng.normal(size=len(bag)),
            "b": rng.normal(size=len(bag)),
        }
    )


def test_a_frame_without_named_features_warns(molecules):
    frame = molecules.drop(columns="active")
    with pytest.warns(DataWarning) as caught:
        bags = Bags.from_frame(frame, bag="molecule")
    texts = [str(each.message) for each in caught]
    assert len(texts) == 2
    assert texts[0].startswith("'conformer_id': left out, because these are ids")
    assert texts[1].startswith("'pKi': constant within every bag")
    assert all(each.filename == __file__ for each in caught)
    assert bags.feature_names == ["pKi", "a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for names in (["a", "b"], ["pKi", "conformer_id"]):
            assert Bags.from_frame(frame, "molecule", features=names).feature_names == names


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_a_file_warns_and_keeps_what_is_asked_for(molecules, tmp_path, kind):
    source = molecules
    if kind == "csv":
        source = tmp_path / "molecules.csv"
        molecules.to_csv(source, index=False)
    elif kind == "parquet":
        source = tmp_path / "molecules.parquet"
        molecules.to_parquet(source)
    words = {"bag": "molecule", "label": "active"}
    with pytest.warns(DataWarning) as caught:
        data = read_bags(source, **words)
    texts = [str(each.message) for each in caught]
    assert [text.partition(":")[0] for text in texts] == ["'conformer_id'", "'pKi'"]
    assert data.feature_names == ["pKi", "a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read_bags(source, meta=["pKi", "conformer_id"], **words)
        assert read_bags(source, exclude=["pKi", "conformer_id"], **words).meta == {}
        named = read_bags(source, features=["conformer_id", "pKi"], **words)
    assert data.feature_names == ["a", "b"]
    assert named.feature_names == ["conformer_id", "pKi"]
    np.testing.assert_array_equal(data.meta["conformer_id"], molecules["conformer_id"])
    np.testing.assert_allclose(data.meta["pKi"], molecules["pKi"])
    with pytest.raises(InputError, match="no column 'pI'"):
        read_bags(source, meta="pI", **words)


def test_columns_of_a_table_of_labels_are_kept_for_each_instance(molecules):
    frame = molecules[["molecule", "a", "b"]]
    names = [f"m{i}" for i in range(11)]
    about = pd.DataFrame({"molecule": names, "y": range(11), "lab": list("ABCDEFGHIJK")})
    words = {"bag": "molecule", "label": "y", "labels": about, "meta": ["lab"]}
    with pytest.warns(DataWarning, match="no entry for 1 of 12 bags"):
        data = read_bags(frame, **words)
    expected = [dict(zip(names, about.lab, strict=True)).get(m) for m in frame.molecule]
    assert data.meta["lab"].tolist() == expected
    with pytest.raises(InputError, match="no column 'site' to keep"):
        read_bags(frame, **words | {"meta": "site"})


def test_npz_files_are_looked_at_for_values_of_whole_bags(tmp_path, rng):
    bag = np.repeat(np.arange(12), 3)
    X = rng.normal(size=(36, 3))
    X[:, 1] = rng.normal(size=12)[bag]
    bags = Bags(X, np.arange(0, 37, 3), feature_names=["a", "pKi", "b"])
    plain = Bags(X, bags.offsets)
    thin = Bags(sparse.csr_array(X), bags.offsets, feature_names=["a", "pKi", "b"])
    for name, written in (("d.npz", bags), ("s.npz", thin)):
        write_bags(tmp_path / name, written)
        with pytest.warns(DataWarning, match="'pKi': constant within every bag"):
            read_bags(tmp_path / name)
    write_bags(tmp_path / "plain.npz", plain)
    with pytest.warns(DataWarning, match=r"'x1': constant .* Remove such features from the file"):
        read_bags(tmp_path / "plain.npz")
