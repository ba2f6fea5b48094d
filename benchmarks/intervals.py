"""How often intervals of coefficients hold the truth: the table of results/measured/intervals.md.

    python -m benchmarks.intervals                     # all cells, 500 repetitions: about an hour
    python -m benchmarks.intervals --only logistic --repetitions 100
    python -m benchmarks.intervals --only whole        # real training and real questions
    python -m benchmarks.intervals --only collinear    # a column that nearly follows from others
    python -m benchmarks.intervals --only alike        # size and power of the test between nodes
    python -m benchmarks.intervals --only null --repetitions 2000    # type-I error, 50,000 records
    python -m benchmarks.intervals --only scale        # residuals far smaller than is declared

Most cells draw records, compute the sums that nodes would release, add noise of the size that a
real run of the same budget has (asked of one), and make intervals with the library's own functions.
The cells called "whole" run everything, training too. Each line is a row of JSON, written to --out
as it is found.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import tacenda as tc
from tacenda.algorithms.moments import MomentRegression
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.inference import from_released, heterogeneity, intervals
from tacenda.inference.statistics import FULL, NONE, GradientMoments
from tacenda.questions.moments import packed, packed_length
from tacenda.runtime.history import History
from tacenda.runtime.result import RunResult

EPSILONS, LEVELS, NODES = (0.5, 1.0, 4.0), (0.9, 0.95), (1, 20)
KINDS = (
    "linear",
    "logistic",
    "cut",
    "wrong",
    "strength",
    "collinear",
    "alike",
    "whole",
    "null",
    "scale",
)
RECORDS = (2000, 20_000, 100_000)
DELTA, SCALE = 1e-5, 0.7
START = 0.5  # the share of the budget (mu^2) that the released model had, and the question too


def network(nodes: int) -> Any:
    return tc.graph.random_regular(nodes, 4, seed=0) if nodes > 1 else tc.graph.complete(1)


def rows(rng: Any, n: int, d: int) -> Any:
    """Normal records within norm 1; the last feature is a constant."""
    X = rng.normal(size=(n, d)) * (0.7 / math.sqrt(d))
    X[:, -1] = 0.5
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


def truth(kind: str, d: int, cut: bool = False) -> Any:
    w = np.linspace(-1.0, 1.0, d)
    return 2.0 * w if kind == "logistic" else (0.6 if cut else 0.35) * w / math.sqrt(d / 5)


def labels(rng: Any, kind: str, X: Any, w: Any, wrong: bool, cut: bool = False) -> Any:
    """wrong: a bent score, and for a regression noise that grows with it. cut: values that reach
    beyond the label's bound 1, 0.9 % of them with 5 features, and are cut to it; else they stay
    within it."""
    s = X @ w
    if kind == "linear" and not wrong and not cut:
        return s + rng.uniform(-0.45, 0.45, size=len(s))
    if wrong:
        s = s + (1.5 if kind == "logistic" else 0.5) * (X[:, 0] ** 2 - 0.1) + X[:, 0] * X[:, 1]
    if kind == "logistic":
        return np.where(rng.random(len(s)) < expit(s), 1.0, -1.0)
    std = 0.1 * (1 + 4 * np.abs(X[:, 0])) if wrong else 0.2
    return np.clip(s + std * rng.normal(size=len(s)), -1.0, 1.0)


def best(kind: str, X: Any, y: Any, strength: float = 0.0, w: Any = None) -> Any:
    """The minimiser of the mean loss, by Newton steps from w."""
    n, d = X.shape
    ridge = strength * np.eye(d)
    if kind == "linear":
        return np.linalg.solve(X.T @ X / n + ridge, X.T @ y / n)
    w = np.zeros(d) if w is None else w.copy()
    for _ in range(12):
        p = expit(X @ w)
        step = np.linalg.solve(
            (X * (p * (1 - p))[:, None]).T @ X / n + ridge, X.T @ (p - (y > 0)) / n + strength * w
        )
        w -= step
        if np.abs(step).max() < 1e-9:
            break
    return w


def population(kind: str, d: int, wrong: bool) -> Any:
    """What is estimated where the model is wrong: the score that fits best."""
    rng, w = np.random.default_rng(12345), truth(kind, d, wrong)
    found = []
    for _ in range(10):
        X = rows(rng, 400_000, d)
        found.append(best(kind, X, labels(rng, kind, X, w, True), w=w))
    return np.mean(found, axis=0)


def blank(kind: str, n: int, d: int, nodes: int) -> tc.Problem:
    shards = [(np.zeros((n // nodes, d)), np.zeros(n // nodes)) for _ in range(nodes)]
    if kind == "linear":
        return tc.Problem(shards, loss="squared", data_norm=1.0, clip_norm=1.0)
    shards = [(X, y.astype(int)) for X, y in shards]
    return tc.Problem(shards, loss="logistic", classes=(0, 1), data_norm=1.0)


def half(epsilon: float) -> float:
    """The epsilon of a Gaussian release with half the mu^2 of one with epsilon."""
    from scipy.optimize import brentq

    return float(brentq(lambda e: mu_of(e) - math.sqrt(START) * mu_of(epsilon), 0.01, epsilon))


def mu_of(epsilon: float) -> float:
    """mu of the Gaussian mechanism with (epsilon, DELTA) (Balle and Wang 2018)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def over(mu: float) -> float:
        return float(
            norm.cdf(mu / 2 - epsilon / mu)
            - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            - DELTA
        )

    return float(brentq(over, 1e-6, 50.0))


def asked_sums(asked: GradientMoments, X: Any, y: Any, w: Any) -> Any:
    """The network's sum of a logistic problem, without noise; a test compares it with a run's."""
    s = X @ w
    p = expit(s)
    slopes = -y * expit(-y * s)
    blocks = {
        "curvature": packed((X * (p * (1 - p))[:, None]).T @ X),
        "gradient": X.T @ slopes,
        "spread": packed((X * (slopes**2)[:, None]).T @ X),
    }
    return np.concatenate([blocks[name] / unit for name, unit in asked.units.items()])


def told(run: RunResult, n: int, nodes: int, model: Any, released: dict[str, Any]) -> RunResult:
    """The same run with other records."""
    about = {**run.settings["problem"], "sizes": [n // nodes] * nodes}
    models = np.asarray(model, float)[None]
    return RunResult(
        models,
        models,
        History([]),
        run.privacy,
        {**run.settings, "problem": about},
        released={**run.released, **released},
    )


class Tally:
    """Counts of intervals that hold the truth."""

    def __init__(self) -> None:
        self.hits = dict.fromkeys(LEVELS, 0)
        self.shown = self.all = self.met = self.runs = 0
        self.widths: list[float] = []
        self.noise: list[float] = []

    def add(self, found: Any, w: Any) -> None:
        for level in LEVELS:
            low, high = found.interval(level)
            self.hits[level] += int(np.sum((low <= w) & (w <= high)))
        self.shown += int(found.shown.sum())
        self.all += len(w)
        self.met += not found.failed
        self.runs += 1
        if found.shown.any():
            self.widths.append(float(np.nanmedian(found.standard_error)))
            self.noise.append(float(np.nanmedian(found.noise_error / found.standard_error) ** 2))

    def row(self) -> dict[str, Any]:
        return {
            **{
                f"covered_{level:g}": hits / max(self.shown, 1) for level, hits in self.hits.items()
            },
            "shown": self.shown / self.all,
            "conditions_met": self.met / self.runs,
            "standard_error": float(np.median(self.widths)) if self.widths else None,
            "noise_share": float(np.median(self.noise)) if self.noise else None,
            "repetitions": self.runs,
        }


def cell(
    kind: str,
    n: int,
    d: int,
    repetitions: int,
    *,
    wrong: bool = False,
    covariance: str = "robust",
    strength: float = 1e-5,
    cut: bool = False,
) -> Iterator[dict[str, Any]]:
    """All epsilons and node counts on the same records."""
    rng, base = np.random.default_rng([n, d, wrong]), truth(kind, d, cut or wrong)
    w = population(kind, d, wrong) if wrong else base
    asked = GradientMoments(d, "logistic", spread=FULL if covariance == "robust" else NONE)
    release = MomentRegression(label_scale=SCALE) if kind == "linear" else StatisticRelease(asked)
    runs, tallies, pulls = {}, {}, {}
    for epsilon in EPSILONS:
        budget = epsilon if kind == "linear" else half(epsilon)
        for nodes in NODES:
            runs[epsilon, nodes] = tc.simulate(
                blank(kind, n, d, nodes),
                network(nodes),
                release,
                1,
                tc.Privacy(budget, DELTA),
                0,
                metrics=(),
                progress=False,
            )
            tallies[epsilon, nodes] = Tally()
        pulls[epsilon] = 2 / (n * math.sqrt(START) * mu_of(epsilon))
    for _ in range(repetitions):
        X = rows(rng, n, d)
        y = labels(rng, kind, X, base, wrong, cut)
        exact = best(kind, X, y, strength, w)
        if kind == "linear":
            Z = np.column_stack([X, SCALE * y])
            moment = packed(Z.T @ Z / n)
        else:
            p = expit(X @ exact)
            bent = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X / n + strength * np.eye(d))
        for (epsilon, nodes), run in runs.items():
            std = float(run.released["noise"][0])
            if kind == "linear":
                noisy = moment + std * rng.normal(size=packed_length(d + 1))
                found = intervals(told(run, n, nodes, exact, {"moment": noisy}))
            else:
                # What training with the other half leaves at best: noise on the gradient, which
                # the regulariser tames where the loss is flat
                model = exact + bent @ (pulls[epsilon] * rng.normal(size=d))
                sums = asked_sums(asked, X, y, model)
                noisy = sums + std * rng.normal(size=len(sums))
                found = from_released(asked, told(run, n, nodes, model, {"total": noisy}))
            tallies[epsilon, nodes].add(found, w)
    for (epsilon, nodes), tally in tallies.items():
        yield {
            "model": kind,
            "wrong": wrong,
            "cut": cut,
            "covariance": "model" if kind == "linear" else covariance,
            "strength": strength,
            "features": d,
            "records": n,
            "epsilon": epsilon,
            "nodes": nodes,
            **tally.row(),
        }


def whole(n: int, d: int, epsilon: float, repetitions: int) -> dict[str, Any]:
    """Training by TreeGD on whitened records and the question, both real, over 20 nodes."""
    rng, w, tally = np.random.default_rng(7), truth("logistic", d), Tally()
    privacy = tc.Privacy(half(epsilon), DELTA)
    for k in range(repetitions):
        X = rows(rng, n, d)
        y = (labels(rng, "logistic", X, w, False) > 0).astype(int)
        shards = tc.data.partition.even(X, y, 20, seed=0)
        problem = tc.Problem(shards, loss="logistic", classes=(0, 1), data_norm=1.0, strength=1e-4)
        run = tc.simulate(
            problem,
            network(20),
            "treegd",
            12,
            privacy,
            2 * k,
            prepare="whitening",
            metrics=(),
            progress=False,
        )
        tally.add(intervals(run, problem, network(20), privacy=privacy, seed=2 * k + 1), w)
    about = {"model": "logistic, whole", "features": d, "records": n, "epsilon": epsilon}
    return {**about, "nodes": 20, **tally.row()}


def null(n: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """How often p < 0.05 for a coefficient that is 0, beside a skewed column and a flag, in
    logistic regression over five nodes."""
    asked, d = GradientMoments(5, "logistic"), 5
    most = np.array([3.0, 8.0, 3.0, 1.0, 1.0])
    norm = np.linalg.norm(most)
    w = np.array([0.6, 0.3, 0.0, -0.5, -1.5]) * norm
    problem, z = blank("logistic", n, d, 5), dict[float, list[float]]()
    runs = {
        epsilon: tc.simulate(
            problem,
            tc.graph.complete(5),
            StatisticRelease(asked),
            1,
            tc.Privacy(half(epsilon), DELTA),
            0,
            metrics=(),
            progress=False,
        )
        for epsilon in (1.0, 4.0)
    }
    for k in range(repetitions):
        rng = np.random.default_rng([5, k])
        columns = [rng.normal(size=n), rng.gamma(2.0, size=n), rng.normal(size=n)]
        X = np.column_stack([*columns, rng.random(n) < 0.2, np.ones(n)])
        X = np.clip(X, -3.0, most) / norm
        y = np.where(rng.random(n) < expit(X @ w), 1.0, -1.0)
        exact = best("logistic", X, y, 1e-6, w)
        p = expit(X @ exact)
        bent = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X / n + 1e-5 * np.eye(d))
        for epsilon, run in runs.items():
            std = float(run.released["noise"][0])
            model = exact + bent @ (
                2 / (n * math.sqrt(START) * mu_of(epsilon)) * rng.normal(size=d)
            )
            sums = asked_sums(asked, X, y, model)
            noisy = sums + std * rng.normal(size=len(sums))
            found = from_released(asked, told(run, n, 5, model, {"total": noisy}))
            if found.shown[2] and not found.failed:
                z.setdefault(epsilon, []).append(found.p_values()[2])
    for epsilon, tests in z.items():
        rate = float(np.mean(np.array(tests) < 0.05))
        yield {
            "model": "null",
            "records": n,
            "epsilon": epsilon,
            "repetitions": repetitions,
            "tests": len(tests),
            "rejected_0.05": rate,
            "error": math.sqrt(rate * (1 - rate) / len(tests)),
        }


ERRORS = ("normal", "skewed", "skewed, uneven", "counts")


def scale(errors: str, n: int, epsilon: float, repetitions: int) -> dict[str, Any]:
    """Real training and questions by estimators, where residuals (or counts) are far smaller than
    declared: coverage, and widths over those without privacy. Residuals have a standard deviation
    of .15 in labels from -1 to 1; counts a mean near 1.5 and a bound of 20."""
    import statsmodels.api as sm

    from tacenda.estimators import PrivatePoissonRegressor, PrivateRidge

    d, hits, ratios, counted = 5, [], [], errors == "counts"
    w = np.linspace(-0.6, 0.6, d) * (1.0 if counted else 0.5)
    for k in range(repetitions):
        rng = np.random.default_rng([9, n, k])
        X = rng.uniform(-1, 1, size=(n, d))
        how: dict[str, Any] = {"epsilon": half(epsilon), "delta": DELTA, "n_nodes": 5}
        how |= {"bounds": (-np.ones(d), np.ones(d)), "random_state": k}
        if counted:
            y = rng.poisson(np.exp(0.3 + X @ w)).clip(0, 20)
            model: Any = PrivatePoissonRegressor(count_bound=20, **how)
            family = sm.families.Poisson()
        else:
            e = rng.normal(size=n) if errors == "normal" else rng.exponential(size=n) - 1
            e = 0.15 * e * (1 + 0.9 * X[:, 0] if "uneven" in errors else 1)
            y = np.clip(X @ w + e, -1.0, 1.0)
            model = PrivateRidge(target_bounds=(-1.0, 1.0), **how)
            family = sm.families.Gaussian()
        table = model.fit(X, y).intervals(X, y, epsilon=half(epsilon), delta=DELTA, anyway=True)
        plain = sm.GLM(y, sm.add_constant(X), family=family).fit(cov_type="HC0").bse[1:]
        rows = {r.feature: r for r in table}
        for j in range(d):
            row = rows[f"x{j}"]
            if row.low is not None and math.isfinite(row.low):
                hits.append(row.low <= w[j] <= row.high)
                ratios.append((row.high - row.low) / 2 / 1.959964 / plain[j])
    return {
        "model": "scale",
        "errors": errors,
        "records": n,
        "epsilon": epsilon,
        "repetitions": repetitions,
        "shown": len(hits) / repetitions / d,
        "covered_0.95": float(np.mean(hits)),
        "width": float(np.median(ratios)),
    }


def collinear_records(rng: Any, n: int, share: float, effect: float) -> tuple[Any, Any, Any]:
    """Records, labels and true coefficients of logistic regression on seven columns: a and b, three
    independent ones, c = (share a + b) / (share + 1) within 0.003, and a constant. What c has of
    its own moves the log odds by a standard deviation of `effect`."""
    own = rng.normal(size=n)
    X = rng.uniform(size=(n, 7))
    X[:, 5] = 0.005 + 0.99 * (share * X[:, 0] + X[:, 1]) / (share + 1)
    X[:, 5] += 0.001 * np.clip(own, -3, 3)
    X[:, 6] = 1.0
    w = np.array([1.0, -1.5, 1.0, 1.0, 1.0, 0.5, -1.0])
    w += effect * np.array([-990 * share / (share + 1), -990 / (share + 1), 0, 0, 0, 1000, -5])
    X, w = X / math.sqrt(7), w * math.sqrt(7)
    return X, np.where(rng.random(n) < expit(X @ w), 1.0, -1.0), w


def collinear(
    n: int, epsilon: float, repetitions: int, share: float = 0.03, effect: float = 0.05
) -> dict[str, Any]:
    """Coverage by column where one nearly follows from two others, on one node."""
    rng, asked, d = np.random.default_rng([n, int(10 * epsilon)]), GradientMoments(7, "logistic"), 7
    run = tc.simulate(
        blank("logistic", n, d, 1),
        network(1),
        StatisticRelease(asked),
        1,
        tc.Privacy(half(epsilon), DELTA),
        0,
        metrics=(),
        progress=False,
    )
    std, pull = float(run.released["noise"][0]), 2 / (n * math.sqrt(START) * mu_of(epsilon))
    shown, held = np.zeros(d), np.zeros(d)
    for _ in range(repetitions):
        X, y, w = collinear_records(rng, n, share, effect)
        near = best("logistic", X, y, 1e-5 * d)
        p = expit(X @ near)
        bent = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X / n + 1e-5 * d * np.eye(d))
        near = near + bent @ (pull * rng.normal(size=d))
        sums = asked_sums(asked, X, y, near)
        noisy = sums + std * rng.normal(size=len(sums))
        low, high = from_released(asked, told(run, n, 1, near, {"total": noisy})).interval()
        shown += ~np.isnan(low)
        held += (low <= w) & (w <= high)
    return {
        "model": "collinear",
        "records": n,
        "epsilon": epsilon,
        "repetitions": repetitions,
        "true": [round(float(value) / math.sqrt(7), 3) for value in w],
        "shown": (shown / repetitions).round(3).tolist(),
        "covered": [
            round(float(h / s), 3) if s else None for h, s in zip(held, shown, strict=True)
        ],
    }


def alike(
    n: int, d: int, epsilon: float, shift: float, repetitions: int, nodes: int = 20
) -> dict[str, Any]:
    """How often the test finds a difference at level 0.05; shift: of half of the nodes' first
    coefficient."""
    rng, w = np.random.default_rng(8), truth("logistic", d)
    found = []
    for k in range(repetitions):
        shards, start = [], None
        for i in range(nodes):
            X = rows(rng, n // nodes, d)
            own = w + shift * (np.arange(d) == 0) * (1 if i % 2 else -1)
            shards.append((X, (labels(rng, "logistic", X, own, False) > 0).astype(int)))
        problem = tc.Problem(shards, loss="logistic", classes=(0, 1), data_norm=1.0)
        start = at_model(w)
        got = heterogeneity(
            start, problem, network(nodes), privacy=tc.Privacy(epsilon, DELTA), seed=k
        )
        found.append(got.p_value)
    p = np.array(found, float)
    return {
        "model": "alike",
        "features": d,
        "records": n,
        "nodes": nodes,
        "epsilon": epsilon,
        "shift": shift,
        "rejected_0.05": float(np.mean(p < 0.05)),
        "rejected_0.1": float(np.mean(p < 0.1)),
        "repetitions": repetitions,
    }


def at_model(w: Any) -> RunResult:
    """A run that released w."""
    models = np.asarray(w, float)[None]
    settings = {"algorithm": {"name": "treegd"}, "rounds": 1, "problem": {"n_features": len(w)}}
    return RunResult(models, models, History([]), None, settings)


def jobs(repetitions: int, records: Sequence[int]) -> Iterator[tuple[str, Any]]:
    for n in records:
        for d in (5, 20):
            for kind in ("linear", "logistic"):
                yield kind, lambda a=kind, b=n, c=d: cell(a, b, c, repetitions)
        yield "cut", lambda b=n: cell("linear", b, 5, repetitions, cut=True)
        if n == 20_000:
            yield "wrong", lambda: cell("linear", 20_000, 5, repetitions, wrong=True)
            for covariance in ("robust", "model"):
                yield (
                    "wrong",
                    lambda v=covariance: cell(
                        "logistic", 20_000, 5, repetitions, wrong=True, covariance=v
                    ),
                )
            yield "strength", lambda: cell("logistic", 20_000, 5, repetitions, strength=1e-2)
    for n in (20_000, 100_000):
        for epsilon in EPSILONS:
            yield "collinear", lambda b=n, e=epsilon: [collinear(b, e, repetitions)]
    for epsilon in (1.0, 4.0):
        for shift in (0.0, 0.5, 1.0, 2.0):
            yield "alike", lambda e=epsilon, s=shift: [alike(20_000, 5, e, s, repetitions)]
    for epsilon in (1.0, 4.0):
        yield "whole", lambda e=epsilon: [whole(20_000, 5, e, repetitions)]
    yield "null", lambda: null(50_000, repetitions)
    for errors in ERRORS:
        for n, epsilon in ((5000, 1.0), (20_000, 1.0), (20_000, 4.0)):
            yield "scale", lambda k=errors, b=n, e=epsilon: [scale(k, b, e, repetitions)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--records", type=int, nargs="*", default=RECORDS, help="which sizes")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/intervals.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, work in jobs(given.repetitions, given.records):
        if given.only not in (None, name):
            continue
        begin = time.perf_counter()
        for row in work():
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
