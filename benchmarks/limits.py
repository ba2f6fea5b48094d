"""How far a private linear model of two classes is from what a search on the data finds:
`python -m benchmarks.limits [--only NAME ...] [--epsilons 0.1 1] [--seeds 0 1 2] [--print]`; the
table of results/measured/limits.md.

Descent on whitened records with central noise, which masked sums give exactly, in NumPy: with what
the library decides after the release, without the labels in the moment, and with every clip, step
and strength of a grid. The best of the grid is that with the least mean log loss on the test
quarter, over all seeds: it looks at what nobody may see, and is no method. Finished cells are
stored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.strengths import SETS as ALL
from tacenda.algorithms.treegd import TreeGD
from tacenda.algorithms.whitening import LABEL_SCALE, Chosen, Whitening, choose
from tacenda.estimators.scaling import Scaling
from tacenda.formats.files import write_json
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts

STORE = Path(__file__).with_name("limits.json")
DELTA, NODES, SHARE = 1e-5, 20, 0.1
TWO_CLASSES = [
    name
    for name in ALL
    if name not in ("iris", "wine", "digits", "diabetes", "regression 17,000 x 58")
]
STEPS, CLIPS, WEIGHTS = (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0), (1.0, 100.0)


class Trial:
    """Rows of one set as the estimator makes them, and a budget."""

    def __init__(self, name: str, epsilon: float) -> None:
        import tacenda as tc

        records = ALL[name]()
        train, test, y, test_y = train_test_split(
            records.X, records.y, test_size=0.25, random_state=0
        )
        sparse = hasattr(train, "toarray")
        scaling = Scaling.of(records.bounds, train.shape[1], None, True, sparse)
        dense = [part.toarray() if sparse else np.asarray(part, float) for part in (train, test)]
        self.x, self.test_x = (np.asarray(scaling.rows(part), float) for part in dense)
        top = np.unique(y)[-1]
        self.y, self.test_y = (np.where(part == top, 1.0, -1.0) for part in (y, test_y))
        n, d = self.x.shape
        given: Any = {"loss": "logistic", "strength": "auto", "row_scale": scaling.row_scale}
        plan = tc.plan(n // NODES, d, tc.graph.random_regular(NODES, 6, seed=0), epsilon, **given)
        self.rounds, self.mu = plan.rounds, gaussian_mu(epsilon, DELTA)
        constants = Constants.declared(**given)
        self.facts = Facts(np.full(1, float(n)), d, constants, "replace-one")
        self.moment = {}
        for scale in (0.0, LABEL_SCALE):
            z = np.column_stack([self.x, scale * self.y]) if scale else self.x
            self.moment[scale] = z.T @ z / n

    def released(self, scale: float, seed: int) -> Chosen:
        """What follows from one noisy moment, with labels of that scale in it or without."""
        rng, true = np.random.default_rng([seed, 0]), self.moment[scale]
        std = np.sqrt(2) * (1 + scale**2) / len(self.x) / (self.mu * np.sqrt(SHARE))
        # One draw for both, so that what the labels change is not lost in what noise does
        width = self.x.shape[1] + 1
        noise = np.triu(std * rng.normal(size=(width, width)))
        noise[np.triu_indices(width, 1)] *= np.sqrt(0.5)
        noise = (noise + np.triu(noise, 1).T)[: len(true), : len(true)]
        weight, whitening = SHARE / (1 - SHARE) * self.rounds, Whitening(label_scale=scale)
        given = (std, self.facts, whitening, TreeGD(), weight, self.rounds, float(len(self.x)))
        return choose(true + noise, *given)

    def loss(self, found: Chosen, seed: int) -> float:
        """Test log loss of the average of the last half of the rounds."""
        rng, p = np.random.default_rng([seed, 1]), found.matrix
        lengths = (p * p).sum(axis=0)
        z, v, n = self.x @ p, p.T @ found.start / lengths, len(self.x)
        norms, eta = np.linalg.norm(z, axis=1), 1.0 / found.smoothness
        clip = float(found.clip or norms.max())
        std = 2 * clip / n / (self.mu * np.sqrt((1 - SHARE) / self.rounds))
        ridge = self.facts.constants.regulariser.l2 * float(found.strength or 0.0) * lengths
        models = []
        for _ in range(self.rounds):
            slope = -self.y / (1 + np.exp(np.clip(self.y * (z @ v), -500, 500)))
            slope *= np.minimum(1.0, clip / np.maximum(np.abs(slope) * norms, 1e-300))
            g = z.T @ slope / n + std * rng.normal(size=len(v))
            v = (v - eta * g) / (1 + eta * ridge)
            models.append(v)
        w = p @ np.mean(models[-max(1, round(0.5 * self.rounds)) :], axis=0)
        return float(np.mean(np.logaddexp(0.0, -self.test_y * (self.test_x @ w))))

    def cell(self, seeds: list[int]) -> dict[str, Any]:
        """Log losses of each seed, and of the best of the grid with its place."""
        plain = [self.released(0.0, seed) for seed in seeds]
        told = [self.released(LABEL_SCALE, seed) for seed in seeds]
        found: dict[str, Any] = {
            "without": [self.loss(one, seed) for one, seed in zip(plain, seeds, strict=True)],
            "library": [self.loss(one, seed) for one, seed in zip(told, seeds, strict=True)],
        }
        tried = {}
        for place in product((0, 1), STEPS, CLIPS, WEIGHTS):
            labelled, step, clip, weight = place
            losses = []
            for one, seed in zip((plain, told)[labelled], seeds, strict=True):
                other = replace(
                    one,
                    clip=one.clip and one.clip * clip,
                    smoothness=one.smoothness / step,
                    strength=(one.strength or 0.0) * weight,
                )
                losses.append(self.loss(other, seed))
            tried[place] = losses
        best = min(tried, key=lambda place: float(np.mean(tried[place])))
        return {**found, "best": tried[best], "place": list(best), "rounds": self.rounds}

    def no_privacy(self) -> float:
        """Of scikit-learn, hardly penalised."""
        model = LogisticRegression(C=1e4, max_iter=2000, fit_intercept=False)
        chances = model.fit(self.x, self.y).predict_proba(self.test_x)
        return float(log_loss(self.test_y, chances))


def table(store: dict[str, Any]) -> Iterator[str]:
    """Markdown: means over the seeds, with the standard error of the library's."""
    yield "| set | no privacy | epsilon | labels left out | library | best of the grid | over it |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name in TWO_CLASSES:
        for epsilon, cell in store.get(name, {}).get("cells", {}).items():
            without, own, best = (np.mean(cell[k]) for k in ("without", "library", "best"))
            error = np.std(cell["library"], ddof=1) / np.sqrt(len(cell["library"]))
            yield (
                f"| {name} | {store[name]['none']:.4f} | {epsilon} | {without:.4f} "
                f"| {own:.4f} ± {error:.4f} | {best:.4f} | {100 * (own / best - 1):.0f} % |"
            )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--only", nargs="*", choices=TWO_CLASSES, default=TWO_CLASSES)
    asked.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 0.5, 1.0, 4.0])
    asked.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    asked.add_argument("--print", action="store_true", help="only the table of what is stored")
    given = asked.parse_args()
    store = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    for name in () if given.print else given.only:
        own = store.setdefault(name, {"cells": {}})
        for epsilon in given.epsilons:
            if f"{epsilon:g}" not in own["cells"]:
                trial = Trial(name, epsilon)
                own.setdefault("none", trial.no_privacy())
                own["cells"][f"{epsilon:g}"] = trial.cell(given.seeds)
                write_json(STORE, store)
                print(name, epsilon, own["cells"][f"{epsilon:g}"], flush=True)
    print(*table(store), sep="\n")


if __name__ == "__main__":
    main()
