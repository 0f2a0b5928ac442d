"""Write the tables of the pages in docs from the kept results: ``python -m reproduction.pages``.

A page holds, around each table, ::

    <!-- table: wellsvm table6 error; rows: g241c text; columns: wellsvm svm; percent -->
    <!-- end -->

The first words name the paper, the experiment and a metric, or "summary"; several metrics with
commas are the columns of one data set. Rows are data sets and columns methods, all by default;
``across`` exchanges them. ``percent`` prints errors in %; ``at:
0.6`` takes one value of a sweep, and ``by: hja`` has all its values for one data set as columns.
A cell is our mean, the paper's in brackets, and the verdict: see `reproduction.judge`. In a
sentence, ::

    <!-- mean: wellsvm table6 error g241c wellsvm -->.145<!-- -->

is the mean of one cell: experiment, metric, data set, method, and the value of a sweep if there is
one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from bagwise.cli.output import note
from bagwise.exceptions import InputError
from reproduction._kept import kept_results
from reproduction._paper import TIMED_OUT, Experiment, Paper, load_paper

__all__ = ["DOCS", "fill", "main"]

DOCS = Path(__file__).parent.parent / "docs"
MEAN = re.compile(r"(<!-- mean: ([^>]*?) -->).*?(<!-- -->)")
PLACE = re.compile(r"(<!-- table: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str) -> str:
    """Replace each table, and each mean, of a page by that of the kept results.

    Parameters
    ----------
    page : str
        The text of the page.

    Returns
    -------
    str
    """
    page = PLACE.sub(lambda found: found[1] + _table(found[2]) + found[3], page)
    return MEAN.sub(lambda found: found[1] + _mean(found[2]) + found[3], page)


def main(words: list[str]) -> int:
    """Fill all pages; with ``--check``, only tell which pages would change."""
    changed = []
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if fill(text) != text:
            changed.append(path.name)
            if "--check" not in words:
                path.write_text(fill(text), encoding="utf-8")
    note(f"Changed: {', '.join(changed) or 'nothing'}")
    return int(bool(changed) and "--check" in words)


def _mean(request: str) -> str:
    name, experiment, metric, data, method, *value = request.split()
    cells = kept_results(name).get(experiment, {"cells": {}})["cells"]
    key = ", ".join([data, method, metric, *value])
    return f"{cells[key][0]:.3f}".removeprefix("0") if key in cells else "not run"


def _table(request: str) -> str:
    first, *rest = (part.strip() for part in request.split(";"))
    name, experiment_name, metric = first.split()
    options = {key: value.split() for key, _, value in (part.partition(":") for part in rest)}
    unknown = set(options) - {"rows", "columns", "across", "percent", "at", "by"}
    if unknown:
        raise InputError(f"no option {sorted(unknown)[0]!r} of a table: {request}")
    paper = load_paper(name)
    experiment = paper.experiment(experiment_name)
    kept = kept_results(name).get(experiment_name, {"cells": {}, "summary": {}})
    if metric == "summary":
        columns = kept["summary"]
        return _lines(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])
    data = options.get("rows", list(experiment.data))
    methods = options.get("columns", list(experiment.methods))
    each = [
        _Cells(paper, experiment, name, kept, "percent" in options) for name in metric.split(",")
    ]
    cells = each[0]
    if len(each) > 1:
        (of,) = data
        rows = [[cells.title("methods", m), *(c.cell(of, m, None) for c in each)] for m in methods]
        heads = [paper.metrics[c.metric].title for c in each]
        return _lines(["", *heads], rows) + _reasons(cells, data, methods)
    why = _reasons(cells, data, methods)
    if "by" in options:
        (of,) = options["by"]
        values = [str(value) for value in (experiment.sweep or {})["values"]]
        rows = [
            [cells.title("methods", m), *(cells.cell(of, m, v) for v in values)] for m in methods
        ]
        return _lines(["", *values], rows) + why
    at = options.get("at", [None])[0]
    table = [[cells.cell(d, m, at) for m in methods] for d in data]
    heads = [cells.title("methods", m) for m in methods]
    sides = [cells.title("data", d) for d in data]
    if "across" in options:
        table, heads, sides = [list(line) for line in zip(*table, strict=True)], sides, heads
    return _lines(["", *heads], [[s, *line] for s, line in zip(sides, table, strict=True)]) + why


def _reasons(cells: _Cells, data: list[str], methods: list[str]) -> str:
    """Write why cells are not run, a paragraph per reason."""
    why: dict[str, dict[str, list[str]]] = {}
    for d in data:
        for m in methods:
            if (reason := cells.reason(d, m)) is not None:
                why.setdefault(reason, {}).setdefault(cells.title("methods", m), []).append(d)
    return "".join(
        f"\nNot run, because {text}: {_listed(cells, of)}.\n" for text, of in why.items()
    )


def _listed(cells: _Cells, of: dict[str, list[str]]) -> str:
    """Write the cells of a reason, methods with the same data sets together."""
    same: dict[str, list[str]] = {}
    for method, data in of.items():
        same.setdefault(", ".join(cells.title("data", d) for d in data), []).append(method)
    return "; ".join(f"{', '.join(methods)} on {data}" for data, methods in same.items())


class _Cells:
    """The kept means of one metric of an experiment as text."""

    def __init__(
        self, paper: Paper, experiment: Experiment, metric: str, kept: dict[str, Any], percent: bool
    ) -> None:
        self.paper, self.experiment, self.metric = paper, experiment, metric
        self.kept, self.percent = kept["cells"], percent
        self.stand_ins, self.absent = kept.get("stand_ins", []), kept.get("absent", [])

    def title(self, kind: str, name: str) -> str:
        if kind == "data" and name in self.stand_ins:
            return str((self.paper.data[name].stand_in or {})["title"])
        return str(getattr(self.paper, kind)[name].title)

    def reason(self, data: str, method: str) -> str | None:
        """Why a cell is not run."""
        if data in self.absent:
            return "the data set is not available"
        return self.experiment.reason(data, method)

    def cell(self, data: str, method: str, value: str | None) -> str:
        name = ", ".join(part for part in (data, method, self.metric, value) if part is not None)
        printed = self.paper.published(self.experiment, data, method, self.metric)
        printed = None if printed == TIMED_OUT else printed
        paper = f" ({self.number(printed[0])})" if printed else ""
        if name not in self.kept:
            return "not run" + paper
        mean, _, n_done, verdict = self.kept[name]
        planned = self.experiment.repetitions * (self.experiment.folds or 1)
        partly = f", {n_done} of {planned}" if n_done < planned else ""
        judged = f" {verdict}" if printed and verdict else ""
        return f"{self.number(mean)}{paper}{judged}{partly}"

    def number(self, value: float) -> str:
        if self.percent:
            return f"{100 * value:.1f}"
        if self.paper.metrics[self.metric].kind == "time":
            return f"{value:.2g}"
        return f"{value:.3f}".removeprefix("0")


def _lines(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
