"""Which attribution explains the score of a bag best? `python -m benchmarks.attributions`.

On four sets (synthetic bags, digits, HJA birdsong, MSRC v2), four models are fitted on half of the
bags, and each method of `instance_attributions` explains positive bags of the other half. Prints
the flipping area, scaled so that a random order has 0 and the best method 100; the average
precision of the instances in their bag; and the number of bags the model scored per explained bag.
Arguments are names of sets; without any, all are run.
"""

import sys

import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.auto import AutoBagClassifier
from bagwise.classification import MILBoost, SetKernelSVM
from bagwise.datasets import make_bags, make_digit_bags
from bagwise.evaluate._baselines import pooled_trees
from bagwise.exceptions import DataNotFoundError
from bagwise.metrics import flipping_curve, instance_average_precision
from bagwise.predictions import instance_attributions
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from reproduction.bag_data import load_dataset

METHODS = ("score", "single", "one_removed", "sampled")
N_EXPLAINED = 20  # positive bags
N_SAMPLES = 100
CANDIDATES = ["nsk", "pooled-trees", "milboost"]


def drawn():
    data = make_bags(200, 10, bag_size=(5, 15), random_state=0)
    return data.bags, data.y, (data.instance_labels == 1).astype(int)


def digits():
    data = make_digit_bags(200, random_state=0)
    return data.bags, data.y, data.instance_labels


def one_label(data):
    """The most frequent label in fewer than half of the bags, against the rest."""
    counts = data.label_sets.sum(axis=0)
    label = int(np.where(counts < len(data.bags) / 2, counts, 0).argmax())
    return data.bags, data.label_sets[:, label], (data.instance_labels == label).astype(int)


SETS = {
    "drawn": drawn,
    "digits": digits,
    "hja": lambda: one_label(load_dataset("hja_birdsong")),
    "msrc": lambda: one_label(load_dataset("msrcv2")),
}


def models():
    return {
        "nsk": make_bag_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM()),
        "milboost": MILBoost(),
        "auto": AutoBagClassifier(candidates=CANDIDATES, cv=3, random_state=0),
        "pooled-trees": pooled_trees(100),
    }


class Counted:
    """A model that counts the bags it scores."""

    def __init__(self, model):
        self.n_scored = 0
        name = "decision_function" if hasattr(model, "decision_function") else "predict_proba"
        score = getattr(model, name)

        def counted(bags):
            self.n_scored += len(bags)
            return score(bags)

        setattr(self, name, counted)


def explain(model, bags, truth):
    """Per method: gain of the flipping area, average precision, bags scored per bag."""
    found = {}
    for method in METHODS:
        if method == "score" and not hasattr(model, "score_instances"):
            continue
        counted = Counted(model)
        values = instance_attributions(
            model if method == "score" else counted,
            bags,
            method=method,
            n_samples=N_SAMPLES,
            random_state=0,
        )
        label = model.classes_[1]
        curve = flipping_curve(model, bags, values, label=label, n_orders=3, random_state=0)
        precision = instance_average_precision(truth, values, bags=bags)
        found[method] = curve.gain, precision, max(1.0, counted.n_scored / len(bags))
    return found


def main():
    for name in sys.argv[1:] or SETS:
        try:
            bags, y, truth = SETS[name]()
        except DataNotFoundError as error:
            print(f"{name}: {error}")
            continue
        order = np.random.default_rng(0).permutation(len(bags))
        train, test = np.split(order, [len(order) // 2])
        chosen = np.sort(test[(y[test] == 1) & (bags.sizes[test] > 1)])[:N_EXPLAINED]
        truth = np.concatenate([bags.split(truth)[i] for i in chosen])
        totals = {method: [] for method in METHODS}
        for title, model in models().items():
            model.fit(bags[train], y[train])
            found = explain(model, bags[chosen], truth)
            best = max(gain for gain, _, _ in found.values())
            for method, (gain, precision, cost) in found.items():
                if "score" in found:
                    totals[method].append(100 * gain / best)
                print(
                    f"| {name} | {title} | {method} | {gain:.3f} | {100 * gain / best:.1f} "
                    f"| {precision:.2f} | {cost:.0f} |",
                    flush=True,
                )
        means = ", ".join(f"{method} {np.mean(v):.1f}" for method, v in totals.items())
        print(f"{name}: mean area over models with scores of instances: {means}", flush=True)


if __name__ == "__main__":
    main()
