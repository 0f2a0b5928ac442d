"""A small harness: alternatives run alternately on the same data, and ratios are reported."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """Ours against something unavoidable or obvious, in seconds."""

    what: str
    ours: float
    against: str
    other: float
    goal: str

    def __str__(self) -> str:
        ratio = f"{self.ours / self.other:.3g} x"
        return (
            f"| {self.what} | {self.ours:.4g} s | {ratio} | {self.against} ({self.other:.4g} s) "
            f"| {self.goal} |"
        )


@dataclass(frozen=True)
class Fact:
    """One number that is no ratio of times: an exponent of growth, megabytes, seconds."""

    what: str
    value: str
    goal: str

    def __str__(self) -> str:
        return f"| {self.what} | {self.value} | | | {self.goal} |"


def seconds(run: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def race(ours: Callable[[], object], other: Callable[[], object], rounds: int = 7):
    """Median seconds of both, run alternately after one warm-up (which also compiles)."""
    contestants = (ours, other)
    for run in contestants:
        run()
    times = [[seconds(run) for run in contestants] for _ in range(rounds)]
    return tuple(statistics.median(column) for column in zip(*times, strict=True))


def growth(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The exponent p of times ~ sizes^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def table(rows: Sequence[Row | Fact]) -> str:
    """The rows as a Markdown table."""
    head = "| what | ours | ratio | to | goal |\n|---|---:|---:|---|---|\n"
    return head + "\n".join(str(row) for row in rows)
