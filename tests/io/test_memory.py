"""Data that do not fit into memory are streamed into memory-mapped files."""

import contextlib
import errno
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise import Bags
from bagwise._common.memory import available_memory, byte_count
from bagwise.compute.mapped import mapped_array
from bagwise.exceptions import BagwiseError, InputError
from bagwise.io import read_bags, write_bags

FORMATS = ["bags.csv", "bags.parquet", "lists.parquet", "bags/"]
# A process each: the others run with all tests.
ONE_QUICK = [FORMATS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FORMATS[1:])]


def backing_file(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return None if array is None else array.filename


def files_in_use(folder):
    """The files of a folder, nameless ones too, that are open or mapped (Linux only)."""
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("the system does not list the open files of a process")
    names = Path("/proc/self/maps").read_text().splitlines()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, by any thread
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in names if str(folder) in name]


@pytest.fixture
def bags(rng):
    return Bags(rng.normal(size=(60, 3)), [0, 10, 15, 60], ids=["a", "b", "c"])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def write(tmp_path, name, bags):
    path = f"{tmp_path}/{name}"
    write_bags(path, bags, y=[0, 1, 0], layout="bags" if "lists" in name else "rows")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_above_the_limit_it_is_on_disk_and_equal(tmp_path, temporary, bags, name):
    path = write(tmp_path, name, bags)
    assert backing_file(read_bags(path, memory_limit="1GB").bags.instances) is None
    data = read_bags(path, memory_limit=bags.instances.nbytes - 1)
    if name == "bags/":  # read from its files each time
        assert not data.bags.is_gathered
        assert files_in_use(temporary) == []
    else:
        file = backing_file(data.bags.instances)
        assert file is not None
        assert os.path.realpath(file).startswith(str(temporary))
    np.testing.assert_array_equal(data.bags.instances, bags.instances)
    assert data.bags.ids.tolist() == ["a", "b", "c"]
    assert data.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ONE_QUICK[:-1])
def test_temporary_files_go_with_the_last_reference(tmp_path, temporary, bags, name):
    path = write(tmp_path, name, bags)
    part = read_bags(path, memory_limit=0).bags[1]
    gc.collect()
    assert len(files_in_use(temporary)) >= 2  # its descriptor and its pages
    np.testing.assert_array_equal(part, bags[1])
    del part
    gc.collect()
    assert files_in_use(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("name", ONE_QUICK)
def test_a_folder_of_the_users_keeps_the_file(tmp_path, temporary, bags, name):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    data = read_bags(write(tmp_path, name, bags), memory_limit=1000, scratch=scratch)
    del data
    gc.collect()
    with pytest.raises(FileNotFoundError, match="scratch="):
        read_bags(tmp_path / name, scratch=tmp_path / "absent")
    (kept,) = scratch.iterdir()
    np.testing.assert_array_equal(np.load(kept), bags.instances)
    assert list(temporary.iterdir()) == []


def test_a_failed_reading_leaves_nothing_behind(tmp_path, bags):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = tmp_path / "bags.csv"
    write_bags(path, bags, y=[0, 1, 0])
    text = path.read_text().splitlines()
    text[-1] = text[-1].replace(",0,", ",1,", 1)  # the label of the last row contradicts its bag
    path.write_text("\n".join(text) + "\n")
    with pytest.raises(BagwiseError, match="several values") as caught:
        read_bags(path, memory_limit=0, scratch=scratch)
    del caught
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("compress", [True, False])
def test_rows_out_of_order_are_scattered_to_their_places(tmp_path, rng, compress):
    X = rng.normal(size=(5000, 2))
    groups = rng.integers(0, 40, size=5000)
    expected = Bags.from_groups(X, groups)
    frame = {"bag": groups, "a": X[:, 0], "b": X[:, 1]}
    pq.write_table(pa.table(frame), tmp_path / "bags.parquet", row_group_size=700)
    save = np.savez_compressed if compress else np.savez
    save(tmp_path / "bags.npz", X=X, bag=groups.astype(str))
    for name in ("bags.parquet", "bags.npz"):
        read = read_bags(tmp_path / name, memory_limit=10_000).bags
        assert backing_file(read.instances) is not None
        np.testing.assert_array_equal(read.instances, expected.instances)
        assert read.ids.astype(int).tolist() == expected.ids.tolist()


def test_an_uncompressed_npz_is_mapped_where_it_is(tmp_path, bags):
    path = tmp_path / "bags.npz"
    write_bags(path, bags, compress=False)
    read = read_bags(path, memory_limit=1000).bags
    assert backing_file(read.instances) == path
    np.testing.assert_array_equal(read.instances, bags.instances)


def test_a_compressed_npz_must_fit_into_memory(tmp_path, bags, monkeypatch):
    write_bags(tmp_path / "bags.npz", bags)
    assert backing_file(read_bags(tmp_path / "bags.npz", memory_limit=0).bags.instances) is None
    monkeypatch.setattr("bagwise._common.memory._ALWAYS_GRANTED", 0)
    monkeypatch.setattr("bagwise._common.memory.available_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"'X' of .*bags\.npz needs .*compress=False"):
        read_bags(tmp_path / "bags.npz")


def test_large_bags_are_written_from_a_memory_map(tmp_path, bags, monkeypatch):
    monkeypatch.setattr("bagwise.io._write_table.BLOCK_VALUES", 50)  # several blocks
    monkeypatch.setattr("bagwise.io._table.BLOCK_VALUES", 30)
    mapped = read_bags(write(tmp_path, "bags.csv", bags), memory_limit=0).bags
    for name in (*FORMATS, "bags.npz"):
        again = read_bags(write(tmp_path / "..", f"{tmp_path.name}/again-{name}", mapped))
        np.testing.assert_array_equal(again.bags.instances, bags.instances)
        np.testing.assert_array_equal(again.bags.offsets, bags.offsets)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("2GB", 2 * 10**9), ("1.5 kib", 1536), ("10", 10), ("3M", 3 * 10**6), (7, 7), (1e3, 1000)],
)
def test_sizes(limit, expected):
    assert byte_count(limit) == expected
    assert 0 < byte_count(None) < available_memory()
    for wrong in ("much", "-1", "2 bananas", -1, True, float("nan")):
        with pytest.raises(InputError, match="memory_limit="):
            byte_count(wrong)


# A full disk


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="not on this system")
def test_the_blocks_of_a_mapped_file_are_claimed(temporary):
    array, _ = mapped_array((1000, 100), "float64")
    status = os.stat(array.filename)
    assert status.st_size >= array.nbytes
    assert 512 * status.st_blocks >= array.nbytes
    assert not array.any()


def full_disk(handle, start, n_bytes):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_is_an_error_and_nothing_is_left(tmp_path, temporary, bags, name, monkeypatch):
    path = write(tmp_path, name, bags)
    monkeypatch.setattr(os, "posix_fallocate", full_disk, raising=False)
    with pytest.raises(InputError, match=r"No space left on device.*TMPDIR.*memory_limit="):
        read_bags(path, memory_limit=0, scratch=temporary)
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name")
def test_nothing_is_left_after_a_kill(tmp_path):
    code = (
        "from bagwise.compute.mapped import mapped_array; import os, signal; "
        "array, _ = mapped_array((1000, 10), float); array[:] = 1; "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60
    )
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == []
