"""Random hostile inputs, reproducible by seed.

``BAGWISE_FUZZ=1000 pytest tests/test_fuzz.py`` tries a thousand of each.

A part is a module with ``subjects()``, the names of the tested objects, and ``case(subject,
seed)``, which tests one input and returns an `Outcome`.
"""

import os
from dataclasses import dataclass

FINE, REFUSED, BAD = "fine", "refused", "BAD"


@dataclass(frozen=True)
class Outcome:
    """Result of one case.

    `kind` distinguishes failures; `detail` describes the input.
    """

    verdict: str
    kind: str = ""
    detail: str = ""


def seeds(usual):
    """The seeds to try: `usual` many, unless the environment says how many."""
    return range(int(os.environ.get("BAGWISE_FUZZ", usual)))
