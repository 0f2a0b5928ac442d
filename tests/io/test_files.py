"""Paths that are not regular files raise an error at once and never block."""

import os

import pytest

from bagwise.exceptions import BagwiseError, DataNotFoundError, FileFormatError
from bagwise.io import read_bags

ENDINGS = [".csv", ".csv.gz", ".tsv", ".parquet", ".npz", ".h5"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pipe_is_refused(tmp_path, ending):
    path = tmp_path / f"bags{ending}"
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match="is a pipe"):
        read_bags(path)
    (tmp_path / f"link{ending}").symlink_to(path)
    with pytest.raises(FileFormatError, match="is a pipe"):
        read_bags(tmp_path / f"link{ending}")
    (tmp_path / "whole.csv").write_text("bag,x\na,1\n")
    with pytest.raises(FileFormatError, match="is a pipe"):
        read_bags(tmp_path / "whole.csv", labels=path)
    if ending == ".h5":  # among the files of a folder
        with pytest.raises(FileFormatError, match=r"bags\.h5 is a pipe"):
            read_bags(tmp_path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_with_the_name_of_a_file(tmp_path, ending):
    (tmp_path / f"bags{ending}").mkdir()
    with pytest.raises(BagwiseError):
        read_bags(tmp_path / f"bags{ending}")


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "a\0b.csv", "bags.csv/inner.csv"])
def test_impossible_names(tmp_path, name):
    (tmp_path / "bags.csv").write_text("bag,x\na,1\n")
    with pytest.raises(DataNotFoundError):
        read_bags(f"{tmp_path}/{name}")
