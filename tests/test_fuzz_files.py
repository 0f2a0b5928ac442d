"""Some random keys of `Bags` and damaged files; ``BAGWISE_FUZZ`` is the number of cases."""

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")

from cases import each
from fuzz import BAD, containers, readers, seeds


@each("kind", containers.KINDS)
def test_bags_are_indexed_like_a_list_of_arrays(kind):
    for seed in seeds(10):
        containers.check_keys(kind, seed)


@each("subject", readers.subjects())
def test_damaged_files_are_read_or_refused(subject):
    for seed in seeds(30):
        outcome = readers.case(subject, seed)
        assert outcome.verdict != BAD, (seed, outcome)
