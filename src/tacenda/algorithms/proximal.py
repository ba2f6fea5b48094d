"""What methods that take proximal gradient steps share."""

from __future__ import annotations

import numpy as np

from tacenda.algorithms.base import Algorithm
from tacenda.privacy.accounting.final_model import Descent
from tacenda.questions.facts import Facts
from tacenda.regularisers.custom import CustomRegulariser


def tail_weight(turn: int, rounds: int, tail: float) -> float:
    """Weight of a round in the average of the last `tail` share of the rounds."""
    return 1.0 if turn > rounds - max(1, round(tail * rounds)) else 0.0


def proximal_descent(
    algorithm: Algorithm, facts: Facts, steps: list[float], output: str
) -> Descent | None:
    """The steps prox_{eta r R}(x - eta grad loss(x)) as a `Descent`.

    x - eta grad loss(x) brings two points no further apart while eta L <= 2, nor does the prox,
    which shrinks by 1 + eta sc; a clipped loss of one score is still convex and as smooth. None
    where that is not known: the smoothness was learnt from a release, sizes are not the true
    counts, gradients of several classes are clipped, or the prox is somebody's own.
    """
    k = facts.constants
    clipped = k.n_outputs > 1 and k.clip_norm is not None
    own = isinstance(k.regulariser, CustomRegulariser)
    counted = facts.true_sizes and facts.counts_are_public
    known = facts.released_smoothness is None and counted and k.loss.smooth
    if not known or clipped or own:
        return None
    eta, rounds = np.array(steps, float), len(steps)
    shrink = 1.0 + np.append(0.0, eta[:-1]) * k.strong_convexity
    weights = [algorithm.averaging_weight(t, rounds) for t in range(1, rounds + 1)]
    seen = 1 if output == "last" else int(np.count_nonzero(weights))
    return Descent(eta, np.maximum(1.0, np.abs(1.0 - eta * facts.smoothness)) / shrink, seen)
