"""Are our numbers the paper's? Protocols and published numbers, a runner, and a report.

A paper is a TOML file in ``papers/``: what was measured, with which settings, and what came out.
The code holds none of its numbers. ``bagwise reproduce`` is the command line of this room.
"""

from bagwise.reproduction._paper import (
    DataSet,
    Experiment,
    MethodEntry,
    Metric,
    Paper,
    list_papers,
    load_paper,
)
from bagwise.reproduction._report import Report, Row, Verdict, judge, make_report, write_report
from bagwise.reproduction._runner import Plan, make_plan, run_plan, units_to_do
from bagwise.reproduction._store import Store
from bagwise.reproduction._units import Unit, seed_of

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
    "list_papers",
    "load_paper",
    "make_plan",
    "make_report",
    "run_plan",
    "seed_of",
    "units_to_do",
    "write_report",
]
