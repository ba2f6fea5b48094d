"""How a search may spend its budget on the records it trains on, and which way leaves each training
the most.

    composition   every candidate is trained once, and all of them are released: mu/sqrt(K) each
    repetition    a random number of trainings of candidates drawn at random, of which only the best
                  is ever seen: what each may cost hardly grows with K, but one data holder must do
                  it all alone, and a candidate may never be drawn
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacenda import checks
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.accounting.repetition import POISSON, Repetitions, base_mu, mean_for

FOUND = 0.9  # chance that a given candidate is drawn at all, where the number of draws is random
SHAPES = {"geometric": 1.0, "poisson": POISSON}


@dataclass(frozen=True)
class Way:
    """One way to spend a budget on the trainings of a search.

    Attributes
    ----------
    name : str
        "composition", "geometric" or "poisson" (the law of the number of repetitions).
    mu : float
        Gaussian-DP parameter that one training may have.
    epsilon : float
        The same as an epsilon, at the search's delta.
    trainings : float
        Mean number of trainings.
    found : float
        Chance that a given candidate is trained at all.
    repetitions : Repetitions or None
        Law of the number of trainings; None where every candidate is trained once.

    Examples
    --------
    >>> from tacenda.selection import ways_to_search
    >>> way = ways_to_search(1, epsilon=1.0, delta=1e-5)[0]
    >>> way.name, round(way.mu, 3), round(way.epsilon, 3)
    ('composition', 0.268, 1.0)
    """

    name: str
    mu: float
    epsilon: float
    trainings: float
    found: float
    repetitions: Repetitions | None = None


def ways_to_search(trainings: int, epsilon: float, delta: float, found: float = FOUND) -> list[Way]:
    """All ways to spend (epsilon, delta) on a number of candidates that must be trained.

    Repetition holds against those who see the chosen model only: in a network, where others see
    the messages of every training, composition is the one way.

    Parameters
    ----------
    trainings : int
        Number of candidates that cost a training each.
    epsilon : float
        Of the whole search.
    delta : float
        Of the whole search.
    found : float, default=0.9
        With repetition, the chance that a given candidate is drawn.

    Returns
    -------
    list of Way
        The one that leaves a training the largest mu first.

    Examples
    --------
    >>> from tacenda.selection import ways_to_search
    >>> [way.name for way in ways_to_search(8, epsilon=1.0, delta=1e-5)]
    ['geometric', 'poisson', 'composition']
    >>> ways_to_search(2, epsilon=1.0, delta=1e-5)[0].name
    'composition'
    """
    count = checks.whole("trainings", trainings, least=1)
    mu = gaussian_mu(epsilon, delta) / math.sqrt(count)
    ways = [Way("composition", mu, GaussianProfile(mu).epsilon(delta), float(count), 1.0)]
    for name, shape in SHAPES.items() if count > 1 else ():
        law = mean_for(shape, count, found)
        own = base_mu(law, epsilon, delta)
        each = GaussianProfile(own).epsilon(delta)
        ways.append(Way(name, own, each, law.runs, 1 - law.none_of(1 / count), law))
    return sorted(ways, key=lambda way: -way.mu)
