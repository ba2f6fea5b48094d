"""The tables of the page: results, hyperparameters, data, versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tacenda.evaluation import measures
from tacenda.evaluation.measure import IN_RESULTS
from tacenda.formats.text import from_toml
from tacenda.report import numbers
from tacenda.report.charts import Column, TextTable
from tacenda.report.curves import about, is_share
from tacenda.report.reading import Folder, Group
from tacenda.terms.method import SETTINGS
from tacenda.terms.problem import DECLARED
from tacenda.terms.sections import SECTIONS
from tacenda.terms.setting import Setting, settings
from tacenda.words import counted

# Of the final models: what people read first, then what the methods are compared by
OTHERS = ("worst_accuracy", "objective", "suboptimality", "test_loss", "loss", "consensus")
MOST_COEFFICIENTS = 500
RESULT_COLUMNS = 5  # which `OTHERS` fill up, beside the measures that have a place there
_HEADINGS = {
    "bytes": "Sent",
    "seconds": "Time",
    "epsilon": "ε",
    "delta": "δ",
    "relation": "Relation",
    "adjacency": "Relation",
}
# Settings of the problem that have a row of their own; loss, strength and norm are told in words
OTHER_DECLARED = [s for s in DECLARED if s.title != s.name]
_LISTS = ("feature_names", "node_labels", "notes")  # long, and shown elsewhere


def results(folder: Folder) -> TextTable:
    """One row per label: final metrics with their range over the seeds, privacy, cost."""
    metrics = shown_metrics(folder)
    columns = [Column("Run"), *(Column(heading(m), True) for m in metrics)]
    columns += [
        Column("ε", True),
        Column("δ", True),
        Column("Rounds", True),
        Column("Sent", True),
        Column("Time", True),
        Column("Seeds", True),
    ]
    rows, sort = [], []
    for group in folder.groups:
        finals = [group.final(m) for m in metrics]
        cells = [_with_range(v, is_share(m)) for v, m in zip(finals, metrics, strict=True)]
        rows.append([group.label, *cells, *_cost(group)])
        sort.append(
            [
                group.label,
                *(float(v.mean()) if len(v) else math.nan for v in finals),
                *_cost_numbers(group),
            ]
        )
    return TextTable(
        "Results of every run: mean over the seeds, with least and largest beneath",
        columns,
        rows,
        sort,
    )


def references(folder: Folder) -> list[tuple[str, list[tuple[str, str]]]]:
    """(name, [(measure, value)]) of the noise-free ceiling and the floor."""
    lines = []
    for name, values in folder.references:
        shown = [(_named(k), cell(k, values[k])) for k in shown_metrics(folder) if k in values]
        if shown:
            lines.append((name, shown))
    return lines


def shown_metrics(folder: Folder) -> list[str]:
    """The measures that the table of results has room for."""
    known, shown = folder.measures, measures.shown(IN_RESULTS)
    tested = any(f"test_{m}" in known for m in shown)
    first = [f"test_{m}" if tested else m for m in shown]
    headline = [m for m in first if m in known]
    same = [m.removeprefix("test_") for m in headline[:1] if tested]  # on training records
    others = [m for m in OTHERS if m in known and not (m == "loss" and "objective" in known)]
    found = [*headline, *(m for m in same if m in known)]
    return [*found, *others[: max(0, RESULT_COLUMNS - len(found))]]


def coefficients(folder: Folder) -> tuple[TextTable, list[str], str]:
    """(table, what must be known about it, which run)."""
    found = folder.coefficients
    shown, texts = found.columns(), found.texts
    columns = [Column(title.capitalize(), k >= texts) for k, (title, _) in enumerate(shown)]
    words = [v if k < texts else [numbers.short(x) for x in v] for k, (_, v) in enumerate(shown)]
    keys = [v if k < texts else [_sort_key(t, x) for x in v] for k, (t, v) in enumerate(shown)]
    rows = [list(row) for row in zip(*words, strict=True)][:MOST_COEFFICIENTS]
    sort: list[list[Any]] = [list(row) for row in zip(*keys, strict=True)][:MOST_COEFFICIENTS]
    caption = f"Coefficients {found.units}, the largest effects first"
    if len(found) > len(rows):
        caption += f" ({len(rows)} of {len(found)})"
    return TextTable(caption, columns, rows, sort), [found.errors, *found.notes], folder.lead.label


def _sort_key(title: str, value: float | None) -> float:
    if value is None:
        return math.nan
    return abs(value) if title == "effect" else value


def shared_settings(folder: Folder) -> list[tuple[str, str]]:
    """The settings that are the same in every run."""
    plain = [_settings(group) for group in folder.groups]
    return [
        (name, value)
        for name, value in plain[0].items()
        if all(other.get(name) == value for other in plain)
    ]


def differing_settings(folder: Folder) -> TextTable | None:
    """One row per label, one column per setting in which the runs differ;
    None where they do not."""
    plain = [_settings(group) for group in folder.groups]
    names = list(dict.fromkeys(name for settings in plain for name in settings))
    differing = [name for name in names if len({settings.get(name) for settings in plain}) > 1]
    if not differing:
        return None
    columns = [Column("Run"), *(Column(name.replace("_", " ")) for name in differing)]
    rows = [
        [group.label, *(s.get(name, "–") for name in differing)]
        for group, s in zip(folder.groups, plain, strict=True)
    ]
    return TextTable(
        "Hyperparameters in which the runs differ (–: the method does not have it)", columns, rows
    )


def problem(folder: Folder) -> list[tuple[str, str]]:
    """The problem that all runs solve, and its network."""
    settings = folder.lead.settings
    p, g = settings["problem"], settings["graph"]
    sizes = np.asarray(p["sizes"])
    total, fewest, most = (numbers.whole(int(k)) for k in (sizes.sum(), sizes.min(), sizes.max()))
    facts = [
        ("Loss", p["loss"]),
        ("Regulariser", f"{p['regulariser']}, strength {numbers.strength(p)}"),
        ("Features", numbers.whole(int(p["n_features"]))),
        ("Classes", ", ".join(p["classes"]) if p.get("classes") else "none (regression)"),
        ("Public bound on a record's norm", numbers.row_bound(p)),
        *((s.title, numbers.setting(p[s.name])) for s in OTHER_DECLARED if s.name in p),
        ("Records", f"{total} in all, {fewest} to {most} per node"),
        (
            "Network",
            f"{g.get('name') or 'given graph'}, {counted(g['n'], 'node')}, "
            f"{counted(len(g['edges']), 'edge')}",
        ),
    ]
    return [(name, str(value)) for name, value in facts]


def dataset(folder: Folder) -> tuple[list[tuple[str, str]], list[str]]:
    """(facts, notes) of the data set as the manifest states them."""
    stated = folder.manifest.get("dataset") or {}
    notes = stated.get("notes") or []
    shown = [(k, v) for k, v in stated.items() if k not in _LISTS and v not in (None, "", [])]
    shown += [(k, v) for k, v in _chosen(folder) if k not in stated]
    facts = [(k.replace("_", " ").capitalize(), _value(v)) for k, v in shown]
    return facts, [str(n) for n in (notes if isinstance(notes, list) else [notes])]


def _chosen(folder: Folder) -> Iterator[tuple[str, Any]]:
    """(name, value) of the settings of data and network that are not at their defaults."""
    stated = from_toml(folder.config)
    for section in ("data", "network"):
        for s in settings(SECTIONS[section]):
            value = stated.get(section, {}).get(s.key)
            if value is not None and value != s.assumed:
                yield s.title, value


def versions(folder: Folder) -> list[tuple[str, str]]:
    """Programs and their versions, of the folder and of its results."""
    merged = {**folder.lead.settings.get("versions", {}), **(folder.manifest.get("versions") or {})}
    return [(str(k), str(v)) for k, v in merged.items()]


def heading(metric: str) -> str:
    """A column's heading for a metric or a cost."""
    if metric in _HEADINGS:
        return _HEADINGS[metric]
    if metric.removeprefix("test_") in measures.MEASURES:
        title = measures.title(metric)
        return title[0].upper() + title[1:]
    if metric in ("consensus", "objective", "suboptimality"):
        return metric.capitalize()
    return metric.replace("_", " ").capitalize() or about(metric)[0]


def _named(metric: str) -> str:
    """A measure's name inside a sentence."""
    known = metric.removeprefix("test_") in measures.MEASURES
    return measures.title(metric) if known else heading(metric).lower()


def cell(name: str, value: Any) -> str:
    """One value of the manifest's table as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else str(value)
    if is_share(name):
        return numbers.percent(value)
    if name == "bytes":
        return numbers.size(value)
    return numbers.seconds(value) if name == "seconds" else numbers.short(value)


def _with_range(values: Any, share: bool) -> str:
    mean, span = numbers.spread(values, share)
    return f"{mean}\n{span}" if span else mean


def _cost(group: Group) -> list[str]:
    mean_bytes, mean_seconds = _cost_numbers(group)[3:5]
    epsilon = "none" if group.account is None else numbers.epsilon(group.account.epsilon)
    delta = "–" if group.account is None else numbers.short(group.account.delta)
    return [
        epsilon,
        delta,
        numbers.whole(int(group.settings["rounds"])),
        numbers.size(mean_bytes),
        numbers.seconds(mean_seconds),
        str(len(group.runs)),
    ]


def _cost_numbers(group: Group) -> list[float]:
    account = group.account
    epsilon, delta = (math.inf, 1.0) if account is None else (account.epsilon, account.delta)
    sent = float(np.mean([run.result.bytes for run in group.runs]))
    took = float(np.mean([run.result.seconds for run in group.runs]))
    return [epsilon, delta, float(group.settings["rounds"]), sent, took, float(len(group.runs))]


def _settings(group: Group) -> dict[str, str]:
    own = {k: numbers.setting(v) for k, v in group.settings["algorithm"].items() if k != "name"}
    s = group.settings
    shared = {
        "algorithm": group.algorithm,
        **own,
        **{m.title: _said(m, s.get(m.name, m.default)) for m in SETTINGS},
        "seeds": ", ".join(str(run.seed) for run in group.runs),
    }
    if s.get("privacy"):
        shared |= {f"privacy: {k}": numbers.setting(v) for k, v in s["privacy"].items()}
    return shared


def _said(setting: Setting, value: Any) -> str:
    """A setting of the method in words."""
    return numbers.setting(value) if setting.words is str else setting.words(value)


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return numbers.setting(list(value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return (
        numbers.whole(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else numbers.setting(value)
    )
