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
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacenda import checks
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.planning.after_release import shared_at_best, whitened
from tacenda.planning.candidates import MOST_ROUNDS, Candidate, Case, independent, shared
from tacenda.planning.forecast import Landscape
from tacenda.planning.mixing import Mixing
from tacenda.planning.outcome import Plan
from tacenda.planning.regression import by_moments
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.terms.problem import DeclaredOptions
from tacenda.terms.setting import AUTO

NEGLIGIBLE = 1e-5  # excess risk
CLEARLY = 0.1  # a method that does not look first may be forecast 36 times too low


def plan(
    sizes: ArrayLike,
    dim: int,
    graph: Any,
    epsilon: float | Sequence[float] | Privacy,
    delta: float = 1e-5,
    *,
    adjacency: str = "replace-one",
    n_outputs: int = 1,
    coalition: int | None = 1,
    max_rounds: int = MOST_ROUNDS,
    rounds: int | None = None,
    public: Any = None,
    records_per_person: int = 1,
    members_per_person: int = 1,
    **declared: Unpack[DeclaredOptions],
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
    epsilon : float, sequence of float or Privacy
        The budget: one number, or one per node; or a `tacenda.Privacy` with all its settings.
    delta : float, default=1e-05
        The delta of the guarantee.
    adjacency : str, default="replace-one"
        As in `Privacy`.
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
        As in `Problem`: the guarantee is for a person with at most this many records at a node.
    members_per_person : int, default=1
        As in `Problem`: on how many nodes a person may be.
    **declared : object
        What is declared of the problem, as in `Problem`: `loss`, `regulariser`, `strength` ("auto"
        by default), `loss_scale`, `data_norm`, `clip_norm` and the others.

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
    privacy = Privacy.of(epsilon, delta=delta, adjacency=adjacency, coalition=coalition)
    declared.setdefault("strength", AUTO)
    facts = Facts.declared(
        sizes,
        dim,
        topology.n,
        adjacency=privacy.adjacency,
        records_per_person=records_per_person,
        members_per_person=members_per_person,
        classes=n_outputs,
        **declared,
    )
    found = plan_facts(facts, topology, privacy, max_rounds=max_rounds, rounds=rounds)
    return found if public is None else found.tuned(public)


def plan_facts(
    facts: Facts,
    topology: Topology,
    privacy: Privacy,
    *,
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
    privacy : Privacy
        What the run is to promise.
    max_rounds : int, default=500
        As in `plan`.
    rounds : int or None, default=None
        Fixes their number.
    longer : float, default=1.0
        Multiplies the total step.
    whole_numbers : bool, default=False
        Only methods whose noise real nodes draw on whole numbers: not noise shared by neighbours
        without masks.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.planning import plan_facts
    >>> wish = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> plan_facts(wish.facts, wish.topology, tc.Privacy(1.0)).rounds == wish.rounds
    True
    """
    if privacy.noise or privacy.mode != "sound":
        raise InputError(
            "algorithm 'auto' plans sound noise for a stated epsilon; with other noise, "
            "name the algorithm."
        )
    coalition = privacy.coalition
    case = case_of(facts, topology, privacy, max_rounds=max_rounds, rounds=rounds, longer=longer)
    found = by_moments(case, coalition)  # first choice, also where an assumed shape says otherwise
    if not found:
        found = [*whitened(case, coalition), independent(case)]
        pooling = None if whole_numbers else coalition
        if pooling is not None and _beats(found, shared_at_best(case, pooling)):
            found += shared(case, pooling)  # whose exact leverage may take long
    best = _best(found)
    return Plan(
        best.method,
        facts,
        topology,
        best.forecast,
        privacy,
        best.coalition,
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
    privacy: Privacy,
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
        facts.gradient_sensitivity() * facts.members_per_person / _mu(privacy, facts.n),
        most,
        rounds is not None,
        checks.positive("longer", longer),
    )


def _mu(privacy: Privacy, n: int) -> NDArray[np.float64]:
    if privacy.delta == 0:
        raise InputError(
            "delta must be above 0 for a plan, whose noise is Gaussian, not 0; "
            "a usual choice is 1e-5."
        )
    values = privacy.epsilon_of(n)
    found = {e: gaussian_mu(e, privacy.delta) for e in np.unique(values).tolist()}
    return np.array([found[e] for e in values.tolist()])
