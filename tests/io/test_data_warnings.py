"""Data that are probably a mistake give a warning or an error."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pytest

from bagwise.exceptions import DataWarning, InputError, LabelError
from bagwise.io import read_bags, write_bags


@pytest.fixture
def read(tmp_path):
    def call(text, **options):
        path = tmp_path / "bags.csv"
        path.write_text(text)
        return read_bags(path, **options)

    return call


@pytest.mark.parametrize("text", ["bag,x,\na,1,\nb,2,\n", ",bag,x\n0,a,1\n1,b,2\n"])
def test_a_column_without_a_name_is_left_out(read, text):
    with pytest.warns(DataWarning, match="without a name is left out"):
        assert read(text).feature_names == ["x"]


@pytest.mark.parametrize(("first", "second"), [("yes", "yes "), (" Yes", "yes"), ("true", "TRUE")])
def test_labels_that_look_alike(read, tmp_path, first, second):
    told = "the labels .* differ only by upper and lower case or by spaces"
    with pytest.warns(DataWarning, match=told):
        data = read(f"bag,label,x\na,{first},1\nb,{second},2\nc,no,3\n")
    assert len(set(data.y.tolist())) == 3
    with pytest.warns(DataWarning, match="the classes"):
        read(f"bag,instance_label,x\na,{first},1\nb,{second},2\nc,no,3\n")
    write_bags(tmp_path / "bags.npz", data.bags, y=data.y)
    with pytest.warns(DataWarning, match=told):
        read_bags(tmp_path / "bags.npz")


def test_ids_that_look_alike(read):
    with pytest.warns(DataWarning, match="the bag ids 'a' and 'a '"):
        assert read("bag,x\na,1\na ,2\nother,3\n").bags.ids.tolist() == ["a", "a ", "other"]


def test_warnings_made_errors_stay_warnings(read):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataWarning, match="without a name"):
            read("bag,x,\na,1,\n")


def test_no_warning_without_need(read):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read('bag,label,x\nA1,yes,1\na1,no,\n007,yes,"2"\n')
        read("bag,label,x\n1,0,1\n2,1,2\n10,1,2\n")


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
    with pytest.raises(InputError, match=r"bag 0 \('a'\) and bag 1 \('a'\)"):
        read_bags(tmp_path)


def test_labels_written_the_same_are_refused(read):
    frame = pd.DataFrame({"bag": ["a", "b"], "label": [1, "1"], "x": [1.0, 2.0]})
    with pytest.raises(LabelError, match="written alike"):
        read_bags(frame)
    with pytest.raises(LabelError, match="several keys that are '1' as strings"):
        read("bag,x\n1,1\n2,2\n", labels={1: "a", "1": "b", 2: "a"})


def test_empty_parts_of_a_label_set_are_no_labels(read):
    """Programs end lists with a separator; a spreadsheet cannot write an empty text in quotes."""
    data = read("bag,x,label_set\na,1,owl;\nb,2,;\nc,3,owl;; robin\nd,4,\n")
    assert data.classes.tolist() == ["owl", "robin"]
    assert data.label_sets.tolist() == [[1, 0], [0, 0], [1, 1], [-1, -1]]
