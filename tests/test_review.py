"""The kit of the reviewer: its claims are those of pages, its verdicts follow from numbers."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("skops")
from benchmarks.review import CHECKS, number_of, safe, verdicts_of

ROOT = Path(__file__).parent.parent


def test_the_words_of_every_claim_are_on_its_page():
    for name, check in CHECKS.items():
        page = (ROOT / check.page).read_text(encoding="utf-8")
        assert " ".join(check.words.split()) in " ".join(page.split()), name


@pytest.mark.parametrize(
    ("found", "verdicts"),
    [
        ({"posteriors of ORLR": 0.95, "CSP": 0.5}, ["as claimed", "as claimed"]),
        ({"posteriors of ORLR": 0.85, "something else": 0.1}, ["differs", "shown"]),
        ("TimeoutError", ["not run"]),
    ],
)
def test_a_number_differs_if_it_is_not_within_the_claim(found, verdicts):
    assert verdicts_of("groups", found, 1.0) == verdicts


def test_a_cell_starts_with_its_number():
    assert number_of("0.854 ± 0.010") == 0.854


@pytest.mark.filterwarnings("ignore")
def test_a_model_file_of_others_runs_no_code():
    assert safe() == CHECKS["safe"].claimed
