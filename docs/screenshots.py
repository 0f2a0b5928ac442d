"""Take the screenshots of this documentation: ``python -m docs.screenshots [letters ...]``.

Needs the extras ``report``, ``plot`` and ``persist``, Playwright and Chromium. All data shown are
synthetic or shipped with bagwise.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.classification import SetKernelSVM, SingleInstanceClassifier
from bagwise.datasets import make_digit_bags
from bagwise.evaluate import HeldOut
from bagwise.preprocessing import InstanceTransformer
from bagwise.report import Media, Report

IMAGES = Path(__file__).parent / "images"
N_SHEETS = 200
SCALE = 5  # pixels of a sheet per pixel of a digit
CELL = 13  # edge of the cell of a digit, in its own pixels


def digit_report() -> Report:
    """Sheets of handwritten digits, some with a 9: a bag is a sheet, an instance is a digit."""
    data = make_digit_bags(n_bags=N_SHEETS, random_state=0)
    bags = Bags(data.bags.instances, data.bags.offsets, [f"sheet {i}" for i in range(N_SHEETS)])
    y = np.where(data.y == 1, "with a 9", "no 9")
    model = nine_finder().fit(bags, y)
    scores = cross_val_predict(nine_finder(), bags, y, cv=5, method="decision_function")
    held_out = HeldOut(
        cross_val_predict(nine_finder(), bags, y, cv=5),
        scores,
        how="5-fold cross-validation",
        baselines={"sil": HeldOut(cross_val_predict(SingleInstanceClassifier(), bags, y, cv=5))},
    )
    return Report(
        model,
        bags,
        y,
        title="Which sheet has a 9, and where?",
        media=digit_media(bags),
        held_out=held_out,
    )


def nine_finder() -> Pipeline:
    """The model of the report."""
    return make_pipeline(InstanceTransformer(StandardScaler()), SetKernelSVM(C=10))


def digit_media(bags: Bags) -> Media:
    """Draw the sheets, and return the position of each digit on them."""
    digits = [1 - row.reshape(8, 8) / 16 for row in bags.instances]
    sources: list[NDArray[np.float64]] = []
    boxes: list[list[int]] = []
    rng = np.random.default_rng(0)
    for part in bags.split(np.arange(bags.n_instances)):
        n_columns = 5
        n_rows = -(-len(part) // n_columns)
        sheet = np.ones((n_rows * CELL, n_columns * CELL))
        for place, row in enumerate(part):
            x, y = rng.integers(2, CELL - 9, size=2)
            x, y = x + CELL * (place % n_columns), y + CELL * (place // n_columns)
            sheet[y : y + 8, x : x + 8] = digits[row]
            boxes.append([SCALE * int(v) for v in (x - 1, y - 1, 10, 10)])
        sources += [np.kron(sheet, np.ones((SCALE, SCALE)))] * len(part)
    return Media(images=digits, sources=sources, boxes=boxes, per_bag=3)


BAGWISE = [sys.executable, "-m", "bagwise"]


@contextmanager
def review(folder: Path, *commands: list[str], words: list[str]) -> Iterator[str]:
    """Run commands in a folder, then start a review; yield the address of its page."""
    for command in commands:
        subprocess.run(command, cwd=folder, check=True)
    serve = [*BAGWISE, "review", "model.skops", *words, "--no-browser"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


def review_of_clips(folder: Path) -> AbstractContextManager[str]:
    """Draw the recordings of the ecologist, fit a model and review it."""
    script = Path(__file__).parents[1] / "examples/users/ecologist/draw_recordings.py"
    labels = ["--labels", "labels.csv", "--label-set", "species"]
    fit = ["fit", "clips.csv", *labels, "-m", "orlr", "--background", "--noisy-sets"]
    commands = [sys.executable, str(script)], [*BAGWISE, *fit, "-o", "model.skops"]
    return review(folder, *commands, words=["clips.csv", "--labels", "labels.csv"])


def review_of_letters(folder: Path) -> AbstractContextManager[str]:
    """Fit a model of the letters of words, and review it."""
    export = ["datasets", "export", "letter_carroll", "-o", "letters.csv"]
    fit = ["fit", "letters.csv", "-m", "orlr", "-o", "model.skops"]
    commands = [*BAGWISE, *export], [*BAGWISE, *fit]
    return review(folder, *commands, words=["letters.csv", "--limit", "36"])


def take_reports(browser: Any) -> None:
    """The report in light and dark colours, and on a narrow screen."""
    shots = {
        "report-light": ("light", 1060, 960, "#bag-0"),
        "report-dark": ("dark", 1060, 960, "#section-2"),
        "report-narrow": ("light", 390, 844, "#bag-0"),
    }
    with tempfile.TemporaryDirectory() as folder:
        page = digit_report().save(Path(folder) / "report.html")
        for name, (scheme, width, height, place) in shots.items():
            size = {"width": width, "height": height}
            tab = browser.new_context(color_scheme=scheme, viewport=size).new_page()
            tab.goto(page.as_uri() + place)
            tab.wait_for_timeout(500)  # until images are decoded
            tab.screenshot(path=IMAGES / f"{name}.png")


def take_clips(browser: Any) -> None:
    """The review of a clip, with its spectrogram."""
    with tempfile.TemporaryDirectory() as folder, review_of_clips(Path(folder)) as address:
        size = {"width": 900, "height": 800}
        tab = browser.new_context(color_scheme="light", viewport=size).new_page()
        tab.goto(address)
        tab.wait_for_timeout(3000)  # until the spectrogram is drawn
        tab.screenshot(path=IMAGES / "review-clips.jpg", type="jpeg", quality=80)


def take_letters(browser: Any) -> None:
    """The review of letters after some decisions, at a word with several possible letters."""
    with tempfile.TemporaryDirectory() as folder, review_of_letters(Path(folder)) as address:
        size = {"width": 900, "height": 660}
        context = browser.new_context(color_scheme="light", viewport=size, device_scale_factor=1.5)
        tab = context.new_page()
        tab.goto(address)
        for _ in range(7):
            tab.wait_for_timeout(500)
            tab.keyboard.press("Enter")
        tab.wait_for_timeout(1000)
        tab.screenshot(path=IMAGES / "review.png")


PICTURES = {"reports": take_reports, "letters": take_letters, "clips": take_clips}


def main() -> None:
    """Take the named screenshots, or all."""
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser)
            sys.stdout.write(f"{name}\n")
        browser.close()


if __name__ == "__main__":
    main()
