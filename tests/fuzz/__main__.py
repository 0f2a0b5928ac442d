"""Test hostile inputs and print the outcomes; exit with 1 if any is bad."""

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import importlib

from fuzz import BAD, FINE, PARTS, REFUSED
from fuzz.workers import run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many in all")
    parser.add_argument("--part", choices=sorted(PARTS), nargs="+", default=sorted(PARTS))
    parser.add_argument("--only", nargs="+", help="these subjects (estimators, file types) only")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each subject")
    parser.add_argument("--timeout", type=float, default=60, help="CPU seconds for one case")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args()
    counts, failures, slowest = defaultdict(Counter), defaultdict(list), Counter()
    try:
        for part, cases in planned(options):
            for subject, seed, seconds, outcome in run(
                part, cases, jobs=options.jobs, timeout=options.timeout
            ):
                counts[part, subject][outcome.verdict] += 1
                slowest[part, subject] = max(slowest[part, subject], seconds)
                if outcome.verdict == BAD:
                    found = failures[part, subject, outcome.kind]
                    found.append((seed, outcome.detail))
                    if len(found) == 1:
                        print(f"{subject} seed {seed}: {outcome.kind}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: what was tried so far", file=sys.stderr)
    if not counts:
        return 1
    report(counts, failures, slowest)
    return 1 if failures else 0


def planned(options):
    """The cases of each part: ``(subject, seed)``, alternating between subjects."""
    wanted = {}
    for part in options.part:
        subjects = importlib.import_module(PARTS[part]).subjects()
        wanted[part] = [s for s in subjects if options.only is None or s in options.only]
    n_subjects = sum(map(len, wanted.values()))
    if not n_subjects:
        sys.exit(f"no subject is called {options.only}")
    for part, subjects in wanted.items():
        n_cases = -(-options.cases * len(subjects) // n_subjects)
        turns = [divmod(i, len(subjects)) for i in range(n_cases)]
        yield part, [(subjects[which], options.seed + turn) for turn, which in turns]


def report(counts, failures, slowest):
    width = max(len(subject) for _, subject in counts)
    print(f"{'':{width}}  {FINE:>8} {REFUSED:>8} {BAD:>8} {'slowest':>8}")
    for key in sorted(counts):
        verdicts = " ".join(f"{counts[key][verdict]:8d}" for verdict in (FINE, REFUSED, BAD))
        print(f"{key[1]:{width}}  {verdicts} {slowest[key]:7.1f}s")
    total = sum(counts.values(), Counter())
    verdicts = " ".join(f"{total[verdict]:8d}" for verdict in (FINE, REFUSED, BAD))
    print(f"{'all':{width}}  {verdicts}")
    for (part, subject, kind), found in sorted(failures.items(), key=lambda item: item[0]):
        seed, detail = found[0]
        print(f"\n{subject}: {kind} ({len(found)} cases)\n    {detail}")
        print(f"    python -m tests.fuzz --part {part} --only {subject} --seed {seed} --cases 1")


if __name__ == "__main__":
    sys.exit(main())
