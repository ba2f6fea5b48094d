"""`Dataset`: an encoded table and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacenda._types import Array, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Features, labels and their provenance.

    X (n, p) is a dense array or a scipy CSR matrix. For classification y (n,) holds int64 codes
    0..K-1 into `classes`; for regression `classes` is None and y is float64. `norm` is the public
    bound on |x| that every row keeps (None: no bound). `notes` says in words what was read off the
    data, and is therefore not public. `test` is a second (X, y), `nodes` (n,) the label of the node
    that holds each record, `truth` the weights of a generated set.
    """

    X: Any
    y: Array
    feature_names: tuple[str, ...]
    classes: tuple[str, ...] | None
    name: str
    notes: list[str] = field(default_factory=list)
    test: tuple[Any, Array] | None = None
    nodes: Array | None = None
    norm: float | None = None
    schema_hash: str | None = None
    truth: Floats | None = None

    @property
    def n_records(self) -> int:
        """Number of rows of X."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X, the intercept included where there is one."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        task = "regression" if self.classes is None else f"{len(self.classes)} classes"
        form = "dense" if isinstance(self.X, np.ndarray) else "CSR"
        return (
            f"Dataset({self.name!r}, {self.n_records} x {self.n_features} {form} {self.X.dtype}, "
            f"{task})"
        )

    def with_test(self, test: Dataset) -> Dataset:
        """The same set, with `test`'s records as its test part and the notes of both."""
        merged = self.notes + [note for note in test.notes if note not in self.notes]
        return replace(self, test=(test.X, test.y), notes=merged)
