"""
Comparison of methods: a small leaderboard
==========================================

Which method is best for my bags, and is the difference more than chance? This example compares four
methods with a simple baseline, on the same folds of two data sets.
"""

# %%
# The data
# --------
# Musk1 is included: it has 92 molecules, an instance is a shape, and about half of the molecules
# smell of musk. The digit bags are generated from the digits of scikit-learn: 100 bags of about ten
# digits, half of which contain a nine. A digit may be in several of these bags. ``compare`` warns
# of such copies, which leak from training to test; the warning is left out here.
import warnings

from bagwise.datasets import load_musk1, make_digit_bags
from bagwise.exceptions import DataWarning

warnings.filterwarnings("ignore", message=".*instances have copies", category=DataWarning)
sets = {"Musk1": load_musk1(), "digits": make_digit_bags(n_bags=100, random_state=0)}
for name, data in sets.items():
    print(name, data.bags)

# %%
# Compare
# -------
# ``compare`` runs all models on the same folds. The baseline, trees on the mean, the extremes and
# the spread of each feature in a bag, does not see single instances. Instances are standardised
# inside the folds.
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import BagMarginSVM, SetKernelSVM, SingleInstanceClassifier
from bagwise.embedding import BagDissimilarity, BagStatistics
from bagwise.evaluate import compare
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline


def on_scaled(*steps):
    return make_bag_pipeline(InstanceTransformer(StandardScaler()), *steps)


trees = ExtraTreesClassifier(n_estimators=50, random_state=0)
models = {
    "pooled trees": make_pipeline(BagStatistics(), trees),
    "SIL": on_scaled(SingleInstanceClassifier()),
    "MI-SVM": on_scaled(BagMarginSVM(kernel="linear", C=0.1)),
    "set kernel (NSK)": on_scaled(SetKernelSVM(C=10)),
    "MInD and trees": on_scaled(BagDissimilarity(), trees),
}
found = {name: compare(models, data.bags, data.y, cv=5) for name, data in sets.items()}
for name, comparison in found.items():
    print(f"{name + ':':18} AUC   accuracy  seconds")
    for result in sorted(comparison, key=lambda result: -result.mean("AUC")):
        means = result.mean("AUC"), result.mean("accuracy"), np.sum(result.seconds)
        print("{:18} {:.3f}  {:.3f}    {:.1f}".format(result.name, *means))

# %%
# Is it more than chance?
# -----------------------
# The plots show the difference of each method from the baseline with its 95 % interval, from the
# corrected resampled t-test: the folds share training data, and a plain t-test would find too many
# differences. If an interval contains zero, these bags do not show a difference. On Musk1 no method
# is better than the trees. On the digit bags, where one digit in ten determines the label, methods
# that look for single instances are better. No method is best everywhere, so compare on your own
# bags.
import matplotlib.pyplot as plt

from bagwise.displays import DifferenceDisplay

figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, (name, comparison) in zip(axes, found.items(), strict=True):
    DifferenceDisplay.from_comparison(comparison, measure="AUC", reference="pooled trees", ax=ax)
    ax.set_title(name)
plt.show()

# %%
# ``AutoBagClassifier`` compares methods inside ``fit``, then calibrates and combines them;
# ``bagwise evaluate table.csv -m nsk -m mind`` compares them on the command line. The `leaderboard
# <../leaderboard.html>`_ compares all methods on 13 data sets.
