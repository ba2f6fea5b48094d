"""`build`: the report of a run folder as one HTML file that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacenda.errors import StateError
from tacenda.evaluation.private import PrivateEvaluation
from tacenda.formats.files import write_text
from tacenda.report import (
    curves,
    evaluation,
    network_drawing,
    numbers,
    shape_panels,
    tables,
    wording,
)
from tacenda.report.charts import Chart, TextTable
from tacenda.report.plotly_figures import network_figure
from tacenda.report.reading import Folder, of_result, read
from tacenda.runtime.result import RunResult
from tacenda.words import noun

MOST_WEIGHTS = 20_001  # of a model inside a page: 20,000 hashed features and an intercept


@dataclass(frozen=True, eq=False)
class Panel:
    """One drawing of the page with its words and its numbers; spec is the plotly figure."""

    key: str
    title: str
    tab: str
    words: str
    note: str
    spec: dict[str, Any]
    table: TextTable | None
    tall: bool = False


def build(run: str | Path | RunResult, out: str | Path | None = None) -> Path:
    """Write the HTML report of a run folder or of one result.

    Only the run folder is read: manifest, results, ledger, configuration. The file is written whole
    or not at all.

    Parameters
    ----------
    run : str, Path or RunResult
        A run folder, or what `simulate` or `load` returned.
    out : str, Path or None, default=None
        Where to write; by default report.html, in the folder.

    Raises
    ------
    InputError
        If there is no run folder.

    Examples
    --------
    >>> import os, tempfile
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> result = tc.simulate(tc.Problem(shards, classes=(0, 1)), tc.graph.ring(4), "admm", 5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tc.report.build(result, os.path.join(folder, "report.html")).name
    'report.html'
    """
    folder = of_result(run) if isinstance(run, RunResult) else read(run)
    page = render(folder)
    target = folder.path / "report.html" if out is None else Path(out)
    if target.is_dir():
        raise StateError(
            f"out must be a file, but {target} is a folder; "
            f"give a name such as {target / 'report.html'}."
        )
    return write_text(target, page)


def plotly_js() -> str:
    """The drawing library as text, from the installed plotly package."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def render(folder: Folder) -> str:
    """The whole page as text."""
    return render_page(asset("report.html.j2"), **content(folder))


def render_page(template: str, **values: Any) -> str:
    """Fill in the template of a self-contained page.

    A template may also use `library` (plotly.js), `style` and `script`, which draw
    every element of class "plot" as the report does, and the filter `script_json`, which puts a
    `Chart.figure()` into a script element. Values are escaped.

    Parameters
    ----------
    template : str
        The template itself, in Jinja's language.
    **values : object
        The values of the names in it.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.report.render_page("<title>{{ title }}</title>", title="Risk & privacy")
    '<title>Risk &amp; privacy</title>'
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Every value is escaped, except for the three trusted texts below.
    environment = Environment(
        loader=PackageLoader("tacenda.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    environment.filters["script_json"] = script_json
    return environment.from_string(template).render(
        **values,
        library=plotly_js().replace("</script", "<\\/script"),
        style=asset("style.css"),
        script=asset("script.js"),
    )


def _moment(text: str) -> str:
    """2030-01-02T03:04:05+00:00 as people write it, 2030-01-02 03:04 UTC;
    anything else as it stands."""
    from datetime import UTC, datetime

    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text


def _warnings(folder: Folder) -> list[str]:
    """What is wrong with the results, also by a node's closing evaluation in the same folder."""
    found = [w for run in folder.runs for w in run.result.warnings]
    closing = folder.path / "evaluation.json"
    if folder.manifest and closing.is_file():
        found += PrivateEvaluation.from_plain(json.loads(closing.read_text("utf-8"))).warnings
    return list(dict.fromkeys(found))


def content(folder: Folder) -> dict[str, Any]:
    """Everything the template shows."""
    net = network_drawing.drawing(folder)
    weakest = folder.weakest
    account = None if weakest is None else weakest.account
    facts, notes = tables.dataset(folder)
    return {
        "name": folder.name,
        "created": _moment(str(folder.manifest.get("created", ""))),
        "command": str(folder.manifest.get("command", "")),
        "verdict": wording.verdict(folder),
        "tiles": tiles(folder),
        "weakest": "" if weakest is None else weakest.label,
        "several": len(folder.groups) > 1,
        "private": account is not None,
        "promised": wording.promised(account) if account is not None else [],
        "not_promised": wording.not_promised(folder, account),
        "warnings": _warnings(folder),
        "results": tables.results(folder),
        "references": tables.references(folder),
        "evaluated": evaluated(folder),
        "coefficients": tables.coefficients(folder),
        "shapes": shape_panels.panels(folder),
        "model": model_plain(folder),
        "network": _network_panel(net),
        "learning": panels_of(curves.learning(folder)),
        "agreement": panels_of(curves.agreement(folder)),
        "privacy": panels_of([c for c in (curves.privacy_curve(folder),) if c is not None]),
        "spending": panels_of(curves.spending(folder)),
        "utility": panels_of(curves.utility(folder)),
        "nodes": network_drawing.node_table(net),
        "shared": tables.shared_settings(folder),
        "differing": tables.differing_settings(folder),
        "problem": tables.problem(folder),
        "dataset": facts,
        "notes": notes,
        "versions": tables.versions(folder),
        "config": folder.config,
    }


def evaluated(folder: Folder) -> dict[str, Any] | None:
    """What the figures of the runs show, or None where the manifest holds none."""
    found = [
        (group.label, drawn)
        for group in folder.groups
        if isinstance(drawn := group.runs[0].entry.get("figures"), dict)
    ]
    if not found:
        return None
    lead = next((k for k, (label, _) in enumerate(found) if label == folder.lead.label), 0)
    found.insert(0, found.pop(lead))
    return {
        "of": "test records" if found[0][1].get("of") == "test" else "training records",
        "charts": panels_of(evaluation.charts(found)),
        "tables": [t for make in _TABLES if (t := make(*found[0])) is not None],
    }


_TABLES = (evaluation.cuts_table, evaluation.confusion, evaluation.by_class)


def model_plain(folder: Folder) -> dict[str, Any] | None:
    """The lead run's average model as plain values, with the names of its features: released
    numbers and public declarations only. None where it is too large for a page."""
    result = folder.lead.runs[0].result
    if result.model.size > MOST_WEIGHTS:
        return None
    problem, account = result.settings["problem"], folder.lead.account
    table = folder.coefficients
    return {
        "format": "tacenda-report-model-1",
        "run": folder.lead.label,
        "loss": problem["loss"],
        "classes": problem.get("classes"),
        "feature_names": folder.feature_names,
        "weights": np.asarray(result.model, float).tolist(),
        "noise_std": None if result.noise_std is None else np.asarray(result.noise_std).tolist(),
        "coefficients": table.to_plain(),
        "standard_errors": table.errors,
        "schema": None if folder.schema is None else folder.schema.to_toml(),
        "privacy": None
        if account is None
        else {
            "epsilon": account.epsilon,
            "delta": account.delta,
            "relation": account.statement.adjacency,
        },
    }


def tiles(folder: Folder) -> list[tuple[str, str, str]]:
    """(heading, big text, small text) of the summary's four figures."""
    settings = folder.lead.settings
    sizes = np.asarray(settings["problem"]["sizes"])
    worst, shown = folder.weakest, []
    if worst is not None and worst.account is not None:
        shown.append(
            (
                "Privacy loss",
                f"ε = {numbers.epsilon(worst.account.epsilon)}",
                f"at δ = {numbers.short(worst.account.delta)}, whole run",
            )
        )
        shown.append(
            (
                "Observer's best guess",
                numbers.percent(worst.account.best_guess),
                "a coin gives 50 %",
            )
        )
    else:
        shown.append(("Privacy loss", "unbounded", "no noise was added"))
    metric = next((m for m in curves.UTILITY if m in folder.measures), None)
    if metric is not None:
        shown.append(_quality(folder, metric))
    held = f"{numbers.whole(len(sizes))} {noun(len(sizes), 'node')}"
    shown.append(
        (
            "Data stays with",
            held,
            f"{numbers.whole(int(sizes.sum()))} {noun(sizes.sum(), 'record')}, no server",
        )
    )
    return shown


def _quality(folder: Folder, metric: str) -> tuple[str, str, str]:
    groups = [g for g in (folder.private or folder.groups) if len(g.final(metric))]
    higher = curves.about(metric)[2].startswith("higher")
    best = max(groups, key=lambda g: float(g.final(metric).mean()) * (1 if higher else -1))
    mean, _ = numbers.spread(best.final(metric), curves.is_share(metric))
    return (
        tables.heading(metric),
        mean,
        f"best of {len(groups)}: {best.label}" if len(groups) > 1 else best.label,
    )


def panels_of(charts: list[Chart]) -> list[Panel]:
    """Charts with their drawings and their numbers."""
    return [
        Panel(c.key, c.title, c.tab or c.title, c.words, c.note, c.figure(), c.table())
        for c in charts
    ]


def _network_panel(net: network_drawing.NetworkDrawing) -> list[Panel]:
    """Empty where the network is too large to draw."""
    if net.positions is None:
        return []
    traffic = (
        f"{numbers.whole(round(net.edge_messages))} {noun(round(net.edge_messages), 'message')} "
        f"({numbers.size(net.edge_bytes)})"
    )
    shade = net.legend[0].upper() + net.legend[1:]
    note = (
        f"Area of a node: its records. {shade}. On average an edge carried {traffic}, both ways. "
        f"Run: {net.label}."
    )
    return [
        Panel(
            "network",
            "The network",
            "network",
            net.words,
            note,
            network_figure(net),
            None,
            tall=True,
        )
    ]


def script_json(value: Any) -> Any:
    """JSON that may stand inside a script element whatever its strings hold."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _unbroken(value: Any) -> Any:
    """An equation is not broken over two lines; markup is left alone."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return value.replace("ε = ", "ε\u00a0=\u00a0").replace("δ = ", "δ\u00a0=\u00a0")
    return value


def asset(name: str) -> str:
    """A template, style or script of the report as text."""
    return (Path(__file__).parent / "template" / name).read_text(encoding="utf-8")
