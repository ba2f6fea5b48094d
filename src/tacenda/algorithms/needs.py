"""What algorithms require of their problem and graph: each lists it, `check_needs` checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda.errors import UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.questions.facts import Facts
from tacenda.regularisers.custom import CustomRegulariser

if TYPE_CHECKING:
    from tacenda.algorithms.base import Algorithm


@dataclass(frozen=True)
class Needs:
    """What an algorithm requires of its problem and graph.

    Parameters
    ----------
    smooth_loss : bool, default=False
        The loss has a Lipschitz gradient.
    bounded_curvature : bool, default=False
        The loss has a bounded curvature, from which the step follows.
    twice_differentiable_loss : bool, default=False
        When private with noise inside the objective, the loss has a Hessian everywhere.
    smooth_regulariser : bool, default=False
        The regulariser has no l1 part.
    strongly_convex_regulariser : bool, default=False
        The regulariser has an l2 part of positive strength.
    bounded_loss_slope : bool, default=False
        When private, the loss itself has a bounded slope; clipping does not bound a minimiser.
    hub : bool, default=False
        One node is joined to all others.
    squared_loss : bool, default=False
        The loss is the squared one.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.DPADMM.needs.hub
    True
    """

    smooth_loss: bool = False
    bounded_curvature: bool = False
    twice_differentiable_loss: bool = False
    smooth_regulariser: bool = False
    strongly_convex_regulariser: bool = False
    bounded_loss_slope: bool = False
    hub: bool = False
    squared_loss: bool = False


@dataclass(frozen=True)
class Case:
    """An algorithm beside the problem and graph that it is asked to serve."""

    algorithm: Algorithm
    facts: Facts
    topology: Topology
    private: bool

    @property
    def loss(self) -> Any:
        return self.facts.constants.loss

    @property
    def regulariser(self) -> Any:
        return self.facts.constants.regulariser

    @property
    def has_own_regulariser(self) -> bool:
        return isinstance(self.regulariser, CustomRegulariser)

    @property
    def strong_convexity(self) -> float:
        """Of strength times regulariser; of a row of weights, that of the smallest."""
        own = self.has_own_regulariser
        each = self.regulariser.strong_convexity if own else float(np.min(self.regulariser.l2))
        return float(self.facts.constants.strength * each)


@dataclass(frozen=True)
class Requirement:
    """One need, or several with the same reason: when it is met, and what is said if it is not."""

    needs: tuple[str, ...]
    met: Callable[[Case], bool]
    refusal: str


REQUIREMENTS = (
    Requirement(
        ("twice_differentiable_loss",),
        lambda case: (
            case.loss.twice_differentiable
            or not (case.private and case.algorithm.traits.noise_in_objective)
        ),
        "{title} perturbs the objective, which needs a twice differentiable loss; {loss!r} is not. "
        "Use 'logistic' or 'multinomial', "
        "or an algorithm with noise on the released value (IPADMM, PVP, DPDDA).",
    ),
    Requirement(
        ("smooth_loss",),
        lambda case: case.loss.smooth,
        "{title} solves for an exact minimiser, which needs a smooth loss; {loss!r} is not smooth. "
        "Use 'smoothed-hinge' or 'huber', or a linearised algorithm (IPADMM, CDPADMM, DPDDA).",
    ),
    Requirement(
        ("bounded_curvature",),
        lambda case: case.loss.smooth,
        "{title} takes its step from the curvature of the loss, and {loss!r} has no bound on it. "
        "Use 'smoothed-hinge' or 'huber', or an algorithm with a step "
        "of its own (GossipGD, DPDDA).",
    ),
    Requirement(
        ("smooth_regulariser",),
        lambda case: case.regulariser.smooth,
        "{title} needs a smooth regulariser; {regulariser!r} is not. "
        "Use 'l2' or 'none', or an algorithm that takes the regulariser by its prox (IPADMM, "
        "CDPADMM, DPDDA).",
    ),
    Requirement(
        ("smooth_loss", "squared_loss"),
        lambda case: not case.has_own_regulariser,
        "{title} solves for a minimiser, whose noise follows from the regulariser's strong "
        "convexity; that of {regulariser!r}, one of your own, cannot be proved. "
        "Use 'l2' or 'none', or an algorithm that takes it by gradient or prox (IPADMM, "
        "CDPADMM, DPDDA, GossipGD, TreeGD).",
    ),
    Requirement(
        ("strongly_convex_regulariser",),
        lambda case: case.strong_convexity > 0,
        "{title} needs a strongly convex regulariser; {regulariser!r} of strength {strength:g} is "
        "not. Use 'l2' or 'elastic-net' with a strength above 0.",
    ),
    Requirement(
        ("squared_loss",),
        lambda case: case.loss.quadratic,
        "{title} needs the loss 'squared', whose curvature does not change with the model; "
        "{loss!r} is another loss. Use GossipGD, DPDDA or CDPADMM, or loss='squared'.",
    ),
    Requirement(
        ("hub",),
        lambda case: case.topology.hub() is not None,
        "{title} needs a node that is joined to all others (a star or complete graph); "
        "{graph} has none.",
    ),
    Requirement(
        ("bounded_loss_slope",),
        lambda case: not case.private or np.isfinite(case.facts.constants.lipschitz_argmin),
        "{title} releases an exact minimiser, "
        "so its loss must have a bounded slope by itself (clipping does not bound a "
        "minimiser); {loss!r} has none. Use 'huber', "
        "or a linearised algorithm with clip_norm.",
    ),
)


def check_needs(algorithm: Algorithm, facts: Facts, topology: Topology, private: bool) -> None:
    """Refuse a problem or graph that lacks what the algorithm requires."""
    needs, k = algorithm.needs, facts.constants
    case = Case(algorithm, facts, topology, private)
    for requirement in REQUIREMENTS:
        asked = any(getattr(needs, need) for need in requirement.needs)
        if asked and not requirement.met(case):
            raise UnsupportedError(
                requirement.refusal.format(
                    title=algorithm.title,
                    loss=k.loss.name,
                    regulariser=k.regulariser.name,
                    strength=k.strength,
                    graph=topology.name,
                )
            )
    if isinstance(k.regulariser, CustomRegulariser):
        k.regulariser.checked(facts.dim)
    if private and not needs.bounded_loss_slope and not np.isfinite(k.gradient_bound):
        raise UnsupportedError(
            "A private run needs bounded gradients, "
            f"and the loss {k.loss.name!r} has none. Two remedies: a loss with "
            "bounded slope (for regression 'huber'), or clip_norm=... "
            "to clip each record's gradient."
        )
