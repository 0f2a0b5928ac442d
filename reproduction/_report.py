"""Reports: our numbers beside the published ones, with a verdict on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.extras import import_extra
from bagwise.exceptions import MissingExtraError
from reproduction._paper import TIMED_OUT, Metric, applies
from reproduction._plots import PLOTS
from reproduction._runner import Plan
from reproduction._store import Store
from reproduction._summary import paired_summary
from reproduction._units import Unit

__all__ = ["Report", "Row", "Verdict", "judge", "make_report", "write_report"]

# Published numbers have three digits: if the deviation is 0, smaller differences are a match.
ROUNDING = 0.0005


@dataclass(frozen=True)
class Verdict:
    """Result of the comparison of a number with the published one.

    Attributes
    ----------
    word : str
        "matches", "above" (a loss: "better"), "below", "faster", "slower", "finished", "not
        comparable", "not run", "not available", "failed", or "" if nothing was published.
    detail : str
        The amount or the reason.
    difference : float or None
        Ours minus the paper's in published standard deviations; above 0 is better.
    """

    word: str
    detail: str = ""
    difference: float | None = None

    def __str__(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


def judge(
    ours: float,
    published: Sequence[float] | str | None,
    metric: Metric,
    *,
    tolerance: float = 1.0,
    comparable: bool = True,
) -> Verdict:
    """Compare a number with the published one.

    Parameters
    ----------
    ours : float
        Our mean.
    published : sequence of float, "timed out" or None
        The paper's mean and standard deviation.
    metric : Metric
        What was measured.
    tolerance : float, default=1.0
        How many published standard deviations still count as a match.
    comparable : bool, default=True
        False if a stand-in replaces the paper's data: then only times are compared.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from reproduction import Metric, judge
    >>> str(judge(0.76, [0.80, 0.05], Metric("ACC")))
    'matches'
    >>> str(judge(0.70, [0.80, 0.05], Metric("ACC")))
    'below: by 2.0 sd'
    """
    if published is None:
        return Verdict("")
    if published == TIMED_OUT:
        return Verdict("finished", "the paper's timed out")
    mean, deviation = float(published[0]), float(published[1]) if len(published) > 1 else 0.0
    if metric.kind == "time":
        ratio = mean / ours
        return Verdict("faster" if ratio >= 1 else "slower", f"{max(ratio, 1 / ratio):.1f} x")
    if not comparable:
        return Verdict("not comparable", "other data")
    gain = (ours - mean) * (-1 if metric.kind == "loss" else 1)
    difference = gain / deviation if deviation > ROUNDING else None
    if abs(gain) <= max(tolerance * deviation, ROUNDING) + 1e-12:
        return Verdict("matches", difference=difference)
    if gain > 0:
        return Verdict("better" if metric.kind == "loss" else "above", difference=difference)
    amount = f"by {-gain:.3f}" if difference is None else f"by {-difference:.1f} sd"
    return Verdict("below", amount, difference)


@dataclass(frozen=True)
class Row:
    """A cell of the paper's table, or a point of its figure.

    Attributes
    ----------
    data, method, metric : str
        Names of the paper's entries.
    value : object
        The value of the sweep, or None.
    ours : tuple (mean, deviation) or (mean,) or None
        Over repetitions and folds; a single result has no deviation.
    n_done, n_planned : int
        Number of results, measured and planned.
    published : list of float, "timed out" or None
        The published mean and deviation.
    verdict : Verdict
        The comparison of the two.
    """

    data: str
    method: str
    metric: str
    value: Any
    ours: tuple[float, ...] | None
    n_done: int
    n_planned: int
    published: Any
    verdict: Verdict


@dataclass(frozen=True)
class Report:
    """All rows of an experiment, and the results behind them.

    Attributes
    ----------
    plan : Plan
        The plan.
    rows : list of Row
        One row per cell of the table or point of the figure.
    results : list of (Unit, dict)
        The single results, in the order of the plan.
    origins : list of dict
        Versions, machines and days of the measurements.
    """

    plan: Plan
    rows: list[Row]
    results: list[tuple[Unit, dict[str, Any]]]
    origins: list[dict[str, Any]]

    def counts(self) -> dict[str, int]:
        """Count the verdicts on scores."""
        metrics = self.plan.paper.metrics
        words = (row.verdict.word for row in self.rows if metrics[row.metric].kind != "time")
        return dict(Counter(word for word in words if word))

    def failures(self) -> list[Row]:
        """List the rows whose units failed."""
        return [row for row in self.rows if row.verdict.word == "failed"]

    def tables(self) -> dict[str, dict[str, list[str]]]:
        """Arrange the rows as text tables, by title."""
        layout = _comparison if self.plan.experiment.sweep is None else _sweep
        return layout(self) | _summary(self)

    def title_of(self, kind: str, name: str) -> str:
        """Return the paper's name of a data set, method or metric; a stand-in is marked."""
        if kind == "data" and name in self.plan.stand_ins:
            return str((self.plan.paper.data[name].stand_in or {})["title"])
        return str(getattr(self.plan.paper, kind)[name].title)


def make_report(plan: Plan, store: Store) -> Report:
    """Collect the stored results and compare them with the published numbers.

    Parameters
    ----------
    plan : Plan
        The plan.
    store : Store
        The stored results.

    Returns
    -------
    Report
    """
    records = store.records(plan.units)
    found = [(unit, records[unit.name]) for unit in plan.units if unit.name in records]
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for unit, record in found:
        cells.setdefault((unit.data, unit.method, unit.value), []).append(record)
    experiment = plan.experiment
    values = [None] if experiment.sweep is None else experiment.sweep["values"]
    rows = [
        _row(plan, data, method, metric, value, cells.get((data, method, value), []))
        for data in experiment.data
        for method in experiment.methods
        for metric in experiment.metrics
        for value in values
    ]
    results = [(unit, record["result"]) for unit, record in found if "result" in record]
    origins = [record["origin"] for _, record in found if "origin" in record]
    return Report(plan, rows, results, [o for i, o in enumerate(origins) if o not in origins[:i]])


def _row(
    plan: Plan, data: str, method: str, metric: str, value: Any, records: list[dict[str, Any]]
) -> Row:
    experiment = plan.experiment
    planned = experiment.repetitions * (experiment.folds or 1)
    published = plan.paper.published(experiment, data, method, metric)
    numbers = [r["result"][metric] for r in records if metric in r.get("result", {})]
    if not numbers:
        verdict = _missing(plan, data, method, records)
        return Row(data, method, metric, value, None, 0, planned, published, verdict)
    ours = (float(np.mean(numbers)), float(np.std(numbers)))[: len(numbers)]
    against = published
    if isinstance(published, list | tuple) and len(published) == 1 and planned > 1:
        # The paper printed no deviation: use that of our own folds.
        against = [*published, *ours[1:]]
    verdict = judge(
        ours[0],
        against,
        plan.paper.metrics[metric],
        tolerance=experiment.tolerance,
        comparable=data not in plan.stand_ins,
    )
    if verdict.word == "below":
        why = [e["text"] for e in experiment.explanations if applies(e, data, method)]
        verdict = Verdict("below", "; ".join([verdict.detail, *why]), verdict.difference)
    return Row(data, method, metric, value, ours, len(numbers), planned, published, verdict)


def _missing(plan: Plan, data: str, method: str, records: list[dict[str, Any]]) -> Verdict:
    for name in (data, method):
        if name in plan.absent:
            return Verdict("not available", plan.absent[name])
    reason = plan.experiment.reason(data, method)
    if reason is not None:
        return Verdict("not run", f"because {reason}")
    for key, word in (("unavailable", "not available"), ("error", "failed")):
        told = [record[key] for record in records if key in record]
        if told:
            return Verdict(word, told[0].splitlines()[0])
    return Verdict("not run")


# --- Tables of text -----------------------------------------------------------------------------


def _comparison(report: Report) -> dict[str, dict[str, list[str]]]:
    """One table per data set, a row per method and metric."""
    tables = {}
    for data in report.plan.experiment.data:
        rows = [row for row in report.rows if row.data == data]
        columns = {
            "method": [report.title_of("methods", row.method) for row in rows],
            "metric": [report.title_of("metrics", row.metric) for row in rows],
            "ours": [_number(row.ours, row, report) for row in rows],
            "standard error": [_error_cell(row, report) for row in rows],
            "paper": [_number(row.published, row, report) for row in rows],
            "in sd": [_signed(row.verdict.difference) for row in rows],
            "verdict": [_verdict(row, report.plan.experiment.metrics[0]) for row in rows],
        }
        kept = {name: cells for name, cells in columns.items() if any(cells)}
        tables[report.title_of("data", data)] = kept
    return tables


def _summary(report: Report) -> dict[str, dict[str, list[str]]]:
    """Summarise data sets, or points of a figure, if ``options.summary`` is "paired"."""
    experiment = report.plan.experiment
    if experiment.options.get("summary") != "paired":
        return {}
    metric, numbers = experiment.metrics[0], dict[str, dict[str, list[float]]]()
    for unit, result in report.results:
        if metric in result:
            cells = numbers.setdefault(f"{unit.data} {unit.value}", {})
            cells.setdefault(unit.method, []).append(result[metric])
    if not numbers:
        return {}
    lower = report.plan.paper.metrics[metric].kind == "loss"
    columns = paired_summary(numbers, lower_is_better=lower)
    columns |= _against_the_paper(report, columns["method"])
    columns["method"] = [report.title_of("methods", name) for name in columns["method"]]
    return {"All data sets": columns}


def _against_the_paper(report: Report, methods: list[str]) -> dict[str, list[str]]:
    """Count the data sets where our mean is not worse than the paper's, or by up to one se."""
    metric = report.plan.experiment.metrics[0]
    sign = -1 if report.plan.paper.metrics[metric].kind == "loss" else 1
    good: dict[str, list[str]] = {"not worse than the paper": [], "worse by up to one se": []}
    for name in methods:
        held = [
            (sign * (row.ours[0] - row.published[0]), _standard_error(row))
            for row in report.rows
            if (row.method, row.metric) == (name, metric) and row.ours
            if isinstance(row.published, list | tuple) and row.data not in report.plan.stand_ins
        ]
        fine = sum(gain >= -1e-12 for gain, _ in held)
        near = sum(-error <= gain < -1e-12 for gain, error in held)
        good["not worse than the paper"].append(f"{fine} of {len(held)}" if held else "")
        good["worse by up to one se"].append(str(near) if held else "")
    return good if any(good["not worse than the paper"]) else {}


def _sweep(report: Report) -> dict[str, dict[str, list[str]]]:
    """One table per data set and metric, a row per method, a column per value."""
    experiment = report.plan.experiment
    sweep = experiment.sweep or {}
    tables = {}
    for data in experiment.data:
        for metric in experiment.metrics:
            rows = [row for row in report.rows if (row.data, row.metric) == (data, metric)]
            by_method = {name: [r for r in rows if r.method == name] for name in experiment.methods}
            columns = {"method": [report.title_of("methods", name) for name in by_method]}
            for place, value in enumerate(sweep["values"]):
                column = [line[place] for line in by_method.values()]
                columns[str(value)] = [_number(row.ours, row, report) for row in column]
            if sweep.get("growth"):
                columns["growth"] = [_growth(line) for line in by_method.values()]
            columns["remark"] = [_remark(line) for line in by_method.values()]
            if not any(columns["remark"]):
                del columns["remark"]
            title = f"{report.title_of('data', data)}: {report.title_of('metrics', metric)}"
            tables[f"{title} by {sweep['name'].partition('.')[2]}"] = columns
    return tables


def _growth(rows: list[Row]) -> str:
    """Growth exponent over the upper half of the values, where fixed costs matter less."""
    points = [(float(row.value), row.ours[0]) for row in rows if row.ours is not None]
    upper = np.log(points[len(points) // 2 :])
    return f"{np.polyfit(upper[:, 0], upper[:, 1], 1)[0]:.2f}" if len(upper) > 1 else ""


def _remark(rows: list[Row]) -> str:
    """Verdict on the first missing point of a line, if any."""
    return next((str(row.verdict) for row in rows if row.ours is None), "")


def _verdict(row: Row, first_metric: str) -> str:
    if row.metric != first_metric and (row.ours is None or row.published == TIMED_OUT):
        return row.verdict.word  # a reason that holds for the whole method is given once
    partly = 0 < row.n_done < row.n_planned
    count = f"{row.n_done} of {row.n_planned} measured" if partly else ""
    return "; ".join(text for text in (str(row.verdict), count) if text)


def _number(number: Any, row: Row, report: Report) -> str:
    if number is None or number == TIMED_OUT:
        return number or ""
    if report.plan.paper.metrics[row.metric].kind == "time":
        return f"{number[0]:.3g}"
    return f"{number[0]:.3f}" + (f" ±{number[1]:.3f}" if len(number) > 1 else "")


def _standard_error(row: Row) -> float:
    """Standard error of our mean, as if repetitions were independent."""
    return row.ours[1] / np.sqrt(row.n_done - 1) if row.ours and row.n_done > 1 else 0.0


def _error_cell(row: Row, report: Report) -> str:
    """Standard error as text if the paper published no deviation, else an empty string."""
    scored = report.plan.paper.metrics[row.metric].kind != "time"
    bare = isinstance(row.published, list | tuple) and len(row.published) == 1
    return f"{_standard_error(row):.3f}" if scored and bare and row.n_done > 1 else ""


def _signed(difference: float | None) -> str:
    return "" if difference is None else f"{round(difference, 1) + 0.0:+.1f}"


# --- Files --------------------------------------------------------------------------------------


def write_report(report: Report, folder: Path, name: str) -> list[Path]:
    """Write the report as Markdown, and its plots beside it.

    Parameters
    ----------
    report : Report
        The report.
    folder : Path
        Output folder.
    name : str
        Prefix of the file names.

    Returns
    -------
    list of Path
        The Markdown file, then the plots. Without matplotlib there are no plots, as the page notes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plots: list[Path] = []
    lines: list[str] = []
    try:
        import_extra("matplotlib", extra="plot")
    except MissingExtraError as error:
        lines = [f"No plots: {error}.", ""]
    else:
        for kind in report.plan.experiment.plots:
            for label, figure in PLOTS[kind](report):
                plots.append(folder / f"{name}-{label}.png")
                figure.savefig(plots[-1], dpi=130)
        lines = [line for plot in plots for line in (f"![{plot.stem}]({plot.name})", "")]
    page = folder / f"{name}.md"
    page.write_text("\n".join([*_heading(report), *lines, *_body(report)]), encoding="utf-8")
    return [page, *plots]


def _heading(report: Report) -> list[str]:
    paper, experiment = report.plan.paper, report.plan.experiment
    counts = ", ".join(f"{count} {word}" for word, count in report.counts().items())
    said = [f"The paper: “{' '.join(experiment.claim.split())}”"] if experiment.claim else []
    texts = [paper.citation, *said, experiment.notes, paper.notes, counts]
    paragraphs = [part for text in texts if text.strip() for part in (text.strip(), "")]
    return [f"# {paper.name} {experiment.name}: {experiment.title}", "", *paragraphs]


def _body(report: Report) -> list[str]:
    lines: list[str] = []
    for title, columns in report.tables().items():
        lines += [f"## {title}", "", _line(columns), _line(["---"] * len(columns))]
        lines += [_line(cells) for cells in zip(*columns.values(), strict=True)]
        lines.append("")
    for origin in report.origins:
        lines += ["Made by " + ", ".join(f"{k} {v}" for k, v in origin.items()) + ".", ""]
    return lines


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
