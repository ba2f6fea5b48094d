"""Huang and Gong (2020), Figure 2: the number of inner steps, with the weight (23) and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacenda.report import Column, TextTable
from tacenda_papers.experiments import drawing
from tacenda_papers.experiments.ipadmm import (
    PAPER,
    SETTINGS,
    SLOPE,
    budget_of,
    noise_told,
    shape_of,
)
from tacenda_papers.experiments.judging import apart, below, plus_minus, value
from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Cell, Experiment, Finding, Size

SMALL_SLOPE = 0.01  # c2 = 1 for 100 nodes: no bound on the slope, tried beside it


def step_name(slope: float, diameter: float, rounds: int) -> str:
    """ "IPADMM, c2/n = 1, D = 20, T = 10" """
    return f"IPADMM, c2/n = {slope:g}, D = {diameter:g}, T = {rounds}"


CONSTANT = "IPADMM, constant step"


def _inner(size: Size) -> list[Cell]:
    few = size.pick((1, 5, 15), (1, 25), (1, 5, 25))
    steps: list[tuple[str, dict[str, Any], int, tuple[int, ...]]] = [
        (
            step_name(slope, diameter, rounds),
            {"proximal": "theory", "diameter": diameter, "objective_slope": slope},
            rounds,
            few if rounds < 100 else (few[0], few[-1]),
        )
        for rounds in size.pick((5, 15), (10, 30), (10, 30, 100))
        for diameter in size.pick((20.0,), (20.0,), (20.0, 80.0))
        for slope in (SLOPE, SMALL_SLOPE)
    ]
    many = size.pick(few, few, (1, 2, 5, 10, 15, 20, 25))
    steps.insert(0, (CONSTANT, {"proximal": 1.0}, size.pick(15, 30, 30), many))
    return [
        Cell(
            name,
            mode,
            algorithm={"name": "ipadmm", "penalty": 0.001, "inner_steps": k, **step},
            seed=seed,
            privacy=budget_of(mode, 1.0),
            labels={"inner_steps": k},
            **{**shape_of(size), "rounds": rounds},
        )
        for name, step, rounds, counts in steps
        for mode in (PUBLISHED, SOUND)
        for k in counts
        for seed in size.seed_list(2, 5, 10 if rounds < 100 else 4)
    ]


def _inner_charts(rows: Rows) -> list[Any]:
    kinds = (f"c2/n = {SLOPE:g},", f"c2/n = {SMALL_SLOPE:g},", "constant step")
    made = []
    for k, kind in enumerate(kinds):
        names = [m for m in rows.distinct("method") if kind in m]
        part = Rows(r for r in rows if r["method"] in names)
        made += [
            drawing.lines(
                part.where(mode=mode),
                key=f"ipadmm-inner-{mode[:2]}-{k}",
                title=f"Risk against the number of inner steps, {kind.strip(',')}, {mode}, "
                "epsilon 1",
                metric="objective",
                x="inner_steps",
                x_label="l, inner steps a round",
                y_label="empirical risk of the average model",
                tab=f"{kind.strip(',')}, {mode}",
            )
            for mode in (PUBLISHED, SOUND)
        ]
    return made


def _more_steps(rows: Rows, mode: str, name: str) -> Finding:
    """Whether the largest number of inner steps ends below the smallest."""
    part = rows.where(mode=mode, method=name, metric="objective").last()
    steps = part.distinct("inner_steps")
    if len(steps) < 2:
        return Finding(mode, f"more inner steps lower the risk ({name})", False, "No rows.")
    first, last = ({"inner_steps": k} for k in (steps[0], steps[-1]))
    gain = part.mean(**first) - part.mean(**last)
    detail = ", ".join(f"{value(part, inner_steps=k)} at l = {k}" for k in steps)
    return Finding(
        mode,
        f"more inner steps lower the risk ({name})",
        gain > 0,
        f"Risk {detail}.",
        apart(gain, part.error(**first), part.error(**last)),
        f"{name.removeprefix('IPADMM, ')}: {value(part, **first)} at l = {steps[0]}, "
        f"{value(part, **last)} at l = {steps[-1]}",
    )


def _many_beat_short(rows: Rows, mode: str, name: str) -> Finding:
    """Whether many steps with the paper's constant beat one step with the small one."""
    last, first = max(rows.distinct("inner_steps")), min(rows.distinct("inner_steps"))
    other = name.replace(f"c2/n = {SLOPE:g},", f"c2/n = {SMALL_SLOPE:g},")
    pair = rows.where(
        lambda r: (r["method"], r["inner_steps"]) in ((name, last), (other, first)), mode=mode
    ).last()
    setting = name.partition(f"c2/n = {SLOPE:g}, ")[2]
    found = below(
        pair,
        mode,
        name,
        other,
        f"l = {last} with c2/n = {SLOPE:g} ends below l = {first} with c2/n = {SMALL_SLOPE:g} "
        f"({setting})",
    )
    short = f"{setting}: {value(pair, method=name)} against {value(pair, method=other)}"
    return replace(found, short=short)


def _inner_findings(rows: Rows) -> list[Finding]:
    names = rows.distinct("method")
    own = [name for name in names if f"c2/n = {SLOPE:g}," in name]
    return [
        *(_more_steps(rows, mode, name) for mode in (PUBLISHED, SOUND) for name in names),
        *(_many_beat_short(rows, mode, name) for mode in (PUBLISHED, SOUND) for name in own),
    ]


def _inner_survives(found: list[Finding], rows: Rows) -> str:
    def told(part: str) -> str:
        asked = [f for f in found if f.mode == SOUND and part in f.claim]
        clear = sum(f.clear for f in asked)
        return f"in {sum(f.holds for f in asked)} of {len(asked)} settings ({clear} clearly)"

    constant = next(f for f in found if f.mode == SOUND and "constant" in f.claim)
    return (
        "At equal epsilon more inner steps lower the risk "
        f"{told(f'(IPADMM, c2/n = {SLOPE:g}')} with the weight (23) and the paper's own c2 = n, "
        f"{told(f'(IPADMM, c2/n = {SMALL_SLOPE:g}')} with c2 = n/100, and with a constant "
        f"proximal weight they {'do' if constant.holds else 'do not'} too. "
        "The weight (23) grows with sqrt(k) sqrt((c2/n)^2 + d s^2), and the noise s with "
        "sqrt(T l): where the noise is the larger term, T l steps have nearly the same length in "
        "all for every l; where c2/n is, more steps go further. That gain is one of a step that "
        "is too short without them: many steps with c2 = n end below a single one with c2 = n/100 "
        f"{told('ends below l')}. {noise_told(rows)}"
    )


def _inner_table(rows: Rows) -> list[TextTable]:
    """One line for each setting: the risk at every l, and the gain from the first to the last."""
    part = rows.where(metric="objective").last()
    steps = part.distinct("inner_steps")
    columns = [
        *(Column(t) for t in ("mode", "setting")),
        *(Column(f"l = {k}", True) for k in steps),
        Column("gain", True),
        Column("accounted epsilon", True),
    ]
    lines = []
    for mode in (PUBLISHED, SOUND):
        for name in part.distinct("method"):
            own = part.where(mode=mode, method=name)
            gain = own.mean(inner_steps=steps[0]) - own.mean(inner_steps=steps[-1])
            error = np.hypot(own.error(inner_steps=steps[0]), own.error(inner_steps=steps[-1]))
            risks = [
                value(own, inner_steps=k) if k in own.distinct("inner_steps") else "" for k in steps
            ]
            lines.append(
                [
                    mode,
                    name.removeprefix("IPADMM, "),
                    *risks,
                    f"{gain:.4f}{plus_minus(error)}",
                    f"{own.rows[0]['true_epsilon']:.4g}",
                ]
            )
    return [TextTable("Empirical risk by the number of inner steps l, epsilon 1", columns, lines)]


EXPERIMENTS = [
    Experiment(
        "ipadmm-inner",
        PAPER,
        "Fig. 2",
        "Do more inner steps lower the risk?",
        SETTINGS + " epsilon = 1, l = 1 to 25.",
        "The paper gives neither T nor D, so T = 10, 30 and 100 and D = 20 and 80 are all run, "
        "each with c2/n = 1 (section 5.4 of the paper) and with c2/n = 0.01, and c0 = 1. Beside "
        "(23) a constant proximal weight of 1 with T = 30. Ten seeds, four where T = 100. "
        "Reduced: T = 10 and 30, D = 20. "
        "Quick runs use 2,000 generated records of 20 features on 20 nodes.",
        _inner,
        _inner_charts,
        _inner_findings,
        _inner_survives,
        _inner_table,
    )
]
