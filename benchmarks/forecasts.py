"""What the planner forecasts beside what runs achieve: `python -m benchmarks.forecasts`; the table
of results/measured/planner.md.

Ten sets at four budgets over 20 nodes, the estimators' defaults. A cell holds the realised excess
risk (objective of the nodes' models above the noise-free optimum, mean of the seeds), the formula's
forecast, and predictions from generated data without and with the declared prevalence, with their
ranges. Finished cells are stored in forecasts.json, so an interrupted table goes on.

    python -m benchmarks.forecasts --write      # the stored cells into the page
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.first_day import SETS as FIRST_DAY
from benchmarks.first_day import Records
from benchmarks.generated import GENERATED, dense
from benchmarks.strengths import EPSILONS
from tacenda.formats.files import write_json, write_text
from tacenda.planning.predict import ABOVE, BELOW, OFF, moved

NODES, SEEDS, TRIALS = 20, (0, 1), 3
STORE = Path(__file__).with_name("forecasts.json")
PAGE = Path(__file__).parents[1] / "docs" / "results" / "measured" / "planner.md"
BEGIN = "<!-- forecasts: written by python -m benchmarks.forecasts --write -->"
END = "<!-- end of forecasts -->"
SETS: dict[str, Callable[[], Records]] = {
    "breast cancer, 569 x 30": FIRST_DAY["breast_cancer"],
    "small, 1,500 x 8": GENERATED["small, 1,500 x 8"],
    "1 % positive, 20,000 x 15": lambda: dense(20_000, 15, 0.01, 2.0, 1),
    "3 % positive, 20,000 x 30": lambda: dense(20_000, 30, 0.03, 2.0, 2),
    "heavy tails, 20,000 x 20": GENERATED["heavy tails, 20,000 x 20"],
    "hard, 10,000 x 40": GENERATED["hard, 10,000 x 40"],
    "clusters, 19,000 x 10": FIRST_DAY["19,000 x 10"],
    "regression, 17,000 x 58": FIRST_DAY["regression 17,000 x 58"],
    # These two had no part in choosing the first ranges
    "easy, 10,000 x 10": GENERATED["easy, 10,000 x 10"],
    "diabetes, 442 x 10": FIRST_DAY["diabetes"],
}
NINE = 0.9


def cell(records: Records, epsilon: float) -> dict[str, Any]:
    """Forecast, predictions, and what runs with two seeds achieved."""
    import tacenda as tc

    kind: Any = tc.PrivateRidge if records.regression else tc.PrivateLogisticRegression
    own = {"target_bounds": records.target_bounds} if records.regression else {}
    excess, accuracy = [], []
    for seed in SEEDS:
        model = kind(epsilon, bounds=records.bounds, n_nodes=NODES, random_state=seed, **own).fit(
            records.X, records.y
        )
        problem = model._arranged(records.X, records.y, nodes=None).problem
        models = model.result_.models.reshape(NODES, -1)
        best = problem.solve(1e-5)
        excess.append(float(np.mean(problem.objective(models)) - problem.objective(best)))
        if not records.regression:
            accuracy.append(float(np.mean(problem.accuracy(models))))
    plan = model.plan_
    found: dict[str, Any] = {
        "excess": excess,
        "accuracy": accuracy,
        "algorithm": plan.algorithm.name,
        "formula": plan.forecast.excess_risk,
        "open": plan.predict(trials=TRIALS).to_plain(),
    }
    if not records.regression:
        rate = float(np.mean(records.y == model.classes_[1]))
        found |= {"rate": rate, "declared": plan.predict(trials=TRIALS, prevalence=rate).to_plain()}
    return found


def run(names: list[str], epsilons: list[float]) -> None:
    """Every cell that is not in the store."""
    store = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    for epsilon in epsilons:
        for name in names:
            key = f"{name}; {epsilon:g}"
            if key in store:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                store[key] = cell(SETS[name](), epsilon)
            write_json(STORE, store)
            print(key, _row(name, epsilon, store[key]), flush=True)


def realised(found: dict[str, Any]) -> float:
    """Mean excess risk of the seeds; at least a millionth, where a run is as good as the best."""
    return max(float(np.mean(found["excess"])), 1e-6)


def told(found: dict[str, Any]) -> dict[str, Any]:
    """The prediction of a user who declares what there is to declare."""
    prediction: dict[str, Any] = found.get("declared", found["open"])
    return prediction


def _row(name: str, epsilon: float, found: dict[str, Any]) -> str:
    real = realised(found)

    def excess(of: dict[str, Any]) -> str:
        e = of["excess_risk"]
        return f"{e['mean']:.2g} ({e['low']:.2g} to {e['high']:.2g})"

    def accuracy(of: dict[str, Any]) -> str:
        a = of["accuracy"]
        return "-" if a is None else f"{a['mean']:.3f} ({a['low']:.3f} to {a['high']:.3f})"

    declared = found.get("declared")
    cells = [
        name,
        f"{epsilon:g}",
        f"{real:.2g}",
        f"{found['formula']:.2g}",
        excess(found["open"]),
        "-" if declared is None else excess(declared),
        f"{np.mean(found['accuracy']):.3f}" if found["accuracy"] else "-",
        accuracy(found["open"]),
        "-" if declared is None else accuracy(declared),
    ]
    return f"| {' | '.join(cells)} |"


def spread(ratios: Any) -> tuple[float, float]:
    """The factors between which nine in ten lie, as many below as above."""
    low, high = np.quantile(np.asarray(ratios), [(1 - NINE) / 2, (1 + NINE) / 2])
    return float(low), float(high)


def table() -> Iterator[str]:
    """The stored cells as a table in Markdown, and how often ranges hold."""
    store = json.loads(STORE.read_text("utf-8"))
    cells = [(n, e, store[k]) for n in SETS for e in EPSILONS if (k := f"{n}; {e:g}") in store]
    yield (
        "| set | epsilon | realised | formula | generated data | the same, prevalence declared | "
        "accuracy | predicted | prevalence declared |"
    )
    yield "| --- " * 9 + "|"
    for name, epsilon, found in cells:
        yield _row(name, epsilon, found)
    yield ""
    by_formula = [realised(f) / f["formula"] for _, _, f in cells]
    low, high = spread(by_formula)
    yield (
        f"Realised over the formula's forecast: nine in ten of the {len(cells)} cells lie between "
        f"{low:.2g} and {high:.2g}; median {np.median(by_formula):.2g}."
    )
    for what, key in (("nothing", "open"), ("the prevalence", "declared")):
        mine = [(f, f.get(key, f["open"])) for _, _, f in cells]
        mean = [realised(f) / p["excess_risk"]["mean"] for f, p in mine]
        low, high = spread(mean)
        within = np.mean([0.5 <= r <= 2.0 for r in mean])
        ranges = [(realised(f), p["excess_risk"]) for f, p in mine]
        held = np.mean([BELOW * e["low"] <= r <= ABOVE * e["high"] for r, e in ranges])
        kept = [
            moved(p["accuracy"]["low"], -OFF)
            <= np.mean(f["accuracy"])
            <= moved(p["accuracy"]["high"], OFF)
            for f, p in mine
            if f["accuracy"]
        ]
        yield (
            f"Realised over the mean prediction where {what} is declared: nine in ten between "
            f"{low:.2g} and {high:.2g}, {within:.0%} within a factor of two; the stated range "
            f"holds {held:.0%}, that of accuracies {np.mean(kept):.0%}."
        )


def write() -> None:
    """Replace the table of the page by what is stored."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    write_text(PAGE, f"{before}{BEGIN}\n\n" + "\n".join(table()) + f"\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--write", action="store_true", help="write the stored table, run nothing")
    given = parser.parse_args()
    if given.write:
        write()
        return
    run(given.only, given.epsilons)


if __name__ == "__main__":
    main()
