"""Gauthier et al. (2020), Figures 1-2: CDP-ADMM, DDP-ADMM and DP-ADMM on a generated Lasso, 50
agents."""

from __future__ import annotations

from typing import Any

from tacenda.experiments import drawing
from tacenda.experiments.judging import below, falls, ranked, true_epsilons
from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import PUBLISHED, SOUND, Cell, Experiment, Finding, Size

NODES, DELTA, CLIP = 50, 1e-5, 5.0
NETWORK = f"random-regular:{NODES},4,seed=1"
SETTINGS = (
    "50 agents, 50 records each, 8 features, X standard normal, theta ~ N(0, I), "
    "noise variance 0.1, lambda = 0.001 max|X'y|, rho = 4, T = 200. "
    "The normalised error (`distance`) sums over the agents: the zero model has 50."
)
CHOSEN = (
    "The paper gives neither the graph, nor R, nor the proximal weight: "
    "random 4-regular graph (DP-ADMM: star), R = 0.99, 1/eta = 1. "
    "Its squared loss has unbounded gradients and so no guarantee at all: "
    "gradients are clipped at 5 in both modes. Tried before, one seed: clipping at 5 and 20, "
    "1/eta of 0, 1 and 10. After 200 rounds CDP-ADMM ended below DDP-ADMM in all of them, "
    "but with 1/eta = 10 DP-ADMM ended lowest at phi = 10: its place depends on that weight. "
    "lambda is read from the records, as in the paper, and taken as public here, which it is not."
)
METHODS: dict[str, tuple[dict[str, Any], str]] = {
    "CDP-ADMM": ({"name": "cdpadmm", "variance_decay": 0.99}, NETWORK),
    "DDP-ADMM": ({"name": "ddpadmm"}, NETWORK),
    "DP-ADMM": ({"name": "dpadmm"}, f"star:{NODES}"),
}


def _cell(size: Size, name: str, mode: str, level: float, seed: int, every: int) -> Cell:
    algorithm, graph = METHODS[name]
    problem: dict[str, Any] = {
        "loss": "squared",
        "regulariser": "l1",
        "loss_scale": 2.0,
        "clip_norm": CLIP,
        "data_norm": 10.0,
        "lasso_strength": True,
    }
    budget: dict[str, Any] = (
        {"paper": {"phi": level, "delta": DELTA}}
        if mode == PUBLISHED
        else {"epsilon": level, "delta": DELTA}
    )
    return Cell(
        name,
        mode,
        {"name": "sparse-regression", "seed": 0},
        NODES,
        graph,
        {**algorithm, "penalty": 4.0, "proximal": 1.0},
        200,
        seed,
        problem=problem,
        privacy=budget,
        labels={"level": level},
        metrics=("distance",),
        every=every,
    )


def _cells(size: Size) -> list[Cell]:
    totals = size.pick(
        (2.0, 10.0), (1.0, 4.0, 10.0, 14.0), (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0)
    )
    levels = size.pick((1.0, 20.0), (1.0, 5.0, 10.0, 20.0), (1.0, 2.0, 5.0, 10.0, 20.0, 28.0))
    # The levels whose whole course is looked at
    drawn = {PUBLISHED: (10.0,), SOUND: (1.0, 20.0, max(levels))}
    return [
        _cell(size, name, mode, level, seed, 2 if level in drawn[mode] else 0)
        for mode, values in ((PUBLISHED, totals), (SOUND, levels))
        for name in METHODS
        for level in values
        for seed in size.seed_list(2, 5, 50)
    ]


def _charts(rows: Rows) -> list[Any]:
    made = []
    for mode, level, word in (
        (PUBLISHED, 10.0, "total phi"),
        (SOUND, max(rows.where(mode=SOUND).distinct("level")), "epsilon"),
    ):
        made.append(
            drawing.lines(
                rows.where(mode=mode, level=level),
                key=f"cdp-lasso-iterations-{mode[:2]}",
                title=f"Normalised error per iteration, {word} {level:g}, {mode}",
                metric="distance",
                y_label="normalised error",
                tab=f"{mode}, iterations",
                y_log=True,
            )
        )
        made.append(
            drawing.lines(
                rows.where(mode=mode).last(),
                key=f"cdp-lasso-total-{mode[:2]}",
                title=f"Normalised error after the last round against {word}, {mode}",
                metric="distance",
                x="level",
                x_label=word,
                y_label="normalised error",
                tab=f"{mode}, {word}",
                y_log=True,
            )
        )
    return made


def _findings(rows: Rows) -> list[Finding]:
    made = []
    for mode, level, word in (
        (PUBLISHED, 10.0, "phi 10"),
        (SOUND, 1.0, "epsilon 1"),
        (SOUND, 20.0, "epsilon 20"),
    ):
        part = rows.where(mode=mode, level=level)
        made.append(
            below(
                part.last(), mode, "CDP-ADMM", "DDP-ADMM", f"CDP-ADMM ends below DDP-ADMM at {word}"
            )
        )
        made.append(_passes(part, mode, word))
        made.append(
            ranked(part.last(), mode, "CDP-ADMM", f"CDP-ADMM ends lowest of the three at {word}")
        )
    for mode in (PUBLISHED, SOUND):
        made.append(
            falls(
                rows.where(mode=mode, method="CDP-ADMM"),
                mode,
                "distance",
                "level",
                "CDP-ADMM's error falls with the budget",
                slack=0.1,
                word="phi" if mode == PUBLISHED else "epsilon",
            )
        )
    return made


def _passes(rows: Rows, mode: str, word: str) -> Finding:
    """CDP-ADMM is behind DDP-ADMM at some round and ahead after the last; the detail tells the
    stretch in which it is behind."""
    at, concentrated, _, _ = rows.where(method="CDP-ADMM").curve("round")
    decaying = rows.where(method="DDP-ADMM").curve("round")[1]
    behind = at[concentrated > decaying]
    stretch = (
        f"It is behind between rounds {behind.min():.0f} and {behind.max():.0f}"
        if len(behind)
        else "It is never behind"
    )
    holds = bool(len(behind) and concentrated[-1] < decaying[-1])
    return Finding(
        mode,
        f"CDP-ADMM falls behind DDP-ADMM and passes it before the last round, at {word}",
        holds,
        f"{stretch}, means over the seeds.",
    )


def _survives(found: list[Finding], rows: Rows) -> str:
    order = [f for f in found if f.mode == SOUND and f.claim.startswith("CDP-ADMM ends below")]
    first = (
        "That CDP-ADMM ends below DDP-ADMM survives"
        if all(f.holds for f in order)
        else "That CDP-ADMM ends below DDP-ADMM does not survive"
    )
    small = rows.where(mode=SOUND, level=1.0).last().mean(method="CDP-ADMM")
    return (
        f"{first} at equal true privacy. But the paper's totals are weak: "
        "it says that phi from 1 to 14 corresponds to an epsilon between 0 and 1, "
        f"while by its own corollary at phi = 14 {true_epsilons(rows)} (delta 1e-5). "
        f"At a true epsilon of 1 the normalised error of CDP-ADMM is {small:.3g}, "
        "where the zero model has 50: nothing is learnt from 50 records a node. "
        "Without clipping there would be no guarantee at all."
    )


EXPERIMENTS = [
    Experiment(
        "cdp-lasso",
        "Gauthier et al. (2020)",
        "Fig. 1-2",
        "Does CDP-ADMM pass DDP-ADMM and end below it?",
        SETTINGS,
        CHOSEN,
        _cells,
        _charts,
        _findings,
        _survives,
    )
]
