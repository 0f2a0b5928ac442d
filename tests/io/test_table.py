"""Flat tables: data frames, CSV and Parquet, with one row per instance."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.classification import SetKernelSVM
from bagwise.exceptions import (
    BagwiseError,
    DataNotFoundError,
    DataWarning,
    FileFormatError,
    InputError,
    LabelError,
)
from bagwise.io import read_bags
from bagwise.io._files import Request
from bagwise.io._reading import read_contents
from bagwise.regression import SetKernelRegressor

COLUMNS = {
    "slide": ["s2", "s1", "s2", "s3", "s1"],
    "grade": ["high", "low", "high", "low", "low"],
    "found": ["a;b", "", "a;b", None, ""],
    "patch": ["a", "c", "b", None, "-1"],
    "red": [0.5, 1.5, 2.5, 3.5, 4.5],
    "count": [1, 2, 3, 4, 5],
}
ASKED = {"bag": "slide", "label": "grade", "label_set": "found", "instance_label": "patch"}


def as_csv(path, **options):
    frame = pl.DataFrame(COLUMNS)
    frame.write_csv(path, **options)
    return path


@pytest.fixture(params=["pandas", "polars", "pyarrow", "csv", "csv.gz", "tsv", "parquet"])
def table(request, tmp_path):
    path = tmp_path / f"bags.{request.param}"
    match request.param:
        case "pandas":
            return pd.DataFrame(COLUMNS)
        case "polars":
            return pl.DataFrame(COLUMNS)
        case "pyarrow":
            return pa.table(COLUMNS)
        case "csv":
            return as_csv(path)
        case "tsv":
            return str(as_csv(path, separator="\t"))
        case "csv.gz":
            path.write_bytes(gzip.compress(as_csv(tmp_path / "plain").read_bytes()))
            return path
        case _:
            pq.write_table(pa.table(COLUMNS), path)
            return path


def test_every_kind_of_table_gives_the_same_bags(table):
    data = read_bags(table, **ASKED)
    assert data.bags.ids.tolist() == ["s2", "s1", "s3"]
    assert [b.tolist() for b in data.bags] == [
        [[0.5, 1.0], [2.5, 3.0]],
        [[1.5, 2.0], [4.5, 5.0]],
        [[3.5, 4.0]],
    ]
    assert data.feature_names == ["red", "count"]
    assert data.y.tolist() == ["high", "low", "low"]
    assert data.classes.tolist() == ["a", "b", "c"]
    assert data.label_sets.tolist() == [[1, 1, 0], [0, 0, 0], [-1, -1, -1]]
    assert data.instance_labels.tolist() == [0, 1, 2, -1, -1]
    data = read_bags(table, bag="slide", features=["count", "red"], dtype="float32")
    assert data.bags.dtype == np.float32
    assert data.bags[2].tolist() == [[4.0, 3.5]]
    assert data.y is data.label_sets is None


def test_wrong_columns_are_answered_with_those_there_are(table):
    with pytest.raises(InputError, match=r"'grade'.*features=.*exclude="):
        read_bags(table, bag="slide")
    with pytest.raises(InputError, match="'slide' cannot be two"):
        read_bags(table, bag="slide", label="slide")
    with pytest.raises(InputError, match="'grade' cannot be a feature twice, or also a label"):
        read_bags(table, bag="slide", label="grade", features=["grade", "red"])
    with pytest.raises(LabelError, match=r"bag 0 \('s2'\).*'count': 1 in row 0 and 3 in row 2"):
        read_bags(table, bag="slide", label="count", features=["red"])
    with pytest.raises(InputError, match=r"no column 'case'.*'slide', 'grade'"):
        read_bags(table, bag="case")
    with pytest.raises(InputError, match=r"name the bag column with bag=.*'slide'"):
        read_bags(table, exclude=["grade", "found", "patch", "slide"])
    for wrong in ({"features": ["blue"]}, {"exclude": "blue"}):
        with pytest.raises(InputError, match="no column 'blue'"):
            read_bags(table, bag="slide", **wrong)


def test_the_usual_names_are_found():
    frame = pd.DataFrame({"bag": range(4), "label": [-1, 0, 1, -1], "x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.warns(DataWarning, match="bags have the label -1"):
        data = read_bags(frame)
    assert data.feature_names == ["x"]  # a label never slips in among the features
    assert data.y.tolist() == [-1, 0, 1, -1]
    named = read_bags(frame, features=["label", "x"])
    assert named.feature_names == ["label", "x"]
    assert named.y is None
    frame["label"] = [-1, 1, 1, -1]  # no warning: the two classes of an SVM
    assert read_bags(frame).y.tolist() == [-1, 1, 1, -1]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_integers_with_gaps_become_floats(frame):
    table = frame({"bag": ["a", "a"], "x": [1, None], "flag": [True, False]})
    read = read_bags(table).bags
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read.instances, [[1, 1], [np.nan, 0]])


def test_pandas_nullable_and_categorical_columns():
    frame = pd.DataFrame(
        {
            "bag": pd.Categorical(["b", "a", "b"]),
            "label": pd.array([1, None, 1], dtype="Int64"),
            "x": pd.array([1, 2, 3], dtype="Int32"),
            "z": pd.array([1.5, None, 3], dtype="Float64"),
        }
    )
    data = read_bags(frame)
    assert data.bags.ids.tolist() == ["b", "a"]
    np.testing.assert_array_equal(data.y, [1, np.nan])
    np.testing.assert_array_equal(data.bags.instances, [[1, 1.5], [3, 3], [2, np.nan]])


def test_no_model_learns_from_missing_labels():
    frame = pd.DataFrame({"bag": [0, 1, 2], "label": ["x", None, "y"], "f": [1.0, 2.0, 3.0]})
    data = read_bags(frame)
    assert data.y.tolist() == ["x", None, "y"]
    for labels in (["x", None, "y"], [1.0, np.nan, 0.0], [-1, np.nan, 1]):
        data = read_bags(frame.assign(label=labels))
        with pytest.raises(LabelError, match=r"bag 1 .*has no label"):
            SetKernelSVM().fit(data.bags, data.y)
    with pytest.raises(LabelError, match=r"bag 1 .*has no number"):
        SetKernelRegressor().fit(data.bags, data.y)


def test_classes_of_lists_and_of_bags():
    columns = {"bag": [0, 1, 2], "label_set": [["b", "a"], [], None], "f": [1.0, 2.0, 3.0]}
    data = read_bags(pl.DataFrame(columns))
    assert data.classes.tolist() == ["a", "b"]
    assert data.label_sets.tolist() == [[1, 1], [0, 0], [-1, -1]]
    columns = {"bag": [0, 0, 1], "label": ["bird", "bird", "noise"], "f": [1.0, 2.0, 3.0]}
    data = read_bags(pd.DataFrame(columns | {"instance_label": ["bird", None, "bird"]}))
    assert data.classes.tolist() == ["bird", "noise"]
    assert data.instance_labels.tolist() == [0, -1, 0]


def test_label_sets_of_numbers_meet_instance_labels_of_numbers():
    frame = pd.DataFrame(
        {
            "bag": [0, 0, 1],
            "label_set": ["10; 20", "10; 20", "20"],
            "instance_label": [10, -1, 30],
            "f": [1.0, 2.0, 3.0],
        }
    )
    data = read_bags(frame)
    assert data.classes.tolist() == [10, 20, 30]
    assert data.label_sets.tolist() == [[1, 1, 0], [0, 1, 0]]
    assert data.instance_labels.tolist() == [0, -1, 2]
    with pytest.raises(LabelError, match="30 is not in classes="):
        read_bags(frame, classes=[10, 20])


def test_vectors_of_fixed_size_are_features(tmp_path):
    vectors = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
    table = pa.table({"bag": ["a", "b", "a"], "size": [7, 8, 9], "e": vectors})
    pq.write_table(table, tmp_path / "bags.parquet")
    for source in (table, tmp_path / "bags.parquet"):
        data = read_bags(source)
        assert data.feature_names == ["size", "e_0", "e_1"]
        assert data.bags[0].tolist() == [[7, 1, 2], [9, 5, 6]]
    assert read_bags(table, features="e").bags.dtype == np.float32


def test_csv_missing_values_and_quotes(tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text('bag,label,x\n"1",NA,1\n"2","NA",NA\n"3",,2.5\n')
    data = read_bags(path)
    assert data.bags.ids.tolist() == [1, 2, 3]
    assert data.y.tolist() == [None, "NA", None]
    np.testing.assert_array_equal(data.bags.instances, [[1], [np.nan], [2.5]])
    path.write_text("bag,label,instance_label,x\n1,NA,3,1\n2,0,,7\n3,1,null,0\n")
    data = read_bags(path)
    np.testing.assert_array_equal(data.y, [np.nan, 0, 1])
    assert data.instance_labels.tolist() == [3, -1, -1]
    path.write_text('"bag","label","x"\n"1","0","1.5"\n"2","1","2.5"\n')  # all in quotes
    data = read_bags(path)
    assert (data.bags.ids.tolist(), data.y.tolist()) == ([1, 2], [0, 1])
    assert data.bags.instances.tolist() == [[1.5], [2.5]]


def test_csv_features_are_floats_unless_told(tmp_path):
    path = tmp_path / "bags.csv"
    large = 2**53 + 1  # not a float
    path.write_text(f"bag,x,flag\na,{large},true\nb,1,false\n")
    assert read_bags(path).bags.dtype == np.float64
    assert read_bags(path, dtype="int64").bags.instances.tolist() == [[large, 1], [1, 0]]
    assert read_bags(path, dtype="uint64").bags.dtype == np.uint64
    assert read_bags(path, features="flag").bags.instances.tolist() == [[True], [False]]


def test_csv_types_may_change_late(tmp_path):
    path = tmp_path / "bags.csv"
    rows = "".join(f"{i // 2},{i}\n" for i in range(4000))
    path.write_text("bag,x\n" + rows + "7777,0.5\n")
    for limit in (None, 0):
        data = read_bags(path, memory_limit=limit)
        assert data.bags.n_instances == 4001
        assert data.bags[-1 % len(data.bags)].tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "could not be read"),
        ("bag,x\n", "no rows"),
        ("bag,x\n1,2\n1\n", "could not be read"),
        ("bag,x,x\n1,2,3\n", "several columns named 'x'"),
        ("bag,x\n,2\n", "row 0 belongs to no bag"),
        ("bag,x\n1,two\n", r"not numbers: 'x' \(string\)"),
        ("bag,label\n1,0\n", "no feature column is left"),
        ("\x00\x01\x02", "could not be read|bag="),
    ],
)
def test_bad_csv(tmp_path, text, message):
    path = tmp_path / "bags.csv"
    path.write_text(text)
    for limit in (None, 0):
        with pytest.raises(BagwiseError, match=message):
            read_bags(path, memory_limit=limit)


def test_wrong_files(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"absent\.csv"):
        read_bags(tmp_path / "absent.csv")
    for name in ("bags.parquet", "bags.npz", "bags.h5"):
        path = tmp_path / name
        path.write_text("bag,x\n1,2\n")
        with pytest.raises(FileFormatError, match="could not be read"):
            read_bags(path)
        path.write_text("")
        with pytest.raises(FileFormatError, match="could not be read"):
            read_bags(path)
    (tmp_path / "bags.xls").write_text("bag,x\n1,2\n")
    with pytest.raises(FileFormatError, match="has an unknown suffix"):
        read_bags(tmp_path / "bags.xls")
    assert len(read_bags(tmp_path / "bags.xls", format="csv").bags) == 1
    with pytest.raises(InputError, match="folder"):
        read_bags(tmp_path, format="csv")


DOUBLED = pd.DataFrame([[1, 2, 3]], columns=["bag", "x", "x"])


@pytest.mark.parametrize("source", [42, {"bag": [1]}, pl.LazyFrame({"bag": [1]}), DOUBLED])
def test_wrong_sources(source):
    with pytest.raises(InputError, match="expected a path, or a data frame"):
        read_bags(source)


def test_a_type_that_would_lose_values(table):
    for wrong in ("int64", "bool"):
        with pytest.raises(InputError, match="set another dtype"):
            read_bags(table, bag="slide", features=["red"], dtype=wrong)
    assert read_bags(table, bag="slide", features=["count"], dtype="uint8").bags.dtype == np.uint8
    for wrong in ("foo", "U3", object):
        with pytest.raises(InputError, match="not a type"):
            read_bags(table, bag="slide", features=["count"], dtype=wrong)


def test_labels_from_elsewhere(table, tmp_path):
    features = {"bag": "slide", "features": ["red"]}
    known = {"s1": 0, "s2": 1, "s3": None, "unused": 1}
    np.testing.assert_array_equal(read_bags(table, labels=known, **features).y, [1, 0, np.nan])
    sets = read_bags(table, labels={"s1": {"x", "y"}, "s2": set(), "s3": None}, **features)
    assert sets.label_sets.tolist() == [[0, 0], [1, 1], [-1, -1]]
    path = tmp_path / "labels.csv"
    path.write_text("slide,site,outcome\ns1,A,good\ns2,B,bad\ns3,C,bad\n")
    assert read_bags(table, labels=path, label="outcome", **features).y.tolist() == [
        "bad",
        "good",
        "bad",
    ]
    with pytest.raises(LabelError, match="no entry for 1 of 3 bags, such as 's3'"):
        read_bags(table, labels={"s1": 0, "s2": 1}, missing="error", **features)
    with pytest.raises(InputError, match="name the column of its labels with label="):
        read_bags(table, labels=path, bag="slide", features=["red"])


@pytest.mark.parametrize("kind", ["dict", "csv", "frame"])
def test_bags_that_the_labels_do_not_mention(table, tmp_path, kind):
    labels = {"s2": "bad", "s3": None, "s9": "good"}
    if kind != "dict":
        labels = pd.DataFrame({"slide": list(labels), "label": list(labels.values())})
    if kind == "csv":
        path = tmp_path / "labels.csv"
        labels.to_csv(path, index=False)
        labels = path
    features = {"bag": "slide", "features": ["red"], "labels": labels}
    whole = read_bags(table, bag="slide", features=["red"]).bags
    with pytest.warns(DataWarning, match="no entry for 1 of 3 bags, such as 's1': they"):
        data = read_bags(table, **features)
    assert dict(zip(data.bags.ids.tolist(), data.y.tolist(), strict=True)) == {
        "s1": None,
        "s2": "bad",
        "s3": None,
    }
    data = read_bags(table, missing="drop", **features)
    assert sorted(data.bags.ids.tolist()) == ["s2", "s3"]
    for name, bag in zip(data.bags.ids, data.bags, strict=True):
        np.testing.assert_array_equal(bag, whole[whole.ids.tolist().index(name)])
    with pytest.raises(LabelError, match="no entry for 1 of 3 bags"):
        read_bags(table, missing="error", **features)
    with pytest.raises(InputError, match="missing='maybe': expected one of unlabelled"):
        read_bags(table, missing="maybe", **features)
    with pytest.raises(LabelError, match="no bag id is in labels="):
        read_bags(table, **features | {"labels": {"t1": 0, "t2": 1}})


def test_what_is_dropped_is_dropped_everywhere(tmp_path, rng):
    rows = {"bag": list("aabbbc"), "start": range(6), "end": range(1, 7), "x": rng.normal(size=6)}
    frame = pd.DataFrame(rows | {"instance_label": [0, 1, 0, 1, 1, 0], "label": list("uuvvvw")})
    labels = pd.DataFrame({"bag": ["a", "c"], "label": [1, 0], "site": ["A", "C"]})
    request = Request(label="label", labels=labels, group="site", missing="drop")
    data = read_contents(frame, request)
    assert data.bags.ids.tolist() == ["a", "c"]
    assert data.labels.values.tolist() == [1, 0]
    assert data.bags.groups.tolist() == ["A", "C"]
    assert data.clips.start.tolist() == [0, 1, 5]
    assert data.instance_labels.tolist() == [0, 1, 0]
    assert (data.absent, data.others) == (["b"], [])
    with pytest.raises(LabelError, match="site is unknown"):
        read_contents(frame, replace(request, missing="unlabelled"))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_groups_and_further_columns_are_read_with_the_bags(tmp_path, ending):
    columns = {"slide": ["s1", "s2", "s1"], "patient": [7, 8, 7], "grade": ["high", None, "high"]}
    frame = pd.DataFrame(columns | {"image": ["a.png", None, "007"], "red": [0.1, 0.2, 0.3]})
    path = tmp_path / f"slides{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    roles = {"bag": "slide", "label": "grade"}
    contents = read_contents(path, Request(**roles, group="patient", extra_columns=["image"]))
    assert contents.bags.feature_names == ["red"]
    assert contents.bags.groups.tolist() == [7, 8]
    assert contents.columns == {"image": ["a.png", "007", None]}
    assert contents.labels.tolist() == ["high", None]
    with pytest.raises(InputError, match="no column 'case'"):
        read_contents(path, Request(**roles, group="case"))
    with pytest.raises(InputError, match=r"bag 1 \('s2'\) has no value in the column 'grade'"):
        read_contents(path, Request(bag="slide", group="grade", extra_columns=["image"]))


def test_groups_and_merges_are_read_from_the_file_where_the_labels_have_none():
    bags = pd.DataFrame(
        {"slide": ["s1", "s2", "s3"], "site": ["x", "y", "x"], "red": [0.1, 0.2, 0.3]}
    )
    labels = pd.DataFrame({"slide": ["s2", "s1", "s3"], "grade": [1, 0, 0]})
    request = Request(bag="slide", label="grade", labels=labels)
    placed = labels.assign(place=["p", None, "q"])
    other = replace(request, labels=placed, group="place", exclude=["site"])
    with pytest.raises(InputError, match=r"bag 0 \('s1'\) has no value in the column 'place'"):
        read_contents(bags, other)
    contents = read_contents(bags, replace(request, group="site"))
    assert contents.bags.groups.tolist() == ["x", "y", "x"]
    assert contents.labels.values.tolist() == [0, 1, 0]
    merged = read_contents(bags, replace(request, merge="site"))
    assert merged.bags.names.tolist() == ["x", "y"]
    assert merged.bags.instances.ravel().tolist() == [0.1, 0.3, 0.2]
    with pytest.raises(InputError, match="no column 'centre'"):
        read_contents(bags, replace(request, group="centre"))
