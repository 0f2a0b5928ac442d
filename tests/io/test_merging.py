"""Slides of patients: labels in a second table, bags merged by patient."""

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise import Bags
from bagwise.exceptions import DataNotFoundError, InputError, LabelError
from bagwise.io import read_bags
from bagwise.io._contents import Contents, merge_contents
from bagwise.io._files import Request
from bagwise.io._reading import read_contents
from bagwise.labels import Labels


@pytest.fixture
def slides(tmp_path, rng):
    """Four slides of three patients, as TRIDENT writes them, and the table of their labels."""
    folder = tmp_path / "features_uni_v1"
    folder.mkdir()
    for i, size in enumerate([3, 1, 2, 2]):
        with h5py.File(folder / f"S{i}.h5", "w") as file:
            file["features"] = rng.normal(size=(size, 4)).astype("float32")
            file["coords"] = 512 * i + 256 * np.arange(2 * size).reshape(-1, 2)
            file["coords"].attrs["patch_size"] = 256
            file["coords"].attrs["patch_size_level0"] = 512
    table = tmp_path / "labels.csv"
    table.write_text(
        "case_id,slide_id,label\n"
        "ann,S0.svs,tumour\nbob,S1.svs,normal\nann,S2.svs,tumour\ncid,S3.svs,normal\n"
    )
    return folder, table


def test_slides_are_found_with_and_without_the_suffix(slides):
    folder, table = slides
    expected = ["tumour", "normal", "tumour", "normal"]
    for words in ({}, {"id_column": "slide_id"}, {"bag": "slide_id"}):
        assert read_bags(folder, labels=table, **words).y.tolist() == expected
    frame = pd.read_csv(table).assign(name=["S0", "S1.h5", "S2.TIF", "S3"])
    assert read_bags(folder, labels=frame, id_column="name").y.tolist() == expected
    named = {"S0": 1, "S1.svs": 0, "S2": 1, "S3.ndpi": 0}
    assert read_bags(folder, labels=named).y.tolist() == [1, 0, 1, 0]


def test_a_suffix_is_not_guessed(slides):
    folder, table = slides
    with pytest.raises(LabelError, match=r"'S0\.svs' and 'S0\.tif', both of the bag 'S0'"):
        read_bags(folder, labels={"S0.svs": 0, "S0.tif": 1, "S1": 0, "S2": 0, "S3": 0})
    with pytest.raises(LabelError, match="no entry for 1 of 4 bags, such as 'S3'"):
        read_bags(folder, labels={"S0.svs": 0, "S1": 1, "S2": 0, "S3.new": 0}, missing="error")
    with pytest.raises(InputError, match=r"no column 'slide' for id_column="):
        read_bags(folder, labels=table, id_column="slide")
    with pytest.raises(InputError, match="id_column= names a column of the table labels="):
        read_bags(folder, id_column="slide_id")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"patch_size": 256, "patch_size_level0": 512}, 512),  # TRIDENT
        ({"patch_size": 256, "patch_level": 1, "downsample": (4.0, 4.0)}, 1024),  # CLAM
        ({"patch_size": 256}, None),  # at an unknown level
        ({"patch_size_level0": "wide"}, None),
        ({"patch_size_level0": -1}, None),
        ({"patch_size_level0": np.zeros(0)}, None),
        ({}, None),
    ],
)
def test_the_size_of_patches(tmp_path, attributes, expected):
    with h5py.File(tmp_path / "slide.h5", "w") as file:
        file["features"], file["coords"] = np.zeros((2, 3)), np.zeros((2, 2))
        file["coords"].attrs.update(attributes)
    found = read_bags(tmp_path).patch_sizes.tolist()
    assert np.array_equal(found, [np.nan if expected is None else expected], equal_nan=True)


def test_folders_inside_are_named_if_there_are_several(slides):
    folder, _ = slides
    (folder.parent / "features_other").mkdir()
    (folder.parent / "features_other" / "S1.h5").write_bytes((folder / "S1.h5").read_bytes())
    with pytest.raises(DataNotFoundError, match="give one: 'features_other', 'features_uni_v1'"):
        read_bags(folder.parent)


@pytest.mark.parametrize("limit", [None, 0])
def test_patients_are_merged_with_all_that_belongs_to_them(slides, limit, monkeypatch):
    folder, table = slides
    plain = read_contents(folder, Request(labels=table))
    request = Request(labels=table, merge="case_id", group="case_id", memory_limit=limit)
    monkeypatch.setattr("bagwise.compute.mapped.KEPT_IN_MEMORY", 0)
    monkeypatch.setattr("bagwise._common.tables.COPIED_AT_ONCE", 0)
    data = read_contents(folder, request)
    assert data.bags.ids.tolist() == data.bags.groups.tolist() == ["ann", "bob", "cid"]
    assert data.bags.where == ("local" if limit is None else "mapped")
    assert data.labels.tolist() == ["tumour", "normal", "normal"]
    order = [0, 1, 2, 4, 5, 3, 6, 7]  # the instances of S0, S2, S1, S3
    np.testing.assert_array_equal(data.bags.instances, plain.bags.instances[order])
    np.testing.assert_array_equal(data.coords, plain.coords[order])
    assert data.columns["slide"] == ["S0"] * 3 + ["S2"] * 2 + ["S1"] + ["S3"] * 2


def test_merging_needs_the_column_and_labels_that_agree(slides):
    folder, table = slides
    with pytest.raises(InputError, match="merge= names a column"):
        read_contents(folder, Request(merge="case_id"))
    with pytest.raises(InputError, match=r"no column 'patient' for merge="):
        read_contents(folder, Request(labels=table, merge="patient"))
    with pytest.raises(InputError, match="merge= needs a table"):
        read_contents(folder, Request(labels=dict.fromkeys(["S0", "S1", "S2", "S3"]), merge="p"))
    frame = pd.read_csv(table).assign(label=["tumour", "normal", "normal", "normal"])
    with pytest.raises(
        LabelError, match="case_id ann have different labels, 'tumour' and 'normal'"
    ):
        read_contents(folder, Request(labels=frame, merge="case_id"))
    frame = pd.read_csv(table).assign(case_id=["ann", None, "bob", "bob"])
    with pytest.raises(InputError, match=r"bag 1 \('S1'\) has no value in the column 'case_id'"):
        read_contents(folder, Request(labels=frame, merge="case_id"))


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_merged_labels_equal_a_dict_of_sets(data):
    n = data.draw(st.integers(1, 6))
    by = data.draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    member = st.frozensets(st.sampled_from(["oak", "owl"]))
    sets = data.draw(st.lists(st.none() | member, min_size=n, max_size=n))
    bags = Bags(np.zeros((n, 1)), np.arange(n + 1))
    labels = Labels.from_sets(sets, ["oak", "owl"])
    found = merge_contents(Contents(bags, label_sets=labels), np.array(by), "site", None)
    expected = []
    for site in dict.fromkeys(by):
        parts = [s for s, b in zip(sets, by, strict=True) if b == site]
        expected.append(None if None in parts else set().union(*parts))
    assert [None if s is None else set(s) for s in found.label_sets.tolist()] == expected


def test_unknown_labels_do_not_count_when_bags_are_merged():
    bags = Bags(np.zeros((4, 1)), np.arange(5))
    labels = Labels("partial", ["no", "yes"], [-1, 1, -1, -1])
    merged = merge_contents(Contents(bags, labels=labels), np.array([7, 7, 8, 8]), "site", "id")
    assert merged.labels.tolist() == ["yes", None]
    assert merged.columns == {"id": [0, 1, 2, 3]}


def test_what_was_noticed_about_columns_is_kept(rng):
    bag = np.repeat(np.arange(12), 3)
    frame = pd.DataFrame(
        {"slide": bag, "patient": bag // 2, "patch_id": np.arange(36), "age": 40 + bag // 2}
        | {"x": rng.normal(size=36)}
    )
    data = read_contents(frame, Request(bag="slide", merge="patient"))
    assert (data.left_out, data.suspects) == (["patch_id"], ["age"])
    labels = pd.DataFrame({"slide": [0, 1, 99], "patient": "p", "label": 1})
    request = Request(bag="slide", merge="patient", labels=labels, missing="drop", exclude=["age"])
    data = read_contents(frame.drop(columns="patient"), request)
    assert (len(data.absent), len(data.others), len(data.bags)) == (10, 1, 1)
