"""Private quantiles of a column by choices among public cells, and what they cost.

Each column is asked three questions. Each question chooses a cell of a public partition of the
numbers by the exponential mechanism (McSherry and Talwar 2007) on ranks (Smith 2011).

    centre   a two-digit number near the median
    low      the cell of the lower quantile, among steps that grow with the distance from the centre
    high     the cell of the upper quantile, likewise

A cell's distance is how far the quantile's rank is from the ranks inside the cell. One cell always
has distance 0, also where many values are equal. A record moves every distance by at most 1 when it
is replaced, added or removed, or when its value becomes missing. So a choice is epsilon-DP under
either relation, and `choice_charge` says what it costs beside Gaussian noise.

The quantile's rank is at least twice the mechanism's error away from the end. A cell beyond all
values is then chosen with a probability of at most CHANCE^2 / (cells * choices).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from tacenda import checks
from tacenda._types import Floats, Ints
from tacenda.data.columns import NumericColumn
from tacenda.data.label import Label
from tacenda.errors import InputError, PrivacyError
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.secrets.door import Choice, release_choice
from tacenda.privacy.secrets.ledger import Charges, Ledger
from tacenda.privacy.secrets.mechanisms import CHOICE_MU, choice_charge
from tacenda.words import counted

LEAST_TAIL, MOST_TAIL = Fraction(1, 100), Fraction(1, 5)
DECADES = range(-12, 18)  # sizes that are told apart where no range is declared
DIGITS = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")  # of a step, in each decade
STEPS = 200  # at most so many steps are the candidates within a declared range
CENTRE = 0.5  # epsilon of the choice of a centre, as a part of that of an end
CHANCE = 0.05  # that any of the ranks errs by more than is stated


def private_cell(
    values: Callable[[], Floats],
    edges: Floats,
    quantile: Fraction,
    epsilon: float,
    ledger: Ledger,
    place: tuple[int, int],
    *,
    pure: bool,
) -> int:
    """Choose a cell near the quantile of private values, charged to the ledger first.

    Cell i is [edges[i - 1], edges[i]), the first and last ones are unbounded. The edges are public
    and ascending; `place` is the turn and call of the charge.
    """
    choice = Choice(lambda: rank_distances(values(), edges, quantile), quantile.denominator)
    # A key for each: two choices of one stream would share its side stream
    return release_choice(choice, epsilon, ledger, AesStream.fresh(), *place, pure=pure)


def rank_distances(values: Floats, edges: Floats, quantile: Fraction) -> Ints:
    """Return how far the quantile's rank is from the ranks inside each cell, (k + 1,), in units of
    1 / denominator: a record moves each by at most the denominator. NaN counts as missing."""
    present = np.sort(values[~np.isnan(values)])
    unit, target = quantile.denominator, quantile.numerator * len(present)
    below = np.searchsorted(present, edges, "left").astype(np.int64) * unit
    first, last = np.append(0, below), np.append(below, unit * len(present))
    return np.maximum(0, np.maximum(first - target, target - last))


@dataclass(frozen=True)
class Price:
    """What the choices cost, and how far their ranks may err.

    Of a budget with parameter mu a later Gaussian release keeps mu^2 (1 - share); the choices share
    the rest. At delta = 0 epsilon itself is shared out.
    """

    epsilon: float
    delta: float
    share: float
    searches: tuple[Search, ...]
    end: float  # epsilon of one end's choice
    left: float  # epsilon for a later Gaussian release

    @classmethod
    def of(cls, epsilon: float, delta: float, share: float, searches: tuple[Search, ...]) -> Price:
        part = share / len(searches)
        if delta == 0:
            end, left = epsilon * part / (2 + CENTRE), epsilon * (1 - share)
        else:
            mu = gaussian_mu(epsilon, delta)
            end = mu * math.sqrt(part / (2 + CENTRE**2)) / CHOICE_MU
            left = GaussianProfile(mu * math.sqrt(1 - share)).epsilon(delta)
        return cls(epsilon, delta, share, searches, end, left)

    @property
    def pure(self) -> bool:
        """True if the budget allows no Gaussian."""
        return self.delta == 0

    @property
    def error(self) -> float:
        """By how many records an end's rank errs at most; with a chance of CHANCE any choice errs
        by more."""
        return self._error(self.end, max(search.end_cells for search in self.searches))

    @property
    def centre_error(self) -> float:
        """By how many records a centre's rank errs at most."""
        return self._error(CENTRE * self.end, max(len(s.centres) + 1 for s in self.searches))

    def _error(self, epsilon: float, cells: int) -> float:
        # A choice errs by r or more with a chance of at most cells * exp(-epsilon r / 2)
        return 2 / epsilon * math.log(cells * 3 * len(self.searches) / CHANCE)

    def charges(self) -> Charges:
        """Of each column a centre and two ends, in this order."""
        centre = choice_charge(CENTRE * self.end, self.pure)
        return Charges([(centre, 1), (choice_charge(self.end, self.pure), 2)] * len(self.searches))

    def tail(self, records: int) -> Fraction:
        """The smallest quantile whose rank is twice the error away from the end."""
        return Fraction(math.ceil(2000 * self.error / max(records, 1)), 1000)

    def finds(self, tail: Fraction, records: int) -> bool:
        """True if the ends' ranks are far enough out, and the centre will be among the values."""
        return self.tail(records) <= tail and 4 * self.centre_error <= records


def lower_tail(tail: float | None, price: Price, records: int | None) -> Fraction:
    """Return the lower quantile, as given or as small as the noise allows. Refuse what the budget
    cannot find. The number of records is None where it is private."""
    given = None
    if tail is not None:
        given = Fraction(checks.between("tail", tail, 0.0, 0.5)).limit_denominator(1000)
    if records is None:
        if given is None:
            raise InputError(
                "tail must be given under add-remove, where the number of records is private; "
                "0.05 is a usual choice."
            )
        return given
    most = MOST_TAIL if given is None else given
    if price.finds(most, records):
        return max(price.tail(records), LEAST_TAIL) if given is None else given

    def finds(epsilon: float, share: float) -> bool:
        return Price.of(epsilon, price.delta, share, price.searches).finds(most, records)

    enough = _least(lambda epsilon: finds(epsilon, price.share), price.epsilon, 1e6)
    larger = _least(lambda share: finds(price.epsilon, share), price.share, 0.5)
    ways = [f"epsilon {enough:.2g}"] if enough else []
    ways += [f"a share of {larger:.2g}"] if larger else []
    could = f"It would take {' or '.join(ways)}; otherwise ask" if ways else "Ask"
    raise PrivacyError(
        f"with {records} records a share of {price.share:g} of epsilon {price.epsilon:g} cannot "
        f"find the {float(most):.3g} quantiles of {counted(len(price.searches), 'column')}: a rank "
        f"may err by {math.ceil(price.error)} records. Nothing was spent. {could} for fewer "
        "columns (columns) or declare public ranges (within)."
    )


def _least(works: Callable[[float], bool], low: float, high: float) -> float | None:
    """Return the least number in (low, high] that works, rounded up to two digits, or None."""
    if not low < high or not works(high):
        return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if works(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 1)
    return math.ceil(high / unit) * unit


@dataclass(frozen=True)
class Search:
    """The public numbers among which one column's bounds are found."""

    centres: Floats
    same: bool  # True if the ends are found among the same numbers as the centre
    limits: tuple[float, float]

    @classmethod
    def of(cls, part: NumericColumn | Label, within: tuple[float, float] | None) -> Search:
        logarithm = isinstance(part, NumericColumn) and part.transform == "log1p"
        if within is not None:
            centres = _round_steps(part.name, within, logarithm)
            return cls(centres, True, (float(centres[0]), float(centres[-1])))
        top = float(_OFFSETS[-1])
        if logarithm:
            return cls(np.array([0.0, *map(float, _OFFSETS)]), True, (0.0, top))
        sizes = [float(f"{digits}e{k - 1}") for k in DECADES for digits in range(10, 100)]
        both = [-top, *(-size for size in reversed(sizes)), 0.0, *sizes, top]
        return cls(np.array(both), False, (-2 * top, 2 * top))

    @property
    def end_cells(self) -> int:
        """How many cells an end is chosen from, at most."""
        return len(self.centres) + 1 if self.same else len(_OFFSETS) + 3

    def edges(self, centre: float) -> Floats:
        """Public numbers, ascending, among which both ends are found."""
        if self.same:
            return self.centres
        here = Decimal(repr(centre))
        around = [float(here + sign * step) for step in _OFFSETS for sign in (-1, 1)]
        return np.unique([*around, centre, 0.0])

    def bounds(
        self, values: Callable[[], Floats], tail: Fraction, price: Price, ledger: Ledger, turn: int
    ) -> tuple[float, float]:
        """Return (low, high) of one column. All that is not a draw is post-processing."""
        # So many zeros are the answer of a column that is empty, and move no other one by more
        # than the error
        zeros = np.full(math.ceil(2 * price.centre_error), np.clip(0.0, *self.limits))
        cell = private_cell(
            lambda: np.append(values(), zeros), self.centres, Fraction(1, 2), CENTRE * price.end,
            ledger, (turn, 0), pure=price.pure,
        )  # fmt: skip
        centre = float(self.centres[max(cell - 1, 0)])
        edges = self.edges(centre)
        low, high = (
            sign * self._end(sign, values, centre, edges, tail, price, ledger, (turn, call))
            for call, sign in enumerate((1, -1), start=1)
        )
        return (low, high) if low < high else self._around(low)

    def _end(
        self,
        sign: int,
        values: Callable[[], Floats],
        centre: float,
        edges: Floats,
        tail: Fraction,
        price: Price,
        ledger: Ledger,
        place: tuple[int, int],
    ) -> float:
        """Return the lower end, or the negative of the upper one: the lower end of the column with
        all signs turned. A missing value counts as the centre."""

        def seen() -> Floats:
            found = values()
            return sign * np.where(np.isnan(found), centre, found)

        outer = np.sort(sign * edges[sign * edges <= sign * centre])
        cell = private_cell(seen, outer, tail, price.end, ledger, place, pure=price.pure)
        return float(outer[max(cell - 1, 0)])

    def _around(self, value: float) -> tuple[float, float]:
        """Bounds of a column of which nearly all values are equal, or missing."""
        room = abs(value) / 2 or 1.0
        low, high = self.limits
        return max(value - room, low), min(value + room, high)


_OFFSETS = [Decimal(f"{digits}e{k}") for k in DECADES for digits in DIGITS] + [
    Decimal(f"1e{DECADES.stop}")
]


def _round_steps(name: str, within: tuple[float, float], logarithm: bool) -> Floats:
    """Up to STEPS round steps of a public range, with its ends."""
    low, high = within
    if not (math.isfinite(high - low) and low < high):
        raise InputError(
            f"within[{name!r}] must be a finite range, low below high, not {low:g} to {high:g}."
        )
    if logarithm and low <= -1:
        raise InputError(f"within[{name!r}] must be above -1 for log1p, not {low:g}.")
    step = _round_step(max((high - low) / STEPS, 1e-300))
    places = max(0, 1 - math.floor(math.log10(step)))
    inside = [round(low + k * step, places) for k in range(1, math.ceil((high - low) / step))]
    return np.unique([low, *(x for x in inside if low < x < high), high])


def _round_step(least: float) -> float:
    """The first of ... 0.5, 1, 2, 5, 10, ... that is not below `least`."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(size * k for k in (1, 2, 5, 10) if k == 10 or size * k >= least)
