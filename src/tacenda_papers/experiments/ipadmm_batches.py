"""Huang and Gong (2020), Note 1: a batch of the records in every step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda.report import Column, TextTable
from tacenda_papers.experiments import drawing, note_one
from tacenda_papers.experiments.ipadmm import (
    DELTA,
    INNER_STEPS,
    PAPER,
    SETTINGS,
    algorithm_of,
    budget_of,
    shape_of,
)
from tacenda_papers.experiments.judging import BETWEEN, apart, value
from tacenda_papers.experiments.rows import Row, Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Cell, Experiment, Finding, Size


def _batches(size: Size) -> list[Cell]:
    whole = size.pick(100, 452, 452)
    sizes = size.pick((50, 1), (226, 45, 5, 1), (226, 45, 10, 5, 2, 1))
    return [
        Cell(
            "IPADMM",
            mode,
            algorithm={**algorithm_of(INNER_STEPS), **({} if b == whole else {"batch_size": b})},
            seed=seed,
            privacy=budget_of(mode, 1.0),
            labels={"batch": b},
            **{**shape_of(size), "rounds": size.pick(10, 30, 30)},
        )
        for mode in (PUBLISHED, SOUND)
        for b in (whole, *sizes)
        for seed in size.seed_list(2, 2, 10)
    ]


def _batch_charts(rows: Rows) -> list[Any]:
    return [
        drawing.lines(
            rows,
            key="ipadmm-batches",
            title="Risk against the records of a step, epsilon 1",
            metric="objective",
            x="batch",
            x_label="b, records of a step at each node",
            y_label="empirical risk of the average model",
            tab="risk",
            x_log=True,
        ),
        drawing.lines(
            Rows({**r, "value": r["true_epsilon"]} for r in rows.where(mode=PUBLISHED)),
            key="ipadmm-batches-true",
            title="Accounted epsilon of the noise as published, where epsilon 1 is claimed",
            metric="objective",
            x="batch",
            x_label="b, records of a step at each node",
            y_label="accounted epsilon at delta 1e-5",
            tab="accounted epsilon",
            x_log=True,
            y_log=True,
        ),
    ]


def _batch_findings(rows: Rows) -> list[Finding]:
    part = rows.where(metric="objective").last()
    sizes = sorted(part.distinct("batch"), reverse=True)
    whole, made = sizes[0], []
    for mode in (PUBLISHED, SOUND):
        own = part.where(mode=mode)
        for b in sizes[1:]:
            loss = own.mean(batch=b) - own.mean(batch=whole)
            made.append(
                Finding(
                    mode,
                    f"batches of {b} records end within 1 % of the risk of all {whole}",
                    abs(loss) <= 0.01 * own.mean(batch=whole),
                    f"Risk {value(own, batch=b)}, with all {value(own, batch=whole)}.",
                    apart(
                        abs(loss) - 0.01 * own.mean(batch=whole),
                        own.error(batch=b),
                        own.error(batch=whole),
                    ),
                    f"b = {b}: {value(own, batch=b)}, all {value(own, batch=whole)}",
                )
            )
    for b in sizes[1:]:
        one = part.where(mode=PUBLISHED, batch=b).rows[0]
        least, most, claimed = *_with_replacement(one, whole), one["claimed_epsilon"]
        numbers = f"claimed {claimed:g}, really {note_one.told((least, most))}"
        made.append(
            Finding(
                PUBLISHED,
                f"the claimed epsilon holds for batches of {b}, drawn with replacement",
                most <= claimed,
                f"{numbers.capitalize()}; Poisson samples {one['true_epsilon']:.4g}.",
                most <= claimed or least > claimed,
                f"b = {b}: {numbers}",
                BETWEEN,
            )
        )
    return made


def _with_replacement(row: Row, whole: int) -> tuple[float, float]:
    """The least and the most that the epsilon of a published row can be with the paper's
    sampling."""
    return note_one.epsilons(
        whole, row["batch"], row["round"], INNER_STEPS, row["claimed_epsilon"], DELTA
    )


def _batch_table(rows: Rows) -> list[TextTable]:
    titles = (
        "mode",
        "records of a step",
        "risk",
        "seconds a run",
        "data passes",
        "accounted epsilon, Poisson samples",
        "with replacement",
    )
    part = rows.where(metric="objective").last()
    whole, lines = max(part.distinct("batch")), []
    for mode in (PUBLISHED, SOUND):
        for b in sorted(part.distinct("batch"), reverse=True):
            own = part.where(mode=mode, batch=b)
            one = own.rows[0]
            lines.append(
                [
                    mode,
                    str(b),
                    value(own),
                    f"{np.median([r['seconds'] for r in own]):.2g}",
                    f"{one['round'] * INNER_STEPS * b / whole:.3g}",
                    f"{one['true_epsilon']:.4g}",
                    note_one.told(_with_replacement(one, whole))
                    if mode == PUBLISHED and b < whole
                    else "",
                ]
            )
    columns = [Column(t, k > 0) for k, t in enumerate(titles)]
    return [
        TextTable("Batches: risk, median time of a run, and the accounted epsilon", columns, lines)
    ]


def _batch_survives(found: list[Finding], rows: Rows) -> str:
    part = rows.where(metric="objective").last()
    sizes = sorted(part.distinct("batch"), reverse=True)
    true = {
        b: _with_replacement(part.where(mode=PUBLISHED, batch=b).rows[0], sizes[0])
        for b in sizes[1:]
    }
    claimed = part.where(mode=PUBLISHED).rows[0]["claimed_epsilon"]
    broken = [b for b in sizes[1:] if true[b][0] > claimed]
    free = [
        str(b)
        for b in sizes[1:]
        if any(
            f.holds and f.mode == SOUND and f.claim.startswith(f"batches of {b} ") for f in found
        )
    ]
    first = (
        f"Batches of {', '.join(free)} of {sizes[0]} records cost no risk at equal epsilon"
        if free
        else f"Batches cost risk at equal epsilon (of {sizes[0]} records)"
    )
    second = (
        "as published their noise is that of all records, which is too little for batches of "
        f"{', '.join(f'{b} (epsilon at least {true[b][0]:.3g})' for b in broken)} drawn with "
        f"replacement, where {claimed:g} is claimed for all records"
        if broken
        else f"no pair of data sets tried breaks the claimed epsilon {claimed:g} at these sizes"
    )
    return f"{first}; {second}."


EXPERIMENTS = [
    Experiment(
        "ipadmm-batches",
        PAPER,
        "Note 1",
        "What do batches cost in risk and in privacy?",
        SETTINGS + " epsilon = 1, l = 10, T = 30; Poisson samples of mean b of a node's 452 "
        "records.",
        "Note 1 replaces the gradient by that of a batch and says nothing of the noise: as "
        "published it is that of all records. D = 80 and c2/n = 1 as in Figure 1; T = 30. Runs "
        "draw Poisson samples; the paper draws b records with replacement, whose epsilon is "
        "bounded from both sides without a run: by a pair of data sets, and by an upper bound. "
        "The time of a run was measured on a machine that did other work.",
        _batches,
        _batch_charts,
        _batch_findings,
        _batch_survives,
        _batch_table,
    )
]
