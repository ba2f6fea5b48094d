"""Why a plan is as it is, one sentence for each choice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.spectrum import STRENGTHS
from tacenda.algorithms.whitened import Whitened
from tacenda.graph.cuts import cut_advice, least_components
from tacenda.planning.advice import class_sentence, noise_advice, uneven_sizes
from tacenda.words import counted, noun

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan


def hyperparameters(algorithm: Algorithm) -> str:
    """Step, mixings and noise in words."""
    if isinstance(algorithm, Whitened):
        share = algorithm.whitening.share
        kind = "masked" if algorithm.traits.masks else "independent"
        return f"{share:.0%} of the budget for the second moment, {kind} noise"
    values, shared = algorithm.to_plain(), algorithm.traits.shared_noise
    if algorithm.name == "moments":
        return f"{values['share']:.0%} of the budget for the moment, {values['noise']} noise"
    if shared is None:
        return f"offset {values.get('offset', 0.0):.4g}, independent noise"
    mixings = counted(algorithm.traits.exchanges_per_round, "mixing")
    return f"step {values['step_size']:.4g}, {mixings} a round, edge noise {shared:g} times the own"


def _trust(coalition: int) -> str:
    if coalition == 0:
        return "an eavesdropper, but no curious member"
    if coalition == 1:
        return "an eavesdropper and any one curious member"
    return f"an eavesdropper and up to {coalition} curious members combining what they know"


def _method(p: Plan) -> str:
    if p.coalition is None:
        return (
            "Dual averaging with independent noise: neighbours mix every released value, "
            "so that the nodes' noises average out; the whole noise of the average model is set "
            f"by the total step, {p.forecast.step:.4g}, and not by the number of rounds."
        )
    return (
        "GossipGD with noise shared by neighbours: what one adds the other subtracts, "
        "so that the large noise which hides each message "
        f"cancels in the network's average. The guarantee holds against {_trust(p.coalition)}; "
        "larger coalitions may learn more. "
        "coalition=None plans noise that needs no such trust."
    )


def _tuning(p: Plan) -> list[str]:
    if p.public_records is None:
        return (
            []
            if p.longer == 1.0
            else [f"It is {p.longer:g} times what the assumed shape asks for."]
        )
    found = (
        "as the assumed shape asks for"
        if p.longer == 1.0
        else f"{p.longer:g} times what the assumed shape asks for"
    )
    return [
        f"It is {found}: that predicts best on a public sample of "
        f"{counted(p.public_records, 'record')}. They were declared public: "
        "they have no protection, and nothing is charged for them."
    ]


def _by_moments(rounds: int, masked: bool) -> list[str]:
    """Of least squares by its second moment."""
    hidden = (
        "Each member's message is hidden under masks that cancel in the network's sum, so that the "
        "noise of all members protects each of them."
        if masked
        else "Each member's message holds enough noise by itself, so that no trust is needed."
    )
    return [
        "MomentRegression: the squared loss has one curvature everywhere, the second moment of the "
        "records. It is released once, in round 1, and makes every later step a Newton step; "
        "{rounds - 1} of these use clipped gradients.",
        hidden,
        "How far to trust each direction of the curvature is decided after its release, from its "
        "spectrum and its known noise. The regulariser enters last, so that every other strength "
        "is post-processing.",
    ]


def _whitened(p: Plan, algorithm: Whitened) -> list[str]:
    """Of a plan that looks at what was released."""
    share, f = algorithm.whitening.share, p.forecast
    found = [
        f"First {share:.0%} of the budget buys the second moment of the records, with noise, once. "
        "From then on it is public which directions the records fill: rows are mapped so that all "
        "of them count alike, and no direction is slow to learn.",
        "Decided after that release, at no cost of privacy: where eigenvalues are lost in the "
        "noise, how far rows are scaled, to what gradients are clipped, and the step. Each is the "
        "one with the least forecast risk on the released spectrum.",
    ]
    if p.coalition is None:
        found.append(
            "TreeGD with independent noise: each node's message hides its records by itself, "
            "whoever combines what they know; the noises average out over the network."
        )
    else:
        found.append(
            "TreeGD with masks: each message is hidden by random numbers that a node shares with "
            "its neighbours and that cancel in the sum over the network, so that the noise of all "
            f"members hides each record. The guarantee holds against {_trust(p.coalition)}; larger "
            "coalitions may learn more. coalition=None plans noise that needs no such trust."
        )
    if p.coalition is None and p.privacy.coalition is not None:
        found.append(
            f"Masks were not taken: {counted(p.privacy.coalition, 'member')} can cut this graph so "
            "that some member's masks hide it little better than noise of its own."
        )
    found += _cuts(p)
    found += [
        "Every round ends with an exact average over a tree of the network: all nodes hold the "
        "same model, and no closing mixings are needed.",
        f"{counted(p.rounds, 'round')}: more would not learn more, since the noise of the averaged "
        "model is set by the budget and not by their number."
        if f.wanted_rounds <= p.rounds
        else f"{counted(f.wanted_rounds, 'round')} would be better; "
        f"{p.rounds} {noun(p.rounds, 'is', 'are')} allowed.",
        *_tuning(p),
        "Full gradients: at equal privacy a batch adds sampling noise and saves only computation.",
    ]
    return found


def _cuts(p: Plan) -> list[str]:
    """Who can cut the graph, what that costs, and the edges that would fix it."""
    asked = p.privacy.coalition
    if asked is None or p.topology.n < 2:
        return []
    members, _ = least_components(p.topology, asked)
    found = cut_advice(p.topology, asked, int(members.min()))
    return [sentence[0].upper() + sentence[1:] for sentence in found]


def _uneven(p: Plan) -> list[str]:
    return uneven_sizes(p.facts, p.topology.labels, p.coalition)


def _strength(p: Plan) -> list[str]:
    """Who chooses the strength, where it was left open."""
    k = p.facts.constants
    if not k.auto_strength or k.regulariser.name == "none":
        return []
    public = f"{k.strength:g}"
    if isinstance(p.algorithm, Whitened):
        return [
            "The regulariser's strength is chosen after the release too, as the one with the least "
            f"forecast risk of the powers of sqrt(10) from {STRENGTHS[-1]:g} to {STRENGTHS[0]:g}; "
            f"until then it counts as {public}."
        ]
    return [f"The regulariser's strength is the public {public}."]


def _said(p: Plan) -> list[str]:
    """What goes for every plan."""
    largest = p.epsilon if isinstance(p.epsilon, float) else max(p.epsilon)
    budget = replace(p.promise, epsilon=largest)
    return [
        *_strength(p),
        *_uneven(p),
        *class_sentence(p.facts, budget),
        *noise_advice(p.facts, budget),
    ]


def reasons(p: Plan) -> list[str]:
    """The sentences of `Plan.explain`."""
    k, f = p.facts.constants, p.forecast
    if p.algorithm.name == "moments":
        return [*_by_moments(p.rounds, p.coalition is not None), *_said(p)]
    if isinstance(p.algorithm, Whitened):
        return [*_whitened(p, p.algorithm), *_said(p)]
    found = [
        _method(p),
        "The total step balances what would be left unlearnt against noise of standard deviation "
        f"{f.average_noise_std:.3g} in the network's average gradient.",
        *_tuning(p),
        "Full gradients: at equal privacy a batch adds sampling noise and saves only computation.",
    ]
    if f.wanted_rounds > p.rounds:
        short = (
            ""
            if f.step == f.wanted_step
            else f", and the step is cut from {f.wanted_step:.4g} to stay stable"
        )
        found.append(
            f"{counted(f.wanted_rounds, 'round')} would be better; "
            f"{p.rounds} {noun(p.rounds, 'is', 'are')} allowed{short}."
        )
    else:
        found.append(
            f"{counted(p.rounds, 'round')}, so that no step overshoots and one node's scores "
            f"stay within {f.node_spread:.2g} of the average's."
        )
    mixings = p.method.closing_mixings
    if p.method.ends_exactly:
        found.append(
            "One exact average of the nodes' models at the end, over a spanning tree: mixing would "
            f"take long here (the mixing matrix's second eigenvalue is {f.second_eigenvalue:.3f})."
        )
    elif mixings:
        found.append(
            f"{counted(mixings, 'closing mixing')} {noun(mixings, 'brings', 'bring')} every node "
            "to nearly the average model (the mixing matrix's second eigenvalue is "
            f"{f.second_eigenvalue:.3f})."
        )
    if k.strong_convexity == 0 and p.coalition is None:
        found.append(
            f"The regulariser {k.regulariser.name!r} is not strongly convex, "
            "so the constant offset alone damps the steps."
        )
    return [*found, *_said(p)]
