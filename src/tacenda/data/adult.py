"""UCI Adult (Becker and Kohavi 1996, CC BY 4.0): the set on which four of the five papers report.

Two encodings. "public": the shipped schema, with the codebook's levels and declared bounds.
"papers": the papers' own preprocessing, 104 features, which reads levels and column maxima off the
data and therefore has no formal guarantee.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from tacenda._types import Array, Flags
from tacenda.checks import one_of
from tacenda.data import sources
from tacenda.data.dataset import Dataset
from tacenda.data.encoding import encode
from tacenda.data.features import add_intercept, scale_rows
from tacenda.data.openml import adult_from_openml
from tacenda.data.schema import Schema
from tacenda.data.table import Table
from tacenda.errors import InputError

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CLASSES = ("<=50K", ">50K")
READ_OFF = [
    "the levels of the categorical columns were read from the data",
    "the maxima by which numeric columns are divided were read from the data",
    "records with missing values were dropped, so the number of records depends on the data",
]


def adult_schema(*, intercept: bool = False) -> Schema:
    """The shipped public schema."""
    text = (files("tacenda.data") / "schemas" / "adult.toml").read_text("utf-8")
    return Schema.from_toml(text).model_copy(update={"intercept": intercept})


def load_adult(
    *,
    encoding: str = "public",
    split: str = "all",
    intercept: bool = False,
    sparse: bool = False,
    dtype: Any = np.float64,
) -> Dataset:
    """45,222 records without missing values ("all"), or "official": 30,162 to train and 15,060 as
    `Dataset.test`.

    public: 105 features (106 with intercept). papers: 104 features (105 with intercept). y is 1 for
    ">50K".
    """
    one_of("encoding", encoding, ("public", "papers"))
    one_of("split", split, ("all", "official"))
    train, test, notes = _tables()
    if split == "official" and test is None:
        raise InputError(
            "split 'official' needs the original UCI files, "
            "but only OpenML's merged table was reachable; "
            f"{sources.where_to_put('adult.data', 'adult.test')}."
        )
    whole = train if test is None else _joined(train, test)
    if encoding == "public":
        schema = adult_schema(intercept=intercept)
        tables = [train, test] if split == "official" else [whole]
        parts = [encode(schema, table, sparse=sparse, dtype=dtype) for table in tables]
    else:
        data = _papers(whole, intercept, sparse, dtype)
        # Levels and maxima come from all records, as in the papers;
        # the official split only cuts the rows.
        parts = [data] if split == "all" else _split(data, _complete(train))
    first = parts[0] if split == "all" else parts[0].with_test(parts[1])
    first.notes.extend(notes)
    return first


def _tables() -> tuple[Table, Table | None, list[str]]:
    """Train and test as tables of text; from OpenML one merged table, with a note."""
    try:
        train, test = sources.adult_files()
    except sources.Unavailable as error:
        return (
            adult_from_openml(str(error)),
            None,
            ["read from OpenML, which has no checksum and no official split"],
        )
    return parse_adult(train, "adult.data"), parse_adult(test, "adult.test"), []


def parse_adult(content: bytes, source: str) -> Table:
    """The UCI text: ', ' between fields, a '|' comment line,
    and labels that end in '.' in the test part."""
    lines = (line.strip() for line in content.decode("ascii").splitlines())
    rows = [line.rstrip(".").split(", ") for line in lines if line and not line.startswith("|")]
    cells = np.array(rows, dtype=object)
    return Table({name: cells[:, k] for k, name in enumerate(COLUMNS)}, source=source)


def _papers(table: Table, intercept: bool, sparse: bool, dtype: Any) -> Dataset:
    """Six numeric columns over their maxima, then every level seen of the eight others; rows scaled
    to norm <= 1."""
    keep = _complete(table)
    blocks: list[Array] = []
    names: list[str] = []
    for name in NUMERIC:
        numbers = table.columns[name][keep].astype(np.float64)
        blocks.append((numbers / numbers.max())[:, None])
        names.append(name)
    for name in (c for c in COLUMNS[:-1] if c not in NUMERIC):
        levels, codes = np.unique(table.columns[name][keep].astype(str), return_inverse=True)
        blocks.append((codes[:, None] == np.arange(len(levels))).astype(np.float64))
        names.extend(f"{name}={level}" for level in levels)
    X: Any = np.concatenate(blocks, axis=1)
    labels = tuple(names)
    if intercept:
        X, labels = add_intercept(X), (*labels, "intercept")
    X = scale_rows(X, 1.0, in_place=True).astype(dtype, copy=False)
    if sparse:
        from scipy.sparse import csr_matrix

        X = csr_matrix(X)
    y = (table.columns["income"][keep] == CLASSES[1]).astype(np.int64)
    return Dataset(X, y, labels, CLASSES, "adult", list(READ_OFF), norm=1.0)


def _complete(table: Table) -> Flags:
    """(n,) records without a '?'."""
    keep = np.ones(len(table), bool)
    for name in COLUMNS:
        keep &= table.columns[name] != "?"
    return keep


def _joined(train: Table, test: Table) -> Table:
    return Table(
        {c: np.concatenate([train.columns[c], test.columns[c]]) for c in COLUMNS}, source="adult"
    )


def _split(data: Dataset, train: Flags) -> list[Dataset]:
    from dataclasses import replace

    n = int(train.sum())
    return [replace(data, X=data.X[:n], y=data.y[:n]), replace(data, X=data.X[n:], y=data.y[n:])]
