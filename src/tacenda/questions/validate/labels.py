"""From the labels of all nodes to numbers: -1 / +1, class numbers 0 .. K-1, or real targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tacenda._types import Array, Floats, Ints
from tacenda.errors import InputError
from tacenda.losses import Loss
from tacenda.questions.validate.rows import JoinedShards

_CHUNK = 1 << 20  # labels that are looked up at once
_FEW = 8  # up to so many classes, labels are compared with each


def encode_labels(
    table: JoinedShards, loss: Loss, classes: Iterable[Any] | None
) -> tuple[Floats, tuple[Any, ...] | None]:
    """(labels (N,) float64, classes): what the kernels read, and the users' label of each class
    (None for regression).

    The label set is public by declaration: `classes` in order, or else the sorted values found over
    all nodes.
    """
    if loss.kind == "regression":
        if classes is not None:
            raise InputError(
                f"classes belongs to classification, and the loss {loss.name!r} is a regression; "
                "leave it out."
            )
        return _targets(table, loss), None
    known = _declared(classes) if classes is not None else _found(table)
    _check_count(loss, len(known), declared=classes is not None)
    order = np.argsort(known, kind="stable")
    numbers = np.empty(int(table.offsets[-1]))
    for first, piece in table.pieces():
        if not _alike(piece, known):
            raise InputError(_undeclared(table, first, len(known)))
        for a in range(0, len(piece), _CHUNK):
            y = piece[a : a + _CHUNK]
            place = _places(y, known[order])
            wrong = np.flatnonzero(known[order][place] != y)
            if len(wrong):
                raise InputError(_undeclared(table, first + a + int(wrong[0]), len(known)))
            numbers[first + a : first + a + len(y)] = order[place]
    if loss.kind == "binary" and not loss.stacked:
        numbers *= 2.0
        numbers -= 1.0
    return numbers, tuple(known.tolist())


def _places(y: Array, known: Array) -> Ints:
    """Where each label would stand among the sorted ones, at most at the last."""
    if len(known) > _FEW:
        return np.minimum(np.searchsorted(known, y), len(known) - 1)
    place = np.zeros(len(y), np.int64)  # some passes are faster than as many searches
    for label in known[1:]:
        place += y >= label
    return place


def _undeclared(table: JoinedShards, record: int, count: int) -> str:
    return (
        f"{table.name_at(record)} has a label which is not one of the {count} declared classes; "
        "add it to classes, or drop such records."
    )


def _targets(table: JoinedShards, loss: Loss) -> Floats:
    low, high = loss.label_range
    result = np.empty(int(table.offsets[-1]))
    for first, y in table.pieces():
        if y.dtype.kind not in "biuf":
            raise InputError(
                f"{table.name_at(first)}: y must hold real numbers for a regression loss, "
                f"not {y.dtype}; convert it first."
            )
        part = result[first : first + len(y)]
        with np.errstate(over="ignore"):  # a longer float becomes infinite here
            part[:] = y
        if not np.isfinite(part).all():
            wrong = first + int(np.flatnonzero(~np.isfinite(part))[0])
            raise InputError(
                f"{table.name_at(wrong)}: y holds NaN or infinity; "
                "fill in or drop such records first."
            )
        inside = (part >= low) & (part <= high)
        if not inside.all():
            wrong = first + int(np.flatnonzero(~inside)[0])
            raise InputError(
                f"{table.name_at(wrong)}: y must lie from {low:g} to label_bound={high:g} for the "
                f"loss {loss.name!r}, and some labels do not; declare a larger label_bound from "
                "public knowledge (in a file: problem.loss_options), or clip the labels to it."
            )
    return result


def _declared(classes: Iterable[Any]) -> Array:
    known = np.array(list(classes))
    finite = known.dtype.kind != "f" or np.isfinite(known).all()
    if (
        known.ndim != 1
        or known.dtype.kind not in "biufUS"
        or not finite
        or len(np.unique(known)) != len(known)
    ):
        raise InputError(
            "classes must be different labels of one type, such as (0, 1) or ('no', 'yes')."
        )
    return known


def _found(table: JoinedShards) -> Array:
    """The sorted labels of all nodes."""
    for k, (first, y) in enumerate(table.pieces()):
        name = table.name_at(first)
        if y.dtype.kind == "O":
            table.labels[k] = y = _plain(name, y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            name = table.name_at(first + int(np.flatnonzero(~np.isfinite(y))[0]))
            raise InputError(
                f"{name}: y holds NaN or infinity; fill in or drop such records first."
            )
        if y.dtype.kind not in "biufUS" or not _alike(y, table.labels[0]):
            raise InputError(
                f"{name}: y must hold labels of one type at all nodes (numbers or text); "
                "convert it first."
            )
    return np.unique(np.concatenate([np.unique(y) for y in table.labels]))


def _plain(name: str, y: Array) -> Array:
    """An object array of labels as text or numbers."""
    kinds = {type(value) for value in y.tolist()}
    if kinds <= {str} or kinds <= {bool, int, float}:
        return np.array(y.tolist())
    raise InputError(
        f"{name}: y must hold labels of one type (numbers or text), without missing values; "
        "convert it first."
    )


def _alike(a: Array, b: Array) -> bool:
    return (a.dtype.kind in "US") == (b.dtype.kind in "US")


def _check_count(loss: Loss, count: int, *, declared: bool) -> None:
    where = "classes declares" if declared else "y holds, over all nodes,"
    if loss.stacked:
        if count < 2 or (loss.predicts == "hazard" and count % 2 == 0):
            raise InputError(
                f"The loss {loss.name!r} needs two or more ordered outcomes (for times the 2T + 1 "
                f"cells of a life table of T periods), and {where} {count}; declare classes."
            )
        return
    if loss.kind == "binary" and count != 2:
        remedy = (
            "use loss='multinomial' for more than two"
            if count > 2
            else "declare classes=(negative, positive)"
        )
        raise InputError(
            f"The loss {loss.name!r} needs exactly two label values, and {where} {count}; {remedy}."
        )
    if loss.kind == "multiclass" and count < 2:
        raise InputError(
            f"The loss {loss.name!r} needs two or more label values, and {where} {count}; "
            "declare classes."
        )
