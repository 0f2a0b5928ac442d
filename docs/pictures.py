"""Draws the pictures of README and of the documentation: ``python docs/pictures.py``.

What is framed is what a model said: bags of handwritten digits, labelled as wholes, and the digit
that decided in bags the model has not seen.
"""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from bagwise.classification import BagMarginSVM
from bagwise.datasets import make_digit_bags

IMAGES = Path(__file__).parent / "images"
INK, FAINT, KEY, CARD, BAG = "#24292f", "#6a737d", "#d9762b", "#ffffff", "#f1f4f8"
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


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    overview().savefig(IMAGES / "overview.png", dpi=200, transparent=True)
