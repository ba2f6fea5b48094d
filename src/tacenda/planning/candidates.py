"""The two ways to carry out a run, each with its own rounds, step and mixings: independent noise,
and noise shared by neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dual_averaging import DDA, DPDDA
from tacenda.algorithms.gossip import GossipGD
from tacenda.graph.topology import Topology
from tacenda.planning.forecast import Landscape
from tacenda.planning.mixing import Mixing, least_leverage, least_ratio, shared_noise
from tacenda.planning.outcome import Forecast
from tacenda.questions.constants import Constants
from tacenda.questions.facts import Facts
from tacenda.terms.closing import Finish, closing_for
from tacenda.terms.method import Method

FEWEST_ROUNDS, MOST_ROUNDS = 20, 500
MOST_MIXINGS = 100  # closing; a graph that asks for more is averaged exactly, over a tree of it
INNER = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20)  # mixings of one release
STEP = 1.5  # the largest single step, in units of 1/L; a descent is stable below 2
SPREAD = 1.0  # scores by which a node may be off the average's during an independent run
SHARED_SPREAD = (
    0.5  # likewise with shared noise, where the average is so quiet that the spread would show
)
QUICK_LOOK = 600  # nodes from which a quick look comes before the exact leverage
APART = 0.01  # scores by which nodes may still differ after the closing mixings


@dataclass(frozen=True, eq=False)
class Case:
    """What a candidate is made for; node_noise (n,) is s_i, `most` the limit of rounds, or their
    number where `fixed`.

    longer multiplies the forecast's best total step, where a public sample has shown that another
    one is better.
    """

    facts: Facts
    topology: Topology
    mixing: Mixing
    landscape: Landscape
    node_noise: NDArray[Any]
    most: int
    fixed: bool
    longer: float = 1.0

    @property
    def steepness(self) -> float:
        """L of the loss part; the regulariser is taken exactly. A loss with a kink counts as bent
        over its typical scores."""
        k: Constants = self.facts.constants
        curvature = min(k.loss.curvature, 2 * k.loss.typical.curvature)
        return k.loss_scale * curvature * k.data_norm**2

    def rounds(self, tau: float, for_consensus: float) -> tuple[int, int]:
        """(rounds, how many the step and the graph ask for)."""
        least = max(
            FEWEST_ROUNDS,
            math.ceil(tau * self.steepness / STEP),
            math.ceil(min(for_consensus, 1e9)),
        )
        return (self.most if self.fixed else min(self.most, least)), least

    def closing(self, step: float, spread: float) -> Finish:
        """Closing mixings for a spread of scores by noise, and for what the nodes' data differ by
        in a single step; where they would be many, one exact average, which sends fewer messages
        than a single mixing."""
        k = self.facts.constants
        differing = (
            step
            * k.loss_scale
            * k.gradient_bound
            * k.data_norm
            / max(1e-12, 1.0 - self.mixing.second)
        )
        found = self.mixing.rounds_to((3 * spread + differing) / APART)
        return found if found <= MOST_MIXINGS else closing_for(self.topology)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to run; coalition is None for independent noise."""

    method: Method
    forecast: Forecast
    coalition: int | None = None


def independent(case: Case) -> Candidate:
    """Dual averaging, every node with its own noise;
    without strong convexity by DDA's constant offset."""
    k, n = case.facts.constants, case.facts.n
    noise = float(np.sqrt(np.sum(case.node_noise**2)) / n)
    wanted = case.longer * case.landscape.best_step(noise)
    # Spread of a score for tau = T = lingering = 1
    score = k.data_norm * float(np.sqrt(np.mean(case.node_noise**2)))
    lingering = case.mixing.lingering()
    rounds, least = case.rounds(wanted, lingering * (score * wanted / SPREAD) ** 2)
    tau = min(wanted, STEP * rounds / case.steepness)
    spread = score * tau * math.sqrt(lingering / rounds)
    forecast = _forecast(case, tau, wanted, least, noise, spread, shrinking=True)
    offset = rounds / tau
    algorithm: Algorithm = (
        DPDDA(weights="constant", offset=offset) if k.strong_convexity > 0 else DDA(offset=offset)
    )
    finish = case.closing(tau / rounds, max(spread, score * tau / math.sqrt(rounds)))
    return Candidate(Method(algorithm, rounds, "last", finish), forecast)


def shared(case: Case, coalition: int) -> list[Candidate]:
    """GossipGD with noise that cancels between neighbours, if a coalition of that size leaves it
    worth while; else nothing."""
    if _hopeless(case, coalition):
        return []
    found = shared_noise(case.topology, coalition)
    if found is None:
        return []
    ratio, leverage = found
    # One scale for all: both ends of an edge must agree
    own = float(np.max(case.node_noise * np.sqrt(leverage)))
    noise = own / math.sqrt(case.facts.n)
    wanted = case.longer * case.landscape.best_step(noise, shrinking=False)
    rounds, least = case.rounds(wanted, 0.0)
    tau = min(wanted, STEP * rounds / case.steepness)
    score = case.facts.constants.data_norm * own * tau  # spread of a score for T = lingering = 1
    mixings, lingering = _inner(case.mixing, ratio, rounds * (SHARED_SPREAD / score) ** 2)
    if not case.fixed:
        rounds = min(case.most, max(rounds, math.ceil(lingering * (score / SHARED_SPREAD) ** 2)))
    spread = score * math.sqrt(lingering / rounds)
    if spread > 2 * SHARED_SPREAD:
        return []  # the graph mixes too slowly for edge noise to die out
    forecast = _forecast(case, tau, wanted, least, noise, spread, shrinking=False)
    algorithm = GossipGD(
        step_size=tau / rounds, mixings=mixings, noise="correlated", correlation=ratio
    )
    finish = case.closing(tau / rounds, spread)
    return [Candidate(Method(algorithm, rounds, "last", finish), forecast, coalition)]


def _hopeless(case: Case, coalition: int) -> bool:
    """Whether edge noise could not die out even against an eavesdropper: told in time, since exact
    leverage takes long on large graphs.

    Another member's knowledge only adds to the noise that is needed, and so to the spread.
    """
    n = case.facts.n
    if n <= QUICK_LOOK or n <= coalition + 1:
        return False
    ratio = least_ratio(case.topology)
    own = float(case.node_noise.max()) * math.sqrt(least_leverage(case.topology, ratio))
    tau = case.longer * case.landscape.best_step(own / math.sqrt(n), shrinking=False)
    spread = (
        case.facts.constants.data_norm
        * own
        * tau
        * math.sqrt(case.mixing.lingering(INNER[-1], ratio) / case.most)
    )
    return spread > 2 * SHARED_SPREAD


def _inner(mixing: Mixing, ratio: float, enough: float) -> tuple[int, float]:
    """(mixings of one release, what still lingers):
    as many as bring it down to `enough`, within the limit."""
    least = mixing.lingering(INNER[-1], ratio)
    if least > enough:
        return INNER[-1], least
    for mixings in INNER:
        lingering = mixing.lingering(mixings, ratio)
        if lingering <= enough:
            break
    return mixings, lingering


def _forecast(
    case: Case, tau: float, wanted: float, least: int, noise: float, spread: float, shrinking: bool
) -> Forecast:
    undone, noisy = case.landscape.excess(tau, noise, shrinking)
    return Forecast(tau, wanted, least, noise, undone, noisy, case.mixing.second, spread)
