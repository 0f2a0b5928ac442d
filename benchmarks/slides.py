"""`bagwise evaluate` of 80 drawn slides by patient: attention (if torch is there) and `auto`.

About 150,000 patches with 768 features in 64 directions and noise (466 MB); two slides of each of
40 patients, of which one has 6 % tumour patches. All cores.
"""

import json
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from bagwise import Bags
from bagwise.io import write_bags

from .felt import process, used
from .harness import Fact

GOALS = {"attention": "60 s", "auto": "240 s"}  # by the clock, on two quiet cores


def draw(folder, n_slides=80, n_features=768):
    """Write the slides and the table of their labels and patients."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(700, 3_000, n_slides)
    offsets = np.concatenate([[0], sizes.cumsum()])
    directions = rng.normal(size=(64, n_features)) * np.linspace(3, 0.3, 64)[:, None] / 8
    X = np.empty((offsets[-1], n_features), np.float32)
    tumour = 0.6 * rng.normal(size=n_features)
    for i in range(n_slides):
        rows = rng.normal(size=(sizes[i], 64)) @ directions
        rows += 0.3 * rng.normal(size=rows.shape)
        rows[: i % 2 * (6 * sizes[i] // 100)] += tumour
        X[offsets[i] : offsets[i + 1]] = rng.permutation(rows)
    names = [f"slide {i}" for i in range(n_slides)]
    write_bags(Path(folder, "slides.npz"), Bags(X, offsets, ids=names), compress=False)
    labels = np.where(np.arange(n_slides) % 2, "tumour", "normal")
    table = {"bag": names, "label": labels, "patient": np.arange(n_slides) // 2}
    pd.DataFrame(table).to_csv(Path(folder, "labels.csv"), index=False)


def rows():
    words = "evaluate slides.npz --labels labels.csv --bag bag --label label --group patient"
    with tempfile.TemporaryDirectory() as folder:
        draw(folder)
        for method, goal in GOALS.items():
            if method == "attention" and find_spec("torch") is None:
                continue
            options = ("-m", "bagwise", *words.split(), "--pca", "auto", "-m", method, "--json")
            before, start = used(), time.perf_counter()
            answer = json.loads(process(*options, folder=folder))
            clock, cpu = time.perf_counter() - start, used() - before
            auc = answer["methods"][0]["AUC"]["mean"]
            text = f"{clock:.0f} s by the clock, {cpu:.0f} CPU s, AUC {auc:.3f}"
            yield Fact(f"`bagwise evaluate` of 80 slides, {method}", text, goal)
