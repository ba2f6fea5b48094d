"""What a measure says of itself: its formulas, how it is shown, and how coarse it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tacenda.evaluation.private_intervals import Estimate
from tacenda.evaluation.released import Release
from tacenda.runtime.metrics import hundredths

# Where a measure is shown beside the complete tables
NOWHERE, IN_RESULTS, IN_HEADLINES = 0, 1, 2


class Told(NamedTuple):
    """What a release tells about a measure: where its interval reaches both limits, nothing."""

    estimate: Estimate
    limits: tuple[float, float]
    note: str = ""


@dataclass(frozen=True)
class Measure:
    """How a measure is computed, called and shown.

    name: its key in tables and files; with `test_` before it, on test records. digits: decimals,
    or significant digits where it has the label's unit. share: between 0 and 1, shown in per cent
    where accuracies are. why: when it is not defined.

    of: what a loss must predict (`Loss.predicts`) for it. on_records: its value on a sample of
    records, None where they do not define it. on_counts: what a release tells about it, None where
    another statistic was released. coarse: how it is rounded where the number of records is
    private. place: where it is shown beside the complete tables.
    """

    name: str
    title: str
    digits: int
    more_is_better: bool
    share: bool = False
    has_unit: bool = False
    why: str = ""
    of: tuple[str, ...] = ()
    on_records: Callable[[Any], float | None] | None = None
    on_counts: Callable[[Release], Told | None] | None = None
    coarse: Callable[[float], float] = hundredths
    place: int = NOWHERE

    @property
    def heading(self) -> str:
        """The title as a heading."""
        return self.title[0].upper() + self.title[1:]

    def text(self, value: float) -> str:
        """The value with as many digits as are of use."""
        if not self.has_unit:
            return f"{value:.{self.digits}f}"
        return (
            f"{value:.0f}" if abs(value) >= 10 ** (self.digits - 1) else f"{value:.{self.digits}g}"
        )
