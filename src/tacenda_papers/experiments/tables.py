"""Tables from tidy rows: means over the seeds after the last round, with their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacenda.report import Column, TextTable
from tacenda_papers.experiments.judging import plus_minus
from tacenda_papers.experiments.rows import Row, Rows

LABELS = ("example", "spectrum", "level", "epsilon", "inner_steps", "nodes", "graph", "setting")


def means(rows: Rows) -> TextTable:
    """Every method at every level: one line each, one column for each metric."""
    last = rows.last()
    labels = [k for k in LABELS if any(r.get(k) not in (None, "") for r in last)]
    metrics = last.distinct("metric")
    titles = [k.replace("_", " ") for k in ("mode", "method", *labels)]
    columns = [*(Column(t) for t in titles), *(Column(m.replace("_", " "), True) for m in metrics)]
    columns += [Column("claimed epsilon", True), Column("accounted epsilon", True)]
    lines = []
    for key, part in _groups(
        last, lambda r: (r["mode"], r["method"], *(r.get(k) for k in labels))
    ).items():
        one = part.rows[0]
        numbers = [with_error(part.where(metric=m)) for m in metrics]
        told = ["" if v is None else str(v) for v in key]
        lines.append([*told, *numbers, _short(one["claimed_epsilon"]), _accounted(one)])
    return TextTable(
        "Means over the seeds after the last round, with their standard errors; "
        "DVP and PVP of Zhang and Zhu (2016) claim for one round, all others for the whole run",
        columns,
        lines,
    )


def pivot(
    rows: Rows,
    caption: str,
    down: Callable[[Row], str],
    across: str,
    title: str,
    order: Sequence[str] = (),
) -> TextTable:
    """One line for each value of `down`, one column for each value of the column `across`; `rows`
    hold one metric."""
    last = rows.last()
    heads = last.distinct(across)
    groups = _groups(last, lambda r: (down(r), r[across]))
    names = order or list(dict.fromkeys(down(r) for r in last))
    lines = [
        [name, *(with_error(groups.get((name, head), Rows())) for head in heads)] for name in names
    ]
    return TextTable(
        caption, [Column(title), *(Column(f"{across} {_short(h)}", True) for h in heads)], lines
    )


def with_error(rows: Rows) -> str:
    """Mean and standard error: "0.4652 ± 0.0004"; the mean alone of a single run;
    nothing of none."""
    if not len(rows):
        return ""
    return _short(rows.mean()) + plus_minus(rows.error())


def as_markdown(table: TextTable) -> str:
    lines = [[c.title for c in table.columns], ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _groups(rows: Rows, key: Callable[[Row], tuple[object, ...]]) -> dict[tuple[object, ...], Rows]:
    found: dict[tuple[object, ...], list[Row]] = {}
    for r in rows:
        found.setdefault(key(r), []).append(r)
    return {k: Rows(v) for k, v in found.items()}


def _short(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.4g}"


def _accounted(row: Row) -> str:
    """The run's epsilon, marked where it is an upper bound."""
    return ("≤ " if row.get("exact") is False else "") + _short(row["true_epsilon"])
