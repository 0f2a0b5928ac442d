"""A few hostile cases of each estimator; ``BAGWISE_FUZZ`` is the number of cases."""

from cases import each
from fuzz import BAD, seeds
from fuzz.models import case, subjects


@each("subject", subjects())
def test_hostile_input_is_answered_or_refused(subject):
    for seed in seeds(3):
        outcome = case(subject, seed, small=True)
        assert outcome.verdict != BAD, f"{subject}, seed {seed}: {outcome.kind}; {outcome.detail}"
