"""How readable a table will be, from public numbers alone: said before any budget is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacenda.algorithms.newton import HazardNewton
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.evaluation import private_intervals as intervals
from tacenda.graph import complete
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.runtime.spec import RunSpec
from tacenda.tables.asked import Asked
from tacenda.terms.method import Method

# Noise alone may move a share by so much, and a mean by so much of the declared range
MOST_SHARE, MOST_MEAN = 0.1, 0.05
LEVEL = 0.95


class NoisyTableWarning(UserWarning):
    """Columns of a table that the noise will leave unreadable."""


@dataclass(frozen=True)
class ForecastRow:
    """How far the noise will move the numbers of one column, for a group of average size.

    Parameters
    ----------
    column : str
        Its name.
    count : float
        Half of a 95 % interval of a count, in records.
    share : float
        Of a share of the group; for a number, of the rank of its median.
    mean : float or None
        Of a mean, in the column's unit; None for levels.
    excess : float
        How many times the noise is larger than what is readable: shares may move by 10 points,
        means by 5 % of the declared range.

    Examples
    --------
    >>> from tacenda.tables import ForecastRow
    >>> ForecastRow("ward", 12.0, 0.01, None, 0.1).readable
    True
    """

    column: str
    count: float
    share: float
    mean: float | None
    excess: float

    @property
    def readable(self) -> bool:
        """Whether the noise leaves something to read."""
        return self.excess <= 1.0


@dataclass(frozen=True)
class Forecast:
    """What a table will look like under a budget.

    Parameters
    ----------
    rows : tuple of ForecastRow
        Of each column.
    noise : float
        Standard deviation of the noise of each released number.
    group_size : float
        Average size of a group that it is about.

    Examples
    --------
    >>> from tacenda.tables import Forecast
    >>> Forecast((), 1.0, 100.0).unreadable
    ()
    """

    rows: tuple[ForecastRow, ...]
    noise: float
    group_size: float

    @classmethod
    def of(cls, asked: Asked, records: float, noise: float) -> Forecast:
        """With noise of this standard deviation on each released number."""
        statistic = asked.statistic
        # The group of records without one is hoped to be small
        size = records / max(len(asked.groups) - 1, 1)
        rows = []
        for k, column in enumerate(asked.columns):
            wide = intervals.quantile(LEVEL) * noise
            count = wide / statistic.scales[str(k)]
            # Half of the bins, added up, total known
            cells = (len(column.edges) + 2) / 4 if column.edges else 1.0
            share = count * math.sqrt(cells) / size
            mean = None if column.levels else wide / statistic.scales[f"{k} moments"] / size
            excess = max(share / MOST_SHARE, 0.0 if mean is None else mean / MOST_MEAN)
            unit = None if mean is None else mean * (column.high - column.low)
            rows.append(ForecastRow(column.name, count, share, unit, excess))
        return cls(tuple(rows), noise, size)

    @property
    def factor(self) -> float:
        """About how many times as much epsilon makes the least readable column readable."""
        return max(row.excess for row in self.rows)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Names of columns that the noise will leave unreadable."""
        return tuple(row.column for row in self.rows if not row.readable)


def forecast(
    asked: Asked, records: int, privacy: Privacy, nodes: int = 1, graph: Any = None
) -> Forecast:
    """Tell from public numbers alone how far noise will move the numbers of a table.

    Parameters
    ----------
    asked : Asked
        What the table asks.
    records : int
        Public number of records, or about how many there are.
    privacy : Privacy
        The budget.
    nodes : int, default=1
        Over how many members the records are spread.
    graph : Topology or None, default=None
        Which of them exchange masks; by default all with all.

    Examples
    --------
    >>> import tacenda as tc
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> asked = tc.tables.Asked.of(schema, by="ill")
    >>> tc.tables.forecast(asked, 5000, tc.Privacy(1.0)).unreadable
    ()
    >>> tc.tables.forecast(asked, 50, tc.Privacy(0.1)).unreadable
    ('age',)
    """
    statistic = asked.statistic
    topology = complete(nodes) if graph is None else graph
    facts = Facts.declared(
        records / nodes, len(asked.columns) + 1, nodes, adjacency=privacy.adjacency, loss="squared"
    )
    asking = StatisticRelease(statistic, noise_of(nodes))
    noise = planned_noise(asking, facts, topology, privacy)
    return Forecast.of(asked, records, noise)


def epsilon_of(privacy: Privacy) -> float:
    """The least epsilon of any node."""
    return float(np.min(np.asarray(0.0 if privacy.epsilon is None else privacy.epsilon, float)))


def enough(privacy: Privacy, factor: float) -> float:
    """The least epsilon whose noise is smaller by that factor, rounded up to two digits. Noise
    falls as mu grows, and epsilon grows faster than mu."""
    least = epsilon_of(privacy)
    if least > 0 and privacy.delta:
        mu = factor * gaussian_mu(least, privacy.delta)
        least = GaussianProfile(mu).epsilon(privacy.delta)
    else:
        least *= factor
    unit = 10.0 ** (math.floor(math.log10(max(least, 1e-9))) - 1)
    return math.ceil(least / unit * (1 - 1e-9)) * unit


def noise_of(nodes: int) -> str:
    """How noise is shared: one node has nobody to hide among."""
    return "independent" if nodes == 1 else "masked"


def planned_noise(
    algorithm: StatisticRelease | HazardNewton,
    facts: Facts,
    topology: Any,
    privacy: Privacy,
    rounds: int = 1,
) -> float:
    """Standard deviation of each number of the network's sum in a round, from public facts."""
    method = Method.of(algorithm, None, rounds=rounds)
    calibration = RunSpec.of(method, topology, facts, privacy).calibration
    assert calibration is not None
    plan = calibration.plan
    multipliers = plan.scale / np.sqrt(plan.weights[0])
    return facts.statistic_distance(algorithm.statistic) * math.sqrt(float((multipliers**2).sum()))
