"""Gauthier et al. (2020), what it claims and does not measure: convergence for every R < 1, and its
non-smooth examples."""

from __future__ import annotations

import math
from typing import Any

from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.concentrated import DELTA, LASSO, NETWORK, NODES, PAPER
from tacenda_papers.experiments.judging import apart, over_seeds, plus_minus, true_epsilons, value
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

DECAYS = (0.9, 0.95, 0.98, 0.99, 1.0)


FIRST_LEVEL = 1e-3


def _decays(size: Size) -> list[Cell]:
    """The level of the first round is the input, phi_1, as in the paper's Algorithm 1."""
    return [
        Cell(
            f"CDP-ADMM, {step}",
            PUBLISHED,
            {"name": "sparse-regression", "seed": 0},
            NODES,
            NETWORK,
            {
                "name": "cdpadmm",
                "penalty": 1.0,
                "proximal": 1.0,
                "variance_decay": decay,
                "regulariser_step": step,
            },
            size.pick(100, 400, 400),
            seed,
            problem={**LASSO, "clip_norm": 100.0},
            privacy={"paper": {"phi_1": FIRST_LEVEL, "delta": DELTA}},
            labels={"level": decay},
            metrics=("distance",),
            every=20,
        )
        for step in ("subgradient", "prox")
        for decay in DECAYS[:: size.pick(2, 1, 1)]
        for seed in size.seed_list(1, 3, 5)
    ]


def _decay_charts(rows: Rows) -> list[Any]:
    named = Rows({**r, "line": f"R = {r['level']:g}"} for r in rows)
    return [
        drawing.lines(
            named.where(method=name),
            key=f"cdp-decay-{name.split()[-1]}",
            title=f"Normalised error per iteration for every R, {name}",
            metric="distance",
            by="line",
            y_label="normalised error",
            tab=name,
            y_log=True,
        )
        for name in rows.distinct("method")
    ]


SETTLED = 1e-4  # of the normalised error, below which it need not fall further


def _decay_findings(rows: Rows) -> list[Finding]:
    """Converges: the mean error over the last quarter of the rounds is below half of that over the
    third one, or below `SETTLED`; the zero model has 50."""

    def quarters(run: Rows) -> tuple[float, float]:
        at, mean, _, _ = run.curve("round")
        third = mean[(at > at[-1] / 2) & (at <= 0.75 * at[-1])].mean()
        return float(third), float(mean[at > 0.75 * at[-1]].mean())

    def still_to_fall(run: Rows) -> float:
        third, fourth = quarters(run)
        return math.log(fourth / max(0.5 * third, SETTLED))

    made = []
    for name in rows.distinct("method"):
        for decay in rows.distinct("level"):
            part = rows.where(method=name, level=decay)
            third, fourth = quarters(part)
            end, true = part.last(), part.rows[0]["true_epsilon"]
            word = "keeps falling" if decay < 1 else "keeps falling without decay"
            made.append(
                Finding(
                    PUBLISHED,
                    f"the error of {name} {word}, R = {decay:g}",
                    fourth < max(0.5 * third, SETTLED),
                    f"Mean error {third:.3g} over the third quarter of the rounds, {fourth:.3g} "
                    f"over the last; {value(end)} at the end; accounted epsilon {true:.3g}.",
                    apart(*over_seeds(part, still_to_fall)),
                )
            )
    return made


def _decay_verdict(found: list[Finding], rows: Rows) -> str:
    below_one = [f for f in found if "without decay" not in f.claim]
    least = min(rows.distinct("level"))
    part = rows.where(level=least).last()
    return (
        f"In {sum(f.holds for f in below_one)} of {len(below_one)} cases with R below 1 the error "
        f"keeps falling. The price is privacy itself: at R = {least:g} the normalised error ends "
        f"at {min(part.values()):.2g}, with an accounted epsilon of "
        f"{min(r['true_epsilon'] for r in part):.3g} (delta 1e-5), beyond any meaning."
    )


NONSMOOTH: dict[str, dict[str, Any]] = {
    "absolute deviations, l1": {"regulariser": "l1"},
    "absolute deviations, |D w|_1": {"fused_lasso": True},
    "squares, |D w|_1": {"fused_lasso": True, **{k: LASSO[k] for k in ("loss", "clip_norm")}},
}


def _nonsmooth(size: Size) -> list[Cell]:
    rounds = size.pick(10, 200, 200)
    made = []
    for words, settings in NONSMOOTH.items():
        problem = {"loss": "absolute-deviation", "strength": 0.02, "data_norm": 10.0, **settings}
        for step in ("subgradient", "prox"):
            proximal = {"schedule": "power", "start": 1.0, "exponent": 0.5}
            same: dict[str, Any] = {
                "data": {"name": "sparse-regression", "seed": 0},
                "nodes": NODES,
                "graph": NETWORK,
                "problem": problem,
                "algorithm": {
                    "name": "cdpadmm",
                    "penalty": 0.5,
                    "proximal": proximal,
                    "variance_decay": 0.99,
                    "regulariser_step": step,
                },
                "metrics": ("objective",),
                "labels": {"example": words},
                "settings": {"output": "average"},
            }
            made += [
                Cell(
                    f"{step}, no noise",
                    NO_PRIVACY,
                    rounds=rounds,
                    every=rounds // 10,
                    seed=0,
                    **same,
                ),
                Cell(
                    f"{step}, no noise, five times the rounds",
                    NO_PRIVACY,
                    rounds=5 * rounds,
                    seed=0,
                    **same,
                ),
            ]
            budgets: list[tuple[str, dict[str, Any]]] = [(SOUND, {"epsilon": 5.0, "delta": DELTA})]
            if step == "subgradient":
                budgets.append((PUBLISHED, {"paper": {"phi": 10.0, "delta": DELTA}}))
            made += [
                Cell(step, mode, rounds=rounds, every=rounds // 10, seed=s, privacy=budget, **same)
                for mode, budget in budgets
                for s in size.seed_list(1, 3, 5)
            ]
    return made


def _gap(rows: Rows, method: str) -> tuple[float, float]:
    """What is left of the way from the first recorded objective to the least one found, and its
    standard error."""
    least = min(rows.last().values())
    free = rows.where(mode=NO_PRIVACY)
    start = max(free.where(round=min(free.distinct("round"))).values())
    end = rows.where(method=method).last()
    return (end.mean() - least) / (start - least), end.error() / (start - least)


def _nonsmooth_charts(rows: Rows) -> list[Any]:
    return [
        drawing.lines(
            rows.where(example=words),
            key=f"cdp-nonsmooth-{k}",
            title=f"Objective per iteration: {words}",
            metric="objective",
            y_label="objective",
            tab=words,
            y_log=True,
        )
        for k, words in enumerate(rows.distinct("example"))
    ]


def _nonsmooth_findings(rows: Rows) -> list[Finding]:
    made = []
    for words in rows.distinct("example"):
        part = rows.where(example=words)
        for step in ("subgradient", "prox"):
            near, _ = _gap(part, f"{step}, no noise")
            far, _ = _gap(part, f"{step}, no noise, five times the rounds")
            made.append(
                Finding(
                    PUBLISHED,
                    f"CDP-ADMM without noise solves {words} with the {step}",
                    far <= 0.05,
                    f"{near:.3g} of the way is left after the rounds, {far:.3g} after five times "
                    "as many; the least objective found counts as the end.",
                )
            )
        for mode in (PUBLISHED, SOUND):
            noisy = drawing.with_reference(part, mode)
            left, error = _gap(noisy, "subgradient")
            word = "phi 10" if mode == PUBLISHED else "epsilon 5"
            made.append(
                Finding(
                    mode,
                    f"at {word} CDP-ADMM goes more than half of the way: {words}",
                    left < 0.5,
                    f"{left:.3g}{plus_minus(error)} of the way is left (subgradient).",
                    apart(left - 0.5, error),
                )
            )
    return made


def _nonsmooth_verdict(found: list[Finding], rows: Rows) -> str:
    free = [f for f in found if "without noise solves" in f.claim]
    noisy = [f for f in found if "more than half" in f.claim]
    return (
        f"Without noise CDP-ADMM solves {sum(f.holds for f in free)} of {len(free)} non-smooth "
        f"examples; with noise it goes more than half of the way in "
        f"{sum(f.holds for f in noisy)} of {len(noisy)}. The absolute deviation has bounded "
        f"subgradients, so that its guarantee needs no clipping. {true_epsilons(rows)} "
        "(delta 1e-5)."
    )


EXPERIMENTS = [
    Experiment(
        "cdp-decay",
        PAPER,
        "section IV-C",
        "Does CDP-ADMM converge for every R below 1, and at what price?",
        "The Lasso of cdp-lasso, rho = 1, 400 rounds, R from 0.9 to 1; the input is the level of "
        "the first round, phi_1 = 0.001.",
        "Gradients are clipped at 100, which is never reached near the optimum. The paper's proof "
        "has no experiment. Both ways to take the regulariser are run.",
        _decays,
        _decay_charts,
        _decay_findings,
        _decay_verdict,
    ),
    Experiment(
        "cdp-nonsmooth",
        PAPER,
        "section I",
        "Does CDP-ADMM solve least absolute deviations and the generalised Lasso?",
        "The records of cdp-lasso; absolute deviations with |w|_1 and with |D w|_1, "
        "D the differences of neighbouring coordinates, and squares with |D w|_1; strength 0.02, "
        "rho = 0.5, proximal weight sqrt(t), R = 0.99, 200 rounds, average of the iterates.",
        "The paper names both examples and measures neither. The squared loss is clipped at 5; "
        "the absolute deviation is bounded by the records' norm of 10. The least objective found "
        "counts as the optimum; a test compares with a linear programme on a smaller problem.",
        _nonsmooth,
        _nonsmooth_charts,
        _nonsmooth_findings,
        _nonsmooth_verdict,
    ),
]
