"""`strength="auto"` beside fixed strengths: `python -m benchmarks.strengths [--only NAME ...]`; the
table of results/measured/auto.md.

Test log loss (R2 of regressions) on a quarter of the records, over eight generated sets and those
of `benchmarks.first_day`, at four budgets and several seeds. Every finished cell is stored, so an
interrupted table goes on.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.first_day import SETS as FIRST_DAY
from benchmarks.first_day import Records
from benchmarks.generated import GENERATED
from tacenda.formats.files import write_json

EPSILONS = (0.1, 0.5, 1.0, 4.0)
SEEDS = (0, 1, 2)
STRENGTHS: tuple[float | str, ...] = ("auto", 1e-4)
NODES = 20
STORE = Path(__file__).with_name("strengths.json")


SETS = {**GENERATED, **FIRST_DAY}


def score(records: Records, nodes: int, strength: Any, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit: log loss and AUC, or R2; and the strength."""
    import tacenda as tc

    train, test, y_train, y_test = train_test_split(
        records.X, records.y, test_size=0.25, random_state=0
    )
    kind: Any = tc.PrivateRidge if records.regression else tc.PrivateLogisticRegression
    own = {"target_bounds": records.target_bounds} if records.regression else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(
            epsilon,
            strength=strength,
            bounds=records.bounds,
            n_nodes=nodes,
            random_state=seed,
            **own,
        ).fit(train, y_train)
        found = {"strength": float(model.strength_)}
        if records.regression:
            return {**found, "r2": float(r2_score(y_test, model.predict(test)))}
        p = np.clip(model.predict_proba(test), 1e-6, 1.0)
        p /= p.sum(axis=1, keepdims=True)
    found["accuracy"] = float(np.mean(model.predict(test) == y_test))
    found["log_loss"] = float(log_loss(y_test, p, labels=model.classes_))
    if p.shape[1] == 2:
        found["auc"] = float(roc_auc_score(y_test, p[:, 1]))
    return found


def run(
    names: list[str], nodes: int, strengths: tuple[Any, ...], epsilons: tuple[float, ...]
) -> None:
    """Every cell that is not in the store."""
    store = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    for name in names:
        records: Records | None = None
        for epsilon in epsilons:
            for strength in strengths:
                for seed in SEEDS:
                    key = f"{name}; {nodes} nodes; {epsilon:g}; {strength}; {seed}"
                    if key in store:
                        continue
                    records = SETS[name]() if records is None else records
                    store[key] = score(records, nodes, strength, epsilon, seed)
                    write_json(STORE, store)
                print(*row(store, name, nodes, epsilon, strength), flush=True)


def row(store: Any, name: str, nodes: int, epsilon: float, strength: Any) -> tuple[str, ...]:
    """Name, budget, strength, then mean and standard error over the seeds."""
    cells = [
        store[key]
        for seed in SEEDS
        if (key := f"{name}; {nodes} nodes; {epsilon:g}; {strength}; {seed}") in store
    ]
    what = "r2" if "r2" in cells[0] else "log_loss"
    values = np.array([cell[what] for cell in cells])
    chosen = sorted({f"{cell['strength']:.0e}" for cell in cells})
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return (
        name,
        f"{epsilon:g}",
        str(strength),
        what,
        f"{values.mean():.4f}",
        f"{error:.4f}",
        *chosen,
    )


def table() -> Iterator[str]:
    """The stored cells as a table in Markdown: auto, then 1e-4, at each budget."""
    store = json.loads(STORE.read_text("utf-8"))
    head = " | ".join(f"epsilon {e:g}: auto (strength), 1e-4" for e in EPSILONS)
    yield f"| set | {head} |"
    yield "| --- " * (1 + len(EPSILONS)) + "|"
    for name in SETS:
        if f"{name}; {NODES} nodes; {EPSILONS[-1]:g}; 0.0001; {SEEDS[-1]}" not in store:
            continue
        cells = []
        for epsilon in EPSILONS:
            auto = row(store, name, NODES, epsilon, "auto")
            fixed = row(store, name, NODES, epsilon, 1e-4)
            cells.append(f"{auto[4]} ({', '.join(auto[6:])}), {fixed[4]} ± {fixed[5]}")
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--strengths", nargs="*", default=list(STRENGTHS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--table", action="store_true", help="print what is stored, run nothing")
    given = parser.parse_args()
    if given.table:
        print(*table(), sep="\n")
        return
    strengths = tuple("auto" if s == "auto" else float(s) for s in given.strengths)
    run(given.only, given.nodes, strengths, tuple(given.epsilons))


if __name__ == "__main__":
    main()
