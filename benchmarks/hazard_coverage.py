"""Coverage and type-I error of private hazard ratios on drawn records with known effects.

    python -m benchmarks.hazard_coverage [--repeat 50]

Two populations: "trial" has four effects in eight periods, censored at random; in "late" most
records have the event, and cumulative hazards go up to 4. The third effect of "late" is none.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np

import tacenda as tc

TRIAL = np.array([0.03, -0.5, 0.4, 0.8])
LATE = np.array([0.8, -0.4, 0.0])


def trial(n: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Records with the effects TRIAL, and their schema."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(60, 12, n), 20, 90)
    arm, grade = rng.integers(0, 2, n), rng.choice(3, n, p=[0.3, 0.45, 0.25])
    score = 0.03 * (age - 60) - 0.5 * arm + 0.4 * (grade == 1) + 0.8 * (grade == 2)
    time, last = 12 * rng.weibull(1.2, n) * np.exp(-score / 1.2), rng.uniform(2, 10, n)
    schema = tc.data.Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 20, "high": 90},
            {"kind": "categorical", "name": "arm", "levels": ["0", "1"]},
            {"kind": "categorical", "name": "grade", "levels": ["0", "1", "2"]},
        ],
        label={"name": "e", "classes": ["0", "1"]},
        survival={"time": "t", "event": "e", "points": list(range(1, 9))},
    )
    seen = np.where(time <= last, "1", "0")
    table = {"age": age, "arm": arm.astype(str), "grade": grade.astype(str), "e": seen}
    return schema, {**table, "t": np.minimum(time, last)}


def late(n: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Records with the effects LATE, and their schema."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    time = rng.exponential(3 * np.exp(-X @ LATE))
    schema = tc.data.Schema.build(
        columns=[{"kind": "numeric", "name": f"x{k}", "low": -1, "high": 1} for k in range(3)],
        label={"name": "e", "classes": ["0", "1"]},
        survival={"time": "t", "event": "e", "points": [1, 2, 3, 4]},
    )
    table = {f"x{k}": X[:, k] for k in range(3)}
    return schema, {**table, "t": np.minimum(time, 4), "e": np.where(time < 4, "1", "0")}


def main() -> None:
    """Print one line of JSON for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=50)
    repeat = parser.parse_args().repeat
    warnings.simplefilter("ignore")
    for draw, truth, n, epsilon in (
        (trial, TRIAL, 5000, 4.0),
        (trial, TRIAL, 20_000, 1.0),
        (trial, TRIAL, 20_000, 2.0),
        (late, LATE, 20_000, 2.0),
    ):
        held, errors, false, hidden = [], [], 0, 0
        for seed in range(repeat):
            schema, table = draw(n, seed)
            found = tc.hazard_ratios(schema, table, tc.Privacy(epsilon), nodes=4, seed=seed)
            effects = found.effects
            if not all(e.known for e in effects):
                hidden += 1
                continue
            held.append(
                [np.log(e.low) <= b <= np.log(e.high) for e, b in zip(effects, truth, strict=True)]
            )
            errors.append(found.coefficients - truth)
            false += draw is late and effects[2].p_value < 0.05
        print(
            json.dumps(
                {
                    "records": draw.__name__,
                    "n": n,
                    "epsilon": epsilon,
                    "repeat": repeat,
                    "hidden": hidden,
                    "held": np.mean(held, axis=0).round(3).tolist(),
                    "bias": np.mean(errors, axis=0).round(4).tolist(),
                    "error": np.std(errors, axis=0).round(4).tolist(),
                    "false": false / max(len(held), 1) if draw is late else None,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
