"""Count the Python calls inside the package and the files they pass, for two tasks of a user.

    python -m tools.passes            # print the counts
    python -m tools.passes --check    # compare with [passes] in tools/size.toml

One process, all its threads are profiled, torch is hidden. The task has run once before in the same
process: imports and compilation are not counted.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
import warnings
from importlib.machinery import PathFinder
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = str(ROOT / "src" / "bagwise") + os.sep
VALIDATE = "check_bags"


class Counter:
    """Counts calls of functions of the package while it is active."""

    def __init__(self):
        self.calls = collections.Counter()

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.calls[frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_name] += 1

    def __enter__(self):
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        threading.setprofile(None)

    def found(self):
        """Numbers of calls, functions, files and validations of bags."""
        checks = sum(n for (_, name), n in self.calls.items() if name == VALIDATE)
        return {
            "calls": sum(self.calls.values()),
            "functions": len(self.calls),
            "files": len({path for path, _ in self.calls}),
            "validations": checks,
        }


def fit():
    """Fit the automatic classifier on 40 bags."""
    from bagwise.auto import AutoBagClassifier
    from bagwise.datasets import make_bags

    data = make_bags(40, 5, random_state=0)
    AutoBagClassifier(random_state=0).fit(data.bags, data.y)


def evaluate():
    """Run `bagwise evaluate table.csv -m nsk`."""
    from bagwise.__main__ import main

    sys.argv = ["bagwise", "evaluate", "table.csv", "-m", "nsk"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end


def measure(name, *, top=0):
    """Run a task in a new process in an empty folder; return its counts."""
    table = (
        "from bagwise.datasets import make_bags; from bagwise.io import write_bags;"
        "data = make_bags(40, 5, random_state=0); write_bags('table.csv', data.bags, y=data.y)"
    )
    settings = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    settings |= dict.fromkeys(("LOKY_MAX_CPU_COUNT", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", table], cwd=folder, env=settings, check=True)
        command = [sys.executable, "-m", "tools.passes", "--task", name, "--top", str(top)]
        done = subprocess.run(
            command, cwd=folder, env=settings, check=True, capture_output=True, text=True
        )
    print(done.stderr, end="", file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1])


TASKS = {"fit": fit, "evaluate": evaluate}


def main():
    """Print the counts; with --check, exit with 1 if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with tools/size.toml")
    parser.add_argument("--top", type=int, default=0, help="show the functions called most often")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        warnings.simplefilter("ignore")
        find = PathFinder.find_spec
        PathFinder.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
        TASKS[options.task]()
        with Counter() as counter:
            TASKS[options.task]()
        for (path, name), n in counter.calls.most_common(options.top):
            print(f"{n:8,} {path} {name}", file=sys.stderr)
        print(json.dumps(counter.found()))
        return 0
    budgets = tomllib.loads((ROOT / "tools" / "size.toml").read_text())["passes"]
    exceeded = []
    for task in TASKS:
        found = measure(task, top=options.top)
        print(f"{task}: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
        limits = budgets[task].items()
        exceeded += [f"{task}: {found[k]:,} {k}, budget {n:,}" for k, n in limits if found[k] > n]
    if options.check:
        print(*(f"passes: {fault}" for fault in exceeded), sep="\n")
        return int(bool(exceeded))
    return 0


if __name__ == "__main__":
    sys.exit(main())
