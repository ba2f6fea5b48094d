"""Findings that several experiments share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tacenda_papers.experiments.rows import Rows
from tacenda_papers.experiments.spec import PUBLISHED, SOUND, Finding

BETWEEN = "the claim lies between a lower and an upper bound"


def both_modes(rows: Rows, judge: Callable[[Rows, str], Finding]) -> list[Finding]:
    """The same question as published and sound."""
    return [judge(rows.where(mode=mode), mode) for mode in (PUBLISHED, SOUND)]


def falls(
    rows: Rows, mode: str, metric: str, x: str, claim: str, slack: float = 0.02, word: str = ""
) -> Finding:
    """The mean falls from the first to the last x (`word` in sentences), and never rises by more
    than `slack` of its whole fall."""
    part = rows.where(metric=metric).last()
    at, mean, _, _ = part.curve(x)
    if not len(at):
        return Finding(mode, claim, False, "No rows.")
    drop, rises = float(mean[0] - mean[-1]), float(np.max(np.diff(mean), initial=0.0))
    numbers = ", ".join(
        f"{value(part, **{x: a})} at {word or x.replace('_', ' ')} {a:g}" for a in at
    )
    errors = [part.error(**{x: a}) for a in (at[0], at[-1])]
    holds = drop > 0 and rises <= slack * max(drop, 1e-300)
    sure = apart(drop, *errors)
    if drop > 0 and not holds:  # it is the largest rise that decides
        k = int(np.argmax(np.diff(mean)))
        sure = apart(rises - slack * drop, *(part.error(**{x: a}) for a in at[k : k + 2]))
    first, last = (
        f"{value(part, **{x: a})} at {word or x.replace('_', ' ')} {a:g}" for a in (at[0], at[-1])
    )
    return Finding(
        mode, claim, holds, f"{numbers[0].upper()}{numbers[1:]}.", sure, f"{first}, {last}"
    )


def ranked(rows: Rows, mode: str, winner: str, claim: str, word: str = "") -> Finding:
    """`winner` has the lowest mean of the methods in the rows; word: the setting, for tables."""
    if winner not in rows.distinct("method"):
        return Finding(mode, claim, False, "No rows.")
    means = {name: rows.mean(method=name) for name in rows.distinct("method")}
    order = sorted(means, key=lambda name: means[name])
    detail = ", ".join(f"{name} {value(rows, method=name)}" for name in order)
    holds = order[0] == winner
    rival = order[1] if holds and len(order) > 1 else order[0]
    short = ", ".join(f"{m} {value(rows, method=m)}" for m in dict.fromkeys((winner, rival)))
    return Finding(
        mode,
        claim,
        holds,
        f"{detail}.",
        _apart(rows, winner, rival),
        f"{word}: {short}" if word else short,
    )


def below(rows: Rows, mode: str, better: str, worse: str, claim: str) -> Finding:
    """The mean of method `better` is below that of `worse`."""
    if not {better, worse} <= set(rows.distinct("method")):
        return Finding(mode, claim, False, "No rows.")
    holds = bool(rows.mean(method=better) < rows.mean(method=worse))
    detail = f"{better} {value(rows, method=better)}, {worse} {value(rows, method=worse)}."
    return Finding(mode, claim, holds, detail, _apart(rows, better, worse))


def value(rows: Rows, **equal: Any) -> str:
    """A mean with its standard error, if there are seeds enough to have one: "0.4652 ± 0.0004"."""
    return f"{rows.mean(**equal):.4g}{plus_minus(rows.error(**equal))}"


def plus_minus(error: float) -> str:
    """A standard error behind its mean: " ± 0.0004"; nothing if it is 0 or unknown."""
    return f" ± {error:.1g}" if error > 0 else ""


def _apart(rows: Rows, one: str, other: str) -> bool | None:
    gap = rows.mean(method=one) - rows.mean(method=other)
    return one == other or apart(gap, rows.error(method=one), rows.error(method=other))


def apart(gap: float, *errors: float) -> bool | None:
    """Whether a gap is at least two standard errors of its two sides; None where one of them is
    unknown, as that of a single run is. A side that is the same at every seed has an error of 0."""
    error = math.hypot(*errors)
    return None if math.isnan(error) else abs(gap) >= 2 * error


def within(rows: Rows, one: str, other: str, factor: float) -> tuple[bool, bool | None]:
    """Whether the means of two methods are within a factor of each other, and whether that is
    clear: how far the logarithm of their ratio is from that of the factor."""
    means, errors = ([of(method=m) for m in (one, other)] for of in (rows.mean, rows.error))
    away = abs(math.log(means[0] / means[1])) - math.log(factor)
    return away <= 0, apart(away, *(e / m for e, m in zip(errors, means, strict=True)))


def over_seeds(rows: Rows, statistic: Callable[[Rows], float]) -> tuple[float, float]:
    """The mean of a statistic of each seed's rows, and its standard error."""
    each = Rows({"value": statistic(rows.where(seed=s))} for s in rows.distinct("seed"))
    return each.mean(), each.error()


def jackknife(rows: Rows, statistic: Callable[[Rows], float]) -> tuple[float, float]:
    """A statistic of the rows of all seeds together, such as a spread over them, and its standard
    error: how much it changes when one seed is left out. NaN, unknown, for fewer than three."""
    seeds = rows.distinct("seed")
    if len(seeds) < 3:
        return statistic(rows), math.nan
    less = np.array([statistic(Rows(r for r in rows if r["seed"] != s)) for s in seeds])
    share = (len(seeds) - 1) / len(seeds)
    return statistic(rows), float(np.sqrt(share * ((less - less.mean()) ** 2).sum()))


def count(found: Sequence[Finding], mode: str) -> str:
    """How many of a mode's statements hold: "2 of 4"."""
    asked = [f for f in found if f.mode == mode]
    return f"{sum(f.holds for f in asked)} of {len(asked)}" if asked else "–"


def first_sentence(verdict: str) -> tuple[str, str]:
    """The first sentence of a verdict, and the rest of it."""
    first, _, rest = verdict.partition(". ")
    return first.rstrip(".") + ".", rest


def true_epsilons(rows: Rows) -> str:
    """One clause per method: what is claimed, and what the accountant finds."""
    told = []
    for name in rows.where(mode=PUBLISHED).distinct("method"):
        pairs = {
            (r["claimed_epsilon"], r["true_epsilon"])
            for r in rows.where(mode=PUBLISHED, method=name)
        }
        for claimed, true in sorted((p for p in pairs if p[0] is not None), key=lambda p: p[0])[
            -1:
        ]:
            each = " a round" if name in ("DVP", "PVP") or "Zhang and Zhu (2016)" in name else ""
            told.append(
                f"{name} claims {claimed:.3g}{each} and has {_marked(rows, name)}{true:.4g}"
            )
    return "; ".join(told)


def _marked(rows: Rows, name: str) -> str:
    """What stands before an epsilon that is an upper bound."""
    bounds = any(r.get("exact") is False for r in rows.where(mode=PUBLISHED, method=name))
    return "at most " if bounds else ""
