"""Huang and Gong (2020), Note 1: batches drawn with replacement, under the noise of all records."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import binom

from tacenda.accounting import BatchGaussian, judge
from tacenda_papers.theory import published_multiplier

STEP = 1e-3  # of the grid of losses; it errs upwards by less than the figures that are shown
NEVER = 1e-15  # chance of so many draws of one record in a step that they are left out


@lru_cache(maxsize=64)
def epsilons(
    records: int, batch: int, rounds: int, inner_steps: int, epsilon: float, delta: float
) -> tuple[float, float]:
    """(what one pair of data sets attains, an upper bound for all pairs) at `delta`.

    The pair: one record at one end and all others at the other, so that the sum moves with the
    number of its draws and with nothing else. Where the bound is at most the claimed epsilon it
    settles the matter, and the first number is 0.
    """
    from dp_accounting.pld import privacy_loss_distribution

    steps = rounds * inner_steps
    z = published_multiplier(rounds, inner_steps, epsilon, delta) * batch / records
    bound = float(judge([(BatchGaussian(z, records, batch, True), steps)]).epsilon(delta))
    if bound <= epsilon:
        return 0.0, bound
    drawn = np.arange(int(binom.isf(NEVER, batch, 1 / records)) + 1)
    chances = binom.pmf(drawn, batch, 1 / records)
    pair = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        z,
        [float(k) for k in drawn],
        [float(p) for p in chances / chances.sum()],
        value_discretization_interval=STEP,
    )
    attained = float(pair.self_compose(steps).get_epsilon_for_delta(delta))
    return min(attained, bound), bound


def told(found: tuple[float, float]) -> str:
    """Both numbers as a table has them."""
    least, most = found
    return f"{least:.3g} to {most:.3g}" if least else f"≤ {most:.3g}"
