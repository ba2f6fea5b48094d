"""A model as PMML 4.4: derived fields for what each column adds, and a regression that adds them
up. Output fields name the probability of each class, and turn the score of hazards into survival
at the end of each period. The promise is an extension of the header."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from tacenda._types import Floats
from tacenda.exports.portable import Curve, Levels, Portable, Term, Wave

SPACE = "http://www.dmg.org/PMML-4_4"


def document(model: Portable) -> bytes:
    """The file's contents."""
    root = ET.Element("PMML", version="4.4", xmlns=SPACE)
    header = ET.SubElement(root, "Header", description=model.name)
    for name, value in (("promise", model.promise), ("source", model.source)):
        ET.SubElement(header, "Extension", name=f"tacenda.{name}", value=json.dumps(value))
    ET.SubElement(header, "Application", name="Tacenda")
    _dictionary(root, model)
    derived = ET.SubElement(root, "TransformationDictionary")
    names = [_term(derived, term, place) for place, term in enumerate(model.terms)]
    _regression(root, model, names)
    ET.indent(root, " ")
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _dictionary(root: ET.Element, model: Portable) -> None:
    fields = ET.SubElement(root, "DataDictionary")
    for term in model.terms:
        levels = isinstance(term, Levels)
        one = ET.SubElement(
            fields,
            "DataField",
            name=term.column,
            optype="categorical" if levels else "continuous",
            dataType="string" if levels else "double",
        )
        if isinstance(term, Levels):
            for text in model.missing_values:
                if text not in term.levels:
                    ET.SubElement(one, "Value", value=text, property="missing")
    out = model.output
    if out.kind == "hazards":
        return  # its output fields say all
    kind = {"number": "continuous", "classes": "categorical", "ordered": "ordinal"}[out.kind]
    target = ET.SubElement(
        fields,
        "DataField",
        name=out.name,
        optype=kind,
        dataType="double" if out.kind == "number" else "string",
    )
    for label in out.classes:
        ET.SubElement(target, "Value", value=label)


# ---- terms
def _term(parent: ET.Element, term: Term, place: int) -> list[str]:
    """The derived fields of a column, one for each score."""
    found = []
    count = term.sine.size if isinstance(term, Wave) else term.values.shape[1]
    source = term.column if isinstance(term, Levels) else _clipped(parent, term, place)
    for k in range(count):
        name = f"t{place}.{k}"
        field = _derived(parent, name)
        if isinstance(term, Levels):
            _map(field, term, k)
        else:
            made = _guarded(field, term, k)
            if isinstance(term, Wave):
                _wave(made, term, source, k)
            else:
                _with_atoms(made, parent, term, source, k, name)
        found.append(name)
    return found


def _derived(parent: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(parent, "DerivedField", name=name, optype="continuous", dataType="double")


def _clipped(parent: ET.Element, term: Curve | Wave, place: int) -> str:
    """The name of the cell within its bounds; the cell itself where there are none."""
    if not (np.isfinite(term.low) and np.isfinite(term.high)):
        return term.column
    field = _derived(parent, f"x{place}")
    inner = _apply(_apply(field, "min"), "max")
    _field(inner, term.column)
    _number(inner, term.low)
    _number(field[0], term.high)
    return f"x{place}"


def _guarded(field: ET.Element, term: Curve | Wave, k: int) -> ET.Element:
    """Where the value of a cell that is not empty goes."""
    if term.missing is None:
        return field
    choice = _apply(field, "if")
    _field(_apply(choice, "isMissing"), term.column)
    _number(choice, term.missing[k])
    return choice


def _with_atoms(
    parent: ET.Element, fields: ET.Element, term: Curve, source: str, k: int, name: str
) -> None:
    for atom, values in zip(term.atoms, term.atom_values, strict=True):
        parent = _apply(parent, "if")
        same = _apply(parent, "equal")
        _field(same, source)
        _number(same, float(atom))
        _number(parent, values[k])
    _norm(parent, _shown(fields, term, source, name), term.at, term.values[:, k])


def _shown(fields: ET.Element, term: Curve, source: str, name: str) -> str:
    """The name of the field on the scale of the knots."""
    if not term.log and term.period is None:
        return source
    made = ET.Element("DerivedField", name=f"{name}.z", optype="continuous", dataType="double")
    fields.insert(len(fields) - 1, made)
    place = made
    if term.period is not None:
        place = _apply(place, "modulo")
    if term.log:
        one = _apply(place, "ln")
        total = _apply(one, "+")
        _number(total, 1.0)
        _field(total, source)
    else:
        _field(place, source)
    if term.period is not None:
        _number(place, term.period)
    return f"{name}.z"


def _norm(parent: ET.Element, name: str, at: Floats, values: Floats) -> None:
    norm = ET.SubElement(parent, "NormContinuous", field=name, outliers="asIs")
    for x, y in zip(at, values, strict=True):
        ET.SubElement(norm, "LinearNorm", orig=repr(float(x)), norm=repr(float(y)))


def _wave(parent: ET.Element, term: Wave, source: str, k: int) -> None:
    total = _apply(parent, "+")
    for function, weight in (("sin", term.sine[k]), ("cos", term.cosine[k])):
        one = _apply(total, "*")
        _number(one, weight)
        angle = _apply(_apply(one, function), "*")
        _number(angle, 2 * np.pi / term.period)
        _field(angle, source)


def _map(field: ET.Element, term: Levels, k: int) -> None:
    facts: dict[str, str] = {"outputColumn": "adds", "dataType": "double"}
    if term.other is not None:
        facts["defaultValue"] = repr(float(term.other[k]))
    if term.missing is not None:
        facts["mapMissingTo"] = repr(float(term.missing[k]))
    table = ET.SubElement(field, "MapValues", facts)
    ET.SubElement(table, "FieldColumnPair", field=term.column, column="level")
    rows = ET.SubElement(table, "InlineTable")
    for level, value in zip(term.levels, term.values[:, k], strict=True):
        row = ET.SubElement(rows, "row")
        ET.SubElement(row, "level").text = level
        ET.SubElement(row, "adds").text = repr(float(value))


def _apply(parent: ET.Element, function: str) -> ET.Element:
    return ET.SubElement(parent, "Apply", function=function)


def _field(parent: ET.Element, name: str) -> None:
    ET.SubElement(parent, "FieldRef", field=name)


def _number(parent: ET.Element, value: float) -> None:
    ET.SubElement(parent, "Constant", dataType="double").text = repr(float(value))


# ---- the regression
def _regression(root: ET.Element, model: Portable, names: list[list[str]]) -> None:
    out = model.output
    number = "exp" if out.units.log_scores else "none"
    ways = {"ordered": "logit", "number": number, "hazards": "none"}
    several = len(model.constant) > 1
    # Of two classes "none" would make the second one's score 1 - the first's. So scores go through
    # the logit, which changes no prediction, and no output field calls them probabilities
    own = "logit" if not several else "softmax" if out.probabilities else "none"
    way = ways.get(out.kind, own)
    made = ET.SubElement(
        root,
        "RegressionModel",
        modelName=model.name,
        functionName="regression" if out.kind in ("number", "hazards") else "classification",
        normalizationMethod=way,
    )
    schema = ET.SubElement(made, "MiningSchema")
    for term in model.terms:
        odd = "asIs" if isinstance(term, Levels) else "returnInvalid"
        ET.SubElement(schema, "MiningField", name=term.column, invalidValueTreatment=odd)
    if out.kind == "hazards":
        _survival(made, model)
    else:
        ET.SubElement(schema, "MiningField", name=out.name, usageType="target")
    if out.probabilities:
        _probabilities(made, model)
    _targets(made, model)
    for constant, weight, k, label in _tables(model):
        facts: dict[str, Any] = {"intercept": repr(float(constant))}
        if label is not None:
            facts["targetCategory"] = label
        table = ET.SubElement(made, "RegressionTable", facts)
        if weight:
            for one in names:
                ET.SubElement(
                    table, "NumericPredictor", name=one[k], coefficient=repr(float(weight))
                )


def _probabilities(made: ET.Element, model: Portable) -> None:
    fields = ET.SubElement(made, "Output")
    for label in model.output.classes:
        _output(fields, f"probability {label}", "probability").set("value", label)


def _output(fields: ET.Element, name: str, feature: str) -> ET.Element:
    facts = {"name": name, "optype": "continuous", "dataType": "double", "feature": feature}
    return ET.SubElement(fields, "OutputField", facts)


def _survival(made: ET.Element, model: Portable) -> None:
    """The share without the event after each period: a product of 1 / (1 + e^(score - cut))."""
    fields = ET.SubElement(made, "Output")
    _output(fields, "score", "predictedValue")
    before: str | None = None
    for cut, period in zip(model.output.cuts, model.output.periods, strict=True):
        name = f"survival {period:.15g}"
        share = _apply(_output(fields, name, "transformedValue"), "/")
        if before is None:
            _number(share, 1.0)
        else:
            _field(share, before)
        odds = _apply(share, "+")
        _number(odds, 1.0)
        distance = _apply(_apply(odds, "exp"), "-")
        _field(distance, "score")
        _number(distance, float(cut))
        before = name


def _targets(made: ET.Element, model: Portable) -> None:
    units = model.output.units
    if model.output.kind == "number" and units.low is not None and units.high is not None:
        targets = ET.SubElement(made, "Targets")
        ends = {"min": repr(float(units.low)), "max": repr(float(units.high))}
        ET.SubElement(targets, "Target", {"field": model.output.name, **ends})


def _tables(model: Portable) -> list[tuple[float, float, int, str | None]]:
    """(constant, weight of the terms, score, class) of each regression table."""
    out, units, constant = model.output, model.output.units, model.constant
    if out.kind == "hazards":
        return [(constant[0], 1.0, 0, None)]
    if out.kind == "number":
        if units.log_scores:  # centre is 0: a count
            return [(constant[0] + np.log(units.reach), 1.0, 0, None)]
        return [(units.centre + units.reach * constant[0], units.reach, 0, None)]
    if out.kind == "ordered":
        # P(class k or below) = logit of table k: cuts[k] - score
        tables = [
            (cut - constant[0], -1.0, 0, label)
            for cut, label in zip(out.cuts, out.classes, strict=False)
        ]
        return [*tables, (0.0, 0.0, 0, out.classes[-1])]
    if len(constant) > 1:
        return [
            (c, 1.0, k, label)
            for k, (c, label) in enumerate(zip(constant, out.classes, strict=True))
        ]
    return [(constant[0], 1.0, 0, out.classes[1]), (0.0, 0.0, 0, out.classes[0])]
