"""R2 of `PrivateRidge` on generated regressions and the diabetes set: `python -m
benchmarks.regressions [algorithm]`; the figures of results/measured/regression.md."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from tacenda.estimators import PrivateRidge

Records = tuple[Any, Any, Any, Any]  # rows, targets, bounds, target bounds
EPSILONS = (0.1, 0.5, 1.0, 2.0)
SEEDS = 3


def gaussian(n: int, d: int, decay: float, explained: float, seed: int, skew: float = 0) -> Records:
    """Rotated Gaussian rows whose variances fall like k^-decay; bounds at three deviations."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** (-decay / 2)
    x = x @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    score = x @ rng.normal(size=d)
    y = np.sqrt(explained) * score / score.std()
    y = y + np.sqrt(1 - explained) * rng.normal(size=n)
    y = np.exp(skew * y) if skew else y
    reach = 3 * x.std(axis=0)
    return x, y, (-reach, reach), tuple(np.quantile(y, [0.0005, 0.9995]))


def rentals(n: int = 17_379, seed: int = 0) -> Records:
    """Hourly counts with daily peaks: one-hot hour, month, weekday and weather, few numbers."""
    rng = np.random.default_rng(seed)
    hour, month, day = (rng.integers(0, k, n) for k in (24, 12, 7))
    weather = rng.choice(4, size=n, p=[0.66, 0.26, 0.079, 0.001])
    year, work = rng.integers(0, 2, n), (day > 0) & (day < 6)
    warm = 0.5 + 0.25 * np.sin(2 * np.pi * (month - 3) / 12)
    warm = warm + 0.08 * np.sin(2 * np.pi * (hour - 9) / 24) + 0.08 * rng.normal(size=n)
    warm = np.clip(warm, 0, 1)
    damp, wind = np.clip(0.63 + 0.19 * rng.normal(size=n), 0, 1), rng.gamma(2.3, 0.083, n)
    rush = 1.6 * np.exp(-(((hour - 8) / 1.3) ** 2)) + 2.2 * np.exp(-(((hour - 17.5) / 1.8) ** 2))
    peak = np.where(work, rush, 1.7 * np.exp(-(((hour - 14) / 4) ** 2)))
    level = (peak + np.exp(-(((hour - 14) / 6) ** 2)) + 0.1) * (0.3 + 1.2 * warm) * (1 + 0.5 * year)
    level = level * (1 - 0.45 * (weather >= 2)) * (1 - 0.35 * (damp - 0.6))
    y = np.minimum(977, 80 * level * np.exp(0.3 * rng.normal(size=n)))
    groups = [np.eye(k)[c] for c, k in ((hour, 24), (month, 12), (day, 7), (weather, 4))]
    x = np.column_stack(
        [*groups, np.eye(4)[month // 3], year, work, warm, damp, np.minimum(wind, 1)]
    )
    return x, y, (0.0, 1.0), (0.0, 1000.0)


def diabetes() -> Records:
    x, y = load_diabetes(return_X_y=True)
    return x, y, (-0.2, 0.2), (0.0, 350.0)


SETS: dict[str, Callable[[], Records]] = {
    "17,000 x 60, variances 1/k": lambda: gaussian(17_000, 60, 1.0, 0.67, 1),
    "2,000 x 10, variances 1/k": lambda: gaussian(2_000, 10, 1.0, 0.7, 2),
    "50,000 x 20, variances k^-1.5": lambda: gaussian(50_000, 20, 1.5, 0.6, 3),
    "20,000 x 30, skewed target": lambda: gaussian(20_000, 30, 1.0, 0.8, 5, 0.7),
    "10,000 x 40, variances alike": lambda: gaussian(10_000, 40, 0.0, 0.5, 6),
    "17,379 x 56, one-hot rentals": rentals,
    "442 x 10, diabetes": diabetes,
}


def main(algorithm: str = "auto") -> None:
    """One row for each set: without noise, then mean R2 for each epsilon, and bytes sent."""
    warnings.simplefilter("ignore")
    for name, make in SETS.items():
        x, y, bounds, target_bounds = make()
        cells = [f"{LinearRegression().fit(x, y).score(x, y):.3f}"]
        for epsilon in EPSILONS:
            fits = [
                PrivateRidge(
                    epsilon,
                    bounds=bounds,
                    target_bounds=target_bounds,
                    n_nodes=10,
                    random_state=seed,
                    algorithm=algorithm,
                ).fit(x, y)
                for seed in range(SEEDS)
            ]
            cells.append(f"{np.mean([fit.score(x, y) for fit in fits]):.3f}")
        cells += [str(fits[0].n_iter_), f"{fits[0].result_.bytes / 1e6:.2f} MB"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
