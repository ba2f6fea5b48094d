"""`hazard_ratios`: Cox's model in groups, privately, with intervals for the population."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array, Floats
from tacenda.algorithms.newton import HazardNewton
from tacenda.data.cells import level_places, missing_cells, readable_numbers
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.label import Survival
from tacenda.data.readers import read_table
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, PrivacyError
from tacenda.graph import complete
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.facts import Facts
from tacenda.questions.hazards import BOUND, HazardMoments, hazard_rows
from tacenda.runtime.simulate import simulate
from tacenda.tables.describing import SIMULATED, declared_size, placed
from tacenda.tables.effects import FAR, HazardRatios
from tacenda.tables.forecasting import (
    NoisyTableWarning,
    enough,
    epsilon_of,
    noise_of,
    planned_noise,
)
from tacenda.tables.surviving import survival_of

ROUNDS = 6
# Of one effect, for each record, with one column: half have the event, and features vary by 0.1
USUAL_CURVATURE = 0.05
UNBOUNDED = 1e6  # without noise


def hazard_ratios(
    schema: Schema,
    data: Any,
    privacy: Privacy | None,
    *,
    columns: Sequence[str] | None = None,
    points: Sequence[float] | None = None,
    rounds: int = ROUNDS,
    nodes: int = 1,
    public_size: int | None = None,
    noisy: str = "refuse",
    level: float = 0.95,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> HazardRatios:
    """Fit Cox's model in groups over a network: hazard ratios with intervals, privately.

    The hazard of each period has a baseline of its own, and features multiply it (the
    complementary log-log link of a period's chance). With many periods it is Cox's model. Gradient
    and curvature of a whole record are one bounded vector, so that ties and long times cost nothing
    more. Newton's method asks for their sum a few times, under one budget; the last rounds also
    tell the intervals.

    Parameters
    ----------
    schema : Schema
        Bounds and levels of the columns; its [survival] names time, event and points.
    data : str, Path, Table or frame
        The records, as for `describe`. One with a missing value counts as never at risk.
    privacy : Privacy or None
        Budget of all rounds together; None is not private.
    columns : sequence of str or None, default=None
        Columns whose effects are asked; None: all but time and event.
    points : sequence of float or None, default=None
        Other ends of the periods than the schema's.
    rounds : int, default=6
        Releases, at least 4. The first finds the baseline, two approach the optimum, and all others
        are averaged.
    nodes : int, default=1
        Over how many nodes the records are spread, where the schema names no node column.
    public_size : int or None, default=None
        Under "add-remove", where the number of records is private: about how many there are.
    noisy : {"refuse", "keep"}, default="refuse"
        What happens where the noise will probably hide all effects, by public numbers, if half of
        the records have the event: an error, or a warning. Both come before anything is spent.
    level : float, default=0.95
        Confidence level of the intervals.
    seed : int or None, default=None
        Of the simulated noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger, charged before noise is drawn.
    dataset : str or None, default=None
        Name of the records' account there.

    Returns
    -------
    HazardRatios
        Effects with intervals.

    Raises
    ------
    InputError
        If the schema names no survival, or a column is missing.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> rng = np.random.default_rng(1)
    >>> arm = rng.choice(["old", "new"], 8000)
    >>> time = rng.exponential(np.where(arm == "new", 8.0, 4.0))
    >>> table = {"arm": arm, "t": np.minimum(time, 6.0), "e": np.where(time < 6, "1", "0")}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "categorical", "name": "arm", "levels": ["old", "new"]}],
    ...     label={"name": "e", "classes": ["0", "1"]},
    ...     survival={"time": "t", "event": "e", "points": [1, 2, 3, 4, 5, 6]},
    ... )
    >>> effect = tc.hazard_ratios(schema, table, tc.Privacy(2.0), seed=0).effects[0]
    >>> effect.name, effect.low < 0.5 < effect.high
    ('arm=new', True)
    """
    asked = AskedEffects.of(schema, columns, points, privacy is not None)
    checks.whole("rounds", rounds, least=4)
    checks.one_of("noisy", noisy, ("refuse", "keep"))
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    asked.require(table)
    statistic, rows = asked.statistic, asked.rows(schema, table)
    problem = placed(rows, schema, table, nodes, declared_size(privacy, public_size))
    asking = HazardNewton(statistic, noise_of(problem.n_nodes))
    if privacy is not None:
        facts = Facts.of(problem, privacy.adjacency)
        noise = planned_noise(asking, facts, complete(problem.n_nodes), privacy, rounds)
        _readable(asked, noise, float(facts.sizes.sum()), rounds, privacy, noisy)
    result = simulate(
        problem,
        complete(problem.n_nodes),
        asking,
        rounds=rounds if privacy is not None else max(rounds, 12),
        privacy=privacy,
        seed=seed,
        record_every=0,
        metrics=(),
        progress=False,
        init=statistic.start,
        ledger=ledger,
        dataset=dataset,
    )
    about: dict[str, Any] = {"data": table.source}
    if privacy is not None:
        about |= {"simulation": SIMULATED, "charged": ledger is not None}
    private = privacy is not None and privacy.adjacency == "add-remove"
    records = None if private else int(np.sum(problem.sizes))
    return asked.ratios(result.released, records, result.privacy, level, about)


@dataclass(frozen=True)
class AskedEffects:
    """What hazard ratios ask of the records, from a schema alone.

    names, slopes: as in `HazardRatios`; bound: to which a record's part of the sums is shortened.
    """

    survival: Survival
    columns: tuple[CategoricalColumn | NumericColumn, ...]
    names: tuple[str, ...]
    slopes: tuple[float, ...]
    bound: float = BOUND

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        points: Sequence[float] | None = None,
        private: bool = True,
    ) -> AskedEffects:
        """Decide what is asked; arguments: as for `hazard_ratios`."""
        asked = survival_of(schema, points)
        parts = {c.name: c for c in schema.columns if c.name not in (asked.time, asked.event)}
        wanted = list(parts) if columns is None else list(columns)
        for name in wanted:
            checks.one_of("columns", name, list(parts))
        if not wanted or len(set(wanted)) < len(wanted):
            raise InputError(f"columns must name distinct columns, at least one, not {wanted}.")
        chosen = tuple(parts[name] for name in wanted)
        found = [pair for part in chosen for pair in _named(part, 1 / math.sqrt(len(chosen)))]
        names, slopes = zip(*found, strict=True)
        return cls(asked, chosen, names, slopes, BOUND if private else UNBOUNDED)

    @property
    def statistic(self) -> HazardMoments:
        """The question to each record."""
        return HazardMoments(len(self.names), len(self.survival.points), self.bound)

    def require(self, table: Table) -> None:
        """Refuse a table without the columns."""
        for name in (*(c.name for c in self.columns), self.survival.time, self.survival.event):
            if name not in table.columns:
                raise InputError(f"{table.source} lacks the column {name!r}, which is asked for.")

    def rows(self, schema: Schema, table: Table) -> Floats:
        """Make each record's row; none is refused. One with a missing value is never at risk."""
        whole, made, slopes = np.ones(len(table), bool), [], iter(self.slopes)
        for part in self.columns:
            if isinstance(part, CategoricalColumn):
                place = level_places(schema, part.name, part.levels, table)
                whole &= place >= 0
                made += [next(slopes) * (place == k) for k in _beside_reference(part)]
                continue
            x, (low, high) = readable_numbers(schema, part.name, table, part.date), _ends(part)
            whole &= ~np.isnan(x)
            x = np.clip(x, part.low, part.high)
            x = np.log1p(x) if part.transform == "log1p" else x
            made.append(next(slopes) * (x - (low + high) / 2))
        seen = exposures(self.survival, schema, table)
        seen[~whole] = 0.0
        return hazard_rows(np.where(whole[:, None], np.column_stack(made), 0.0), seen)

    def ratios(
        self,
        released: dict[str, Array],
        records: int | None,
        privacy: Statement | None,
        level: float,
        about: dict[str, Any],
    ) -> HazardRatios:
        """What the released sums tell."""
        return HazardRatios(
            self.names,
            self.slopes,
            self.survival.points,
            np.asarray(released["totals"], float),
            np.asarray(released["models"], float),
            float(released["noise"][0]),
            records,
            privacy,
            self.bound,
            level,
            about | {"time": self.survival.time, "event": self.survival.event},
        )


def _beside_reference(part: CategoricalColumn) -> list[int]:
    reference = part.levels.index(part.reference or part.levels[0])
    return [k for k in range(len(part.levels)) if k != reference]


def _ends(part: NumericColumn) -> tuple[float, float]:
    """Bounds, after the transform."""
    if part.transform == "log1p":
        return math.log1p(part.low), math.log1p(part.high)
    return part.low, part.high


def _named(part: CategoricalColumn | NumericColumn, scale: float) -> list[tuple[str, float]]:
    """Name and slope of each of a column's features, of norm at most `scale` together."""
    if isinstance(part, CategoricalColumn):
        return [(f"{part.name}={part.levels[k]}", scale) for k in _beside_reference(part)]
    low, high = _ends(part)
    name = f"log1p({part.name})" if part.transform == "log1p" else part.name
    return [(name, 2 * scale / (high - low))]


def _excess(asked: AskedEffects, noise: float, records: float, rounds: int) -> float:
    spread = noise * asked.statistic.units[1] / math.sqrt(rounds - 1)
    curvature = USUAL_CURVATURE * records / len(asked.columns)
    return 2 * FAR * spread * math.sqrt(len(asked.names)) / curvature


def hidden_by(asked: AskedEffects, records: int, privacy: Privacy, rounds: int = ROUNDS) -> float:
    """How many times too large the noise of one site alone is for its effects to show; above 1 it
    probably hides all of them."""
    facts = Facts.declared(
        records, asked.statistic.width, 1, adjacency=privacy.adjacency, loss="squared"
    )
    newton = HazardNewton(asked.statistic, noise_of(1))
    noise = planned_noise(newton, facts, complete(1), privacy, rounds)
    return _excess(asked, noise, records, rounds)


def _readable(
    asked: AskedEffects, noise: float, records: float, rounds: int, privacy: Privacy, noisy: str
) -> None:
    """Say what the noise will probably hide, and refuse it, before anything is spent."""
    excess = _excess(asked, noise, records, rounds)
    if excess <= 1:
        return
    said = f"noise at epsilon {epsilon_of(privacy):g} would probably hide all effects"
    if noisy == "keep":
        warnings.warn(f"{said}.", NoisyTableWarning, stacklevel=3)
        return
    raise PrivacyError(
        f"{said}. Nothing was spent. Ask for fewer columns; an epsilon of about "
        f"{enough(privacy, excess):.2g} would do; or set noisy='keep' (--noisy keep)."
    )


def exposures(asked: Survival, schema: Schema, table: Table) -> Floats:
    """(n, T) the part of each period that a record was seen at risk, or -1 for its event."""
    time = readable_numbers(schema, asked.time, table)
    happened = level_places(schema, asked.event, asked.spellings, table) >= 0
    ends = np.array(asked.points)
    starts = np.append(0.0, ends[:-1])
    good = (time > 0) & ~missing_cells(schema, asked.event, table)
    t = np.where(good, np.nan_to_num(time), 0.0)
    seen = np.clip((t[:, None] - starts) / (ends - starts), 0.0, 1.0)
    at = np.searchsorted(ends, t)
    events = good & happened & (at < len(ends))
    seen[events, at[events]] = -1.0
    return np.asarray(seen)
