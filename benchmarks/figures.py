"""The pictures of performance.md, drawn from stored points. They have no background and
colours that can be read on a light and on a dark page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scaling import FEATURES, GRAPHS, NODES, RANKS
from benchmarks.store import Results
from tacenda.formats.files import replacing

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "performance"
MARK = re.compile(r"points ([0-9a-f]{64})")


def draw(results: Results, folder: Path = FOLDER) -> None:
    """Draw every picture anew. Each holds the digest of the points it was drawn from."""
    import matplotlib as mpl

    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    from gallery_style import reset

    folder.mkdir(exist_ok=True)
    reset({}, "")
    with mpl.rc_context({"svg.hashsalt": "tacenda", "font.size": 10}):
        from matplotlib import pyplot as plt

        for name, (prefix, picture) in PICTURES.items():
            figure = picture(results)
            about = {"Date": None, "Description": f"points {results.digest(prefix)}"}
            with replacing(folder / f"{name}.svg") as part:
                figure.savefig(part, metadata=about)
            plt.close(figure)


def drawn_from(name: str, folder: Path = FOLDER) -> str:
    """The digest that a picture holds."""
    found = MARK.search((folder / f"{name}.svg").read_text(encoding="utf-8"))
    return found[1] if found else ""


def finished(results: Results, names: list[str]) -> list[dict[str, Any]]:
    """The points of these names that came to an end."""
    found = [results.points[name] for name in names]
    return [one for one in found if "unfinished" not in one]


def node_points(results: Results, graph: str) -> list[dict[str, Any]]:
    return finished(results, [f"nodes/{graph}/{n}" for n in NODES])


def feature_points(results: Results, kind: str) -> list[dict[str, Any]]:
    return finished(results, [f"features/{kind}/{p}" for p in FEATURES])


def rank_points(results: Results) -> list[dict[str, Any]]:
    return finished(results, [f"ranks/{r}" for r in RANKS])


def nodes(results: Results) -> Any:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.3), layout="constrained")
    for graph in GRAPHS:
        found = node_points(results, graph)
        n = [one["nodes"] for one in found]
        left.loglog(n, [1e6 * one["round_seconds"] / one["nodes"] for one in found], "o-")
        right.loglog(n, [one["peak_bytes"] / 1e6 for one in found], "o-", label=graph)
    data = node_points(results, GRAPHS[0])
    size = [one["data_bytes"] / 1e6 for one in data]
    right.loglog([one["nodes"] for one in data], size, "--", color="C5", label="the data")
    left.set(xlabel="nodes", title="microseconds per node and round", ylim=(0.05, None))
    right.set(xlabel="nodes", title="peak memory of the process, MB", ylim=(10, None))
    return legend_below(figure, right)


def setup(results: Results) -> Any:
    from matplotlib import pyplot as plt

    parts = (
        ("problem_seconds", "problem from arrays"),
        ("graph_seconds", "graph"),
        ("before_seconds", "before the first round"),
        ("after_seconds", "after the last round"),
        ("round_seconds", "one round"),
    )
    figure, panels = plt.subplots(1, 2, figsize=(7.6, 3.5), layout="constrained", sharey=True)
    for panel, graph in zip(panels, GRAPHS, strict=True):
        found = node_points(results, graph)
        for field, label in parts:
            seconds = [max(one[field], 1e-4) for one in found]
            panel.loglog([one["nodes"] for one in found], seconds, "o-", label=label)
        panel.set(xlabel="nodes", title=f"{graph}, seconds")
    return legend_below(figure, panels[0])


def features(results: Results) -> Any:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.3), layout="constrained")
    for kind in ("float64", "float32"):
        found = feature_points(results, kind)
        p = [one["features"] for one in found]
        left.loglog(p, [1e3 * one["round_seconds"] for one in found], "o-", label=kind)
        reading = [one["round_seconds"] / one["read_seconds"] for one in found]
        right.loglog(p, reading, "o-")
    right.axhline(1, ls="--", color="C5", label="reading the data once")
    left.set(xlabel="features", title="milliseconds per round, 100 nodes")
    right.set(xlabel="features", title="round / reading the data once")
    return legend_below(figure, left, right)


def ranks(results: Results) -> Any:
    from matplotlib import pyplot as plt

    found = rank_points(results)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.0), layout="constrained")
    names = [str(one["ranks"]) for one in found]
    cores = results.machine["cores"]
    left.bar(names, [one["one"] / one["all"] for one in found], width=0.6)
    best = [min(one["ranks"], cores) for one in found]
    left.plot(names, best, "o--", color="C5", label=f"the most that {cores} cores allow")
    right.bar(names, [1e3 * one["all"] for one in found], width=0.6)
    left.set(xlabel="ranks", title="times as fast as one process")
    right.set(xlabel="ranks", title="milliseconds per round")
    return legend_below(figure, left)


def legend_below(figure: Any, *panels: Any) -> Any:
    """One legend under all panels; logarithmic axes get plain numbers: 0.1, 10, 100 k."""
    from matplotlib.ticker import EngFormatter, FuncFormatter

    for panel in figure.axes:
        if panel.get_xscale() == "log":
            panel.xaxis.set_major_formatter(EngFormatter())
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    pairs = [panel.get_legend_handles_labels() for panel in panels]
    handles = [handle for found, _ in pairs for handle in found]
    labels = [label for _, found in pairs for label in found]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9)
    return figure


PICTURES: dict[str, tuple[str, Callable[[Results], Any]]] = {
    "nodes": ("nodes/", nodes),
    "setup": ("nodes/", setup),
    "features": ("features/", features),
    "ranks": ("ranks/", ranks),
}
