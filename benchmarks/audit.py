"""Which multi-instance assumption each method respects: `python -m benchmarks.audit`.

Writes the table of docs/assumptions.md. Each method runs in its own process, one per core, and its
result is stored in results/audit: an interrupted run can be resumed, and `--again` recomputes all.
With `--methods`, the rows of other methods on the page are unchanged.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import joblib
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from bagwise.assumptions import check_assumptions
from bagwise.assumptions._check import AssumptionCheck, Row, overview
from bagwise.auto._methods import METHODS, audited_model
from bagwise.classification import PrimalDualMISVM
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline

from .peers import peers

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "results" / "audit"
PAGE = ROOT / "docs" / "assumptions.md"
BEGIN, END = "<!-- table: python -m benchmarks.audit -->\n", "<!-- end of the table -->\n"
STANDARD = {"assumption": "standard", "C": 1.0}
# A fit of these takes seconds: use fewer seeds, so that the audit takes ten minutes on two cores.
FEWER = {"auto": 2, "auto, standard": 2, "dd": 5, "emdd": 5}
SET = {"dd": {"n_start_bags": 10}}  # a search from the instances of every bag takes minutes
VARIANTS = {
    "auto, standard": partial(audited_model, METHODS["auto"], {"assumption": "standard"}),
    "pdmisvm, standard": partial(audited_model, METHODS["pdmisvm"], STANDARD),
    "pdmisvm, standard, Nystroem": lambda: make_bag_pipeline(
        InstanceTransformer(StandardScaler()),
        InstanceTransformer(Nystroem(n_components=300, random_state=0)),
        PrimalDualMISVM(**STANDARD),
    ),
}


def models() -> dict[str, Callable[[], Any]]:
    """The rows of the table: the methods of the command line, variants, other packages."""
    available = {name: method for name, method in METHODS.items() if method.available}
    ours = {n: partial(audited_model, method, SET.get(n, {})) for n, method in available.items()}
    return ours | VARIANTS | peers()


def measure(name: str, seeds: int) -> None:
    """Audit one of `models`, and store the result."""
    start, cpu = time.perf_counter(), time.process_time()
    found = check_assumptions(models()[name](), seeds=min(seeds, FEWER.get(name, seeds)))
    facts = {"rows": [vars(row) for row in found.rows]}
    facts["seconds"] = time.perf_counter() - start
    facts["cpu_seconds"] = time.process_time() - cpu
    KEPT.mkdir(parents=True, exist_ok=True)
    kept_file(name, seeds).write_text(json.dumps(facts))


def kept_file(name: str, seeds: int) -> Path:
    return KEPT / f"{name.replace(', ', '-')}-{seeds}.json"


def table(seeds: int, before: str) -> str:
    """The table of the page: a row per method, taken from the old page if no result is stored."""
    files = {name: kept_file(name, seeds) for name in models()}
    facts = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    checks = {n: AssumptionCheck([Row(**row) for row in f["rows"]]) for n, f in facts.items()}
    columns = overview(checks)
    rows = {line.split("`")[1]: line for line in before.splitlines() if line.startswith("| `")}
    for name, *cells in zip(*columns.values(), strict=True):
        bold = [f"**{c.removesuffix(' passes')}**" if c.endswith("passes") else c for c in cells]
        rows[name] = f"| `{name}` | {' | '.join(bold)} |"
    order = dict.fromkeys([*files, *rows])  # packages that are not installed here come last
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [rows[name] for name in order if name in rows]
    fewer = ", ".join(f"{n} for `{name}`" for name, n in FEWER.items() if n < seeds)
    lines += ["", f"{seeds} seeds ({fewer}). `dd` searches from the instances of ten bags."]
    if len(facts) == len(rows):
        seconds = sum(fact["cpu_seconds"] for fact in facts.values())
        lines += [f"All rows took {seconds:.0f} seconds of one core."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--methods", nargs="*", help="some of the rows")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        measure(options.cell, options.seeds)
        return
    names = options.methods or list(models())
    missing = [n for n in names if options.again or not kept_file(n, options.seeds).exists()]
    command = [sys.executable, "-m", "benchmarks.audit", "--seeds", str(options.seeds), "--cell"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    start = time.perf_counter()
    with ThreadPoolExecutor(joblib.cpu_count()) as pool:
        runs = pool.map(
            lambda n: subprocess.run([*command, n], env=environment).returncode, missing
        )
        for name, code in zip(missing, runs, strict=True):
            print(f"{name}: {'done' if code == 0 else 'failed'}", flush=True)
    print(f"{len(missing)} methods in {time.perf_counter() - start:.0f} s")
    above, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    before, _, below = rest.partition(END)
    found = table(options.seeds, before)
    PAGE.write_text(f"{above}{BEGIN}\n{found}\n{END}{below}", encoding="utf-8")


if __name__ == "__main__":
    main()
