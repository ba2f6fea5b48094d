"""Cells and rows of a private table."""

from __future__ import annotations

from dataclasses import dataclass

from tacenda.evaluation.private_intervals import Estimate


@dataclass(frozen=True)
class TableCell:
    """One number of a table with its interval.

    Parameters
    ----------
    value : float
        The estimate.
    low : float
        Lower end of its interval.
    high : float
        Upper end.
    share : Estimate or None, default=None
        Of a count: its share of the group, with an interval for the population.
    known : bool, default=True
        Whether the noise leaves anything to know.

    Examples
    --------
    >>> from tacenda.tables import TableCell
    >>> TableCell(12, 9, 15).known
    True
    """

    value: float
    low: float
    high: float
    share: Estimate | None = None
    known: bool = True


@dataclass(frozen=True)
class TableRow:
    """One row of a table.

    Parameters
    ----------
    column : str
        Name of the column of the data; "" for the number of records.
    what : str
        A level, "missing", "mean", "deviation", "quantile 0.5" or "records".
    cells : tuple of TableCell
        Of each group, and last of all records where there are several groups.
    differences : tuple of Estimate, default=()
        Of each further group the standardised difference from the first.

    Examples
    --------
    >>> from tacenda.tables import TableCell, TableRow
    >>> TableRow("", "records", (TableCell(9, 9, 9),)).is_count
    True
    """

    column: str
    what: str
    cells: tuple[TableCell, ...]
    differences: tuple[Estimate, ...] = ()

    @property
    def is_count(self) -> bool:
        """Whether its cells are numbers of records."""
        measured = self.what in ("mean", "deviation") or self.what.startswith("quantile ")
        return not measured or self.cells[0].share is not None
