"""The planner's picture: what each change buys, and the privacy curve of the plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tacenda.errors import InputError
from tacenda.formats.files import replacing
from tacenda.planning.outcome import Plan
from tacenda.planning.what_if import Change

PICTURES = (".svg", ".png", ".pdf")
BETTER, SAME, WORSE = "#2a7f62", "#5b6770", "#b5532a"
LEFT, RIGHT = "Excess risk: what more would give", "Privacy curve of the whole run"


def draw(plan: Plan, changes: list[Change], path: str | Path) -> Path:
    """Both panels into a file whose ending decides the format."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (*PICTURES, ".html"):
        raise InputError(f"plot must end in {', '.join(PICTURES)} or .html, not {target.name!r}.")
    with replacing(target) as part:
        (_page if kind == ".html" else _picture)(plan, changes, part)
    return target


def _colour(change: Change) -> str:
    return BETTER if change.factor < 0.95 else WORSE if change.factor > 1.05 else SAME


def _curve(plan: Plan) -> tuple[list[float], list[float]]:
    points = plan.privacy_curve(np.logspace(-9, -2, 43).tolist())
    return [d for d, _ in points], [e for _, e in points]


def _picture(plan: Plan, changes: list[Change], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "a plot needs matplotlib for this format: pip install 'tacenda[plots]', or use .html."
        ) from None
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    shown = changes[::-1]
    bars = left.barh(
        [c.name for c in shown], [c.excess_risk for c in shown], color=[_colour(c) for c in shown]
    )
    left.bar_label(bars, [f" {c.excess_risk:.2g}" for c in shown])
    left.margins(x=0.15)
    left.set(title=LEFT, xlabel="forecast objective above the noise-free optimum")
    deltas, epsilons = _curve(plan)
    right.semilogx(deltas, epsilons, color=SAME)
    budget = plan.epsilon if isinstance(plan.epsilon, float) else max(plan.epsilon)
    right.plot(
        [plan.delta], [budget], "o", color=WORSE, label=f"the plan: ({budget:g}, {plan.delta:g})"
    )
    right.set(title=RIGHT, xlabel="delta", ylabel="epsilon")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _page(plan: Plan, changes: list[Change], path: Path) -> None:
    from plotly.graph_objects import Bar, Figure, Scatter
    from plotly.subplots import make_subplots

    figure: Figure = make_subplots(
        rows=1, cols=2, subplot_titles=(LEFT, RIGHT), column_widths=[0.6, 0.4]
    )
    shown = changes[::-1]
    bars = Bar(
        x=[c.excess_risk for c in shown],
        y=[c.name for c in shown],
        orientation="h",
        marker_color=[_colour(c) for c in shown],
        text=[f"{c.excess_risk:.2g}" for c in shown],
        name="excess risk",
    )
    figure.add_trace(bars, row=1, col=1)
    deltas, epsilons = _curve(plan)
    figure.add_trace(Scatter(x=deltas, y=epsilons, name="epsilon(delta)"), row=1, col=2)
    budget = plan.epsilon if isinstance(plan.epsilon, float) else max(plan.epsilon)
    figure.add_trace(
        Scatter(x=[plan.delta], y=[budget], mode="markers", name="the plan"), row=1, col=2
    )
    figure.update_xaxes(title_text="forecast objective above the noise-free optimum", row=1, col=1)
    figure.update_xaxes(title_text="delta", type="log", row=1, col=2)
    figure.update_yaxes(title_text="epsilon", row=1, col=2)
    figure.update_layout(showlegend=False)
    figure.write_html(path, include_plotlyjs=True)
