"""Totals that neighbours hand over to a member who lacks them.

    take(frame)     BadFrame where the bytes are not those that the root has signed
    find(claim)     the total with the digest that the members' votes name, under their claim

A total is used only if the members have agreed on it (`membership.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable

from tacenda_node.protocol.frames import BadFrame, Claim, Total, replaced
from tacenda_node.protocol.signed_rows import digest

MOST_TOTALS = 4  # that wait to be used


class HandedTotals:
    """The latest few of them, by digest.

    is_roots: whether the root of a claim's view has signed it; None if the view is unknown.
    """

    def __init__(self, is_roots: Callable[[Claim], bool | None]) -> None:
        self._is_roots = is_roots
        self._totals: dict[bytes, Total] = {}

    def take(self, frame: Total) -> bool:
        """Keep a total; True if it was new, and is to be passed on."""
        if digest(frame) != frame.claim.digest or self._is_roots(frame.claim) is False:
            raise BadFrame("a total that no root has signed.")
        fresh = frame.claim.digest not in self._totals
        if len(self._totals) >= MOST_TOTALS and fresh:
            self._totals.pop(next(iter(self._totals)))
        self._totals[frame.claim.digest] = frame
        return fresh

    def find(self, claim: Claim) -> Total | None:
        """The bytes are the giver's; whose they are and of which round, the votes say."""
        found = self._totals.get(claim.digest)
        return None if found is None else replaced(found, claim=claim)
