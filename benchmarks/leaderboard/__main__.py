"""The commands: see `python -m benchmarks.leaderboard --help`."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from bagwise.auto._methods import find_method
from bagwise.exceptions import BagwiseError, DataNotFoundError

from . import __doc__ as purpose
from . import store
from .cells import BASELINES, METHODS, NEVER, ROOT, ROWS, SLOW, cell, run_apart, run_here
from .sets import SETS
from .tables import (
    MEASURES,
    PAGE,
    arranged,
    draw,
    fill,
    gains,
    keep,
    summary,
    table,
    without_scores,
)


def main() -> None:
    """Run a command."""
    options = parsed()
    if options.command == "cell":
        found = cell(options.set, options.method)
        found["found"] = {key: values.tolist() for key, values in found["found"].items()}
        print(json.dumps(found))
    elif options.command == "show":
        show(arranged(store.results(store.STORED, store.OWN), options.methods or ()), options)
    elif options.command == "add":
        add(options)
    elif options.command == "page":
        write_page()
    else:
        compute(options)


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.leaderboard",
        description=purpose,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [name for sets in SETS.values() for name in sets]
    commands = parser.add_subparsers(dest="command")
    shown = commands.add_parser("show", help="print the tables from the stored predictions")
    shown.add_argument("--methods", nargs="+", help="these only")
    added = commands.add_parser("add", help="fit a method of yours, and show it beside the others")
    added.add_argument("method", help="package.module:Class, or a method of bagwise")
    added.add_argument("--to", type=Path, default=store.OWN, help="the folder of its predictions")
    for command in (shown, added):
        command.add_argument("--measures", nargs="+", help="these tables only, such as AUC")
    commands.add_parser("page", help="write the kept means, docs/leaderboard.md and its figures")
    one = commands.add_parser("cell", help="print the scores of a method on a set as JSON")
    one.add_argument("set", choices=names)
    one.add_argument("method")
    parser.add_argument("--methods", nargs="+", choices=[*ROWS, *BASELINES], metavar="METHOD")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a method on a set")
    parser.add_argument("--again", action="store_true", help="also what is stored")
    for command in (parser, shown, added):
        command.add_argument("--sets", nargs="+", choices=names, metavar="SET")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        help="processes at a time; 0 for one method after the other in this process, without limit",
    )
    return parser.parse_args()


def show(results: dict, options: argparse.Namespace) -> None:
    """Print the tables."""
    print_tables(results, options.sets, options.measures)
    print(*without_scores(results), sep="\n")


def print_tables(results: dict, sets: list[str] | None, measures: list[str] | None) -> None:
    """Print a table per measure; all measures if none are named."""
    chosen = {
        kind: {name: cells for name, cells in found.items() if not sets or name in sets}
        for kind, found in results.items()
    }
    kept = summary({kind: found for kind, found in chosen.items() if found})
    for kind, part in kept.items():
        for measure, by_method in part["measures"].items():
            if by_method and (not measures or measure in measures):
                print(f"### {kind}: {measure}\n\n{table(f'{kind}: {measure}', kept)}")


def write_page() -> None:
    """Write the kept means, the tables of the page and its figures, if all methods are stored."""
    results = arranged(store.results(store.STORED))
    known = {method for found in results.values() for cells in found.values() for method in cells}
    if absent := [name for name in (*METHODS, *BASELINES) if name not in {*known, *NEVER}]:
        raise store.LeaderboardError(
            f"not stored: {', '.join(absent)}. Run python -m benchmarks.leaderboard first."
        )
    keep(kept := summary(results))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    for kind, found in results.items():
        draw(kind, found)
    print(f"written: {PAGE.relative_to(ROOT)}")


def add(options: argparse.Namespace) -> None:
    """Fit a method on the folds, store its predictions, and print its row beside the others."""
    find_method(options.method)  # refuses what cannot be imported
    for kind in SETS:
        for name in SETS[kind]:
            if not options.sets or name in options.sets:
                print(f"{name} ...", file=sys.stderr, flush=True)
                found = run_here(name, options.method)
                if "failed" in found:
                    print(f"{name}: {found['failed']}", file=sys.stderr)
                store.add(options.method, name, found, options.to)
    results = arranged(store.results(store.STORED, store.OWN, options.to))
    own = {
        kind: {n: c for n, c in found.items() if "scores" in c.get(options.method, {})}
        for kind, found in results.items()
    }
    print_tables(own, None, options.measures or [names[0] for names in MEASURES.values()])
    for kind, found in own.items():
        for reference in ("pooled-trees", "auto"):
            if gained := gains(kind, found, options.method, reference):
                print(
                    f"`{options.method}` minus `{reference}`, better if positive, 95% interval:\n"
                )
                print(table(f"{kind}: gains", {kind: {"gains": gained}}))
    print(f"stored: {store.file_of(options.method, options.to)}")


def compute(options: argparse.Namespace) -> None:
    """Compute and store the predictions that are missing."""
    store.truths()  # draws the folds, if there are none
    jobs = list(missing(options))
    # The longest first, so that the last process does not run alone.
    jobs.sort(key=lambda job: SLOW.index(job[1]) if job[1] in SLOW else len(SLOW))
    for (name, method), found in done(jobs, options):
        store.add(method, name, found, store.STORED)
        print(f"{name}: {method}: {found.get('failed', 'done')}", file=sys.stderr, flush=True)


def missing(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The cells that are to be computed."""
    stored = {} if options.again else store.cells(store.STORED)
    for kind, sets in SETS.items():
        for method in options.methods or [m for m in (*ROWS, *BASELINES) if m not in NEVER]:
            known = None if method in BASELINES else ROWS.get(method)
            if known and not (known.available and (known.label_sets or kind == "labels")):
                continue
            for name in options.sets or sets:
                if name in sets and name not in stored.get(method, {}):
                    yield name, method


def done(jobs: list, options: argparse.Namespace) -> Iterator[tuple[tuple[str, str], dict]]:
    """Each cell with its result, as soon as it is there."""
    if not options.jobs:
        yield from ((job, run_here(*job)) for job in jobs)
        return
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run_apart, *job, options.limit): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()


if __name__ == "__main__":
    try:
        main()
    except (BagwiseError, DataNotFoundError) as error:
        sys.exit(f"{error}")
