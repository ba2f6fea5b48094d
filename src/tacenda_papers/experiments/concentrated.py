"""Gauthier et al. (2020), Figures 1-2: CDP-ADMM, DDP-ADMM and DP-ADMM on a generated Lasso, 50
agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.judging import below, falls, ranked, true_epsilons, value, within
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Cell, Claim, Experiment, Finding, Size

PAPER = "Gauthier et al. (2020)"


NODES, DELTA, CLIP = 50, 1e-5, 5.0


NETWORK = f"random-regular:{NODES},4,seed=1"


SETTINGS = (
    "50 agents, 50 records each, 8 features, X standard normal, theta ~ N(0, I), "
    "noise variance 0.1, lambda = 0.001 max|X'y|, rho = 4, T = 200. "
    "The normalised error (`distance`) sums over the agents: the zero model has 50."
)


CHOSEN = (
    "The paper gives neither the graph, nor R, nor the proximal weight, nor the number of runs "
    "(20 here): "
    "random 4-regular graph (DP-ADMM: star), R = 0.99, 1/eta = 1. "
    "Its squared loss has unbounded gradients and so no guarantee at all: "
    "gradients are clipped at 5 in both modes. Tried before, one seed: clipping at 5 and 20, "
    "1/eta of 0, 1 and 10. After 200 rounds CDP-ADMM ended below DDP-ADMM in all of them, "
    "but with 1/eta = 10 DP-ADMM ended lowest at phi = 10: its place depends on that weight. "
    "As published the regulariser's subgradient is taken, as in the paper's (6); "
    "sound, and in the line 'prox', its proximal step. "
    "lambda is read from the records, as in the paper, and taken as public here, which it is not."
)


METHODS: dict[str, tuple[dict[str, Any], str]] = {
    "CDP-ADMM": ({"name": "cdpadmm", "variance_decay": 0.99}, NETWORK),
    "DDP-ADMM": ({"name": "ddpadmm"}, NETWORK),
    "DP-ADMM": ({"name": "dpadmm"}, f"star:{NODES}"),
}


PROX = "CDP-ADMM, prox"


BEGINNING = 20  # rounds, of the paper's remark about the beginning


LASSO: dict[str, Any] = {
    "loss": "squared",
    "regulariser": "l1",
    "loss_scale": 2.0,
    "clip_norm": CLIP,
    "data_norm": 10.0,
    "lasso_strength": True,
}


def _cell(name: str, mode: str, level: float, seed: int, every: int) -> Cell:
    plain, graph = METHODS["CDP-ADMM" if name == PROX else name]
    algorithm = {**plain, "penalty": 4.0, "proximal": 1.0}
    if name == PROX:
        algorithm["regulariser_step"] = "prox"
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
        algorithm,
        200,
        seed,
        problem=LASSO,
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
        _cell(name, mode, level, seed, 2 if level in drawn[mode] else 0)
        for mode, values in ((PUBLISHED, totals), (SOUND, levels))
        for name in (*METHODS, *((PROX,) if mode == PUBLISHED else ()))
        for level in values
        for seed in size.seed_list(2, 5, 20)
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
        made.append(_alike_at_first(part, mode, word))
        made.append(_passes(part, mode, word))
        three = part.where(lambda r: r["method"] != PROX).last()
        claim = f"CDP-ADMM ends lowest of the three at {word}"
        made.append(ranked(three, mode, "CDP-ADMM", claim))
    steps = rows.where(mode=PUBLISHED, level=10.0).last()
    claim = "the subgradient as published ends within a tenth of the prox at phi 10"
    alike, clear = within(steps, "CDP-ADMM", PROX, 1.1)
    both = ", ".join(f"{m} {value(steps, method=m)}" for m in ("CDP-ADMM", PROX))
    made.append(Finding(PUBLISHED, claim, alike, f"{both}.", clear))
    for level in rows.where(mode=PUBLISHED).distinct("level"):
        part = rows.where(mode=PUBLISHED, level=level).last()
        claim = f"CDP-ADMM ends below DDP-ADMM at total phi {level:g}"
        made.append(below(part, PUBLISHED, "CDP-ADMM", "DDP-ADMM", claim))
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


def _alike_at_first(rows: Rows, mode: str, word: str) -> Finding:
    """The paper's words about the beginning: CDP-ADMM and DDP-ADMM are equally fast. Equally: their
    errors are within a tenth of each other."""
    at, concentrated, _, _ = rows.where(method="CDP-ADMM").curve("round")
    decaying = rows.where(method="DDP-ADMM").curve("round")[1]
    early = at <= BEGINNING
    ratio = concentrated[early] / decaying[early]
    furthest = at[early][np.argmax(np.abs(np.log(ratio)))]
    alike, clear = within(rows.where(round=furthest), "CDP-ADMM", "DDP-ADMM", 1.1)
    return Finding(
        mode,
        f"CDP-ADMM and DDP-ADMM are equally fast in the first {BEGINNING} rounds, at {word}",
        alike,
        f"Ratio of their errors from {ratio.min():.2f} to {ratio.max():.2f}, means over the seeds.",
        clear,
    )


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
    ends = below(rows.last(), mode, "CDP-ADMM", "DDP-ADMM", "")
    return Finding(
        mode,
        f"CDP-ADMM falls behind DDP-ADMM and passes it before the last round, at {word}",
        bool(len(behind)) and ends.holds,
        f"{stretch}, means over the seeds.",
        ends.sure,
    )


def _survives(found: list[Finding], rows: Rows) -> str:
    order = [f for f in found if f.mode == SOUND and f.claim.startswith("CDP-ADMM ends below")]
    first = (
        "That CDP-ADMM ends below DDP-ADMM survives"
        if all(f.holds for f in order)
        else "That CDP-ADMM ends below DDP-ADMM does not survive"
    )
    small = rows.where(mode=SOUND, level=1.0).last().mean(method="CDP-ADMM")
    most = max(rows.where(mode=PUBLISHED).distinct("level"))
    return (
        f"{first} at equal epsilon. But the paper's totals are weak: "
        "it says that phi from 1 to 14 corresponds to an epsilon between 0 and 1, "
        f"while by its own corollary at phi = {most:g} {true_epsilons(rows)} (delta 1e-5). "
        f"At an accounted epsilon of 1 the normalised error of CDP-ADMM is {small:.3g}, "
        "where the zero model has 50: nothing is learnt from 50 records a node. "
        "Without clipping there would be no guarantee at all."
    )


EXPERIMENTS = [
    Experiment(
        "cdp-lasso",
        PAPER,
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


CLAIMS = [
    Claim(
        PAPER,
        "abstract and conclusion",
        "CDP-ADMM offers a competitive trade-off of privacy against accuracy.",
        (("cdp-lasso", "CDP-ADMM ends below DDP-ADMM"), ("cdp-lasso", "ends lowest of the three")),
        "200 rounds, at each total phi as published and at accounted epsilons; its place against "
        "DP-ADMM depends on the proximal weight, which the paper does not give.",
    ),
    Claim(
        PAPER,
        "abstract",
        "It applies to losses and regularisers without derivatives and without strong convexity.",
        (("cdp-nonsmooth", "CDP-ADMM without noise solves"),),
        "Least absolute deviations and the generalised Lasso, which the paper names and does not "
        "run; subgradient and prox.",
    ),
    Claim(
        PAPER,
        "abstract and conclusion",
        "It converges, for every R below 1.",
        (("cdp-decay", "keeps falling, R"),),
        "400 rounds of the Lasso, the error of the last quarter against that of the third; the "
        "accounted epsilon of a run that comes close has no meaning.",
    ),
    Claim(
        PAPER,
        "simulations",
        "CDP-ADMM and DDP-ADMM are equally fast at first, and CDP-ADMM goes further.",
        (("cdp-lasso", "equally fast"), ("cdp-lasso", "falls behind DDP-ADMM and passes")),
        "Equally means errors within a tenth over the first 20 rounds; between that and the end "
        "CDP-ADMM is behind, because its first rounds have more noise.",
    ),
]
