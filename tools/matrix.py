"""Run the tests in another environment: ``python tools/matrix.py LEG [options]``.

Legs with their own environment create it in ``.venv-LEG``. Arguments after the name of the leg are
passed to pytest instead of the leg's selection of tests, such as ``oldest tests/io -x``.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = ["pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100"]
WORKERS = ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
QUICK = ["-m", "not slow and not network"]

# Tests of compiled code and of its direct callers.
COMPILED = [
    "tests/loops",
    "tests/annotation/test_label_sets.py",
    "tests/classification/test_diverse_density.py",
    "tests/classification/test_mil_boost.py",
    "tests/classification/test_one_sided_solver.py",
    "tests/classification/test_primal_dual_solver.py",
    "tests/metric_learning/test_miml_metric.py",
    "tests/test_pairwise.py",
    "tests/solvers/test_well_svm.py",
    "src/bagwise/loops",
]
# Small enough for loops in plain Python: seconds, not minutes.
SMALL = [
    "tests/loops/test_simplex.py",
    "tests/loops/test_segments.py",
    "tests/loops/test_assignment.py",
    "tests/loops/test_dual_descent.py",
    "src/bagwise/loops",
    "src/bagwise/pairwise.py",
]


# Tests that need torch: those of all estimators and engines, and separate files.
WITH_TORCH = ["-k", "torch or tensor or attention or minet or mi_net", "tests"]


class Leg(NamedTuple):
    """Requirements, environment variables and tests of an environment."""

    purpose: str
    requirements: list[str] | None  # None: the environment that runs this script
    variables: dict[str, str]
    tests: list[str]


def requirements(extras, groups=()):
    """The requirements of the project with some of its extras and dependency groups."""
    found = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        found += PROJECT["project"]["optional-dependencies"][extra]
    for group in groups:
        found += PROJECT["dependency-groups"][group]
    return list(dict.fromkeys(line for line in found if not line.startswith("bagwise")))


def lowest(lines):
    """Each requirement at its lower bound: ``numpy>=2.0`` as ``numpy==2.0.*``."""
    return [re.sub(r">=([\d.]+)$", r"==\1.*", line) for line in lines]


PACKAGES = requirements(
    extra
    for extra in PROJECT["project"]["optional-dependencies"]
    if extra not in ("all", "torch", "survival", "cells", "chem")  # large; `make test-partners`
)

LEGS = {
    "core": Leg("without any extra", requirements([]) + TOOLS, {}, QUICK),
    "oldest": Leg(
        "the oldest versions pyproject.toml allows",
        # matplotlib 3.8 calls functions that pyparsing 3.3 deprecates.
        [*lowest(PACKAGES), "pyparsing<3.3", *TOOLS],
        {},
        QUICK,
    ),
    "newest": Leg("the newest versions there are", [*PACKAGES, *TOOLS, "polars"], {}, QUICK),
    "torch": Leg(
        "with torch, on the CPU", [*PACKAGES, *TOOLS, "torch==2.13.0"], {}, [*QUICK, *WITH_TORCH]
    ),
    "nojit": Leg(
        "compiled code as plain Python", None, {"NUMBA_DISABLE_JIT": "1"}, [*QUICK, *SMALL]
    ),
    "bounds": Leg(
        "every index of compiled code checked",
        None,
        {"NUMBA_BOUNDSCHECK": "1"},
        [*QUICK, *COMPILED],
    ),
}


def main():
    lines = [f"{name}: {leg.purpose}" for name, leg in LEGS.items()]
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="; ".join(lines), allow_abbrev=False
    )
    parser.add_argument("leg", choices=LEGS)
    parser.add_argument("--python", default=sys.executable, help="the Python of a new environment")
    options, words = parser.parse_known_args()
    leg = LEGS[options.leg]
    python = environment(options.leg, leg.requirements, options.python)
    print(f"== {options.leg}: {leg.purpose}", flush=True)
    command = [python, "-m", "pytest", "-q", *WORKERS, *(words or leg.tests)]
    # Bounds-checked code, and code of another numba, has the same cache name: one folder per leg.
    variables = {"NUMBA_CACHE_DIR": str(ROOT / ".cache" / options.leg)} | leg.variables
    sys.exit(subprocess.run(command, cwd=ROOT, env=os.environ | variables).returncode)


def environment(name, packages, base):
    """The Python of the leg; its environment is rebuilt if the requirements changed."""
    if packages is None:
        return sys.executable
    folder = ROOT / f".venv-{name}"
    python, stamp = folder / "bin" / "python", folder / ".requirements"
    wanted = hashlib.sha256("\n".join([base, *packages]).encode()).hexdigest()
    if name == "newest" or not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-q", "--upgrade"]
        subprocess.run([*pip, "pip"], check=True)
        subprocess.run([*pip, "-e", ROOT, *packages], check=True)
        stamp.write_text(wanted)
    return python


if __name__ == "__main__":
    main()
