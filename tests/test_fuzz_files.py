"""Some cases of the fuzzing command for `Bags` and the readers: ``python -m tests.fuzz``."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")

from fuzz import BAD, containers, readers


@pytest.mark.parametrize("subject", containers.subjects())
def test_bags_agree_with_a_list_of_arrays(subject):
    for seed in range(20):
        outcome = containers.case(subject, seed)
        assert outcome.verdict != BAD, (seed, outcome)


@pytest.mark.parametrize("subject", readers.subjects())
def test_damaged_files_are_read_or_refused(subject):
    for seed in range(30):
        outcome = readers.case(subject, seed)
        assert outcome.verdict != BAD, (seed, outcome)
