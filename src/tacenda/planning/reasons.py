"""Why a plan is as it is, one sentence for each choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda.algorithms.base import Algorithm
from tacenda.words import counted, noun

if TYPE_CHECKING:
    from tacenda.planning.outcome import Plan


def hyperparameters(algorithm: Algorithm) -> str:
    """Step, mixings and noise in words."""
    if algorithm.shared_noise is not None:
        values = algorithm.to_plain()
        mixings = counted(values["mixings"], "mixing")
        return (
            f"step {values['step_size']:.4g}, {mixings} a round, "
            f"edge noise {values['correlation']:g} times the own"
        )
    return f"offset {algorithm.to_plain().get('offset', 0.0):.4g}, independent noise"


def _method(p: Plan) -> str:
    if p.coalition is None:
        return (
            "Dual averaging with independent noise: neighbours mix every released value, "
            "so that the nodes' noises average out; the whole noise of the average model is set "
            f"by the total step, {p.forecast.step:.4g}, and not by the number of rounds."
        )
    trust = (
        "an eavesdropper, but no curious member"
        if p.coalition == 0
        else (
            "an eavesdropper and any one curious member"
            if p.coalition == 1
            else f"an eavesdropper and up to {p.coalition} curious members pooling what they know"
        )
    )
    return (
        "GossipGD with noise shared by neighbours: what one adds the other subtracts, "
        "so that the large noise which hides each message "
        f"cancels in the network's average. The guarantee holds against {trust}; "
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


def reasons(p: Plan) -> list[str]:
    """The sentences of `Plan.explain`."""
    k, f = p.facts.constants, p.forecast
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
    if p.finish_mixing:
        found.append(
            f"{counted(p.finish_mixing, 'closing mixing')} "
            f"{noun(p.finish_mixing, 'brings', 'bring')} every node to nearly the average model "
            f"(the mixing matrix's second eigenvalue is {f.second_eigenvalue:.3f})."
        )
    if k.strong_convexity == 0 and p.coalition is None:
        found.append(
            f"The regulariser {k.regulariser.name!r} is not strongly convex, "
            "so the constant offset alone damps the steps."
        )
    sizes = p.facts.sizes
    if sizes.max() > 3 * sizes.min():
        found.append(
            f"Node sizes differ ({sizes.min():.0f} to {sizes.max():.0f}); "
            "every node weighs alike in the objective, so the smallest "
            "ones bring most of the noise."
        )
    return found
