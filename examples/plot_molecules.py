"""
Bag classification: molecules that smell of musk
================================================

A molecule takes many shapes (conformations). It smells of musk if *one* of them fits the receptor
in the nose. Chemists know which molecules smell of musk, but not which shape is responsible. So a
molecule is a bag, its shapes are the instances, and only the bags are labelled: the original
problem of multiple-instance learning (MIL).
"""
# sphinx_gallery_thumbnail_number = 2

# %%
# The data
# --------
# bagwise includes Musk1: 92 molecules. The features of a shape are its extent along 162 rays from
# its centre and four more numbers. Some molecules have two shapes, one has forty.
from bagwise.datasets import load_musk1

data = load_musk1()
print(data.bags)
print("shapes per molecule: from", data.bags.sizes.min(), "to", data.bags.sizes.max())

# %%
# Compare with the baseline
# -------------------------
# The baseline ``SingleInstanceClassifier`` (SIL) gives every shape the label of its molecule and
# trains an ordinary classifier. ``PrimalDualMISVM`` (pdMISVM) scores a molecule by the best shape
# for each class. ``SetKernelSVM`` (NSK) compares molecules as a whole. All use standardised
# features and the same folds.
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from bagwise.classification import PrimalDualMISVM, SetKernelSVM, SingleInstanceClassifier
from bagwise.displays import ComparisonDisplay, InstanceScoreDisplay
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline


def on_scaled(model):
    return make_bag_pipeline(InstanceTransformer(StandardScaler()), model)


models = {
    "single instances": on_scaled(SingleInstanceClassifier()),
    "pdMISVM": on_scaled(PrimalDualMISVM(random_state=0)),
    "set kernel": on_scaled(SetKernelSVM(C=10)),
}
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
scores = {name: cross_val_score(m, data.bags, data.y, cv=folds) for name, m in models.items()}
for name, values in scores.items():
    print(f"{name:17} {values.mean():.2f} +- {values.std():.2f}")
ComparisonDisplay.from_scores(scores)

# %%
# Key instances
# -------------
# Fit on three quarters of the molecules and predict the others. Every dot is a shape, plotted at
# its score for musk; the diamond is the key instance. In a musk, the score of one shape is often
# well above those of the others.
from sklearn.model_selection import train_test_split

train, test, y_train, y_test = train_test_split(data.bags, data.y, random_state=0)
model = models["pdMISVM"].fit(train, y_train)
print(f"right on {model.score(test, y_test):.2f} of {len(test)} molecules never seen")
musks = test[y_test == 1]
InstanceScoreDisplay.from_estimator(model, musks, label=1)
