"""What a private table tells may serve as declarations later: narrower bounds, stand-ins for
missing cells, knots of curves, and prevalences. The table was charged once; what follows from it
is public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import checks
from tacenda.data.columns import NumericColumn
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.tables.forecasting import MOST_MEAN, MOST_SHARE

if TYPE_CHECKING:
    from tacenda.tables.description import Description

LEAST_APART = 0.002  # of a column's range, between knots


def declared(found: Description, schema: Schema, outside: float = 0.02, knots: int = 0) -> Schema:
    """Declare in a schema what a released table tells.

    A number's bounds become edges of the table's bins, where that leaves no more than a small share
    of the records beyond each, with the table's confidence. A column without a stand-in for missing
    cells gets the mean, or the most frequent level. Columns about which the noise tells too little,
    or whose declaration depends on their bounds, stay as they are.

    found: the table. schema: with the same columns. outside: the largest share of records beyond
    each bound; their values are cut to it. knots: number of inner knots of a curve, at quantiles of
    the table; 0 leaves them as they are.
    """
    checks.whole("knots", knots, least=0)
    share = checks.between("outside", outside, 0.0, 0.5)
    origin = "table without noise"
    if found.privacy is not None:
        origin = f"private table, epsilon {found.privacy.epsilon:.4g}"
    known = {column.name: k for k, column in enumerate(found.asked.columns)}
    columns: list[Any] = []
    for column in schema.columns:
        update: dict[str, Any] = {}
        if column.name in known and isinstance(column, NumericColumn):
            one = found.asked.columns[known[column.name]]
            if (one.low, one.high) != (column.low, column.high):
                raise InputError(
                    f"the table describes {column.name!r} between {one.low:g} and {one.high:g}, "
                    f"and the schema declares {column.low:g} and {column.high:g}; give the schema "
                    "by which the table was made."
                )
            if column.period is None and not column.breaks and not column.atoms:
                update = _bounds(found, column, share)
                if knots and not column.two_valued:
                    update |= _breaks(found, column, update, knots)
            mean = found.row(column.name, "mean").cells[-1]
            if column.impute is None and mean.high - mean.low <= 4 * MOST_MEAN * (
                one.high - one.low
            ):
                low, high = update.get("low", column.low), update.get("high", column.high)
                update["impute"] = float(f"{min(max(mean.value, low), high):.4g}")
        elif column.name in known and not isinstance(column, NumericColumn):
            shares = prevalences(found, column.name)
            if column.impute is None and shares:
                update["impute"] = max(shares, key=lambda level: shares[level])
        if update:
            update["source"] = origin
            update["confirmed"] = True
        columns.append(column.model_copy(update=update))
    made = schema.model_copy(update={"columns": tuple(columns)})
    return Schema.build(**made.model_dump(exclude_none=True))


def prevalences(found: Description, column: str) -> dict[str, float]:
    """Tell the share of each level of a column, or of each class of the label; none where the noise
    hides one of them."""
    one = next((c for c in found.asked.columns if c.name == column), None)
    if one is None or not one.levels:
        named = [c.name for c in found.asked.columns if c.levels]
        raise InputError(f"column must be one with levels in the table ({named}), not {column!r}.")
    shares = {level: found.row(column, level).cells[-1].share for level in one.levels}
    told = {k: x for k, x in shares.items() if x is not None and x.high - x.low <= 2 * MOST_SHARE}
    return {k: float(x.value) for k, x in told.items()} if len(told) == len(shares) else {}


def _bounds(found: Description, column: NumericColumn, share: float) -> dict[str, Any]:
    """Edges of bins between which nearly all of the records are."""
    told = found.distribution(column.name)
    if not told:
        return {}
    edges, below = told[-1]
    low = max((x for x, s in zip(edges, below, strict=True) if s.high <= share), default=None)
    high = min((x for x, s in zip(edges, below, strict=True) if s.low >= 1 - share), default=None)
    ends = {"low": low, "high": high}
    return {name: float(f"{x:.6g}") for name, x in ends.items() if x is not None}


def _breaks(
    found: Description, column: NumericColumn, update: dict[str, Any], knots: int
) -> dict[str, Any]:
    """Inner knots at quantiles: the released distribution, made to rise, is straight in a bin."""
    told = found.distribution(column.name)
    if not told or column.hats == 0:
        return {}
    edges, shares = told[-1]
    if max(s.high - s.low for s in shares) > 2 * MOST_SHARE:
        return {}  # noise hides where the records are
    low, high = update.get("low", column.low), update.get("high", column.high)
    rising = np.clip(np.maximum.accumulate([s.value for s in shares]), 0.0, 1.0)
    places = np.concatenate([[column.low], edges])
    # Where no records are the distribution is flat: its first place counts
    rising, first = np.unique(np.concatenate([[0.0], rising]), return_index=True)
    wanted = np.interp(np.arange(1, knots + 1) / (knots + 1), rising, places[first])
    apart = LEAST_APART * (high - low)
    kept: list[float] = []
    for place in (float(f"{x:.6g}") for x in wanted):
        if max([low, *kept]) + apart <= place <= high - apart:
            kept.append(place)
    return {"breaks": tuple(kept)} if kept else {}
