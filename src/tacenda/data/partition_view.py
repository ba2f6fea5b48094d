"""What a partition looks like: a table and a picture of sizes and label shares.

Both read the labels of all nodes, so they are for simulations; a real node shows them to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Labels with more distinct values than this are shown as mean and deviation.
MOST_CLASSES = 20


@dataclass(frozen=True, slots=True)
class Description:
    """Sizes and label shares of each node. Reads private labels without noise.

    Parameters
    ----------
    rows : list of dict
        One per node: its label, number of records, and shares of the classes (or mean and
        deviation of y).

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(10, 2, seed=0)
    >>> tc.data.partition.describe(tc.data.partition.even(data.X, data.y, 2)).rows[0]["records"]
    5
    """

    rows: list[dict[str, Any]]

    def __str__(self) -> str:
        head = list(self.rows[0])
        cells = [head] + [[_shown(row[key]) for key in head] for row in self.rows]
        widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
        return "\n".join(
            "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells
        )


def describe(shards: Sequence[tuple[Any, Array]]) -> Description:
    """Sizes and label shares of each node, as rows and as a printable table.

    Reads private labels without noise: for simulations only.

    Parameters
    ----------
    shards : Shards or sequence of (X_i, y_i)
        One part for each node.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(10, 2, seed=0)
    >>> len(tc.data.partition.describe(tc.data.partition.even(data.X, data.y, 2)).rows)
    2
    """
    names = getattr(shards, "labels", range(len(shards)))
    classes = _classes(shards)
    rows: list[dict[str, Any]] = []
    for name, (_, y) in zip(names, shards, strict=True):
        row: dict[str, Any] = {"node": name, "records": len(y)}
        if classes is None:
            row |= {"mean y": float(np.mean(y)), "std y": float(np.std(y))}
        else:
            row |= {f"share {c}": float(np.mean(y == c)) for c in classes}
        rows.append(row)
    return Description(rows)


def plot(shards: Sequence[tuple[Any, Array]], path: str | Path | None = None) -> Figure:
    """Bars of records per node, stacked by class (extra `plots`).

    Reads private labels without noise: for simulations only.

    Parameters
    ----------
    shards : Shards or sequence of (X_i, y_i)
        One part for each node.
    path : str, Path or None, default=None
        Where to save it (PNG, SVG or PDF by its ending).

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(10, 2, seed=0)
    >>> figure = tc.data.partition.plot(tc.data.partition.even(data.X, data.y, 2))
    >>> len(figure.axes)
    1
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "plot needs matplotlib, which is not installed; run: pip install 'tacenda[plots]'."
        ) from None
    classes = _classes(shards)
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(shards))
    bottom = np.zeros(len(shards))
    for c in [None] if classes is None else classes:
        heights = np.array(
            [len(y) if c is None else np.count_nonzero(y == c) for _, y in shards], float
        )
        axes.bar(
            places,
            heights,
            bottom=bottom,
            width=0.9,
            label="records" if c is None else f"class {c}",
        )
        bottom += heights
    axes.set(
        xlabel="node",
        ylabel="records",
        title=f"{counted(len(shards), 'node')}, {counted(int(bottom.sum()), 'record')}",
    )
    if len(shards) <= 30:
        axes.set_xticks(
            places, [str(name) for name in getattr(shards, "labels", places)], rotation=90
        )
    axes.legend(frameon=False, ncols=4)
    if path is not None:
        figure.savefig(path)
    return figure


def _classes(shards: Sequence[tuple[Any, Array]]) -> list[Any] | None:
    if not shards:
        raise InputError(
            "shards must hold at least one node, not 0; see tacenda.data.partition.even."
        )
    seen = np.unique(np.concatenate([np.unique(y) for _, y in shards]))
    return seen.tolist() if len(seen) <= MOST_CLASSES else None


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
