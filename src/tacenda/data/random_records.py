"""Made-up records that fit a schema: for rehearsals, where nothing private should be touched."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from tacenda.data.columns import NumericColumn
from tacenda.data.schema import Schema


def write_random_records(schema: Schema, count: int, seed: int, path: str | Path) -> Path:
    """A CSV file of `count` records: numbers uniform within their bounds, levels and labels
    uniform; no value is missing.

    The label leans on the first column, so that a model has something to learn.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {}
    lean = np.zeros(count)
    for k, column in enumerate(schema.columns):
        if isinstance(column, NumericColumn):
            share = rng.random(count)
            columns[column.name] = (column.low + share * (column.high - column.low)).tolist()
        else:
            chosen = rng.integers(len(column.levels), size=count)
            share = chosen / max(1, len(column.levels) - 1)
            columns[column.name] = [column.levels[c] for c in chosen]
        lean = share if k == 0 else lean
    rank = np.clip(0.8 * lean + 0.2 * rng.random(count), 0, 1 - 1e-9)
    label, asked = schema.label, schema.survival
    if label.survival and asked is not None:
        columns[asked.time] = ((1.2 - rank) * asked.points[-1]).tolist()
        seen = rng.random(count) < 0.7
        columns[asked.event] = [asked.happened[0] if one else "seen without" for one in seen]
    elif label.classes is not None:
        columns[label.name] = [label.classes[int(r * len(label.classes))] for r in rank]
    else:
        assert label.low is not None and label.high is not None
        columns[label.name] = (label.low + rank * (label.high - label.low)).tolist()
    if schema.node_column is not None:
        columns[schema.node_column] = ["here"] * count
    target = Path(path)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return target
