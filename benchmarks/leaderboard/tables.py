"""The tables and figures of the leaderboard, and the kept means that its page shows."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.displays import RankDisplay
from bagwise.evaluate import ranks
from bagwise.evaluate._comparison import Comparison, Evaluation

from .cells import BASELINES, METHODS, ROOT, ROWS
from .sets import SETS, SYNTHETIC
from .store import truths

KEPT = Path(__file__).parent.parent / "kept" / "leaderboard.json"
PAGE = ROOT / "docs" / "leaderboard.md"
PLACE = re.compile(r"(<!-- leaderboard: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURES = ROOT / "docs" / "images"
MEASURES = {
    "labels": ("AUC", "accuracy", "balanced accuracy", "log loss", "seconds"),
    "label sets": ("average precision", "one-error", "log loss", "seconds"),
}
LOW = ("log loss", "one-error", "seconds")  # lower is better
MEANS = ("mean", "mean, real")


def arranged(stored: dict[str, dict], methods: Iterable[str] = ()) -> dict[str, dict]:
    """Results by kind, set and method, in the order of the methods; a cell for each of them."""
    found: dict[str, dict] = {}
    for kind, sets in SETS.items():
        there = dict.fromkeys(method for name in sets for method in stored.get(name, {}))
        listed = [*ROWS, *BASELINES]
        order = [m for m in (*listed, *(m for m in there if m not in listed)) if m in there]
        order = [method for method in order if not methods or method in methods]
        missing = {"failed": "not stored"}
        found[kind] = {
            name: {method: stored[name].get(method, missing) for method in order}
            for name in sets
            if name in stored and order
        }
    return found


def without_scores(results: dict) -> list[str]:
    """Methods that are in no table, and those with a dash in one, each with the reason."""
    there = {m for found in results.values() for by_method in found.values() for m in by_method}
    absent = [method for method in METHODS if method not in there]
    failed: dict[tuple[str, str], list[str]] = {}
    for found in results.values():
        for name, by_method in found.items():
            for method, result in by_method.items():
                if "failed" in result:
                    failed.setdefault((method, result["failed"]), []).append(name)
    dashes = (f"- {m}: {reason} ({', '.join(names)})" for (m, reason), names in failed.items())
    return [*([f"- not stored: {', '.join(absent)}"] if absent else []), *dashes]


def kept_results() -> dict[str, Any]:
    """What `summary` returned when the leaderboard was last run."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def keep(kept: dict[str, Any]) -> None:
    """Write the kept file, a line per method."""
    text = json.dumps(kept, indent=1)
    text = re.sub(r"\n {5,}", " ", text)  # the cells of a method
    KEPT.write_text(re.sub(r"\n {4}([}\]])", r"\1", text) + "\n", encoding="utf-8")


def summary(results: dict[str, dict]) -> dict[str, Any]:
    """By kind: means by measure, method (the best first) and set; gains; what was not run."""
    return {
        kind: {
            "measures": {measure: means_of(found, measure) for measure in MEASURES[kind]},
            "gains": gains(kind, found),
            "failed": {
                f"{name}, {method}": result["failed"]
                for name, by_method in found.items()
                for method, result in by_method.items()
                if "failed" in result
            },
        }
        for kind, found in results.items()
    }


def means_of(found: dict, measure: str) -> dict[str, dict[str, float | None]]:
    """A measure by method, the best mean first, and by set, with its means over the sets."""
    real = [i for i, name in enumerate(found) if name not in SYNTHETIC]
    methods = next(iter(found.values()), {})
    rows = {m: [value_of(by_method[m], measure) for by_method in found.values()] for m in methods}
    rows = {m: values for m, values in rows.items() if not np.isnan(values).all()}
    known = {}
    for method in sorted(rows, key=lambda m: place(rows[m], low=measure in LOW)):
        values = np.array(rows[method])
        parts = dict(zip(MEANS, [values, values[real]], strict=True))
        if len(real) == len(found):
            del parts[MEANS[1]]
        cells = dict(zip(found, values, strict=True)) | {n: p.mean() for n, p in parts.items()}
        known[method] = {n: None if np.isnan(v) else round(float(v), 4) for n, v in cells.items()}
    return known


def gains(
    kind: str, found: dict, method: str = "auto", reference: str = "pooled-trees"
) -> dict[str, dict[str, list[float]]]:
    """How much better a method is than another, with its interval, by data set and measure."""
    gained: dict[str, dict[str, list[float]]] = {}
    for name, by_method in found.items() if method != reference else ():
        if any("failed" in by_method.get(m, {"failed": ""}) for m in (method, reference)):
            continue
        two = [evaluation(m, by_method[m]) for m in (reference, method)]
        ratio = float(np.mean([len(test) / len(train) for train, test in truths()[name].splits]))
        comparison = Comparison(two, ratio)
        gained[name] = {}
        for measure in MEASURES[kind][:2]:
            (difference,) = comparison.differences(measure)
            values = (difference.mean, difference.lower, difference.upper)
            gained[name][measure] = [round(float(v), 4) for v in values]
    return gained


def fill(page: str, kept: dict[str, Any]) -> str:
    """Replace the tables of a page: `<!-- leaderboard: KIND: what -->` ... `<!-- end -->`.

    What: a measure; "gains", or "gains" and measures; or measures with semicolons, of which only
    the means are shown, also those over the real sets ("AUC, real").
    """
    return PLACE.sub(lambda found: found[1] + table(found[2], kept) + found[3], page)


def table(request: str, kept: dict[str, Any]) -> str:
    """The table of a request, the best mean of the first measure first."""
    kind, _, what = request.partition(": ")
    found, names = kept[kind], what.split("; ")
    if names[0] == "gains":
        heads = ["set", *(names[1:] or MEASURES[kind][:2])]
        rows = [
            [name, *("{:+.3f} ({:+.3f} to {:+.3f})".format(*gained[m]) for m in heads[1:])]
            for name, gained in found["gains"].items()
        ]
    elif len(names) == 1:
        by_method = found["measures"][what]
        heads = ["method", *next(iter(by_method.values()))]
        best = {
            name: (min if what in LOW else max)(
                (cells[name] for cells in by_method.values() if cells[name] is not None),
                default=None,
            )
            for name in heads[1:]
            if name not in MEANS and what != "seconds"
        }
        rows = [
            [method, *(shown(v, what, bold=v == best.get(name)) for name, v in cells.items())]
            for method, cells in by_method.items()
        ]
    else:
        means = [(name.removesuffix(", real"), MEANS[name.endswith(", real")]) for name in names]
        heads = ["method", *names]
        rows = [
            [method, *(shown(found["measures"][m].get(method, {}).get(n), m) for m, n in means)]
            for method in found["measures"][means[0][0]]
        ]
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    lines.insert(1, "|---|" + "---:|" * (len(heads) - 1))
    return "\n".join(lines) + "\n"


def draw(kind: str, found: dict) -> None:
    """Draw the mean ranks of the methods that have a score on every set."""
    measure = MEASURES[kind][0]
    scores = {
        name: {method: value_of(result, measure) for method, result in by_method.items()}
        for name, by_method in found.items()
    }
    listed = [m for m in next(iter(scores.values())) if "@" not in m]
    whole = [m for m in listed if all(s[m] == s[m] for s in scores.values())]
    if len(whole) < 2:
        return
    found_ranks = ranks({name: {m: values[m] for m in whole} for name, values in scores.items()})
    display = RankDisplay.from_ranks(found_ranks)
    file = PICTURES / f"ranks-{kind.replace(' ', '-')}.svg"
    display.figure_.savefig(file, bbox_inches="tight", metadata={"Date": None})


def evaluation(method: str, result: dict) -> Evaluation:
    """A stored result in the form that `compare` returns."""
    return Evaluation(method, result["scores"], [result["seconds"]])


def value_of(result: dict, measure: str) -> float:
    """The mean of a measure over the folds, or all seconds; NaN if missing."""
    if "failed" in result:
        return float("nan")
    if measure == "seconds":
        return float(result["seconds"])
    mean = evaluation("", result).mean(measure)
    return float("nan") if mean is None else mean


def place(values: list[float], *, low: bool) -> tuple:
    """Sort key of a method in a table: by its mean; methods with missing scores come last."""
    known = np.array(values)[~np.isnan(values)]
    return len(known) < len(values), known.mean() if low else -known.mean()


def shown(value: float | None, measure: str, *, bold: bool = False) -> str:
    """A number formatted for the tables."""
    if value is None:
        return "-"
    text = f"{value:.1f}" if measure == "seconds" else f"{value:.3f}".lstrip("0")
    return f"**{text}**" if bold else text
