"""Files are written atomically, and no temporary files are left."""

import errno
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bagwise import Bags
from bagwise._common.files import replacing
from bagwise.io import read_bags, write_bags


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def died(action, path):
    """Run `action` in a process that is killed in it."""
    program = f"""
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from bagwise import Bags
        from bagwise.io import write_bags
        def die(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)
        path = Path(sys.argv[1])
        bags = Bags(np.eye(4), [0, 2, 4], ["a", "b"])
        {textwrap.indent(textwrap.dedent(action), " " * 8).strip()}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_process_leaves_the_old_file(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "bags.csv"
    path.write_text("old")
    died("os.replace = die; write_bags(path, bags, force=True)", path)
    assert path.read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be asked there")
def test_a_folder_that_is_replaced_is_never_lost(tmp_path):
    pytest.importorskip("h5py")
    path, bags = tmp_path / "bags", Bags(np.ones((4, 4)), [0, 2, 4], ["a", "b"])
    write_bags(path, bags, format="hdf5")
    # Killed between the two renames: the old folder is aside, the new one has no name yet.
    died(
        """
        rename, calls = os.rename, []
        os.rename = lambda *places: die() if calls else (calls.append(places), rename(*places))
        write_bags(path, bags, format="hdf5", force=True)
        """,
        path,
    )
    assert [name.rpartition(".")[2] for name in names(tmp_path)].count("old") == 1
    write_bags(path, bags, format="hdf5")
    assert [name.rpartition(".")[2] for name in names(tmp_path)].count("old") == 1


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, reason):
    path = tmp_path / "bags.csv"
    path.write_text("old")

    def fail(_):
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(reason)), replacing(path, force=True) as new:
        new.write_text("new")
    assert names(tmp_path) == ["bags.csv"]
    assert path.read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
@pytest.mark.parametrize("name", ["bags.csv", "bags.npz", "bags"])
def test_a_private_file_stays_private_and_a_link_a_link(tmp_path, name):
    pytest.importorskip("pyarrow")
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / name, tmp_path / name
    format = None if "." in name else "hdf5"
    bags = Bags(np.eye(4), [0, 2, 4], ["a", "b"])
    write_bags(real, bags, format=format)
    real.chmod(0o700 if real.is_dir() else 0o640)
    mode = real.stat().st_mode
    link.symlink_to(real)
    write_bags(link, bags[[1]], force=True, format=format)
    assert link.is_symlink()
    assert real.stat().st_mode == mode
    assert read_bags(real, format=format).bags.ids.tolist() == ["b"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "real"])
