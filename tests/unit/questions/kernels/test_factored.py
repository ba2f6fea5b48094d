"""Sums of records' vectors by their factors are those of the vectors themselves, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.inference.statistics import GradientMoments
from tacenda.questions.statistics import Factored
from tacenda.questions.store import Store

D, GRIDS = 20, np.array([2.0**-30, 2.0**-20])
ASKED = {
    "logistic": GradientMoments(D, "logistic"),
    "squared": GradientMoments(D, "squared", slope=0.3),
    "huber": GradientMoments(D, "huber", spread="scalar"),
    "poisson": GradientMoments(D, "poisson", (("label_bound", 5.0),), spread="none"),
}


def store_of(loss: str, rng: Any) -> Store:
    n = 700
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.3)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    X[3] = 0.0
    y: Any = {"logistic": rng.integers(0, 2, n), "poisson": np.minimum(rng.poisson(1.0, n), 5)}.get(
        loss, rng.uniform(-1, 1, n)
    )
    more: dict[str, Any] = {"classes": (0, 1)} if loss == "logistic" else {}
    if loss == "squared":
        more["clip_norm"] = 1.0
    made = tc.losses.by_name(loss, **dict(ASKED[loss].options))
    shards = [(X[:200], y[:200]), (X[200:], y[200:])]
    return tc.Problem(shards, loss=made, data_norm=1.0, **more).store


@pytest.mark.parametrize("loss", ASKED)
def test_integers_are_those_of_the_vectors(loss: str, monkeypatch: Any) -> None:
    rng = np.random.default_rng(4)
    store, w, nodes = store_of(loss, rng), rng.normal(size=(2, D)), np.arange(2)
    quick = store.integer_statistic(nodes, ASKED[loss], w, GRIDS)
    monkeypatch.setattr(Store, "_integer_sums", lambda *_: False)
    assert np.array_equal(quick, store.integer_statistic(nodes, ASKED[loss], w, GRIDS))
    assert np.count_nonzero(quick) > D


def test_vectors_beyond_their_bound_are_cut_all_the_same(monkeypatch: Any) -> None:
    """Factors that would make vectors too long, or not finite, go the careful way."""
    rng = np.random.default_rng(5)
    store, w, nodes = store_of("logistic", rng), rng.normal(size=(2, D)), np.arange(2)
    told = GradientMoments.factored

    def wrong(self: Any, records: Any, model: Any) -> Factored:
        found = told(self, records, model)
        longer = np.where(records.labels > 0, 50.0, 1.0)
        longer[records.rows[:, 0] > 0.2] = np.nan
        return found._replace(factors=found.factors * longer)

    monkeypatch.setattr(GradientMoments, "factored", wrong)
    asked = ASKED["logistic"]
    quick = store.integer_statistic(nodes, asked, w, GRIDS)
    monkeypatch.setattr(Store, "_integer_sums", lambda *_: False)
    assert np.array_equal(quick, store.integer_statistic(nodes, asked, w, GRIDS))
    sizes = np.array([200, 500])
    assert (np.linalg.norm(quick * GRIDS[:, None], axis=1) <= sizes * asked.norm).all()
