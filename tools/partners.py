"""Tests with the real packages of other projects: ``python tools/partners.py [NAME ...]``.

Each group of packages has its own environment in ``.venv-partners-GROUP``, because they may need
other versions of their dependencies. A package that cannot be installed is skipped with the reason.
Fails if a test fails, or if fewer than 8 partners ran.
"""

import argparse
import os
import re
import subprocess
import sys
from typing import NamedTuple

from matrix import ROOT, environment, requirements

TESTS = ROOT / "tests" / "partners"
ENOUGH = 8
# The distributions of each group; the test of a partner is tests/partners/test_NAME.py.
GROUPS = {
    "conformal": ["mapie", "crepes", "cleanlab", "optuna"],
    "data": ["polars", "dask", "anndata", "crowsetta", "rdkit"],
    "survival": ["scikit-survival"],
    "torch": ["skorch", "torchmil"],
}
ALSO = {
    "data": ["distributed", "pandas"],
    # The builds for the CPU: newer ones bring gigabytes for GPUs.
    "torch": ["torch==2.13.0"],
}


class Result(NamedTuple):
    """What came of the tests with a partner."""

    partner: str
    version: str
    verdict: str


def main():
    partners = [name for group in GROUPS.values() for name in group]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(partners)}")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    options = parser.parse_args()
    if unknown := set(options.names) - set(partners):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    found = []
    for group, names in GROUPS.items():
        wanted = [name for name in names if not options.names or name in options.names]
        found += group_results(group, wanted, options.python) if wanted else []
    width = max(len(result.partner) for result in found)
    print(*(f"{r.partner:{width}}  {r.version:10}  {r.verdict}" for r in found), sep="\n")
    passed = sum(result.verdict == "passed" for result in found)
    failed = [result.partner for result in found if result.verdict.startswith("failed")]
    skipped = len(found) - passed - len(failed)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    sys.exit(bool(failed) or (not options.names and passed < ENOUGH))


def group_results(group, names, base):
    """Install a group, together or else one by one, and run its tests."""
    common = [*requirements(["io"]), "pytest>=8", "hypothesis>=6.100", *ALSO.get(group, [])]
    try:
        python = environment(f"partners-{group}", [*common, *names], base)
    except subprocess.CalledProcessError:
        if len(names) == 1:
            return [Result(names[0], "-", "skipped: pip cannot install it")]
        return [result for name in names for result in group_results(group, [name], base)]
    return [tested(python, name) for name in names]


def tested(python, name):
    """The version of a partner, and whether its tests pass."""
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    version = subprocess.run([python, "-c", code, name], capture_output=True, text=True)
    file = TESTS / f"test_{name.replace('-', '_')}.py"
    variables = {"NUMBA_CACHE_DIR": str(ROOT / ".cache" / "partners")}
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0 and re.search(r"\d+ passed", done.stdout):
        return Result(name, version.stdout.strip(), "passed")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "SKIPPED"))]
    skipped = done.returncode in (0, 5)
    if not skipped:
        print(done.stdout)
    reason = lines[0] if lines else f"exit code {done.returncode}"
    return Result(name, version.stdout.strip(), f"{'skipped' if skipped else 'failed'}: {reason}")


if __name__ == "__main__":
    main()
