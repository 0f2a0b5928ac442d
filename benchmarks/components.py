"""Number of principal components: accuracy and AUC of methods on synthetic features of slides.

`python -m benchmarks.components` shows the gain or loss of the rule of `InstancePCA("auto")`, which
was chosen on other samples. 120 slides of three classes have 1,024 features, with signal in 14 or
62 directions; 3 to 12 % of the instances of two classes show the class. Both slides of a patient
are in the same fold.
"""

import warnings

import numpy as np

from bagwise import Bags
from bagwise.auto._methods import find_method, make_model
from bagwise.evaluate import evaluate
from bagwise.preprocessing import InstancePCA

from .harness import Fact

WIDTH, N_SLIDES, N_TISSUES = 1024, 120, 12
METHODS = ("pdmisvm", "minimax")
NUMBERS = (None, 8, 16, 32, "auto", 64, 128)


def draw(seed, rank):
    """Slides, their labels and patients: tissues and tumours in a few directions, and noise."""
    rng = np.random.default_rng(seed)
    rank += 2
    directions = np.linalg.qr(rng.normal(size=(WIDTH, rank)))[0].T * np.sqrt(WIDTH / (rank - 2))
    tissues = 2.5 * rng.normal(size=(N_TISSUES, rank))
    tissues[:, -2:] = 0
    tumours = 2.5 * rng.normal(size=(2, rank))
    scales = np.exp(-np.linspace(0, 2, WIDTH))  # standard deviations of the noise of each feature
    slides, labels = [], np.arange(N_SLIDES) % 3
    for label in labels:
        n = rng.integers(40, 200)
        shares = rng.dirichlet(np.ones(N_TISSUES))
        hidden = tissues[rng.choice(N_TISSUES, n, p=shares)] + 0.5 * rng.normal(size=rank)
        if label:
            n_ill = max(1, int(n * rng.uniform(0.03, 0.12)))
            hidden[:n_ill] = tumours[label - 1]
        hidden += 0.7 * rng.normal(size=hidden.shape)
        rows = 0.35 * hidden @ directions + scales * rng.normal(size=(n, WIDTH))
        slides.append(rows.astype(np.float32))
    return Bags.from_arrays(slides), labels, np.arange(N_SLIDES) // 2


def rows():
    warnings.simplefilter("ignore")
    for seed, rank in ((0, 12), (1, 60)):
        bags, y, patients = draw(seed, rank)
        auto = len(InstancePCA().fit(bags[:96]).components_)
        for name in METHODS:
            for pca in NUMBERS:
                model = make_model(find_method(name), {}, scale=True, sparse=False, pca=pca)
                found = evaluate(model, bags, y, groups=patients)
                number = {None: "all features", "auto": f"auto: {auto}"}.get(pca, pca)
                value = f"accuracy {found.mean('accuracy'):.3f}, AUC {found.mean('AUC'):.3f}"
                yield Fact(f"draw {seed}, {name}, {number}", value, "")


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
