"""An additive model on the page: a curve for each number, bars for levels, a map for a pair."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from tacenda._types import Floats
from tacenda.evaluation.shapes import Shape, run_shapes
from tacenda.report import numbers
from tacenda.report.charts import MOST_ROWS, Column, TextTable, thin
from tacenda.report.reading import Folder
from tacenda.runtime.result import RunResult

BAND = 1.96  # standard deviations on either side: 95 of 100
MOST_SHAPES = 40
Spec = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ShapePanel:
    """One shape with its words, its numbers and its drawing; as `html_page.Panel`."""

    shape: Shape
    outputs: list[str]
    unit: str
    place: int

    tall = False

    @property
    def key(self) -> str:
        return f"shape-{self.place}"

    @property
    def title(self) -> str:
        return f"What {self.tab} {'add' if self.shape.kind == 'map' else 'adds'} to {self.unit}"

    @property
    def tab(self) -> str:
        return self.shape.column.replace("*", " and ")

    @property
    def words(self) -> str:
        shape, first = self.shape, self.shape.y[0] if self.shape.y.size else self.shape.step_y[0]
        return (
            f"{shape.kind} of {self.tab}: from {numbers.short(first.min())} to "
            f"{numbers.short(first.max())}, importance {numbers.short(shape.importance)}."
        )

    @property
    def note(self) -> str:
        shape = self.shape
        parts = [f"It varies by {numbers.short(shape.importance)} over the records."]
        if shape.kind == "map":
            return " ".join(
                [*parts, "Colour: what the pair adds to the curves of its two columns."]
            )
        if shape.noise is not None:
            both = shape.kind == "curve" and shape.sampling is not None
            drawn = ("Inner band" if both else "Band") if shape.kind == "curve" else "Bars"
            outer = "; outer band: with the choice of the records" if both else ""
            parts.append(f"{drawn}: 95 % band for the privacy noise alone{outer}.")
        if len(self.outputs) == 1 and self.unit == "the log-odds":
            p = float(expit(shape.typical[0]))
            parts.append(f"A typical record has a probability of {numbers.percent(p)}.")
        return " ".join(parts)

    @property
    def spec(self) -> Spec:
        """{"data", "layout"} for plotly.js."""
        shape = self.shape
        axis = {"title": {"text": html.escape(self.tab)}, "type": "linear"}
        up = {"title": {"text": f"added to {html.escape(self.unit)}"}, "zeroline": True}
        layout = {"xaxis": axis, "yaxis": up, "hovermode": "closest"}
        if shape.kind == "map":
            first, second = shape.column.split("*", 1)
            layout["xaxis"] = {"title": {"text": html.escape(second)}}
            layout["yaxis"] = {"title": {"text": html.escape(first)}}
            return {"data": [self._map()], "layout": layout | {"showlegend": False}}
        data: list[Spec] = []
        for k in range(len(shape.typical)):
            if shape.kind == "curve":
                data += self._curve(k)
            if shape.steps:
                data.append(self._steps(k))
        if shape.kind == "levels":
            layout["xaxis"] = {**axis, "type": "category"}
        elif shape.steps:  # they stand beside the curve, on an axis of their own
            layout["xaxis"] = {**axis, "domain": [0, 0.8]}
            layout["xaxis2"] = {"domain": [0.84, 1], "type": "category", "anchor": "y"}
        named = len(shape.typical) > 1
        return {"data": data, "layout": layout | {"showlegend": named}}

    def _curve(self, k: int) -> list[Spec]:
        shape, x = self.shape, _plain(self.shape.x)
        line = {
            "type": "scatter", "mode": "lines", "x": x, "y": _plain(shape.y[k]),
            "name": self._name(k), "line": {"width": 2.2}, "meta": {"c": k, "role": "line"},
            "customdata": self._chances(shape.y[k], k), "hovertemplate": self._hover("x"),
        }  # fmt: skip
        around = []
        for std in self._bands(k):
            edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0},
                    "hoverinfo": "skip", "showlegend": False}  # fmt: skip
            low, high = shape.y[k] - BAND * std, shape.y[k] + BAND * std
            around.append({**edge, "y": _plain(low), "meta": {"c": k, "role": "hidden"}})
            shade = {"c": k, "role": "band"}
            around.append({**edge, "y": _plain(high), "fill": "tonexty", "meta": shade})
        return [*around, line]

    def _bands(self, k: int) -> list[Floats]:
        shape = self.shape
        if shape.noise is None:
            return []
        own = shape.noise[k]
        if shape.sampling is None:
            return [own]
        return [np.hypot(own, shape.sampling[k]), own]

    def _steps(self, k: int) -> Spec:
        shape = self.shape
        bar: Spec = {
            "type": "bar", "x": [html.escape(step) for step in shape.steps],
            "y": _plain(shape.step_y[k]), "name": self._name(k), "meta": {"c": k, "role": "bar"},
            "showlegend": shape.kind == "levels", "marker": {},
            "customdata": self._chances(shape.step_y[k], k), "hovertemplate": self._hover("x"),
        }  # fmt: skip
        if shape.kind == "curve":
            bar["xaxis"] = "x2"
        if shape.step_noise is not None:
            bar["error_y"] = {
                "type": "data", "array": _plain(BAND * shape.step_noise[k]),
                "thickness": 1.5, "width": 4,
            }  # fmt: skip
        return bar

    def _map(self) -> Spec:
        shape = self.shape
        first, second = shape.x
        z = shape.y[0].reshape(len(first), len(second))
        most = float(np.abs(z).max()) or 1.0
        return {
            "type": "heatmap", "x": _side(second), "y": _side(first),
            "z": [_plain(row) for row in z], "zmin": -most, "zmax": most, "colorscale": "RdBu",
            "meta": {"c": 0, "role": "map"},
            "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": "adds"}},
            "hovertemplate": "%{y}, %{x}<br>%{z:.3g}<extra></extra>",
        }  # fmt: skip

    def _name(self, k: int) -> str:
        return html.escape(self.outputs[k]) if len(self.outputs) > 1 else html.escape(self.tab)

    def _chances(self, y: Floats, k: int) -> list[str]:
        """What the value makes of a typical record, in words."""
        total = self.shape.typical[k] + y
        if self.unit == "the log-odds":
            return [numbers.percent(v) for v in expit(total)]
        if self.unit == "the logarithm of the rate":
            return [numbers.short(v) for v in np.exp(total)]
        return [numbers.short(v) for v in total]

    @staticmethod
    def _hover(x: str) -> str:
        return f"%{{{x}}}<br>adds %{{y:.3g}}<br>a typical record: %{{customdata}}<extra></extra>"

    @cached_property
    def table(self) -> TextTable:
        """The numbers, evenly thinned, the steps last."""
        shape = self.shape
        several = len(shape.typical) > 1
        columns = [Column("Output")] if several else []
        columns += [Column(self.tab), Column("Adds", True), Column("Noise", True)]
        columns += [Column("A typical record", True)]
        rows = []
        for k in range(len(shape.typical)):
            head = [self.outputs[k]] if several else []
            for where, y, noise, chance in self._cells(k):
                shown = "–" if noise is None else numbers.short(noise)
                rows.append([*head, where, numbers.short(y), shown, chance])
        return TextTable(f"{self.title}: the numbers", columns, rows)

    def _cells(self, k: int) -> list[tuple[str, float, float | None, str]]:
        shape, found = self.shape, []
        if shape.kind == "map":
            first, second = shape.x
            places = [f"{_word(a)}, {_word(b)}" for a in first for b in second]
        else:
            places = [_word(x) for x in shape.x]
        parts = [(places, shape.y, shape.noise), (shape.steps, shape.step_y, shape.step_noise)]
        for names, y, noise in parts:
            if not names:
                continue
            chances = self._chances(y[k], k)
            for j in thin(np.arange(len(names)), MOST_ROWS):
                std = None if noise is None else float(noise[k, j])
                found.append((names[j], float(y[k, j]), std, chances[j]))
        return found


def panels(folder: Folder) -> list[ShapePanel]:
    """The shapes of the lead run, those that matter most first; none of a linear model."""
    schema = folder.schema
    if schema is None or not schema.additive:
        return []
    result = folder.lead.runs[0].result
    found = run_shapes(result, schema)[:MOST_SHAPES]
    names = list(schema.label.classes or ())
    count = len(found[0].typical) if found else 1
    outputs = names if len(names) == count else [schema.label.name] * count
    unit = score_unit(result)
    return [ShapePanel(shape, outputs, unit, k) for k, shape in enumerate(found)]


def score_unit(result: RunResult) -> str:
    """In which unit the shapes of a run are."""
    about = result.settings["problem"]
    if about["loss"] == "logistic":
        return "the log-odds"
    if about["loss"] == "poisson":
        return "the logarithm of the rate"
    return "the score" if about.get("classes") else "the prediction"


def _plain(values: Any) -> list[float]:
    return [float(f"{v:.6g}") for v in np.asarray(values, float)]


def _side(points: list[Any]) -> list[Any]:
    return [html.escape(p) if isinstance(p, str) else float(f"{p:.6g}") for p in points]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else numbers.short(value)
