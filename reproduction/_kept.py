"""Kept results: the means behind the pages in docs, one JSON file per paper in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reproduction._report import Report, Row
from reproduction._units import list_units

__all__ = ["KEPT", "keep_results", "kept_results", "settings_of"]

KEPT = Path(__file__).parent / "kept"


def kept_results(paper: str) -> dict[str, Any]:
    """Read the kept results of a paper.

    Parameters
    ----------
    paper : str
        Its name.

    Returns
    -------
    dict
        By experiment: ``cells``, by "data, method, metric" or "data, method, metric, value", a list
        of mean, standard deviation (None for one result), number of results and verdict;
        ``settings``, the hash of the settings behind them, by "data, method" or "data, method,
        value"; ``summary``, the table over all data sets; ``stand_ins``; ``absent``, the data sets
        that are missing; ``made``, by what.
    """
    path = KEPT / f"{paper}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep_results(report: Report) -> Path:
    """Keep the means of a report; kept means of other cells stay if their settings still hold.

    Parameters
    ----------
    report : Report
        The report of a whole experiment.

    Returns
    -------
    Path
        The file.
    """
    plan = report.plan
    everything = kept_results(plan.paper.name)
    settings = settings_of(plan.paper, plan.experiment, plan.stand_ins)
    old = everything.get(plan.experiment.name, {"cells": {}, "settings": {}})
    cells = {
        name: cell
        for name, cell in old["cells"].items()
        if (key := _without_metric(name)) in settings and settings[key] == old["settings"].get(key)
    }
    for row in report.rows:
        if row.ours is not None:
            mean, spread = (*(round(number, 5) for number in row.ours), None)[:2]
            cells[_name(row)] = [mean, spread, row.n_done, row.verdict.word]
    used = {_without_metric(name) for name in cells}
    titles = list(report.tables())
    everything[plan.experiment.name] = {
        "made": [origin for origin in report.origins if origin],
        "stand_ins": sorted(plan.stand_ins),
        "absent": [name for name in plan.experiment.data if name in plan.absent],
        "settings": {key: value for key, value in settings.items() if key in used},
        "cells": cells,
        "summary": report.tables()["All data sets"] if "All data sets" in titles else {},
    }
    path = KEPT / f"{plan.paper.name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(_text(everything), encoding="utf-8")
    return path


def settings_of(paper: Any, experiment: Any, stand_ins: frozenset[str]) -> dict[str, str]:
    """Hash the settings of every cell.

    Parameters
    ----------
    paper : Paper
        The paper.
    experiment : Experiment
        One of its experiments.
    stand_ins : frozenset of str
        The data sets that are replaced by their stand-in.

    Returns
    -------
    dict of str to str
        By "data, method" or "data, method, value".
    """
    return {
        _joined(unit.data, unit.method, unit.value): unit.fingerprint
        for unit in list_units(paper, experiment, stand_ins)
    }


def _name(row: Row) -> str:
    return _joined(row.data, row.method, row.metric, row.value)


def _joined(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part is not None)


def _without_metric(name: str) -> str:
    data, method, _, *value = name.split(", ")
    return _joined(data, method, *value)


def _text(everything: dict[str, Any]) -> str:
    """JSON with one line per cell, so that a change of one result is a change of one line."""
    blocks = []
    for experiment, parts in sorted(everything.items()):
        entries = []
        for name, part in parts.items():
            if name in ("cells", "settings"):
                inner = ",\n".join(f'   "{key}": {json.dumps(v)}' for key, v in part.items())
                entries.append(f'  "{name}": {{\n{inner}\n  }}')
            else:
                entries.append(f'  "{name}": {json.dumps(part, ensure_ascii=False)}')
        blocks.append(f' "{experiment}": {{\n' + ",\n".join(entries) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
