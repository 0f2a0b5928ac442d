"""AttentionMIL against torchmil's ABMIL, and on a GPU: `python -m benchmarks.attention`.

Both use the same folds and several seeds: accuracy and log loss, their standard deviation over the
seeds, time of a fit. ABMIL has gated attention and a hidden layer, so that only the number of
networks differs; it is trained by `TorchBagClassifier` with its defaults, on standardised
instances. Results are stored in results/attention; `--again` recomputes them. Without torchmil
(`pip install torchmil`) only AttentionMIL is run.

Weight decay and initial weights of AttentionMIL were chosen on Fox, on synthetic bags and digits of
other seeds, and on a large synthetic set of another seed, after seeing the results on the sets here
three times.

`python -m benchmarks.attention --device cuda` compares both on a large synthetic set on the device,
whose signal was chosen with another seed (accuracy .89 with two networks). It also runs a
cross-validation of 500 bags of 10,000 instances with 1,024 features, drawn on the device, and the
matrix products that each epoch needs. Arithmetic and memory rates are compared with those of these
products and of a copy of the instances in the same run. The time of an epoch is that of whole fits,
setup included. `--share 0.02` reduces these sizes by that factor, for a trial on a CPU.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss
from sklearn.utils import Bunch

from bagwise import Bags
from bagwise.classification import AttentionMIL, TorchBagClassifier
from bagwise.datasets import load_dataset, make_bags, make_digit_bags
from bagwise.evaluate._evaluation import make_folds
from bagwise.preprocessing._bag_pipeline import prepared

from .harness import Fact, Row, table

KEPT = Path(__file__).parent.parent / "results" / "attention"
FOLDS = 3
SEEDS = 10
SETS = {
    "Musk1": lambda: load_dataset("musk1"),
    "Elephant": lambda: load_dataset("elephant"),
    "digits": lambda: make_digit_bags(random_state=0),
    "drawn, 200 bags of 20 to 60": lambda: make_bags(
        200, 50, separation=4.0, bag_size=(20, 60), random_state=5
    ),
}
LARGE = "drawn, 300 bags of 500 to 1,500, 256 features"


def lesions(seed=0, n_bags=300, n_features=256, share=0.02, strength=3.0):
    """Bags of normal noise; in every second one, a share of the instances is shifted."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(500, 1501, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], n_features), dtype=np.float32)
    shift = rng.standard_normal(n_features)
    shift *= strength / np.linalg.norm(shift)
    for start, size in zip(offsets[1:-1:2], sizes[1::2], strict=True):
        X[start : start + int(share * size)] += shift.astype(np.float32)
    return Bunch(bags=Bags(X, offsets), y=np.arange(n_bags) % 2)


def abmil(n_features, n_outputs):
    """torchmil's ABMIL with a hidden layer and gated attention."""
    import torch
    from torchmil.models import ABMIL

    hidden = torch.nn.Sequential(torch.nn.Linear(n_features, 64), torch.nn.ReLU())
    return ABMIL(in_shape=(n_features,), att_dim=32, gated=True, feat_ext=hidden)


def torchmil_abmil(**options):
    return prepared(TorchBagClassifier(abmil, batch_dimension=True, **options), sparse=False)


MODELS = {
    "AttentionMIL": AttentionMIL,
    "AttentionMIL, one network": lambda **options: AttentionMIL(n_models=1, **options),
    "torchmil ABMIL": torchmil_abmil,
}


def cell(name, model, seed, device):
    """Accuracy and log loss over all folds, and seconds of a fit (CPU time without a device)."""
    warnings.simplefilter("ignore")
    clock = time.process_time if device is None else time.perf_counter
    data = lesions() if name == LARGE else SETS[name]()
    bags = data.bags.with_instances(np.asarray(data.bags.instances, dtype=np.float32))
    codes = np.unique(data.y, return_inverse=True)[1]
    probabilities, seconds = np.empty((len(bags), 2)), []
    for train, test in make_folds(codes, n_folds=FOLDS, seed=0):
        start = clock()
        fitted = MODELS[model](random_state=seed, device=device).fit(bags[train], codes[train])
        seconds.append(clock() - start)
        probabilities[test] = fitted.predict_proba(bags[test])
    accuracy = float(np.mean(probabilities.argmax(axis=1) == codes))
    return [accuracy, log_loss(codes, probabilities), float(np.mean(seconds))]


def result(name, model, seed, device, again):
    """The result of a cell, stored or computed now; None without torchmil."""
    file = KEPT / f"{name} - {model} - {seed}.json".replace(" ", "_")
    if again or not file.exists():
        try:
            file.write_text(json.dumps(cell(name, model, seed, device)), encoding="utf-8")
        except ModuleNotFoundError as error:
            print(f"{model} is left out: {error}")
            return None
    return json.loads(file.read_text(encoding="utf-8"))


def comparison(names, device, again, jobs):
    """All models on some sets, as a Markdown table."""
    KEPT.mkdir(parents=True, exist_ok=True)
    lines = [
        "| set | model | seeds | accuracy | log loss | seconds of a fit |",
        "|---|---|---:|---:|---:|---:|",
    ]
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        rows = [
            (pair, [pool.submit(result, *pair, seed, device, again) for seed in range(SEEDS)])
            for pair in product(names, MODELS)
        ]
        for pair, runs in rows:
            found = [run.result() for run in runs]
            if None in found:
                continue
            accuracies, losses, seconds = np.transpose(found)
            both = [f"{v.mean():.3f} ± {v.std(ddof=1):.3f}" for v in (accuracies, losses)]
            cells = [*pair, str(SEEDS), *both, f"{seconds.mean():.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


def slides(device, share):
    """500 bags of 10,000 instances; 1 % of the instances of positive bags are shifted."""
    import torch

    n_bags = max(40, int(500 * share))
    size, n_features = max(100, int(10_000 * share)), max(16, int(1024 * share))
    generator = torch.Generator(device).manual_seed(0)
    X = torch.randn((n_bags * size, n_features), device=device, generator=generator)
    y = np.arange(n_bags) % 2
    shift = torch.randn(n_features, device=device, generator=generator)
    positive = torch.as_tensor(np.repeat(y, size) * (np.arange(len(X)) % size < size // 100))
    X += 0.5 * positive.to(device, X.dtype)[:, None] * shift
    return Bags(X, size * np.arange(n_bags + 1)), y


def on_device(device, share):
    """Cross-validation on a device, and the cost of an epoch relative to its matrix products."""
    import torch

    bags, y = slides(device, share)

    def wait():
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    def clock(work):
        wait()
        start = time.perf_counter()
        found = work()
        wait()
        return time.perf_counter() - start, found

    rows = []

    def add(row):
        print(row, flush=True)
        rows.append(row)

    add(Fact("largest difference to the CPU, relative", f"{difference(device):.1g}", "<= 1e-6"))
    AttentionMIL(max_epochs=1, random_state=0).fit(bags[:16], y[:16])  # warm-up
    copy = 2.0 * bags.instances.nbytes / min(clock(bags.instances.clone)[0] for _ in range(3))
    shape = f"{len(bags)} bags x {bags.sizes[0]:,} x {bags.n_features:,}"
    for precision, name in (("highest", "float32"), ("high", "TF32")):
        torch.set_float32_matmul_precision(precision)
        right, n_epochs, took, fits = 0, 0, 0.0, 0.0
        for train, test in make_folds(y, n_folds=5, seed=0):
            seconds, chosen = clock(lambda train=train: bags[train])
            took += seconds
            model = AttentionMIL(random_state=0)
            fits += clock(lambda model=model, train=train, X=chosen: model.fit(X, y[train]))[0]
            del chosen
            seconds, found = clock(lambda model=model, test=test: model.predict(bags[test]))
            took += seconds
            right += int(np.sum(found == y[test]))
            n_epochs += model.n_iter_
        score = f"{took + fits:.0f} s, {n_epochs} epochs, accuracy {right / len(bags):.3f}"
        add(Fact(f"AttentionMIL, {shape}, 5-fold CV, {name}", score, "<= 600 s"))
        floor, epoch = 0.8 * products(bags, clock), fits / n_epochs
        add(Row(f"an epoch of the fit, {name}", epoch, "its products", floor, "<= 2 x"))
        rate, ceiling = (n_operations(bags) / seconds for seconds in (epoch, floor))
        ceiling *= n_operations(bags, layers=False) / n_operations(bags)
        text = f"{rate / 1e12:.1f} of {ceiling / 1e12:.1f} TFLOP/s, {rate / ceiling:.0%}"
        add(Fact(f"arithmetic of an epoch, of that of its products, {name}", text, ">= 60 %"))
        rate = 0.8 * 2.0 * bags.instances.nbytes / epoch
        text = f"{rate / 1e12:.2f} of {copy / 1e12:.2f} TB/s, {rate / copy:.0%}"
        add(Fact(f"instances read twice per epoch, of the rate of a copy, {name}", text, ""))
    return table(rows)


def n_operations(bags, *, layers=True):
    """Floating-point operations of an epoch on 4 of 5 folds; `layers` adds the later layers."""
    model = AttentionMIL()
    first = 4 * bags.n_features * model.hidden_size  # forward pass, and the gradient of the weights
    n_units = model.hidden_size + 1
    behind = 6 * (model.hidden_size * n_units + model.hidden_size // 2)
    return 0.8 * bags.n_instances * model.n_models * (first + layers * behind)


def difference(device):
    """Largest difference of scores between a fit on a device and on the CPU, in float64."""
    data = make_bags(60, 12, bag_size=(2, 40), random_state=0)
    model = AttentionMIL(max_epochs=8)
    scores = [
        model.set_params(device=where, random_state=0).fit(data.bags, data.y)
        .decision_function(data.bags)
        for where in ("cpu", device)
    ]  # fmt: skip
    return np.abs(scores[1] - scores[0]).max() / np.abs(scores[0]).max()


def products(bags, clock):
    """Seconds of an epoch's products with the instances: forward pass and weight gradients."""
    import torch

    model = AttentionMIL()
    X = bags.instances
    W = torch.randn((bags.n_features, model.n_models * model.hidden_size), device=X.device)
    step = 16 * int(bags.sizes[0])

    def work():
        for start in range(0, len(X), step):
            rows = X[start : start + step]
            out = rows @ W
            rows.T @ out

    return min(clock(work)[0] for _ in range(3))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--again", action="store_true", help="forget the results that are there")
    options.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options.add_argument(
        "--device", help="run the comparison of large bags there, and that of slides"
    )
    options.add_argument("--share", type=float, default=1.0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    if given.device:
        print(on_device(given.device, given.share))
    names = [LARGE] if given.device else SETS
    print(comparison(names, given.device, given.again, given.jobs))


if __name__ == "__main__":
    main()
