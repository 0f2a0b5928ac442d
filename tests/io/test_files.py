"""Paths that are not regular files raise an error at once and never block."""

import os
import socket
import subprocess
import sys

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


def test_a_pipe_among_the_files_of_a_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.h5")
    with pytest.raises(FileFormatError, match=r"a\.h5 is a pipe"):
        read_bags(tmp_path)


def test_a_pipe_of_labels_is_refused(tmp_path):
    (tmp_path / "bags.csv").write_text("bag,x\na,1\n")
    os.mkfifo(tmp_path / "labels.csv")
    with pytest.raises(FileFormatError, match=r"labels\.csv is a pipe"):
        read_bags(tmp_path / "bags.csv", labels=tmp_path / "labels.csv")


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet", "npz", "hdf5"])
def test_devices_and_sockets_are_refused(tmp_path, format, monkeypatch):
    for device in ("/dev/zero", "/dev/null", "/dev/tty"):
        if os.path.exists(device):
            with pytest.raises(FileFormatError, match="is a device"):
                read_bags(device, format=format)
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(FileFormatError, match="is a socket"):
            read_bags("socket", format=format)


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


def test_the_command_line_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "bags.csv")
    done = subprocess.run(
        [sys.executable, "-m", "bagwise", "info", str(tmp_path / "bags.csv")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "is a pipe" in done.stderr
    assert len(done.stderr.splitlines()) == 1
