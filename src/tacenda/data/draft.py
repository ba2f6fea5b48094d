"""Propose a schema for a file. Everything proposed was read off the data,
so it is marked as to be confirmed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.data.encoding import _is_number, _words
from tacenda.data.readers import read_table
from tacenda.data.schema import DEFAULT_MISSING, CategoricalColumn, Label, NumericColumn, Schema
from tacenda.data.table import Table
from tacenda.errors import InputError

# More levels than this are an identifier or free text, which a schema should not list.
MOST_LEVELS = 60
# A whole-number label with at most this many values is taken for classes.
MOST_CLASSES = 10
GAPS = frozenset(DEFAULT_MISSING)


def draft_schema(
    source: Any, *, label: str | None = None, node: str | None = None, name: str | None = None
) -> Schema:
    """A schema for a file, query, frame or table, to be read and corrected by somebody who knows
    the field.

    `label` is the column to predict (default: the last), `node` the column that names the holder.
    Bounds are rounded outwards to two digits, levels listed as seen; text columns with too many
    levels are left out and the notes say so.
    """
    table = read_table(source) if isinstance(source, str | Path) else Table.of(source)
    label = list(table.columns)[-1] if label is None else label
    for role, used in (("label", label), ("node", node)):
        if used is not None and used not in table.columns:
            raise InputError(
                f"{role} must be a column of {table.source}, not {used!r}; "
                f"it has {list(table.columns)}."
            )
    columns, left_out, missing = [], [], False
    for column, cells in table.columns.items():
        words, gaps = _present(cells)
        missing |= gaps
        if column in (label, node):
            continue
        proposal = _column(column, words)
        if proposal is None:
            left_out.append(column)
        else:
            columns.append(proposal)
    if not columns:
        raise InputError(
            f"{table.source} has no column that can be encoded beside the label {label!r}."
        )
    notes = "Drafted from the data: check every bound and level, then set confirmed = true."
    if left_out:
        why = "constant, empty, or too many levels to be a public list"
        notes += f" Left out ({why}): {', '.join(left_out)}."
    if missing:
        notes += " Some cells are missing: such records are dropped; see missing = 'impute'."
    return Schema.build(
        name=name or Path(table.source).stem,
        notes=notes,
        columns=tuple(columns),
        label=_label(label, _present(table.columns[label])[0]),
        node_column=node,
        # Numbers are centred on the middle of their bounds, not of the data: a constant feature
        # makes up for the difference.
        intercept=True,
    )


def _present(cells: Array) -> tuple[Array, bool]:
    """Cells that are not missing, as text, and whether any was."""
    if cells.dtype.kind == "f":
        kept = cells[~np.isnan(cells)]
    else:
        words = _words(cells)
        kept = words[np.fromiter((word not in GAPS for word in words), np.bool_, count=len(words))]
    return (_words(kept) if kept.dtype.kind == "f" else kept), len(kept) < len(cells)


def _column(name: str, words: Array) -> NumericColumn | CategoricalColumn | None:
    levels = sorted(set(words))
    if len(levels) < 2:
        return None
    if all(_is_number(word) for word in levels):
        low, high = _bounds([float(word) for word in levels])
        return NumericColumn(name=name, low=low, high=high, scale_to="symmetric", confirmed=False)
    if len(levels) > MOST_LEVELS:
        return None
    return CategoricalColumn(name=name, levels=tuple(levels), confirmed=False)


def _label(name: str, words: Array) -> Label:
    values = sorted(set(words))
    if len(values) < 2:
        raise InputError(
            f"label {name!r} shows fewer than two classes, so none can be proposed; "
            "choose another label column or write the schema by hand with all classes."
        )
    numeric = all(_is_number(value) for value in values)
    whole = numeric and all(float(value).is_integer() for value in values)
    if numeric and not (whole and len(values) <= MOST_CLASSES):
        low, high = _bounds([float(value) for value in values])
        return Label(name=name, low=low, high=high, scale_to="symmetric", confirmed=False)
    if len(values) > MOST_LEVELS:
        raise InputError(
            f"label {name!r} has more than {MOST_LEVELS} text values; choose another label column."
        )
    return Label(
        name=name, classes=tuple(sorted(values, key=float) if whole else values), confirmed=False
    )


def _bounds(values: list[float]) -> tuple[float, float]:
    """Rounded outwards to two digits of the larger magnitude,
    so that the extreme records are not spelled out."""
    finite = [value for value in values if math.isfinite(value)]
    if len(set(finite)) < 2:
        return (0.0, 1.0) if not finite else (min(finite[0], 0.0), max(finite[0], 1.0))
    low, high = min(finite), max(finite)
    step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high)))) - 1)
    # Products such as 3 * 0.1 are cleaned by a second rounding to the step's own digits.
    digits = max(0, 1 - math.floor(math.log10(step)))
    return round(math.floor(low / step) * step, digits), round(
        math.ceil(high / step) * step, digits
    )
