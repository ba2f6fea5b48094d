"""What a newcomer gets without tuning, beside scikit-learn and diffprivlib: `python -m
benchmarks.first_day [--share 0.1] [--only NAME ...]`.

All methods see the same rows, made from the same bounds, and the same test part (a quarter).
diffprivlib runs as a program in an environment of its own (`first_day_rival.py`), which is made
once under `.bench`. Every finished cell is stored at once, so an interrupted table goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.environments import DIFFPRIVLIB
from benchmarks.regressions import gaussian
from tacenda.formats.files import write_json

EPSILONS = (0.5, 1.0, 2.0)
SEEDS = (0, 1, 2)
NODES = (1, 20, 100)
DELTA = 1e-5
STORE = Path(__file__).with_name("first_day.json")


@dataclass(frozen=True)
class Records:
    """Rows and targets; bounds of both, "norm" where rows come within norm 1; classes None for a
    regression."""

    X: Any
    y: Any
    bounds: Any
    target_bounds: tuple[float, float] | None = None

    @property
    def regression(self) -> bool:
        return self.target_bounds is not None


def round_bounds(X: Any) -> tuple[Any, Any]:
    """Bounds for data that brings none: where 98 % lie, rounded outwards to one digit. They are
    read from the data, for all methods alike; whoever protects real people declares them."""
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    unit = 10.0 ** np.floor(np.log10(np.maximum(np.abs(low), np.abs(high)).clip(1e-9)))
    return np.floor(low / unit) * unit, np.ceil(high / unit) * unit


def bundled(name: str) -> Records:
    """A set that scikit-learn brings along."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":
        return Records(X, y, (-0.2, 0.2), (0.0, 350.0))
    return Records(X, y, (0.0, 16.0) if name == "digits" else round_bounds(X))


def encoded(name: str) -> Records:
    """Adult or a9a by their declared schema; rows have norm at most 1."""
    import tacenda as tc

    data = tc.data.load(name)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    return Records(X, data.y, "norm")


def generated(n: int, d: int, informative: int, rare: float, seed: int) -> Records:
    """Two classes, the second one with share `rare`."""
    X, y = datasets.make_classification(
        n,
        d,
        n_informative=informative,
        n_redundant=d // 10,
        weights=[1 - rare],
        class_sep=0.8,
        random_state=seed,
    )
    return Records(X, y, round_bounds(X))


def sparse(n: int = 50_000, d: int = 300, seed: int = 4) -> Records:
    """0/1 features, one in twenty set, frequent ones first; every tenth label is 1."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    share = np.minimum(0.5, 15 / np.arange(1, d + 1) / np.log(d + 1))
    X = (rng.random((n, d)) < share).astype(float)
    score = X @ (rng.normal(size=d) * 1.5)
    level = np.quantile(score, 0.9)
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * (score - level) / score.std()))).astype(int)
    return Records(csr_matrix(X), y, (0.0, 1.0))


def regression() -> Records:
    X, y, bounds, target_bounds = gaussian(17_000, 58, 1.0, 0.67, 1)
    return Records(X, y, bounds, (float(target_bounds[0]), float(target_bounds[1])))


SETS: dict[str, Callable[[], Records]] = {
    "iris": lambda: bundled("iris"),
    "wine": lambda: bundled("wine"),
    "breast_cancer": lambda: bundled("breast_cancer"),
    "diabetes": lambda: bundled("diabetes"),
    "digits": lambda: bundled("digits"),
    "19,000 x 10": lambda: generated(19_000, 10, 6, 0.5, 2),
    "45,000 x 51, 12 % in one class": lambda: generated(45_000, 51, 12, 0.12, 1),
    "regression 17,000 x 58": regression,
    "adult": lambda: encoded("adult"),
    "a9a": lambda: encoded("a9a"),
    "50,000 x 300, sparse": sparse,
}


def rows_of(records: Records, X: Any) -> Any:
    """The rows that the others see: by the bounds into [-1, 1] and, as in our estimators, to norm 1
    at half of all bounds; longer rows are shortened."""
    if isinstance(records.bounds, str):
        return X
    if hasattr(X, "toarray"):
        Z = X.toarray()
    else:
        low, high = (np.broadcast_to(np.asarray(b, float), X.shape[1]) for b in records.bounds)
        reach = np.where(high > low, (high - low) / 2, 1.0)
        Z = (np.clip(X, low, high) - (low + high) / 2) / reach / (0.5 * np.sqrt(X.shape[1]))
    return Z / np.maximum(1.0, np.linalg.norm(Z, axis=1, keepdims=True))


def measures(y: Any, predicted: Any, scores: Any, regression: bool) -> dict[str, float]:
    """Accuracy and AUC (the mean over classes where there are several), or R2."""
    if regression:
        return {"r2": float(1 - np.mean((y - predicted) ** 2) / np.var(y))}
    several = scores.ndim == 2
    auc = roc_auc_score(y, scores, **({"multi_class": "ovr"} if several else {}))
    return {"accuracy": float(np.mean(predicted == y)), "auc": float(auc)}


def scores_of(model: Any, X: Any) -> Any:
    """Probabilities of several classes, or the second one's."""
    found = model.predict_proba(X)
    return found if found.shape[1] > 2 else found[:, 1]


def ours(
    records: Records, parts: tuple[Any, ...], epsilon: float, nodes: int, seed: int
) -> dict[str, float]:
    """One fit of our estimator with its defaults."""
    from tacenda.estimators import PrivateLogisticRegression, PrivateRidge

    X, test, y, test_y = parts
    common: dict[str, Any] = {
        "delta": DELTA,
        "bounds": records.bounds,
        "n_nodes": nodes,
        "random_state": seed,
    }
    model: Any
    if records.regression:
        model = PrivateRidge(epsilon, target_bounds=records.target_bounds, **common).fit(X, y)
        return measures(test_y, model.predict(test), None, True)
    classes = np.unique(records.y).tolist()
    model = PrivateLogisticRegression(epsilon, classes=classes, **common).fit(X, y)
    return measures(test_y, model.predict(test), scores_of(model, test), False)


def without_privacy(records: Records, parts: tuple[Any, ...]) -> dict[str, dict[str, float]]:
    """scikit-learn on the same rows, and what a model without features reaches."""
    X, test, y, test_y = parts
    rows, test_rows = rows_of(records, X), rows_of(records, test)
    if records.regression:
        found = LinearRegression().fit(rows, y).predict(test_rows)
        return {"none": measures(test_y, found, None, True), "floor": {"r2": 0.0}}
    model = LogisticRegression(max_iter=2000).fit(rows, y)
    floor = DummyClassifier().fit(rows, y).score(test_rows, test_y)
    return {
        "none": measures(test_y, model.predict(test_rows), scores_of(model, test_rows), False),
        "floor": {"accuracy": float(floor), "auc": 0.5},
    }


def rival(
    records: Records, parts: tuple[Any, ...], python: Path, asked: list[tuple[float, int]]
) -> list[dict[str, float]]:
    """diffprivlib's fits, and how good they are."""
    X, test, y, test_y = parts
    answers = rival_answers(
        python,
        asked,
        X=rows_of(records, X),
        test=rows_of(records, test),
        y=y,
        target_bounds=records.target_bounds or (0.0, 0.0),
    )
    return [
        measures(test_y, predicted, None if records.regression else scores, records.regression)
        for predicted, scores in answers
    ]


def rival_answers(python: Path, asked: list[tuple[float, int]], **given: Any) -> list[Any]:
    """(predictions, scores) of diffprivlib's fits, all in one process of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, asked=np.array(asked), **given)
        done = subprocess.run(
            [python, "-W", "ignore", Path(__file__).with_name("first_day_rival.py"), file],
            check=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        assert done.returncode == 0
        with np.load(file.with_name("found.npz")) as found:
            return [(found[f"predicted{k}"], found[f"scores{k}"]) for k in range(len(asked))]


def play(name: str, share: float, python: Path, store: dict[str, Any]) -> None:
    """All cells of one set that are not stored yet."""
    records = SETS[name]()
    n = records.X.shape[0]
    kept = np.random.default_rng(0).permutation(n)[: max(100, round(share * n))]
    parts = tuple(
        train_test_split(records.X[kept], records.y[kept], test_size=0.25, random_state=0)
    )
    X, test = parts[0], parts[1]
    about = {"train": X.shape[0], "test": test.shape[0], "features": X.shape[1]}
    mine = store.setdefault(f"{name} @ {share:g}", {"about": about, "cells": {}})
    cells = mine["cells"]

    def keep(key: str, found: dict[str, float]) -> None:
        cells[key] = found
        write_json(STORE, store)
        print(name, key, {k: round(v, 4) for k, v in found.items()}, flush=True)

    if "none" not in cells:
        for key, found in without_privacy(records, parts).items():
            keep(key, found)
    asked = [
        (epsilon, seed)
        for epsilon in EPSILONS
        for seed in SEEDS
        if f"diffprivlib {epsilon:g} {seed}" not in cells
    ]
    if asked:
        for (epsilon, seed), found in zip(asked, rival(records, parts, python, asked), strict=True):
            keep(f"diffprivlib {epsilon:g} {seed}", found)
    for nodes in NODES:
        for epsilon in EPSILONS:
            for seed in SEEDS:
                key = f"{nodes} {epsilon:g} {seed}"
                if key not in cells and nodes <= X.shape[0]:
                    keep(key, ours(records, parts, epsilon, nodes, seed))


def table(store: dict[str, Any]) -> str:
    """Markdown: means over the seeds; accuracy / AUC, or R2."""
    lines = [
        "| data | n x d | epsilon | floor | no privacy | diffprivlib | "
        "tacenda, 1 node (trusted server) | 20 nodes | 100 nodes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in store.items():
        about, cells = one["about"], one["cells"]
        for epsilon in EPSILONS:
            shown = [_cell(cells, [key]) for key in ("floor", "none")] + [
                _cell(cells, [f"{method} {epsilon:g} {seed}" for seed in SEEDS])
                for method in ("diffprivlib", *NODES)
            ]
            size = f"{about['train']:,} x {about['features']}"
            lines.append(f"| {name.split(' @')[0]} | {size} | {epsilon:g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _cell(cells: dict[str, Any], keys: list[str]) -> str:
    found = [cells[key] for key in keys if key in cells]
    if len(found) < len(keys):
        return "-"
    means = {k: float(np.mean([f[k] for f in found])) for k in found[0]}
    return " / ".join("below -1" if v < -1 else f"{v:.3f}" for v in means.values())


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--share", type=float, default=1.0, help="of each set's records")
    asked.add_argument("--only", nargs="*", choices=list(SETS), default=list(SETS))
    asked.add_argument("--print", action="store_true", help="only the table of what is stored")
    given = asked.parse_args()
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    if not given.print:
        warnings.simplefilter("ignore")
        python = DIFFPRIVLIB.python()
        for name in given.only:
            play(name, given.share, python, store)
    print(table({k: v for k, v in store.items() if k.endswith(f"@ {given.share:g}")}))


if __name__ == "__main__":
    main()
