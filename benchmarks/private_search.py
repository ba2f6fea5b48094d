"""What a private search is worth on Adult: accuracy on the official test records, 20 nodes.

    python -m benchmarks.private_search --repetitions 3

untuned     the default strength, all training records, the whole budget
search      PrivateSearchCV over the same strengths, the same budget
best fixed  each strength with the whole budget and all training records, the best of them by the
            test records: without privacy, and what no search can reach
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

import tacenda as tc

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2)
EPSILONS = (0.5, 1.0, 4.0)
NODES = 20


def model(seed: int, **settings: Any) -> Any:
    """A logistic regression over the nodes; rows of Adult's public encoding have norm at most 1."""
    return tc.PrivateLogisticRegression(
        delta=1e-5, bounds="norm", classes=(0, 1), n_nodes=NODES, random_state=seed, **settings
    )


def measured(epsilon: float, seed: int, strengths: tuple[float, ...] = STRENGTHS) -> dict[str, Any]:
    """Accuracies of one repetition."""
    data = tc.data.load("adult", split="official")
    assert data.test is not None
    X, y, (tests, truth) = data.X, data.y, data.test
    fixed = {
        s: float(model(seed, epsilon=epsilon, strength=s).fit(X, y).score(tests, truth))
        for s in strengths
    }
    search = tc.PrivateSearchCV(
        model(seed), {"strength": list(strengths)}, epsilon=epsilon, delta=1e-5, random_state=seed
    ).fit(X, y)
    return {
        "epsilon": epsilon,
        "seed": seed,
        "untuned": fixed[1e-4],
        "search": float(search.score(tests, truth)),
        "chosen": search.best_params_["strength"],
        "spent": search.privacy_.epsilon,
        "best fixed": max(fixed.values()),
        "best strength": max(fixed, key=lambda s: fixed[s]),
        "fixed": fixed,
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--repetitions", type=int, default=3)
    asked = reader.parse_args()
    warnings.simplefilter("ignore")
    for epsilon in EPSILONS:
        rows = []
        for seed in range(asked.repetitions):
            rows.append(measured(epsilon, seed))
            print(json.dumps(rows[-1]), flush=True)
        means = {k: np.mean([r[k] for r in rows]) for k in ("untuned", "search", "best fixed")}
        print(f"epsilon {epsilon:g}:", ", ".join(f"{k} {v:.4f}" for k, v in means.items()))


if __name__ == "__main__":
    main()
