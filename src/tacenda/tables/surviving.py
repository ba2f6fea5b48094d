"""`survival`: one charged release of a life table, and the curves that follow from it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.data.cells import life_cells
from tacenda.data.label import Survival
from tacenda.data.readers import read_table
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, PrivacyError
from tacenda.evaluation import private_intervals as intervals
from tacenda.graph import complete
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.facts import Facts
from tacenda.questions.tables import TableSums, rows_of
from tacenda.tables.asked import EVERYONE, NO_GROUP, group_places, levels_of
from tacenda.tables.describing import declared_size, placed, released_sum
from tacenda.tables.forecasting import (
    LEVEL,
    MOST_SHARE,
    NoisyTableWarning,
    enough,
    epsilon_of,
    noise_of,
    planned_noise,
)
from tacenda.tables.survival_curves import TIMES, SurvivalCurves, statistic_of


def survival(
    schema: Schema,
    data: Any,
    privacy: Privacy | None,
    *,
    by: str | None = None,
    points: Sequence[float] | None = None,
    times: str = TIMES[0],
    nodes: int = 1,
    public_size: int | None = None,
    noisy: str = "refuse",
    level: float = 0.95,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> SurvivalCurves:
    """Estimate survival of the records of a network privately: a simulation over its nodes.

    Each record is in one cell of a life table: the event in a period, or last seen in it. The
    network's table is released once, with noise. Kaplan-Meier and Nelson-Aalen curves, numbers at
    risk, medians, restricted means and the log-rank test follow from it.

    Parameters
    ----------
    schema : Schema
        Its [survival] names the columns of time and event, and the time points.
    data : str, Path, Table or frame
        The records, as for `describe`.
    privacy : Privacy or None
        Budget of all curves together; None is not private.
    by : str or None, default=None
        A column with levels that divides the records into groups.
    points : sequence of float or None, default=None
        Other time points than the schema's, from public knowledge. Fewer carry less noise.
    times : {"between points", "on points"}, default="between points"
        Whether times lie anywhere, or on the points alone, as where all are whole weeks.
    nodes : int, default=1
        Over how many nodes the records are spread, where the schema names no node column.
    public_size : int or None, default=None
        Under "add-remove", where the number of records is private: about how many there are.
    noisy : {"refuse", "keep"}, default="refuse"
        What happens where noise alone would move survival by more than 10 points, by public
        numbers: an error, or a warning. Both come before anything is spent.
    level : float, default=0.95
        Confidence level of the intervals.
    seed : int or None, default=None
        Of the simulated noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger, charged before noise is drawn.
    dataset : str or None, default=None
        Name of the records' account there.

    Raises
    ------
    PrivacyError
        If the curves would be unreadable, or the account has too little budget left.

    Examples
    --------
    >>> import numpy as np
    >>> import tacenda as tc
    >>> time = np.random.default_rng(0).exponential(10, 3000).round(2) + 0.01
    >>> table = {"t": np.minimum(time, 12.0), "e": np.where(time < 12, "1", "0")}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "t", "low": 0, "high": 12}],
    ...     label={"name": "e", "classes": ["0", "1"]},
    ...     survival={"time": "t", "event": "e", "points": [2, 4, 6, 8, 10, 12]},
    ... )
    >>> found = tc.survival(schema, table, tc.Privacy(1.0), nodes=4, seed=0)
    >>> median = found.median()
    >>> bool(median.low < 6.93 < median.high)
    True
    """
    checks.one_of("noisy", noisy, ("refuse", "keep"))
    asked = AskedCurves.of(schema, by, points, times)
    statistic = asked.statistic
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    asked.require(schema, table)
    rows = asked.rows(schema, table)
    problem = placed(rows, schema, table, nodes, declared_size(privacy, public_size))
    if privacy is not None:
        facts = Facts.of(problem, privacy.adjacency)
        asking = StatisticRelease(statistic, noise_of(problem.n_nodes))
        noise = planned_noise(asking, facts, complete(problem.n_nodes), privacy)
        _readable(asked, noise, float(facts.sizes.sum()), privacy, noisy)
    total, noise, records, promise, about = released_sum(
        statistic, problem, privacy, seed, (ledger, dataset), table.source
    )
    return asked.curves(total, noise, records, promise, level, about)


@dataclass(frozen=True)
class AskedCurves:
    """What survival curves ask of the records, from a schema alone; groups: as in
    `SurvivalCurves`."""

    survival: Survival
    by: str | None
    groups: tuple[str, ...]
    times: str

    @classmethod
    def of(
        cls,
        schema: Schema,
        by: str | None = None,
        points: Sequence[float] | None = None,
        times: str = TIMES[0],
    ) -> AskedCurves:
        """Decide what is asked; arguments: as for `survival`."""
        checks.one_of("times", times, TIMES)
        groups = (EVERYONE,) if by is None else (*levels_of(schema, by), NO_GROUP)
        return cls(survival_of(schema, points), by, groups, times)

    @property
    def statistic(self) -> TableSums:
        """The question to each record."""
        return statistic_of(len(self.groups), len(self.survival.points))

    def require(self, schema: Schema, table: Table) -> None:
        """Refuse a table without the columns."""
        for name in (self.survival.time, self.survival.event, self.by, schema.person):
            if name is not None and name not in table.columns:
                raise InputError(f"{table.source} lacks the column {name!r}, which is asked for.")

    def rows(self, schema: Schema, table: Table) -> Floats:
        """Make each record's row; none is refused."""
        group = np.zeros(len(table), np.int64)
        if self.by is not None:
            group = group_places(schema, self.by, table)
        return rows_of(self.statistic, group, [life_cells(self.survival, schema, table)])

    def noise_reach(self, noise: float, records: float) -> float:
        """How far noise alone moves survival at the end, with 95 %; records: of all groups."""
        size = records / max(len(self.groups) - 1, 1)
        std = noise / self.statistic.scales["0"]
        return intervals.quantile(LEVEL) * std * math.sqrt(len(self.survival.points)) / size

    def curves(
        self,
        total: Floats,
        noise: float,
        records: int | None,
        privacy: Statement | None,
        level: float,
        about: dict[str, Any],
    ) -> SurvivalCurves:
        """What a released sum tells."""
        asked = self.survival
        about |= {"time": asked.time, "event": asked.event, "by": self.by}
        return SurvivalCurves(
            self.groups, asked.points, total, noise, records, privacy, self.times, level, about
        )


def survival_of(schema: Schema, points: Sequence[float] | None) -> Survival:
    """The schema's [survival], maybe at other points."""
    if schema.survival is None:
        raise InputError(
            f"schema {schema.name!r} has no [survival]; name time, event and points there."
        )
    if points is None:
        return schema.survival
    fields = {**schema.survival.model_dump(), "points": tuple(points)}
    try:
        return Survival(**fields)
    except ValueError:
        raise InputError(f"points must be rising and above 0, not {tuple(points)}.") from None


def _readable(
    asked: AskedCurves, noise: float, records: float, privacy: Privacy, noisy: str
) -> None:
    size, points = records / max(len(asked.groups) - 1, 1), len(asked.survival.points)
    wide = asked.noise_reach(noise, records)
    if wide <= MOST_SHARE:
        return
    said = (
        f"with about {size:.0f} records in a group and {points} time points, noise at epsilon "
        f"{epsilon_of(privacy):g} alone would move survival by about {100 * wide:.0f} points"
    )
    if noisy == "keep":
        warnings.warn(f"{said}.", NoisyTableWarning, stacklevel=3)
        return
    raise PrivacyError(
        f"{said}. Nothing was spent. Declare fewer points or groups; an epsilon of about "
        f"{enough(privacy, wide / MOST_SHARE):.2g} would do; or set noisy='keep' (--noisy keep)."
    )
