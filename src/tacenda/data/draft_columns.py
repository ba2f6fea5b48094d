"""What a draft proposes for one column, from its cells."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from tacenda._types import Floats
from tacenda.data.coded import Coded, is_number
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.dates import Order, order_of, year_of, years_of
from tacenda.data.label import Label
from tacenda.data.schema import DEFAULT_MISSING
from tacenda.data.spread import INNER, inner, outward, used_share
from tacenda.errors import InputError

# More levels than this are an identifier or free text, which a schema should not list.
MOST_LEVELS = 60


# A whole-number label with at most this many values is taken for classes.
MOST_CLASSES = 10


# A whole-number column with at most this many values is proposed as levels: right for codes, and
# not wrong for counts.
MOST_CODES = 12


# Whole numbers of which so many are different are asked about, or left out, as identifiers.
NEARLY_ALL = 0.95


LEAST_FOR_IDENTIFIERS = 50


# Below this part of its range for 90 % of the values, a logarithm is suggested.
SKEWED = 0.15


# Extremes that reach so much further than 99 % of the values are outliers: they are not kept as
# bounds of a label or of a count, and a logarithm is suggested.
HEAVY_TAIL = 3.0


GAPS = frozenset(DEFAULT_MISSING)


# Names of numbers that begin anew, and after how many.
PERIODS = {"hour": 24, "weekday": 7, "month": 12, "minute": 60, "angle": 360, "degrees": 360}


_IDENTIFIER = re.compile(r"(^|_|\b)(id|ids|uuid|guid|key|index|serial|ssn|nr|no|number)$", re.I)


_PADDED = re.compile(r"0\d+")


_CODE = re.compile(
    r"(code|_cd|type|class|kind|category|group|zip|zipcode|postcode|postal|region|state|county|"
    r"country|status|sex|gender|race|ward|department|sector|branch|icd|naics)s?$",
    re.I,
)


@dataclass(frozen=True)
class ColumnDraft:
    """What a draft proposes for one column, and why; all of it was read from the data.

    Attributes
    ----------
    name : str
        Name of the column.
    proposal : str
        What it is proposed as: "number", "number, logarithmic", "levels", "left out", "label,
        classes" or "label, number".
    reason : str
        Why, in words, or what is unusual; empty for a plain number.
    question : str
        What only somebody who knows the field can answer, with the flag that answers it; empty
        where nothing needs to be asked.
    most_within : tuple of float or None
        Bounds of 99 % of a number's values, rounded outwards.
    all_within : tuple of float or None
        Bounds of all of them, rounded outwards.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"ward": [3, 7, 9, 3] * 10, "age": [30.5, 40, 50, 61] * 10, "ill": [0, 1] * 20}
    >>> tc.data.Draft.of(table).columns[0].question
    'Is ward a code? It is proposed as levels; for an amount: --numeric ward.'
    """

    name: str
    proposal: str
    reason: str = ""
    question: str = ""
    most_within: tuple[float, float] | None = None
    all_within: tuple[float, float] | None = None


@dataclass(frozen=True)
class Present:
    """The cells of a column that are not missing: distinct texts in order, how many cells there
    are of each, and all of them as numbers, NaN where they are text."""

    levels: list[str]
    counts: dict[str, int]
    values: Floats
    has_gaps: bool

    @classmethod
    def of(cls, cells: Any) -> Present:
        column = Coded.of(cells)
        words = column.entries.stripped
        there = np.array([word not in GAPS for word in words], bool)
        each = np.bincount(column.codes, minlength=len(words))
        counts: dict[str, int] = {}
        for k in np.flatnonzero(there & (each > 0)).tolist():
            counts[words[k]] = counts.get(words[k], 0) + int(each[k])
        present = there[column.codes]
        values = column.entries.numbers[0][column.codes[present]]
        return cls(sorted(counts), counts, values, not bool(present.all()))

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        return all(map(is_number, self.levels))


Proposal = tuple[NumericColumn | CategoricalColumn | None, ColumnDraft]


@dataclass(frozen=True)
class Answers:
    """What is known of a column before it is looked at: its role, its period, and for every column
    whether dates are used, and how many levels are listed at most; None leaves a longer list
    out."""

    told: str | None
    period: float | None
    dates: bool
    most_levels: int | None


def column_of(name: str, present: Present, answers: Answers) -> Proposal:
    levels, told = present.levels, answers.told
    if len(levels) < 2:
        return _left_out(name, "constant or empty")
    numeric = present.numeric
    order = None if numeric or told == "categorical" else order_of(levels)
    if order is not None and (answers.dates or told in ("numeric", "log", "cyclic")):
        return _date(name, present, order, answers)
    if told in ("numeric", "log", "cyclic") and not numeric:
        raise InputError(
            f"column {name!r} cannot be {told}: it holds text; correct it or leave it out."
        )
    if told == "categorical":
        return _levels(name, present, "as told", most=answers.most_levels)
    if not numeric:
        return _text(name, present, order is not None, answers.most_levels)
    if told is None:
        guessed = _code_or_identifier(name, present, answers.most_levels)
        if guessed is not None:
            return guessed
    if answers.period is not None:
        return _cyclic(name, present.values, answers.period)
    return _number(name, present.values, levels, told)


def _date(name: str, present: Present, order: Order, answers: Answers) -> Proposal:
    """Years, in bounds of whole ones."""
    years = years_of(present.levels, order)[0]
    low, high = float(math.floor(years.min())), float(math.floor(years.max()) + 1)
    question = ""
    if order == "dmy" and all(year_of(word, "mdy") is not None for word in present.levels):
        question = (
            f"Is the day first in {name}? So it is read; if the month is: date = 'mdy' in the "
            "schema."
        )
    how: dict[str, Any] = {"scale_to": "symmetric"}
    if answers.period is not None:
        how = {"transform": "cyclic", "period": answers.period}
    column = _periodic(name=name, low=low, high=high, date=order, **how)
    what = "date, as a year" + (", cyclic" if answers.period is not None else "")
    return column, ColumnDraft(name, what, "", question, (low, high), (low, high))


def _periodic(**fields: Any) -> NumericColumn:
    """A column whose period a user gave: a wrong one is refused in one sentence."""
    try:
        return NumericColumn(**fields, confirmed=False)
    except ValidationError as error:
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"{words}; give another period.") from None


def _cyclic(name: str, values: Floats, period: float) -> Proposal:
    """A number that starts again after its period, in [0, period] where that holds the values."""
    every = outward(values) or _around(values)
    within = bool((values >= 0).all() and (values <= period).all())
    low, high = (0.0, float(period)) if within else every
    column = _periodic(name=name, low=low, high=high, transform="cyclic", period=period)
    return column, ColumnDraft(name, "number, cyclic", f"period {period:g}", "", every, every)


def _text(name: str, present: Present, is_date: bool, most: int | None) -> Proposal:
    levels, count = present.levels, present.count
    if is_date:
        return _left_out(name, "a date; to use it as a year: --dates")
    if len(levels) <= MOST_LEVELS:
        return _levels(name, present, "text", most=most)
    if len(levels) >= NEARLY_ALL * count:
        return _left_out(name, "an identifier or free text: nearly all values differ")
    if most is not None:
        return _levels(name, present, "text", most=most)
    return _left_out(
        name,
        f"more than {MOST_LEVELS} levels; to list all: --categorical {name}, "
        "or the usual ones: --levels most-frequent:50",
    )


def _code_or_identifier(name: str, present: Present, most: int | None) -> Proposal | None:
    """The proposal for whole numbers that stand for something else than an amount, or None."""
    levels, count = present.levels, present.count
    if not all(float(word).is_integer() for word in levels):
        return None
    padded = any(_PADDED.fullmatch(word) for word in levels)
    distinct = len(levels)
    if not padded and distinct == count >= LEAST_FOR_IDENTIFIERS:
        return _left_out(name, f"an identifier: every value is different; if not, --numeric {name}")
    if _IDENTIFIER.search(name) and distinct >= NEARLY_ALL * count and distinct > MOST_CODES:
        return _left_out(name, f"an identifier by its name; if not, --numeric {name}")
    if distinct == 2 and not padded:
        return None  # two levels or two numbers: the same model
    code = padded or _CODE.search(name) is not None
    if code and distinct > MOST_LEVELS and most is None:
        return _left_out(
            name,
            f"a code with more than {MOST_LEVELS} levels; to list all: --categorical {name}, or "
            f"the usual ones: --levels most-frequent:50; if an amount: --numeric {name}",
        )
    if code or (distinct <= MOST_CODES and count >= 4 * distinct and name.lower() not in PERIODS):
        question = f"Is {name} a code? It is proposed as levels; for an amount: --numeric {name}."
        return _levels(name, present, "whole numbers like codes", question, most)
    return None


def _number(name: str, values: Floats, levels: list[str], told: str | None) -> Proposal:
    every = outward(values) or _around(values)
    most = inner(values) or every
    heavy = _heavy(most, every)
    if len(levels) <= MOST_LEVELS and not heavy:
        most = every
    if told == "log" and most[0] >= 0:
        most = _finer_low(values, most)
    pair = sorted({float(word) for word in levels})
    two_valued = len(pair) == 2 <= len(values) / 4 and math.isfinite(pair[1] - pair[0])
    if two_valued:
        most = every = (pair[0], pair[1])
    low, high = most
    question = reason = ""
    if told == "log" and low <= -1:
        raise InputError(
            f"column {name!r} cannot be log: it holds values of -1 or less; "
            "leave it out of log, or shift it."
        )
    whole = all(float(word).is_integer() for word in levels)
    period = PERIODS.get(name.lower().rpartition("_")[2])
    if told is None and period is not None:
        question = f"Does {name} start again after {period}? If so: --cyclic {name}={period}."
    elif told is None and whole and MOST_CODES < len(levels) <= MOST_LEVELS:
        question = (
            f"Is {name} a code? If so: --categorical {name}; if it is an amount: --numeric {name}."
        )
    elif (
        told is None
        and whole
        and len(levels) >= max(NEARLY_ALL * len(values), LEAST_FOR_IDENTIFIERS)
    ):
        question = f"Is {name} an identifier? Nearly all values differ; if so: --drop {name}."
    elif told is None and low > -1 and len(levels) > 2:
        units = np.clip((values - low) / (high - low), 0, 1)
        share = used_share(units)
        if share is not None and share < SKEWED:
            reason = f"90 % of the values are in {100 * share:.2g} % of this range"
            question = f"Is {name} an amount, mostly small? For a logarithmic scale: --log {name}."
        elif heavy and low >= 0:
            question = (
                f"Is {name} an amount with some huge values? The largest is more than "
                f"{HEAVY_TAIL:g} times as large as 99 % of the values; for a logarithmic scale: "
                f"--log {name}."
            )
    column = NumericColumn(
        name=name,
        low=low,
        high=high,
        transform="log1p" if told == "log" else "clip",
        scale_to="symmetric",
        two_valued=two_valued,
        confirmed=False,
    )
    what = "number, logarithmic" if told == "log" else "number"
    return column, ColumnDraft(name, what, reason, question, most, every)


def _heavy(most: tuple[float, float], every: tuple[float, float]) -> bool:
    return every[1] - every[0] > HEAVY_TAIL * (most[1] - most[0])


def _finer_low(values: Floats, most: tuple[float, float]) -> tuple[float, float]:
    """The same bounds with `low` rounded to its own magnitude: a logarithm sees the difference
    between 0 and 1000 where amounts reach a million."""
    finite = values[np.isfinite(values)]
    low = float(np.quantile(finite, (1 - INNER) / 2, method="lower"))
    if low < 1:
        return most
    step = 10.0 ** math.floor(math.log10(low))
    return math.floor(low / step) * step, most[1]


def _around(values: Floats) -> tuple[float, float]:
    """Bounds for a column with fewer than two finite values."""
    finite = values[np.isfinite(values)]
    value = float(finite[0]) if len(finite) else 0.0
    return min(value, 0.0), max(value, 1.0)


def _levels(
    name: str, present: Present, reason: str, question: str = "", most: int | None = None
) -> Proposal:
    levels, numbers = present.levels, present.numeric
    cut = most is not None and len(levels) > most
    if cut:
        levels = sorted(sorted(levels, key=lambda word: (-present.counts[word], word))[:most])
        reason = f"the {most} most frequent of {len(present.levels)} levels"
    if numbers:
        levels = sorted(levels, key=lambda word: (float(word), word))
    column = CategoricalColumn(
        name=name,
        levels=tuple(levels),
        # A number that was not seen yet may well come: it must not stop a prediction.
        unknown="column" if numbers or cut else None,
        confirmed=False,
    )
    return column, ColumnDraft(name, "levels", reason, question)


def _left_out(name: str, reason: str) -> Proposal:
    return None, ColumnDraft(name, "left out", reason)


def label_of(name: str, present: Present, order: Sequence[str] = ()) -> tuple[Label, ColumnDraft]:
    values = present.levels
    if order:
        if unknown := sorted(set(values) - set(order)):
            raise InputError(
                f"ordered must name every class of {name!r} from low to high; {len(unknown)} of "
                f"the values found are not among {list(order)}."
            )
        label = Label(name=name, classes=tuple(order), ordered=True, confirmed=False)
        return label, ColumnDraft(name, "label, ordered classes")
    if len(values) < 2:
        raise InputError(
            f"label {name!r} shows fewer than two classes, so none can be proposed; "
            "choose another label column or write the schema by hand with all classes."
        )
    numeric = present.numeric
    whole = numeric and all(float(value).is_integer() for value in values)
    if numeric and not (whole and len(values) <= MOST_CLASSES):
        numbers = present.values
        every = outward(numbers) or _around(numbers)
        most = inner(numbers) or every
        low, high = most if _heavy(most, every) else every
        label = Label(name=name, low=low, high=high, scale_to="symmetric", confirmed=False)
        return label, ColumnDraft(name, "label, number", "", "", most, every)
    if len(values) > MOST_LEVELS:
        raise InputError(
            f"label {name!r} has more than {MOST_LEVELS} text values; choose another label column."
        )
    label = Label(
        name=name, classes=tuple(sorted(values, key=float) if whole else values), confirmed=False
    )
    return label, ColumnDraft(name, "label, classes")
