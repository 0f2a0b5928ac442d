"""
Larger than memory: fit from a memory-mapped file
=================================================

The instances of a study (patches of slides, clips of recordings) are often larger than memory. This
example fits a model on a file that is read in blocks, and prints the memory that it used. The
estimator and the result are the same as in memory.
"""

# %%
# The data
# --------
# The data are a file with 200 bags of 500 instances and 256 features in float32 (102 MB), written
# block by block. In half of the bags five instances differ in four features. Your own file is
# opened by ``read_bags`` (HDF5, Parquet, npz), which memory-maps files that are larger than half of
# the free memory.
import tempfile
from pathlib import Path

import numpy as np

from bagwise import Bags

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "instances.npy"
rng = np.random.default_rng(0)
file = np.lib.format.open_memmap(path, "w+", np.float32, (200 * 500, 256))
y = np.arange(200) % 2
for bag, label in enumerate(y):
    block = rng.standard_normal((500, 256), dtype=np.float32)
    block[: 5 * label, :4] += 3
    file[500 * bag : 500 * (bag + 1)] = block
file.flush()
del file
bags = Bags(np.load(path, mmap_mode="r"), np.arange(0, 100_001, 500))
print(bags)
print(f"{path.stat().st_size / 1e6:.0f} MB in the file")

# %%
# Fit and measure
# ---------------
# ``tracemalloc`` measures the arrays that NumPy allocates in each step; pages of the mapped file
# are not among them, because the operating system can drop them at any time. ``BagStatistics``,
# ``InstancePCA`` and ``PrimalDualMISVM`` (pdMISVM) read a mapped file in blocks.
import tracemalloc

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import PrimalDualMISVM
from bagwise.embedding import BagStatistics

statistics = make_pipeline(BagStatistics(("mean", "max")), StandardScaler(), LogisticRegression())
steps = {
    "fit of pdMISVM": lambda: PrimalDualMISVM(tol=1e-3, random_state=0).fit(bags, y),
    "five folds of statistics": lambda: cross_val_score(statistics, bags, y, cv=5).mean(),
}
PrimalDualMISVM(random_state=0).fit(bags[:4], y[:4])  # loads compiled code before the measurement
peaks = {"the file": path.stat().st_size / 1e6}
for name, step in steps.items():
    tracemalloc.start()
    found = step()
    peaks[name] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(f"{name}: {peaks[name]:.0f} MB at most")
print(f"accuracy of the statistics in new bags: {found:.2f}")

# %%
# The picture
# -----------
# None of these steps copies the instances into memory. `Larger than memory <../scale-disk.html>`_
# lists the memory that each model needs, and reports a measurement with a file of 20 GB.
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
bars = ax.barh(list(peaks), list(peaks.values()), color=["0.75", "C0", "C0"])
ax.bar_label(bars, fmt="%.0f MB", padding=4)
ax.set(xlabel="megabytes", xlim=(0, 120))
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
plt.show()
folder.cleanup()
