"""Refusals of tables that are not numbers: by the names of columns, never by a cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tacenda.errors import InputError


@contextmanager
def columns_named(X: Any) -> Iterator[None]:
    """Text and missing values among the numbers are refused by the names of their columns;
    scikit-learn's own sentences would show a private cell, or advise another model."""
    try:
        yield
    except ValueError as error:
        if "contains NaN" in str(error) or "contains infinity" in str(error):
            names = [str(name) for name in getattr(X, "columns", ()) if not _finite(X[name])]
            where = f" in {names}" if names else ""
            raise InputError(
                f"X contains NaN or infinity{where}, which no bound can hold; say in a schema what "
                "stands for a missing value (missing = 'impute', 'indicator' or 'drop'; "
                "tacenda.data.encode), or fill it with a public value first."
            ) from None
        if "could not convert string" not in str(error):
            raise
        names = [str(name) for name in getattr(X, "columns", ()) if not _numeric(X[name])]
        where = f" in {names}" if names else ""
        raise InputError(
            f"X must hold numbers only, not text{where}; encode it by a public schema "
            "(tacenda.data.encode), or by a OneHotEncoder with declared categories."
        ) from None


def _finite(cells: Any) -> bool:
    return bool(np.isfinite(np.asarray(cells, float)).all())


def _numeric(cells: Any) -> bool:
    try:
        np.asarray(cells).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True
