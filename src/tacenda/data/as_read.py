"""Fingerprints of records as they were read, before they are encoded: by them a lasting ledger
knows records again, whatever bounds, scale, order, basis or model they are used with.

A cell is hashed with the name of its column, and a record is the sum of its cells' hashes: so the
order of the columns makes no difference. The label is kept apart, without its name, since
estimators take it as an array. What a cell is:

    a number    rounded to float32, also from text: 1, 1.0, "1" and "1.00" are one value; true is 1
                and false 0; a date, where the schema declares one, is its year with the fraction
    missing     None, NaN, an empty cell, and the usual words for it (`MISSING`)
    other text  without white space around it, in lower case, in one form of Unicode; so are the
                names of columns

Nothing of this depends on a schema's bounds, levels or classes. A record with other values, more or
fewer columns, renamed ones or another label is another one.

The fingerprints hold no secret and tell the records to whoever guesses them: they never leave the
process, but for an encoded copy of the records, which must keep them (`Dataset.fingerprints`), and
in the ledger under its key (`privacy.lasting.fingerprints`).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacenda._types import Array, Ints
from tacenda.data.coded import Coded
from tacenda.privacy.lasting.fingerprints import mixed

# What spreadsheets and programs write for nothing; a file read by pandas has NaN for most of them
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "?", "-", ".")
)
_LOGICAL = {"true": 1.0, "false": 0.0}  # as arrays of numbers have them
_LABEL = "\0label"  # no column of a file has this name


def fingerprints(columns: Mapping[str, Any], label: Any = None) -> Array:
    """(n, 4) words: two of each record's features, by their columns' names, and two of its label.

    Parameters
    ----------
    columns : mapping of str to array_like
        The cells of each column that becomes features, as a `Table` has them.
    label : array_like, sequence of array_like or None
        The label's cells; several columns where a label has several.
    """
    several = label if isinstance(label, list | tuple) else [] if label is None else [label]
    count = len(next(iter(columns.values()))) if columns else len(several[0])
    found = np.zeros((count, 4), np.uint64)
    for name, cells in columns.items():
        _add(found[:, :2], name, cells)
    for k, cells in enumerate(several):
        _add(found[:, 2:], f"{_LABEL}{k or ''}", cells)
    return found


def of_arrays(X: Any, names: Any, y: Any) -> Array:
    """The same of an array or sparse matrix whose columns have names, and its labels."""
    if hasattr(X, "tocsc"):
        table = X.tocsc()
        columns: dict[str, Any] = {}
        for k, name in enumerate(names):
            columns[str(name)] = column = np.zeros(X.shape[0])
            own = slice(table.indptr[k], table.indptr[k + 1])
            column[table.indices[own]] = table.data[own]
    else:
        columns = {str(name): np.asarray(X[:, k], float) for k, name in enumerate(names)}
    return fingerprints(columns, label_cells(y))


def label_cells(y: Any) -> list[Any]:
    """The columns of labels as cells."""
    array = np.asarray(y)
    if array.dtype.names is not None:
        return [label_cells(array[name])[0] for name in array.dtype.names]
    parts = [array] if array.ndim == 1 else list(array.T)
    return [
        part.astype(np.float64) if part.dtype.kind in "iuf" else part.astype(object)
        for part in parts
    ]


def _add(found: Array, name: str, cells: Any) -> None:
    """Add the hashes of a column's cells to the records' two words."""
    raw = _folded(name.strip()).encode("utf-8", "surrogatepass")
    keys = np.frombuffer(hashlib.blake2b(raw, digest_size=16).digest(), "<u8")
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        for k in range(2):
            found[:, k] += _of_numbers(cells, keys[k])
        return
    column = Coded.of(cells)
    each = _of_entries(column, keys)
    for k in range(2):
        found[:, k] += each[:, k][column.codes]


def _of_entries(column: Coded, keys: Array) -> Array:
    """(entries, 2)."""
    entries = column.entries
    numbers, known = entries.numbers
    found = np.empty((len(entries), 2), np.uint64)
    for k in range(2):
        found[:, k] = _of_numbers(numbers, keys[k])
    others: Ints = np.flatnonzero(~known)
    if len(others):
        key, absent = keys.tobytes(), [_of_numbers(np.array([np.nan]), k)[0] for k in keys]
        for at, word in zip(others.tolist(), entries.stripped_at(others), strict=True):
            text = _folded(word)
            if text in MISSING:
                found[at] = absent
            elif text in _LOGICAL:
                found[at] = [_of_numbers(np.array([_LOGICAL[text]]), k)[0] for k in keys]
            else:
                raw = text.encode("utf-8", "surrogatepass")
                digest = hashlib.blake2b(raw, key=key, digest_size=16).digest()
                found[at] = np.frombuffer(digest, "<u8")
    return found


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _of_numbers(values: Array, key: Any) -> Array:
    """A hash of each number under a key; missing ones have one of their own, -0 that of 0."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(values, np.float32) + np.float32(0)
    bits = rounded.view(np.uint32).astype(np.uint64)
    bits[np.isnan(rounded)] = np.uint64(1 << 32)
    return mixed(bits ^ np.uint64(key))
