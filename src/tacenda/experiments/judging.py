"""Findings that several experiments share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacenda.experiments.rows import Rows
from tacenda.experiments.spec import PUBLISHED, SOUND, Finding


def both_modes(rows: Rows, judge: Callable[[Rows, str], Finding]) -> list[Finding]:
    """The same question as published and sound."""
    return [judge(rows.where(mode=mode), mode) for mode in (PUBLISHED, SOUND)]


def falls(rows: Rows, mode: str, metric: str, x: str, claim: str, slack: float = 0.02) -> Finding:
    """The mean falls from the first to the last x, and never rises by more than `slack` of its whole fall in between."""
    at, mean, _, _ = rows.where(metric=metric).last().curve(x)
    drop = float(mean[0] - mean[-1]) if len(mean) else 0.0
    rises = float(np.max(np.diff(mean), initial=0.0))
    detail = ", ".join(f"{v:.4g} at {x.replace('_', ' ')} {a:g}" for a, v in zip(at, mean, strict=True))
    return Finding(
        mode,
        claim,
        drop > 0 and rises <= slack * max(drop, 1e-300),
        f"{detail[0].upper()}{detail[1:]}." if detail else "No rows.",
    )


def ranked(rows: Rows, mode: str, winner: str, claim: str) -> Finding:
    """`winner` has the lowest mean of the methods in the rows."""
    means = {name: rows.mean(method=name) for name in rows.distinct("method")}
    order = sorted(means, key=lambda name: means[name])
    detail = ", ".join(f"{name} {means[name]:.4g}" for name in order)
    return Finding(mode, claim, bool(order) and order[0] == winner, f"{detail}.")


def below(rows: Rows, mode: str, better: str, worse: str, claim: str) -> Finding:
    """The mean of method `better` is below that of `worse`."""
    a, b = rows.mean(method=better), rows.mean(method=worse)
    return Finding(mode, claim, bool(a < b), f"{better} {a:.4g}, {worse} {b:.4g}.")


def true_epsilons(rows: Rows) -> str:
    """One clause per method: what the print claims and what is true."""
    told = []
    for name in rows.where(mode=PUBLISHED).distinct("method"):
        pairs = {(r["claimed_epsilon"], r["true_epsilon"]) for r in rows.where(mode=PUBLISHED, method=name)}
        for claimed, true in sorted((p for p in pairs if p[0] is not None), key=lambda p: p[0])[-1:]:
            each = " a round" if name.endswith(("DVP", "PVP")) else ""
            told.append(f"{name} claims {claimed:.3g}{each} and truly has {true:.3g}")
    return "; ".join(told)
