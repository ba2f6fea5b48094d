"""Liu et al. (2022), Figure 2: loss and accuracy against epsilon."""

from __future__ import annotations

from typing import Any

from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.cells import TEST
from tacenda_papers.experiments.dual_averaging import (
    ALL,
    CHOSEN,
    DELTA,
    DP,
    EVERY,
    FULL_ROUNDS,
    ONE,
    PAPER,
    SETTINGS,
    STEEP,
    epochs,
    shape_of,
    survives,
)
from tacenda_papers.experiments.judging import below, falls
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Cell, Experiment, Finding, Size


def _tradeoff(size: Size) -> list[Cell]:
    rounds, shape = epochs(size), shape_of(size)
    levels = size.pick((0.2, 1.0), (0.2, 0.6, 1.0), (0.2, 0.4, 0.6, 0.8, 1.0))
    one_record = size.pick((1.0,), (0.2, 1.0), levels)
    made = []
    for s in size.seed_list(2, 3, 3):
        for eps in levels:
            labels = {"epsilon": eps, "spectrum": STEEP}
            label: dict[str, Any] = {"seed": s, "labels": labels, **shape}
            paper = {"paper": {"epsilon": eps, "delta": DELTA}}
            true = {"epsilon": eps, "delta": DELTA}
            made.append(
                Cell(
                    DP,
                    PUBLISHED,
                    algorithm={"name": "dpdda", **ONE},
                    rounds=rounds,
                    privacy=paper,
                    **label,
                )
            )
            made.append(
                Cell(ALL, SOUND, algorithm=EVERY, rounds=FULL_ROUNDS, privacy=true, **label)
            )
            if eps in one_record:
                made.append(
                    Cell(
                        DP,
                        SOUND,
                        algorithm={"name": "dpdda", "batch_size": 1},
                        rounds=rounds,
                        privacy=true,
                        **label,
                    )
                )
    return made


def _tradeoff_charts(rows: Rows) -> list[Any]:
    return [
        drawing.lines(
            rows.where(mode=mode),
            key=f"dda-tradeoff-{mode[:2]}-{metric[:3]}",
            title=f"{label} against epsilon after 3 epochs, {mode}",
            metric=metric,
            x="epsilon",
            x_label="epsilon" + (" (claimed)" if mode == PUBLISHED else " (accounted)"),
            y_label=label.lower(),
            tab=f"{mode}, {label.split()[0].lower()}",
            percent=metric == TEST,
        )
        for mode in (PUBLISHED, SOUND)
        for metric, label in (("suboptimality", "Suboptimality"), (TEST, "Test accuracy"))
    ]


def _tradeoff_findings(rows: Rows) -> list[Finding]:
    claim = "the suboptimality falls as epsilon grows"
    published = falls(
        rows.where(mode=PUBLISHED, method=DP),
        PUBLISHED,
        "suboptimality",
        "epsilon",
        claim,
        slack=0.1,
    )
    sound = falls(
        rows.where(mode=SOUND, method=ALL),
        SOUND,
        "suboptimality",
        "epsilon",
        f"{claim} (all records)",
        slack=0.1,
    )
    at_one = rows.where(mode=SOUND, metric="suboptimality", epsilon=1.0).last()
    return [
        published,
        sound,
        below(at_one, SOUND, ALL, DP, "at epsilon 1 all records beat one record a round"),
    ]


EXPERIMENTS = [
    Experiment(
        "dda-tradeoff",
        PAPER,
        "Fig. 2",
        "How do suboptimality and accuracy move with epsilon?",
        SETTINGS + " epsilon 0.2 to 1, spectrum k^-1 alone.",
        CHOSEN,
        _tradeoff,
        _tradeoff_charts,
        _tradeoff_findings,
        survives,
    )
]
