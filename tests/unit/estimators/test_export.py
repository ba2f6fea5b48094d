"""Exported models: readable without us, complete, and silent about what is private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import tacenda as tc
from tacenda.errors import StateError
from tacenda.estimators import load_model


def data(n: int = 400) -> tuple[Any, Any]:
    X = np.random.default_rng(0).uniform(-1, 1, size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5]


def fitted(classes: Any = ("no", "yes")) -> tuple[Any, Any]:
    X, score = data()
    y = np.asarray(classes)[np.digitize(score, np.linspace(-1, 1, len(classes) + 1)[1:-1])]
    return tc.PrivateLogisticRegression(
        epsilon=1.5, bounds=(-1, 1), n_nodes=4, random_state=77
    ).fit(X, y), X


def test_files_hold_the_model_and_its_promise(tmp_path: Path) -> None:
    model, _ = fitted()
    folder = model.export(tmp_path / "model")
    assert sorted(p.name for p in folder.iterdir()) == [
        "MODEL_CARD.md",
        "model.json",
        "model.safetensors",
    ]
    np.testing.assert_array_equal(load_file(folder / "model.safetensors")["coef"], model.coef_)
    about = json.loads((folder / "model.json").read_text())
    assert about["privacy"]["epsilon"] == pytest.approx(1.5, abs=1e-6)
    card = (folder / "MODEL_CARD.md").read_text()
    for said in (
        "| epsilon | 1.5 (an upper bound) |",
        "| delta | 10⁻⁵ |",
        "replace-one",
        "one record of one node",
        "accountant",
        "Conditions",
    ):
        assert said in card
    for sentence in model.conditions_:
        assert sentence in card


def test_neither_seed_nor_unprotected_measures_leave(tmp_path: Path) -> None:
    model, _ = fitted()
    folder = model.export(tmp_path)
    text = (folder / "model.json").read_text() + (folder / "MODEL_CARD.md").read_text()
    assert 'objective"' not in text
    assert '"seed"' not in text
    assert 'random_state":' not in text
    assert str(model.history_.rows[-1]["objective"]) not in text


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (-1.0, 1.0), ("a", "b", "c")])
def test_a_loaded_model_predicts_the_same(tmp_path: Path, classes: Any) -> None:
    model, X = fitted(classes)
    again = load_model(model.export(tmp_path))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.to_sklearn().predict(X), model.predict(X))
    assert again.privacy_.epsilon == pytest.approx(model.privacy_.epsilon)
    assert again.bounds == [-1.0, 1.0]
    assert load_model(again.export(tmp_path / "twice")).conditions_ == model.conditions_


@pytest.mark.parametrize(
    "kind", [tc.PrivateRidge, tc.PrivateLasso, tc.PrivateElasticNet, tc.PrivateHuberRegressor]
)
def test_regressions_travel_too(tmp_path: Path, kind: Any) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=["age", "height", "weight"])
    model = kind(bounds=(-1, 1), target_bounds=(-4, 4), n_nodes=2).fit(frame, y)
    again = load_model(model.export(tmp_path))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert list(again.feature_names_in_) == ["age", "height", "weight"]
    assert "Targets were clipped to [-4, 4]" in (tmp_path / "MODEL_CARD.md").read_text()


def test_bad_folders_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no exported model"):
        load_model(tmp_path)
    model, _ = fitted()
    folder = model.export(tmp_path)
    (folder / "model.safetensors").write_bytes(b"no")
    with pytest.raises(StateError, match="damaged"):
        load_model(folder)
    model.export(folder)
    about = json.loads((folder / "model.json").read_text())
    for change, word in (({"format": "x"}, "format"), ({"kind": "PrivateForest"}, "PrivateForest")):
        (folder / "model.json").write_text(json.dumps({**about, **change}))
        with pytest.raises(StateError, match=word):
            load_model(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        load_model(folder)


def test_an_unfitted_model_is_refused(tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        tc.PrivateRidge().export(tmp_path)
    assert not list(tmp_path.iterdir())


def test_skops_keeps_a_fitted_model() -> None:
    skops = pytest.importorskip("skops.io")
    model, X = fitted()
    stored = skops.dumps(model)
    again = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert skops.get_untrusted_types(data=skops.dumps(model.to_sklearn())) == []
