"""Totals that neighbours hand over to a member who lacks them.

    take(peer, frame)   BadFrame where the bytes are not those that the root has signed, or no row
    find(claim)         the total with the digest that the members' votes name, under their claim

A total is used only if the members have agreed on it (`membership.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacenda.runtime.places import Form
from tacenda_node.protocol.frames import BadFrame, Claim, Total, replaced, rows_of
from tacenda_node.protocol.signed_rows import digest

MOST_TOTALS = 4  # of one neighbour, that wait to be used: nobody can push out what others gave


class HandedTotals:
    """The latest few of each neighbour, by digest.

    is_roots: whether the root of a claim's view has signed it; None if the view is unknown. forms:
    length and type of a row in each place (round, call). radius: the contract's, as for rows that
    come down the tree: a root may sign any numbers.
    """

    def __init__(
        self,
        is_roots: Callable[[Claim], bool | None],
        forms: Mapping[tuple[int, int], Form],
        radius: float,
    ) -> None:
        self._is_roots, self._forms, self._radius = is_roots, forms, radius
        self._totals: dict[str, dict[bytes, Total]] = {}

    def take(self, peer: str, frame: Total) -> bool:
        """Keep a total; True if it was new."""
        claim, given = frame.claim, self._totals.setdefault(peer, {})
        form = self._forms.get((claim.round, claim.call))
        if form is None or digest(frame) != claim.digest or self._is_roots(claim) is False:
            raise BadFrame("a total that no root has signed.")
        rows_of(frame, *form, self._radius)
        fresh = claim.digest not in given
        if len(given) >= MOST_TOTALS and fresh:
            given.pop(next(iter(given)))
        given[claim.digest] = frame
        return fresh

    def find(self, claim: Claim) -> Total | None:
        """The bytes are the giver's; whose they are and of which round, the votes say."""
        known = (given.get(claim.digest) for given in self._totals.values())
        found = next((total for total in known if total is not None), None)
        return None if found is None else replaced(found, claim=claim)
