"""Which multi-instance assumption each method respects: `python -m benchmarks.audit`.

Writes benchmarks/kept/audit.json, the table of the site, and the lists of docs/assumptions.md. Each
method runs in its own process, one per core, and its result is stored in results/audit: an
interrupted run can be resumed, and `--again` recomputes all. With `--methods`, the kept rows of
other methods are unchanged.
"""

import argparse
import json
import os
import re
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
STORE = ROOT / "results" / "audit"
PAGE = ROOT / "docs" / "assumptions.md"
PLACE = re.compile(r"(<!-- audit -->\n).*?(<!-- end -->)", re.DOTALL)
KEPT = Path(__file__).parent / "kept" / "audit.json"
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
    STORE.mkdir(parents=True, exist_ok=True)
    kept_file(name, seeds).write_text(json.dumps(facts))


def kept_file(name: str, seeds: int) -> Path:
    return STORE / f"{name.replace(', ', '-')}-{seeds}.json"


def kept_rows() -> dict[str, dict[str, str]]:
    """The kept cells by row and column."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def keep(seeds: int) -> None:
    """Write the kept cells; a row without a stored result stays as it is."""
    files = {name: kept_file(name, seeds) for name in models()}
    facts = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    checks = {n: AssumptionCheck([Row(**row) for row in f["rows"]]) for n, f in facts.items()}
    columns = overview(checks)
    rows = kept_rows()
    for name, *cells in zip(*columns.values(), strict=True):
        rows[name] = dict(zip(list(columns)[1:], cells, strict=True))
    order = dict.fromkeys([*files, *rows])  # packages that are not installed here come last
    lines = [
        f' "{name}": {json.dumps(rows[name], ensure_ascii=False)}' for name in order if name in rows
    ]
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def table() -> str:
    """The kept cells as a table of the site, bold if a test is passed."""
    rows = kept_rows()
    heads = ["method", *next(iter(rows.values()))]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, cells in rows.items():
        bold = [re.sub("(.*) passes", r"**\1**", cell) for cell in cells.values()]
        lines.append(f"| `{name}` | {' | '.join(bold)} |")
    return "\n".join(lines) + "\n"


def fill(page: str) -> str:
    """Write into a page which methods passed each test of a shortcut."""
    lines = []
    for test in ("single concept", "two concepts", "false frequency"):
        groups: dict[str, list[str]] = {"passed": [], "used the shortcut": []}
        for name, cells in kept_rows().items():
            passed = cells[test].endswith("passes")
            if passed or float(cells[test].split(" ")[0]) >= 0.95:
                groups["passed" if passed else "used the shortcut"].append(f"`{name}`")
        told = [f"{kind}: {', '.join(names)}" for kind, names in groups.items() if names]
        lines += [f"- *{test}*, {'; '.join(told)}; the others did not learn it."]
    return PLACE.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], page)


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
    keep(options.seeds)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
