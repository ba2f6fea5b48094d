"""`HazardRatios`: effects on the hazard, from released sums alone."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from tacenda._types import Array, Floats
from tacenda.evaluation import private_intervals as intervals
from tacenda.privacy.statement import Statement
from tacenda.questions.hazards import BOUND, HazardMoments, Information
from tacenda.tables.saving import save
from tacenda.tables.text import bracketed

FORMAT = "tacenda-hazard-ratios-1"
FAR = 2.0  # times the noise that a curvature must be above what steps are made with
SETTLED = 3  # rounds after which the model is near the optimum, and steps are averaged


@dataclass(frozen=True)
class Effect:
    """One effect on the hazard.

    Parameters
    ----------
    name : str
        A column, or "column=level" for a level beside the reference.
    ratio : float
        Hazard ratio for one unit of the column, or of the level beside the reference.
    low : float
        Lower end of its interval.
    high : float
        Upper end.
    p_value : float
        Chance of such an estimate where there is no effect.
    known : bool, default=True
        Whether the noise leaves anything to know.

    Examples
    --------
    >>> from tacenda.tables import Effect
    >>> Effect("age", 1.02, 1.01, 1.03, 0.001).known
    True
    """

    name: str
    ratio: float
    low: float
    high: float
    p_value: float
    known: bool = True


@dataclass(frozen=True, eq=False)
class HazardRatios:
    """Effects on the hazard, from a few released sums; nothing here costs further privacy.

    Parameters
    ----------
    names : tuple of str
        Of the effects.
    slopes : tuple of float
        By how much each feature rises with one unit.
    points : tuple of float
        Ends of the periods.
    totals : ndarray
        Released sums, one row for each round.
    models : ndarray
        The model at which each was asked.
    noise : float
        Standard deviation of the noise of each number.
    records : int or None
        Public number of records; None where it is private.
    privacy : Statement or None
        What the releases guarantee together; None without noise.
    bound : float, default=1.5
        To which a record's part of the sums was shortened.
    level : float, default=0.95
        Confidence level of the intervals.
    about : dict, default={}
        Plain public values: what was asked.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> rng = np.random.default_rng(0)
    >>> dose = rng.uniform(0, 1, 20_000)
    >>> time = rng.exponential(4 * np.exp(-1.0 * dose))
    >>> table = {"dose": dose, "t": np.minimum(time, 6.0), "e": np.where(time < 6, "1", "0")}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "dose", "low": 0, "high": 1}],
    ...     label={"name": "e", "classes": ["0", "1"]},
    ...     survival={"time": "t", "event": "e", "points": [1, 2, 3, 4, 5, 6]},
    ... )
    >>> found = tc.hazard_ratios(schema, table, tc.Privacy(1.0), nodes=4, seed=0)
    >>> found.effects[0].low < np.exp(1.0) < found.effects[0].high
    True
    """

    names: tuple[str, ...]
    slopes: tuple[float, ...]
    points: tuple[float, ...]
    totals: Array
    models: Array
    noise: float
    records: int | None
    privacy: Statement | None
    bound: float = BOUND
    level: float = 0.95
    about: dict[str, Any] = field(default_factory=dict)

    def at(self, level: float) -> HazardRatios:
        """The same with intervals of another level.

        level: such as 0.9.
        """
        return replace(self, level=level)

    @property
    def statistic(self) -> HazardMoments:
        """What was asked of every record."""
        return HazardMoments(len(self.names), len(self.points), self.bound)

    @cached_property
    def _estimate(self) -> tuple[Floats, Floats, bool]:
        """Model (d,), the effects' covariance for noise and sampling (p, p), and whether they are
        known."""
        asked, last = self.statistic, len(self.totals) - 1
        settled = min(SETTLED, last) if self.noise > 0 else last
        parts = [asked.taken_apart(total) for total in self.totals[min(1, settled) :]]
        bent = np.mean([h for _, h in parts[-1 if self.noise == 0 else 0 :]], axis=0)
        found = Information.of(asked, bent, self.noise / math.sqrt(len(parts)))
        count = last + 1 - settled
        steps = [found.step(gradient) for gradient, _ in parts[-count:]]
        model = np.mean(self.models[settled:] - np.array(steps), axis=0)
        # Noise of the curvature, times how far the models were from where the steps lead
        moved = float((np.mean(steps, axis=0) ** 2).sum())
        by_curvature = (self.noise * asked.units[1]) ** 2 / len(parts) * moved
        by_gradient = (self.noise * asked.units[0]) ** 2 / count
        covariance = found.covariance(by_gradient + by_curvature)
        # All or none: a direction that noise hides bends the others too
        known = bool(found.values.min() > FAR * found.floor)
        return model, covariance, known

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """Hazard ratios with intervals and p-values."""
        model, covariance, known = self._estimate
        z, found = intervals.quantile(self.level), []
        for k, (name, slope) in enumerate(zip(self.names, self.slopes, strict=True)):
            value, error = model[k] * slope, math.sqrt(max(covariance[k, k], 0.0)) * abs(slope)
            if not known or not error > 0:
                found.append(Effect(name, math.nan, 0.0, math.inf, math.nan, known=False))
                continue
            ends = (value - z * error, value + z * error)
            low, high = (math.exp(min(max(e, -700.0), 700.0)) for e in ends)
            chance = 2 * float(ndtr(-abs(value) / error))
            found.append(Effect(name, math.exp(value), low, high, chance))
        return tuple(found)

    @property
    def coefficients(self) -> Floats:
        """Logarithms of the ratios, (p,)."""
        return self._estimate[0][: len(self.names)] * np.array(self.slopes)

    @property
    def baseline(self) -> Floats:
        """Cumulative hazard at each point where all features are 0 after encoding, (T,)."""
        return np.cumsum(np.exp(self._estimate[0][len(self.names) :]))

    def lines(self) -> list[list[str]]:
        """Of each effect: name, ratio, interval, p-value."""
        rows = []
        for e in self.effects:
            if not e.known:
                rows.append([e.name, "–", "too noisy", ""])
                continue
            p = "< 0.0001" if e.p_value < 1e-4 else f"{e.p_value:.4f}"
            rows.append([e.name, f"{e.ratio:.4g}", f"{e.low:.4g} to {e.high:.4g}", p])
        return rows

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        out = ["| effect | hazard ratio | p |", "| --- | ---: | ---: |"]
        out += [f"| {n} | {bracketed((v, ends))} | {p} |" for n, v, ends, p in self.lines()]
        return "\n".join(out) + "\n"

    @property
    def csv(self) -> str:
        """One line for each effect."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["effect", "ratio", "low", "high", "p_value", "known"])
        for e in self.effects:
            writer.writerow(
                [e.name, *(f"{x:.8g}" for x in (e.ratio, e.low, e.high, e.p_value)), e.known]
            )
        return out.getvalue()

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: what was released, and the effects that follow from it.
        """
        return {
            "format": FORMAT,
            "names": list(self.names),
            "slopes": list(self.slopes),
            "points": list(self.points),
            "totals": np.asarray(self.totals).tolist(),
            "models": np.asarray(self.models).tolist(),
            "noise": float(self.noise),
            "records": self.records,
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "bound": self.bound,
            "level": self.level,
            "about": self.about,
            "effects": [
                {k: None if isinstance(v, float) and not math.isfinite(v) else v
                 for k, v in asdict(e).items()}
                for e in self.effects
            ],
        }  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write the table as .html, .csv, .md or .json.

        path: its ending says which.
        """
        from tacenda.tables.pages import hazard_page

        return save(self, path, hazard_page)

    def __repr__(self) -> str:
        return f"HazardRatios({', '.join(self.names)}; {len(self.points)} periods)"
