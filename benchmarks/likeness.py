"""Laws of the p-value "like the training bags": `python -m benchmarks.likeness`.

Training bags and new bags are drawn anew in each of 200 draws: instances have standard deviation
1, and each bag an effect of its own of standard deviation 0.5 in each feature. For exchangeable new
bags the p-value should be uniform: the share at most .05, .1 and .5. For bags of a site that shifts
each feature by a normal number times `shift`, the power is the share at most .05. With `patients`,
training bags are pairs of one patient, given as groups, and new bags are of new patients.
"""

import argparse

import numpy as np
from joblib import Parallel, delayed

from bagwise import Bags
from bagwise.predictions._likeness import like_training, training_reference

CASES = {  # training bags, features, bags of a patient
    "20 bags, 5 features": (20, 5, 1),
    "40 bags, 30 features": (40, 30, 1),
    "40 bags, 300 features": (40, 300, 1),
    "200 bags, 30 features": (200, 30, 1),
    "40 bags of 20 patients, 30 features": (40, 30, 2),
}
SHIFTS = (0.0, 0.5, 1.0, 2.0)


def drawn(rng, n_bags, d, each, shift=0.0):
    sizes = rng.integers(5, 30, size=n_bags)
    bag = np.repeat(np.arange(n_bags), sizes)
    patient = np.arange(n_bags) // each
    own = 0.5 * rng.normal(size=(patient[-1] + 1, d))[patient]
    rows = rng.normal(size=(len(bag), d)) + own[bag] + shift * rng.normal(size=d)
    groups = patient if each > 1 else None
    return Bags(rows, np.concatenate([[0], np.cumsum(sizes)]), groups=groups)


def one_draw(case, seed):
    """The p-values of 30 new bags for each shift."""
    rng, (n_bags, d, each) = np.random.default_rng(seed), CASES[case]
    reference = training_reference(drawn(rng, n_bags, d, each))
    return [like_training(reference, drawn(rng, 30, d, 1, shift)) for shift in SHIFTS]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.likeness", description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    print("| training bags | at most .05 | .1 | .5 | power: shift 0.5 | 1 | 2 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        jobs = (delayed(one_draw)(case, k) for k in range(options.draws))
        found = np.array(Parallel(n_jobs=options.jobs)(jobs))  # draws, shifts, bags
        same, *others = found.transpose(1, 0, 2)
        parts = []
        for level in (0.05, 0.1, 0.5):
            below = (same <= level + 1e-9).mean(axis=1)
            parts.append(f"{below.mean():.3f} ({below.std(ddof=1) / np.sqrt(len(below)):.3f})")
        parts += [f"{(other <= 0.05 + 1e-9).mean():.2f}" for other in others]
        print(f"| {case} | {' | '.join(parts)} |", flush=True)


if __name__ == "__main__":
    main()
