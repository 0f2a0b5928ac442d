"""Tables with one row per bag."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.exceptions import BagwiseError, FileFormatError, InputError
from bagwise.io import read_bags

ROWS = {
    "bag": ["b", "a", "c"],
    "label": [1, 0, 1],
    "instance_label": [["x", None], [], ["y"]],
    "red": [[0.5, 1.5], [], [2.5]],
    "blue": [[1, 2], [], [3]],
}
NESTED = {"bag": ["b", "a", "c"], "e": [[[0.5, 1], [1.5, 2]], [], [[2.5, 3]]]}


@pytest.fixture(params=["pyarrow", "polars", "pandas", "parquet", "large", "small groups"])
def make(request, tmp_path):
    def table(columns):
        arrow = pa.table(columns)
        match request.param:
            case "pyarrow":
                return arrow
            case "polars":
                return pl.DataFrame(columns)
            case "pandas":
                return pd.DataFrame(columns)
            case "large":
                types = {
                    "e": pa.large_list(pa.list_(pa.float64())),
                    "red": pa.large_list(pa.float64()),
                }
                fields = [pa.field(f.name, types.get(f.name, f.type)) for f in arrow.schema]
                return arrow.cast(pa.schema(fields))
            case _:
                path = tmp_path / "bags.parquet"
                pq.write_table(arrow, path, row_group_size=1 if "small" in request.param else None)
                return path

    return table


def test_lists_of_numbers(make):
    data = read_bags(make(ROWS))
    assert data.bags.ids.tolist() == ["b", "a", "c"]
    assert data.bags.offsets.tolist() == [0, 2, 2, 3]
    assert data.bags.instances.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert data.feature_names == ["red", "blue"]
    assert data.y.tolist() == [1, 0, 1]
    assert data.classes.tolist() == ["x", "y"]
    assert data.instance_labels.tolist() == [0, -1, 1]


@pytest.mark.parametrize("limit", [None, 0])
def test_a_list_of_vectors(make, limit):
    data = read_bags(make(NESTED), memory_limit=limit, dtype="float32")
    assert data.bags.offsets.tolist() == [0, 2, 2, 3]
    assert data.bags.instances.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert data.feature_names == ["e_0", "e_1"]
    assert data.bags.dtype == np.float32


def test_vectors_of_fixed_size(tmp_path):
    kind = pa.list_(pa.list_(pa.float16(), 2))
    table = pa.table({"e": pa.array(NESTED["e"], kind)})
    path = tmp_path / "bags.parquet"
    pq.write_table(table, path)
    data = read_bags(path)
    assert data.bags.ids is None
    assert data.bags.dtype == np.float16
    assert data.bags.sizes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blue": [[1, 2], [], [3, 4]]}, "row 2 has lists of different lengths: 2 values"),
        ({"blue": [[1, 2], None, [3]]}, "row 1 has nothing in the column 'blue'"),
        ({"bag": ["b", "a", "b"]}, "'b' has several rows"),
        ({"bag": ["b", None, "c"]}, "row 1 belongs to no bag"),
        ({"blue": [1, 2, 3]}, "'red' is a list per row"),
        ({"blue": [["u", "v"], [], ["w"]]}, "not numbers: 'blue'"),
        ({"instance_label": [["x"], [], ["y"]]}, "row 0 has lists of different"),
        ({"instance_label": ["x", "y", "z"]}, "list of values for each bag"),
        ({"e": [[[1.0]], [], [[1.0]]]}, "one list of vectors"),
    ],
)
def test_bad_lists(make, change, message):
    with pytest.raises(BagwiseError, match=message):
        read_bags(make(ROWS | change))


def test_ragged_vectors(make):
    with pytest.raises(InputError, match="lists of different lengths: 1 values in the column 'e'"):
        read_bags(make(NESTED | {"e": [[[0.5, 1], [1.5]], [], [[2.5, 3]]]}))
    hollow = pa.array([[]], pa.list_(pa.list_(pa.float64())))
    with pytest.raises(FileFormatError, match="every list in the column 'e' is empty"):
        read_bags(pa.table({"bag": ["a"], "e": hollow}))


def test_lists_beside_texts_in_a_pandas_column():
    frame = pd.DataFrame({"bag": [1, 2], "e": [[1.0, 2.0], "three"]})
    with pytest.raises(InputError, match="cannot be read"):
        read_bags(frame)


def test_no_rows():
    with pytest.raises(FileFormatError, match="no rows"):
        read_bags(pa.table({"e": pa.array([], pa.list_(pa.float64()))}))
