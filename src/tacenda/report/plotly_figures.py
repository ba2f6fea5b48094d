"""Charts and the network as plotly.js figures: plain dictionaries. Colours are filled in by the page, which knows light from dark.

Every trace carries meta = {"c": place in the palette, "role": line, band, edge, point, mark or node}.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from tacenda.report import numbers
from tacenda.report.charts import Chart, Series
from tacenda.report.network import Network

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
Spec = dict[str, Any]


def chart_figure(chart: Chart) -> Spec:
    """{"data", "layout"} of one chart."""
    data: list[Spec] = []
    for series in chart.series:
        data += _band(series, chart.y_log) + [_trace(series, chart)]
    x = {"title": {"text": html.escape(chart.x_label)}, "type": "log" if chart.x_log else "linear"}
    y = {"title": {"text": html.escape(chart.y_label)}, "type": "log" if chart.y_log else "linear"}
    if chart.percent:
        y["tickformat"] = ".0%"
    for axis, logarithmic in ((x, chart.x_log), (y, chart.y_log)):
        if logarithmic:
            axis |= {"dtick": 1 if axis is y else None, "exponentformat": "power", "minor": {"dtick": None}}
    if chart.key.startswith("utility"):
        ticks = sorted({float(v) for s in chart.series for v in s.x})
        x |= {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{t:.3g}" for t in ticks], "tickangle": 0}
    named = sum(s.legend for s in chart.series)
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, "showlegend": named > 1, "hovermode": "closest"}}


def _trace(series: Series, chart: Chart) -> Spec:
    value = "%{y:.1%}" if chart.percent else "%{y:.4g}"
    dash = DASHES[series.colour // len(SYMBOLS) % len(DASHES)] if series.colour >= len(SYMBOLS) else DASHES[series.colour % 4]
    trace: Spec = {
        "type": "scatter",
        "name": html.escape(series.name),
        "x": _plain(series.x),
        "y": _plain(visible(series.y) if chart.y_log else series.y),
        "mode": "lines",
        "line": {"width": 2.2, "dash": dash},
        "meta": {"c": series.colour, "role": "line"},
        "showlegend": series.legend,
        "hovertemplate": f"{html.escape(series.name)}<br>{html.escape(chart.x_label.split(',')[0])} %{{x}}<br>{value}<extra></extra>",
    }
    if series.style == "mark":
        mark = {"size": 12, "symbol": SYMBOLS[series.colour % len(SYMBOLS)], "line": {"width": 2}}
        trace |= {"mode": "markers", "marker": mark, "meta": {"c": series.colour, "role": "mark"}}
    elif series.style == "points" or len(series.x) == 1:
        trace |= {"mode": "lines+markers", "marker": {"size": 9, "symbol": SYMBOLS[series.colour % len(SYMBOLS)]}}
        if series.low is not None and series.high is not None:
            up, down = _plain(series.high - series.y), _plain(series.y - series.low)
            trace["error_y"] = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.5, "width": 4}
    return trace


def _band(series: Series, y_log: bool) -> list[Spec]:
    """The range over the seeds, as a filled area behind the line."""
    if series.low is None or series.high is None or series.style != "line" or len(series.x) < 2:
        return []
    around = {
        "type": "scatter",
        "x": _plain(series.x),
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    shade = {"c": series.colour, "role": "band"}
    low = {**around, "y": _plain(visible(series.low) if y_log else series.low), "meta": {"c": series.colour, "role": "hidden"}}
    return [low, {**around, "y": _plain(series.high), "fill": "tonexty", "meta": shade}]


def visible(values: Any) -> Any:
    """Values for a logarithmic axis: rounding errors around zero become gaps instead of deep spikes."""
    found = np.asarray(values, float)
    return np.where(found > 1e-12 * found.max(initial=0.0), found, np.nan)


def network_figure(net: Network) -> Spec:
    """The drawing: edges, their middles (which tell the traffic), nodes."""
    assert net.positions is not None
    ends = net.positions[net.edges]
    lines = np.full((len(net.edges), 3, 2), np.nan)
    lines[:, :2] = ends
    middle = ends.mean(axis=1)
    traffic = f"{numbers.whole(round(net.edge_messages))} messages, {numbers.size(net.edge_bytes)}"
    between = [f"{html.escape(net.labels[a])} – {html.escape(net.labels[b])}<br>{traffic}" for a, b in net.edges]
    hidden = {"visible": False, "range": [-0.06, 1.06]}
    data = [
        {"type": "scatter", "mode": "lines", "x": _plain(lines[:, :, 0].ravel()), "y": _plain(lines[:, :, 1].ravel()),
         "line": {"width": 1.2 if len(net.edges) < 400 else 0.7}, "hoverinfo": "skip", "meta": {"c": 0, "role": "edge"}},
        {"type": "scatter", "mode": "markers", "x": _plain(middle[:, 0]), "y": _plain(middle[:, 1]), "text": between,
         "marker": {"size": 9, "opacity": 0}, "hovertemplate": "%{text}<extra></extra>", "meta": {"c": 0, "role": "middle"}},
        _nodes(net),
    ]  # fmt: skip
    return {"data": data, "layout": {"xaxis": hidden, "yaxis": hidden, "showlegend": False, "hovermode": "closest"}}


def _nodes(net: Network) -> Spec:
    marker: Spec = {"size": _plain(marker_sizes(net)), "opacity": 1, "line": {"width": 1.5}}
    if not net.even:
        marker |= _scale(net)
    return {
        "type": "scatter", "mode": "markers", "x": _plain(net.positions[:, 0]), "y": _plain(net.positions[:, 1]),  # type: ignore[index]
        "text": [html.escape(net.hover(k)).replace("\n", "<br>") for k in range(net.n)],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"c": 0, "role": "node"},
        "marker": marker,
    }  # fmt: skip


def _scale(net: Network) -> Spec:
    """Shades from a scale that colour-blind readers can tell apart, with its ends and middle named."""
    show = numbers.percent if net.percent else numbers.short
    low, high = float(net.shade.min()), float(net.shade.max())
    ticks = [low, (low + high) / 2, high]
    bar = {"title": {"text": html.escape(net.shade_name), "side": "right"}, "thickness": 12, "outlinewidth": 0}
    named = {"tickvals": ticks, "ticktext": [show(t) for t in ticks]}
    return {"color": _plain(net.shade), "colorscale": "Cividis", "showscale": True, "colorbar": bar | named}


def marker_sizes(net: Network) -> Any:
    """(n,) diameters: the area follows the number of records."""
    biggest = 34.0 if net.n <= 40 else 26.0 if net.n <= 150 else 14.0
    return np.maximum(biggest * np.sqrt(net.sizes / net.sizes.max()), 5.0)


def _plain(values: Any) -> list[Any]:
    """Floats rounded to seven digits, which no eye can tell apart; a gap for what is not finite."""
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in np.asarray(values, float)]
