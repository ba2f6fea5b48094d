"""A reader of the parts of PMML 4.4 that regressions use, written from the standard: it scores one
record, given as text by column; an absent column is missing."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree as ET

NS = "{http://www.dmg.org/PMML-4_4}"


def score(text: bytes, record: dict[str, str]) -> dict[str, float] | float:
    """The predicted number, or the probability (score) of each class."""
    root = ET.fromstring(text)
    values: dict[str, Any] = {}
    for field in root.find(f"{NS}DataDictionary") or []:
        name, raw = field.get("name"), record.get(field.get("name") or "")
        gone = {v.get("value") for v in field if v.get("property") == "missing"}
        if raw is None or raw in gone or (raw == "" and field.get("dataType") == "double"):
            values[name or ""] = None
        else:
            values[name or ""] = float(raw) if field.get("dataType") == "double" else raw
    for field in root.find(f"{NS}TransformationDictionary") or []:
        values[field.get("name") or ""] = _value(field[0], values)
    model = root.find(f"{NS}RegressionModel")
    assert model is not None
    sums: dict[str | None, float] = {}
    for table in model.findall(f"{NS}RegressionTable"):
        sums[table.get("targetCategory")] = float(table.get("intercept") or 0) + sum(
            float(p.get("coefficient") or 0) * values[p.get("name") or ""] for p in table
        )
    told = [f for f in model.iter(f"{NS}OutputField") if f.get("feature") == "transformedValue"]
    if told:
        values["score"] = sums[None]
        for field in told:
            values[field.get("name") or ""] = _value(field[0], values)
        return {field.get("name") or "": values[field.get("name") or ""] for field in told}
    return _normalised(root, model, sums)


def _normalised(root: Any, model: Any, sums: dict[Any, float]) -> Any:
    way = model.get("normalizationMethod")
    if model.get("functionName") == "regression":
        found = math.exp(sums[None]) if way == "exp" else sums[None]
        for target in model.iter(f"{NS}Target"):
            found = min(max(found, float(target.get("min"))), float(target.get("max")))
        return found
    target = next(
        f for f in root.find(f"{NS}DataDictionary") if f.get("optype") != "continuous" and len(f)
        and all(v.get("property") is None for v in f)
    )  # fmt: skip
    labels = [v.get("value") for v in target]
    if target.get("optype") == "ordinal":
        below = [1 / (1 + math.exp(-sums[label])) for label in labels[:-1]]
        return dict(
            zip(labels, (b - a for a, b in zip([0, *below], [*below, 1], strict=True)), strict=True)
        )
    if way == "softmax":
        top = max(sums.values())
        total = sum(math.exp(v - top) for v in sums.values())
        return {k: math.exp(v - top) / total for k, v in sums.items()}
    if way == "logit":
        first, other = list(sums)
        p = 1 / (1 + math.exp(-sums[first]))
        return {first: p, other: 1 - p}
    return sums


def _value(one: Any, values: dict[str, Any]) -> Any:
    kind = one.tag.removeprefix(NS)
    if kind == "Constant":
        return float(one.text)
    if kind == "FieldRef":
        return values[one.get("field")]
    if kind == "NormContinuous":
        points = [(float(p.get("orig")), float(p.get("norm"))) for p in one]
        x = values[one.get("field")]
        if x is None:
            return None
        at = sum(x > p for p, _ in points[1:-1])
        (a, u), (b, v) = points[at], points[at + 1]
        return u + (x - a) / (b - a) * (v - u)
    if kind == "MapValues":
        cell = values[one[0].get("field")]
        if cell is None:
            return float(one.get("mapMissingTo"))
        rows = {row[0].text: float(row[1].text) for row in one[1]}
        if cell in rows:
            return rows[cell]
        return float(one.get("defaultValue"))
    assert kind == "Apply", kind
    name = one.get("function")
    if name == "if":
        return _value(one[1], values) if _value(one[0], values) else _value(one[2], values)
    parts = [_value(part, values) for part in one]
    if name == "isMissing":
        return parts[0] is None
    if any(part is None for part in parts):
        return None
    return {
        "min": lambda: min(parts),
        "max": lambda: max(parts),
        "+": lambda: sum(parts),
        "*": lambda: math.prod(parts),
        "-": lambda: parts[0] - parts[1],
        "/": lambda: parts[0] / parts[1],
        "exp": lambda: math.exp(parts[0]),
        "ln": lambda: math.log(parts[0]),
        "sin": lambda: math.sin(parts[0]),
        "cos": lambda: math.cos(parts[0]),
        "modulo": lambda: parts[0] - parts[1] * math.floor(parts[0] / parts[1]),
        "equal": lambda: parts[0] == parts[1],
    }[name]()
