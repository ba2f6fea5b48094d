"""`figures`: the report's figures as SVG and PDF, for papers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacenda import checks
from tacenda.errors import InputError
from tacenda.formats.files import replacing
from tacenda.report import curves, network_drawing
from tacenda.report.charts import Chart, Series, dash_of, visible
from tacenda.report.reading import Folder, read

FORMATS = ("svg", "pdf", "png", "eps")
# Okabe and Ito's colours in an order whose neighbours differ most, then darker ones:
# safe for colour-blind readers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a87400", "#56b4e9", "#5b5b5b", "#7a4fb5")
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "D", "^", "P", "X", "*", "p")
STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "tacenda",
    "figure.dpi": 150,
}


def figures(
    run_folder: str | Path, out_dir: str | Path, formats: Sequence[str] = ("svg", "pdf")
) -> list[Path]:
    """Write every figure of the report, one file per format (extra `plots`).

    One column wide (8.5 cm); text stays text; the same folder gives the same files.

    Parameters
    ----------
    run_folder : str or Path
        A run folder, as `fit` and `compare` write them.
    out_dir : str or Path
        Where to write; made if it does not exist.
    formats : sequence of {"svg", "pdf"}, default=('svg', 'pdf')
        Which formats.

    Raises
    ------
    InputError
        If there is no run folder.

    Examples
    --------
    >>> import tacenda as tc
    >>> try:
    ...     tc.report.figures("no-such-folder", "figures")
    ... except tc.errors.InputError as error:
    ...     print(error)
    there is no run folder at 'no-such-folder'; `tacenda fit` and `tacenda compare` write one.
    """
    wanted, folder = _known(formats), read(run_folder)
    return _write(lambda new: _all(folder, new), Path(out_dir), wanted)


def write_charts(
    charts: Sequence[Chart], out_dir: str | Path, formats: Sequence[str] = ("svg", "pdf")
) -> list[Path]:
    """Write charts of your own as `figures` writes those of a run (extra `plots`).

    Parameters
    ----------
    charts : sequence of Chart
        What to draw; a chart's key is the name of its files.
    out_dir : str or Path
        Where to write; made if it does not exist.
    formats : sequence of {"svg", "pdf", "png", "eps"}, default=('svg', 'pdf')
        Which formats.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tacenda as tc
    >>> line = tc.report.Series("DVP", np.array([1.0, 2.0]), np.array([0.5, 0.4]), 0)
    >>> chart = tc.report.Chart("risk", "Risk", "round", "risk", [line], "Risk falls.")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in tc.report.write_charts([chart], folder, ["svg"])]
    ['risk.svg']
    """

    def drawn(new: Any) -> Iterable[tuple[str, Any]]:
        return ((chart.key, _chart(chart, new)) for chart in charts)

    return _write(drawn, Path(out_dir), _known(formats))


def _known(formats: Sequence[str]) -> list[str]:
    wanted = [formats] if isinstance(formats, str) else list(formats)
    if not wanted:
        raise InputError(f"formats must name at least one of {', '.join(FORMATS)}, not be empty.")
    for name in wanted:
        checks.one_of("formats", name, FORMATS)
    return wanted


def _write(
    drawn: Callable[[Any], Iterable[tuple[str, Any]]], target: Path, formats: Sequence[str]
) -> list[Path]:
    mpl, Figure = _matplotlib()
    target.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(STYLE):
        for key, figure in drawn(Figure):
            for suffix in formats:
                path = target / f"{key}.{suffix}"
                with replacing(path) as part:
                    figure.savefig(part, bbox_inches="tight", metadata=_undated(suffix))
                written.append(path)
    return written


def draw_charts(charts: Sequence[Chart], path: str | Path) -> Path:
    """Draw charts below each other into one file; its ending says in which format (extra `plots`).

    charts: what is drawn. path: the file to write.
    """
    path, (mpl, Figure) = Path(path), _matplotlib()
    checks.one_of("format", path.suffix.removeprefix("."), FORMATS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.5, 2.6 * len(charts)), layout="constrained")
        for chart, axes in zip(charts, np.atleast_1d(figure.subplots(len(charts))), strict=True):
            _on_axes(chart, axes)
            axes.set_title(chart.title)
        with replacing(path) as part:
            figure.savefig(part, metadata=_undated(path.suffix.removeprefix(".")))
    return path


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "Figures for papers need matplotlib: pip install 'tacenda[plots]'."
        ) from None
    return mpl, Figure


def _all(folder: Folder, new: Any) -> list[tuple[str, Any]]:
    charts = [
        *curves.learning(folder),
        *curves.agreement(folder),
        *curves.spending(folder),
        *curves.utility(folder),
    ]
    curve = curves.privacy_curve(folder)
    drawn = [(c.key, _chart(c, new)) for c in ([curve] if curve is not None else []) + charts]
    net = network_drawing.drawing(folder)
    return drawn if net.positions is None else [("network", _network(net, new)), *drawn]


def _chart(chart: Chart, new: Any) -> Any:
    figure = new(figsize=(3.35, 2.3))
    _on_axes(chart, figure.subplots())
    return figure


def _on_axes(chart: Chart, axes: Any) -> None:
    for series in chart.series:
        _draw(axes, series, visible if chart.y_log else np.asarray, bool(chart.x_names))
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if chart.x_log:
        axes.set_xscale("log")
    if chart.x_ticks:
        axes.set_xticks(chart.x_ticks, chart.tick_texts)
        axes.minorticks_off()
    if chart.y_log:
        axes.set_yscale("log")
    if chart.percent:
        from matplotlib.ticker import PercentFormatter

        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if sum(s.legend for s in chart.series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw(axes: Any, series: Series, shown: Any, apart: bool = False) -> None:
    k = series.colour
    colour, dash, marker = COLOURS[k % len(COLOURS)], DASHES[dash_of(k)], MARKERS[k % len(MARKERS)]
    name = series.name if series.legend else None
    if series.style == "mark":
        axes.plot(
            series.x,
            series.y,
            marker,
            color=colour,
            markersize=6,
            markerfacecolor="none",
            label=name,
            zorder=4,
        )
    elif series.style == "level":
        axes.plot(
            series.x, series.y, (":", "--")[k % 2], color="#777777", linewidth=0.8, label=name
        )
    elif series.style == "points" and series.low is not None and series.high is not None:
        spans = np.maximum([series.y - series.low, series.high - series.y], 0.0)
        axes.errorbar(
            series.x,
            series.y,
            spans,
            fmt=marker,
            linestyle="none" if apart else dash,  # between names there is nothing to join
            color=colour,
            markersize=4,
            capsize=2,
            label=name,
        )
    else:
        axes.plot(series.x, shown(series.y), dash, color=colour, label=name)
        if series.low is not None and series.high is not None:
            axes.fill_between(
                series.x, shown(series.low), series.high, color=colour, alpha=0.16, linewidth=0
            )


def _network(net: network_drawing.NetworkDrawing, new: Any) -> Any:
    from matplotlib.collections import LineCollection

    assert net.positions is not None
    figure = new(figsize=(3.6, 3.0))
    axes = figure.subplots()
    axes.add_collection(
        LineCollection(list(net.positions[net.edges]), colors="#999999", linewidths=0.5, zorder=1)
    )
    area = 160.0 * net.sizes / net.sizes.max()
    paint = {"color": COLOURS[0]} if net.even else {"c": net.shade, "cmap": "cividis"}
    dots = axes.scatter(
        *net.positions.T,
        s=np.maximum(area, 6.0),
        edgecolors="white",
        linewidths=0.6,
        zorder=2,
        **paint,
    )
    if not net.even:
        bar = figure.colorbar(dots, ax=axes, shrink=0.7, label=net.shade_name)
        bar.outline.set_visible(False)
    axes.set_axis_off()
    axes.set_aspect("equal")
    return figure


def _undated(suffix: str) -> dict[str, Any]:
    """No time of writing in the files, so that equal runs give equal bytes."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix, {})
