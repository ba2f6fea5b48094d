"""Dates as years: 2013-07-02 12:00 is 2013.5. A year is a unit in which bounds are publicly known,
and the season is what starts again after 1."""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Sequence
from datetime import date
from typing import Literal

import numpy as np

from tacenda._types import Flags, Floats

Order = Literal["ymd", "dmy", "mdy"]
# A date, then maybe a time and its zone, which is not looked at
_TIME = r"(?:[ T](\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(?:Z|UTC|[+-]\d\d:?(?:\d\d)?)?)?"
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d\d?)[-/.](\d\d?)" + _TIME)
_YEAR_LAST = re.compile(r"(\d\d?)[-/.](\d\d?)[-/.](\d{4})" + _TIME)


def year_of(word: str, order: Order) -> float | None:
    """A date as a year with its fraction, or None if it is no date in this order."""
    found = (_YEAR_FIRST if order == "ymd" else _YEAR_LAST).fullmatch(word)
    if found is None:
        return None
    *parts, hour, minute, second = map(int, found.groups("0"))
    year, month, day = (parts[order.index(part)] for part in "ymd")
    try:
        days_before = date(year, month, day).toordinal() - date(year, 1, 1).toordinal()
    except ValueError:
        return None
    passed = days_before + (hour * 3600 + minute * 60 + second) / 86_400
    return year + passed / (366 if isleap(year) else 365)


def years_of(words: Sequence[str], order: Order) -> tuple[Floats, Flags]:
    """(k,) years of these words, NaN where one is no date, and whether it is one."""
    years = np.array([np.nan if (y := year_of(word, order)) is None else y for word in words])
    return years, ~np.isnan(years)


def order_of(words: Sequence[str]) -> Order | None:
    """The first order in which all of these are dates, or None."""
    orders: tuple[Order, ...] = ("ymd", "dmy", "mdy")
    return next((o for o in orders if all(year_of(word, o) is not None for word in words)), None)
