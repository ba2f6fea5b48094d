"""`without_privacy`: how a network without noise comes to the optimum of its objective."""

from __future__ import annotations

from tacenda import checks
from tacenda.algorithms.optimum import MOST_FEATURES, Optimum
from tacenda.questions.facts import Facts
from tacenda.terms.method import Method


def without_privacy(facts: Facts, rounds: int | None = None) -> Method:
    """Settings of a run with privacy=None that ends at the optimum, from public facts.

    The run ends by itself, mostly after 2 to 100 rounds, when the gradient has fallen to 1e-8
    of the first one. The problem must have no clip_norm: clipped gradients belong to another
    objective.

    Parameters
    ----------
    facts : Facts
        Public facts of the problem (`Facts.of(problem)`).
    rounds : int or None, default=None
        Limits their number.

    Examples
    --------
    >>> import tacenda as tc
    >>> from tacenda.planning import without_privacy
    >>> wish = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> without_privacy(wish.facts).algorithm.name
    'optimum'
    """
    k, algorithm = facts.constants, Optimum()
    most = algorithm.default_rounds if rounds is None else checks.whole("rounds", rounds, least=1)
    shrinks, kinks = k.strength * k.regulariser.l1 > 0, not k.loss.smooth
    reasons = [
        "Without privacy there is one right answer, the optimum of the objective. Gradients are "
        "summed exactly over a tree of the network, so that every node holds the same model."
    ]
    if facts.n_features <= MOST_FEATURES:
        reasons.append(
            "Round 1 also sums the second moment of the records, a bound on the curvature in "
            "every direction, so that few rounds are needed."
        )
    if kinks:
        reasons.append(
            f"The loss {k.loss.name!r} has kinks, at which a step is cut until the objective "
            f"falls; {most} rounds end near the optimum, and the table says how near."
        )
    else:
        step = "the step" if shrinks else "the gradient"
        reasons.append(
            f"The run ends when {step} has fallen to {algorithm.tolerance:g} of the first one, "
            f"after {most} rounds at most; the table says how far the objective is from its least "
            "value."
        )
    return Method(algorithm, most, "last", reasons=tuple(reasons))
