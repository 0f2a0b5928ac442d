"""
Audit: does the method keep its assumption?
===========================================

"One positive instance makes a bag positive" is the standard assumption of multiple-instance
learning. Not every method keeps it: some learn from what is *absent*. This example moves a decoy
and shows which methods it misleads.
"""

# %%
# The data
# --------
# The bags contain 12 points with two features, most of them from N(0, 1). A bag is positive if it
# contains a point of the concept, at (5, 0). In training, each *negative* bag contains a decoy at
# (-6, 0). After the move, the decoys are in the positive bags. The concept still determines the
# label, so the predictions must not change.
import numpy as np

from bagwise import Bags


def draw(n_bags, decoy_in, seed):
    """Draw bags: ten background points, the concept or background, the decoy or background."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    points = rng.normal(size=(n_bags, 12, 2))
    points[y == 1, 10] = rng.normal((5, 0), 0.4, size=(n_bags // 2, 2))
    points[y == decoy_in, 11] = rng.normal((-6, 0), 0.4, size=(n_bags // 2, 2))
    return Bags.from_arrays(list(points)), y


train, y = draw(100, decoy_in=0, seed=0)
as_trained, moved = draw(200, decoy_in=0, seed=1), draw(200, decoy_in=1, seed=2)
print(train)

# %%
# Four methods, before and after the move
# ---------------------------------------
# AUC is the probability that a positive bag has a higher score than a negative one.
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline

from bagwise.classification import BagMarginSVM, MILBoost, SetKernelSVM
from bagwise.embedding import BagStatistics

models = {
    "MI-SVM": BagMarginSVM(pos_label=1),
    "MILBoost": MILBoost(n_estimators=20),
    "set kernel (NSK)": SetKernelSVM(),
    "pooled trees": make_pipeline(BagStatistics(), ExtraTreesClassifier(random_state=0)),
}
auc, measured = {}, get_scorer("roc_auc")
for name, model in models.items():
    model.fit(train, y)
    auc[name] = measured(model, *as_trained), measured(model, *moved)
    print("{:17} AUC {:.2f} as trained, {:.2f} after the move".format(name, *auc[name]))

# %%
# The picture
# -----------
# Left: the points of positive and negative bags in training. Right: AUC. MI-SVM and MILBoost score
# each point; the best points determine the score of the bag, and the decoy has no effect. The set
# kernel and the trees describe the bag as a whole: for them the decoy is evidence against the
# class. That is not wrong in general, but it is wrong if one positive instance determines the
# label. ``bagwise audit`` runs six tests of this kind on any method.
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
points, positive = train.instances, y[train.bag_index] == 1
left.scatter(*points[~positive].T, s=8, color="C0", alpha=0.4, label="of negative bags")
left.scatter(*points[positive].T, s=8, color="C1", alpha=0.4, label="of positive bags")
left.annotate("decoy", (-6, 1.6), ha="center")
left.annotate("concept", (5, 1.6), ha="center")
left.set(xlabel="feature 1", ylabel="feature 2")
left.legend(frameon=False, loc="lower left")
rows = np.arange(len(models))
before, after = np.array(list(auc.values())).T
right.hlines(rows, after, before, color="0.7")
right.plot(before, rows, "o", color="C0", label="as trained")
right.plot(after, rows, "D", color="C1", label="after the decoy moved")
right.set(xlabel="AUC", xlim=(-0.03, 1.03), yticks=rows, yticklabels=list(models))
right.invert_yaxis()
right.legend(frameon=False, loc="center left")
plt.show()
