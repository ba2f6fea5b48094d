"""Weights of records: one array per node becomes shares of their public bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacenda._types import Floats
from tacenda.errors import InputError
from tacenda.questions.validate.rows import JoinedShards


def joined_weights(table: JoinedShards, weights: Any, weight_bound: float) -> Floats:
    """(N,) the weights over their bound, from 0 to 1, in the order of the table.

    A quotient of floats is never above 1 where the weight is not above the bound. Messages name the
    node, never a value.
    """
    counts = np.diff(table.offsets).tolist()
    found = [
        _checked(table.node_name(k), own, counts[k], weight_bound)
        for k, own in enumerate(table.by_node("weights", weights))
    ]
    return np.concatenate(found) / weight_bound


def _checked(name: str, weights: Any, count: int, bound: float) -> Floats:
    try:
        own = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} has weights that are no numbers; give one per record.") from None
    if own.shape != (count,):
        raise InputError(
            f"{name} has {count} records and weights of shape {own.shape}; give one per record."
        )
    if not ((own >= 0.0) & (own <= bound)).all():
        raise InputError(
            f"{name} has a weight outside 0 to weight_bound={bound:g}, or NaN; cut the weights to "
            "a public bound, and declare it as weight_bound."
        )
    return own
