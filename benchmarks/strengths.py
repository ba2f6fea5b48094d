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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.first_day import SETS as FIRST_DAY
from benchmarks.first_day import Records
from tacenda.formats.files import write_json

EPSILONS = (0.1, 0.5, 1.0, 4.0)
SEEDS = (0, 1, 2)
STRENGTHS: tuple[float | str, ...] = ("auto", 1e-4)
NODES = 20
STORE = Path(__file__).with_name("strengths.json")


def _labels(rng: Any, score: Any, rare: float, slope: float = 2.0) -> Any:
    """0/1 labels of a logistic model in the score, of which a share `rare` is 1."""
    z = slope * (score - score.mean()) / score.std()
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _rate(z + middle) < rare else (low, middle)
    return (rng.random(len(z)) < 1 / (1 + np.exp(-(z + low)))).astype(int)


def _rate(z: Any) -> float:
    return float(np.mean(1 / (1 + np.exp(-z))))


def dense(n: int, d: int, rare: float, slope: float, seed: int) -> Records:
    """Normal rows with uneven columns; all weights alike in size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 1.0, d)
    return Records(X, _labels(rng, X @ rng.normal(size=d), rare, slope), (-3.0, 3.0))


def heavy_tails(n: int = 20_000, d: int = 20, seed: int = 3) -> Records:
    """Student's t with 2.5 degrees of freedom, in bounds that hold nearly all."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.5, size=(n, d))
    return Records(X, _labels(rng, np.tanh(X) @ rng.normal(size=d), 0.4), (-6.0, 6.0))


def correlated(n: int = 30_000, d: int = 300, seed: int = 4) -> Records:
    """Many columns that ten factors share, with a little of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10)) @ rng.normal(size=(10, d)) / np.sqrt(10)
    X += 0.3 * rng.normal(size=(n, d))
    return Records(X, _labels(rng, X @ rng.normal(size=d), 0.5), (-3.0, 3.0))


def sparse(n: int = 40_000, d: int = 200, seed: int = 5) -> Records:
    """0/1 features, frequent ones first; 3 % positive, by the rarer features too."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < np.minimum(0.4, 3.0 / np.arange(1, d + 1))).astype(float)
    return Records(X, _labels(rng, X @ rng.normal(size=d), 0.03), (0.0, 1.0))


def flagged(n: int = 40_000, seed: int = 21) -> Records:
    """2 % positive, and more than half of the records with a rare flag."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    flags = (rng.random((n, 3)) < np.array([0.01, 0.03, 0.2])).astype(float)
    z = X[:, :6] @ np.array([0.6, -0.5, 0.4, 0.3, -0.2, 0.2]) + flags @ np.array([5.5, 3.0, 1.0])
    y = (rng.random(n) < 1 / (1 + np.exp(5.5 - z))).astype(int)
    ends = np.r_[np.full(12, 3.0), np.ones(3)]
    return Records(np.hstack([X, flags]), y, (np.r_[np.full(12, -3.0), np.zeros(3)], ends))


def levels(n: int = 30_000, seed: int = 22) -> Records:
    """10 % positive, by a category of 40 levels, some of them rare, of very different rates."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 41)
    level = rng.choice(40, size=n, p=share / share.sum())
    effect, X = 2 * rng.normal(size=40), rng.normal(size=(n, 5))
    z = effect[level] + X @ np.array([0.5, 0.4, -0.3, 0.2, 0.0])
    y = (rng.random(n) < 1 / (1 + np.exp(3.2 - z))).astype(int)
    ends = np.r_[np.full(5, 3.0), np.ones(40)]
    both = np.hstack([X, np.eye(40)[level]])
    return Records(both, y, (np.r_[np.full(5, -3.0), np.zeros(40)], ends))


GENERATED: dict[str, Callable[[], Records]] = {
    "1 % positive, 40,000 x 15": lambda: dense(40_000, 15, 0.01, 2.0, 1),
    "3 % positive, 30,000 x 30": lambda: dense(30_000, 30, 0.03, 2.0, 2),
    "heavy tails, 20,000 x 20": heavy_tails,
    "correlated, 30,000 x 300": correlated,
    "correlated, 30,000 x 500": lambda: correlated(30_000, 500, 14),
    "sparse, 3 %, 40,000 x 200": sparse,
    "rare flag, 40,000 x 15": flagged,
    "40 levels, 30,000 x 45": levels,
    "small, 1,500 x 8": lambda: dense(1_500, 8, 0.4, 2.0, 6),
    "easy, 10,000 x 10": lambda: dense(10_000, 10, 0.5, 6.0, 7),
    "hard, 10,000 x 40": lambda: dense(10_000, 40, 0.5, 0.6, 8),
}
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
