"""A search under attack: who sees everything that it releases stays below the stated epsilon, and
noise for one training instead of K is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.auditing.bounds import epsilon_bound, mu_bound
from tacenda.estimators import trainings as priced
from tacenda.estimators.held_out_scores import reader_of
from tacenda.estimators.trainings import trainings_of
from tacenda.privacy.accounting.calibration import gaussian_mu

pytestmark = pytest.mark.slow

CANDIDATES, RUNS, EPSILON, DELTA = 8, 300, 2.0, 1e-5
MU = gaussian_mu(EPSILON, DELTA)


def searched() -> Any:
    # At the start every record of length 1 has the largest gradient there is: a full attack. The
    # model of one round of IPADMM is its release (that of DPDDA is still the start)
    model = tc.PrivateLinearSVC(
        algorithm="ipadmm", rounds=1, n_nodes=1, classes=(0, 1), bounds="norm", fit_intercept=False
    )
    search = tc.PrivateSearchCV(
        model, {"strength": [1e-3] * CANDIDATES}, epsilon=EPSILON, delta=DELTA
    )
    search._known = {"classes": (0, 1)}
    return search


def records(world: int) -> dict[str, Any]:
    """40 records; the first has the other label in the other world."""
    answers = np.arange(40) % 2
    answers[0] = world
    return {"X": np.ones((40, 1)), "y": answers, "nodes": None}


def models_attacked() -> tuple[np.ndarray, np.ndarray]:
    """(scores, worlds): the best test of all models that the trainings release is their sum, since
    all have the same noise. The chosen model and its index follow from these models and from
    records that are equal in both worlds."""
    found, truth = [], []
    for world in (0, 1):
        search = searched()
        settings = search._candidates()
        trainings = trainings_of(search, settings, records(world), None)
        for _ in range(RUNS):
            models = [t.models(settings)[k].coef_.item() for k, t in enumerate(trainings)]
            found.append(sum(models))
            truth.append(world)
    order = np.random.default_rng(0).permutation(len(truth))
    return np.array(found)[order], np.array(truth)[order]


def test_the_trainings_stay_below_the_stated_epsilon() -> None:
    scores, truth = models_attacked()
    assert epsilon_bound(scores, truth, DELTA).value <= EPSILON
    assert mu_bound(scores, truth).value <= MU
    # And the attack is a real one
    away = scores[truth == 1].mean() - scores[truth == 0].mean()
    assert abs(away) / scores[truth == 0].std() == pytest.approx(MU, abs=0.3)


def test_noise_for_one_training_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: each training has the noise of the whole budget, and one of them is charged
    many = CANDIDATES**0.5
    monkeypatch.setattr(priced, "gaussian_mu", lambda *budget: many * gaussian_mu(*budget))
    monkeypatch.setattr(priced, "together", lambda statements, epsilon: statements[0])
    scores, truth = models_attacked()
    assert mu_bound(scores, truth).value > 1.2 * MU


def test_the_choice_stays_below_the_stated_epsilon() -> None:
    found, truth = [], []
    for world in (0, 1):
        search = searched()
        training = trainings_of(search, search._candidates(), records(0), None)[0]
        reader = reader_of(search, records(world), training.arranged)
        model: Any = training.models(search._candidates())[0]
        model.coef_ = np.ones_like(model.coef_)  # right in one world, wrong in the other
        for _ in range(RUNS):
            result = reader.asked([model] * CANDIDATES, None, search)
            found.append(float(result.released["total"].sum()))
            truth.append(world)
    order = np.random.default_rng(0).permutation(len(truth))
    scores, worlds = np.array(found)[order], np.array(truth)[order]
    assert epsilon_bound(scores, worlds, DELTA).value <= EPSILON
    assert mu_bound(scores, worlds).value <= MU
    away = scores[worlds == 1].mean() - scores[worlds == 0].mean()
    assert abs(away) / scores[worlds == 0].std() == pytest.approx(MU, abs=0.3)
