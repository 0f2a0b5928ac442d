"""Hostile inputs drawn by seed: ``python -m tests.fuzz --cases 20000``.

A part is a module with ``subjects()``, the names of what is tried, and ``case(subject, seed)``,
which tries one input and returns an `Outcome`. Cases run in worker processes: a hang or a crash of
one is an outcome like any other.
"""

from dataclasses import dataclass

FINE, REFUSED, BAD = "fine", "refused", "BAD"

# Parts by name; the module is imported in the workers.
PARTS = {
    "estimators": "fuzz.models",
    "bags": "fuzz.containers",
    "readers": "fuzz.readers",
    "models": "fuzz.model_files",
}


@dataclass(frozen=True)
class Outcome:
    """What came of one case.

    `kind` tells distinct failures apart; `detail` describes the input that led there.
    """

    verdict: str
    kind: str = ""
    detail: str = ""
