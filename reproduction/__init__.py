"""Reproduction of published experiments: protocols, published numbers, a runner, a report.

A paper is a TOML file in ``papers/``: what was measured, with which settings, and the results.
The code holds none of its numbers. ``python -m reproduction`` is the command line.
"""

from reproduction._kept import keep_results, kept_results
from reproduction._paper import (
    DataSet,
    Experiment,
    MethodEntry,
    Metric,
    Paper,
    list_papers,
    load_paper,
)
from reproduction._report import Report, Row, Verdict, judge, make_report, write_report
from reproduction._runner import Plan, make_plan, run_plan, run_plans, units_to_do
from reproduction._store import Store
from reproduction._units import Unit, seed_of

__all__ = [
    "DataSet",
    "Experiment",
    "MethodEntry",
    "Metric",
    "Paper",
    "Plan",
    "Report",
    "Row",
    "Store",
    "Unit",
    "Verdict",
    "judge",
    "keep_results",
    "kept_results",
    "list_papers",
    "load_paper",
    "make_plan",
    "make_report",
    "run_plan",
    "run_plans",
    "seed_of",
    "units_to_do",
    "write_report",
]
