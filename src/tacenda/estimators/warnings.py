"""What the estimators warn about: undeclared bounds, searches that spend budget, and noise above
all that the records can say."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from tacenda.errors import DeclarationWarning, WeakPrivacyWarning
from tacenda.planning.advice import noise_advice
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts

__all__ = [
    "BudgetWarning",
    "DeclarationWarning",
    "WeakPrivacyWarning",
    "in_a_search",
    "warn_of_bounds",
    "warn_of_counts",
    "warn_of_curves",
    "warn_of_noise",
    "warn_of_residuals",
    "warn_of_search",
]


class BudgetWarning(UserWarning):
    """A fit is one of several on the same records, and all of them spend."""


def in_a_search() -> bool:
    """Whether scikit-learn's model selection (a grid search, cross-validation)
    is what called fit."""
    frame = sys._getframe(1)
    while frame is not None:
        where = Path(frame.f_code.co_filename).parts[-3:]
        if where[:2] == ("sklearn", "model_selection"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def warn_of_search(epsilon: object, ledger: object, dataset: object) -> None:
    """One sentence on what a search costs."""
    if ledger is None:
        booked = (
            "Pass ledger='file.db' and dataset='name' to have each fit charged and refused "
            "when the budget is spent."
        )
    elif dataset is None:
        booked = (
            "Pass dataset='name' too: by default each part of the records has an account of its "
            "own, and the fits never add up."
        )
    else:
        booked = "Each fit is charged to the ledger."
    warnings.warn(
        "This fit is one of a search or cross-validation: "
        f"every fit spends its own epsilon ({epsilon}) on the records it sees, "
        "and privacy_ states one fit only, not the search; the scores are not private at all. "
        + booked,
        BudgetWarning,
        stacklevel=4,
    )


def warn_of_bounds(data_norm: float) -> None:
    """Said of every fit without declared bounds, whatever the data are,
    so that it tells nothing about them."""
    warnings.warn(
        f"bounds is not declared: rows longer than data_norm={data_norm:g} are shortened to it, in "
        "training and in prediction. Declare bounds=(low, high) from public knowledge, or "
        "bounds='norm' if this is what you want.",
        DeclarationWarning,
        stacklevel=4,
    )


def warn_of_curves(low: float, high: float) -> None:
    """Said of every additive fit without declared bounds."""
    warnings.warn(
        f"bounds is not declared: all numbers are taken to lie in [{low:g}, {high:g}], and others "
        "are clipped to it. Declare bounds={column: (low, high)} from public knowledge.",
        DeclarationWarning,
        stacklevel=5,
    )


def warn_of_counts(most: float, declared: bool, mean: float, lost: float, proposed: float) -> None:
    """Said of a fit of counts whose bound is not declared or forecast to cut much, from public
    numbers alone."""
    said = f"count_bound={most:g} cuts counts."
    if not declared:
        said = f"count_bound is not declared: counts are cut to {most:g}."
    if proposed > most:
        said += (
            f" Where {mean:g} are expected (twice typical_count) that takes about "
            f"{100 * lost:.2g} % off the mean; {proposed:g} would take less than 0.1 %."
        )
    warnings.warn(
        f"{said} Declare the largest plausible count from public knowledge.",
        DeclarationWarning,
        stacklevel=4,
    )


def warn_of_residuals(clip: float, most: float, mean: float, lost: float) -> None:
    """Said of a fit of counts with a long tail, of which the bound on gradients cuts much."""
    warnings.warn(
        f"clip_norm={clip:g} cuts residuals above {clip * most:g} counts: where {mean:g} are "
        f"expected (twice typical_count), with this dispersion, that takes up to {100 * lost:.2g} "
        f"% off the mean. clip_norm=1 cuts none, for {1 / clip:.2g} times the noise.",
        DeclarationWarning,
        stacklevel=4,
    )


def warn_of_noise(facts: Facts, privacy: Privacy) -> None:
    """Said where the noise that the budget asks for is larger than what all records together can
    say; from public numbers alone."""
    for sentence in noise_advice(facts, privacy):
        warnings.warn(sentence, WeakPrivacyWarning, stacklevel=4)
