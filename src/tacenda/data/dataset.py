"""`Dataset`: an encoded table and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Features, labels and where they come from.

    Parameters
    ----------
    X : array_like or scipy.sparse.csr_array
        Features, shape (n, p), dense or CSR.
    y : ndarray
        Shape (n,). For classification int64 codes 0 .. K-1 into `classes`; for regression
        float64.
    feature_names : tuple of str
        One per column of X.
    classes : tuple of str or None
        Names of the classes; None for regression.
    name : str
        Name of the data set.
    notes : list of str, optional
        What was read from the data, in words; therefore not public.
    test : (X, y) or None, default=None
        A second part, for testing.
    nodes : ndarray or None, default=None
        Label of the node that holds each record, shape (n,).
    norm : float or None, default=None
        Public bound on |x| that every row keeps; None: no bound.
    schema_hash : str or None, default=None
        Hash of the schema that encoded it.
    truth : ndarray of float or None, default=None
        Weights of a generated set.
    persons : ndarray or None, default=None
        Id of the person behind each record, shape (n,).
    test_persons : ndarray or None, default=None
        The same for the records of `test`.
    row_scale : float, default=1.0
        Public number by which all rows were divided to keep `norm`; `Problem` takes it, so that
        `strength` means what it means before the division.
    fingerprints : ndarray of uint64 or None, default=None
        Of each record as it was read, shape (n, 4) (`data.as_read`); None where it was not read
        from named columns.
    test_fingerprints : ndarray of uint64 or None, default=None
        The same for the records of `test`.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(100, 5, seed=0)
    >>> data.n_records, data.n_features, data.norm
    (100, 5, 1.0)
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
    persons: Array | None = None
    test_persons: Array | None = None
    row_scale: float = 1.0
    fingerprints: Array | None = None
    test_fingerprints: Array | None = None

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

    def with_positive(self, positive: str) -> Dataset:
        """The same set with `positive` as the second of its two classes.

        positive: the class that probabilities, recall and coefficients are about.
        """
        ordered = with_positive(self.classes, positive)
        if ordered == self.classes:
            return self
        test = None if self.test is None else (self.test[0], 1 - self.test[1])
        return replace(self, classes=ordered, y=1 - self.y, test=test)

    def with_test(self, test: Dataset) -> Dataset:
        """The same set with the records of another one as its test part.

        test: a set with the same features and classes. Result: the set with both parts and the
        notes of both.
        """
        merged = self.notes + [note for note in test.notes if note not in self.notes]
        return replace(
            self, test=(test.X, test.y), notes=merged, test_fingerprints=test.fingerprints
        )


def with_positive(classes: tuple[str, ...] | None, positive: str) -> tuple[str, ...]:
    """Two classes in the order that makes `positive` the second, which is the positive one."""
    if classes is None or len(classes) != 2 or positive not in classes:
        found = "a number" if classes is None else f"classes {list(classes)}"
        raise InputError(
            f"positive must name one of a label's two classes, not {positive!r}: the label has "
            f"{found}."
        )
    return (*(c for c in classes if c != positive), positive)
