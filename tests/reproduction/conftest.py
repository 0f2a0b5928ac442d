import pytest

from reproduction import Store, load_paper, make_plan

# A paper of seconds: two methods, drawn bags, three folds, two repetitions.
TINY = """
title = "A tiny paper"
citation = "Nobody. Nowhere."

[metrics.accuracy]
title = "ACC"
function = "sklearn.metrics:accuracy_score"

[metrics.fit_seconds]
title = "time (s)"
kind = "time"

[data.clusters]
title = "Clusters"
source = "bagwise.datasets:make_bags"
options = { n_bags = 18, n_features = 3 }

[data.lost]
title = "Lost"
source = "reproduction.sources:from_data_home"
options = { file = "lost.npz" }

[data.replaced]
title = "Replaced"
family = "family"
source = "reproduction.sources:from_data_home"
options = { file = "lost.npz" }
[data.replaced.stand_in]
title = "drawn instead"
source = "bagwise.datasets:make_bags"
options = { n_bags = 18, n_features = 3 }

[methods.sil]
title = "SIL"
model = { class = "bagwise.classification:SingleInstanceClassifier" }

[methods.nsk]
title = "NSK"
model = { class = "bagwise.classification:SetKernelSVM", C = { value = 12.0, per = "bags" } }
settings = { family = { kernel = "linear", normalization = { none = true } } }

[methods.unwritten]
title = "Unwritten"
model = { class = "bagwise.classification:NobodyWroteThis" }

[experiments.table]
kind = "table"
title = "a table"
protocol = "cross_validation"
data = ["clusters", "lost", "replaced"]
methods = ["sil", "nsk", "unwritten"]
metrics = ["accuracy", "fit_seconds"]
folds = 3
repetitions = 2
plots = ["comparison", "confusion"]
quick = { repetitions = 1 }
options = { confusion = true, confusion_of = [{ data = "clusters", method = "sil" }] }
explanations = [{ data = "clusters", method = "nsk", text = "the target is out of reach" }]
[experiments.table.published.clusters]
sil = { accuracy = [0.5, 2.0], fit_seconds = [1000.0] }
nsk = { accuracy = [9.0, 1.0] }
[experiments.table.published]
lost = { sil = "timed out" }
replaced = { sil = { accuracy = [0.5, 0.1] } }

[experiments.figure]
kind = "figure"
title = "a figure"
protocol = "fit_time"
data = ["clusters"]
methods = ["sil", "nsk"]
metrics = ["fit_seconds"]
plots = ["lines"]
claim = "It grows."
[experiments.figure.sweep]
name = "data.n_bags"
values = [6, 12, 24]
growth = true
"""


@pytest.fixture
def tiny_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tiny(tiny_file):
    return load_paper(tiny_file)


@pytest.fixture
def plan(tiny):
    return make_plan(tiny, tiny.experiment("table"))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results" / "table.jsonl")
