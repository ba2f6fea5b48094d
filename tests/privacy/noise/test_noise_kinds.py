"""Kinds of noise: an enum inside, the plain words outside,
and the same names of streams for both."""

from __future__ import annotations

import numpy as np
import pytest

from tacenda.errors import InputError
from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.bounded import ALL_RECORDS, seal
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import ScaledPlan, price
from tacenda.privacy.secrets.question import digest
from tacenda.runtime.rehearsal import Notebook


def test_words_and_members_are_one() -> None:
    for word in ("gaussian", "correlated", "l2-laplace"):
        kind = NoiseKind.added(word)
        assert kind == word
        assert digest("release", kind) == digest("release", word)


@pytest.mark.parametrize("word", ["objective", "gausian", "", None])
def test_what_cannot_be_added_to_a_value_is_refused(word: str) -> None:
    with pytest.raises(
        InputError, match="noise must be one of 'gaussian', 'correlated', 'l2-laplace'"
    ):
        NoiseKind.added(word)


def test_a_misspelt_noise_is_refused_in_the_rehearsal() -> None:
    """Before any record is read, and never priced as if it were Gaussian."""
    value = seal(np.zeros((2, 1)), np.ones(2))
    with pytest.raises(InputError, match="Did you mean 'gaussian'"):
        Notebook(1, np.ones(1)).release(value, 1, 0, "gausian", None)


def test_the_price_goes_by_the_kind() -> None:
    plan = ScaledPlan(np.ones(2), np.ones(3), np.full(2, 0.5), 1)
    kinds = {
        "gaussian": events.Gaussian,
        "correlated": events.CorrelatedGaussian,
        "l2-laplace": events.L2Laplace,
    }
    for word, event in kinds.items():
        site = Site(1, 1.0, 4, NoiseKind.added(word), np.ones(2), ALL_RECORDS)
        assert price(plan, site)[0].kind is event
