"""Bounds for numbers of which no public ones are known: two private quantiles of each column,
charged to the lasting ledger.

`quantile_search` says how they are chosen.

It is the query of one holder of one file, on the machine that holds it. Members of a network each
ask their own file, with their own ledger, and agree on public bounds from the answers.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.data.cells import column_numbers
from tacenda.data.columns import NumericColumn
from tacenda.data.draft import DRAFTED
from tacenda.data.encoding import as_read
from tacenda.data.label import Label
from tacenda.data.persons import persons_of
from tacenda.data.quantile_search import Price, Search, lower_tail
from tacenda.data.readers import column_names, read_table, source_name
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, LedgerWarning
from tacenda.privacy.accounting.events import Events
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.accounts import BOUNDS
from tacenda.privacy.lasting.budgets import Budget
from tacenda.privacy.lasting.fingerprints import marks_as_read
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.lasting.units import Unit
from tacenda.privacy.noise.persons import kept_records
from tacenda.privacy.secrets.ledger import Ledger

SHARE = 0.02  # of the budget, in the squares that add up
LABEL_ROOM = 0.5  # of their distance: how much further out a label's bounds are, on either side


@dataclass(frozen=True)
class PrivateBounds:
    """A schema with private bounds, and what they cost.

    Attributes
    ----------
    schema : Schema
        The schema with the new bounds, which are confirmed and name their source.
    columns : tuple of str
        Columns whose bounds were asked for.
    tail : float
        The lower quantile; the upper one is 1 - tail.
    rank_error : int
        By how many records a quantile's rank errs at most, for all of them together, with a
        chance of 95 %. The rounding of bounds to public steps comes on top.
    epsilon_each : float
        Of one end's choice, pure. That of a centre is half of it.
    epsilon : float
        Of all of them together, at `delta`.
    epsilon_left : float
        What a Gaussian release may still spend at `delta` so that both stay within the budget, if
        nothing else was spent; where something was, the ledger refuses what is too much.
    delta : float
        Delta of the budget.
    dataset : str
        Name of the records in the ledger; the fit must name the same.
    run : str
        Name under which the query is booked.

    Examples
    --------
    >>> import tempfile
    >>> import tacenda as tc
    >>> table = {"age": [k % 70 + 20.5 for k in range(4_000)], "ill": ["no", "yes"] * 2_000}
    >>> draft = tc.data.draft_schema(table, label="ill")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     got = tc.data.private_bounds(
    ...         draft, table, ledger=f"{folder}/l", dataset="us", epsilon=2, delta=0, share=0.5
    ...     )
    >>> got.columns, got.epsilon_each
    (('age',), 0.4)
    """

    schema: Schema
    columns: tuple[str, ...]
    tail: float
    rank_error: int
    epsilon_each: float
    epsilon: float
    epsilon_left: float
    delta: float
    dataset: str
    run: str


def private_bounds(
    schema: Schema,
    data: Any,
    *,
    ledger: str | Path,
    dataset: str,
    epsilon: float | None = None,
    delta: float | None = None,
    share: float = SHARE,
    columns: Sequence[str] | None = None,
    within: Mapping[str, tuple[float, float]] | None = None,
    tail: float | None = None,
    adjacency: str = "replace-one",
) -> PrivateBounds:
    """Replace unconfirmed bounds of numbers by private quantiles, charged to the ledger.

    Two quantiles of each number are chosen by the exponential mechanism on ranks, booked before
    anything is drawn, and become confirmed bounds. The bounds that the schema holds are not looked
    at; only its kinds of columns are used, and they must be public. Columns that it declares
    two-valued are not asked. The bounds of a number to predict are moved outwards by half of their
    distance, since nothing outside them can be predicted.

    Where the schema names persons, one record of each is looked at, drawn by the ledger's key: the
    bounds are then private for persons.

    It is the query of one holder of one file: members of a network ask their own files and agree
    on public bounds.

    Parameters
    ----------
    schema : Schema
        A schema, such as a draft, whose kinds of columns are public.
    data : str, Path, Table or frame
        The records.
    ledger : str or Path
        File of the lasting ledger; it is made if missing.
    dataset : str
        Name of the records in the ledger; the later fit must name the same.
    epsilon : float or None, default=None
        Budget of everything on these records, the later fit included. By default the ledger's;
        where the ledger has none, this one is set.
    delta : float or None, default=None
        Delta of that budget.
    share : float, default=0.02
        Part of the budget that the quantiles take at most, in the squares that add up: 0.02 leaves
        the fit 99 % of its epsilon.
    columns : sequence of str or None, default=None
        Columns to ask for; by default all numbers that are not confirmed, the label too.
    within : mapping of str to (float, float) or None, default=None
        Public ranges where they are known, as {"year": (1900, 2030)}; the candidates are then up to
        200 round steps of that range. Without one, sizes from 1e-12 to 1e18 are told apart.
    tail : float or None, default=None
        The lower quantile. By default as small as the noise allows: its rank is at least twice the
        mechanism's error away from the end. The number of records decides that, so under
        "add-remove" it must be given.
    adjacency : {"replace-one", "add-remove"}, default="replace-one"
        Neighbouring relation; that of the ledger's budget counts where there is one.

    Returns
    -------
    PrivateBounds
        The schema with these bounds, and what they cost.

    Raises
    ------
    BudgetError
        If the budget does not allow it; nothing is drawn.
    PrivacyError
        If the budget cannot find the quantiles; the message names the epsilon that could, and
        nothing is spent.
    InputError
        If a column does not exist or holds text, or no budget is known.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tacenda as tc
    >>> pay = np.random.default_rng(0).normal(30_000, 5_000, 5_000)
    >>> table = {"pay": pay, "ill": ["no", "yes"] * 2_500}
    >>> draft = tc.data.draft_schema(table, label="ill")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     got = tc.data.private_bounds(
    ...         draft, table, ledger=f"{folder}/l", dataset="us", epsilon=2, delta=0, share=0.2
    ...     )
    >>> got.schema.columns[0].confirmed, got.epsilon, got.epsilon_left
    (True, 0.4, 1.6)
    """
    checks.between("share", share, 0.0, 1.0)
    parts = _wanted(schema, columns)
    ranges = dict(within or {})
    strangers = [name for name in ranges if name not in parts]
    if strangers:
        raise InputError(
            f"within names {strangers}, but only bounds of {list(parts)} are asked for."
        )
    searches = {name: Search.of(part, ranges.get(name)) for name, part in parts.items()}
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    if not Path(ledger).exists():  # else its records may be known by another name
        _known_budget(None, epsilon, delta, dataset)
    if isinstance(data, str | Path):
        names = column_names(data)
        for name in parts:
            _check_column(name, names, source_name(data))
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    unit, own = Unit(), as_read(schema, table)
    if schema.person is not None:
        table, unit = _one_each(schema, table, ledger), Unit(1)
    values = {name: _values(schema, part, table) for name, part in parts.items()}
    with LedgerStore(ledger) as store:
        others = store.datasets()
        with store.account_for_bounds(marks_as_read(own, store.salt), dataset) as account:
            notes, budget = account.notes, store.budget(dataset)
            epsilon, delta = _known_budget(budget, epsilon, delta, dataset)
            adjacency = adjacency if budget is None else budget.adjacency
            records = len(table) if adjacency == "replace-one" else None
            price = Price.of(epsilon, delta, share, tuple(searches.values()))
            quantile = lower_tail(tail, price, records)  # a refusal leaves no account behind
        if others and dataset not in others and not notes:
            notes = (
                f"data set {dataset!r} is new to the ledger, which holds "
                f"{', '.join(map(repr, others))}: what is spent on it is counted separately. If "
                f"these "
                f"are the same people's records: tacenda ledger join LEDGER {dataset!r} "
                f"{others[0]!r}",
            )
        for note in notes:
            warnings.warn(note, LedgerWarning, stacklevel=2)
        if budget is None:
            store.set_budget(dataset, epsilon, delta, adjacency, unit)
        run = f"{BOUNDS}{secrets.token_hex(12)}"
        title = f"private quantiles of {len(parts)} columns"
        store.open_run(run, dataset, title, adjacency, delta=delta, unit=unit)
        charges = price.charges()
        spending: Events = charges.events(0)
        try:
            store.reserve(run, spending)
            booked = Ledger(
                charges, lambda turn, call, charge: _book(store, run, turn, call, charge.event(0))
            )
            found = {
                name: searches[name].bounds(values[name], quantile, price, booked, turn)
                for turn, name in enumerate(parts, start=1)
            }
        finally:
            store.close_run(run)
    source = (
        f"private {float(quantile):.3g} and {float(1 - quantile):.3g} quantiles, "
        f"epsilon {price.end:.3g} each"
    )
    return PrivateBounds(
        schema=_bounded(schema, found, source),
        columns=tuple(parts),
        tail=float(quantile),
        rank_error=math.ceil(price.error),
        epsilon_each=price.end,
        epsilon=judge(spending, adjacency).epsilon(delta),
        epsilon_left=price.left,
        delta=delta,
        dataset=dataset,
        run=run,
    )


def _known_budget(
    budget: Budget | None, epsilon: float | None, delta: float | None, dataset: str
) -> tuple[float, float]:
    """(epsilon, delta): what is given, else the ledger's."""
    if budget is not None:
        epsilon = budget.epsilon if epsilon is None else epsilon
        delta = budget.delta if delta is None else delta
    if epsilon is None or delta is None:
        raise InputError(
            f"epsilon and delta must be given, because the ledger holds no budget of {dataset!r}."
        )
    return epsilon, delta


def _wanted(schema: Schema, columns: Sequence[str] | None) -> dict[str, NumericColumn | Label]:
    numbers: dict[str, NumericColumn | Label] = {
        column.name: column
        for column in schema.columns
        if isinstance(column, NumericColumn)
        and column.transform in ("clip", "log1p")
        and not column.two_valued
    }
    if schema.label.classes is None:
        numbers[schema.label.name] = schema.label
    if columns is None:
        numbers = {name: part for name, part in numbers.items() if not part.confirmed}
        if not numbers:
            raise InputError(
                f"schema {schema.name!r} has no number whose bounds are not confirmed; "
                "name the columns to ask for."
            )
        return numbers
    for name in columns:
        checks.one_of("columns", name, tuple(numbers))
    return {name: numbers[name] for name in columns}


def _check_column(name: str, columns: list[str], source: str) -> None:
    if name not in columns:
        raise InputError(f"{source} lacks the column {name!r}; it has {columns}.")


def _values(schema: Schema, part: NumericColumn | Label, table: Table) -> Callable[[], Floats]:
    """A column's values, for the door to ask for; what cannot be read is refused now, before
    anything is charged."""
    _check_column(part.name, list(table.columns), table.source)
    date = part.date if isinstance(part, NumericColumn) else None
    bare = NumericColumn(name=part.name, low=0.0, high=1.0, date=date)
    numbers = column_numbers(schema, bare, table, np.ones(len(table), bool))[0]
    return lambda: numbers


def _one_each(schema: Schema, table: Table, ledger: str | Path) -> Table:
    """One record of each person, drawn by the ledger's key and the ids alone: what moves a quantile
    by one record is then a whole person."""
    if schema.person not in table.columns:
        raise InputError(
            f"{table.source} lacks the column {schema.person!r}, which the schema names as that of "
            "the persons' ids; add it, so that no person counts twice."
        )
    with LedgerStore(ledger) as store:
        key = store.secret("records kept of each person")
    return table.part(records=kept_records(persons_of(schema, table), 1, key))


def _book(store: LedgerStore, run: str, turn: int, call: int, event: Any) -> None:
    store.charge(run, (turn, call), event)


def _bounded(schema: Schema, found: dict[str, tuple[float, float]], source: str) -> Schema:
    """The schema with these bounds, confirmed; a stand-in for missing values moves inside them. The
    notes of a draft, which were read from the data, are left out."""

    def with_bounds(part: Any) -> Any:
        if part.name not in found:
            return part
        low, high = found[part.name]
        if isinstance(part, Label):
            # What lies outside a label's bounds can never be predicted: it gets more room
            room = LABEL_ROOM * (high - low)
            low, high = low - room, high + room
        fields = {"low": low, "high": high, "confirmed": True, "source": source}
        impute = getattr(part, "impute", None)
        if impute is not None:
            fields["impute"] = min(max(impute, low), high)
        return type(part)(**{**part.model_dump(), **fields})

    return Schema.build(
        **{
            **dict(schema),
            "notes": "" if schema.notes.startswith(DRAFTED) else schema.notes,
            "columns": tuple(with_bounds(column) for column in schema.columns),
            "label": with_bounds(schema.label),
        }
    )
