"""
Regression: binding strength of molecules
=========================================

A molecule takes many shapes (conformers), and the one that fits the pocket best determines how
strongly it binds. The measurement is one number per molecule, such as pKi or pIC50. So a molecule
is a bag, a conformer is an instance, and the label is a number: multiple-instance regression.
"""

# %%
# The data
# --------
# This example generates 200 molecules, each with three to eight conformers and eight shape
# descriptors per conformer. pKi falls with the distance of the best conformer from the pocket,
# measured in three of the descriptors, and has a measurement error of 0.2. Molecules with the same
# scaffold are similar.
import numpy as np

from bagwise import Bags

rng = np.random.default_rng(0)
pocket, scaffolds = rng.normal(size=3), rng.integers(50, size=200)
cores = 1.3 * rng.normal(size=(50, 8))[scaffolds] + 0.6 * rng.normal(size=(200, 8))
conformers = [core + 0.7 * rng.normal(size=(rng.integers(3, 9), 8)) for core in cores]
away = [np.linalg.norm(shapes[:, :3] - pocket, axis=1) for shapes in conformers]
pki = 8.5 - 0.9 * np.array([d.min() for d in away]) + 0.2 * rng.normal(size=200)
bags = Bags.from_arrays(conformers)
print(bags)
print(f"pKi from {pki.min():.1f} to {pki.max():.1f}")

# %%
# Compare models on new scaffolds
# -------------------------------
# Molecules with the same scaffold stay in one fold (``groups``); otherwise the training part would
# contain similar molecules, and results would look too good. ``SetKernelRegressor`` compares all
# conformers of two molecules. ``BagStatistics`` describes a molecule by the mean, the extremes and
# the spread of each descriptor, for any regressor from scikit-learn or XGBoost. ``compare`` accepts
# both.
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.embedding import BagStatistics
from bagwise.evaluate import compare
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor

models = {
    "set kernel": make_bag_pipeline(
        InstanceTransformer(StandardScaler()), SetKernelRegressor(C=10)
    ),
    "trees on statistics": make_pipeline(BagStatistics(), ExtraTreesRegressor(random_state=0)),
    "trees on the mean": make_pipeline(
        BagStatistics(("mean",)), ExtraTreesRegressor(random_state=0)
    ),
}
for found in compare(models, bags, pki, cv=5, groups=scaffolds):
    print(f"{found.name:20} R2 {found.mean('R2'):.2f}, mean error {found.mean('MAE'):.2f}")

# %%
# Predictions, and the key conformer
# ----------------------------------
# Left: predictions for molecules whose scaffolds are not in the training part. Right: the distance
# of the key conformer from the pocket, and the distances of all conformers, for the molecules
# predicted to bind best. The key conformer is the one with the highest score; the prediction is the
# mean of the scores.
import matplotlib.pyplot as plt
from sklearn.model_selection import GroupKFold

train, test = next(GroupKFold(4, shuffle=True, random_state=0).split(pki, groups=scaffolds))
model = models["set kernel"].fit(bags[train], pki[train])
predicted, keys = model.predict(bags[test]), model.key_instances(bags[test])
best = np.argsort(predicted)[::-1][:12]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
left.scatter(pki[test], predicted, s=18)
left.axline((6, 6), slope=1, color="0.6")
left.set(xlabel="measured pKi", ylabel="predicted pKi")
for place, i in enumerate(best):
    right.plot(np.full(len(away[test[i]]), place), away[test[i]], "o", color="0.75")
    right.plot(place, away[test[i]][keys[i]], "D", color="C1")
right.set(xlabel="new molecules, the strongest predicted first", ylabel="distance from the pocket")
plt.show()

# %%
# In these synthetic molecules the nearest conformer is known. How often is it the key conformer? A
# conformer that is chosen at random is the nearest one in 1 of n cases, for n conformers.
hits = np.array([away[i].argmin() == key for i, key in zip(test, keys, strict=True)])
chance = 1 / bags[test].sizes
print(f"{len(test)} test molecules: {hits.mean():.2f}, by chance {chance.mean():.2f}")
print(f"{len(best)} best of them: {hits[best].mean():.2f}, by chance {chance[best].mean():.2f}")
