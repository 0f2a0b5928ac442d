"""
Clustering: sub-classes of labels
=================================

A label can be coarse: a bird species has several songs, a kind of tissue several textures. This
example uses data with known sub-classes: bags of handwritten digits, labelled only "0 or 1", "2 or
3" and so on. Clustering with more clusters than classes should find the ten digits inside the five
classes.
"""

# %%
# The bags contain two to four digits; the label set of a bag lists which of the five classes occur
# in it.
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
# ``BagConstrainedSpectralClustering`` (CSP) groups similar digits that probably have the same
# label, given the label sets of their bags. Purity is the share of instances that belong to the
# most frequent kind in their cluster. It is computed for the classes, which were given as label
# sets, and for the digits, which were not.
from bagwise.cluster import BagConstrainedSpectralClustering
from bagwise.metrics import class_purity

truth = digits[rows]
plain = BagConstrainedSpectralClustering(n_clusters=10, random_state=0).fit(bags)
model = BagConstrainedSpectralClustering(n_clusters=10, random_state=0).fit(bags, label_sets)
for name, clusters in (("by looks alone", plain.labels_), ("with label sets", model.labels_)):
    classes, kinds = class_purity(truth // 2, clusters), class_purity(truth, clusters)
    print(f"{name:16} purity of classes {classes:.2f}, of digits {kinds:.2f}")

# %%
# ``cluster_classes_`` is the class that each cluster refines, estimated from the label sets alone:
for cluster, refined in enumerate(model.cluster_classes_):
    inside = np.bincount(truth[model.labels_ == cluster], minlength=10)
    share = inside.max() / inside.sum()
    print(f"cluster {cluster} refines '{refined}'; {share:.2f} of it are {inside.argmax()}s")

# %%
# Map
# ---
# Left: the clusters. Right: the true digits.
import matplotlib.pyplot as plt

from bagwise.displays import ClusterMapDisplay

figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for ax, groups, title in zip(
    axes, (model.labels_, truth), ("clusters found", "true digits"), strict=True
):
    ClusterMapDisplay.from_predictions(model.embedding_, groups, title=title, ax=ax)
plt.show()
