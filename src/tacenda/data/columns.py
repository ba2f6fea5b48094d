"""The columns of a schema: how a number or a level becomes features, and back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tacenda._types import Floats
from tacenda.data.basis import PAIR_FUNCTIONS, Hats, on_knots, pair_smoother

# A declared scale or period so small beside the bounds is a slip of the pen, not a unit.
MOST_SCALES = 1e3
MOST_TURNS = 1e6


class Part(BaseModel):
    """A frozen part of a schema, which refuses fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class FeatureRule:
    """How one encoded feature follows from the raw value.

    feature = offset + slope * quantity. A coefficient w of the feature is therefore w * slope for
    each unit of the quantity. Values are clipped to the declared bounds first; a missing one gives
    `offset` + slope * quantity of the declared impute value, or 0 where only the indicator speaks
    of it.

    Parameters
    ----------
    feature : str
        Name of the encoded feature.
    column : str or None
        Column that it comes from; None for the intercept.
    quantity : str
        What is multiplied, in words: "income", "log1p(income)", "sin(2 pi hour / 24)", "ward is
        'north'" (1 or 0), "income is missing" (1 or 0) or "1" for the intercept.
    offset : float
        Value of the feature where the quantity is 0.
    slope : float
        Change of the feature for each unit of the quantity.

    Examples
    --------
    >>> import tacenda as tc
    >>> age = tc.data.NumericColumn(name="age", low=0, high=100)
    >>> age.rules[0].slope
    0.01
    """

    feature: str
    column: str | None
    quantity: str
    offset: float
    slope: float


class NumericColumn(Part):
    """A number, clipped to public bounds, transformed and scaled.

    Parameters
    ----------
    kind : "numeric", default="numeric"
        In files; fixed.
    name : str
        Name of the column in the table.
    low : float
        Public lower bound.
    high : float
        Public upper bound.
    transform : {"clip", "log1p", "standardise", "cyclic"}, default="clip"
        "clip" keeps the number as it is; "log1p" takes log(1 + x) before scaling, for amounts
        that are mostly small; "standardise" is (x - centre) / scale with both declared;
        "cyclic" gives two features, the sine and cosine of x by the declared period, so that
        hour 23 is near hour 0.
    scale_to : {"unit", "symmetric"}, default="unit"
        For "clip" and "log1p". "unit" is [0, 1] (a value at `low` costs no norm: right where
        most values are there, as counts are), "symmetric" is [-1, 1] (a value in the middle
        costs none: right otherwise, and far quicker to learn from).
    centre : float or None, default=None
        Of "standardise".
    scale : float or None, default=None
        Of "standardise".
    period : float or None, default=None
        Of "cyclic".
    date : {"ymd", "dmy", "mdy"} or None, default=None
        The cells are dates in this order of year, month and day, maybe with a time, and are read
        as years: 2013-07-02 12:00 is 2013.5, and bounds, period and `impute` are years too.
    impute : float or None, default=None
        The public value that replaces a missing one.
    two_valued : bool, default=False
        Whether every value is `low` or `high`, as in a column of 0 and 1. Private bounds are then
        not asked for: the two values are public, like the levels of a category.
    missing_indicator : bool, default=False
        One more feature, 1 where the value is missing; such a record is then never dropped, and
        its number is `impute`, or 0 after encoding where none is declared.
    hats : int or None, default=None
        Hat functions (`tacenda.data.basis`) that take the number's place, on knots spread evenly
        over the declared range as `transform` shows it: logarithmically with "log1p", around
        the period with "cyclic". None leaves it to the model: none in a linear one; 0 keeps the
        column linear in an additive one, too.
    breaks : tuple of float or None, default=None
        The inner knots of the hats, in the column's own unit, instead of evenly spread ones.
    atoms : tuple of float, default=()
        Values with a level of their own in an additive model, such as 0 of an amount that most do
        not have: at one, its indicator takes the hats' place.
    monotone : {"increasing", "decreasing"} or None, default=None
        In an additive model the curve is made to rise or to fall after the fit.
    confirmed : bool, default=True
        Whether somebody confirmed that the bounds are public.
    source : str, default=""
        Where the bounds come from.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.NumericColumn(name="hour", low=0, high=24, transform="cyclic", period=24).features
    ('sin(hour)', 'cos(hour)')
    """

    kind: Literal["numeric"] = "numeric"
    name: str = Field(min_length=1)
    low: float
    high: float
    transform: Literal["clip", "log1p", "standardise", "cyclic"] = "clip"
    scale_to: Literal["unit", "symmetric"] = "unit"
    centre: float | None = None
    scale: float | None = None
    period: float | None = None
    date: Literal["ymd", "dmy", "mdy"] | None = None
    impute: float | None = None
    two_valued: bool = False
    missing_indicator: bool = False
    hats: int | None = Field(default=None, ge=0)
    breaks: tuple[float, ...] | None = None
    atoms: tuple[float, ...] = ()
    monotone: Literal["increasing", "decreasing"] | None = None
    confirmed: bool = True
    source: str = ""

    @model_validator(mode="after")
    def _bounds(self) -> NumericColumn:
        ordered(self.name, self.low, self.high)
        if self.impute is not None and not self.low <= self.impute <= self.high:
            span = f"[{self.low:g}, {self.high:g}]"
            raise ValueError(f"column {self.name!r}: impute must be in {span}, not {self.impute:g}")
        return self

    @model_validator(mode="after")
    def _transform(self) -> NumericColumn:
        here, how = f"column {self.name!r}", self.transform
        wanted = {"standardise": ("centre", "scale"), "cyclic": ("period",)}.get(how, ())
        for field in ("centre", "scale", "period"):
            value = getattr(self, field)
            if (value is None) == (field in wanted):
                rule = "needs" if value is None else "takes no"
                raise ValueError(f"{here}: transform = {how!r} {rule} {field}")
            if value is not None and not (
                math.isfinite(value) and (value > 0 or field == "centre")
            ):
                least = "finite" if field == "centre" else "finite and above 0"
                raise ValueError(f"{here}: {field} must be {least}, not {value:g}")
        if wanted and self.scale_to != "unit":
            raise ValueError(
                f"{here}: scale_to is for the transforms 'clip' and 'log1p'; leave it out"
            )
        if how == "log1p" and not self.low > -1:
            raise ValueError(
                f"{here}: transform = 'log1p' needs low above -1, not {self.low:g}; "
                "declare low = 0 for an amount that is never negative"
            )
        if how == "log1p" and not math.log1p(self.low) < math.log1p(self.high):
            raise ValueError(
                f"{here}: low and high are too close to each other for transform = 'log1p', "
                "whose values there are equal; use 'clip'"
            )
        if how == "standardise":
            reach = max(abs(self._standard(self.low)), abs(self._standard(self.high)))
            if not reach <= MOST_SCALES:
                raise ValueError(
                    f"{here}: low and high must be within {MOST_SCALES:g} scales of centre, "
                    f"not {reach:g}"
                )
        if self.period is not None:
            turns = max(abs(self.low / self.period), abs(self.high / self.period))
            if not turns <= MOST_TURNS:
                raise ValueError(
                    f"{here}: low and high must be within {MOST_TURNS:g} periods of 0, "
                    f"not {turns:g}"
                )
        return self

    @model_validator(mode="after")
    def _shape(self) -> NumericColumn:
        here = f"column {self.name!r}"
        least = 3 if self.transform == "cyclic" else 2
        if self.hats is not None and 0 < self.hats < least:
            raise ValueError(f"{here}: hats must be 0 or at least {least}, not {self.hats}")
        if self.breaks is not None:
            inner = [self.low, *self.breaks, self.high]
            if not self.breaks or not all(a < b for a, b in pairwise(inner)):
                raise ValueError(
                    f"{here}: breaks must rise, each above low and below high, "
                    f"not {list(self.breaks)}"
                )
            if self.transform == "cyclic":
                raise ValueError(f"{here}: transform = 'cyclic' takes no breaks")
        distinct(f"{here}: atoms", [f"{atom:g}" for atom in self.atoms])
        if not all(self.low <= atom <= self.high for atom in self.atoms):
            raise ValueError(f"{here}: atoms must be within low and high, not {list(self.atoms)}")
        if self.monotone is not None and self.transform == "cyclic":
            raise ValueError(f"{here}: monotone does not go with transform = 'cyclic'")
        return self

    @property
    def basis(self) -> Hats | None:
        """The hat functions of the number as `transform` shows it; None of a linear column."""
        return self._hats(self.hats) if self.hats else None

    def _hats(self, count: int) -> Hats:
        if self.transform == "cyclic":
            assert self.period is not None
            return Hats.around(self.period, count)
        if self.breaks is not None:
            knots = self._shown(np.array([self.low, *self.breaks, self.high]))
            return on_knots(tuple(knots.tolist()))
        low, high = self._shown(np.array([self.low, self.high]))
        return Hats.evenly(float(low), float(high), count)

    @property
    def pair_basis(self) -> Hats:
        """The few hat functions of the number in a pair."""
        return self.model_copy(update={"breaks": None})._hats(PAIR_FUNCTIONS)

    def hats_at(self, numbers: Floats, basis: Hats) -> Floats:
        """(n, k) hats of raw numbers, clipped to the bounds."""
        return basis(self._shown(np.clip(numbers, self.low, self.high)))

    def _shown(self, numbers: Floats) -> Floats:
        """The numbers on the scale on which knots are spread."""
        return np.log1p(numbers) if self.transform == "log1p" else numbers

    @property
    def linear(self) -> NumericColumn:
        """The column as a linear model has it."""
        return self.model_copy(update={"hats": 0}) if self.hats else self

    def _standard(self, value: float) -> float:
        assert self.centre is not None and self.scale is not None
        return (value - self.centre) / self.scale

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded features."""
        return tuple(rule.feature for rule in self.rules)

    @property
    def rules(self) -> tuple[FeatureRule, ...]:
        """How each feature is computed from the raw value."""
        name, indicator = self.name, _indicator(self) if self.missing_indicator else ()
        if self.basis is not None:
            return (
                *(
                    FeatureRule(f"{name}[{k}]", name, f"smooth function {k} of {name}", 0.0, 1.0)
                    for k in range(len(self.basis.knots))
                ),
                *(
                    FeatureRule(f"{name}={atom:g}", name, f"{name} is {atom:g}", 0.0, 1.0)
                    for atom in self.atoms
                ),
                *indicator,
            )
        if self.transform == "cyclic":
            angle = f"2 pi {name} / {self.period:g}"
            return (
                FeatureRule(f"sin({name})", name, f"sin({angle})", 0.0, 1.0),
                FeatureRule(f"cos({name})", name, f"cos({angle})", 0.0, 1.0),
                *indicator,
            )
        if self.transform == "standardise":
            assert self.scale is not None
            rule = FeatureRule(name, name, name, self._standard(0.0), 1 / self.scale)
            return rule, *indicator
        logarithm = self.transform == "log1p"
        quantity = f"log1p({name})" if logarithm else name
        low, high = (
            (math.log1p(self.low), math.log1p(self.high)) if logarithm else (self.low, self.high)
        )
        slope, offset = 1 / (high - low), -low / (high - low)
        if self.scale_to == "symmetric":
            slope, offset = 2 * slope, 2 * offset - 1
        return FeatureRule(quantity, name, quantity, offset, slope), *indicator

    def encoded(self, numbers: Floats) -> Floats:
        """Features of raw numbers, without the indicator; NaN stays NaN.

        Every entry of "clip" and "log1p" is in [0, 1] ("unit") or [-1, 1], of "cyclic" in [-1, 1]
        and of "standardise" between those of low and high, whatever the number is.

        numbers: raw numbers, shape (n,). Result: shape (n, k).
        """
        if self.basis is not None:
            smooth = self.hats_at(numbers, self.basis) @ self.basis.smoother
            if not self.atoms:
                return np.asarray(smooth)
            at = np.clip(numbers, self.low, self.high)[:, None] == np.array(self.atoms)
            smooth[at.any(axis=1)] = 0.0
            return np.hstack([smooth, at])
        x = np.clip(numbers, self.low, self.high)
        if self.transform == "cyclic":
            assert self.period is not None
            angle = 2 * np.pi * (x / self.period)
            return np.stack([np.sin(angle), np.cos(angle)], axis=1)
        if self.transform == "standardise":
            assert self.centre is not None and self.scale is not None
            return np.asarray((x - self.centre) / self.scale)[:, None]
        low, high = self.low, self.high
        if self.transform == "log1p":
            x, low, high = np.log1p(x), math.log1p(low), math.log1p(high)
        unit = (x - low) / (high - low)
        if self.transform == "log1p":
            unit = np.clip(unit, 0.0, 1.0)  # the two logarithms may differ in their last bit
        return (unit if self.scale_to == "unit" else 2 * unit - 1)[:, None]

    @property
    def largest_square(self) -> float:
        """The largest squared norm of this column's features, the indicator included."""
        if self.transform == "standardise" and self.basis is None:
            largest = max(abs(self._standard(self.low)), abs(self._standard(self.high))) ** 2
        else:
            largest = 1.0
        if not self.missing_indicator:
            return largest
        gap = 0.0
        if self.impute is not None:
            gap = float(np.sum(self.encoded(np.array([self.impute])) ** 2))
        return max(largest, 1.0 + gap)


class CategoricalColumn(Part):
    """One of the declared levels, one-hot.

    Parameters
    ----------
    kind : "categorical", default="categorical"
        In files; fixed.
    name : str
        Name of the column in the table.
    levels : tuple of str
        The public list of levels.
    reference : str or None, default=None
        The level that tables of coefficients compare the others with; None: the first. It does not
        change the encoding.
    unknown : {"error", "column"} or None, default=None
        An undeclared level is an error, or gets a column of its own. None is an error too, but on
        a node, where no record may stop a run, the record is left out or counts as a blank one; a
        node refuses a schema that says "error".
    impute : str or None, default=None
        The public level that replaces a missing value.
    missing_indicator : bool, default=False
        A missing value is a level of its own, and such a record is never dropped.
    confirmed : bool, default=True
        Whether somebody confirmed that the levels are public.
    source : str, default=""
        Where the levels come from.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.data.CategoricalColumn(name="ward", levels=("north", "south")).features
    ('ward=north', 'ward=south')
    """

    kind: Literal["categorical"] = "categorical"
    name: str = Field(min_length=1)
    levels: tuple[str, ...] = Field(min_length=1)
    reference: str | None = None
    unknown: Literal["column", "error"] | None = None
    impute: str | None = None
    missing_indicator: bool = False
    confirmed: bool = True
    source: str = ""

    @model_validator(mode="after")
    def _levels(self) -> CategoricalColumn:
        distinct(f"column {self.name!r}: levels", self.levels)
        if self.reference is not None and self.reference not in self.levels:
            raise ValueError(
                f"column {self.name!r}: reference must be one of its levels, not {self.reference!r}"
            )
        if self.impute is not None and self.impute not in self.levels:
            raise ValueError(
                f"column {self.name!r}: impute must be one of its levels, not {self.impute!r}"
            )
        if self.impute is not None and self.missing_indicator:
            raise ValueError(
                f"column {self.name!r}: missing_indicator makes missing a level of its own; "
                "leave impute out"
            )
        return self

    @property
    def largest_square(self) -> float:
        """The squared norm of this column's features: one of them is 1."""
        return 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded features, `name=level`."""
        return tuple(rule.feature for rule in self.rules)

    @property
    def rules(self) -> tuple[FeatureRule, ...]:
        """How each feature is computed from the raw value."""
        name = self.name
        found = [
            FeatureRule(f"{name}={level}", name, f"{name} is {level!r}", 0.0, 1.0)
            for level in self.levels
        ]
        if self.unknown == "column":
            other = f"{name} is none of its levels"
            found.append(FeatureRule(f"{name}=<other>", name, other, 0.0, 1.0))
        return (*found, *(_indicator(self) if self.missing_indicator else ()))


def _indicator(column: NumericColumn | CategoricalColumn) -> tuple[FeatureRule]:
    name = column.name
    return (FeatureRule(f"missing({name})", name, f"{name} is missing", 0.0, 1.0),)


@dataclass(frozen=True)
class Pair:
    """Two columns that are learnt together: products of a few functions of each."""

    first: NumericColumn | CategoricalColumn
    second: NumericColumn | CategoricalColumn

    @property
    def name(self) -> str:
        return f"{self.first.name}*{self.second.name}"

    @property
    def rules(self) -> tuple[FeatureRule, ...]:
        name, count = self.name, len(self.smoother)
        return tuple(
            FeatureRule(f"{name}[{k}]", name, f"smooth function {k} of {name}", 0.0, 1.0)
            for k in range(count)
        )

    @property
    def smoother(self) -> Floats:
        """(k, k) the prior of the products."""
        return pair_smoother(*(_roughness(column) for column in (self.first, self.second)))


def _roughness(column: NumericColumn | CategoricalColumn) -> Floats:
    """D'D of a column's functions in a pair; levels have no order."""
    if isinstance(column, NumericColumn):
        return column.pair_basis.roughness
    return np.zeros((len(column.features),) * 2)


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]


def ordered(name: str, low: float, high: float) -> None:
    """Refuse bounds that are not finite and in order."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"column {name!r}: low must be below high, both finite, not {low:g} and {high:g}"
        )
    if not math.isfinite(high - low):
        raise ValueError(
            f"column {name!r}: high - low must be finite, not {high:g} - {low:g}; "
            "declare nearer bounds"
        )


def distinct(what: str, words: Iterable[str]) -> None:
    """Refuse a word that occurs twice."""
    twice = sorted(word for word, count in Counter(words).items() if count > 1)
    if twice:
        raise ValueError(f"{what} must be distinct, but {twice} occur more than once")
