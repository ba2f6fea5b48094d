"""`plan`: algorithm, rounds, step and closing mixings for a budget, before any data is read.

The rules, in the letters of the specification (m_i sizes, d length of the model, mu of the budget,
W the mixing matrix):

    s_i = 2Gc/(m_i mu_i)                  noise of one node's gradient over the whole run (half for
                                          add-remove)
    s0 = sqrt(sum_i s_i^2)/n              the same for the network's average, if every node's noise
                                          is independent
    s0 = max_i s_i sqrt(h_i/n)            if neighbours share noise; h_i the leverage of a coalition
                                          of q members
    tau                                   the total step with the least forecast excess risk
                                          (`forecast.Landscape`)
    T >= tau L / 1.5                      so that no single step overshoots; L = c * curvature *
                                          data_norm^2
    spread <= 1                           between a node's scores and the average model's, by enough
                                          rounds and mixings (`Mixing.lingering`)
    closing mixings                       until scores differ by less than 0.01

Least squares: Newton steps with the released second moment (`planning.regression`), unless the
budget is next to nothing. Else three ways are compared by their forecast excess risk. TreeGD on
whitened records, masked or with independent noise (`after_release`): what can be seen in a released
spectrum is decided after the release, and only its rounds before. Dual averaging with independent
noise, constant weights and offset T/tau. GossipGD with noise shared by neighbours and step tau/T.
Full gradients in every round: at equal privacy a batch only adds sampling noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda import checks
from tacenda.algorithms.whitening import Whitened
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.planning.after_release import shared_at_best, whitened
from tacenda.planning.candidates import MOST_ROUNDS, Candidate, Case, independent, shared
from tacenda.planning.forecast import Landscape
from tacenda.planning.mixing import Mixing
from tacenda.planning.outcome import Plan
from tacenda.planning.regression import by_moments
from tacenda.privacy.adjacency import check as check_adjacency
from tacenda.privacy.adjacency import check_persons
from tacenda.problem import losses, regularisers
from tacenda.problem.constants import Constants
from tacenda.problem.facts import Facts

NEGLIGIBLE = 1e-5  # excess risk
CLEARLY = 0.1  # a method that does not look first may be forecast 36 times too low


def plan(
    sizes: ArrayLike,
    dim: int,
    graph: Any,
    epsilon: float | Sequence[float],
    delta: float = 1e-5,
    *,
    loss: str | losses.Loss = "logistic",
    regulariser: str | regularisers.Regulariser | None = "l2",
    strength: float | str = "auto",
    adjacency: str = "replace-one",
    data_norm: float = 1.0,
    clip_norm: float | None = None,
    loss_scale: float = 1.0,
    n_outputs: int = 1,
    coalition: int | None = 1,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
    public: Any = None,
    records_per_person: int = 1,
    members_per_person: int = 1,
) -> Plan:
    """Choose what to run for a budget: an algorithm with its settings, rounds and output rule.

    Reads no private data. `print(plan(...).explain())` tells the reasons.

    Parameters
    ----------
    sizes : array_like
        Public record counts m_i, one per node of the graph, or one number for all.
    dim : int
        Length d of a node's model (n_outputs * n_features for several classes), the intercept
        included.
    graph : networkx.Graph or Topology
        The network.
    epsilon : float or sequence of float
        The budget: one number, or one per node.
    delta : float, default=1e-05
        The delta of the guarantee.
    loss : str or Loss, default="logistic"
        As in `Problem`.
    regulariser : str, Regulariser or None, default="l2"
        As in `Problem`.
    strength : float or "auto", default="auto"
        As in `Problem`.
    adjacency : str, default="replace-one"
        As in `Privacy`.
    data_norm : float, default=1.0
        As in `Problem`.
    clip_norm : float or None, default=None
        As in `Problem`.
    loss_scale : float, default=1.0
        As in `Problem`.
    n_outputs : int, default=1
        Number of classes of a multinomial problem, else 1.
    coalition : int or None, default=1
        How many curious members may combine what they know (`Privacy.coalition`); None means
        all others (no shared noise).
    max_rounds : int, default=500
        Limits communication; with fewer rounds than the budget could use, the plan says so.
    rounds : int or None, default=None
        Fixes their number.
    public : (X, y) or None, default=None
        A sample of the same kind that *is public*: the step is tuned on it (`Plan.tuned`). It
        has no protection at all, and nothing is charged for it; never pass private records
        here.
    records_per_person : int, default=1
        As in `Problem`: the guarantee is for a person with at most so many records of a node.
    members_per_person : int, default=1
        As in `Problem`: on how many nodes a person may be.

    Returns
    -------
    Plan
        The settings, their forecast and their reasons.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> import tacenda as tc
    >>> chosen = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> chosen.algorithm.name, chosen.rounds <= 500
    ('whitened', True)
    """
    topology = Topology.of(graph)
    check_adjacency(adjacency)
    constants = Constants.declared(
        loss=loss,
        regulariser=regulariser,
        strength=strength,
        loss_scale=loss_scale,
        data_norm=data_norm,
        clip_norm=clip_norm,
        classes=checks.whole("n_outputs", n_outputs, least=1),
    )
    most = checks.whole("records_per_person", records_per_person, least=1)
    members = checks.whole("members_per_person", members_per_person, least=1)
    check_persons(adjacency, most, members)
    facts = Facts(
        _sizes(sizes, topology.n),
        checks.whole("dim", dim, least=1),
        constants,
        adjacency,
        records_per_person=most,
        members_per_person=members,
    )
    found = plan_facts(
        facts, topology, epsilon, delta, coalition=coalition, max_rounds=max_rounds, rounds=rounds
    )
    return found if public is None else found.tuned(public)


def plan_facts(
    facts: Facts,
    topology: Topology,
    epsilon: float | Sequence[float],
    delta: float,
    *,
    coalition: int | None = 1,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
    longer: float = 1.0,
    whole_numbers: bool = False,
) -> Plan:
    """Choose what to run, from a problem's public facts (`Facts.of(problem)`).

    Parameters
    ----------
    facts : Facts
        Sizes, dimensions, bounds, loss and regulariser.
    topology : Topology
        The network.
    epsilon : float or sequence of float
        The budget: one number, or one per node.
    delta : float
        The delta of the guarantee.
    coalition : int or None, default=1
        As in `plan`.
    max_rounds : int, default=500
        As in `plan`.
    rounds : int or None, default=None
        Fixes their number.
    longer : float, default=1.0
        Multiplies the total step.
    whole_numbers : bool, default=False
        Only methods whose noise real nodes draw on whole numbers: not noise shared by neighbours
        without masks.

    Returns
    -------
    Plan
        The settings, their forecast and their reasons.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.planning import plan_facts
    >>> wish = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> plan_facts(wish.facts, wish.topology, 1.0, 1e-5).rounds == wish.rounds
    True
    """
    if coalition is not None:
        checks.whole("coalition", coalition)
    case = case_of(
        facts, topology, epsilon, delta, max_rounds=max_rounds, rounds=rounds, longer=longer
    )
    found = by_moments(case, coalition)  # first choice, also where an assumed shape says otherwise
    if not found:
        found = [*whitened(case, coalition), independent(case)]
        pooling = None if whole_numbers else coalition
        if pooling is not None and _beats(found, shared_at_best(case, pooling)):
            found += shared(case, pooling)  # whose exact leverage may take long
    best = _best(found)
    levels = np.asarray(epsilon, float)
    plain = float(levels) if levels.ndim == 0 else tuple(float(e) for e in levels)
    return Plan(
        best.method,
        facts,
        topology,
        best.forecast,
        plain,
        float(delta),
        best.coalition,
        coalition,
        case.most,
        rounds is not None,
        longer,
    )


def _best(found: Sequence[Candidate]) -> Candidate:
    """The least forecast excess risk, if it beats the first one's."""
    best = min(found, key=lambda candidate: candidate.forecast.excess_risk)
    return best if _beats(found[:1], best.forecast.excess_risk) else found[0]


def _beats(found: Sequence[Candidate], risk: float) -> bool:
    """True if a forecast is less than those found. The first one, if it looks at a release before
    it decides, loses only to a forecast below `CLEARLY` of its own, and never where its own is
    `NEGLIGIBLE`: forecasts for an assumed shape are not exact enough to tell less."""
    if isinstance(found[0].method.algorithm, Whitened):
        own = found[0].forecast.excess_risk
        if own <= NEGLIGIBLE or risk >= CLEARLY * own:
            return False
    return risk < min(candidate.forecast.excess_risk for candidate in found)


def case_of(
    facts: Facts,
    topology: Topology,
    epsilon: float | Sequence[float],
    delta: float,
    *,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
    longer: float = 1.0,
) -> Case:
    """What settings are made for: facts, network and the noise that the budget asks for."""
    k = facts.constants
    if not math.isfinite(k.gradient_bound):
        raise UnsupportedError(
            f"loss {k.loss.name!r} has unbounded gradients, so no noise can hide a record; "
            "pass clip_norm=..., or use 'huber'."
        )
    most = (
        checks.whole("max_rounds", max_rounds, least=1)
        if rounds is None
        else checks.whole("rounds", rounds, least=1)
    )
    return Case(
        facts,
        topology,
        Mixing.of(topology),
        Landscape.assumed(k, facts.dim),
        # For a person on several nodes as for shared noise: independent noise is forecast too high
        facts.gradient_sensitivity() * facts.members_per_person / _mu(epsilon, delta, facts.n),
        most,
        rounds is not None,
        checks.positive("longer", longer),
    )


def _mu(epsilon: float | Sequence[float], delta: float, n: int) -> NDArray[np.float64]:
    from tacenda.privacy.accounting.calibration import gaussian_mu

    values = np.asarray(epsilon, float)
    if values.ndim and values.shape != (n,):
        raise InputError(
            f"epsilon must be one number or one per node ({n}), not shape {values.shape}."
        )
    if checks.positive("delta", delta, zero=True) == 0:
        raise InputError(
            "delta must be above 0 for a plan, whose noise is Gaussian, not 0; "
            "a usual choice is 1e-5."
        )
    found = {
        e: gaussian_mu(checks.positive("epsilon", e), delta) for e in np.unique(values).tolist()
    }
    return np.array([found[e] for e in np.broadcast_to(values, (n,)).tolist()])


def _sizes(sizes: ArrayLike, n: int) -> NDArray[np.float64]:
    values = np.asarray(sizes, float)
    if values.shape not in ((), (n,)) or not np.isfinite(values).all() or np.any(values <= 0):
        raise InputError(
            f"sizes must hold one record count above 0 per node of the graph ({n}), "
            f"not shape {values.shape}."
        )
    return np.array(np.broadcast_to(values, (n,)))
