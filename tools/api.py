"""The public names and parameters of each release, and what a later version took away.

    python -m tools.api             # print what changed since the last stored release
    python -m tools.api --write     # store the names of this version, as part of its release

A name or parameter may go only after it has warned in one minor version: it is then listed in
tools/api/deprecated.toml with the version that warned first. tests/test_compatibility.py runs this.
"""

import argparse
import inspect
import json
import sys
import tomllib
from importlib import import_module
from pathlib import Path

KEPT = Path(__file__).resolve().parent / "api"


def public_names():
    """All public functions, classes and their public methods, each with its parameters."""
    import bagwise

    found = {}
    for package in ("", *bagwise._PACKAGES):
        module = import_module(f"bagwise.{package}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name)
            path = f"{package}.{name}".lstrip(".")
            if callable(thing):
                found[path] = parameters(thing)
            if inspect.isclass(thing):
                found |= {
                    f"{path}.{key}": parameters(getattr(thing, key)) for key in methods(thing)
                }
    return found


def methods(cls):
    """The public methods that the package defines for a class."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("bagwise.")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    return sorted(name for name in names if callable(getattr(cls, name, None)))


def parameters(thing):
    """The names of the parameters of a function or constructor, those without a default first."""
    try:
        given = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # an exception, or a class made in C
        return []
    return [p.name for p in given if p.name != "self"]


def releases():
    """The stored releases, the last one last."""
    files = KEPT.glob("*.json")
    return sorted(files, key=lambda file: [int(part) for part in file.stem.split(".")])


def lost(before, now, deprecated=()):
    """The names and parameters of `before` that are not in `now`, unless they are deprecated."""
    found = [name for name in before if name not in now]
    found += [
        f"{name}({parameter})"
        for name, given in before.items()
        if name in now
        for parameter in given
        if parameter not in now[name]
    ]
    return [name for name in found if name not in deprecated]


def deprecated(version, folder=KEPT):
    """The names that warned in a minor version before this one."""
    listed = tomllib.loads((folder / "deprecated.toml").read_text())
    series = [int(part) for part in version.split(".")[:2]]
    return {name for name, since in listed.items() if [*map(int, since.split("."))] < series}


def unstored(version, now, folder=KEPT):
    """The names that are not stored as they are for the series of a version."""
    file = folder / f"{'.'.join(version.split('.')[:2])}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    return sorted(name for name in {*kept, *now} if kept.get(name) != now.get(name))


def main():
    """Print what went since the last release, or store this version."""
    import bagwise

    parser = argparse.ArgumentParser(prog="python -m tools.api", description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--stored", action="store_true", help="fail unless --write was run")
    now, version = public_names(), bagwise.__version__
    options = parser.parse_args()
    if options.stored:
        missing = unstored(version, now)
        print(*(f"not stored: {name}" for name in missing), sep="\n", end="")
        return int(bool(missing))
    if options.write:
        lines = (f"  {json.dumps(name)}: {json.dumps(now[name])}" for name in sorted(now))
        series = ".".join(version.split(".")[:2])
        (KEPT / f"{series}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    gone = lost(json.loads(releases()[-1].read_text()), now, deprecated(version))
    print(*gone, sep="\n")
    return int(bool(gone))


if __name__ == "__main__":
    sys.exit(main())
