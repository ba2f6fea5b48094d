"""Propose a schema for a file. Everything proposed was read from the data,
so it is marked as to be confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tacenda.checks import nearest
from tacenda.data.draft_columns import Answers, ColumnDraft, Present, column_of, label_of
from tacenda.data.label import Survival
from tacenda.data.readers import column_names, read_table, source_name
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError

# How the notes of a draft begin; what follows them was read from the data.
DRAFTED = "Drafted from the data: check every bound and level, then set confirmed = true."


ALL_LEVELS = 10**9


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
        True if it is not known what to do with them.

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
        ordered: Sequence[str] = (),
        survival: Mapping[str, Any] | None = None,
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
        ordered : sequence of str, default=()
            The label's classes from the lowest to the highest, where they have an order.
        survival : dict or None, default=None
            Predict the time until an event: the fields of `Survival`, in place of a label.

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
        asked = None if survival is None else _survival(survival, label)
        label = asked.event if asked is not None else _label_name(known, origin, label, drop)
        periods, most = dict(cyclic or {}), _most_levels(levels)
        drop = list(drop) if asked is None else [*drop, asked.time]
        told = _told(known, origin, label, node, categorical, numeric, drop, log, tuple(periods))
        table = read_table(source) if isinstance(source, str | Path) else source
        found, columns, gaps = [], [], []
        for column, cells in table.columns.items():
            if column in (label, node) or told.get(column) == "drop":
                continue
            present = Present.of(cells)
            answers = Answers(told.get(column), periods.get(column), dates, most)
            proposal, seen = column_of(column, present, answers)
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
        present = Present.of(table.columns[label])
        if present.has_gaps:
            gaps.append(label)
        proposed: dict[str, Any] = {"survival": asked}
        if asked is None:
            proposed["label"], about = label_of(label, present, ordered)
            found.append(about)
        schema = Schema.build(
            name=name or Path(table.source).stem,
            notes=_notes(found, gaps if missing is None else ()),
            columns=tuple(columns),
            **proposed,
            node_column=node,
            missing="error" if missing == "error" else "drop",
            # Numbers are centred on the middle of their bounds, not of the data: a constant feature
            # makes up for the difference.
            intercept=True,
        )
        return cls(schema, tuple(found), tuple(gaps), missing is None)


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
    ordered: Sequence[str] = (),
    survival: Mapping[str, Any] | None = None,
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
    ordered : sequence of str, default=()
        The label's classes from the lowest to the highest, where they have an order.
    survival : dict or None, default=None
        Predict the time until an event: the fields of `Survival`, in place of a label.

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
        ordered=ordered,
        survival=survival,
    ).schema


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


def _survival(given: Mapping[str, Any], label: str | None) -> Survival:
    """What was said of times and events, which is the label."""
    if label not in (None, given.get("event")):
        raise InputError(
            f"label {label!r} and survival were both given: a schema predicts one of them; leave "
            "one out."
        )
    try:
        return Survival(**given)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(f"survival needs time, event and points: {said}.") from None
