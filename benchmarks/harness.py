"""A small harness: alternatives run alternately on the same data, and ratios are reported."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np


@dataclass(frozen=True)
class Row:
    """Our time against that of unavoidable work or a naive version: one or several paired runs.

    The median of the runs is printed, and the ratio with its range over the pairs.
    """

    what: str
    ours: float | Sequence[float]
    against: str
    other: float | Sequence[float]
    goal: str

    def __str__(self) -> str:
        ours, other = np.median(self.ours), np.median(self.other)
        ratios = np.atleast_1d(np.divide(self.ours, self.other))
        spread = f" ({ratios.min():.3g} to {ratios.max():.3g})" if len(ratios) > 1 else ""
        return (
            f"| {self.what} | {ours:.4g} s | {ours / other:.3g} x{spread} "
            f"| {self.against} ({other:.4g} s) | {self.goal} |"
        )


@dataclass(frozen=True)
class Fact:
    """A number that is not a ratio of times: a growth exponent, megabytes, seconds."""

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


def race(*contestants: Callable[[], object], rounds: int = 7) -> list[list[float]]:
    """Seconds of each contestant in each round, alternating after a warm-up (which compiles)."""
    for run in contestants:
        run()
    times = [[seconds(run) for run in contestants] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


def race_iterations(
    fit: Callable[[int], object], other: Callable[[], object], few: int, many: int, rounds: int = 5
) -> tuple[list[float], list[float]]:
    """Seconds of one iteration, and of other work, in each round, run alternately.

    The time of an iteration is the difference between fits of `many` and `few` iterations.
    """
    short, long, others = race(partial(fit, few), partial(fit, many), other, rounds=rounds)
    return [(b - a) / (many - few) for a, b in zip(short, long, strict=True)], others


def growth(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The exponent p of times ~ sizes^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def table(rows: Sequence[Row | Fact]) -> str:
    """The rows as a Markdown table."""
    head = "| what | ours | ratio | to | goal |\n|---|---:|---:|---|---|\n"
    return head + "\n".join(str(row) for row in rows)
