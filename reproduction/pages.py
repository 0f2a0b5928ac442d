"""Write the tables of the pages in docs from the kept results: ``python -m reproduction.pages``.

A page holds, around each table, ::

    <!-- table: wellsvm table6 error; rows: g241c text; columns: wellsvm svm; percent -->
    <!-- end -->

The first words name the paper, the experiment and a metric, or "summary"; several metrics with
commas are the columns of one data set. Rows are data sets and columns methods, all by default;
``across`` exchanges them. ``percent`` prints errors in %; ``at:
0.6`` takes one value of a sweep, and ``by: hja`` has its values, or those of ``values: 0.2 0.6``,
for one data set as columns.
A cell is our mean, the paper's in brackets, the verdict (see `reproduction.judge`), and the number
of runs if some are missing, which is written once if they are missing in every cell. In a line, ::

    <!-- gains: orlr table2-inductive accuracy orlr-as-printed orlr; hja msrcv2 -->...<!-- -->

has, for each of the data sets, the published mean, and ours of two methods.
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

__all__ = ["DOCS", "fill", "main", "table"]

DOCS = Path(__file__).parent.parent / "docs"
GAINS = re.compile(r"(<!-- gains: ([^>]*?) -->).*?(<!-- -->)")
PARTLY = re.compile(r", (\d+) of (\d+)$")
PLACE = re.compile(r"(<!-- table: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str) -> str:
    """Replace the tables and gains of a page by those of the kept results.

    Parameters
    ----------
    page : str
        The text of the page.

    Returns
    -------
    str
    """
    page = PLACE.sub(lambda found: found[1] + table(found[2]) + found[3], page)
    return GAINS.sub(lambda found: found[1] + _gains(found[2]) + found[3], page)


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


def _gains(request: str) -> str:
    first, _, data = request.partition(";")
    name, experiment, metric, *methods = first.split()
    paper = load_paper(name)
    kept = kept_results(name).get(experiment, {"cells": {}})
    cells = _Cells(paper, paper.experiment(experiment), metric, kept)
    return "; ".join(
        f"{cells.title('data', d)} {', '.join(cells.gain(d, methods))}" for d in data.split()
    )


def table(request: str) -> str:
    """Write the table of a request: the words of its comment after "table:"."""
    first, *rest = (part.strip() for part in request.split(";"))
    name, experiment_name, metric = first.split()
    options = {key: value.split() for key, _, value in (part.partition(":") for part in rest)}
    unknown = set(options) - {"rows", "columns", "across", "percent", "at", "by", "values"}
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
        _Cells(paper, experiment, name, kept, percent="percent" in options)
        for name in metric.split(",")
    ]
    cells = each[0]
    if len(each) > 1:
        (of,) = data
        rows = [[cells.title("methods", m), *(c.cell(of, m, None) for c in each)] for m in methods]
        heads = [paper.metrics[c.metric].title for c in each]
        return _counted(["", *heads], rows) + _reasons(cells, data, methods)
    why = _reasons(cells, data, methods)
    if "by" in options:
        (of,) = options["by"]
        values = options.get("values", [str(v) for v in (experiment.sweep or {})["values"]])
        rows = [
            [cells.title("methods", m), *(cells.cell(of, m, v) for v in values)] for m in methods
        ]
        return _counted(["", *values], rows) + why
    at = options.get("at", [None])[0]
    lines = [[cells.cell(d, m, at) for m in methods] for d in data]
    heads = [cells.title("methods", m) for m in methods]
    sides = [cells.title("data", d) for d in data]
    if "across" in options:
        lines, heads, sides = [list(line) for line in zip(*lines, strict=True)], sides, heads
    rows = [[side, *line] for side, line in zip(sides, lines, strict=True)]
    return _counted(["", *heads], rows) + why


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
        self,
        paper: Paper,
        experiment: Experiment,
        metric: str,
        kept: dict[str, Any],
        percent: bool = False,
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

    def printed(self, data: str, method: str) -> str | None:
        """The paper's mean."""
        found = self.paper.published(self.experiment, data, method, self.metric)
        return self.number(found[0]) if found and found != TIMED_OUT else None

    def gain(self, data: str, methods: list[str]) -> list[str]:
        """The paper's mean of the last method, and ours of each."""
        names = [f"{data}, {method}, {self.metric}" for method in methods]
        ours = [self.number(self.kept[name][0]) if name in self.kept else "-" for name in names]
        return [self.printed(data, methods[-1]) or "-", *ours]

    def cell(self, data: str, method: str, value: str | None) -> str:
        name = ", ".join(part for part in (data, method, self.metric, value) if part is not None)
        printed = self.printed(data, method)
        paper = f" ({printed})" if printed else ""
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


def _counted(heads: list[str], rows: list[list[str]]) -> str:
    """Write a table; the numbers of runs once, if every cell has one."""
    cells = [cell for _, *line in rows for cell in line if not cell.startswith("not run")]
    counts = [found for cell in cells if (found := PARTLY.search(cell))]
    if not counts or len(counts) < len(cells):
        return _lines(heads, rows)
    done = [int(found[1]) for found in counts]
    span = str(min(done)) if min(done) == max(done) else f"{min(done)} to {max(done)}"
    table = _lines(heads, [[PARTLY.sub("", cell) for cell in line] for line in rows])
    return f"{table}\nRuns of a cell: {span} of {counts[0][2]}.\n"


def _lines(heads: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
