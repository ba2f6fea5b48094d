"""Totals that neighbours hand over: only what a root has signed, and only a few."""

from __future__ import annotations

import numpy as np
import pytest

from tacenda.runtime.places import Form
from tacenda_node.protocol import frames
from tacenda_node.protocol.handed_totals import MOST_TOTALS, HandedTotals
from tacenda_node.protocol.signed_rows import digest

RADIUS = 1e9  # of a contract that says nothing else


def total(value: float, root: str = "m0", width: int = 4, call: int = 2) -> frames.Total:
    frame = frames.rows_frame(0, 1, call, np.full((1, width), value))
    claim = frames.Claim(root, 0, 1, call, digest(frame), "")
    return frames.Total(claim, frame.dtype, frame.shape, frame.data)


def of_groups(rows: list[float], *makers: str) -> frames.Total:
    """A total that joins one sum of each group, with what the groups' roots have signed."""
    whole = frames.rows_frame(0, 1, 5, np.array([rows]))
    claim = frames.Claim("m0", 0, 1, 5, digest(whole), "")
    parts = []
    for g, maker in enumerate(makers):
        part = frames.rows_frame(0, 1, 5 - len(makers) + g, np.array([rows[2 * g : 2 * g + 2]]))
        parts.append(frames.Claim(maker, 0, 1, part.call, digest(part), "signed"))
    return frames.Total(claim, whole.dtype, whole.shape, whole.data, parts)


def test_a_total_of_groups_needs_the_signatures_of_their_roots() -> None:
    """The root of the whole tree has made none of the groups' sums but its own."""
    forms, makers = {(1, 5): Form(4, np.dtype(float))}, ["m1", "m2"]
    for false in (
        of_groups([1.0, 2.0, 3.0, 4.0]),
        of_groups([1.0, 2.0, 3.0, 4.0], "m1"),
        of_groups([1.0, 2.0, 3.0, 4.0], "m2", "m1"),
        frames.replaced(of_groups([1.0, 2.0, 3.0, 5.0]), parts=of_groups([1.0] * 4, *makers).parts),
        of_groups([1.0, 2.0, 3.0, 4.0], "m1", "m2", "m3"),
    ):
        handed = HandedTotals(lambda _: True, forms, RADIUS, lambda _: makers, lambda _: True)
        handed.take("m0", false)
        assert handed.find(false.claim) is None
        handed.take("m3", true := of_groups([1.0, 2.0, 3.0, 4.0], *makers))
        assert handed.find(true.claim) == true
        elsewhere = frames.replaced(true.claim, view=1)
        assert handed.find(elsewhere) is None, "the sums are of another view"
    unsigned = HandedTotals(lambda _: True, forms, RADIUS, lambda _: makers, lambda _: False)
    unsigned.take("m3", true)
    assert unsigned.find(true.claim) is None


def test_a_row_beside_other_sums_of_the_groups_is_a_proof() -> None:
    """Only if the root has signed the row, and each group's root the sum that is shown."""
    forms, makers = {(1, 5): Form(4, np.dtype(float))}, ["m1", "m2"]
    true, other = (of_groups([1.0, 2.0, 3.0, x], *makers) for x in (4.0, 5.0))
    false = frames.replaced(other, parts=true.parts)

    def judged(row: frames.Total, *, root: bool | None = True, holds: bool = True) -> bool:
        return HandedTotals(
            lambda _: root, forms, RADIUS, lambda _: makers, lambda _: holds
        ).is_false(row)

    assert judged(false) and not judged(true) and not judged(other)
    assert not judged(false, root=False) and not judged(false, root=None)
    assert not judged(false, holds=False)
    assert not judged(frames.replaced(false, data=true.data)), "other bytes than were signed"
    assert not judged(frames.replaced(false, parts=false.parts[::-1]))
    assert not judged(frames.replaced(false, parts=[]))


def totals() -> HandedTotals:
    forms = {(1, 2): Form(4, np.dtype(float))}
    return HandedTotals(lambda claim: claim.member == "m0", forms, RADIUS)


def test_a_total_is_new_once_and_found_under_the_votes_claim() -> None:
    handed, one = totals(), total(1.0)
    assert handed.take("m1", one) and not handed.take("m1", one)
    elsewhere = frames.replaced(one.claim, view=3)
    found = handed.find(elsewhere)
    assert found is not None and (found.claim, found.data) == (elsewhere, one.data)
    assert handed.find(total(2.0).claim) is None


def test_other_bytes_or_another_signer_are_refused() -> None:
    handed, one = totals(), total(1.0)
    other = frames.replaced(one, data=total(2.0).data)
    for false in (other, total(1.0, "m1"), total(1.0, call=3)):
        with pytest.raises(frames.BadFrame, match="no root has signed"):
            handed.take("m1", false)
    assert handed.find(one.claim) is None


def test_a_flood_keeps_the_latest_few() -> None:
    handed, many = totals(), [total(float(k)) for k in range(MOST_TOTALS + 2)]
    assert all(handed.take("m1", one) for one in many)
    kept = [handed.find(one.claim) is not None for one in many]
    assert kept == [False, False] + [True] * MOST_TOTALS
    assert handed.take("m2", many[0])
    for one in many:
        handed.take("m1", one)
    assert handed.find(many[0].claim) is not None, "what m2 gave is not pushed out by m1"


def test_a_total_that_is_no_row_of_its_place_is_refused() -> None:
    """Signed by the root, but longer, not finite or beyond the radius: whoever waits for it does
    not use it."""
    handed, beyond = totals(), float(np.nextafter(RADIUS, np.inf))
    assert handed.take("m0", total(-RADIUS))
    for false in (total(1.0, width=8), total(np.nan), total(1e308), total(-beyond)):
        with pytest.raises(frames.BadFrame, match="rows"):
            handed.take("m0", false)
        assert handed.find(false.claim) is None
