"""``bagwise doctor``: check the installation and the machine."""

import importlib
import importlib.util
import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer

from bagwise.cli import options
from bagwise.cli.output import note, print_json, print_table

_CORE = (
    *("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl"),
    *("narwhals", "typer", "rich"),
)
_IMPORTED_AS = {"scikit-learn": "sklearn"}
# The packages of each extra, as in pyproject.toml.
EXTRAS = {
    "plot": ("matplotlib",),
    "report": ("jinja2", "matplotlib"),
    "io": ("pyarrow", "h5py"),
    "persist": ("skops",),
    "frames": ("pandas",),
    "torch": ("torch",),
    "ann": ("pynndescent",),
    "dask": ("dask", "distributed"),
}


def doctor(json: options.Json = False) -> None:
    """Check the installation: versions, extras, threads, GPU, data folders, terminal.

    Include its output in bug reports. The exit code is 1 if something that every command needs is
    broken. A missing extra is not an error; its pip command is shown.

    ```
    bagwise doctor
    bagwise doctor --json
    ```
    """
    broken: list[str] = []
    facts = {
        "versions": _versions(broken),
        "extras": _extras(),
        "threads": _threads(),
        "gpu": _gpu(),
        "data": _data(broken),
        "files": _files(),
        "terminal": _terminal(),
    }
    _try_kernels(broken)
    if json:
        print_json(facts | {"broken": broken})
    else:
        for title, part in facts.items():
            shown = {"": list(part), "value": [_phrase(value) for value in part.values()]}
            heading = "GPU" if title == "gpu" else title.capitalize()
            print_table(shown, title=heading, heading=False)
    for fault in broken:
        note(f"Broken: {fault}")
    if broken:
        raise typer.Exit(1)
    note("The installation works.")


def _versions(broken: list[str]) -> dict[str, str]:
    from bagwise import __version__

    found = {"bagwise": __version__, "python": platform.python_version()}
    found["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}"
    for name in _CORE:
        try:
            importlib.import_module(_IMPORTED_AS.get(name, name))
        except Exception as error:  # an import can raise any exception
            broken.append(f"{name} cannot be imported: {error}")
        found[name] = _installed(name) or "absent"
    return found


def _extras() -> dict[str, str]:
    """The versions of the packages of each extra, or the command that installs it."""
    found = {}
    for extra, packages in EXTRAS.items():
        absent = [name for name in packages if _installed(name) is None]
        there = ", ".join(f"{name} {_installed(name)}" for name in packages)
        found[extra] = f'absent: pip install "bagwise[{extra}]"' if absent else there
    return found


def _threads() -> dict[str, Any]:
    from threadpoolctl import threadpool_info

    from bagwise.compiled.threads import n_threads

    pools = [
        f"{pool.get('internal_api')} {pool.get('version') or ''}".strip()
        + f", {pool.get('num_threads')} threads"
        for pool in threadpool_info()
    ]
    return {
        "cores": os.cpu_count(),
        "used by bagwise": n_threads(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "BLAS and OpenMP": pools,
    }


def _gpu() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {"torch": 'absent: pip install "bagwise[torch]"'}
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return {"torch": torch.__version__, "cuda": "none found"}
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = [f"{device.name}, {device.total_memory / 2**30:.0f} GiB" for device in devices]
    kernels = "absent: plain torch is used, which is slower"
    if importlib.util.find_spec("triton") is not None:
        kernels = str(importlib.import_module("triton").__version__)
    return {"torch": torch.__version__, "cuda": names, "triton": kernels}


def _data(broken: list[str]) -> dict[str, Any]:
    from bagwise.datasets import list_datasets, load_musk1
    from bagwise.datasets._registry import data_folders

    try:
        load_musk1()
    except Exception as error:
        broken.append(f"shipped data cannot be read: {error}")
    sets = list_datasets()
    return {
        "BAGWISE_DATA": os.environ.get("BAGWISE_DATA", "not set"),
        "folders": [str(folder) for folder in data_folders()],
        "found": [data.name for data in sets if data.found],
        "absent": [data.name for data in sets if not data.found],
    }


def _files() -> dict[str, str]:
    from bagwise.datasets._registry import user_cache

    places = {"working folder": Path.cwd(), "temporary files": Path(tempfile.gettempdir())}
    places["cache"] = user_cache()
    found = {name: f"{path}: {_writable(path)}" for name, path in places.items()}
    kernels = "not cached, compiled by each process: set NUMBA_CACHE_DIR to a writable folder"
    try:
        from bagwise.compiled.compilation import cache_folder

        if (folder := cache_folder()) is not None:
            kernels = f"{folder}: can be written"
    except Exception as error:  # numba is missing and listed as broken
        kernels = f"unknown: {error}"
    return found | {"compiled kernels": kernels}


def _writable(folder: Path) -> str:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return "can be written" if there == folder else "can be created"
    except OSError as error:
        return f"cannot be written ({error.strerror})"


def _terminal() -> dict[str, Any]:
    from rich.console import Console

    console = Console()
    return {
        "encoding": sys.stdout.encoding or "unknown",
        "width": console.width,
        "colours": console.color_system or "none",
    }


def _try_kernels(broken: list[str]) -> None:
    """Compile and run one function: a broken numba fails only then."""
    import numpy as np

    try:
        from bagwise.compiled import segments

        segments.maximum(np.array([1.0, 3.0, 2.0]), np.array([0, 2, 3]))
    except Exception as error:
        broken.append(f"numba cannot compile a function: {error}")


def _installed(name: str) -> str | None:
    if importlib.util.find_spec(_IMPORTED_AS.get(name, name)) is None:
        return None
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown version"


def _phrase(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return str(value)
