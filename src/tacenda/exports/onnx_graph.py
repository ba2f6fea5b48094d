"""A model as an ONNX graph: one input for each column (doubles, or strings for levels), all
arithmetic in double precision, the promise in the file's metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tacenda._types import Array, Floats
from tacenda.errors import InputError
from tacenda.exports.portable import Curve, Levels, Portable, Term, Wave

OPSET, ML_OPSET, IR = 18, 3, 9


class _Graph:
    """Nodes and constants under names of their own."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError:
            raise InputError(
                "writing ONNX needs the package onnx: pip install 'tacenda[export]'."
            ) from None
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        name = out or f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def input(self, name: str, kind: int) -> str:
        if name not in [value.name for value in self.inputs]:
            self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, [None, 1]))
        return name


def onnx_bytes(model: Portable) -> bytes:
    """The file's contents."""
    graph = _Graph()
    parts = [_term(graph, model, term) for term in model.terms]
    scores = graph.constant(model.constant[None, :])
    for part in parts:
        scores = graph.add("Add", scores, part)
    outputs = _output(graph, model, scores)
    helper = graph.onnx.helper
    made = helper.make_model(
        helper.make_graph(graph.nodes, "tacenda", graph.inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        producer_name="tacenda",
        ir_version=IR,
        doc_string=model.name,
    )
    facts = {"promise": model.promise, "source": model.source}
    helper.set_model_props(made, {f"tacenda.{k}": json.dumps(v) for k, v in facts.items()})
    graph.onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


# ---- terms
def _term(graph: _Graph, model: Portable, term: Term) -> str:
    """(N, K) what a column adds."""
    if isinstance(term, Levels):
        return _levels(graph, model, term)
    x = graph.input(term.column, graph.onnx.TensorProto.DOUBLE)
    gone = graph.add("IsNaN", x)
    # Without a value for empty cells NaN stays NaN
    if term.missing is not None:
        x = graph.add("Where", gone, graph.constant(0.0), x)
    if np.isfinite(term.low) and np.isfinite(term.high):
        x = graph.add("Clip", x, graph.constant(term.low), graph.constant(term.high))
    found = _wave(graph, x, term) if isinstance(term, Wave) else _curve(graph, x, term)
    if term.missing is None:
        return found
    return graph.add("Where", gone, graph.constant(term.missing[None, :]), found)


def _curve(graph: _Graph, x: str, term: Curve) -> str:
    z = x
    if term.log:
        z = graph.add("Log", graph.add("Add", x, graph.constant(1.0)))
    if term.period is not None:
        period = graph.constant(term.period)
        turns = graph.add("Floor", graph.add("Div", z, period))
        z = graph.add("Sub", z, graph.add("Mul", turns, period))
    first, slopes = hinges(term.at, term.values)
    line = graph.add("Sub", z, graph.constant(term.at[0]))
    found = graph.add("MatMul", line, graph.constant(slopes[:1]))
    if len(slopes) > 1:
        behind = graph.add("Relu", graph.add("Sub", z, graph.constant(term.at[None, 1:-1])))
        bent = graph.add("MatMul", behind, graph.constant(slopes[1:]))
        found = graph.add("Add", found, bent)
    found = graph.add("Add", found, graph.constant(first[None, :]))
    for atom, value in zip(term.atoms, term.atom_values, strict=True):
        there = graph.add("Equal", x, graph.constant(float(atom)))
        found = graph.add("Where", there, graph.constant(value[None, :]), found)
    return found


def hinges(at: Floats, values: Array) -> tuple[Floats, Floats]:
    """(value at the first knot, slopes): the first line's, then each inner knot's change of it."""
    slopes = np.diff(values, axis=0) / np.diff(at)[:, None]
    return values[0], np.vstack([slopes[:1], np.diff(slopes, axis=0)])


def _wave(graph: _Graph, x: str, term: Wave) -> str:
    angle = graph.add("Mul", x, graph.constant(2 * np.pi / term.period))
    quarter = graph.add("Add", angle, graph.constant(np.pi / 2))
    sides = (angle, term.sine), (quarter, term.cosine)
    first, second = (
        graph.add("Mul", graph.add("Sin", a), graph.constant(w[None, :])) for a, w in sides
    )
    return graph.add("Add", first, second)


def _levels(graph: _Graph, model: Portable, term: Levels) -> str:
    """A row for each level, then that of undeclared ones and that of empty cells."""
    strange = np.full(term.values.shape[1], np.nan)
    rows = [
        *term.values,
        strange if term.other is None else term.other,
        strange if term.missing is None else term.missing,
    ]
    count = len(term.levels)
    empty = [text for text in model.missing_values if text not in term.levels]
    x = graph.input(term.column, graph.onnx.TensorProto.STRING)
    place = graph.add(
        "LabelEncoder",
        x,
        domain="ai.onnx.ml",
        keys_strings=[*term.levels, *empty],
        values_int64s=[*range(count), *[count + 1] * len(empty)],
        default_int64=count,
    )
    flat = graph.add("Reshape", place, graph.constant(np.array([-1])))
    return graph.add("Gather", graph.constant(np.array(rows)), flat, axis=0)


# ---- outputs
def _output(graph: _Graph, model: Portable, scores: str) -> list[Any]:
    out, proto, helper = model.output, graph.onnx.TensorProto, graph.onnx.helper

    def told(name: str, kind: int, width: int) -> Any:
        return helper.make_tensor_value_info(name, kind, [None, width])

    if out.kind == "number":
        _prediction(graph, model, scores)
        return [told("prediction", proto.DOUBLE, 1)]
    if out.kind == "hazards":
        survived = graph.add("Sigmoid", graph.add("Sub", graph.constant(out.cuts[None, :]), scores))
        logs = graph.add("CumSum", graph.add("Log", survived), graph.constant(np.array(1)))
        graph.add("Exp", logs, out="survival")
        return [told("survival", proto.DOUBLE, len(out.cuts))]
    words, place = _classes(graph, model, scores)
    names = graph.constant(np.array(out.classes, dtype=object))
    chosen = graph.add("Gather", names, place, axis=0)
    graph.add("Reshape", chosen, graph.constant(np.array([-1])), out="label")
    label = helper.make_tensor_value_info("label", proto.STRING, [None])
    return [label, told(words, proto.DOUBLE, len(out.classes))]


def _prediction(graph: _Graph, model: Portable, scores: str) -> None:
    units = model.output.units
    y = graph.add("Exp", scores) if units.log_scores else scores
    y = graph.add("Mul", y, graph.constant(float(units.reach)))
    y = graph.add("Add", y, graph.constant(float(units.centre)))
    if units.low is None or units.high is None:
        graph.add("Identity", y, out="prediction")
        return
    ends = graph.constant(float(units.low)), graph.constant(float(units.high))
    graph.add("Clip", y, *ends, out="prediction")


def _classes(graph: _Graph, model: Portable, scores: str) -> tuple[str, str]:
    """(name of the output with a column for each class, position of the predicted class)."""
    out = model.output
    word = "probabilities" if out.probabilities else "scores"
    if out.kind == "ordered":
        above = graph.add("Sigmoid", graph.add("Sub", scores, graph.constant(out.cuts[None, :])))
        one = graph.add("Sub", graph.add("Mul", scores, graph.constant(0.0)), graph.constant(-1.0))
        zero = graph.add("Mul", scores, graph.constant(0.0))
        upper = graph.add("Concat", one, above, axis=1)
        lower = graph.add("Concat", above, zero, axis=1)
        found = graph.add("Sub", upper, lower, out=word)
    elif len(out.classes) == 2 and len(model.constant) == 1:
        sides = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
        found = graph.add("Sigmoid" if out.probabilities else "Identity", sides, out=word)
        # A score of exactly 0 is the second class
        second = graph.add("GreaterOrEqual", scores, graph.constant(0.0))
        flat = graph.add("Reshape", second, graph.constant(np.array([-1])))
        return word, graph.add("Cast", flat, to=graph.onnx.TensorProto.INT64)
    elif out.probabilities:
        found = graph.add("Softmax", scores, axis=1, out=word)
    else:
        found = graph.add("Identity", scores, out=word)
    return word, graph.add("ArgMax", found, axis=1, keepdims=0)
