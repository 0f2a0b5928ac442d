"""AutoBagClassifier: its cost against single fits of its methods, its memory and its growth."""

import subprocess
import sys

from sklearn.base import clone

from bagwise.auto import AutoBagClassifier
from bagwise.datasets import load_dataset, make_bags
from bagwise.exceptions import DataNotFoundError

from .harness import Fact, Row, growth, seconds

SIZES = (1_000, 3_000, 10_000, 30_000)  # bags; beyond the first, methods of linear cost only
PEAK = """
import resource
from bagwise.auto import AutoBagClassifier
from bagwise.datasets import load_dataset
data = load_dataset("elephant")
AutoBagClassifier(random_state=0).fit(data.bags, data.y)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


def single_fits(model, bags, y):
    """Seconds to fit each method of an ensemble once, on all bags, from scratch."""
    seen = model.scaler_.transform(bags)
    return sum(seconds(lambda m=m: clone(m).fit(seen, y)) for m in model.estimators_)


def rows():
    try:
        data = load_dataset("elephant")
    except DataNotFoundError:
        data = None
    if data is not None:
        model = AutoBagClassifier(random_state=0).fit(data.bags, data.y)  # also compiles
        ours = seconds(lambda: model.fit(data.bags, data.y))
        other = single_fits(model, data.bags, data.y)
        what = f"AutoBagClassifier on Elephant, {len(model.estimators_)} methods with a weight"
        yield Row(what, ours, "a single fit of each of these", other, "<= 12")
        found = subprocess.run(
            [sys.executable, "-c", PEAK], capture_output=True, text=True, check=True
        )
        yield Fact(
            "the same, peak memory of the process", f"{float(found.stdout):.0f} MB", "< 1 GB"
        )
    times = []
    for n_bags in SIZES:
        data = make_bags(n_bags, 20, bag_size=(5, 15), random_state=0)
        model = AutoBagClassifier(random_state=0)
        times.append(seconds(lambda d=data, m=model: m.fit(d.bags, d.y)))
        used = f"{len(model.estimators_)} methods"
        yield Fact(
            f"AutoBagClassifier, {n_bags:,} bags of 10 x 20", f"{times[-1]:.1f} s, {used}", ""
        )
    yield Fact(
        "its growth, 1,000 to 30,000 bags: exponent", f"{growth(SIZES, times):.2f}", "<= 1.1"
    )
    last = growth(SIZES[-2:], times[-2:])
    yield Fact("the same, 10,000 to 30,000 bags", f"{last:.2f}", "")
    data = make_bags(3_000, 20, bag_size=(5, 15), random_state=0)
    for budget in (5, 20):
        model = AutoBagClassifier(time_budget=budget, random_state=0)
        used = seconds(lambda d=data, m=model: m.fit(d.bags, d.y))
        skipped = sum(map(bool, model.leaderboard_["skipped"]))
        what = f"AutoBagClassifier, 3,000 bags, budget of {budget} s"
        yield Fact(what, f"{used:.1f} s, {skipped} methods left out", f"<= {1.2 * budget:.0f} s")
