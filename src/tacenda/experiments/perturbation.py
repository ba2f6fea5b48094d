"""Zhang and Zhu (2016), Figures 4-8: dual and primal variable perturbation on Adult, and the choice
of the privacy level (27)-(30)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacenda import theory
from tacenda.errors import InputError
from tacenda.experiments import drawing
from tacenda.experiments.judging import below, falls, true_epsilons
from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import NO_PRIVACY, PUBLISHED, SOUND, Cell, Experiment, Finding, Size
from tacenda.report.charts import Series

DELTA, NODES, WORST_EXCESS = 1e-5, 20, 0.135
USELESS_LOSS = 2 * math.log(2)  # twice the loss of the zero classifier
SETTINGS = (
    "Adult, 45,222 x 104, 20 nodes, logistic loss; DVP: rho 10^-2.5, C^R 1750; PVP: rho 0.1, "
    "C^R 146 (the paper's tables)."
)
CHOSEN = (
    "The paper gives neither the network nor eta: random 4-regular graph, "
    "eta 5 for DVP and 0.5 for PVP (C^R/eta about 300 for both), 100 rounds (40 reduced). "
    "eta 0.5 and 5 were tried for both on Adult, one seed: DVP is better with 5 in both modes; "
    "PVP as published is better with 5 too (1.6 against 3.1 at alpha 0.3, still far above DVP), "
    "without noise with 0.5, which was taken. The categorical columns are one-hot, "
    "not frequency codes. (30) is fitted to the levels whose loss is at most 2 ln 2, "
    "where there are four of them. The paper bounds L_acc itself by 0.135; "
    "here it is the excess over the noise-free loss. The fit for PVP is poor: "
    "its losses are not of that shape. Quick runs use 8,000 generated records of 15 features."
)
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "DVP": ({"name": "dvp", "penalty": 5.0}, {"strength": 10**-2.5, "loss_scale": 1750.0}),
    "PVP": ({"name": "pvp", "penalty": 0.5}, {"strength": 0.1, "loss_scale": 146.0}),
}


def _shape(size: Size, name: str) -> dict[str, Any]:
    generated: dict[str, Any] = {
        "name": "classification",
        "n": 8000,
        "features": 15,
        "difficulty": 0.2,
        "seed": 3,
    }
    algorithm, problem = METHODS[name]
    if size.name == "quick":  # 400 records a node: C^R must stay below them
        problem = {**problem, "loss_scale": problem["loss_scale"] / 20}
        algorithm = {**algorithm, "penalty": algorithm["penalty"] / 20}
    data = generated if size.name == "quick" else {"name": "adult", "encoding": "papers"}
    return {
        "data": data,
        "nodes": NODES,
        "graph": f"random-regular:{NODES},4,seed=1",
        "problem": problem,
        "algorithm": algorithm,
        "rounds": size.pick(20, 40, 100),
        "metrics": ("loss", "misclassification"),
    }


def _cells(
    size: Size, alphas: tuple[float, ...], levels: tuple[float, ...], every: int
) -> list[Cell]:
    made = []
    for name in METHODS:
        shape = _shape(size, name)
        made.append(
            Cell(
                f"{name}, no noise", NO_PRIVACY, seed=0, every=every, labels={"level": 0.0}, **shape
            )
        )
        for mode, values in ((PUBLISHED, alphas), (SOUND, levels)):
            for value in values:
                budget = (
                    {"paper": {"alpha": value, "delta": DELTA}}
                    if mode == PUBLISHED
                    else {"epsilon": value, "delta": DELTA}
                )
                made += [
                    Cell(
                        name,
                        mode,
                        seed=s,
                        privacy=budget,
                        every=every,
                        labels={"level": value},
                        **shape,
                    )
                    for s in size.seed_list(2, 2, 10)
                ]
    return made


def _convergence(size: Size) -> list[Cell]:
    return _cells(size, (0.1, 0.3, 1.0), (1.0, 4.0), size.pick(2, 2, 2))


def _convergence_charts(rows: Rows) -> list[Any]:
    made = []
    for mode in (PUBLISHED, SOUND):
        part = drawing.with_reference(rows, mode)
        word = "alpha" if mode == PUBLISHED else "epsilon"
        named = Rows(
            {
                **r,
                "line": r["method"]
                if r["mode"] == NO_PRIVACY
                else f"{r['method']}, {word} {r['level']:g}",
            }
            for r in part
        )
        made.append(
            drawing.lines(
                named,
                key=f"perturbation-convergence-{mode[:2]}",
                title=f"Empirical loss per iteration, {mode}",
                metric="loss",
                by="line",
                y_label="empirical loss",
                tab=mode,
                y_log=True,
            )
        )
    return made


def _steadiness(rows: Rows, method: str) -> float:
    """Standard deviation of the loss over the second half of the rounds and over the seeds."""
    part = rows.where(method=method, metric="loss")
    half = max(part.distinct("round")) / 2
    return float(part.where(lambda r: r["round"] > half).values().std())


def _convergence_findings(rows: Rows) -> list[Finding]:
    made = []
    for mode, level in ((PUBLISHED, 0.3), (SOUND, 1.0)):
        part = rows.where(mode=mode, level=level)
        dual, primal = _steadiness(part, "DVP"), _steadiness(part, "PVP")
        word = "alpha 0.3" if mode == PUBLISHED else "epsilon 1"
        detail = (
            f"Standard deviation of the loss in the second half: DVP {dual:.3g}, PVP {primal:.3g}."
        )
        made.append(Finding(mode, f"DVP is steadier than PVP at {word}", dual < primal, detail))
        made.append(
            below(
                part.where(metric="loss").last(),
                mode,
                "DVP",
                "PVP",
                f"DVP's final loss is below PVP's at {word}",
            )
        )
    return made


def _tradeoff(size: Size) -> list[Cell]:
    alphas = size.pick(
        (0.05, 0.1, 0.3, 1.0),
        (0.03, 0.1, 0.2, 0.4, 1.0),
        (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0),
    )
    return _cells(
        size, alphas, size.pick((0.5, 4.0), (0.5, 1.0, 4.0), (0.1, 0.5, 1.0, 2.0, 5.0)), 0
    )


def _tradeoff_charts(rows: Rows) -> list[Any]:
    made = []
    for mode in (PUBLISHED, SOUND):
        word = "alpha of a round (claimed)" if mode == PUBLISHED else "epsilon of the run (true)"
        for metric, label in (
            ("loss", "empirical loss"),
            ("misclassification", "misclassification rate"),
        ):
            made.append(
                drawing.lines(
                    rows.where(mode=mode),
                    key=f"perturbation-tradeoff-{mode[:2]}-{metric[:4]}",
                    title=f"{label.capitalize()} against {word}",
                    metric=metric,
                    x="level",
                    x_label=word,
                    y_label=label,
                    tab=f"{mode}, {metric}",
                    x_log=True,
                    y_log=metric == "loss",
                    percent=metric != "loss",
                )
            )
    return made + [_optimum_chart(rows, name) for name in METHODS] + [_sample_size_chart(rows)]


def _sample_size_chart(rows: Rows) -> Any:
    """Theorems 3, 4 and 6: records a node needs, with the theorems' unnamed constant taken as 1,
    and what Adult gives it."""
    grid = np.array(rows.where(mode=PUBLISHED).distinct("level"))
    known: dict[str, Any] = {
        "accuracy": WORST_EXCESS,
        "reference_norm": 1.0,
        "failure": 0.05,
        "dim": 104,
        "degree": 4,
    }
    kinds = {
        "Theorem 3, no privacy": ("non-private", "DVP"),
        "Theorem 4, DVP": ("dual", "DVP"),
        "Theorem 6, PVP": ("primal", "PVP"),
    }
    series = []
    for name, (kind, method) in kinds.items():
        algorithm, problem = METHODS[method]
        settings = {**known, "loss_scale": problem["loss_scale"], "penalty": algorithm["penalty"]}
        series.append(
            drawing.bound(name, grid, [theory.sample_size(kind, alpha=a, **settings) for a in grid])
        )
    series.append(drawing.level("a node's records of Adult", 45_222 / NODES, grid))
    return drawing.lines(
        Rows(),
        key="perturbation-sample-size",
        title="Records a node needs by Theorems 3, 4 and 6",
        metric="",
        x="level",
        x_label="alpha of a round",
        y_label="records",
        tab="records needed",
        extra=series,
        x_log=True,
        y_log=True,
        note=(
            f"For an excess loss of {WORST_EXCESS} against a classifier of norm 1 with "
            "probability 0.95 a theorem, constant 1: the theorems only say that some constant "
            "exists, so the order and the slopes mean something, the heights do not."
        ),
    )


def optimum(rows: Rows, name: str) -> tuple[theory.AccuracyFit, theory.OptimalLevel | None]:
    """The fit (30) of a method's losses as published, and alpha* of (28); None where no alpha up to
    1 is accurate enough."""
    part = rows.where(mode=PUBLISHED, method=name, metric="loss").last()
    at, mean, _, _ = part.curve("level")
    # A loss in the hundreds at the smallest alpha would decide the whole fit
    useful = mean <= USELESS_LOSS
    if useful.sum() >= 4:
        at, mean = at[useful], mean[useful]
    fit = theory.fit_accuracy(at, mean)
    free = rows.where(metric="loss").last().mean(method=f"{name}, no noise")
    try:
        return fit, theory.optimal_alpha(
            fit, lowest=float(at.min()), worst_loss=free + WORST_EXCESS
        )
    except InputError:
        return fit, None


def _optimum_chart(rows: Rows, name: str) -> Any:
    """Figures 5 and 6: L_acc, U_priv and the level where their difference is least."""
    fit, best = optimum(rows, name)
    part = rows.where(mode=PUBLISHED, method=name)
    grid = np.geomspace(min(part.distinct("level")), 1.0, 60)
    series = [
        drawing.bound("L_acc, fitted", grid, fit(grid)),
        drawing.bound("U_priv", grid, theory.privacy_utility(grid)),
    ]
    if best is not None:
        series.append(
            Series(
                f"alpha* = {best.alpha:.3g}",
                np.array([best.alpha]),
                np.array([float(fit(best.alpha))]),
                0,
                style="mark",
            )
        )
        told = f"the optimal level is {best.alpha:.3g} ({best.bound})."
    else:
        told = f"no alpha up to 1 comes within {WORST_EXCESS} of the noise-free loss."
    note = f"L_acc = {fit.c4:.3g} exp(-{fit.c5:.3g} alpha) + {fit.c6:.3g}; {told}"
    figure = "5" if name == "DVP" else "6"
    return drawing.lines(
        part,
        key=f"perturbation-optimum-{name.lower()}",
        title=f"The optimal privacy level of {name} (Fig. {figure})",
        metric="loss",
        x="level",
        x_label="alpha of a round",
        y_label="empirical loss; utility of privacy",
        tab=f"optimal alpha, {name}",
        extra=series,
        x_log=True,
        note=note + " The losses are measured on the records themselves: "
        "a choice made so would have to be charged.",
    )


def _tradeoff_findings(rows: Rows) -> list[Finding]:
    made = []
    for mode in (PUBLISHED, SOUND):
        for name in METHODS:
            word = "alpha" if mode == PUBLISHED else "epsilon"
            made.append(
                falls(
                    rows.where(mode=mode, method=name),
                    mode,
                    "loss",
                    "level",
                    f"{name}'s loss falls as {word} grows",
                    slack=0.1,
                    word=word,
                )
            )
    middle = 1.0 if 1.0 in rows.where(mode=SOUND).distinct("level") else 4.0
    part = rows.where(mode=SOUND, level=middle, metric="loss").last()
    made.append(
        below(part, SOUND, "DVP", "PVP", f"DVP's loss is below PVP's at epsilon {middle:g}")
    )
    for name in METHODS:
        fit, best = optimum(rows, name)
        told = (
            f"alpha* = {best.alpha:.3g} ({best.bound})"
            if best
            else f"no alpha up to 1 comes within {WORST_EXCESS} of the noise-free loss"
        )
        made.append(
            Finding(
                PUBLISHED,
                f"{name} has an optimal level by (28)",
                best is not None,
                f"{told}; fit c4 {fit.c4:.3g}, c5 {fit.c5:.3g}, c6 {fit.c6:.3g}.",
            )
        )
    return made


def _survives(found: list[Finding], rows: Rows) -> str:
    ahead = [f for f in found if f.mode == SOUND and "DVP" in f.claim and "PVP" in f.claim]
    first = (
        "The preference for DVP survives"
        if ahead and all(f.holds for f in ahead)
        else "The preference for DVP over PVP does not survive"
    )
    best = rows.where(mode=PUBLISHED).distinct("level")
    fitted = optimum(rows, "DVP")[1] if len(best) >= 4 else None
    alpha = (
        f" The optimal level of DVP by (28) is alpha = {fitted.alpha:.3g}."
        if fitted is not None
        else ""
    )
    return (
        f"{first} at equal true privacy, where PVP is centred on released values. "
        f"As published DVP is far ahead, where the paper calls it slightly more robust.{alpha} "
        "The claims are about one round given the past; "
        f"over the whole run {true_epsilons(rows)} (delta 1e-5), "
        "and line 5 of DVP doubles the loss of each round."
    )


EXPERIMENTS = [
    Experiment(
        "perturbation-convergence",
        "Zhang and Zhu (2016)",
        "Fig. 4",
        "Is DVP steadier than PVP?",
        SETTINGS + " alpha 0.1, 0.3 and 1.",
        CHOSEN,
        _convergence,
        _convergence_charts,
        _convergence_findings,
        _survives,
    ),
    Experiment(
        "perturbation-tradeoff",
        "Zhang and Zhu (2016)",
        "Fig. 5-8",
        "How do loss and misclassification move with alpha, and which alpha is optimal?",
        SETTINGS,
        CHOSEN,
        _tradeoff,
        _tradeoff_charts,
        _tradeoff_findings,
        _survives,
    ),
]
