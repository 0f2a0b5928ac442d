"""Data that are probably a mistake give a warning or an error."""

import re
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest

from bagwise import Bags
from bagwise.exceptions import DataWarning, FileFormatError, InputError, LabelError
from bagwise.io import read_bags, write_bags


@pytest.fixture
def read(tmp_path):
    def call(text, **options):
        path = tmp_path / "bags.csv"
        path.write_text(text)
        return read_bags(path, **options)

    return call


@pytest.mark.parametrize("value", ["inf", "-inf", "Infinity", "1e400", "-1e999"])
def test_infinite_values(read, value):
    text = f"bag,x,y\na,1,1\nb,2,{value}\nb,3,inf\n"
    with pytest.warns(DataWarning, match=r"2 values are infinite.*row 1 \(bag 1 \('b'\)\).*'y'"):
        data = read(text)
    assert np.isinf(data.bags.instances).sum() == 2


def test_infinite_values_of_a_frame(rng):
    frame = pd.DataFrame({"bag": ["a", "b"], "x": [1, -np.inf]})
    with pytest.warns(DataWarning, match="-inf in row 1"):
        read_bags(frame)


def test_columns_without_a_value(read):
    text = "bag,x,empty,void\na,1,,NA\nb,2,,\n"
    with pytest.warns(DataWarning, match=r"2 of 3 feature columns \('empty', 'void'\).*exclude="):
        data = read(text)
    assert np.isnan(data.bags.instances[:, 1:]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(text, exclude=["empty", "void"]).feature_names == ["x"]
        assert read(text, features=["x", "void"]).feature_names == ["x", "void"]


def test_rows_that_end_with_a_separator(read):
    with pytest.warns(DataWarning, match="do all rows end with a separator"):
        data = read("bag,x,\na,1,\nb,2,\n")
    assert data.feature_names == ["x"]


def test_the_index_of_pandas(tmp_path):
    frame = pd.DataFrame({"bag": ["a", "b"], "x": [1.0, 2.0]})
    frame.to_csv(tmp_path / "bags.csv")
    with pytest.warns(DataWarning, match="without a name that numbers the rows"):
        assert read_bags(tmp_path / "bags.csv").feature_names == ["x"]
    (tmp_path / "other.csv").write_text(",bag,x\n0.5,a,1\n0.25,b,2\n")
    with pytest.warns(DataWarning, match="without a name is read as a feature"):
        assert read_bags(tmp_path / "other.csv").feature_names == ["", "x"]


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ("yes", "yes ", "the spaces around them"),
        ("Yes", "yes", "upper and lower case"),
        (" yes", "YES", "how they are written"),
        ("1", "1.0", "how they are written"),
        ("true", "TRUE", "upper and lower case"),
    ],
)
def test_labels_that_look_alike(read, first, second, difference):
    text = f"bag,label,x\na,{first},1\nb,{second},2\nc,no,3\n"
    with pytest.warns(DataWarning, match=f"the labels {first!r} and {second!r} .* {difference}"):
        assert len(set(read(text).y.tolist())) == 3
    sets = f"bag,instance_label,x\na,{first},1\nb,{second},2\nc,no,3\n"
    with pytest.warns(DataWarning, match="classes"):
        read(sets)


def test_labels_that_look_alike_in_other_formats(tmp_path):
    bags = Bags(np.ones((3, 2)), [0, 1, 2, 3])
    for name in ("bags.npz", "bags.parquet", "bags/"):
        write_bags(f"{tmp_path}/{name}", bags, y=["yes", "yes ", "no"])
        with pytest.warns(DataWarning, match="'yes' and 'yes '"):
            read_bags(f"{tmp_path}/{name}")


@pytest.mark.parametrize(("first", "second"), [("007", "7"), ("a", "a "), ("1.0", "1")])
def test_ids_that_look_alike(read, first, second):
    text = f"bag,x\n{first},1\n{second},2\nother,3\n"
    with pytest.warns(DataWarning, match=f"the bag ids {first!r} and {second!r}"):
        assert read(text).bags.ids.tolist() == [first, second, "other"]


def test_no_warning_without_need(read):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read('bag,label,x\nA1,yes,1\na1,no,\n007,yes,"2"\n')
        read("bag,label,x\n1,0,1\n2,1,2\n10,1,2\n")
        read("bag,x\n00e1,1\n00e2,2\n0000,3\n")


def test_ids_written_the_same_are_refused(tmp_path):
    frame = pd.DataFrame({"bag": [1, "1"], "x": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"bag 0 \(1\) and bag 1 \('1'\)"):
        read_bags(frame)
    np.savez(tmp_path / "bags.npz", X=np.ones((2, 1)), offsets=[0, 1, 2], ids=["a", "a"])
    with pytest.raises(InputError, match=r"bag 0 \('a'\) and bag 1 \('a'\)"):
        read_bags(tmp_path / "bags.npz")
    for name in ("a.h5", "a.hdf5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["features"] = np.ones((2, 1))
    with pytest.raises(FileFormatError, match=r"a\.h5 and a\.hdf5 would both be the bag 'a'"):
        read_bags(tmp_path)


def test_labels_written_the_same_are_refused(read):
    frame = pd.DataFrame({"bag": ["a", "b"], "label": [1, "1"], "x": [1.0, 2.0]})
    with pytest.raises(LabelError, match="written the same"):
        read_bags(frame)
    with pytest.raises(LabelError, match="several keys that are '1' as text"):
        read("bag,x\n1,1\n2,2\n", labels={1: "a", "1": "b", 2: "a"})


def test_warnings_made_errors_stay_warnings(read):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataWarning, match="infinite"):
            read("bag,x\na,inf\n")


def test_the_command_line_prints_one_line_each(tmp_path):
    (tmp_path / "bags.csv").write_text("bag,label,x,\na,yes,1,\nb,yes ,inf,\n")
    done = subprocess.run(
        [sys.executable, "-m", "bagwise", "info", str(tmp_path / "bags.csv"), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("Warning: ") for line in lines)


@pytest.mark.parametrize("separator", [",", "|", "/"])
def test_label_sets_with_another_separator(read, separator):
    joined = f"owl{separator} robin"
    text = f'bag,x,label_set\na,1,"{joined}"\nb,2,owl\nc,3,"robin{separator}wren"\nd,4,wren\n'
    told = f"2 labels contain '{re.escape(separator)}'.*separator='{re.escape(separator)}'"
    with pytest.warns(DataWarning, match=told):
        data = read(text)
    assert len(data.classes) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(text, separator=separator).classes.tolist() == ["owl", "robin", "wren"]
        # A comma inside of a label is no mistake by itself.
        read('bag,x,label_set\na,1,"gull, herring"\nb,2,owl\nc,3,"owl, tawny;wren"\n')


def test_empty_parts_of_a_label_set_are_no_labels(read):
    """Programs end lists with a separator; a spreadsheet cannot write an empty text in quotes."""
    data = read("bag,x,label_set\na,1,owl;\nb,2,;\nc,3,owl;; robin\nd,4,\n")
    assert data.classes.tolist() == ["owl", "robin"]
    assert data.label_sets.tolist() == [[1, 0], [0, 0], [1, 1], [-1, -1]]
