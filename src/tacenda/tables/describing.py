"""`describe`: one charged release of counts and sums, and the table that follows from it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.data import partition
from tacenda.data.coded import words_of
from tacenda.data.encoding import as_read
from tacenda.data.persons import persons_of
from tacenda.data.readers import read_table
from tacenda.data.schema import Schema, UnconfirmedSchemaWarning
from tacenda.data.table import Table
from tacenda.errors import InputError, PrivacyError
from tacenda.graph import complete
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.questions.tables import TableSums
from tacenda.runtime.simulate import simulate
from tacenda.tables.asked import BINS, QUANTILES, Asked
from tacenda.tables.description import Description
from tacenda.tables.forecasting import NoisyTableWarning, enough, epsilon_of, forecast, noise_of

SIMULATED = (
    "a simulation: its noise is floating-point and seeded, for trials and for people who may read "
    "all records"
)
NOISY = ("refuse", "leave out", "keep")


def describe(
    schema: Schema,
    data: Any,
    privacy: Privacy | None,
    *,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    bins: int = BINS,
    weights: Mapping[str, float] | None = None,
    nodes: int = 1,
    public_size: int | None = None,
    noisy: str = "refuse",
    level: float = 0.95,
    seed: int | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> Description:
    """Describe the records of a network in one private table: a simulation over its nodes.

    Every node adds up counts and sums of its own records. The network's sum is released once, with
    the noise that the budget asks for, and the whole table follows from it. One record moves all
    numbers together by as much as it may move one alone, so extra columns cost no privacy, but
    more noise.

    Parameters
    ----------
    schema : Schema
        The columns with their public bounds and levels; the label is described too.
    data : str, Path, Table or frame
        The records. The schema's `node_column` says who holds each; its `person` makes persons the
        unit of the guarantee, and one record of each is taken.
    privacy : Privacy or None
        Budget of the whole table; None is not private.
    by : str or None, default=None
        A column with levels (or the label) that divides the records into groups.
    columns : sequence of str or None, default=None
        Columns to describe; None: all but `by`.
    quantiles : sequence of float, default=(0.25, 0.5, 0.75)
        Of each number; none asks for no bins, and leaves more of the budget to means.
    bins : int, default=20
        Between a number's bounds, from which quantiles are read.
    weights : mapping of str to float or None, default=None
        Which share of the budget a column takes beside the others, 1 where it is not named.
    nodes : int, default=1
        Over how many nodes the records are spread, where the schema names no node column.
    public_size : int or None, default=None
        Under "add-remove", where the number of records is private: about how many there are.
    noisy : {"refuse", "leave out", "keep"}, default="refuse"
        What happens with columns that the noise will leave unreadable, by public numbers: an error,
        a smaller table, or a warning. All of them come before anything is spent.
    level : float, default=0.95
        Confidence level of the intervals.
    seed : int or None, default=None
        Of the simulated noise.
    ledger : str, Path or None, default=None
        File of a lasting ledger, charged before noise is drawn, in the account of these records.
    dataset : str or None, default=None
        Name of that account.

    Returns
    -------
    Description
        The table; `save("table.html")` writes it.

    Raises
    ------
    PrivacyError
        If columns would be unreadable, or the account has too little budget left.

    Examples
    --------
    >>> import tacenda as tc
    >>> table = {"age": [30.0, 50.0, 70.0] * 1000, "ill": ["no", "no", "yes"] * 1000}
    >>> schema = tc.data.Schema.build(
    ...     columns=[{"kind": "numeric", "name": "age", "low": 0, "high": 100}],
    ...     label={"name": "ill", "classes": ["no", "yes"]},
    ... )
    >>> found = tc.describe(schema, table, tc.Privacy(1.0), by="ill", nodes=4, seed=0)
    >>> sum(found.sizes)
    3000
    >>> cell = found.row("age", "mean").cells[0]
    >>> cell.low < 40 < cell.high
    True
    """
    checks.one_of("noisy", noisy, NOISY)
    if schema.unconfirmed:
        warnings.warn(
            f"schema {schema.name!r} has values read from the data in {list(schema.unconfirmed)}: "
            "unless they are public the guarantee does not hold; confirm them in the schema.",
            UnconfirmedSchemaWarning,
            stacklevel=2,
        )
    asked = Asked.of(schema, by, columns, quantiles, bins, weights)
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    names = [c.name for c in asked.columns] + [n for n in (by, schema.person) if n is not None]
    for name in names:
        if name not in table.columns:
            raise InputError(f"{table.source} lacks the column {name!r}, which the table asks for.")
    problem = problem_of(asked, schema, table, nodes, declared_size(privacy, public_size))
    if privacy is not None:
        less = readable(asked, _public_records(problem, privacy), privacy, problem.n_nodes, noisy)
        if less is not asked:
            asked = less
            problem = problem_of(asked, schema, table, nodes, declared_size(privacy, public_size))
    account = (ledger, dataset)
    total, noise, count, promise, about = released_sum(
        asked.statistic, problem, privacy, seed, account, table.source
    )
    return Description(asked, total, noise, count, promise, level, about)


def readable(asked: Asked, records: int, privacy: Privacy, nodes: int, noisy: str) -> Asked:
    """What is left to ask, once columns are gone that the noise would leave unreadable."""
    while True:
        told = forecast(asked, records, privacy, nodes)
        if not told.unreadable:
            return asked
        said = (
            f"with about {told.group_size:.0f} records in a group, noise at epsilon "
            f"{epsilon_of(privacy):g} would leave "
            f"{', '.join(map(repr, told.unreadable))} unreadable"
        )
        if noisy == "keep":
            warnings.warn(f"{said}.", NoisyTableWarning, stacklevel=3)
            return asked
        if noisy == "refuse" or len(asked.columns) == 1:
            raise PrivacyError(
                f"{said}. Nothing was spent. Ask for fewer columns or groups, or fewer bins; an "
                f"epsilon of about {enough(privacy, told.factor):.2g} would do; or "
                "set noisy='leave out' or noisy='keep' (--noisy)."
            )
        # The noisiest only: what it would have cost makes the others more readable
        worst = max(told.rows, key=lambda row: row.excess).column
        warnings.warn(f"{said}; {worst!r} is left out.", NoisyTableWarning, stacklevel=3)
        asked = asked.without([worst])


def problem_of(
    asked: Asked, schema: Schema, table: Table, nodes: int, public_size: int | None
) -> Problem:
    """The records as the table's question reads them, at their nodes."""
    return placed(asked.rows(schema, table), schema, table, nodes, public_size)


def placed(
    rows: Floats, schema: Schema, table: Table, nodes: int, public_size: int | None
) -> Problem:
    """Rows for `TableSums` at their nodes; one record of each person, where the schema has them."""
    zeros = np.zeros(len(table))
    persons = None if schema.person is None else persons_of(schema, table)
    if schema.node_column is not None and schema.node_column in table.columns:
        holders = words_of(table.columns[schema.node_column]).astype(str)
        shards = partition.by_column(rows, zeros, holders, persons)
    elif persons is not None:
        shards = partition.by_person(rows, zeros, persons, nodes)
    else:
        shards = partition.even(rows, zeros, nodes)
    sizes = None if public_size is None else [public_size / len(shards)] * len(shards)
    return Problem(shards, loss="squared", public_sizes=sizes, fingerprints=as_read(schema, table))


def released_sum(
    statistic: TableSums,
    problem: Problem,
    privacy: Privacy | None,
    seed: int | None,
    account: tuple[str | Path | None, str | None],
    source: str,
) -> tuple[Floats, float, int | None, Statement | None, dict[str, Any]]:
    """One release over the nodes, charged first: the sum, its noise, the number of records where it
    is public, what is promised, and what was asked."""
    relation = "replace-one" if privacy is None else privacy.adjacency
    result = simulate(
        problem,
        complete(problem.n_nodes),
        StatisticRelease(statistic, noise_of(problem.n_nodes)),
        rounds=1,
        privacy=privacy,
        seed=seed,
        record_every=0,
        metrics=(),
        progress=False,
        ledger=account[0],
        dataset=account[1],
    )
    public = privacy is None or Facts.of(problem, relation).counts_are_public
    about: dict[str, Any] = {"data": source, "nodes": problem.n_nodes}
    if privacy is not None:
        about |= {"simulation": SIMULATED, "charged": account[0] is not None}
    total, noise = result.released["total"], float(result.released["noise"][0])
    records = int(np.sum(problem.sizes)) if public else None
    return np.asarray(total, float), noise, records, result.privacy, about


def declared_size(privacy: Privacy | None, public_size: int | None) -> int | None:
    """The number that stands for how many records there are, where that is private."""
    if privacy is None or privacy.adjacency != "add-remove":
        return None
    if public_size is None:
        raise InputError(
            "public_size must state roughly how many records there are, from public knowledge: "
            "under add-remove their number is private."
        )
    return checks.whole("public_size", public_size, least=1)


def _public_records(problem: Problem, privacy: Privacy) -> int:
    return round(float(Facts.of(problem, privacy.adjacency).sizes.sum()))
