"""Settings for a method that was named: steps, penalties and rounds from the same public facts and
the same forecast as the planner's own choice.

Seen as the network's average model, every method here is a descent of some total step tau, whose
noise follows from the budget. The forecast has a best tau (`forecast.Landscape`), and each method
has its own way to take it, K = rounds * inner steps:

    DDA, DP-DDA                 offset = T/tau
    GossipGD                    step_size = tau/T
    TreeGD                      step_size = tau L/T
    IPADMM, CDP-, DDP-ADMM      2 rho deg + eta = K/tau, a third of it eta
    DP-ADMM                     rho + eta = T/tau
    PVP, DVP, M-ADMM, R-ADMM    2 eta deg = T/tau, implicit steps, Gaussian noise
        with l2-Laplace noise   the same with T = 3 inside an objective: the pure losses of the
                                rounds add up, so that few rounds are less noisy; in d dimensions
                                their noise is sqrt(d T) 2Gc/(m epsilon)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name, prepared
from tacenda.algorithms.whitened import Whitened
from tacenda.graph.topology import Topology
from tacenda.planning.after_release import WORTH, masked_noise
from tacenda.planning.candidates import FEWEST_ROUNDS, STEP, Case, independent, shared
from tacenda.planning.outcome import Plan
from tacenda.planning.planner import case_of, plan_facts
from tacenda.planning.predict import predict
from tacenda.planning.tune import best_length
from tacenda.privacy.secrets.mechanisms import CURVATURE_SHARE
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.terms.method import Method
from tacenda.words import counted

FEW = 3  # rounds of a method with l2-Laplace noise inside its objective
INSIDE = 1.5  # times the noise that the same rounds need on values, from above
MOST_SOLVES = 40  # rounds of exact local minimisers
INNER_STEPS = 2
TRIALS = 2  # on stand-in data of a public sample, for each total step that is tried
PROXIMAL = 1 / 3  # of a linearised step's weight; the rest pulls neighbours together
GENTLE = ("dvp", "madmm", "radmm")
LINEARISED = ("ipadmm", "cdpadmm", "ddpadmm")


def plan_named(
    name: str,
    facts: Facts,
    topology: Topology,
    privacy: Privacy,
    *,
    rounds: int | None = None,
    prepare: Any = None,
    given: dict[str, Any] | None = None,
    public: Any = None,
) -> Method:
    """The method of that name with the settings that its forecast asks for.

    Reads no private data. A method that is not known here, such as a plugin, and one that
    decides by itself after a release keeps its own defaults.

    Parameters
    ----------
    name : str
        Name of the algorithm.
    facts : Facts
        Public facts of the problem (`Facts.of(problem)`).
    topology : Topology
        The network.
    privacy : Privacy
        What the run is to promise.
    rounds : int or None, default=None
        Fixes their number.
    prepare : None, str, dict or Whitening, default=None
        Whitening before it.
    given : dict or None, default=None
        Hyperparameters that are not to be chosen.
    public : tuple or None, default=None
        A sample (X, y) of the same kind that *is public*: the total step is tuned on it. It has no
        protection, and nothing is charged for it; never pass private records here.

    Returns
    -------
    Method
        Algorithm, rounds, output rule and closing mixings, with reasons.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.planning import plan_named
    >>> wish = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> plan_named("cdpadmm", wish.facts, wish.topology, tc.Privacy(1.0)).algorithm.name
    'cdpadmm'
    """
    own = dict(given or {})
    plain = by_name(name, **own)
    whole = prepared(plain, prepare)
    seen = whole.mapped_facts(facts) if isinstance(whole, Whitened) else facts
    way = WAYS.get(plain.name)
    if (
        way is None
        or (isinstance(whole, Whitened) and plain.traits.tuned_by_release)
        or not plain.private
    ):
        return _as_it_is(whole, topology, rounds)
    kept = [f"{key} = {value} as it was given." for key, value in own.items()]

    def at(longer: float) -> Method:
        case = case_of(seen, topology, privacy, rounds=rounds, longer=longer)
        if isinstance(whole, Whitened):
            left = 1.0 - whole.whitening.share
            case = dataclasses.replace(case, node_noise=case.node_noise / math.sqrt(left))
        values, turns, output, reasons = way(plain, case, own, privacy.coalition, privacy.epsilon)
        algorithm = prepared(by_name(name, **{**values, **own}), prepare)
        return dataclasses.replace(
            Method.usual(algorithm, topology, turns),
            output=output or algorithm.default_output,
            reasons=(*reasons, *kept, *_closing(algorithm, topology)),
        )

    if public is None:
        return at(1.0)
    shell = plan_facts(facts, topology, privacy)
    return _tuned(at, shell, public)


def _tuned(at: Callable[[float], Method], shell: Plan, public: Any) -> Method:
    """The settings whose total step predicts best on a public sample; shell: any plan for the same
    facts, in which they are tried."""

    def risk(longer: float) -> float:
        trial = dataclasses.replace(shell, method=at(longer))
        return predict(trial, public, TRIALS, 0).excess_risk.mean

    longer = best_length(risk)
    records = counted(len(public[1]), "record")
    said = (
        f"The total step is {longer:g} times the forecast's, as {records} that are declared "
        f"public suggest; these have no protection, and nothing is charged."
    )
    found = at(longer)
    return dataclasses.replace(found, reasons=(*found.reasons, said))


def _as_it_is(algorithm: Algorithm, topology: Topology, rounds: int | None) -> Method:
    said = (
        "What follows the released second moment (scale, clip, step) is decided after its release."
        if isinstance(algorithm, Whitened) and algorithm.algorithm.traits.tuned_by_release
        else f"{algorithm.title} has nothing to choose in advance."
        if algorithm.name == "moments"
        else f"{algorithm.title} keeps its own defaults: no forecast is known for it."
    )
    turns = algorithm.default_rounds if rounds is None else rounds
    if (
        isinstance(algorithm, Whitened)
        and algorithm.algorithm.traits.tuned_by_release
        and rounds is None
    ):
        turns = FEWEST_ROUNDS
    return dataclasses.replace(
        Method.usual(algorithm, topology, turns),
        output=algorithm.default_output,
        reasons=(said, *_closing(algorithm, topology)),
    )


def _closing(algorithm: Algorithm, topology: Topology) -> list[str]:
    if algorithm.traits.reaches_consensus or topology.n == 1:
        return []
    return ["One exact average of the nodes' models at the end: it costs no privacy."]


# ---- how each method takes a total step: (hyperparameters, rounds, output, reasons)
Way = tuple[dict[str, Any], int, str | None, list[str]]


def _total(
    case: Case, noise: float, *, shrinking: bool, implicit: bool = False
) -> tuple[float, int]:
    """(tau, rounds): the forecast's best total step for noise of the average, in as many rounds as
    keep each step stable and the nodes together."""
    wanted = case.longer * case.landscape.best_step(noise, shrinking)
    score = case.facts.constants.data_norm * float(np.sqrt(np.mean(case.node_noise**2)))
    rounds, _ = case.rounds(wanted, case.mixing.lingering() * (score * wanted) ** 2)
    if implicit:
        rounds = rounds if case.fixed else min(rounds, MOST_SOLVES)
        return wanted, rounds
    return min(wanted, STEP * rounds / case.steepness), rounds


def _noise(case: Case) -> float:
    return float(np.sqrt(np.sum(case.node_noise**2)) / case.facts.n)


def _said(tau: float, rounds: int, noise: float, how: str) -> list[str]:
    return [
        f"Total step {tau:.4g}, by the planner's forecast for noise of standard deviation "
        f"{noise:.3g} in the network's average gradient: {how}.",
        f"{counted(rounds, 'round')}: full gradients, so that no step overshoots and the nodes "
        "stay together.",
    ]


def _dual_averaging(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    found = independent(case)
    rounds, tau, noise = (
        found.method.rounds,
        found.forecast.step,
        found.forecast.average_noise_std,
    )
    offset = rounds / tau
    how = f"offset {offset:.4g} = rounds / total step, constant weights"
    values: dict[str, Any] = {"offset": offset}
    if algorithm.name == "dpdda":
        values["weights"] = "constant"
    return values, rounds, "last", _said(tau, rounds, noise, how)


def _gossip(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    shares = given.get("noise", "correlated") == "correlated" and coalition is not None
    for candidate in shared(case, coalition) if shares and coalition is not None else []:
        plain, tau = candidate.method.algorithm.to_plain(), candidate.forecast.step
        values = {k: plain[k] for k in ("step_size", "mixings", "noise", "correlation")}
        how = f"step {plain['step_size']:.4g}, {counted(plain['mixings'], 'mixing')} a round"
        said = _said(tau, candidate.method.rounds, candidate.forecast.average_noise_std, how)
        return values, candidate.method.rounds, "average", said
    noise = _noise(case)
    tau, rounds = _total(case, noise, shrinking=False)
    values = {"step_size": tau / rounds, "noise": given.get("noise", "independent")}
    return values, rounds, "average", _said(tau, rounds, noise, f"step {tau / rounds:.4g}")


def _tree(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    noise, kind = _noise(case), "independent"
    if coalition is not None and given.get("noise", "masked") == "masked":
        hidden = masked_noise(case, coalition)
        if hidden <= WORTH * noise or "noise" in given:
            noise, kind = hidden, "masked"
    tau, rounds = _total(case, noise, shrinking=False)
    step = tau * case.steepness / rounds
    how = f"{kind} noise, step {step:.4g} in units of one over the smoothness"
    return {"step_size": step, "noise": kind}, rounds, "average", _said(tau, rounds, noise, how)


def _linearised(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    noise, degree = _noise(case), max(1.0, float(case.topology.degrees.mean()))
    tau, rounds = _total(case, noise, shrinking=False)
    inner = int(given.get("inner_steps", INNER_STEPS)) if algorithm.name == "ipadmm" else 1
    weight = rounds * inner / tau
    values: dict[str, Any] = {"penalty": (1 - PROXIMAL) * weight / (2 * degree)}
    if isinstance(given.get("penalty"), int | float):
        left = weight - 2 * degree * float(given["penalty"])
        values["proximal"] = max(left, PROXIMAL * weight)
    else:
        pulled = given.get("proximal")
        values["proximal"] = PROXIMAL * weight
        if isinstance(pulled, int | float) and pulled < weight:
            values["penalty"] = (weight - float(pulled)) / (2 * degree)
    if algorithm.name == "ipadmm":
        values["inner_steps"] = inner
    how = (
        f"steps of 1/(2 penalty degree + proximal) = {1 / weight:.4g}, two thirds of that weight "
        "in the penalty"
    )
    return values, rounds, "last", _said(tau, rounds, noise, how)


def _star(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    noise = _noise(case)
    tau, rounds = _total(case, noise, shrinking=False)
    weight = rounds / tau
    values = {"penalty": (1 - PROXIMAL) * weight, "proximal": PROXIMAL * weight}
    how = f"steps of 1/(penalty + proximal) = {1 / weight:.4g}"
    return values, rounds, None, _said(tau, rounds, noise, how)


def _minimisers(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    noise, degree = _noise(case), max(1.0, float(case.topology.degrees.mean()))
    tau, rounds = _total(case, noise, shrinking=False, implicit=True)
    penalty = rounds / tau / (2 * degree)
    how = f"penalty {penalty:.4g}, exact local minimisers with Gaussian noise, which composes best"
    values = {"penalty": penalty, "noise": "gaussian"}
    return values, rounds, None, _said(tau, rounds, noise, how)


def _inside(
    algorithm: Any, case: Case, given: dict[str, Any], coalition: int | None, epsilon: Any
) -> Way:
    if given.get("perturb") == "output":
        return _minimisers(algorithm, case, given, coalition, epsilon)
    if given.get("noise", "gaussian") == "gaussian":
        values, rounds, output, said = _minimisers(algorithm, case, given, coalition, epsilon)
        least = _least_penalty(case, rounds)
        if least > values["penalty"]:
            values["penalty"] = least
            said.append(
                f"penalty raised to {least:.4g}: with less of it, noise inside the objective needs "
                "an extra pull towards 0."
            )
        return values, rounds, output, said
    facts, degree = case.facts, max(1.0, float(case.topology.degrees.mean()))
    rounds = case.most if case.fixed else FEW
    levels = np.broadcast_to(np.asarray(epsilon, float), (facts.n,))
    own = facts.gradient_sensitivity() * math.sqrt(facts.dim * rounds) / levels
    noise = float(np.sqrt(np.sum(own**2)) / facts.n)
    tau = case.longer * case.landscape.best_step(noise, shrinking=False)
    penalty = rounds / tau / (2 * degree)
    said = [
        f"Total step {tau:.4g}, by the planner's forecast for noise of standard deviation "
        f"{noise:.3g} in the network's average gradient: penalty {penalty:.4g}.",
        f"{counted(rounds, 'round')}: l2-Laplace noise inside the objective is paid for in pure "
        "epsilon, which adds up over the rounds.",
    ]
    return {"penalty": penalty}, rounds, None, said


def _least_penalty(case: Case, rounds: int) -> float:
    """With which Gaussian noise inside the objectives needs no extra convexity at any node."""
    facts = case.facts
    # 1/z of a round, if its bound asks for somewhat more noise than a release of values would
    per_round = facts.gradient_sensitivity() / case.node_noise / math.sqrt(rounds) / INSIDE
    terms = facts.objective_terms(np.zeros(facts.n))
    wanted = terms.least_convexity(CURVATURE_SHARE * per_round) - facts.constants.strong_convexity
    return float(np.max(wanted / (2 * np.maximum(case.topology.degrees, 1))))


WAYS: dict[str, Callable[[Any, Case, dict[str, Any], int | None, Any], Way]] = {
    "dda": _dual_averaging,
    "dpdda": _dual_averaging,
    "gossipgd": _gossip,
    "treegd": _tree,
    **dict.fromkeys(LINEARISED, _linearised),
    "dpadmm": _star,
    "pvp": _minimisers,
    **dict.fromkeys(GENTLE, _inside),
}
