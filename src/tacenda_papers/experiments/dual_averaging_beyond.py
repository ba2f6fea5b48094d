"""Liu et al. (2022), what it names and does not measure: sparsity with an elastic net (Remark 2),
and edges that come and go."""

from __future__ import annotations

from typing import Any

from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.cells import TEST
from tacenda_papers.experiments.dual_averaging import (
    ALL,
    DELTA,
    DP,
    EVERY,
    FULL_ROUNDS,
    HELD_OUT,
    NODES,
    ONE,
    PAPER,
    shape_of,
)
from tacenda_papers.experiments.judging import apart, true_epsilons, value
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

L1_LEVELS = (0.0005, 0.002, 0.008)


LAST, MEAN = "last iterate", "the paper's average"


def _sparsity(size: Size) -> list[Cell]:
    rows, features = size.pick((4000, 20), (40_000, 200), (100_000, 400))
    data = {**shape_of(size)["data"], "rows": rows + HELD_OUT, "features": features}
    rounds = 3 * rows // NODES
    made = []
    for strength in L1_LEVELS[:: size.pick(2, 1, 1)]:
        for s in size.seed_list(2, 3, 3):
            for output, words in (("last", LAST), ("average", MEAN)):
                same: dict[str, Any] = {
                    **shape_of(size),
                    "data": data,
                    "problem": {
                        "loss": "hinge",
                        "regulariser": "elastic-net",
                        "strength": strength,
                    },
                    "metrics": ("zeros", "suboptimality", TEST),
                    "seed": s,
                    "settings": {"mixing": "uniform", "output": output},
                    "labels": {"level": strength},
                }
                one: dict[str, Any] = {"algorithm": {"name": "dpdda", **ONE}, "rounds": rounds}
                paper = {"paper": {"epsilon": 1.0, "delta": DELTA}}
                true = {"epsilon": 1.0, "delta": DELTA}
                all_records: dict[str, Any] = {"algorithm": EVERY, "rounds": FULL_ROUNDS}
                made += [
                    Cell(f"{DP}, no noise, {words}", NO_PRIVACY, **one, **same),
                    Cell(f"{DP}, {words}", PUBLISHED, privacy=paper, **one, **same),
                    Cell(f"{ALL}, {words}", SOUND, privacy=true, **all_records, **same),
                ]
    return made


def _sparsity_charts(rows: Rows) -> list[Any]:
    return [
        drawing.lines(
            drawing.with_reference(rows, mode),
            key=f"dda-sparsity-{mode[:2]}",
            title=f"Coefficients that are exactly 0, {mode}",
            metric="zeros",
            x="level",
            x_label="strength of the elastic net",
            y_label="share of exact zeros",
            tab=mode,
            x_log=True,
            percent=True,
        )
        for mode in (PUBLISHED, SOUND)
    ]


def _sparsity_findings(rows: Rows) -> list[Finding]:
    made = []
    top = max(rows.distinct("level"))
    zeros = rows.where(metric="zeros", level=top).last()
    for mode, name, word in (
        (PUBLISHED, f"{DP}, no noise", "without noise"),
        (PUBLISHED, DP, "with the published noise"),
        (SOUND, ALL, "with sound noise and all records"),
    ):
        last, mean = f"{name}, {LAST}", f"{name}, {MEAN}"
        made.append(
            Finding(
                mode,
                f"at strength {top:g} the last iterate has exact zeros {word}",
                zeros.mean(method=last) > 0,
                f"Share of exact zeros: last iterate {value(zeros, method=last)}, "
                f"the paper's average of all iterates {value(zeros, method=mean)}.",
                apart(zeros.mean(method=last), zeros.error(method=last)),
            )
        )
    right = rows.where(metric=TEST, level=top).last()
    last, mean = f"{DP}, no noise, {LAST}", f"{DP}, no noise, {MEAN}"
    gap = abs(right.mean(method=mean) - right.mean(method=last))
    made.append(
        Finding(
            PUBLISHED,
            "the last iterate is as accurate as the average within 0.01, without noise",
            gap <= 0.01,
            f"Test accuracy: last {value(right, method=last)}, "
            f"average {value(right, method=mean)}.",
            apart(gap - 0.01, right.error(method=mean), right.error(method=last)),
        )
    )
    return made


def _sparsity_verdict(found: list[Finding], rows: Rows) -> str:
    exact = [f for f in found if "has exact zeros" in f.claim]
    return (
        f"Composite dual averaging keeps exact zeros in {sum(f.holds for f in exact)} of "
        f"{len(exact)} cases, in its last iterate; the average of all iterates, "
        "which the paper returns, keeps only those that no iterate ever left. "
        f"{true_epsilons(rows)} (delta 0.01)."
    )


SHARES = (1.0, 0.5, 0.2)  # of the edges that are active in a round


def _varying(size: Size) -> list[Cell]:
    rows, features = size.pick((2000, 20), (40_000, 200), (40_000, 200))
    data = {**shape_of(size)["data"], "rows": rows + HELD_OUT, "features": features}
    made = []
    for share in SHARES[:: size.pick(2, 1, 1)]:
        for s in size.seed_list(1, 2, 3):
            edges = "metropolis" if share == 1 else {"edges": "random", "active": share}
            same: dict[str, Any] = {
                **shape_of(size),
                "data": data,
                "settings": {"mixing": edges},
                "metrics": ("suboptimality", "consensus"),
                "seed": s,
                "labels": {"level": share},
            }
            made += [
                Cell(
                    f"{DP}, no noise",
                    NO_PRIVACY,
                    algorithm={"name": "dpdda", **ONE},
                    rounds=3 * rows // NODES,
                    **same,
                ),
                Cell(
                    ALL,
                    SOUND,
                    algorithm=EVERY,
                    rounds=FULL_ROUNDS,
                    privacy={"epsilon": 1.0, "delta": DELTA},
                    **same,
                ),
            ]
    return made


def _varying_charts(rows: Rows) -> list[Any]:
    return [
        drawing.lines(
            rows,
            key=f"dda-varying-{metric[:3]}",
            title=f"{label.capitalize()} against the share of active edges",
            metric=metric,
            x="level",
            x_label="share of the edges that are active in a round",
            y_label=label,
            tab=label,
            y_log=True,
        )
        for metric, label in (
            ("suboptimality", "suboptimality"),
            ("consensus", "distance of the nodes' models from their average"),
        )
    ]


def _varying_findings(rows: Rows) -> list[Finding]:
    made = []
    last = rows.where(metric="suboptimality").last()
    for mode, name in ((PUBLISHED, f"{DP}, no noise"), (SOUND, ALL)):
        part = last.where(method=name)
        whole = part.where(level=1.0)
        for share in part.distinct("level")[:-1]:
            some = part.where(level=share)
            made.append(
                Finding(
                    mode,
                    f"with {share:g} of the edges active at random the average model of {name} is "
                    "as good as with all of them, within a tenth",
                    bool(some.mean() <= 1.1 * whole.mean()),
                    f"Suboptimality {value(some)}, with all edges {value(whole)}.",
                    apart(some.mean() - 1.1 * whole.mean(), some.error(), 1.1 * whole.error()),
                )
            )
    return made


def _varying_verdict(found: list[Finding], rows: Rows) -> str:
    held = sum(f.holds for f in found)
    apart_by = rows.where(metric="consensus").last()
    told = ", ".join(
        f"{apart_by.mean(level=share, method=ALL):.3g} with {share:g} of the edges"
        for share in sorted(apart_by.distinct("level"), reverse=True)
    )
    return (
        f"Over edges that come and go the average model is as good in {held} of {len(found)} "
        f"cases. How far the nodes are from it, at epsilon 1: {told}."
    )


EXPERIMENTS = [
    Experiment(
        "dda-sparsity",
        PAPER,
        "Remark 2",
        "Does dual averaging with an elastic net give exact zeros, also under noise?",
        "As in dda-convergence, with half of the strength on |x|_1 and half on |x|^2/2.",
        "The paper names the elastic net and measures nothing. Full: 100,000 x 400, "
        "strengths 0.0005, 0.002 and 0.008, 3 seeds. Each run is shown twice, by its last iterate "
        "and by the average that the paper returns.",
        _sparsity,
        _sparsity_charts,
        _sparsity_findings,
        _sparsity_verdict,
    ),
    Experiment(
        "dda-varying",
        PAPER,
        "section 1",
        "Does dual averaging withstand edges that come and go?",
        "Ring of 20 whose edges are active at random in each round: all of them, half, a fifth; "
        "40,000 x 200, spectrum k^-1, otherwise as in dda-convergence.",
        "The paper names changing networks as a reason for dual averaging and measures none. "
        "Metropolis weights of the active edges.",
        _varying,
        _varying_charts,
        _varying_findings,
        _varying_verdict,
    ),
]
