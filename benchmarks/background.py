"""Syllables of HJA that belong to no species, by the threshold of the background class.

`python -m benchmarks.background` prints the table of docs/results-orlr.md: `right` is the accuracy
on the syllables of a species, `false` the share of the others that get one, for training bags whose
label sets are known (T) and for new bags (I).
"""

import numpy as np
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from reproduction.bag_data import load_dataset

LIMITS = (1.0, 0.99, 0.95, 0.9, 0.5, None)  # None: more probable than every label


def main() -> None:
    """Fit on all bags and in ten folds, and print the table."""
    data = load_dataset("hja_birdsong", labels="published", labelled_only=False)
    bags, sets, true = data.bags, data.label_sets, data.instance_labels
    model = make_bag_pipeline(
        InstanceTransformer(StandardScaler()), ORedLogisticRegression(background=True)
    )
    known = model.fit(bags, sets).annotate_proba(bags, sets)
    new = np.empty_like(known)
    for train, test in KFold(10, shuffle=True, random_state=0).split(sets):
        rows = np.isin(bags.bag_index, test)
        new[rows] = model.fit(bags[train], sets[train]).predict_proba_instances(bags[test])
    print("background above   right, T  false, T  right, I  false, I")
    for limit in LIMITS:
        cells = []
        for proba in (known, new):
            species, background = proba[:, :-1], proba[:, -1]
            least = species.max(axis=1) if limit is None else limit
            found = np.where(background > least, -1, species.argmax(axis=1))
            cells += [(found == true)[true >= 0].mean(), (found >= 0)[true < 0].mean()]
        print(f"{limit or 'every label':<17}", *(f"{cell:9.3f}" for cell in cells))


if __name__ == "__main__":
    main()
