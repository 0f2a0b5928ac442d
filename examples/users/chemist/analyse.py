"""The chemist's table in Python: pipelines, importances, a learning curve, the key conformer."""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.auto import AutoBagRegressor
from bagwise.displays import KeyFeatureDisplay
from bagwise.embedding import BagStatistics
from bagwise.evaluate import compare
from bagwise.io import read_bags
from bagwise.predictions import permutation_importance
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from bagwise.regression import SetKernelRegressor

data = read_bags(
    "conformers.csv",  # or a pandas data frame
    bag="molecule",
    label="pKi",
    exclude="activity",
    meta=["conformer", "scaffold"],
)
known = pd.notna(data.y)  # molecules with a measurement
bags, pki = data.bags[known], data.y[known]
first = data.bags.offsets[:-1]  # the row of the first conformer of each molecule
scaffolds = data.meta["scaffold"][first][known]  # one per molecule

# Missing descriptors are imputed, and descriptors are standardised, inside each fold.
impute = SimpleImputer(strategy="median")
models = {
    "auto": make_bag_pipeline(InstanceTransformer(impute), AutoBagRegressor(random_state=0)),
    "boosting": make_pipeline(
        InstanceTransformer(impute), BagStatistics(), GradientBoostingRegressor(random_state=0)
    ),
    "nsk": make_bag_pipeline(
        InstanceTransformer(make_pipeline(impute, StandardScaler())), SetKernelRegressor()
    ),
}
comparison = compare(models, bags, pki, cv=3, groups=scaffolds)
for evaluation in comparison:
    print(f"{evaluation.name}: R2 {evaluation.mean('R2'):.2f}, MAE {evaluation.mean('MAE'):.2f}")

# Importance of the descriptors, on molecules of scaffolds that the model has not seen.
train, test = next(GroupKFold(3).split(pki, groups=scaffolds))
model = models["nsk"].fit(bags[train], pki[train])
importance = permutation_importance(model, bags[test], pki[test], random_state=0)
order = np.argsort(-importance.importances_mean)[:3]
print("descriptors:", ", ".join(importance.feature_names[j] for j in order))
print("decrease of R2:", ", ".join(f"{importance.importances_mean[j]:.2f}" for j in order))

# Learning curve: would more molecules help?
sizes, of_training, of_test = learning_curve(
    models["nsk"],
    bags,
    pki,
    groups=scaffolds,
    cv=GroupKFold(3),
    train_sizes=[0.3, 0.6, 1.0],
    shuffle=True,
    random_state=0,
)
for size, seen, new in zip(sizes, of_training.mean(axis=1), of_test.mean(axis=1), strict=True):
    print(f"{size} molecules: R2 {seen:.2f} on them, {new:.2f} on new scaffolds")

# What distinguishes the key conformer of a molecule: the one with the highest score.
best = int(np.argmax(model.predict(bags)))
display = KeyFeatureDisplay.from_estimator(model, bags, bag=best)
display.figure_.savefig("key_conformer.png")
print("key_conformer.png:", display.title)
