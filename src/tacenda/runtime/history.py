"""The course of a run: one row per recorded round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.words import counted


class History:
    """Recorded rounds of a run: round, metrics, seconds, messages and bytes.

    The metrics read private data without noise: they are diagnostics of a simulation only.

    Parameters
    ----------
    rows : list of dict, default=None
        One dictionary for each recorded round.

    Examples
    --------
    >>> from tacenda.runtime.history import History
    >>> History([{"round": 1, "objective": 0.6}, {"round": 2, "objective": 0.5}])["objective"]
    array([0.6, 0.5])
    """

    note = "metrics of a simulation: computed from private data without noise"

    def __init__(self, rows: list[dict[str, Any]] | None = None) -> None:
        self.rows: list[dict[str, Any]] = list(rows or [])

    def add(self, row: dict[str, Any]) -> None:
        """Append one recorded round.

        row: its values by name.
        """
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> Array:
        """One column as an array."""
        return np.array([row[column] for row in self.rows])

    @property
    def columns(self) -> list[str]:
        """Names of the values of each row."""
        return list(self.rows[0]) if self.rows else []

    def __repr__(self) -> str:
        return f"History({counted(len(self.rows), 'row')}: {', '.join(self.columns)})"

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame (extra `pandas`).

        Result: one row for each recorded round.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError(
                "History.to_pandas needs pandas: pip install 'tacenda[pandas]', "
                "or use history.rows."
            ) from None
        return pd.DataFrame(self.rows)
