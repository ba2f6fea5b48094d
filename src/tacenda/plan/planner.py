"""`plan`: algorithm, rounds, step and closing mixings for a budget, before any data is touched.

The rules, in the letters of the specification (m_i sizes, d length of the model, mu of the budget, W the mixing matrix):

    s_i = 2Gc/(m_i mu_i)                  noise of one node's gradient over the whole run (half for add-remove)
    s0 = sqrt(sum_i s_i^2)/n              the same for the network's average
    tau                                   the total step with the least forecast excess risk (`forecast.Landscape`)
    T >= tau L / 1.5                      so that no single step overshoots; L = c * curvature * data_norm^2
    T >= v (data_norm tau s)^2            so that scores of one node differ by about 1 from the average's; v = Mixing.lingering
    offset = T/tau                        dual averaging with constant weights: x = -z/(r t + offset)
    K                                     closing mixings until scores differ by less than 0.01

Full gradients in every round: at equal privacy a batch only adds sampling noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda import checks
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.dual_averaging import DDA, DPDDA
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.plan.forecast import SHAPES, Landscape
from tacenda.plan.network import Mixing
from tacenda.plan.outcome import Forecast, Plan
from tacenda.privacy.adjacency import check as check_adjacency
from tacenda.problem import losses, regularisers
from tacenda.problem.constants import Constants
from tacenda.problem.facts import Facts

FEWEST_ROUNDS, MOST_ROUNDS = 20, 500
MOST_MIXINGS = 1000
STEP = 1.5  # the largest single step, in units of 1/L; a descent is stable below 2
APART = 0.01  # scores by which nodes may still differ after the closing mixings


def plan(
    sizes: ArrayLike,
    dim: int,
    graph: Any,
    epsilon: float | Sequence[float],
    delta: float = 1e-5,
    *,
    loss: str | losses.Loss = "logistic",
    regulariser: str | regularisers.Regulariser | None = "l2",
    strength: float = 1e-4,
    adjacency: str = "replace-one",
    data_norm: float = 1.0,
    clip_norm: float | None = None,
    loss_scale: float = 1.0,
    n_outputs: int = 1,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
) -> Plan:
    """What to run for this budget: an algorithm with its settings, rounds, output rule and closing mixings.

    sizes      public record counts m_i, one per node of the graph, or one number for all
    dim        length d of a node's model (n_outputs * n_features for several classes), the intercept included
    graph      any networkx.Graph or Topology;      epsilon   one number, or one per node
    max_rounds limits communication; with fewer rounds than the budget could use, the plan says so. rounds fixes their number

    Reads no data. `print(plan(...).explain())` tells the reasons.
    """
    topology = Topology.of(graph)
    check_adjacency(adjacency)
    facts = Facts(
        _sizes(sizes, topology.n),
        checks.whole("dim", dim, least=1),
        Constants(
            losses.by_name(loss),
            regularisers.by_name(regulariser),
            checks.positive("strength", strength, zero=True),
            checks.positive("loss_scale", loss_scale),
            checks.positive("data_norm", data_norm),
            None if clip_norm is None else checks.positive("clip_norm", clip_norm),
            checks.whole("n_outputs", n_outputs, least=1),
        ),
        adjacency,
    )
    return plan_facts(facts, topology, epsilon, delta, max_rounds=max_rounds, rounds=rounds)


def plan_facts(
    facts: Facts,
    topology: Topology,
    epsilon: float | Sequence[float],
    delta: float,
    *,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
) -> Plan:
    """The same from a problem's public facts (`Facts.of(problem)`); `rounds` fixes their number."""
    k = facts.constants
    if not math.isfinite(k.gradient_bound):
        raise UnsupportedError(
            f"loss {k.loss.name!r} has unbounded gradients, so no noise can hide a record; pass clip_norm=..., or use 'huber'."
        )
    most = checks.whole("max_rounds", max_rounds, least=1) if rounds is None else checks.whole("rounds", rounds, least=1)
    node_noise = facts.gradient_sensitivity() / _mu(epsilon, delta, facts.n)
    noise = float(np.sqrt(np.sum(node_noise**2)) / facts.n)
    mixing = Mixing.of(topology)
    landscape = Landscape.assumed(k, facts.dim)
    wanted = landscape.best_step(noise)
    apart = k.data_norm * float(np.sqrt(np.mean(node_noise**2)))  # of a score, for tau = 1 and T = 1
    least = _rounds(k, wanted, mixing.lingering * (apart * wanted) ** 2)
    rounds = min(least, most) if rounds is None else most
    tau = min(wanted, STEP * rounds / _steepness(k))
    undone, noisy = landscape.excess(tau, noise)
    mixings = _closing(k, mixing, tau, rounds, apart)
    forecast = Forecast(
        step=tau, wanted_step=wanted, wanted_rounds=least, average_noise_std=noise, left_undone=undone, noise_risk=noisy,
        second_eigenvalue=mixing.second, node_spread=apart * tau * math.sqrt(mixing.lingering / rounds),
    )  # fmt: skip
    return Plan(_algorithm(k, rounds / tau), rounds, "last", mixings, facts, topology, forecast, _plain(epsilon), float(delta))


def _rounds(k: Constants, tau: float, for_consensus: float) -> int:
    """How many rounds the step and the graph ask for, without any limit."""
    return max(FEWEST_ROUNDS, math.ceil(tau * _steepness(k) / STEP), math.ceil(min(for_consensus, 1e9)))


def _steepness(k: Constants) -> float:
    """L of the loss part; the regulariser is taken exactly. A loss with a kink counts as bent over its typical scores."""
    curvature = min(k.loss.curvature, 2 * SHAPES[k.loss.name].curvature)
    return k.loss_scale * curvature * k.data_norm**2


def _closing(k: Constants, mixing: Mixing, tau: float, rounds: int, apart: float) -> int:
    """Closing mixings K for the noise of the last rounds and for what the nodes' data differ by."""
    step, gap = tau / rounds, max(1e-12, 1.0 - mixing.second)
    noise = apart * step * math.sqrt(rounds / gap)
    differing = step * k.loss_scale * k.gradient_bound * k.data_norm / gap
    return min(MOST_MIXINGS, mixing.rounds_to((noise + differing) / APART)) if mixing.second or apart else 0


def _algorithm(k: Constants, offset: float) -> Algorithm:
    """Dual averaging; the variant without strong convexity where the regulariser has none."""
    if k.strong_convexity > 0:
        return DPDDA(weights="constant", offset=offset)
    return DDA(offset=offset)


def _mu(epsilon: float | Sequence[float], delta: float, n: int) -> NDArray[np.float64]:
    from tacenda.privacy.calibration import gaussian_mu

    values = np.asarray(epsilon, float)
    if values.ndim and values.shape != (n,):
        raise InputError(f"epsilon must be one number or one per node ({n}), not shape {values.shape}.")
    if checks.positive("delta", delta, zero=True) == 0:
        raise InputError("delta must be above 0 for a plan, whose noise is Gaussian, not 0; a usual choice is 1e-5.")
    found = {e: gaussian_mu(checks.positive("epsilon", e), delta) for e in np.unique(values).tolist()}
    return np.array([found[e] for e in np.broadcast_to(values, (n,)).tolist()])


def _sizes(sizes: ArrayLike, n: int) -> NDArray[np.float64]:
    values = np.asarray(sizes, float)
    if values.shape not in ((), (n,)) or not np.isfinite(values).all() or np.any(values <= 0):
        raise InputError(f"sizes must hold one record count above 0 per node of the graph ({n}), not shape {values.shape}.")
    return np.array(np.broadcast_to(values, (n,)))


def _plain(epsilon: Any) -> Any:
    return float(epsilon) if np.ndim(epsilon) == 0 else tuple(float(e) for e in epsilon)
