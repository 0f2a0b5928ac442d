"""optuna: parameters chosen by cross-validation on bags."""

import pytest
from sklearn.model_selection import cross_val_score

from bagwise.classification import SetKernelSVM
from partner_data import drawn

optuna = pytest.importorskip("optuna")


def test_a_study_finds_parameters():
    bags, y = drawn()
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def score(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        return cross_val_score(SetKernelSVM(C=C), bags, y, cv=3).mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(score, n_trials=8)
    assert study.best_value >= max(trial.value for trial in study.trials)
    assert study.best_value > 0.6
