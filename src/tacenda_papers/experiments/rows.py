"""Tidy rows: one measured value each, in CSV files that any tool reads."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.formats.files import write_text

Array = NDArray[Any]
Row = dict[str, Any]
FIRST = (
    "experiment",
    "mode",
    "method",
    "seed",
    "round",
    "metric",
    "value",
    "claimed_epsilon",
    "true_epsilon",
    "exact",
    "delta",
    "seconds",
)


class Rows:
    """A list of tidy rows with the few questions that figures and findings ask."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, test: Callable[[Row], bool] | None = None, **equal: Any) -> Rows:
        """The rows with these values."""
        kept = (r for r in self.rows if all(r.get(k) == v for k, v in equal.items()))
        return Rows(r for r in kept if test is None or test(r))

    def distinct(self, column: str) -> list[Any]:
        """The values of a column: in the order in which they come, numbers sorted."""
        found = list(dict.fromkeys(r[column] for r in self.rows if r.get(column) is not None))
        return sorted(found) if found and all(isinstance(v, int | float) for v in found) else found

    def last(self) -> Rows:
        """Only the rows of each run's last recorded round."""
        identity = [
            k for k in (self.rows[0] if self.rows else ()) if k not in ("round", "value", "seconds")
        ]
        newest: dict[tuple[Any, ...], Row] = {}
        for r in self.rows:
            at = tuple(r.get(k) for k in identity)
            if at not in newest or r["round"] >= newest[at]["round"]:
                newest[at] = r
        return Rows(newest.values())

    def values(self) -> NDArray[np.float64]:
        return np.array([r["value"] for r in self.rows], float)

    def mean(self, **equal: Any) -> float:
        """The mean value over the rows with these values; NaN where there are none."""
        found = self.where(**equal).values()
        return float(found.mean()) if len(found) else float("nan")

    def error(self, **equal: Any) -> float:
        """The standard error of `mean`; NaN, unknown, for fewer than two values."""
        found = self.where(**equal).values()
        return float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")

    def curve(self, x: str) -> tuple[Array, Array, Array, Array]:
        """(x, mean, least, largest) of the values at each x, over the seeds."""
        groups: dict[float, list[float]] = {}
        for r in self.rows:
            if np.isfinite(r["value"]):
                groups.setdefault(float(r[x]), []).append(r["value"])
        xs = sorted(groups)
        stack = [(np.mean(groups[v]), np.min(groups[v]), np.max(groups[v])) for v in xs]
        parts = np.array(stack).reshape(-1, 3)
        return np.array(xs), parts[:, 0], parts[:, 1], parts[:, 2]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, _as_csv(rows))


def _as_csv(rows: Iterable[Row]) -> str:
    kept = list(rows)
    present = {k for r in kept for k in r}
    columns = [*(k for k in FIRST if k in present), *sorted(present - set(FIRST))]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in r.items()} for r in kept)
    return text.getvalue()


def write_compact(path: Path, rows: Iterable[Row]) -> Path:
    """Write rows as packed CSV with values of seven digits; equal rows give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _as_csv({k: _short(v) for k, v in row.items()} for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def read(path: Path) -> Rows:
    """Read what `write` or `write_compact` wrote; numbers come back as numbers, empty cells as
    None."""
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text("utf-8")
    source = csv.DictReader(io.StringIO(text, newline=""))
    return Rows({k: _value(v) for k, v in row.items()} for row in source)


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _value(text: str) -> Any:
    known = {"": None, "True": True, "False": False}
    if text in known:
        return known[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
