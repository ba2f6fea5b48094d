"""The privacy curve epsilon(delta) and the trade-off function, drawn into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacenda.errors import InputError
from tacenda.formats.files import replacing

PICTURES = (".svg", ".png", ".pdf")


def draw(statements: dict[str, Any], path: Path) -> Path:
    """Both curves of each statement, with the run's own point; the ending decides the format."""
    if not statements:
        raise InputError("--plot needs a private run; there is no privacy curve without noise.")
    kind = path.suffix.lower()
    if kind not in (*PICTURES, ".html"):
        raise InputError(f"--plot must end in {', '.join(PICTURES)} or .html, not {path.name!r}.")
    curves = {label: _points(statement) for label, statement in statements.items()}
    with replacing(path) as part:
        (_page if kind == ".html" else _picture)(curves, part)
    return path


def _points(statement: Any) -> dict[str, Any]:
    curve = statement.curve()
    deltas = np.logspace(-10, -1, 61)
    epsilons = np.array([curve.epsilon(float(d)) for d in deltas])
    rates = np.linspace(0.0, 1.0, 201)
    return {
        "deltas": deltas,
        "epsilons": epsilons,
        "rates": rates,
        "missed": curve.tradeoff(rates),
        "point": (statement.delta, statement.epsilon),
    }


def _picture(curves: dict[str, dict[str, Any]], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "--plot needs matplotlib for this format: pip install 'tacenda[plots]', or use .html."
        ) from None
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for label, c in curves.items():
        line = left.semilogx(c["deltas"], c["epsilons"], label=label)[0]
        left.plot([c["point"][0]], [c["point"][1]], "o", color=line.get_color())
        right.plot(c["rates"], c["missed"], color=line.get_color(), label=label)
    right.plot([0, 1], [1, 0], "--", color="0.6", linewidth=1, label="perfect privacy")
    left.set(xlabel="delta", ylabel="epsilon", title="Privacy curve")
    right.set(
        xlabel="false positive rate",
        ylabel="least false negative rate",
        title="Trade-off of any attack",
    )
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.savefig(path)


def _page(curves: dict[str, dict[str, Any]], path: Path) -> None:
    from plotly.graph_objects import Figure, Scatter
    from plotly.subplots import make_subplots

    figure: Figure = make_subplots(
        rows=1, cols=2, subplot_titles=("Privacy curve", "Trade-off of any attack")
    )
    for label, c in curves.items():
        figure.add_trace(
            Scatter(x=c["deltas"], y=c["epsilons"], name=f"{label}: epsilon(delta)"), row=1, col=1
        )
        at, value = c["point"]
        figure.add_trace(
            Scatter(x=[at], y=[value], mode="markers", name=f"{label}: this run"), row=1, col=1
        )
        figure.add_trace(
            Scatter(x=c["rates"], y=c["missed"], name=f"{label}: trade-off"), row=1, col=2
        )
    figure.add_trace(
        Scatter(x=[0, 1], y=[1, 0], name="perfect privacy", line={"dash": "dash"}), row=1, col=2
    )
    figure.update_xaxes(title_text="delta", type="log", row=1, col=1)
    figure.update_yaxes(title_text="epsilon", row=1, col=1)
    figure.update_xaxes(title_text="false positive rate", row=1, col=2)
    figure.update_yaxes(title_text="least false negative rate", row=1, col=2)
    figure.write_html(path, include_plotlyjs=True)
