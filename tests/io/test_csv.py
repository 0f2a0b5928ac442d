"""CSV files in practice: many bags, wide tables, the dialects of spreadsheets."""

import numpy as np
import pytest

from bagwise.exceptions import FileFormatError
from bagwise.io import read_bags


def write_ids(path, ids):
    rows = "".join(f"{name},{i % 2},{i / 2}\n" for i, name in enumerate(ids))
    path.write_text("bag,label,x\n" + rows)
    return path


def uuids(n):
    digits = np.random.default_rng(0).bytes(16 * n).hex()
    texts = (digits[32 * i : 32 * (i + 1)] for i in range(n))
    return [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]


@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_bags(tmp_path, n):
    ids = uuids(n)
    data = read_bags(write_ids(tmp_path / "bags.csv", ids))
    assert data.bags.ids.tolist() == ids
    assert data.y.tolist() == [i % 2 for i in range(n)]


def test_a_row_without_end_is_refused(tmp_path):
    (tmp_path / "bags.csv").write_text('bag,x\na,1\n"' + "open " * 2_000_000)
    with pytest.raises(FileFormatError, match=r"bags\.csv could not be read"):
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
    assert data.feature_names == ["x", "y"]
    (tmp_path / "bags.csv").write_text("bag,x, x\na,1,2\n")
    with pytest.raises(FileFormatError, match="several columns named 'x'"):
        read_bags(tmp_path / "bags.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"bag;label;x\na;1;1,5\nb;0;2,5\n", "not separated by ','.*decimal="),
        (b"bag\tlabel\tx\na\t1\t1.5\n", "not separated by ','"),
        ("bag,label,x\né,1,1.5\n".encode("latin-1"), "Save it as UTF-8"),
    ],
)
def test_files_of_spreadsheets_are_refused_with_a_remedy(tmp_path, content, message):
    path = tmp_path / "bags.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        read_bags(path)
