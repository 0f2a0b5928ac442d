"""A small harness: contestants run in turns on the same data, and only ratios are reported."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: ours against something unavoidable or obvious."""

    what: str
    ours: float
    against: str
    other: float
    goal: str

    @property
    def ratio(self) -> float:
        return self.ours / self.other


def race(ours: Callable[[], object], other: Callable[[], object], rounds: int = 7):
    """Median seconds of both, run alternately after one warm-up (which also compiles)."""
    contestants = (ours, other)
    for run in contestants:
        run()
    seconds = ([], [])
    for _ in range(rounds):
        for times, run in zip(seconds, contestants, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return tuple(statistics.median(times) for times in seconds)


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| what | seconds | against | seconds | ratio | goal |",
        "|---|---:|---|---:|---:|---|",
    ]
    lines += [
        f"| {r.what} | {r.ours:.4f} | {r.against} | {r.other:.4f} | {r.ratio:.2f} | {r.goal} |"
        for r in rows
    ]
    return "\n".join(lines)
