"""Totals that neighbours hand over: only what a root has signed, and only a few."""

from __future__ import annotations

import numpy as np
import pytest

from tacenda_node.protocol import frames
from tacenda_node.protocol.handed_totals import MOST_TOTALS, HandedTotals
from tacenda_node.protocol.signed_rows import digest


def total(value: float, root: str = "m0") -> frames.Total:
    frame = frames.rows_frame(0, 1, 2, np.full((1, 4), value))
    claim = frames.Claim(root, 0, 1, 2, digest(frame), "")
    return frames.Total(claim, frame.dtype, frame.shape, frame.data)


def totals() -> HandedTotals:
    return HandedTotals(lambda claim: claim.member == "m0")


def test_a_total_is_new_once_and_found_under_the_votes_claim() -> None:
    handed, one = totals(), total(1.0)
    assert handed.take(one) and not handed.take(one)
    elsewhere = frames.replaced(one.claim, view=3)
    found = handed.find(elsewhere)
    assert found is not None and (found.claim, found.data) == (elsewhere, one.data)
    assert handed.find(total(2.0).claim) is None


def test_other_bytes_or_another_signer_are_refused() -> None:
    handed, one = totals(), total(1.0)
    for false in (frames.replaced(one, data=total(2.0).data), total(1.0, "m1")):
        with pytest.raises(frames.BadFrame, match="no root has signed"):
            handed.take(false)
    assert handed.find(one.claim) is None


def test_a_flood_keeps_the_latest_few() -> None:
    handed, many = totals(), [total(float(k)) for k in range(MOST_TOTALS + 2)]
    assert all(handed.take(one) for one in many)
    kept = [handed.find(one.claim) is not None for one in many]
    assert kept == [False, False] + [True] * MOST_TOTALS
