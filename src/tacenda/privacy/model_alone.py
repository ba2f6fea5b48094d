"""Prove what a run gives away to somebody who sees its final model and no message, where that is
less than the whole run gives away. The theorems are in `accounting.final_model`; here is checked
whether a run meets their conditions, in floating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacenda._types import Array
from tacenda.privacy.accounting.events import Gaussian
from tacenda.privacy.accounting.final_model import Descent, Hidden, descent_mu
from tacenda.privacy.secrets.ledger import Charges

# In standard deviations: the chance that any noise of a run is larger is below e^-4900
LARGEST_NOISE = 100.0


@dataclass(frozen=True, eq=False)
class LearningRun:
    """What is public about how the final model of a run came about.

    only_means       the model depends on releases through exact means over the network only
    descent          the steps, where they are known to bring two models no further apart
    sensitivity      (n,) of each node's gradient
    largest_message  how large a message behind an exact mean gets under noise of a given size, in
                     units of what one record moves
    largest_size     no node has more records
    start            the largest coordinate of the models at the start
    float_spacing    the machine epsilon of models and messages
    """

    rounds: int
    dim: int
    only_means: bool
    descent: Descent | None
    sensitivity: Array
    largest_message: Callable[[float], float]
    gradient_bound: float
    loss_scale: float
    smoothness: float
    radius: float
    largest_size: float
    start: float
    float_spacing: float

    @property
    def n_nodes(self) -> int:
        return len(self.sensitivity)


def model_alone(run: LearningRun, charges: Charges) -> Hidden | None:
    """What these charges give away to somebody who sees only the final model; None where no more
    can be said than of the whole run."""
    if not all(charge.kind is Gaussian for charge, _ in charges):
        return None
    means, n, s = run.only_means, run.n_nodes, run.sensitivity
    if means and not _never_cut(run, charges):
        return None
    if not (means or run.descent is not None) or not np.isfinite(s).all():
        return None
    rows = [(charge.parameters["noise_multiplier"] * s, count) for charge, count in charges]
    # In units of what a record moves: the noise of all nodes together behind a mean, or that of
    # the quietest node, into whose model a record's trace may wander
    noise = np.concatenate(
        [np.full(count, np.sqrt(np.sum(row**2)) if means else np.min(row)) for row, count in rows]
    )
    mu = math.sqrt(float(np.sum((noise / s.max()) ** -2.0)))
    reasons = [
        f"it depends on exact means over the network only, so that the noise of all {n} nodes "
        "hides a record"
    ] * means
    if run.descent is not None and len(noise) == run.rounds:
        std = noise / n if means else np.concatenate([np.full(c, row.max()) for row, c in rows])
        unit = s.min() / n if means else s.min() / math.sqrt(n)
        lost = _rounding(run, run.descent, _reach(run, run.descent, std)) / unit
        forgotten = descent_mu(noise / s.max(), run.descent, lost)
        if forgotten < mu:
            mu = forgotten
            reasons.append("each step of the descent forgets a part of what came before")
    if not reasons:
        return None
    return Hidden(
        mu * np.asarray(s / s.max()),
        f"For somebody who sees the final model and no message: {', and '.join(reasons)}.",
    )


def _never_cut(run: LearningRun, charges: Charges) -> bool:
    """True if no message reaches the radius, except with a chance far below any delta. There it is
    cut, or the run is refused, which depends on one node's message and is hidden by its own noise
    alone."""
    levels = [float(charge.parameters["noise_multiplier"].max()) for charge, _ in charges]
    reached = run.largest_message(LARGEST_NOISE * max(levels, default=0.0))
    few = run.n_nodes * run.dim * run.dim * len(charges) < 1e15
    return reached <= run.radius and few


def _reach(run: LearningRun, descent: Descent, std: Array) -> float:
    """How large a coordinate of a model gets, except with a chance far below any delta; `std` is
    the largest noise of each step. Infinite where that may be outside the radius: gradients are
    then asked at the nearest point inside, and two models may come further apart."""
    drift = descent.steps * (run.gradient_bound * run.loss_scale + LARGEST_NOISE * std)
    reached = run.start + float(np.sum(drift))
    stays = reached <= 0.5 * run.radius and run.dim * run.rounds < 1e9
    return reached if stays else math.inf


def _rounding(run: LearningRun, descent: Descent, reach: float) -> Array:
    """(rounds,) by how much rounding may part two models of one node in a step: that of the models
    and scores, and that of the sums over coordinates and records."""
    d, eta = run.dim, descent.steps
    models = (d + 16) * math.sqrt(d) * reach * (2.0 + eta * run.smoothness)
    gradients = eta * run.gradient_bound * run.loss_scale * (run.largest_size + 16)
    return np.asarray(2.0 * run.float_spacing * (models + gradients))
