"""
Instance annotation: species of bird syllables
==============================================

For each recording of a forest, an expert lists the bird species that sing. Labelling every syllable
would take weeks. ``ORedLogisticRegression`` (ORLR) learns the species of each syllable from the
lists (multi-instance multi-label learning, MIML).
"""

# %%
# The data
# --------
# If the HJA bird song recordings are in the data home (``BAGWISE_DATA``), this example uses them:
# 548 recordings, 13 species, 38 features per syllable. Otherwise it generates similar recordings.
import numpy as np

from bagwise import Bags
from bagwise.exceptions import DataNotFoundError


def draw_recordings(n_recordings=300, n_species=13, n_features=38, seed=0):
    """Generate recordings of one to four species, five to twelve syllables each."""
    rng = np.random.default_rng(seed)
    songs = rng.normal(size=(n_species, n_features))
    label_sets = np.zeros((n_recordings, n_species), dtype=int)
    syllables, singers = [], []
    for heard in label_sets:
        birds = rng.choice(n_species, rng.integers(1, 5), replace=False)
        extra = rng.choice(birds, rng.integers(5, 13) - len(birds))
        who = np.concatenate([birds, extra])
        heard[birds] = 1
        syllables.append(songs[who] + 3.0 * rng.normal(size=(len(who), n_features)))
        singers.append(who)
    return Bags.from_arrays(syllables), label_sets, np.concatenate(singers)


try:
    from reproduction.bag_data import load_hja_birdsong

    hja = load_hja_birdsong()
    bags, label_sets, truth = hja.bags, hja.label_sets, hja.instance_labels
    species = [name.partition(" - ")[2] for name in hja.classes]  # "BRCR - Brown Creeper"
except (ImportError, DataNotFoundError):
    bags, label_sets, truth = draw_recordings()
    species = [f"bird {k}" for k in range(label_sets.shape[1])]
print(bags)
print(f"{label_sets.sum(axis=1).mean():.1f} species per recording")

# %%
# Learn from label sets
# ---------------------
# ``ORedLogisticRegression`` assumes that each syllable has one species, and that the label set of a
# recording is the union of the species of its syllables. The likelihood sums over all assignments
# of species to syllables. ``annotate_proba`` returns the probability of each species for each
# syllable, given the label set. A random guess among the species of the label set is the baseline.
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.preprocessing import InstanceTransformer

scaled = InstanceTransformer(StandardScaler()).fit_transform(bags)
model = ORedLogisticRegression().fit(scaled, label_sets)
proba = model.annotate_proba(scaled, label_sets)
right = proba.argmax(axis=1) == truth
guess = label_sets / np.maximum(label_sets.sum(axis=1, keepdims=True), 1)
print(f"a guess among the birds of the list: {guess[bags.bag_index, truth].mean():.2f} right")
print(f"ORed logistic regression:            {right.mean():.2f} right")

# %%
# Uncertain syllables
# -------------------
# Most errors are among the syllables with the lowest probability. A person who checks a fifth of
# the syllables, the least certain first, finds most of the errors. The plot on the right shows the
# least certain syllables.
import matplotlib.pyplot as plt

from bagwise.displays import PosteriorDisplay

order = np.argsort(proba.max(axis=1))
left_over = (~right[order])[::-1].cumsum()[::-1] / len(order)
checked = len(order) // 5
print(f"wrong: {left_over[0]:.2f} of all; {left_over[checked]:.2f} once a fifth is checked")
figure, (curve, bars) = plt.subplots(
    1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(2, 3)
)
curve.plot(np.arange(len(order)) / len(order), left_over)
curve.set(xlabel="share of syllables checked by a person", ylabel="share of syllables left wrong")
curve.spines[["top", "right"]].set_visible(False)
PosteriorDisplay.from_estimator(
    model, scaled, label_sets, classes=species, max_instances=10, ax=bars
)
plt.show()
