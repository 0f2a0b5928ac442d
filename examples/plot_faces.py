"""
Faces: put names to the people in captioned photos
==================================================

A news photo shows a few faces, its caption mentions a few names. Which name belongs to which
face? Some people in the caption are not in the picture, some in the picture are not in the
caption, and two photos of one person differ by light and pose more than two people do.
"""

# %%
# The photos
# ----------
# Faces of public people are not ours to ship, so the photos are drawn: as many faces and names per
# photo as in Labeled Yahoo! News, captions as faulty, and half of what varies between the face
# vectors has nothing to do with who it is.
import numpy as np

from bagwise.datasets import make_names_and_faces

news = make_names_and_faces(n_bags=3000, n_categories=200, random_state=0)
photos, captions = news.bags[:2500], news.automatic_label_sets[:2500]
later = news.bags[2500:]  # without captions
who, who_later = np.split(news.instance_labels, [photos.n_instances])
print(photos)
print(f"{captions.sum(axis=1).mean():.1f} names per caption")

# %%
# Learn the distance and the names together
# -----------------------------------------
# ``MIMLCA`` deals the names of each caption out to the faces of its photo, each at most once, so
# that faces of one name lie together; and it learns the distance in which they do. The same
# dealing in the plain distance shows what the learned one is worth. Where a caption leaves a few
# names to choose from, either will do. Where there is no caption, the distance has to do it alone.
from bagwise.metric_learning import MIMLCA, MultiInstanceKMeans
from bagwise.metrics import naming_precision

learned = MIMLCA().fit(photos, captions)
plain = MultiInstanceKMeans().fit(photos, captions)
for name, model in (("plain distance", plain), ("MIMLCA", learned)):
    named = (model.assignments_ >= 0) & (who >= 0)
    right = np.mean(model.assignments_[named] == who[named])
    new = naming_precision(who_later, model.predict_instances(later))
    print(f"{name:15} {right:.2f} of the faces right, {new:.2f} in photos without a caption")

# %%
# What the distance has learned
# -----------------------------
# Take any two of the later faces. Do they show one person? In a good distance the pairs of one
# person are nearer than the others. The number is the share of comparisons of such a pair with
# another that come out right; no face ever had a label.
import matplotlib.pyplot as plt
from sklearn.metrics import pairwise_distances, roc_auc_score

named = who_later >= 0
first, second = np.triu_indices(named.sum(), 1)
same = who_later[named][first] == who_later[named][second]
spaces = {"face vectors": later, "learned by MIMLCA": learned.transform(later)}
figure, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", sharey=True)
for ax, (title, bags) in zip(axes, spaces.items(), strict=True):
    distance = pairwise_distances(bags.instances[named])[first, second]
    distance /= distance[~same].mean()
    for pairs, label in ((same, "one person"), (~same, "two people")):
        ax.hist(distance[pairs], bins=60, range=(0, 2), density=True, alpha=0.6, label=label)
    ax.set(title=f"{title}: {roc_auc_score(same, -distance):.2f}", xlabel="distance of two faces")
axes[0].set_ylabel("share of pairs (density)")
axes[0].legend(frameon=False)
plt.show()
