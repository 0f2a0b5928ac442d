"""Models whose behaviour is known without training, for tests of the audit."""

import numpy as np

from bagwise.assumptions._check import N_FEATURES

HALF = np.arange(N_FEATURES) < N_FEATURES // 2


def log_density(rows, mean, scale):
    return -0.5 * np.sum(((rows - mean) / scale) ** 2 + 2 * np.log(scale), axis=1)


class Untrained:
    """A classifier of another package: no parameters, no base class, bags as lists of arrays."""

    def fit(self, bags, y):
        assert isinstance(bags, list)
        assert all(type(bag) is np.ndarray for bag in bags)
        assert set(y) == {0, 1}
        return self


class Known(Untrained):
    """A score per bag."""

    def decision_function(self, bags):
        return np.array([self.score(bag) for bag in bags])


class Standard(Known):
    """The best instance by the likelihood ratio of the concept to background and decoys."""

    def score(self, bag):
        concept = np.logaddexp(log_density(bag, 0, 3), log_density(bag, 1, 1))
        other = [log_density(bag, decoy, 0.1) for decoy in (-3, -6, -10)]
        return np.max(concept - np.logaddexp.reduce([log_density(bag, 0, 1), *other]))


class NoDecoy(Known):
    """Positive unless an instance is negative in all features."""

    def score(self, bag):
        return -float(np.any(np.all(bag < -2, axis=1)))


class Mean(Known):
    """The mean of all features of all instances."""

    def score(self, bag):
        return np.mean(bag)


class First(Known):
    """The first instance."""

    def score(self, bag):
        return bag[0].sum()


def near(bag, centre):
    """Which instances are near a concept."""
    return np.max(np.abs(bag - centre), axis=1) < 1


class Both(Known):
    """Whether instances of both concepts are present."""

    def score(self, bag):
        return float(near(bag, 2 * HALF).any() and near(bag, 2 * ~HALF).any())


class Count(Untrained):
    """The number of instances of either concept, as a probability."""

    def predict_proba(self, bags):
        counts = [near(bag, 2 * HALF).sum() + near(bag, 2 * ~HALF).sum() for bag in bags]
        share = np.array(counts) / 100
        return np.column_stack([1 - share, share])
