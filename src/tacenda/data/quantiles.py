"""Bounds for numbers of which no public ones are known: two private quantiles of each, charged to
the lasting ledger.

The quantile of a column is one of a public list of candidates, chosen by the exponential mechanism
on its rank (Smith 2011; McSherry and Talwar 2007): a candidate x is as far from the quantile q as
q n is from the interval [number of values below x, number of values up to x]. That distance moves
by at most 1 when one record is replaced, added or removed, also when its value was or becomes
missing; so each choice is epsilon-DP, under either relation, and is booked as a pure event.

It is the query of one holder of one file, on the machine that holds it. Members of a network each
ask their own file, with their own ledger, and agree on public bounds from the answers.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Floats, Ints
from tacenda.data.draft import DRAFTED
from tacenda.data.encoding import column_numbers
from tacenda.data.readers import read_table
from tacenda.data.schema import Label, NumericColumn, Schema
from tacenda.data.table import Table
from tacenda.errors import InputError, LedgerWarning, PrivacyError, UnsupportedError
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.events import Events, Gaussian, Pure
from tacenda.privacy.accounting.judge import judge
from tacenda.privacy.lasting.accounts import BOUNDS
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda.privacy.noise.aes import AesStream
from tacenda.privacy.secrets.door import Choice, release_choice
from tacenda.privacy.secrets.ledger import Charges, Ledger
from tacenda.privacy.secrets.mechanisms import choice_charge

SHARE = 0.02  # of the budget, in the squares that add up
LEAST_TAIL, MOST_TAIL = Fraction(1, 100), Fraction(1, 5)
DECADES = range(-6, 9)  # candidates without a declared range: two digits, from 1e-6 to 1e9
STEPS = 200  # at most so many steps are the candidates within a declared range
LABEL_ROOM = 0.5  # of their distance: how much further out a label's bounds are, on either side
CHANCE = 0.05  # that a quantile's rank errs by more than is stated


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
        How many records a quantile's rank may err by, with a chance of 95 %.
    epsilon_each : float
        Of one quantile, pure.
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
    (('age',), 0.5)
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
    at; only its kinds of columns are used, and they must be public. Those of a number to predict
    are moved outwards by half of their distance, since nothing outside them can be predicted.

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
        200 round steps of that range, and the answer is finer. Without one they are the numbers of
        two digits up to 1e9.
    tail : float or None, default=None
        The lower quantile. By default as small as the noise allows; the number of records decides
        that, so under "add-remove" it must be given.
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
        If the quantiles would be nothing but noise; nothing is spent.
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
    if schema.person is not None:
        raise UnsupportedError(
            f"private_bounds is about single records, and the schema names persons "
            f"({schema.person!r}), who may have several; declare bounds from public knowledge, or "
            "leave person out of the schema that is given here."
        )
    parts = _wanted(schema, columns)
    ranges = dict(within or {})
    strangers = [name for name in ranges if name not in parts]
    if strangers:
        raise InputError(
            f"within names {strangers}, but only bounds of {list(parts)} are asked for."
        )
    candidates = {name: _candidates(part, ranges.get(name)) for name, part in parts.items()}
    table = read_table(data) if isinstance(data, str | Path) else Table.of(data)
    values = {name: _values(schema, part, table) for name, part in parts.items()}
    with LedgerStore(ledger) as store:
        budget, others = store.budget(dataset), store.datasets()
        if budget is not None:
            epsilon = budget.epsilon if epsilon is None else epsilon
            delta = budget.delta if delta is None else delta
            adjacency = budget.adjacency
        if epsilon is None or delta is None:
            raise InputError(
                "epsilon and delta must be given, because the ledger holds no budget of "
                f"{dataset!r}."
            )
        each, left = _price(epsilon, delta, share, 2 * len(parts), adjacency)
        most = max(map(len, candidates.values()))
        error = 2 / each * math.log(most / CHANCE)
        quantile = _tail(tail, error, len(table), adjacency)
        if others and dataset not in others:
            # A fit would be recognised by its encoded records; raw ones have no bounds yet
            warnings.warn(
                f"data set {dataset!r} is new to the ledger, which holds "
                f"{', '.join(map(repr, others))}: what is spent on it is counted apart. If these "
                f"are the same people's records: tacenda ledger join LEDGER {dataset!r} "
                f"{others[0]!r}",
                LedgerWarning,
                stacklevel=2,
            )
        if budget is None:
            store.set_budget(dataset, epsilon, delta, adjacency)
        run = f"{BOUNDS}{secrets.token_hex(12)}"
        store.open_run(run, dataset, f"private quantiles of {len(parts)} columns", adjacency)
        spending: Events = [(Pure(each), 2 * len(parts))]
        try:
            store.reserve(run, spending)
            booked = Ledger(
                Charges([(choice_charge(each), 2 * len(parts))]),
                lambda turn, call, charge: _book(store, run, turn, call, charge.event(0)),
            )
            found = {
                name: _bounds(values[name], candidates[name], quantile, each, booked, turn)
                for turn, name in enumerate(parts, start=1)
            }
        finally:
            store.close_run(run)
    source = (
        f"private {float(quantile):.3g} and {float(1 - quantile):.3g} quantiles, "
        f"epsilon {each:.3g} each"
    )
    return PrivateBounds(
        schema=_bounded(schema, found, source),
        columns=tuple(parts),
        tail=float(quantile),
        rank_error=math.ceil(error),
        epsilon_each=each,
        epsilon=judge(spending, adjacency).epsilon(delta),
        epsilon_left=left,
        delta=delta,
        dataset=dataset,
        run=run,
    )


def private_quantile(
    values: Callable[[], Floats],
    candidates: Floats,
    quantile: Fraction,
    epsilon: float,
    ledger: Ledger,
    stream: AesStream,
    turn: int,
    call: int,
) -> float:
    """One of the candidates (ascending, public) near the quantile of private values; charged to the
    ledger first."""

    def distances() -> Ints:
        return rank_distances(values(), candidates, quantile)

    choice = Choice(distances, quantile.denominator)
    return float(candidates[release_choice(choice, epsilon, ledger, stream, turn, call)])


def rank_distances(values: Floats, candidates: Floats, quantile: Fraction) -> Ints:
    """(k,) how far each candidate's ranks are from the quantile's, in units of 1 / denominator: a
    record moves each by at most the denominator. NaN counts as missing."""
    present = np.sort(values[~np.isnan(values)])
    above, below = quantile.denominator, quantile.numerator * len(present)
    fewer = np.searchsorted(present, candidates, "left").astype(np.int64) * above
    up_to = np.searchsorted(present, candidates, "right").astype(np.int64) * above
    return np.maximum(0, np.maximum(fewer - below, below - up_to))


def _wanted(schema: Schema, columns: Sequence[str] | None) -> dict[str, NumericColumn | Label]:
    numbers: dict[str, NumericColumn | Label] = {
        column.name: column
        for column in schema.columns
        if isinstance(column, NumericColumn) and column.transform in ("clip", "log1p")
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


def _candidates(part: NumericColumn | Label, within: tuple[float, float] | None) -> Floats:
    """Public values, ascending: what a quantile may be."""
    logarithm = isinstance(part, NumericColumn) and part.transform == "log1p"
    if within is not None:
        low, high = within
        if not (math.isfinite(high - low) and low < high):
            raise InputError(
                f"within[{part.name!r}] must be a finite range, low below high, "
                f"not {low:g} to {high:g}."
            )
        if logarithm and low <= -1:
            raise InputError(f"within[{part.name!r}] must be above -1 for log1p, not {low:g}.")
        step = _round_step(max((high - low) / STEPS, 1e-300))
        places = max(0, 1 - math.floor(math.log10(step)))
        inside = [round(low + k * step, places) for k in range(1, math.ceil((high - low) / step))]
        return np.unique([low, *(x for x in inside if low < x < high), high])
    digits = np.arange(10, 100)
    sizes = [float(f"{d}e{k - 1}") for k in DECADES for d in digits] + [1e9]
    return np.array([0.0, *sizes] if logarithm else [*(-s for s in sizes[::-1]), 0.0, *sizes])


def _round_step(least: float) -> float:
    """The first of ... 0.5, 1, 2, 5, 10, ... that is not below `least`."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(size * k for k in (1, 2, 5, 10) if k == 10 or size * k >= least)


def _values(schema: Schema, part: NumericColumn | Label, table: Table) -> Callable[[], Floats]:
    """A column's values, for the door to ask for; what cannot be read is refused now, before
    anything is charged."""
    if part.name not in table.columns:
        raise InputError(
            f"{table.source} lacks the column {part.name!r}; it has {list(table.columns)}."
        )
    bare = NumericColumn(name=part.name, low=0.0, high=1.0)
    numbers = column_numbers(schema, bare, table, np.ones(len(table), bool))[0]
    return lambda: numbers


def _price(
    epsilon: float, delta: float, share: float, count: int, adjacency: str
) -> tuple[float, float]:
    """(pure epsilon of one of `count` choices, epsilon that is left for a Gaussian release).

    With mu that of the whole budget, the release may have mu^2 (1 - share), and each choice a
    square of mu^2 share / count; the composition of all of them is then judged, and the choices
    made cheaper until it fits. At delta = 0 epsilon itself is shared out.
    """
    if delta == 0:
        return epsilon * share / count, epsilon * (1 - share)
    mu = gaussian_mu(epsilon, delta)
    rest = mu * math.sqrt(1 - share)
    each = mu * math.sqrt(share / count)
    for _ in range(60):
        whole = judge([(Gaussian(1 / rest), 1), (Pure(each), count)], adjacency)
        if whole.delta(epsilon) <= delta:
            return each, GaussianProfile(rest).epsilon(delta)
        each *= 0.98
    raise PrivacyError(
        f"no quantile fits into a share of {share:g} of epsilon {epsilon:g} at delta {delta:g}; "
        "raise share."
    )


def _tail(tail: float | None, error: float, records: int, adjacency: str) -> Fraction:
    """The lower quantile: as given, or so large that choices beyond the extremes are improbable."""
    if tail is not None:
        return Fraction(checks.between("tail", tail, 0.0, 0.5)).limit_denominator(1000)
    if adjacency != "replace-one":
        raise InputError(
            "tail must be given under add-remove, where the number of records is private; "
            "0.05 is a usual choice."
        )
    needed = Fraction(math.ceil(1000 * error / max(records, 1)), 1000)
    if needed > MOST_TAIL:
        raise PrivacyError(
            f"with {records} records and this share of the budget a quantile's rank would err by "
            f"up to {math.ceil(error)} records, too many to be of use; nothing was spent. Ask for "
            "fewer columns, declare a public range of values (within), or raise share."
        )
    return max(needed, LEAST_TAIL)


def _bounds(
    values: Callable[[], Floats],
    candidates: Floats,
    tail: Fraction,
    each: float,
    ledger: Ledger,
    turn: int,
) -> tuple[float, float]:
    """(low, high) of one column; what follows the two draws is post-processing."""
    ends = [
        # A key for each: two choices of one stream would share its side stream
        private_quantile(values, candidates, q, each, ledger, AesStream.fresh(), turn, call)
        for call, q in enumerate((tail, 1 - tail))
    ]
    low, high = min(ends), max(ends)
    if low == high:
        at = int(np.searchsorted(candidates, low))
        low = float(candidates[max(at - 1, 0)])
        high = float(candidates[min(at + 1, len(candidates) - 1)])
    return low, high


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
