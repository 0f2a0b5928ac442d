"""
Sub-classes: what is inside a class?
====================================

A label can be coarse. A species of bird has several songs, a kind of tissue several textures, and
nobody named them. Here is a case whose answer we know: bags of handwritten digits, labelled only
"0 or 1", "2 or 3" and so on. Can the ten digits be found inside the five classes?
"""

# %%
# Bags of two to four digits; the label set of a bag tells which of the five classes occur in it.
import numpy as np
from sklearn.datasets import load_digits

from bagwise import Bags

rng = np.random.default_rng(0)
pixels, digits = load_digits(return_X_y=True)
rows = rng.permutation(len(pixels))[:900]
ends = np.cumsum(rng.integers(2, 5, size=len(rows)))
parts = np.split(rows, ends[ends < len(rows)])
coarse = np.array([f"{d - d % 2} or {d - d % 2 + 1}" for d in range(10)])
bags = Bags.from_arrays([pixels[part] for part in parts])
label_sets = [set(coarse[digits[part]].tolist()) for part in parts]
print(bags)
print(sorted(label_sets[0]))

# %%
# Cluster the digits
# ------------------
# ``BagConstrainedSpectralClustering`` groups digits that look alike, and lets bags that share
# labels share clusters. Purity is the share of digits that are of the commonest kind in their
# cluster: of the classes, which the bags told, and of the digits, which nobody told.
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.metrics import class_purity

truth = digits[rows]
plain = BagConstrainedSpectralClustering(n_clusters=10, random_state=0).fit(bags)
model = BagConstrainedSpectralClustering(n_clusters=10, random_state=0).fit(bags, label_sets)
for name, clusters in (("by looks alone", plain.labels_), ("with label sets", model.labels_)):
    classes, kinds = class_purity(truth // 2, clusters), class_purity(truth, clusters)
    print(f"{name:16} purity of classes {classes:.2f}, of digits {kinds:.2f}")

# %%
# Each cluster also names the class that it refines, found from the label sets alone:
for cluster, refined in enumerate(model.cluster_classes_):
    inside = np.bincount(truth[model.labels_ == cluster], minlength=10)
    share = inside.max() / inside.sum()
    print(f"cluster {cluster} refines '{refined}'; {share:.2f} of it are {inside.argmax()}s")

# %%
# The map
# -------
# Left, what was found; right, the digits that nobody told.
import matplotlib.pyplot as plt

from bagwise.inspection import ClusterMapDisplay

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
maps = ClusterMapDisplay.from_embedding(
    model.embedding_, model.labels_, truth, titles=["clusters found", "true digits"]
)
for ax, display in zip(axes, maps, strict=True):
    display.plot(ax=ax)
plt.show()
