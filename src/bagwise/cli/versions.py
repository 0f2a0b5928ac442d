"""``bagwise info --versions``: the installation, for bug reports."""

from __future__ import annotations

import importlib.metadata
import platform
import re

import typer

from bagwise.cli.output import print_table

_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:;.*extra == ['\"](\w+)['\"])?")


def print_versions(wanted: bool) -> None:
    """Print the versions of bagwise and its requirements, the cores and the data folders; exit.

    Parameters
    ----------
    wanted : bool
        Whether ``--versions`` was given.
    """
    if not wanted:
        return
    from bagwise import __version__
    from bagwise.datasets._registry import data_folders
    from bagwise.loops.threads import n_threads

    facts = {"bagwise": __version__, "Python": platform.python_version()}
    facts["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}"
    facts["cores"] = str(n_threads())
    facts["data"] = ", ".join(map(str, data_folders()))
    for line in importlib.metadata.requires("bagwise") or ():
        match = _REQUIREMENT.match(line)
        if match is not None and match[1] != "bagwise":
            name, extra = match.groups()
            facts[name] = _version(name, extra)
    print_table({"": list(facts), "value": list(facts.values())}, heading=False)
    raise typer.Exit


def _version(name: str, extra: str | None) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f'absent: pip install "bagwise{f"[{extra}]" if extra else ""}"'
