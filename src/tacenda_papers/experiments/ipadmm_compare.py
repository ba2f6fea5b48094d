"""Huang and Gong (2020), Figure 3: IPADMM beside the other private ADMMs, risk and steadiness."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.ipadmm import (
    CHOSEN,
    DELTA,
    FAR,
    INNER_STEPS,
    PAPER,
    SETTINGS,
    algorithm_of,
    budget_of,
    noise_told,
    shape_of,
)
from tacenda_papers.experiments.judging import ranked
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import (
    NO_PRIVACY,
    PUBLISHED,
    SOUND,
    Cell,
    Experiment,
    Finding,
    Size,
)


def _methods(
    size: Size, mode: str, epsilon: float
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, algorithm, budget): as published, the pure methods of Zhang and Zhu (2016) get alpha =
    epsilon/T a round, whose sum is epsilon."""
    total = budget_of(mode, epsilon)
    share = (
        {"paper": {"alpha": epsilon / shape_of(size)["rounds"], "delta": DELTA}}
        if mode == PUBLISHED
        else total
    )
    return [
        ("IPADMM", algorithm_of(INNER_STEPS), total),
        ("DP-ADMM", {"name": "dpadmm", "penalty": 0.1}, total),
        ("R-ADMM", {"name": "radmm", "penalty": 0.01}, total),
        ("DVP", {"name": "dvp", "penalty": 0.01}, share),
        ("PVP", {"name": "pvp", "penalty": 0.01}, share),
    ]


def _compare(size: Size) -> list[Cell]:
    shape, every = shape_of(size), size.pick(3, 2, 2)
    made = [
        Cell(
            "ADMM, no noise",
            NO_PRIVACY,
            algorithm={"name": "admm", "penalty": 0.001},
            seed=0,
            every=every,
            labels={"epsilon": eps},
            **shape,
        )
        for eps in (0.5, 1.0)
    ]
    for mode in (PUBLISHED, SOUND):
        for eps in (0.5, 1.0):
            for name, algorithm, budget in _methods(size, mode, eps):
                rest: dict[str, Any] = {
                    "privacy": budget,
                    "every": every,
                    "labels": {"epsilon": eps},
                    **shape,
                }
                if name == "PVP" and mode == PUBLISHED:
                    rest["solver_tolerance"] = (
                        # its iterates grow to 1e8 and more,
                        # where doubles end at 1e-8 of the gradient
                        1e-3
                    )
                made += [
                    Cell(name, mode, algorithm=algorithm, seed=s, **rest)
                    for s in size.seed_list(2, 3, 10)
                ]
    return made


def _compare_charts(rows: Rows) -> list[Any]:
    """PVP as published ends at a risk of millions, which would press all other lines into one: it
    is told, not drawn."""
    made = []
    for mode in (PUBLISHED, SOUND):
        for k, eps in enumerate((0.5, 1.0)):
            part = drawing.with_reference(rows, mode).where(epsilon=eps)
            far = part.where(mode=PUBLISHED, method="PVP").last().mean()
            told = (
                f"PVP is not drawn: its risk ends at {far:.2g}. Mean and range over the seeds."
                if far > FAR
                else ""
            )
            made.append(
                drawing.lines(
                    part.where(lambda r: not (r["method"] == "PVP" and r["mode"] == PUBLISHED))
                    if far > FAR
                    else part,
                    key=f"ipadmm-compare-{mode[:2]}-{k}",
                    title=f"Empirical risk per iteration, epsilon {eps:g}, {mode}",
                    metric="objective",
                    y_label="empirical risk",
                    tab=f"{mode}, epsilon {eps:g}",
                    y_log=True,
                    note=told,
                )
            )
    return made


def _compare_findings(rows: Rows) -> list[Finding]:
    made = []
    for mode in (PUBLISHED, SOUND):
        for eps in (0.5, 1.0):
            part = rows.where(mode=mode, epsilon=eps, metric="objective").last()
            made.append(
                ranked(
                    part,
                    mode,
                    "IPADMM",
                    f"IPADMM has the lowest final risk of the private methods at epsilon {eps:g}",
                    f"epsilon {eps:g}",
                )
            )
            made.append(_steadiest(rows.where(mode=mode, epsilon=eps, metric="objective"), mode))
    return made


def swing(rows: Rows) -> Rows:
    """How much the risk moves from one recorded round to the next over the second half of a run,
    against its own mean there: a row for each method and seed."""
    made = []
    for name in rows.distinct("method"):
        for seed in rows.where(method=name).distinct("seed"):
            own = sorted(rows.where(method=name, seed=seed), key=lambda r: r["round"])
            late = np.array([r["value"] for r in own if r["round"] > own[-1]["round"] / 2])
            moved = float(np.abs(np.diff(late)).mean() / late.mean())
            made.append({**own[-1], "value": moved})
    return Rows(made)


def _steadiest(rows: Rows, mode: str) -> Finding:
    level = rows.distinct("epsilon")[0]
    claim = f"IPADMM's risk moves least from round to round at epsilon {level:g}"
    return ranked(swing(rows), mode, "IPADMM", claim, f"epsilon {level:g}, relative change")


def _compare_survives(found: list[Finding], rows: Rows) -> str:
    where = {2: "at both levels", 1: "at one of the two levels", 0: "at neither level"}
    lowest = [f for f in found if "lowest final risk" in f.claim]
    asked = [[f for f in lowest if f.mode == mode] for mode in (SOUND, PUBLISHED)]
    told = [
        where[sum(f.holds for f in some)]
        + ("" if all(f.sure for f in some) else " (not all clear)")
        for some in asked
    ]
    return (
        f"At equal epsilon IPADMM has the lowest final risk {told[0]}, "
        f"as published {told[1]}. That is the order of these settings, "
        "where only IPADMM's D was chosen by trials: "
        "where every method has as many trials (equal-privacy, test accuracy), DDP-ADMM is clearly "
        f"ahead of it at epsilon 1, and eight others at 5. {noise_told(rows)}"
    )


EXPERIMENTS = [
    Experiment(
        "ipadmm-compare",
        PAPER,
        "Fig. 3",
        "Is IPADMM better than the other private ADMMs?",
        SETTINGS + " epsilon 0.5 and 1.",
        CHOSEN
        + " The exact methods use penalty 0.01, because 0.001 leaves the bound of Zhang et al. "
        "(2018) no room at epsilon 0.5; as published, DVP and PVP get alpha = epsilon/T a round, "
        "so that their pure losses sum to epsilon, "
        "and DP-ADMM Gauthier et al.'s (2020) conversion, with penalty 0.1 and proximal weight 1. "
        "PVP as published adds noise of rate r m alpha/(2c), and r = 1e-6 here, "
        "so that its risk is in the millions and delta alone covers it: "
        "an accounted epsilon of 0. ADMM without noise is not at the optimum after 100 rounds.",
        _compare,
        _compare_charts,
        _compare_findings,
        _compare_survives,
    )
]
