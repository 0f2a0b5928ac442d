"""CSV files in practice: many bags, long texts, wide tables, quotes."""

import gzip

import numpy as np
import pytest

from bagwise.exceptions import FileFormatError
from bagwise.io import read_bags
from bagwise.io._sources import CsvSource


def write_ids(path, ids):
    rows = "".join(f"{name},{i % 2},{i / 2}\n" for i, name in enumerate(ids))
    path.write_text("bag,label,x\n" + rows)
    return path


def uuids(n):
    digits = np.random.default_rng(0).bytes(16 * n).hex()
    texts = (digits[32 * i : 32 * (i + 1)] for i in range(n))
    return [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]


@pytest.mark.parametrize(
    "ids",
    [uuids(20_000), [f"TCGA-{i:06d}" for i in range(40_000)], list(range(50_000))],
    ids=["uuid", "tcga", "integer"],
)
def test_many_bags(tmp_path, ids):
    data = read_bags(write_ids(tmp_path / "bags.csv", ids))
    assert data.bags.ids.tolist() == ids
    assert data.y.tolist() == [i % 2 for i in range(len(ids))]


@pytest.mark.slow
def test_a_million_bags(tmp_path):
    ids = uuids(1_000_000)
    data = read_bags(write_ids(tmp_path / "bags.csv", ids))
    assert len(data.bags) == 1_000_000
    assert data.bags.ids[::1000].tolist() == ids[::1000]


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("limit", [None, 0])
def test_a_text_longer_than_a_block(tmp_path, place, limit):
    ids = ["a", "b", "c", "d"]
    ids[place] = "long " * 1_000_000
    data = read_bags(write_ids(tmp_path / "bags.csv", ids), memory_limit=limit)
    assert data.bags.ids.tolist() == ids
    assert data.bags.instances.ravel().tolist() == [0, 0.5, 1, 1.5]


def test_one_long_id_does_not_widen_all_others(tmp_path):
    ids = ["long " * 100_000, *map(str, range(1, 2000))]
    data = read_bags(write_ids(tmp_path / "bags.csv", ids))
    assert data.bags.ids.tolist() == ids
    assert data.bags.ids.nbytes < 10**6


@pytest.mark.parametrize("place", ["header", "row"])
def test_a_row_without_end_is_refused(tmp_path, place):
    endless = "open " * 14_000_000
    text = f'bag,"{endless}' if place == "header" else f'bag,x\na,1\n"{endless}'
    (tmp_path / "bags.csv").write_text(text)
    with pytest.raises(FileFormatError, match=r"bags\.csv has a row, or a header, of more than"):
        read_bags(tmp_path / "bags.csv")


def test_a_header_longer_than_the_first_block(tmp_path):
    names = [f"feature {j} {'x' * 200}" for j in range(25_000)]  # 5 MB
    row = ",".join(["0"] * len(names))
    (tmp_path / "bags.csv").write_text(f"bag,{','.join(names)}\na,{row}\nb,{row}\n")
    assert read_bags(tmp_path / "bags.csv").feature_names == names


def test_spaces_around_column_names_are_removed(tmp_path):
    (tmp_path / "bags.csv").write_text('bag , label, x," y"\na,yes,1,2\nb,no,3,4\n')
    data = read_bags(tmp_path / "bags.csv", bag="bag")
    assert data.y.tolist() == ["yes", "no"]
    assert data.feature_names == ["x", " y"]  # quotes keep them
    (tmp_path / "bags.csv").write_text("bag,x, x\na,1,2\n")
    with pytest.raises(FileFormatError, match="several columns named 'x'"):
        read_bags(tmp_path / "bags.csv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('bag,label,x\n"1",0,2\n', {"bag"}),
        ('bag,label,x\n1,"0",2\n', {"label"}),
        ('bag,label,x\n"1","0","2"\n', set()),
        ('bag,label,x\n"1",,"2"\n"2",0,"3"\n', set()),
        ('bag,label,x\r\n\r\n,NA,1\r\n"a,""\r\n",NA,1\r\n1,"NA",1\r\n', {"bag", "label"}),
        ('"bag\n,",label,x\n1,"2",3\n', {"label"}),
        ('bag,label,x\n5" pipe,"7",3\n', {"label"}),
        ("bag,label,x\n", set()),
    ],
)
def test_quoted_columns(tmp_path, text, expected):
    (tmp_path / "bags.csv").write_bytes(text.encode())
    source = CsvSource(tmp_path / "bags.csv", delimiter=",", texts=["bag", "label"], dtype=None)
    assert source._quoted == expected


@pytest.mark.parametrize("name", ["bags.csv", "bags.csv.gz", "bags.tsv"])
def test_quotes_make_a_text_of_a_number(tmp_path, name):
    text = 'bag,label,x\n"1",,1\n"2",,2\n"3","0",3\n'.replace(",", "\t" if "tsv" in name else ",")
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    data = read_bags(path)
    assert data.bags.ids.tolist() == ["1", "2", "3"]
    assert data.y.tolist() == [None, None, "0"]


def test_the_message_of_an_empty_file_is_about_the_file(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(FileFormatError, match="Empty CSV file"):
        read_bags(tmp_path / "empty.csv", bag="bag")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"bag;label;x\na;1;1,5\nb;0;2,5\n", r"separated by ';', expected ','.*decimal=','"),
        (b"bag\tlabel\tx\na\t1\t1.5\n", r"separated by '\\t'"),
        ("bag,label,x\na,1,1.5\n".encode("utf-16"), "encoded as UTF-16: save it as UTF-8"),
        ("bag,label,x\né,1,1.5\n".encode("latin-1"), "Save it in the encoding UTF-8"),
    ],
)
def test_files_of_spreadsheets_are_refused_with_a_remedy(tmp_path, content, message):
    path = tmp_path / "bags.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read_bags(path)
