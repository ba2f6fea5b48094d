"""Do the intervals of private evaluations hold as often as they say?

    python -m benchmarks.evaluation_coverage [--repetitions 500] [--json out.json]

For each case a population of (label, score) is drawn once, 400,000 large, and the measures of the
whole population are the truth; of ROC AUC that of the scores themselves, which the bins do not
know. The bins of two classes lie where the scores are, as after a run that released a moment. Each
repetition holds out some of the records, adds them up with the statistic's own vectors, adds the
Gaussian noise of one release at (epsilon, 1e-5), replace-one, and asks whether the interval holds
the truth. The table says how often, and how wide it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score

from tacenda.evaluation.private import PrivateEvaluation
from tacenda.evaluation.score_bins import ScoreSpread, score_edges
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.questions.counts import ClassCounts, ValueSums
from tacenda.questions.statistics import Records, enforced

POPULATION = 400_000
EPSILONS = (0.5, 1.0, 4.0)
SIZES = (500, 3_000, 15_000)
LEVELS = (0.9, 0.95)
DELTA = 1e-5


def cases(rng: np.random.Generator) -> dict[str, tuple[Any, np.ndarray, np.ndarray]]:
    """name -> (statistic, labels, scores (N, K)): classes as -1 and 1, numbers, values."""

    def binary(spread: float, shift: float, bold: float) -> tuple[Any, np.ndarray, np.ndarray]:
        odds = shift + spread * rng.standard_normal(POPULATION)
        labels = np.where(rng.random(POPULATION) < expit(odds), 1.0, -1.0)
        scores = bold * odds
        edges = score_edges(ScoreSpread(float(scores.mean()), float(scores.std())))
        return ClassCounts(2, edges=edges), labels, scores[:, None]

    scores = 1.5 * rng.standard_normal((POPULATION, 5)) + np.array([1.0, 0.5, 0.0, -0.5, -1.0])
    chances = softmax(scores, axis=1).cumsum(axis=1)
    labels = (rng.random((POPULATION, 1)) > chances).sum(axis=1).clip(0, 4).astype(float)
    guess = 0.4 * rng.standard_normal(POPULATION)
    values = np.clip(guess + 0.2 * rng.standard_t(6, POPULATION), -1.0, 1.0)
    return {
        "like Adult (24 % positive)": binary(2.2, -2.0, 1.0),
        "balanced, small model": binary(1.0, 0.0, 0.7),
        "rare (3 % positive)": binary(1.5, -4.3, 1.0),
        "weak (20 % positive)": binary(0.3, -1.4, 1.0),
        "five classes": (ClassCounts(5), labels, scores),
        "regression": (ValueSums(-1.0, 1.0), values, guess[:, None]),
    }


def study(repetitions: int, seed: int = 0) -> list[dict[str, Any]]:
    """One row for each case, size, epsilon, level and measure."""
    rng = np.random.default_rng(seed)
    found = []
    for name, (statistic, labels, scores) in cases(rng).items():
        whole = vectors(statistic, labels, scores)
        truth = PrivateEvaluation(statistic, whole.sum(axis=0), 0.0, POPULATION, None).measures
        exact = {m: measure.value for m, measure in truth.items()}
        if "roc_auc" in exact:
            exact["roc_auc"] = float(roc_auc_score(labels, scores[:, 0]))
        for size in SIZES:
            sums = [
                whole[rng.integers(0, POPULATION, size)].sum(axis=0) for _ in range(repetitions)
            ]
            for epsilon in EPSILONS:
                std = np.sqrt(2.0) / gaussian_mu(epsilon, DELTA)
                noisy = [total + std * rng.standard_normal(len(total)) for total in sums]
                for level in LEVELS:
                    rows = [
                        PrivateEvaluation(statistic, total, std, size, None, level=level).measures
                        for total in noisy
                    ]
                    for measure, value in exact.items():
                        found.append(
                            {
                                "case": name,
                                "records": size,
                                "epsilon": epsilon,
                                "level": level,
                                "measure": measure,
                                **judged([row[measure] for row in rows], value),
                            }
                        )
    return found


def judged(rows: list[Any], value: float) -> dict[str, float]:
    """How often the interval held the value where one was given, how wide it was, and how often
    none was."""
    known = [m for m in rows if m.known]
    if not known:
        return {"coverage": float("nan"), "width": float("nan"), "refused": 1.0}
    inside = [m.low - 1e-12 <= value <= m.high + 1e-12 for m in known]
    return {
        "coverage": float(np.mean(inside)),
        "width": float(np.median([m.high - m.low for m in known])),
        "refused": 1.0 - len(known) / len(rows),
    }


def vectors(statistic: Any, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(N, length) of a population, in blocks."""
    kind = statistic.kinds[0] if scores.shape[1] == 1 else "multiclass"
    parts = []
    for first in range(0, len(labels), 50_000):
        part = scores[first : first + 50_000]
        records = Records(
            part, labels[first : first + 50_000], part.shape[1], kind, _as_given(part)
        )
        parts.append(enforced(statistic.vectors(records, np.zeros(1)), len(part), statistic))
    return np.concatenate(parts).astype(np.float32 if statistic.length > 100 else float)


def _as_given(scores: np.ndarray) -> Any:
    return lambda model: scores


def table(rows: list[dict[str, Any]], level: float) -> str:
    """Markdown: one row for each case, measure and size; one column for each epsilon."""
    lines = [
        f"| case | measure | records | {' | '.join(f'epsilon {e:g}' for e in EPSILONS)} |",
        f"| --- | --- | ---: |{' ---: |' * len(EPSILONS)}",
    ]
    keys = dict.fromkeys((r["case"], r["measure"], r["records"]) for r in rows)
    for key in keys:
        cells = []
        for epsilon in EPSILONS:
            (row,) = [
                r
                for r in rows
                if (r["case"], r["measure"], r["records"]) == key
                and (r["epsilon"], r["level"]) == (epsilon, level)
            ]
            some = f" ({row['refused']:.0%} unknown)" if row["refused"] else ""
            held = "unknown" if row["refused"] == 1 else f"{100 * row['coverage']:.1f}{some}"
            cells.append(held if held == "unknown" else f"{held}, {row['width']:.3f}")
        lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--json", type=Path, help="also write all rows here")
    given = parser.parse_args()
    rows = study(given.repetitions)
    if given.json is not None:
        given.json.write_text(json.dumps(rows))
    for level in LEVELS:
        print(
            f"\nIntervals of {level:.0%}: held in per cent of {given.repetitions}, median width\n"
        )
        print(table(rows, level))
    low = [r for r in rows if r["coverage"] < r["level"] - 0.03]
    print(f"\n{len(low)} of {len(rows)} held less often than they say by more than 3 points")
    for r in sorted(low, key=lambda r: r["coverage"] - r["level"])[:40]:
        where = f"{r['case']}, {r['measure']}, {r['records']} records, epsilon {r['epsilon']:g}"
        print(f"  {where}, {r['level']:.0%}: {100 * r['coverage']:.1f}")


if __name__ == "__main__":
    main()
