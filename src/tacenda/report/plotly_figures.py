"""Charts and the network as plotly.js figures: plain dictionaries. The page fills in the colours,
light or dark.

Every trace carries meta = {"c": place in the palette, "role": line, band, edge, point, mark or
node}.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from tacenda.report import numbers
from tacenda.report.charts import Chart, Series, dash_of, visible
from tacenda.report.network_drawing import NetworkDrawing
from tacenda.words import noun

DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
Spec = dict[str, Any]


def chart_figure(chart: Chart) -> Spec:
    """{"data", "layout"} of one chart."""
    data: list[Spec] = []
    for series in chart.series:
        data += [*_band(series, chart.y_log), _trace(series, chart)]
    x = _axis(chart.x_label, chart.x_log)
    y = _axis(chart.y_label, chart.y_log)
    if chart.percent:
        y["tickformat"] = ".0%"
    if chart.y_log:
        y["dtick"] = 1
    if chart.x_ticks:
        words = chart.tick_texts
        x |= {"tickmode": "array", "tickvals": chart.x_ticks, "ticktext": words, "tickangle": 0}
    named = sum(s.legend for s in chart.series)
    return {
        "data": data,
        "layout": {"xaxis": x, "yaxis": y, "showlegend": named > 1, "hovermode": "closest"},
    }


def _axis(label: str, logarithmic: bool) -> Spec:
    axis: Spec = {"title": {"text": html.escape(label)}, "type": "log" if logarithmic else "linear"}
    return axis | {"exponentformat": "power"} if logarithmic else axis


def _trace(series: Series, chart: Chart) -> Spec:
    value = "%{y:.1%}" if chart.percent else "%{y:.4g}"
    name, x_name = html.escape(series.name), html.escape(chart.x_label.split(",")[0])
    trace: Spec = {
        "type": "scatter",
        "name": name,
        "x": _plain(series.x),
        "y": _plain(visible(series.y) if chart.y_log else series.y),
        "mode": "lines",
        "line": {"width": 2.2, "dash": DASHES[dash_of(series.colour)]},
        "meta": {"c": series.colour, "role": "line"},
        "showlegend": series.legend,
        "hovertemplate": f"{name}<br>{x_name} %{{x}}<br>{value}<extra></extra>",
    }
    if series.style == "mark":
        mark = {"size": 12, "symbol": SYMBOLS[series.colour % len(SYMBOLS)], "line": {"width": 2}}
        trace |= {"mode": "markers", "marker": mark, "meta": {"c": series.colour, "role": "mark"}}
    elif series.style == "level":
        line = {"width": 1.2, "dash": DASHES[2 - series.colour % 2]}
        trace |= {
            "line": line,
            "meta": {"c": series.colour, "role": "level"},
            "hovertemplate": f"{name}<br>{value}<extra></extra>",
        }
    elif series.style == "points" or len(series.x) == 1:
        trace |= {
            # Between names there is nothing to join
            "mode": "markers" if chart.x_names else "lines+markers",
            "marker": {"size": 9, "symbol": SYMBOLS[series.colour % len(SYMBOLS)]},
        }
        if series.low is not None and series.high is not None:
            up, down = _plain(series.high - series.y), _plain(series.y - series.low)
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": up,
                "arrayminus": down,
                "thickness": 1.5,
                "width": 4,
            }
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
    low = {
        **around,
        "y": _plain(visible(series.low) if y_log else series.low),
        "meta": {"c": series.colour, "role": "hidden"},
    }
    return [low, {**around, "y": _plain(series.high), "fill": "tonexty", "meta": shade}]


def network_figure(net: NetworkDrawing) -> Spec:
    """The drawing: edges, their middles (which tell the traffic), nodes."""
    assert net.positions is not None
    ends = net.positions[net.edges]
    lines = np.full((len(net.edges), 3, 2), np.nan)
    lines[:, :2] = ends
    middle = ends.mean(axis=1)
    traffic = (
        f"{numbers.whole(round(net.edge_messages))} {noun(round(net.edge_messages), 'message')}, "
        f"{numbers.size(net.edge_bytes)}"
    )
    between = [
        f"{html.escape(str(net.labels[a]))} – {html.escape(str(net.labels[b]))}<br>{traffic}"
        for a, b in net.edges
    ]
    hidden = {"visible": False, "range": [-0.06, 1.06]}
    edges = {
        "type": "scatter",
        "mode": "lines",
        "x": _plain(lines[:, :, 0].ravel()),
        "y": _plain(lines[:, :, 1].ravel()),
        "line": {"width": 1.2 if len(net.edges) < 400 else 0.7},
        "hoverinfo": "skip",
        "meta": {"c": 0, "role": "edge"},
    }
    middles = {
        "type": "scatter",
        "mode": "markers",
        "x": _plain(middle[:, 0]),
        "y": _plain(middle[:, 1]),
        "text": between,
        "marker": {"size": 9, "opacity": 0},
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"c": 0, "role": "middle"},
    }
    data = [edges, middles, _nodes(net)]
    return {
        "data": data,
        "layout": {"xaxis": hidden, "yaxis": hidden, "showlegend": False, "hovermode": "closest"},
    }


def _nodes(net: NetworkDrawing) -> Spec:
    marker: Spec = {"size": _plain(marker_sizes(net)), "opacity": 1, "line": {"width": 1.5}}
    if not net.even:
        marker |= _scale(net)
    assert net.positions is not None
    return {
        "type": "scatter",
        "mode": "markers",
        "x": _plain(net.positions[:, 0]),
        "y": _plain(net.positions[:, 1]),
        "text": [html.escape(net.hover(k)).replace("\n", "<br>") for k in range(net.n)],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"c": 0, "role": "node"},
        "marker": marker,
    }


def _scale(net: NetworkDrawing) -> Spec:
    """Shades from a scale that colour-blind readers can tell apart,
    with its ends and middle named."""
    show = numbers.percent if net.percent else numbers.short
    low, high = float(net.shade.min()), float(net.shade.max())
    ticks = [low, (low + high) / 2, high]
    bar = {
        "title": {"text": html.escape(net.shade_name), "side": "right"},
        "thickness": 12,
        "outlinewidth": 0,
    }
    named = {"tickvals": ticks, "ticktext": [show(t) for t in ticks]}
    return {
        "color": _plain(net.shade),
        "colorscale": "Cividis",
        "showscale": True,
        "colorbar": bar | named,
    }


def marker_sizes(net: NetworkDrawing) -> Any:
    """(n,) diameters: the area follows the number of records."""
    biggest = 34.0 if net.n <= 40 else 26.0 if net.n <= 150 else 14.0
    return np.maximum(biggest * np.sqrt(net.sizes / net.sizes.max()), 5.0)


def _plain(values: Any) -> list[Any]:
    """Floats rounded to seven digits, which no eye can tell apart; a gap for what is not finite."""
    return [float(f"{v:.7g}") if np.isfinite(v) else None for v in np.asarray(values, float)]
