"""
Pathology: heat maps of whole-slide images
==========================================

A whole-slide image (WSI) is cut into patches, and a foundation model turns each patch into a vector
of features. A pathologist labels the slide, not the patches. So a slide is a bag and a patch is an
instance. This example predicts the label of new slides and draws a heat map of the patches that
determine it.
"""

# %%
# The data
# --------
# Slides of patients are not included, so this example generates 120 slides: patches on a grid, 24
# features each. In half of the slides, 2 to 6 % of the patches are tumour. The stain differs from
# slide to slide and is not related to the label.
import numpy as np

from bagwise import Bags

rng = np.random.default_rng(0)
slides, places, tumours = [], [], []
for slide in range(120):
    grid = np.argwhere(np.ones((16, 16)))
    off_centre = ((grid - 7.5) ** 2).sum(axis=1) + rng.uniform(0, 25, len(grid))
    cells = grid[off_centre < rng.uniform(40, 70)]  # a roundish piece of tissue
    patches = 0.5 * rng.normal(size=24) + rng.normal(size=(len(cells), 24))
    tumour = np.zeros(len(cells), dtype=bool)
    if slide % 2:
        from_focus = ((cells - cells[rng.integers(len(cells))]) ** 2).sum(axis=1)
        tumour[np.argsort(from_focus)[: int(rng.uniform(0.02, 0.06) * len(cells)) + 2]] = True
        patches[tumour, :4] += 2.5
    slides.append(patches)
    places.append(256 * cells)
    tumours.append(tumour)
bags, y = Bags.from_arrays(slides), np.where(np.arange(120) % 2, "tumour", "normal")
print(bags)

# %%
# Predict new slides
# ------------------
# One tumour patch makes a slide a tumour slide: this is the standard assumption. ``BagMarginSVM``
# (MI-SVM) keeps it. The baseline averages the patches of a slide, as many pipelines do, and a few
# tumour patches disappear in the average.
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import BagMarginSVM
from bagwise.embedding import BagStatistics
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline

average = make_pipeline(BagStatistics(("mean",)), StandardScaler(), LogisticRegression())
model = make_bag_pipeline(
    InstanceTransformer(StandardScaler()), BagMarginSVM(kernel="linear", pos_label="tumour")
)
for name, fitted in (("mean of the patches", average), ("MI-SVM", model)):
    fitted.fit(bags[:60], y[:60])
    print(f"{name:20} {fitted.score(bags[60:], y[60:]):.2f} of 60 new slides right")

# %%
# Heat maps
# ---------
# Two new slides with a tumour. The colour shows the score of each patch, frames mark the three
# highest scores, and crosses mark the planted tumour, which the model has never seen. For your own
# slides, ``bagwise heatmap`` writes such maps and GeoJSON for QuPath.
import matplotlib.pyplot as plt

from bagwise.displays import HeatMapDisplay

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, slide in zip(axes, (61, 63), strict=True):
    HeatMapDisplay.from_estimator(model, slides[slide], places[slide], label="tumour", top=3, ax=ax)
    ax.scatter(*(places[slide][tumours[slide]] + 128).T, marker="x", color="black")
    ax.set_title(f"slide {slide}: {model.predict(bags[[slide]])[0]}")
keys = model.key_instances(bags[61::2], label="tumour")
hits = [tumour[key] for tumour, key in zip(tumours[61::2], keys, strict=True)]
print(f"the key patch is tumour in {sum(hits)} of {len(hits)} new tumour slides")
plt.show()
