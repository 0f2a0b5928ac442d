"""Draw the pictures of the README and the documentation: ``python docs/pictures.py``.

Every picture shows results of a model: the key digits of new bags, and the results of the commands
in examples/users on the files generated there.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from scipy.io import wavfile
from scipy.signal import spectrogram

from bagwise.classification import BagMarginSVM
from bagwise.datasets import make_digit_bags

IMAGES = Path(__file__).parent / "images"
USERS = Path(__file__).parent.parent / "examples" / "users"
INK, FAINT, KEY, CARD, BAG = "#24292f", "#6a737d", "#d9762b", "#ffffff", "#f1f4f8"
EDGE = 512  # edge of a patch, in pixels
DIGITS, SIDE = 6, 0.42  # digits of a bag, inches of a digit


def overview() -> Figure:
    """Bags with labels, and new bags with the key instance framed."""
    data = make_digit_bags(n_bags=400, target=9, mean_size=DIGITS, std_size=0, random_state=0)
    model = BagMarginSVM(C=0.01, kernel="linear").fit(data.bags[:300], data.y[:300])
    new = data.bags[300:]
    said, keys = model.predict(new), model.key_instances(new, label=1)

    figure = Figure((8.6, 2.9))
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.axis("off")
    canvas.add_patch(_box(0.02, 0.02, 8.56, 2.86, CARD, edge="#d0d7de"))
    _column(canvas, 0.3, "You label whole bags", "is there a 9 in it?")
    _column(canvas, 4.8, "bagwise labels new bags", "and shows what decided")
    for row, bag in enumerate(_yes_no_yes(data.y[:300])):
        _bag(canvas, 0.3, row, data.bags[bag], "yes" if data.y[bag] else "no", key=None)
    for row, bag in enumerate(_yes_no_yes(said)):
        key = keys[bag] if said[bag] else None
        _bag(canvas, 4.8, row, new[bag], "yes" if said[bag] else "no", key=key)
    canvas.annotate(
        "", (4.6, 1.75), (4.1, 1.75), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 2}
    )
    canvas.set(xlim=(0, 8.6), ylim=(2.9, 0))
    return figure


def _yes_no_yes(answers):
    yes, no = (answers == 1).nonzero()[0], (answers == 0).nonzero()[0]
    return yes[0], no[0], yes[1]


def _column(canvas, left, title, subtitle):
    canvas.text(left, 0.34, title, fontsize=13, weight="bold", color=INK, va="center")
    canvas.text(left, 0.61, subtitle, fontsize=10.5, color=FAINT, va="center")


def _bag(canvas, left, row, digits, answer, *, key):
    top = 0.86 + 0.64 * row
    canvas.add_patch(_box(left, top, DIGITS * SIDE + 0.18, SIDE + 0.12, BAG))
    for place, digit in enumerate(digits):
        x, y = left + 0.09 + place * SIDE, top + 0.06
        canvas.imshow(
            digit.reshape(8, 8), extent=(x + 0.03, x + SIDE - 0.03, y + SIDE - 0.03, y + 0.03),
            cmap="gray_r", vmin=0, vmax=16, aspect="auto", zorder=2,
            alpha=1 if key is None or place == key else 0.4,
        )  # fmt: skip
        if place == key:
            canvas.add_patch(_box(x, y, SIDE, SIDE, "none", edge=KEY, line=2.5))
    right = left + DIGITS * SIDE + 0.32
    canvas.text(
        right, top + SIDE / 2 + 0.06, answer, fontsize=13, va="center", weight="bold",
        color=KEY if answer == "yes" else FAINT,
    )  # fmt: skip


def _box(x, y, width, height, colour, *, edge="none", line=1.0):
    style = "round,pad=0,rounding_size=0.07"
    order = 3 if colour == "none" else 1  # a frame lies above the digits, a bag below
    return FancyBboxPatch(
        (x, y), width, height, boxstyle=style, fc=colour, ec=edge, lw=line, zorder=order
    )


def pathology(folder: Path) -> Figure:
    """A slide that the model has not seen: the score of each patch, and the planted tumour."""
    _run(folder, f"{USERS}/pathology/draw_slides.py --least 500 --most 700 --slides 60")
    pd.read_csv(folder / "labels.csv").iloc[:48].to_csv(folder / "train.csv", index=False)
    labels = "--labels train.csv --id-column slide_id --label tumour"
    model = "--pca auto -m pdmisvm --set assumption=standard -o model.skops"
    _run(folder, f"-m bagwise fit slides {labels} {model}")
    _run(folder, "-m bagwise predict model.skops slides -o predicted.csv")
    patches = pd.read_csv(folder / "predicted.instances.csv")
    tumour = pd.read_csv(folder / "truth.csv")
    slide = tumour.loc[tumour["slide_id"] >= "slide_048", "slide_id"].value_counts().idxmax()
    patches, tumour = patches[patches["bag"] == slide], tumour[tumour["slide_id"] == slide]
    columns, rows = (((patches[k] - patches[k].min()) // EDGE).astype(int) for k in "xy")
    grid = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    grid[rows, columns] = patches["score"]

    figure, axes = _panel("one label per slide, a score per patch")
    axes.imshow(grid, cmap="viridis", interpolation="nearest")
    for x, y in tumour[["x", "y"]].to_numpy():
        corner = (x - patches["x"].min()) / EDGE - 0.5, (y - patches["y"].min()) / EDGE - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, ec=KEY, lw=1.5))
    axes.axis("off")
    axes.set_title("a new slide; framed: planted tumour", fontsize=10.5, color=FAINT)
    return figure


def bioacoustics(folder: Path) -> Figure:
    """A recording: its spectrogram, and the species of each clip."""
    _run(folder, f"{USERS}/ecologist/draw_recordings.py")
    labels = "--labels labels.csv --label-set species --background"
    _run(folder, f"-m bagwise annotate clips.csv {labels} -o annotated.csv")
    clips = pd.read_csv(folder / "annotated.csv")
    clips = clips[clips["label"] != "background"]
    recording = clips.groupby("bag")["label"].nunique().idxmax()
    rate, sound = wavfile.read(folder / recording)
    hertz, seconds, power = spectrogram(sound.astype(float), rate, nperseg=512)

    figure, axes = _panel("species per recording, a label per clip")
    level = 10 * np.log10(power + 1e-9)
    axes.pcolormesh(
        seconds, hertz / 1000, level, cmap="magma", vmin=np.median(level), rasterized=True
    )
    labelled = clips[clips["bag"] == recording]
    for number, (_, clip) in enumerate(labelled.iterrows()):
        height = 6.1 + 0.75 * (number % 3)
        axes.plot([clip["start"], clip["end"]], [height, height], color=KEY, lw=2)
        middle = (clip["start"] + clip["end"]) / 2
        said = f"{clip['label']} {clip['probability']:.0%}"
        axes.text(middle, height, said, color=INK, fontsize=8.5, ha="center", va="bottom")
    axes.set(xlabel="seconds", ylabel="kHz", ylim=(0, 8.2), yticks=[0, 2, 4, 6])
    return figure


def chemistry(folder: Path) -> Figure:
    """Molecules that the model has not seen, and the contributions of one molecule's conformers."""
    _run(folder, f"{USERS}/chemist/draw.py")
    columns = "--bag molecule --label pKi --keep conformer,scaffold --exclude activity"
    table = pd.read_csv(folder / "conformers.csv")
    first = table["molecule"].drop_duplicates().iloc[:80]
    is_train = table["molecule"].isin(first)
    table[is_train].to_csv(folder / "train.csv", index=False)
    table[~is_train].to_csv(folder / "new.csv", index=False)
    _run(folder, f"-m bagwise fit train.csv {columns} -m nsk -o pki.skops")
    _run(folder, "-m bagwise predict pki.skops new.csv -o predicted.csv")
    predicted = pd.read_csv(folder / "predicted.csv").set_index("bag")["predicted"]
    measured = table.groupby("molecule")["pKi"].first()[predicted.index]

    figure, axes = _panel("a number per molecule")
    both = np.array([min(measured.min(), predicted.min()), max(measured.max(), predicted.max())])
    axes.plot(both, both, color=FAINT, lw=1)
    axes.scatter(measured, predicted, s=28, color=KEY, edgecolor="w", lw=0.5)
    axes.set(xlabel="measured pKi", ylabel="predicted, new molecules")
    return figure


def _run(folder, command):
    """Run a Python command in a folder."""
    subprocess.run([sys.executable, *shlex.split(command)], cwd=folder, check=True)


def _panel(title):
    figure = Figure((4.2, 3.2), layout="constrained")
    figure.suptitle(title, fontsize=12, weight="bold", color=INK)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    overview().savefig(IMAGES / "overview.png", dpi=200, transparent=True)
    for draw in (pathology, bioacoustics, chemistry):
        with tempfile.TemporaryDirectory() as folder:
            draw(Path(folder)).savefig(IMAGES / f"{draw.__name__}.png", dpi=150, facecolor=CARD)
