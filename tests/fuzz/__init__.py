"""Random hostile inputs, reproducible by seed: ``python -m tests.fuzz --cases 20000``.

A part is a module with ``subjects()``, the names of the tested objects, and ``case(subject,
seed)``, which tests one input and returns an `Outcome`. Cases run in worker processes: a hang or a
crash of a worker is recorded as an outcome.
"""

from dataclasses import dataclass

FINE, REFUSED, BAD = "fine", "refused", "BAD"

# Modules of the parts by name; the workers import them.
PARTS = {
    "estimators": "fuzz.models",
    "bags": "fuzz.containers",
    "readers": "fuzz.readers",
}


@dataclass(frozen=True)
class Outcome:
    """Result of one case.

    `kind` distinguishes failures; `detail` describes the input.
    """

    verdict: str
    kind: str = ""
    detail: str = ""
