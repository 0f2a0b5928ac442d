"""
Metric learning: names of faces in captioned photos
===================================================

A news photo shows a few faces, and its caption mentions a few names. Which name belongs to which
face? Some people in the caption are not in the picture, and some in the picture are not in the
caption. Light and pose can make two photos of one person differ more than photos of two people.
"""

# %%
# The photos
# ----------
# Photos of real people are not included, so this example generates the face vectors. The numbers of
# faces and names per photo and the errors of captions are those of Labeled Yahoo! News. Half of the
# variation of the face vectors is unrelated to the identity.
import numpy as np

from reproduction.faces import make_names_and_faces

news = make_names_and_faces(n_bags=3000, n_categories=200, random_state=0)
photos, captions = news.bags[:2500], news.automatic_label_sets[:2500]
later = news.bags[2500:]  # without captions
who, who_later = np.split(news.instance_labels, [photos.n_instances])
print(photos)
print(f"{captions.sum(axis=1).mean():.1f} names per caption")

# %%
# Learn the distance and the names
# --------------------------------
# ``MIMLCA`` assigns the names of each caption to the faces of its photo, each at most once, and
# learns a distance in which faces with the same name are close. ``MultiInstanceKMeans`` makes the
# same kind of assignment with the Euclidean distance. Both are accurate if a caption has only a few
# names. For photos without a caption, accuracy depends on the distance alone.
from bagwise.metric_learning import MIMLCA, MultiInstanceKMeans

learned = MIMLCA().fit(photos, captions)
plain = MultiInstanceKMeans().fit(photos, captions)
for name, model in (("plain distance", plain), ("MIMLCA", learned)):
    named = (model.assignments_ >= 0) & (who >= 0)
    right = np.mean(model.assignments_[named] == who[named])
    new = np.mean((model.predict_instances(later) == who_later)[who_later >= 0])
    print(f"{name:15} {right:.2f} of the faces right, {new:.2f} in photos without a caption")

# %%
# Evaluate the distance
# ---------------------
# In a good distance, two faces of one person are closer than faces of two people. The number in the
# title is the ROC AUC for pairs of new faces: the probability that two faces of one person are
# closer than faces of two people. No face had a label in training.
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
