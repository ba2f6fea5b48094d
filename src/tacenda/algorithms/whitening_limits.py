"""What whitening cannot serve, and what to know before it: from public facts alone."""

from __future__ import annotations

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.spectrum import STEEPER_RATE
from tacenda.algorithms.whitening import DIAGONAL, MOST_FEATURES, Whitening
from tacenda.errors import UnsupportedError
from tacenda.questions.facts import Facts

FAR = 4.0  # the largest count over the largest mean for which steps are planned


def check_whitening(whitening: Whitening, algorithm: Algorithm, facts: Facts) -> None:
    """Refuse a preparation that does not fit the problem or the algorithm."""
    k, width, rank = facts.constants, facts.n_features, whitening.rank
    diagonal = whitening.kind_for(width) == DIAGONAL
    if k.regulariser.l1 > 0 and k.strength > 0:
        raise UnsupportedError(
            f"Whitening maps the model, and the regulariser {k.regulariser.name!r} depends on "
            f"its coordinates; use 'l2' or 'none', or leave prepare out."
        )
    if width > MOST_FEATURES and not diagonal:
        raise UnsupportedError(
            f"Whitening.kind 'full' releases {width} x {width} numbers; it serves up to "
            f"{MOST_FEATURES} features. Use kind='diagonal', or reduce the features first."
        )
    if rank is not None and diagonal:
        raise UnsupportedError(
            f"Whitening.rank is of a full map, and {width} features, more than "
            f"{MOST_FEATURES}, get a diagonal one; leave it out, or reduce the features first."
        )
    if rank is not None and rank < width and getattr(algorithm, "noise", "") == "l2-laplace":
        raise UnsupportedError(
            f"Whitening.rank must be left out for {algorithm.title}, whose noise is "
            "planned for models of full length; or use noise='gaussian'."
        )


def whitening_advice(whitening: Whitening, facts: Facts) -> list[str]:
    """Say what the map may cost on these records."""
    loss, width, found = facts.constants.loss, facts.n_features, []
    if loss.predicts == "log-rate" and loss.label_range[1] >= FAR * STEEPER_RATE:
        found.append(
            f"The largest count is {loss.label_range[1]:g} times the typical one, and steps "
            f"are planned for a mean of up to {STEEPER_RATE:g} times it: if the mean may be "
            "larger, declare a larger typical count (typical_count, or typical under [label] "
            "of a schema)."
        )
    if whitening.kind is None and whitening.kind_for(width) == DIAGONAL:
        found.append(
            f"{width} features are more than {MOST_FEATURES}: only their mean "
            "squares are released, each is scaled by itself, and what goes together stays "
            "together, which takes more rounds. Whitening(kind='diagonal') says so by name."
        )
    return found
