"""torchmil: its networks, trained bag by bag."""

import pytest
from sklearn.preprocessing import StandardScaler

from bagwise.classification import TorchBagClassifier
from bagwise.preprocessing import InstanceTransformer, make_bag_pipeline
from partner_data import drawn

models = pytest.importorskip("torchmil.models")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def attention(n_features, n_outputs):
    return models.ABMIL((n_features,), att_dim=16)


def test_attention_of_torchmil_learns_bags():
    bags, y = drawn(120)
    network = TorchBagClassifier(
        attention, batch_dimension=True, max_epochs=60, learning_rate=0.01, random_state=0
    )
    model = make_bag_pipeline(InstanceTransformer(StandardScaler()), network)
    assert model.fit(bags[:80], y[:80]).score(bags[80:], y[80:]) > 0.7
