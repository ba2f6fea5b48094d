"""Propose a schema for a file. Everything proposed was read from the data,
so it is marked as to be confirmed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from tacenda._types import Floats
from tacenda.checks import nearest
from tacenda.data.coded import Coded, is_number
from tacenda.data.columns import CategoricalColumn, NumericColumn
from tacenda.data.dates import Order, order_of, year_of, years_of
from tacenda.data.label import Label
from tacenda.data.readers import column_names, read_table, source_name
from tacenda.data.schema import DEFAULT_MISSING, Schema
from tacenda.data.spread import INNER, inner, outward, used_share
from tacenda.data.table import Table
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
# How the notes of a draft begin; what follows them was read from the data.
DRAFTED = "Drafted from the data: check every bound and level, then set confirmed = true."
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
class Draft:
    """A proposed schema, with what was seen of each column and what needs an answer.

    It is for the holder of the data: all of it was read from the records.

    Attributes
    ----------
    schema : Schema
        The proposal, every part of it unconfirmed.
    columns : tuple of ColumnDraft
        What was seen of each column, the label last.
    missing : tuple of str
        Columns of the schema, or the label, in which cells are missing.
    asks_about_missing : bool
        True if nobody said what to do with them.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"ward": [3, 7, 9, 3] * 10, "age": [30.5, 40, 50, 61] * 10, "ill": [0, 1] * 20}
    >>> draft = tc.data.Draft.of(table, label="ill")
    >>> [(column.name, column.kind) for column in draft.schema.columns]
    [('ward', 'categorical'), ('age', 'numeric')]
    """

    schema: Schema
    columns: tuple[ColumnDraft, ...]
    missing: tuple[str, ...] = ()
    asks_about_missing: bool = True

    @property
    def questions(self) -> tuple[str, ...]:
        """All questions, each with the flag that answers it."""
        return tuple(column.question for column in self.columns if column.question)

    @property
    def left_out(self) -> tuple[ColumnDraft, ...]:
        """Columns that the schema does not use, with the reason."""
        return tuple(column for column in self.columns if column.proposal == "left out")

    @classmethod
    def of(
        cls,
        source: Any,
        *,
        label: str | None = None,
        node: str | None = None,
        name: str | None = None,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        drop: Sequence[str] = (),
        log: Sequence[str] = (),
        cyclic: Mapping[str, float] | None = None,
        dates: bool = False,
        levels: str | None = None,
        missing: Literal["drop", "indicator", "error"] | None = None,
    ) -> Draft:
        """Draft a schema from data, with the questions that it leaves open.

        Parameters
        ----------
        source : str, Path, Table or frame
            A file, query, frame or table.
        label : str or None, default=None
            The column to predict; the last one by default.
        node : str or None, default=None
            The column that names the holder of each record.
        name : str or None, default=None
            Name of the schema.
        categorical : sequence of str, default=()
            Columns that are levels.
        numeric : sequence of str, default=()
            Columns that are numbers.
        drop : sequence of str, default=()
            Columns that are left out.
        log : sequence of str, default=()
            Columns that are numbers on a logarithmic scale.
        cyclic : dict or None, default=None
            Columns of numbers that start again, each with its period, as {"hour": 24}.
        dates : bool, default=False
            Use columns of dates, as years; without it they are left out.
        levels : str or None, default=None
            What to do with a text of more than 60 levels: "all" lists them, "most-frequent:50"
            lists that many, and the others share a column. None leaves it out.
        missing : {"drop", "indicator", "error"} or None, default=None
            What to do with records that lack cells: leave them out, keep them with a feature that
            says so in each column with gaps, or refuse them. None leaves them out, and asks.

        Returns
        -------
        Draft
            The schema, and what was seen of each column.
        """
        known: Sequence[str]
        if isinstance(source, str | Path):
            known, origin = column_names(source), source_name(source)
        else:
            source = Table.of(source)
            known, origin = list(source.columns), source.source
        label = _label_name(known, origin, label, drop)
        periods, most = dict(cyclic or {}), _most_levels(levels)
        told = _told(known, origin, label, node, categorical, numeric, drop, log, tuple(periods))
        table = read_table(source) if isinstance(source, str | Path) else source
        found, columns, gaps = [], [], []
        for column, cells in table.columns.items():
            if column in (label, node) or told.get(column) == "drop":
                continue
            present = _Present.of(cells)
            answers = _Answers(told.get(column), periods.get(column), dates, most)
            proposal, seen = _column(column, present, answers)
            found.append(seen)
            if proposal is not None:
                if present.has_gaps:
                    gaps.append(column)
                    shown = {"missing_indicator": missing == "indicator"}
                    proposal = proposal.model_copy(update=shown)
                columns.append(proposal)
        if not columns:
            raise InputError(
                f"{table.source} has no column that can be encoded beside the label {label!r}."
            )
        present = _Present.of(table.columns[label])
        if present.has_gaps:
            gaps.append(label)
        proposed, seen = _label(label, present)
        schema = Schema.build(
            name=name or Path(table.source).stem,
            notes=_notes(found, gaps if missing is None else ()),
            columns=tuple(columns),
            label=proposed,
            node_column=node,
            missing="error" if missing == "error" else "drop",
            # Numbers are centred on the middle of their bounds, not of the data: a constant feature
            # makes up for the difference.
            intercept=True,
        )
        return cls(schema, (*found, seen), tuple(gaps), missing is None)


def draft_schema(
    source: Any,
    *,
    label: str | None = None,
    node: str | None = None,
    name: str | None = None,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    log: Sequence[str] = (),
    cyclic: Mapping[str, float] | None = None,
    dates: bool = False,
    levels: str | None = None,
    missing: Literal["drop", "indicator", "error"] | None = None,
) -> Schema:
    """Draft a schema from data, to be read and corrected by somebody who knows the field.

    Everything in it was read from the data and is marked as unconfirmed. Bounds hold 99 % of the
    values and are rounded outwards to two digits, levels are listed as seen. Whole numbers with few
    values, or with the name or the look of a code, become levels; identifiers, and texts with too
    many levels, are left out, and the notes say so. `Draft.of` also gives the questions.

    Parameters
    ----------
    source : str, Path, Table or frame
        A file, query, frame or table.
    label : str or None, default=None
        The column to predict; the last one by default.
    node : str or None, default=None
        The column that names the holder of each record.
    name : str or None, default=None
        Name of the schema.
    categorical : sequence of str, default=()
        Columns that are levels.
    numeric : sequence of str, default=()
        Columns that are numbers.
    drop : sequence of str, default=()
        Columns that are left out.
    log : sequence of str, default=()
        Columns that are numbers on a logarithmic scale.
    cyclic : dict or None, default=None
        Columns of numbers that start again, each with its period, as {"hour": 24}.
    dates : bool, default=False
        Use columns of dates, as years; without it they are left out.
    levels : str or None, default=None
        What to do with a text of more than 60 levels: "all" lists them, "most-frequent:50" lists
        that many, and the others share a column. None leaves it out.
    missing : {"drop", "indicator", "error"} or None, default=None
        What to do with records that lack cells: leave them out, keep them with a feature that says
        so in each column with gaps, or refuse them. None leaves them out, and asks.

    Raises
    ------
    InputError
        If a named column does not exist.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"age": [30.0, 40.5, 50.2, 60.1], "ill": ["no", "yes", "no", "yes"]}
    >>> tc.data.draft_schema(table, label="ill").unconfirmed
    ('age', 'ill')
    """
    return Draft.of(
        source,
        label=label,
        node=node,
        name=name,
        categorical=categorical,
        numeric=numeric,
        drop=drop,
        log=log,
        cyclic=cyclic,
        dates=dates,
        levels=levels,
        missing=missing,
    ).schema


def _label_name(columns: Sequence[str], source: str, label: str | None, drop: Sequence[str]) -> str:
    if label is not None:
        return label
    kept = [column for column in columns if column not in drop]
    if not kept:
        raise InputError(f"drop names every column of {source}; keep some.")
    return kept[-1]


def _told(
    columns: Sequence[str],
    source: str,
    label: str,
    node: str | None,
    categorical: Sequence[str],
    numeric: Sequence[str],
    drop: Sequence[str],
    log: Sequence[str],
    cyclic: Sequence[str],
) -> dict[str, str]:
    """{column: what it was said to be}; names that do not exist or contradict are refused."""
    roles = {
        "label": (label,),
        "node": () if node is None else (node,),
        "categorical": categorical,
        "numeric": numeric,
        "drop": drop,
        "log": log,
        "cyclic": cyclic,
    }
    told: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            if name not in columns:
                raise InputError(
                    f"{role} must be a column of {source}, not {name!r}; "
                    f"it has {list(columns)}.{nearest(name, columns)}"
                )
            before = told.get(name, role)
            if before != role and not (before == "numeric" and role in ("log", "cyclic")):
                raise InputError(f"column {name!r} cannot be both {before} and {role}; choose one.")
            told[name] = role
    return told


def _notes(columns: Iterable[ColumnDraft], missing: Sequence[str]) -> str:
    """Of what was seen, no figure: notes stay in the file when everything in it is confirmed."""
    notes = DRAFTED
    left_out = [f"{c.name} ({c.reason})" for c in columns if c.proposal == "left out"]
    if left_out:
        notes += f" Left out: {', '.join(left_out)}."
    questions = [c.question for c in columns if c.question]
    if questions:
        notes += f" Questions: {' '.join(questions)}"
    if missing:
        notes += (
            " Some cells are missing: such records are left out; "
            "see missing = 'impute' and missing_indicator = true."
        )
    return notes


@dataclass(frozen=True)
class _Present:
    """The cells of a column that are not missing: distinct texts in order, how many cells there
    are of each, and all of them as numbers, NaN where they are text."""

    levels: list[str]
    counts: dict[str, int]
    values: Floats
    has_gaps: bool

    @classmethod
    def of(cls, cells: Any) -> _Present:
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
class _Answers:
    """What is known of a column before it is looked at: its role, its period, and for every column
    whether dates are used, and how many levels are listed at most; None leaves a longer list
    out."""

    told: str | None
    period: float | None
    dates: bool
    most_levels: int | None


ALL_LEVELS = 10**9


def _most_levels(levels: str | None) -> int | None:
    """How many levels `levels` lists at most; None where nothing was said."""
    if levels is None:
        return None
    if levels == "all":
        return ALL_LEVELS
    kind, _, count = levels.partition(":")
    if kind != "most-frequent" or not count.isdecimal() or int(count) < 1:
        raise InputError(f"levels must be all or most-frequent:50 (any number), not {levels!r}.")
    return int(count)


def _column(name: str, present: _Present, answers: _Answers) -> Proposal:
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


def _date(name: str, present: _Present, order: Order, answers: _Answers) -> Proposal:
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


def _text(name: str, present: _Present, is_date: bool, most: int | None) -> Proposal:
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


def _code_or_identifier(name: str, present: _Present, most: int | None) -> Proposal | None:
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
            question = (
                f"Is {name} an amount of which most are small? For a logarithmic scale: "
                f"--log {name}."
            )
        elif heavy and low >= 0:
            question = (
                f"Is {name} an amount of which some are huge? The largest is more than "
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
    name: str, present: _Present, reason: str, question: str = "", most: int | None = None
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


def _label(name: str, present: _Present) -> tuple[Label, ColumnDraft]:
    values = present.levels
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
