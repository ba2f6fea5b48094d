"""scikit-learn's callbacks hear of rounds and get no records."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tacenda as tc

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")


class Listener:
    def __init__(self, stop_after: int = 10**9) -> None:
        self.heard: list[Any] = []
        self.stop_after = stop_after

    def setup(self, estimator: Any, context: Any) -> None:
        self.heard.append(("setup", context.max_subtasks))

    def on_fit_task_begin(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None
    ) -> None:
        assert X is None and y is None

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> bool:
        assert X is None and y is None and metadata is None
        self.heard.append(context.task_name)
        return len(self.heard) > self.stop_after

    def teardown(self, estimator: Any, context: Any) -> None:
        self.heard.append("teardown")


def records() -> tuple[Any, Any]:
    data = tc.data.make_classification(600, 4, difficulty=0.2, seed=0)
    return data.X, data.y


def model(**settings: Any) -> tc.PrivateLogisticRegression:
    return tc.PrivateLogisticRegression(
        epsilon=2.0, bounds="norm", classes=(0, 1), n_nodes=3, random_state=0, **settings
    )


@pytest.mark.parametrize(("algorithm", "rounds"), [("auto", None), ("dpdda", 45), ("dpdda", 7)])
def test_a_callback_hears_of_every_recorded_round(algorithm: str, rounds: int | None) -> None:
    listener = Listener()
    fitted = model(algorithm=algorithm, rounds=rounds)
    assert fitted.set_callbacks(listener) is fitted
    fitted.fit(*records())
    (_, expected), *middle, last = listener.heard
    turns = [row["round"] for row in fitted.history_.rows if 0 < row["round"] <= fitted.n_iter_]
    assert middle == [*(f"round {turn}" for turn in turns), "fit"] and last == "teardown"
    assert expected == len(turns)
    plain = model(algorithm=algorithm, rounds=rounds).fit(*records())
    np.testing.assert_array_equal(plain.coef_, fitted.coef_)


def test_the_progress_bar_of_scikit_learn_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    fitted = model().set_callbacks(callback.ProgressBar()).fit(*records())
    assert fitted.privacy_.epsilon == pytest.approx(2.0)
    assert "PrivateLogisticRegression" in capfd.readouterr().out


def test_a_callback_may_end_the_run_which_spends_no_more_than_was_planned() -> None:
    fitted = model(algorithm="dpdda", rounds=40).set_callbacks(Listener(stop_after=4))
    fitted.fit(*records())
    assert fitted.n_iter_ < 40
    assert fitted.privacy_.epsilon <= 2.0


def test_an_error_in_the_run_still_ends_the_callbacks() -> None:
    listener = Listener()
    X, y = records()
    fitted = model(algorithm="dpdda", rounds=5).set_callbacks(listener)
    fitted.ledger, fitted.dataset = "/nowhere/at/all.db", "a"
    with pytest.raises(tc.errors.TacendaError):
        fitted.fit(X, y)
    assert listener.heard[-1] == "teardown"


def test_a_fit_without_callbacks_keeps_nothing_of_them() -> None:
    fitted = model().fit(*records())
    assert not [name for name in vars(fitted) if "callback" in name]
    pickle.loads(pickle.dumps(fitted))
