"""How large the derivatives of a loss really are, asked before `GradientMoments`: noise is sized by
what derivatives are cut to, and declarations allow far larger ones than most records have.

One record's vector says in which of BINS bins, each 1/sqrt(2) of the one before, the sizes of its
l' and of its l'' are. From the released counts follow, walking down from the largest bin,

    S   the last edge at which what is cut is not clearly more than ALLOWED of the error that
        sampling and noise leave to a gradient
    C   the same for l'', of which COVERED is kept

Where noise hides how many records lie beyond an edge, none are taken to: a tail that cannot be seen
may bias the estimates, so the share that was cut is released with the sums and is a condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacenda import checks, losses
from tacenda._types import Array, Floats
from tacenda.inference.statistics import GradientMoments
from tacenda.questions.counts import Counts
from tacenda.questions.statistics import FirstStatistic, Records, Statistic, register

BINS = 20
EDGES = tuple(2.0 ** (-k / 2) for k in range(1, BINS))  # of a size over the largest one
SHARE = 0.2  # of the question's budget (mu^2)
ALLOWED = 0.25  # bias of a gradient, in its standard errors
EXCESS = 0.3  # mean excess of what is beyond a cut, over the cut
TYPICAL_CUT = 3.0  # cut over the standard deviation of what is cut
MOST_CUT = 0.01
TYPICAL_BEND = 4.0  # the cut of l'' over its mean
COVERED = 0.98  # of the mean curvature
CLEARLY = 0.75, 1.0  # standard deviations of noise: of a share, of a mean excess


@register
@dataclass(frozen=True)
class LossScales(Counts, FirstStatistic):
    """In which bins the sizes of a record's first and second derivative are.

    Parameters
    ----------
    loss : str
        Name of a smooth loss of one score.
    options : tuple of pairs, default=()
        The loss's own settings, as (name, value).
    slope : float, default=1.0
        Upper edge of the first bin of l'; larger ones are in it too.
    bend : bool, default=False
        Whether l'' is asked too; the upper edge is the loss's bound.

    Examples
    --------
    >>> from tacenda.inference import LossScales
    >>> LossScales("poisson", bend=True).length
    40
    """

    name: ClassVar[str] = "loss scales"

    loss: str
    options: tuple[tuple[str, Any], ...] = ()
    slope: float = 1.0
    bend: bool = False

    def __post_init__(self) -> None:
        checks.positive("LossScales.slope", self.slope)

    @property
    def _loss(self) -> Any:
        return losses.by_name(self.loss, **dict(self.options))

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the loss."""
        return (self._loss.kind,)

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        return dict.fromkeys(self._tops, (1, BINS))

    @property
    def need(self) -> dict[str, float]:
        return dict.fromkeys(self._tops, 1.0)

    @property
    def _tops(self) -> dict[str, float]:
        """Upper edge of the first bin of each table."""
        tops = {"slopes": self.slope}
        return {**tops, "bends": float(self._loss.curvature)} if self.bend else tops

    def vectors(self, records: Records, model: Floats) -> Array:
        loss, s = self._loss, records.scores(model)[:, 0]
        sizes = {"slopes": np.abs(loss.derivative(s, records.labels))}
        if self.bend:
            sizes["bends"] = np.asarray(loss.second(s, records.labels))
        # Edges fall from bin to bin; NaN is in the first one
        cells = {k: np.digitize(sizes[k] / top, EDGES, True) for k, top in self._tops.items()}
        return self.filled(cells, (), np.full(len(s), True))

    def then(self, asked: Statistic, total: Floats, std: float, records: float) -> GradientMoments:
        """Return the question with its cuts by what was released: a public rule.

        asked: the question. total: shape (length,), the released sum. std: standard deviation of
        its noise. records: how many there are, known in public.
        """
        assert isinstance(asked, GradientMoments)
        shares = {name: part[0] / records for name, part in self.parts(total).items()}
        noise = std * self.factors()["slopes"] / records
        cut = self._cut(asked, shares["slopes"], noise, std / records, records)
        found = replace(asked, slope=cut)
        if self.bend:
            found = replace(found, bend=self._bend(shares["bends"], noise))
        return found

    def _cut(
        self, asked: GradientMoments, shares: Floats, noise: float, std: float, records: float
    ) -> float:
        """S. std: that of a released mean of norm 1, with the budget of this statistic."""
        blocks = asked.shares["gradient"] * (1.0 - SHARE) / SHARE
        apart = asked.replaced / self.replaced
        error = math.hypot(std * apart / math.sqrt(blocks), 1 / (TYPICAL_CUT * math.sqrt(records)))
        allowed = ALLOWED * error
        edges = _edges(self.slope)
        found = edges[0]
        for k in range(1, BINS):
            beyond = shares[:k]
            over = _middles(self.slope)[:k] / edges[k] - 1.0
            share, excess = float(beyond.sum()), float(beyond @ over)
            if share > min(allowed / EXCESS, MOST_CUT) + CLEARLY[0] * noise * math.sqrt(k):
                break
            if excess > allowed + CLEARLY[1] * noise * float(np.linalg.norm(over)):
                break
            found = edges[k]
        return float(found)

    def _bend(self, shares: Floats, noise: float) -> float:
        """C."""
        top = self._tops["bends"]
        edges, middles = _edges(top), _middles(top)
        mean = max(float(np.maximum(shares, 0.0) @ middles), 0.0)
        found = edges[0]
        for k in range(1, BINS):
            over = middles[:k] - edges[k]
            missed = CLEARLY[1] * noise * float(np.linalg.norm(over))
            if float(shares[:k] @ over) > (1.0 - COVERED) * mean + missed:
                break
            found = edges[k]
        return float(found)


def _edges(top: float) -> Floats:
    """(BINS,) the upper edges."""
    return np.asarray(top * 2.0 ** (-np.arange(BINS) / 2))


def _middles(top: float) -> Floats:
    return _edges(top) * 2.0**-0.25


def scales_of(asked: GradientMoments) -> LossScales | None:
    """Return what to ask before `asked`; None where the loss's own bound is no far guess: that of
    two classes, whose l' is near it for every record that is hard to tell."""
    loss = losses.by_name(asked.loss, **dict(asked.options))
    if loss.predicts == "value":
        return LossScales(asked.loss, asked.options, asked.slope)
    if loss.predicts == "log-rate":
        return LossScales(asked.loss, asked.options, asked.slope, bend=True)
    return None


def expected(asked: GradientMoments) -> GradientMoments:
    """Return `asked` with the cuts that a typical table would get."""
    typical = losses.by_name(asked.loss, **dict(asked.options)).typical
    size = TYPICAL_CUT * math.sqrt(2.0 * typical.scatter * typical.curvature)
    found = replace(asked, slope=min(asked.slope, size))
    if asked.bend is not None:
        found = replace(found, bend=min(asked.most_bend, TYPICAL_BEND * typical.curvature))
    return found
