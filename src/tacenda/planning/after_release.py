"""The candidate that looks first: `TreeGD` on whitened records, most of it decided after a release.

A tenth of the budget is spent on the second moment. From the released spectrum follow floor, scale,
clip and step (`algorithms.spectrum`); before the run there is an assumed spectrum only, and on it
the same rule gives a forecast. Rounds are fixed here: after whitening few directions are slow, so
twenty do; where the noise is so low that what twenty leave undone would show, it is twice as many,
or more.

    std = s0 B^2 / (G c sqrt(rho share))     of the released moment; rho = 2 records change
                                             (replace-one), or 1
    p_k^2 = scale^2/max(e_k, floor)          h_k, r and the signal become h_k p_k^2, r p_k^2 and
                                             signal/p_k^2
    noise = s0 (clip/G) / sqrt(1 - share)    of the average, over the whole run
    s0 = max_i s_i/sqrt(n a_i)               masked; a_i members are left in node i's component by
                                             the worst coalition
"""

from __future__ import annotations

import math

import numpy as np

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.spectrum import FLATTER, decide, descend, flat_share
from tacenda.algorithms.treegd import TreeGD
from tacenda.algorithms.whitened import Whitened
from tacenda.algorithms.whitening import DIAGONAL, Whitening
from tacenda.graph.cuts import least_components
from tacenda.planning.candidates import Candidate, Case
from tacenda.planning.forecast import DECAY, Landscape
from tacenda.planning.outcome import Forecast
from tacenda.privacy.adjacency import records_changed
from tacenda.questions.constants import Constants
from tacenda.regularisers.custom import CustomRegulariser
from tacenda.terms.method import Method

ROUNDS = (20, 40, 80, 160)
FEWER = 0.75  # of the forecast risk: twice the rounds must bring it below
SHARE = 0.1
WORTH = 0.9  # masked noise must be below this share of independent noise, which needs no trust


def masked_noise(case: Case, coalition: int) -> float:
    """s0 of masked values."""
    sizes, _ = least_components(case.topology, coalition)
    return float(np.max(case.node_noise / np.sqrt(sizes))) / math.sqrt(case.facts.n)


def shared_at_best(case: Case, coalition: int) -> float:
    """A lower bound of the forecast for noise shared along edges: masks are its limit for edge
    noise without end, and no step beats the best one."""
    noise = masked_noise(case, coalition)
    step = case.landscape.best_step(noise, shrinking=False)
    return sum(case.landscape.excess(step, noise, shrinking=False))


def whitened(case: Case, coalition: int | None) -> list[Candidate]:
    """TreeGD on whitened records, masked against a coalition of that size, with independent noise
    for None and where such a coalition leaves some member nearly alone; nothing where records
    cannot be whitened."""
    k, n = case.facts.constants, case.facts.n
    features = case.facts.dim // k.n_outputs
    if not k.loss.smooth or not _can_be_mapped(k):
        return []
    noise = float(np.sqrt(np.sum(case.node_noise**2)) / n)
    if coalition is not None:
        masked = masked_noise(case, coalition)
        if masked > WORTH * noise:
            return whitened(case, None)
        noise = masked
    rounds = case.most if case.fixed else min(case.most, ROUNDS[0])
    forecast = _forecast(case, features, noise, rounds)
    for more in () if case.fixed else ROUNDS[1:]:
        other = _forecast(case, features, noise, min(case.most, more))
        if other.excess_risk >= FEWER * forecast.excess_risk:
            break
        rounds, forecast = min(case.most, more), other
    # Compared with the others' forecasts, which know of no flat directions
    forecast = _forecast(case, features, noise, rounds, comparable=True)
    inner: Algorithm = TreeGD(
        step_size=case.longer, noise="independent" if coalition is None else "masked"
    )
    algorithm = Whitened(inner, Whitening(share=SHARE))
    method = Method(algorithm, rounds, algorithm.default_output)
    return [Candidate(method, forecast, coalition)]


def _can_be_mapped(k: Constants) -> bool:
    """Whether the regulariser can be written in other coordinates."""
    if k.strength == 0:
        return True
    return not isinstance(k.regulariser, CustomRegulariser) and k.regulariser.l1 == 0


def _forecast(
    case: Case, features: int, noise: float, rounds: int, comparable: bool = False
) -> Forecast:
    k, adjacency = case.facts.constants, case.facts.adjacency
    changed, bound = records_changed(adjacency), k.data_norm**2
    one = noise / (changed * k.gradient_bound * k.loss_scale)
    whitening = Whitening()
    diagonal = whitening.kind_for(features) == DIAGONAL
    largest = case.facts.moment_bound(whitening.labels_in(case.facts, TreeGD()))
    std = one * math.sqrt(changed / SHARE) * largest
    assumed, outputs = Landscape.assumed(k, features), k.n_outputs
    copies, kinds = assumed.copies, len(assumed.copies)
    fall = np.repeat(np.arange(1, kinds + 1) ** -DECAY, copies.astype(int))
    e = bound * fall / fall.sum()
    weight = SHARE / (1 - SHARE) * rounds
    found = decide(
        e, std, weight, rounds, k, adjacency, diagonal=diagonal, largest=largest, guess=diagonal
    )
    clip = k.gradient_bound if found.clip is None else found.clip
    squares = found.scale**2 / np.maximum(e[:kinds], found.floor)
    h = assumed.eigenvalues * squares / outputs
    curved = h + assumed.convexity * squares
    loud = noise * clip / k.gradient_bound / math.sqrt(1 - SHARE)
    eta = case.longer * found.step / found.smoothness
    left, spread = descend(curved, np.zeros(kinds), eta, rounds, TreeGD().tail)
    flat, _ = descend(curved / FLATTER, np.zeros(kinds), eta, rounds, TreeGD().tail)
    left = left + (0.0 if comparable else flat_share(k)) * (flat - left)
    target = assumed.signal / squares * (h / curved) ** 2
    undone = 0.5 * outputs * float((copies * curved) @ (target * left)) + found.bent
    noisy = 0.5 * outputs * float((copies * curved) @ spread) * rounds * loud**2
    tau = rounds * eta
    second = case.mixing.second
    return Forecast(tau, tau, max(rounds, ROUNDS[0]), loud, undone, noisy, second, 0.0)
